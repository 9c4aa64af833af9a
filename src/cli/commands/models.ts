import { models as all, defaultModel } from "../../client/models.ts";
import type { Io } from "../../io.ts";
import { findModelSetting } from "../settings.ts";
import type { Output } from "../terminal/output.ts";

/** Prints the models and what each is for (interface section 2.2). */
export async function models({ output }: { output: Output }, io: Io): Promise<void> {
  const preset = (await findModelSetting(io)) ?? defaultModel;
  const width = Math.max(...all.map(({ id }) => id.length));
  const lines = all.map(
    ({ id, characteristic }) => `${id.padEnd(width)}  ${characteristic}${id === preset ? " (default)" : ""}`,
  );
  await output.result(
    lines.join("\n"),
    all.map(({ id, characteristic }) => ({ id, characteristic, default: id === preset })),
  );
}
