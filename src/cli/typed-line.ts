import { createHash } from "node:crypto";
import { hashFile } from "../client/ledger/content.ts";
import type { Entry } from "../client/ledger/history.ts";
import { type RecordedOutput, recordOutput } from "../client/ledger/identity.ts";
import type { Journal } from "../client/ledger/journal.ts";
import { type CommandLine, isSameLine } from "../client/ledger/line.ts";
import { type Earlier, findResumable, isSameOutput } from "../client/ledger/policy.ts";
import { isLocal } from "../client/ledger/same-service.ts";
import { findByCommand } from "../client/ledger/search.ts";
import type { Io } from "../io.ts";
import { fields, readOlderRatio, wireValue } from "../protocol/fields.ts";
import type { Context } from "./context.ts";
import { checkNotFolder, isVideoFile } from "./saved-file.ts";
import type { TypedStart } from "./start-flags.ts";

/** What decides which generations are started, besides the typed words and flags. */
type LineWords = {
  /** The text, from the argument, a file or stdin. */
  prompt: string | undefined;
  /** The origin of the service, or "local"; `undefined` for the service of the repeated generation. */
  service: string | undefined;
  /** The value of VIDGEN_MODEL if it gives the model: then it is a part of the command. */
  variableModel?: string | undefined;
};

/** A command line that starts generations. */
export type TypedLine = {
  line: CommandLine;
  earlier: Earlier;
  /** The output path by flag, setting or default; the local service has another default. */
  outputAt(atLocal: boolean): Promise<string | undefined>;
};

/**
 * The hash of a typed command, by which "last" keeps its meaning when the command is typed again
 * (`findOwnAttempt`). A file counts by its bytes, the prompt by its text, several models in any order,
 * "last", `@name` and `-` as these words. What vidgen.json adds does not count, nor do flags that change
 * neither the request nor the output path, such as --timeout.
 */
export async function hashLine(typed: TypedStart, words: LineWords, io: Io): Promise<string> {
  const { readImages } = await import("../client/request/images.ts");
  const { generation, flags, texts, images, models, count } = typed;
  const { from, set = [], preset, style } = flags;
  const values = fields.flatMap((field) => {
    const text = field.name === "model" ? texts.model && [...models].sort().join() : texts[field.name];
    if (text === undefined) return [];
    // As older versions read it, so that a line of theirs is recognized.
    return [[field.name, field.name === "aspectRatio" ? readOlderRatio(text) : wireValue(field, text)]];
  });
  const imagesByField: Record<string, readonly string[]> = {};
  for (const [name, list = []] of Object.entries(images)) {
    const files = list.filter((image) => !isWord(image));
    // The start itself reports an image that cannot be read.
    const bytes = await readImages(files).catch(() => files);
    imagesByField[name] = list.map((image) => (isWord(image) ? image : (bytes.shift() ?? image)));
  }
  const settingsByName = new Map(set.map((each) => [each.split("=", 1)[0], each]));
  // The order of these members is part of the hash.
  const line = {
    command: generation === undefined ? "generate" : "again",
    generation: await contentName(generation, io),
    prompt: words.prompt,
    from: await contentName(from, io),
    set: [...settingsByName.values()].sort(),
    preset,
    style,
    count,
    service: words.service,
    variableModel: words.variableModel,
    fields: values,
    images: imagesByField,
  };
  return createHash("sha256").update(JSON.stringify(line)).digest("base64url");
}

/** Whether an image is named by a word, whose meaning may change: a reference such as `@hero`, or `-` for stdin. */
function isWord(image: string): boolean {
  return image === "-" || image.startsWith("@");
}

/** The hash of a video file's content; any other word unchanged. */
async function contentName(word: string | undefined, { disk, signal, ...io }: Io): Promise<string | undefined> {
  if (word === undefined || !(await isVideoFile(word, { ...io, disk }))) return word;
  await checkNotFolder(word, { disk });
  const file = await disk.open(word, "r").catch(() => undefined);
  if (file === undefined) return word;
  const hash = await hashFile(file, signal).finally(() => file.close());
  return `sha256:${hash.digest("hex")}`;
}

/**
 * The earlier attempt of the same command that this line would resume. "last" keeps the meaning it had then,
 * because with a newer generation as "last" this would be another request, which would be paid for again.
 */
export async function findOwnAttempt(
  { line, earlier, outputAt }: TypedLine,
  journal: Pick<Journal, "scan">,
  { io, output }: Pick<Context, "io" | "output">,
): Promise<Entry | undefined> {
  const hashes = [line.hash, line.olderHash ?? []].flat();
  const entries = (await findByCommand(journal, { hashes })).filter((entry) => isSameLine(entry, line));
  if (entries.length === 0) return undefined;
  const recordedAt = async (atLocal: boolean): Promise<RecordedOutput> =>
    recordOutput(await outputAt(atLocal), output.redact, io.disk);
  const [local, other] = [await recordedAt(true), await recordedAt(false)];
  const isOutputOf = (entry: Entry) =>
    !(line.isPlaceTyped || entry.place_typed) || isSameOutput(entry, isLocal(entry) ? local : other);
  return findResumable(entries, { earlier, now: io.date(), isOutputOf });
}
