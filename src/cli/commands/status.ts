import { failedError, readVideoUrl } from "../../client/follow.ts";
import { lookPatiently } from "../../client/look.ts";
import { errorText, type Generation } from "../../client/schema.ts";
import { usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { openSession, type Session } from "../context.ts";
import type { Given } from "../program.ts";
import { plainLine } from "../terminal/output.ts";

export type StatusOptions = Given & {
  id: string | undefined;
  exitStatus?: boolean;
  local?: boolean;
  baseUrl?: string;
};

/** One look at a generation. Prints its id, status, and its address when there is one. */
export async function status(options: StatusOptions, io: Io): Promise<void> {
  if (options.id === "") throw usage("The id is empty.");
  const session = await openSession(options, io);
  options.defer(session.close);
  const id = await (options.id === undefined ? session.newestRunning() : session.fullId(options.id));
  const generation = await lookPatiently(session.client, id, io, io.signal, options.output.note).catch(
    async (error) => {
      throw await session.whereElse(error, id);
    },
  );
  await writeDown(generation, session);
  const fields = [generation.id, generation.status, readVideoUrl(generation)].filter((field) => field !== undefined);
  await options.output.result(fields.map(plainLine).join("\t"), generation);
  if (generation.status === "failed")
    options.output.note(errorText(generation.error) ?? "The service gives no reason.");
  if (options.exitStatus) throwStatus(generation);
}

/** So that `list` knows, for a generation that this machine has started. */
async function writeDown(generation: Generation, session: Session): Promise<void> {
  const { id, status: state } = generation;
  if ((state !== "completed" && state !== "failed") || (await session.find(id))?.status !== "processing") return;
  const line =
    state === "completed"
      ? ({ kind: state, id } as const)
      : ({ kind: state, id, reason: failedError(id, generation).message } as const);
  await session.journal.append(line).catch(() => {});
}

function throwStatus(generation: Generation): void {
  if (generation.status === "completed") return;
  if (generation.status === "failed") throw failedError(generation.id, generation);
  throw new VidgenError("pending", "Still running.", { id: generation.id });
}
