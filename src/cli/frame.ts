import { isSameService } from "../client/ledger/same-service.ts";
import { findLastFrame } from "../connect/frames.ts";
import { openServices } from "../connect/services.ts";
import type { Session, SessionOptions } from "../connect/session.ts";
import { asVidgenError, VidgenError } from "../errors.ts";
import type { Context } from "./context.ts";
import type { NamedVideo } from "./earlier.ts";

type TakeFrameOptions = {
  timeoutMs: number;
  intervalMs: number | undefined;
  /** The service of the start; `undefined` for a dry run. */
  session: Session | undefined;
  /** The service of the generation that is repeated. */
  parentUrl: string | undefined;
  /** The service to ask about an id that the journal does not have. */
  service: Pick<SessionOptions, "local" | "baseUrl" | "engine" | "engineTimeout">;
};

/** Takes the last frame of a video, and returns its path. Closes the service that it opens. */
export async function takeFrame(
  video: NamedVideo,
  { session, parentUrl, service, ...times }: TakeFrameOptions,
  { io, output }: Context,
): Promise<string> {
  const { base_url: startedAt } = ("entry" in video && video.entry) || {};
  // A generation in the journal is asked for at its own service, any other id at the service of the start.
  const services = await openServices({ ...(startedAt === undefined ? service : {}), output }, io);
  const isOfStart = session && (startedAt === undefined || isSameService(startedAt, session.service.name));
  const open = () => (isOfStart ? Promise.resolve(session) : services.open(startedAt ?? parentUrl));
  const name = "file" in video ? video.file : video.id;
  try {
    const onDownload = () => output.note(`Downloading the video of ${name} for its last frame.`);
    const frame = await findLastFrame({ ...video, open }, { ...times, signal: io.signal, onDownload }, io);
    if (frame.isNearlyOneColor)
      output.note(
        `The last frame of ${name} has nearly one colour, as after a fade: the new video begins with that frame.`,
      );
    return frame.path;
  } catch (thrown) {
    const { code, message, hint, charged } = asVidgenError(thrown);
    // Without the id of that video, which is not the generation of the start.
    throw new VidgenError(code, message, { hint, charged, cause: thrown });
  } finally {
    await services.close(false);
  }
}
