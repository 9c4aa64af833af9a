import type { Entry } from "../client/ledger/history.ts";
import { type FrameSource, findLastFrame } from "../connect/frames.ts";
import { openServices } from "../connect/services.ts";
import type { SessionOptions } from "../connect/session.ts";
import { sayNothingSent } from "../errors.ts";
import type { Context } from "./context.ts";
import { findFrameSource } from "./earlier.ts";

type TakeFrameOptions = {
  timeoutMs: number;
  intervalMs: number | undefined;
  /** The attempt that this command resumes. */
  ownAttempt: Entry | undefined;
  /** The service of the generation that is repeated. */
  parentUrl: string | undefined;
  /** The service to ask about an id that the journal does not have. */
  service: Pick<SessionOptions, "local" | "baseUrl" | "engine" | "engineTimeout">;
};

/** Takes the last frame of the source that `--from` names. Closes the services that it opens, because the start opens its own. */
export async function takeFrame(
  typed: string,
  { ownAttempt, parentUrl, service, ...times }: TakeFrameOptions,
  { io, output }: Context,
) {
  // A generation in the journal is asked for at its own service, any other id at the service of the flags.
  const services = await openServices({ output }, io);
  const flaggedServices = await openServices({ ...service, output }, io);
  try {
    const found = await findFrameSource(typed, ownAttempt, services, io);
    const source = "file" in found || found.entry ? found : { ...found, open: () => flaggedServices.open(parentUrl) };
    const onDownload = () => output.note(`Downloading the video of ${sourceName(source)} for its last frame.`);
    const frame = await findLastFrame(source, { ...times, signal: io.signal, onDownload }, io);
    if (frame.isNearlyOneColor)
      output.note(
        `The last frame of ${sourceName(source)} has nearly one colour, as after a fade: the new video begins with that frame.`,
      );
    return { path: frame.path, id: source.id };
  } catch (error) {
    throw sayNothingSent(error);
  } finally {
    await services.close(false);
    await flaggedServices.close(false);
  }
}

function sourceName(source: FrameSource): string {
  return "file" in source ? source.file : source.id;
}
