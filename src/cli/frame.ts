import { type FrameSource, findLastFrame } from "../connect/frames.ts";
import { openServices } from "../connect/services.ts";
import { asVidgenError, VidgenError } from "../errors.ts";
import type { Context } from "./context.ts";
import { type FromLine, findFrameSource } from "./earlier.ts";

type Times = { timeoutMs: number; intervalMs: number | undefined };

/** Takes the last frame of what `--from` names. The services that have its video are closed again: the start opens its own. */
export async function takeFrame(
  typed: string,
  { line, ...times }: Times & { line: FromLine },
  { io, output }: Context,
) {
  const services = await openServices({ output }, io);
  try {
    const source = await findFrameSource(typed, line, services, io);
    const onFetch = () => output.note(`Downloading the video of ${nameOf(source)} for its last frame.`);
    const frame = await findLastFrame(source, { ...times, signal: io.signal, onFetch }, io);
    if (frame.isNearlyOneColor)
      output.note(
        `The last frame of ${nameOf(source)} has nearly one colour, as after a fade: the new video begins with that.`,
      );
    return { path: frame.path, id: source.id };
  } catch (error) {
    const { code, message, ...details } = asVidgenError(error);
    if (message.includes("Nothing was sent")) throw error;
    throw new VidgenError(code, `${message} Nothing was sent, nothing was charged.`, { ...details, cause: error });
  } finally {
    await services.close(false);
  }
}

function nameOf(source: FrameSource): string {
  return "file" in source ? source.file : source.id;
}
