import { dirname, join } from "node:path";
import { systemReason, VidgenError } from "../../errors.ts";
import type { Disk, Io } from "../../io.ts";
import { isRecord, parseJson } from "../../protocol/json.ts";
import type { WireGeneration } from "../../protocol/schema.ts";
import { readCost } from "../../protocol/schema.ts";
import { redactValue } from "../http/redaction.ts";
import type { Entry } from "../ledger/history.ts";
import { isExistsError, kindOf, renameNew } from "./files.ts";
import { infoPath } from "./output-path.ts";
import { wordsOf } from "./target.ts";

/** What is known of a generation whose video is saved. */
export type InfoSources = {
  id: string;
  /** What the journal knows. */
  entry: Entry | undefined;
  /** What the service says. */
  generation: WireGeneration | undefined;
  /** What the service has stated that it cost; see `creditsOf`. */
  credits?: number | undefined;
};

type WriteOptions = {
  /** Replaces a file that holds anything else, too. */
  overwrite?: boolean | undefined;
  /** Removes what is secret from a text. */
  redact(text: string): string;
};

/**
 * Puts the info file of `--write-info-json` beside a saved video: `fox.mp4.json` with the request as the journal keeps it, the times, the
 * credits and the cost in USD; null is what nobody knows. Replaces an earlier info of the same generation, and anything else only with `overwrite`. Throws
 * `output` when it cannot be written.
 */
export async function writeInfo(
  video: string,
  known: InfoSources,
  { overwrite, redact }: WriteOptions,
  { disk, uuid }: Pick<Io, "disk" | "uuid">,
): Promise<void> {
  const path = infoPath(video);
  const temporary = join(dirname(path), `.vidgen-${uuid()}.part`);
  try {
    const mayReplace = (await hasInfo(video, known.id, disk)) || (overwrite && (await kindOf(path, disk)) === "file");
    await writeNew(temporary, `${JSON.stringify(redactValue(infoOf(known), redact), null, 2)}\n`, disk);
    await (mayReplace ? disk.rename(temporary, path) : renameNew(temporary, path, disk));
  } catch (error) {
    await disk.rm(temporary, { force: true }).catch(() => {});
    throw infoError(error, video);
  }
}

/** Whether the info file beside a video is there and about this generation. */
export async function hasInfo(video: string, id: string, disk: Disk): Promise<boolean> {
  const path = infoPath(video);
  const found = await disk.stat(path).catch(() => undefined);
  if (!found?.isFile() || found.size > maxInfoBytes) return false;
  const json = parseJson(await readText(path, disk).catch(() => ""));
  return isRecord(json) && json.id === id;
}

/** A longer file is none of ours: the command line that a request comes from is shorter. */
const maxInfoBytes = 10_000_000;

async function readText(path: string, disk: Disk): Promise<string> {
  const file = await disk.open(path, "r");
  try {
    const { size } = await file.stat();
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size), 0, size, 0);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await file.close();
  }
}

/** Resolves when the file is on the disk. */
async function writeNew(path: string, text: string, disk: Disk): Promise<void> {
  const file = await disk.open(path, "wx");
  try {
    const bytes = Buffer.from(text);
    for (let done = 0; done < bytes.length; ) done += (await file.write(bytes, done)).bytesWritten;
    await file.sync();
  } finally {
    await file.close();
  }
}

function infoOf({ id, entry, generation, credits }: InfoSources) {
  const { model, prompt } = wordsOf(entry, generation);
  return {
    id,
    model: model ?? null,
    prompt: prompt ?? null,
    request: entry?.request ?? null,
    started_at: entry?.at ?? null,
    created_at: generation?.created_at ?? null,
    completed_at: generation?.completed_at ?? (entry && endOf(entry)) ?? null,
    credits: credits ?? null,
    cost: (generation && readCost(generation)) ?? entry?.cost ?? null,
    remaining_credits: entry?.remaining_credits ?? null,
  };
}

/** When it ended, where this machine polled it until then: the service tells that to callbacks alone. */
function endOf({ at, took_ms }: Entry): string | undefined {
  return took_ms === undefined ? undefined : new Date(Date.parse(at) + took_ms).toISOString();
}

function infoError(cause: unknown, video: string): VidgenError {
  const path = infoPath(video);
  const saved = `The video is saved as ${video}, but its info file is not`;
  if (!isExistsError(cause)) return new VidgenError("output", `${saved}: ${path}: ${systemReason(cause)}.`, { cause });
  const hint = `Move ${path} away, or add --overwrite to replace both.`;
  return new VidgenError("output", `${saved}: ${path} exists and belongs to another generation.`, { hint, cause });
}
