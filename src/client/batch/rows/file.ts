import { isUtf8 } from "node:buffer";
import { extname } from "node:path";
import { Readable } from "node:stream";
import { systemReason, usage, VidgenError } from "../../../errors.ts";
import type { Io } from "../../../io.ts";
import { toUtf8 } from "../../../protocol/text.ts";
import { readAll, readChunks } from "../../request/input.ts";

export const formats = ["csv", "tsv", "jsonl", "json", "yaml", "txt"] as const;

export type Format = (typeof formats)[number];

/** The format from `--input-format`, else from the extension. Throws `usage` if it is unknown. */
export function findFormat(file: string, format: Format | undefined): Format {
  const extension = extname(file).slice(1).toLowerCase().replace("yml", "yaml");
  const found = format ?? formats.find((known) => known === extension);
  if (found) return found;
  const what = file === "-" ? "stdin needs --input-format" : `The extension of ${file} is not a known format`;
  const isSpreadsheet = /^(xlsx?|xlsm|ods|numbers)$/.test(extension);
  const hint = isSpreadsheet ? "Export it as CSV." : "Add --input-format with one of these formats.";
  throw usage(`${what}: ${formats.join(", ")}.`, hint);
}

/** Reads the file, or stdin for "-", up to 256 MB, since a device may be endless. Throws `usage`. */
export async function readBytes(file: string, io: Pick<Io, "stdin" | "signal" | "disk">): Promise<Buffer> {
  const limit = { maxMegabytes: 256 };
  try {
    if (file === "-") return await readAll(io.stdin, "The input on stdin", { ...limit, signal: io.signal });
    const input = Readable.from(readChunks(file, io.disk), { objectMode: false });
    return await readAll(input, file, { ...limit, signal: io.signal });
  } catch (error) {
    if (error instanceof VidgenError) throw error;
    throw usage(`Cannot read ${file}: ${systemReason(error, { ENOENT: "there is no such file" })}.`);
  }
}

/** The text of a file as UTF-8. Throws `usage`, with the first line that is not text. */
export function readUtf8(bytes: Buffer, name: string, format: Format): Buffer {
  const text = toUtf8(bytes);
  if (text !== undefined) return text;
  let line = 1;
  for (let start = 0; start < bytes.length; line++) {
    const end = bytes.indexOf("\n", start);
    const next = end === -1 ? bytes.length : end + 1;
    if (!isText(bytes.subarray(start, next))) break;
    start = next;
  }
  throw usage(
    `${name} is not in UTF-8: line ${line} is the first that is not. Nothing was sent.`,
    `Save it again as ${format === "csv" ? '"CSV UTF-8"' : "UTF-8"}.`,
  );
}

function isText(bytes: Buffer): boolean {
  return isUtf8(bytes) && !bytes.includes(0);
}
