import { dirname, join } from "node:path";
import { systemHint, systemReason, VidgenError } from "../../errors.ts";
import type { Disk, Io } from "../../io.ts";
import { isRecord, parseJson } from "../../protocol/json.ts";
import type { WireGeneration } from "../../protocol/schema.ts";
import { readCost } from "../../protocol/schema.ts";
import { redactValue } from "../http/redaction.ts";
import type { Entry } from "../ledger/history.ts";
import { isExistsError, kindOf, readWhole, renameNew } from "./files.ts";
import { infoPath } from "./output-path.ts";
import { namePartsOf } from "./target.ts";

/** The data for the info file of a saved video. */
export type InfoSources = {
  id: string;
  /** The generation's entry in the journal. */
  entry: Entry | undefined;
  /** The service's status reply. */
  generation: WireGeneration | undefined;
  /** The generation's stated cost in credits (see `shownCredits`). */
  credits?: number | undefined;
};

type WriteOptions = {
  /** Also replaces a file with other content. */
  overwrite?: boolean | undefined;
  /** Removes secrets from a text. */
  redact(text: string): string;
};

/**
 * Writes the info file of `--write-info-json` beside a saved video: `fox.mp4.json` with the recorded request,
 * the times, the credits and the cost in USD; unknown values are null. Replaces an info file of the same
 * generation, and other files only with `overwrite`. Throws `output` if it cannot be written.
 */
export async function writeInfo(
  video: string,
  sources: InfoSources,
  { overwrite, redact }: WriteOptions,
  { disk, uuid }: Pick<Io, "disk" | "uuid">,
): Promise<void> {
  const path = infoPath(video);
  const temporary = join(dirname(path), `.vidgen-${uuid()}.part`);
  try {
    const mayReplace = (await hasInfo(video, sources.id, disk)) || (overwrite && (await kindOf(path, disk)) === "file");
    await writeNew(temporary, `${JSON.stringify(redactValue(infoFieldsOf(sources), redact), null, 2)}\n`, disk);
    await (mayReplace ? disk.rename(temporary, path) : renameNew(temporary, path, disk));
  } catch (error) {
    await disk.rm(temporary, { force: true }).catch(() => {});
    throw infoError(error, video);
  }
}

/** Whether a video has an info file about this generation. */
export async function hasInfo(video: string, id: string, disk: Disk): Promise<boolean> {
  const path = infoPath(video);
  const found = await disk.stat(path).catch(() => undefined);
  if (!found?.isFile() || found.size > maxInfoBytes) return false;
  const text = await readWhole(path, disk).catch(() => "");
  const json = parseJson(text.toString());
  return isRecord(json) && json.id === id;
}

/** A larger file is not an info file, because a request comes from a command line, which is shorter. */
const maxInfoBytes = 10_000_000;

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

function infoFieldsOf({ id, entry, generation, credits }: InfoSources) {
  const { model, prompt } = namePartsOf(entry, generation);
  return {
    id,
    model: model ?? null,
    prompt: prompt ?? null,
    request: entry?.request ?? null,
    started_at: entry?.at ?? null,
    created_at: generation?.created_at ?? null,
    completed_at: generation?.completed_at ?? (entry && endTimeOf(entry)) ?? null,
    credits: credits ?? null,
    cost: (generation && readCost(generation)) ?? entry?.cost ?? null,
    remaining_credits: entry?.remaining_credits ?? null,
  };
}

/** When the generation ended, if this machine polled it until then. The service reports the time only to callbacks. */
function endTimeOf({ at, took_ms }: Entry): string | undefined {
  return took_ms === undefined ? undefined : new Date(Date.parse(at) + took_ms).toISOString();
}

function infoError(cause: unknown, video: string): VidgenError {
  const path = infoPath(video);
  const saved = `The video is saved as ${video}, but its info file is not`;
  if (!isExistsError(cause))
    return new VidgenError("output", `${saved}: ${path}: ${systemReason(cause)}.`, { hint: systemHint(cause), cause });
  const hint = `Move ${path} away, or add --overwrite to replace both.`;
  return new VidgenError("output", `${saved}: ${path} exists and belongs to another generation.`, { hint, cause });
}
