import { open } from "node:fs/promises";
import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { DatedLine } from "../../client/history.ts";
import type { Io } from "../../io.ts";
import type { Context, Word } from "../command.ts";
import { findStorage, journalIn } from "../storage.ts";
import { plainLine } from "../terminal/output.ts";

/** What the completion scripts call. It runs between two strokes of a key: it loads no schema, and prints no error. */
export function addComplete(program: CommandUnknownOpts, { io, output }: Context): void {
  program
    .command("__complete", { hidden: true })
    .argument("[words...]", "what stands before the cursor, without `vidgen`")
    .option("--current <word>", "the word at the cursor, as far as it is typed", "")
    .action(async (words, { current }) => {
      const { findCandidates } = await import("../completion/candidates.ts");
      const found = findCandidates(program, words, current);
      const rows = typeof found === "string" ? await rowsFor[found](io) : found;
      await output.result(rows.map(([word, about]) => (about === "" ? word : `${word}\t${about}`)).join("\n"), rows);
    });
}

const rowsFor: Record<"files" | "ids" | "anything", (io: Io) => Promise<readonly Word[]>> = {
  // The shell knows the files better; no word of vidgen's own begins with a colon.
  files: async () => [[":files", ""]],
  ids: readRecentIds,
  anything: async () => [],
};

/** As much of the journal's end as holds some hundred generations. */
const tailBytes = 200_000;
const maxIds = 30;

/** The newest ids in the journal, each with a description. Ids that a shell would have to quote are left out. */
async function readRecentIds(io: Io): Promise<Word[]> {
  const storage = await findStorage("state", io).catch(() => undefined);
  const lines = storage ? await readTail(journalIn(storage.folder)).catch(() => []) : [];
  return newestIds(lines).slice(0, maxIds);
}

async function readTail(path: string): Promise<DatedLine[]> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const start = Math.max(0, size - tailBytes);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - start), 0, size - start, start);
    return buffer.toString("utf8", 0, bytesRead).split("\n").flatMap(readLine);
  } finally {
    await file.close();
  }
}

/** Incomplete lines, such as the first of the tail, are skipped. */
function readLine(text: string): DatedLine[] {
  try {
    const line = JSON.parse(text);
    return typeof line?.kind === "string" ? [line] : [];
  } catch {
    return [];
  }
}

function newestIds(lines: DatedLine[]): Word[] {
  const prompts = new Map(lines.flatMap((line) => (line.kind === "intent" ? [[line.attempt, describe(line)]] : [])));
  const ended = new Map(lines.flatMap((line) => (isEnd(line) ? [[line.id, line.kind]] : [])));
  const rows = lines.flatMap((line): Word[] => {
    if (line.kind !== "accepted" || !/^\w[\w.-]{0,99}$/.test(line.id)) return [];
    return [[line.id, `${ended.get(line.id) ?? "processing"} ${prompts.get(line.attempt) ?? ""}`.trimEnd()]];
  });
  return [...new Map(rows)].reverse();
}

function isEnd(line: DatedLine): line is DatedLine & { kind: "completed" | "failed" } {
  return line.kind === "completed" || line.kind === "failed";
}

function describe({ request }: DatedLine & { kind: "intent" }): string {
  return plainLine(`${request?.model} ${request?.prompt}`).slice(0, 60);
}
