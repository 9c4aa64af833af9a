import { createReadStream } from "node:fs";
import { resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { pathToFileURL } from "node:url";
import { checkTemplate } from "../../client/naming.ts";
import { systemCode, usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import type { Collected } from "../context.ts";
import { openPlace } from "./opener.ts";
import type { Output } from "./output.ts";

export type PrintOptions = {
  /** `-o` as it was typed. */
  place: string | undefined;
  isHere: boolean;
  /** Whether it is to be opened, too. */
  open: boolean;
  /** What else `--json` shows. */
  extra?: object;
  output: Output;
};

/** The result on stdout: the video itself for `-o -`, else the saved file, else the address. */
export async function printCollected(collected: Collected, options: PrintOptions, io: Io): Promise<void> {
  const { file, videoUrl } = collected;
  if (options.place === "-" && file !== undefined) return streamTo(io.stdout, file);
  const document = { ...options.extra, ...describe(collected, options.isHere) };
  await options.output.result(file ?? videoUrl, document, hrefOf(collected, options, io));
  if (options.open) await open(collected, options, io);
}

type SavedOptions = Pick<PrintOptions, "open" | "extra" | "output">;

/** A video that an earlier run has saved: its file, for which the service need not be asked. */
export async function printSaved(id: string, file: string, options: SavedOptions & { io: Io }): Promise<void> {
  const { open: isOpened, extra, output, io } = options;
  const place = { file, videoUrl: "" };
  await output.result(file, { ...extra, ...describeSaved(id, file) }, hrefOf(place, { isHere: false }, io));
  if (isOpened) await open(place, { isHere: false, output }, io);
}

/** The same as `--json` shows it. */
export function describeSaved(id: string, file: string): object {
  return { id, status: "completed", file };
}

type Place = Pick<Collected, "file" | "videoUrl">;

/** Where a click leads; nowhere when the address ends with this process, or the file is on another machine than the one that shows it. */
function hrefOf({ file, videoUrl }: Place, { isHere }: Pick<PrintOptions, "isHere">, { env }: Io): string | undefined {
  if (file === undefined) return isHere ? undefined : videoUrl;
  return env.SSH_CONNECTION || env.SSH_TTY ? undefined : pathToFileURL(resolve(file)).href;
}

/** What is not opened is there all the same. */
async function open(
  { file, videoUrl }: Place,
  { isHere, output }: Pick<PrintOptions, "isHere" | "output">,
  io: Io,
): Promise<void> {
  const isGone = file === undefined && isHere;
  const reason = isGone ? "its address ends with this command" : await openPlace(file ? resolve(file) : videoUrl, io);
  if (reason !== undefined) output.note(`Not opened: ${reason}.`);
}

/** A completed generation as `--json` shows it; addresses that end with this process are left out. */
export function describe({ generation, videoUrl, file }: Collected, isHere: boolean): object {
  const urls = isHere ? { video_url: null, thumbnail_url: null } : { video_url: videoUrl };
  return { ...generation, ...urls, ...(file === undefined ? {} : { file }) };
}

type CheckOptions = { output: Output; open?: boolean };

/** Throws `usage` for a place that no video can go to, such as a stdout that is a terminal. */
export function checkPlace(place: string | undefined, { output, open }: CheckOptions, io: Io): void {
  if (place === "") throw usage("-o is empty.");
  if (place !== undefined) checkTemplate(place);
  if (place !== "-") return;
  if (open) throw usage("With -o - there is nothing for --open to open.");
  if (output.json) throw usage("--json and -o - both want stdout.");
  if (io.stdout.isTTY) throw usage("-o - sends the video to stdout, which is a terminal: pipe it, or name a file.");
}

async function streamTo(stdout: Io["stdout"], file: string): Promise<void> {
  try {
    await pipeline(createReadStream(file), stdout, { end: false });
    // That was handed over to the stream; what follows it is told when all of it has gone.
    await new Promise<void>((resolve, reject) => stdout.write("", (error) => (error ? reject(error) : resolve())));
  } catch (error) {
    const code = systemCode(error);
    if (code === "EPIPE" || code === "ERR_STREAM_PREMATURE_CLOSE") return;
    throw new VidgenError("output", `Cannot write the video to stdout: ${code ?? error}.`, { cause: error });
  }
}
