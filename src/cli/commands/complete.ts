import { readdir } from "node:fs/promises";
import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { blocksRestart } from "../../client/ledger/attempt.ts";
import type { Entry } from "../../client/ledger/history.ts";
import { journalIn, storageFolder } from "../../connect/storage.ts";
import type { Io } from "../../io.ts";
import { shorten } from "../../protocol/text.ts";
import type { Suggestion } from "../command.ts";
import type { Candidates, JournalNames } from "../completion/candidates.ts";
import type { Context } from "../context.ts";
import { plainLine } from "../terminal/output.ts";

/** The hidden command that the completion scripts call. It prints no errors: they would appear in the line being typed. */
export function addComplete(program: CommandUnknownOpts, { io, output }: Context): void {
  program
    .command("__complete", { hidden: true })
    .argument("[words...]", "the words before the cursor, without `vidgen`")
    .option("--current <word>", "the word at the cursor, as far as it was typed", "")
    .action(async (words, { current }) => {
      const { findCandidates } = await import("../completion/candidates.ts");
      const rows = await readRows(findCandidates(program, words, current), current, io).catch(() => []);
      await output.result(rows.map(([word, about]) => (about === "" ? word : `${word}\t${about}`)).join("\n"), rows);
    });
}

async function readRows(found: Candidates, current: string, io: Io): Promise<readonly Suggestion[]> {
  if (typeof found !== "string") return found;
  return found === "@files" ? listFiles(current) : readNames(found, io);
}

const maxNames = 30;

/** The name to complete for an entry of the journal, by kind; `undefined` for an entry of another kind. */
const completedName: Record<JournalNames, (entry: Entry) => string | undefined> = {
  ids: ({ id }) => id,
  "unfinished ids": ({ id, status, file }) =>
    status === "processing" || (status === "completed" && file === undefined) ? id : undefined,
  "saved ids": ({ id, file }) => (file === undefined || file === "-" ? undefined : id),
  "unclear attempts": ({ attempt, state, dismissed }) => (blocksRestart(state) && !dismissed ? attempt : undefined),
};

/** The newest names in the journal, each with its status, model and prompt. Names that need quotes in a shell are left out. */
async function readNames(kind: JournalNames, io: Io): Promise<Suggestion[]> {
  const { openJournal } = await import("../../client/ledger/journal.ts");
  const { readRecent } = await import("../../client/ledger/search.ts");
  const wordsOf = (entries: readonly Entry[]) =>
    entries.flatMap((entry): Suggestion[] => {
      const { status, request } = entry;
      const name = completedName[kind](entry) ?? "";
      return /^\w[\w.-]{0,99}$/.test(name)
        ? [[name, `${status} ${shorten(plainLine(`${request.model} ${request.prompt}`))}`.trimEnd()]]
        : [];
    });
  const journal = openJournal(journalIn(storageFolder("state", io)), io);
  const entries = await readRecent(journal, (found) => wordsOf(found).length >= maxNames);
  return wordsOf(entries).slice(0, maxNames);
}

/** The files that begin like the typed `@path`, each after its `@`. Names that need quotes in a shell are left out. */
async function listFiles(current: string): Promise<Suggestion[]> {
  const folder = current.slice(1, current.search(/[^/\\]*$/));
  const files = (await readdir(folder || ".", { withFileTypes: true })).filter((entry) => !entry.isDirectory());
  const words = files.map(({ name }) => `@${folder}${name}`);
  return words
    .filter((word) => word.startsWith(current) && /^@(?:[A-Za-z]:)?[\w/\\.][\w/\\.-]*$/.test(word))
    .map((word) => [word, ""]);
}
