import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { defaultModel, models } from "../../client/models.ts";
import { withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import { findModelSetting } from "../settings.ts";

export function addModels(program: CommandUnknownOpts, context: Context): void {
  const command = program
    .command("models")
    .summary("list the models")
    .description("Lists the models and what each is good at.")
    .action(() => printModels(context));
  withDetails(command, { examples: ["vidgen models", "vidgen models --json"] });
}

/** Prints the models and what each is for (interface section 2.2). */
async function printModels({ io, output }: Context): Promise<void> {
  const preset = (await findModelSetting(io)) ?? defaultModel;
  const width = Math.max(...models.map(({ id }) => id.length));
  const lines = models.map(
    ({ id, characteristic }) => `${id.padEnd(width)}  ${characteristic}${id === preset ? " (default)" : ""}`,
  );
  await output.result(
    lines.join("\n"),
    models.map(({ id, characteristic }) => ({ id, characteristic, default: id === preset })),
  );
}
