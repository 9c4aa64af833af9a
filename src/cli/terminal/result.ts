import { createReadStream } from "node:fs";
import { isAbsolute, relative, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { pathToFileURL } from "node:url";
import { checkAddress, type Finished, saveLater } from "../../client/generation/attempt.ts";
import type { StartedEntry } from "../../client/ledger/policy.ts";
import { formatBytes } from "../../client/request/bytes.ts";
import { checkWindowsNames, isFolder } from "../../client/save/output-path.ts";
import { formatCost, formatTime } from "../../connect/format.ts";
import type { Session } from "../../connect/session.ts";
import { systemCode, usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { readCost } from "../../protocol/schema.ts";
import { isDataUrl } from "../../protocol/url.ts";
import { readVideoFacts, type VideoFacts } from "../../video/mp4.ts";
import { checkTemplate, findExtensionNote, findNoFolderNote } from "../../video/naming.ts";
import { openExternally } from "./opener.ts";
import type { Output } from "./output.ts";

/** The video that is the result of a command. */
export type Result = {
  /** The `--json` document. */
  document: object;
  /** The saved file; without one, the video is at `videoUrl`. */
  file: string | undefined;
  videoUrl: string;
  /** The URL, unless it stops working when the command ends. */
  durableUrl: string | undefined;
  /** Whether this command saved the file, or an earlier one did. */
  isNew: boolean;
  /** The cost that the service states, in US dollars. */
  cost?: number | undefined;
};

/**
 * The result of a run that ended without an error; `--json` leaves out URLs that stop working when this
 * process ends. Throws as `checkVideoUrl` does if the video was not saved.
 */
export function resultOf(
  finished: Finished,
  session: Pick<Session, "durableUrl">,
  output: Pick<Output, "redact">,
): Result {
  const { id } = finished.of;
  if (finished.kind === "found") {
    const { file } = finished;
    return { document: { id, status: "completed", file }, file, videoUrl: "", durableUrl: undefined, isNew: false };
  }
  const { generation, videoUrl } = finished;
  const file = finished.kind === "saved" ? finished.file : undefined;
  checkAddress(finished);
  if (file === undefined) checkVideoUrl(videoUrl, id, output);
  const isData = isDataUrl(videoUrl);
  const durableUrl = isData ? undefined : session.durableUrl(videoUrl);
  const noUrls = isData ? {} : { video_url: null, thumbnail_url: null };
  const urls = durableUrl === undefined ? noUrls : { video_url: durableUrl };
  const document = { ...generation, ...urls, ...(file === undefined ? {} : { file }) };
  return { document, file, videoUrl, durableUrl, isNew: true, cost: readCost(generation) };
}

/** Throws `rejected` for a URL that contains the API key: the key is never printed, and without it the URL does not work. */
export function checkVideoUrl(videoUrl: string, id: string, { redact }: Pick<Output, "redact">): void {
  if (redact(videoUrl) === videoUrl) return;
  const message = "The video is ready, but its URL contains your API key and is not printed. Save the video with -o.";
  throw new VidgenError("rejected", message, saveLater(id));
}

export type PrintOptions = {
  /** `-o` as it was typed. */
  outputPath: string | undefined;
  open: boolean;
  /** Further fields of the `--json` document. */
  extra?: object;
  /** Milliseconds since the start of the generation. */
  tookMs?: number | undefined;
  /** What the generation cost, if known. */
  credits?: number | undefined;
  /** The command that saves the video later. */
  saveCommand?: string | undefined;
  output: Output;
};

/**
 * Prints the result on stdout: the video itself for `-o -`, else the path of the saved file, else the URL.
 * For a person, also notes what was saved, or how to save it. Opens the video with `--open`.
 */
export async function printResult(result: Result, options: PrintOptions, io: Io): Promise<void> {
  const { document, file, videoUrl } = result;
  const { outputPath, open, extra, output } = options;
  if (outputPath === "-" && file !== undefined) return streamToStdout(file, io);
  await output.result(file ?? videoUrl, { ...extra, ...document }, { href: hrefOf(result, io) });
  const price = formatCost({ credits: options.credits, cost: result.cost });
  if (file !== undefined) output.note(await describeSaved(file, result, { ...options, price }, io));
  else if (price !== undefined) output.note(`Completed ${price}.`);
  if (file === undefined && options.saveCommand !== undefined && io.stdout.isTTY)
    output.note(`Save it with: ${options.saveCommand}`);
  const reason = open ? await openResult(result, io) : undefined;
  if (reason !== undefined) output.note(`Not opened: ${reason}.`);
}

type SavedFacts = { tookMs?: number | undefined; price: string | undefined };

/** Describes a saved video, such as "Saved fox.mp4 (5 s, 854x480, 334 kB) in 14 s for 10 credits", without what is unknown. */
async function describeSaved(file: string, { isNew }: Result, { tookMs, price }: SavedFacts, io: Io): Promise<string> {
  const facts = await readFacts(file, io).catch(() => []);
  const about = `${file}${facts.length === 0 ? "" : ` (${facts.join(", ")})`}`;
  if (!isNew) return `Already saved: ${about}`;
  const time = tookMs === undefined ? "" : ` in ${formatTime(Math.max(tookMs, 1_000))}`;
  return `Saved ${about}${time}${price === undefined ? "" : ` ${price}`}`;
}

/** The length, the size in pixels and the size in bytes of a video, as far as they can be read. */
async function readFacts(path: string, { disk }: Pick<Io, "disk">): Promise<string[]> {
  const file = await disk.open(path, "r");
  try {
    const { size } = await file.stat();
    const { seconds, width, height } = await readVideoFacts(file).catch((): VideoFacts => ({}));
    return [
      ...(seconds === undefined ? [] : [`${Number(seconds.toFixed(1))} s`]),
      ...(width === undefined ? [] : [`${width}x${height}`]),
      formatBytes(size),
    ];
  } finally {
    await file.close();
  }
}

/**
 * The link's URL; `undefined` if it stops working when this process ends, or if the terminal is on another
 * machine than the file.
 */
function hrefOf({ file, durableUrl }: Result, { env }: Io): string | undefined {
  if (file === undefined) return durableUrl;
  return env.SSH_CONNECTION || env.SSH_TTY ? undefined : pathToFileURL(resolve(file)).href;
}

/** Returns why the video was not opened; `undefined` if it was. */
async function openResult({ file, durableUrl }: Result, io: Io): Promise<string | undefined> {
  if (file !== undefined) return openExternally(resolve(file), io);
  return durableUrl === undefined ? "its URL is only valid while the command runs" : openExternally(durableUrl, io);
}

type CheckOptions = { output: Output; open?: boolean };

/** Throws `usage` for an output path that cannot be used, such as - when stdout is a terminal. */
export function checkOutputPath(outputPath: string | undefined, { output, open }: CheckOptions, io: Io): void {
  if (outputPath === "") throw usage("-o is empty.");
  if (outputPath !== undefined) {
    checkTemplate(outputPath);
    checkWindowsNames(outputPath, io.platform);
  }
  if (outputPath !== "-") return;
  if (open) throw usage("--open and -o - cannot be combined.");
  if (output.events) throw usage("--events and -o - cannot be combined: both write to stdout.");
  if (output.json) throw usage("--json and -o - cannot be combined: both write to stdout.");
  if (io.stdout.isTTY)
    throw usage("-o - writes the video to stdout, which is a terminal: pipe it, or save it to a file.");
}

/** Prints notes about an output path, before anything is paid. */
export async function noteOutputPath(
  outputPath: string | undefined,
  { note }: Pick<Output, "note">,
  { disk }: Pick<Io, "disk">,
): Promise<void> {
  if (outputPath === undefined) return;
  const text = findExtensionNote(outputPath) ?? findNoFolderNote(outputPath);
  if (text !== undefined && !(await isFolder(outputPath, disk))) note(text);
}

/** Throws `usage` if `--write-info-json` has no saved file to write beside. */
export function checkInfoPath(outputPath: string | undefined, { writeInfoJson }: { writeInfoJson?: boolean }): void {
  if (!writeInfoJson || (outputPath !== undefined && outputPath !== "-")) return;
  throw usage("--write-info-json writes a file beside the saved video: it needs -o with a file or a folder.");
}

/** How long to wait before the last byte is written, so that a reader that stops early is noticed. */
const lastByteDelayMs = 1_000;

/**
 * Writes a video to stdout. Throws `output`, also if the reader closes the pipe early, because then the video
 * is not delivered. A pipe buffers 64 kB, possibly the whole video, even if nobody reads it, and only the
 * next write fails when the reader has stopped, so the last byte is written a second after the others.
 */
async function streamToStdout(file: string, { stdout, disk, sleep, signal, hasReader = false }: Io): Promise<void> {
  // The pipeline ends when the stream has buffered the bytes; this callback is called when they are written.
  const written = () =>
    new Promise<void>((resolve, reject) => stdout.write("", (error) => (error ? reject(error) : resolve())));
  const send = async (range: { start?: number; end?: number }) => {
    await pipeline(createReadStream(file, range), stdout, { end: false });
    await written();
  };
  try {
    const last = (await disk.stat(file)).size - 1;
    if (last > 0) await send({ end: last - 1 });
    if (hasReader) await sleep(lastByteDelayMs, signal);
    await send({ start: last });
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    const code = systemCode(error) ?? String(error);
    const isClosed = ["EPIPE", "ERR_STREAM_PREMATURE_CLOSE", "ERR_STREAM_DESTROYED"].includes(code);
    const reason = isClosed ? "the reader closed the pipe" : code;
    throw new VidgenError("output", `Cannot write the video to stdout: ${reason}.`, { cause: error });
  }
}

/** The `--json` document of a resumed generation. */
export function earlierDocument({
  id,
  status,
  at,
  remaining_credits,
  request: { model, prompt },
}: StartedEntry): object {
  return { id, status, model, prompt, created_at: at, remaining_credits };
}

/** A path below the current folder, relative to it. */
export function displayPath(file: string): string {
  const near = relative("", file);
  return near.startsWith("..") || isAbsolute(near) ? file : near;
}
