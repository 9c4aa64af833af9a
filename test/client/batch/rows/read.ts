import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { type ReadRows, type RowOptions, readRows } from "../../../../src/client/batch/rows/rows.ts";
import { VidgenError } from "../../../../src/errors.ts";
import { systemMachine } from "../../../../src/io.ts";
import { makeFolder } from "../../../folder.ts";

export const io = {
  stdin: Readable.from([]),
  signal: new AbortController().signal,
  date: () => new Date("2026-01-31T12:00:00Z"),
  platform: "linux",
  home: "/home/someone",
  disk: systemMachine.disk,
};

const flags: RowOptions = { texts: { model: "wan-2.5" }, images: {}, set: [], each: [], isLocal: false };

/** Reads the rows of what is piped in. */
export function read(text: string | Buffer, options: Partial<RowOptions> = {}, platform = "linux"): Promise<ReadRows> {
  const stdin = Readable.from([Buffer.from(text)]);
  return readRows("-", { ...flags, format: "csv", ...options }, { ...io, platform, stdin });
}

/** Reads the rows of a file of that name. */
export async function readFile(name: string, content: string | Buffer, options: Partial<RowOptions> = {}) {
  const path = join(makeFolder(), name);
  await writeFile(path, content);
  return readRows(path, { ...flags, ...options }, io);
}

/** The lines of the usage error, without the first. */
export async function faultsOf(reading: Promise<unknown>): Promise<string[]> {
  const error = await reading.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!(error instanceof VidgenError) || error.code !== "usage") throw error ?? new Error("There is no fault.");
  return error.message.split("\n").slice(1);
}
