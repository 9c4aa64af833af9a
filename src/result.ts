import { createReadStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { systemCode, usage, VidgenError } from "./errors.ts";
import type { Collected } from "./generations/collect.ts";
import { checkTemplate } from "./generations/template.ts";
import type { Io } from "./io.ts";
import type { Output } from "./output.ts";

export type PrintOptions = {
  /** `-o` as it was typed. */
  place: string | undefined;
  isHere: boolean;
  /** What else `--json` shows. */
  extra?: object;
  output: Output;
};

/** The result on stdout: the video itself for `-o -`, else the saved file, else the address. */
export async function printCollected(collected: Collected, options: PrintOptions, io: Io): Promise<void> {
  const { file, videoUrl } = collected;
  if (options.place === "-" && file !== undefined) return streamTo(io.stdout, file);
  await options.output.result(file ?? videoUrl, { ...options.extra, ...describe(collected, options.isHere) });
}

/** A completed generation as `--json` shows it; addresses that end with this process are left out. */
export function describe({ generation, videoUrl, file }: Collected, isHere: boolean): object {
  const urls = isHere ? { video_url: null, thumbnail_url: null } : { video_url: videoUrl };
  return { ...generation, ...urls, ...(file === undefined ? {} : { file }) };
}

/** Throws `usage` for a place that no video can go to, such as a stdout that is a terminal. */
export function checkPlace(place: string | undefined, output: Output, io: Io): void {
  if (place === "") throw usage("-o is empty.");
  if (place !== undefined) checkTemplate(place);
  if (place !== "-") return;
  if (output.json) throw usage("--json and -o - both want stdout.");
  if (io.stdout.isTTY) throw usage("-o - sends the video to stdout, which is a terminal: pipe it, or name a file.");
}

async function streamTo(stdout: Io["stdout"], file: string): Promise<void> {
  try {
    await pipeline(createReadStream(file), stdout, { end: false });
  } catch (error) {
    const code = systemCode(error);
    if (code === "EPIPE" || code === "ERR_STREAM_PREMATURE_CLOSE") return;
    throw new VidgenError("output", `Cannot write the video to stdout: ${code ?? error}.`, { cause: error });
  }
}
