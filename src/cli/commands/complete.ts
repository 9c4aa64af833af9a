import { open } from "node:fs/promises";
import { Argument, type CommandUnknownOpts } from "@commander-js/extra-typings";
import type { DatedLine } from "../../client/history.ts";
import type { Context } from "../command.ts";
import { findStorage, journalIn } from "../storage.ts";
import { plainLine } from "../terminal/output.ts";

/** What the completion scripts call; it has no help. */
export function addComplete(program: CommandUnknownOpts, context: Context): void {
  program
    .command("__complete", { hidden: true })
    .addArgument(new Argument("<what>").choices(["ids"] as const))
    .action(() => printIds(context));
}

/** As much of the journal's end as holds some hundred generations. */
const tailBytes = 200_000;
const maxIds = 30;

/**
 * Prints the newest ids in the journal for a shell's completion, each with a tab and a description. It runs between two strokes of a key:
 * it reads only the end of the journal, and loads no schema. Ids that a shell would have to quote are left out, and errors are not printed.
 */
async function printIds({ io, output }: Context): Promise<void> {
  const storage = await findStorage("state", io).catch(() => undefined);
  const lines = storage ? await readTail(journalIn(storage.folder)).catch(() => []) : [];
  const rows = newestIds(lines).slice(0, maxIds);
  await output.result(rows.map((row) => row.join("\t")).join("\n"), rows);
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

function newestIds(lines: DatedLine[]): [id: string, description: string][] {
  const prompts = new Map(lines.flatMap((line) => (line.kind === "intent" ? [[line.attempt, describe(line)]] : [])));
  const ended = new Map(lines.flatMap((line) => (isEnd(line) ? [[line.id, line.kind]] : [])));
  const rows = lines.flatMap((line): [string, string][] => {
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
