import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { hashFile } from "../../client/ledger/content.ts";
import { type DatedLine, type Entry, isUnfinished } from "../../client/ledger/history.ts";
import type { Journal } from "../../client/ledger/journal.ts";
import { isTakeDone, type StartedEntry } from "../../client/ledger/policy.ts";
import { findJournal } from "../../connect/services.ts";
import { beforePaying, systemReason, usage, VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import { last, locateGenerations } from "../generations.ts";
import { generate, withStartFlags } from "./generate.ts";

export function addAgain(program: CommandUnknownOpts, context: Context): void {
  const bare = program
    .command("again")
    .summary("start the same request again, with changes")
    .description(
      "Starts a new generation with the request of an earlier one, at its service: what is typed replaces what that had. Prints and saves as generate does. Typed again after an interruption, the same line resumes it.",
    )
    .argument("<generation>", 'an id, "last", or a video that vidgen has saved')
    .argument("[prompt]", "another prompt");
  const command = withDetails(withStartFlags(bare), {
    examples: [
      "vidgen again last -o fox-2.mp4",
      "vidgen again fox.mp4 --aspect-ratio 9:16 -o fox-portrait.mp4",
      'vidgen again <id> "the same fox, by night" -n 3 -o clips/',
    ],
  });
  command.action(async (typed, prompt, options) => {
    const journal = findJournal({ ...context.io, onNote: context.output.note });
    const parent = await findParent(typed, journal, context.io).catch((error) => {
      throw beforePaying(error);
    });
    await generate(prompt, options, { ...context, command }, parent);
  });
}

/** The generation whose request is repeated. Throws `not_found` for one that the journal does not know, since only that has its request. */
async function findParent(typed: string, journal: Journal, io: Io): Promise<StartedEntry> {
  if (typed === "") throw usage("The id is empty.");
  if (typed === last) return findNewest(journal);
  const isFile = await io.disk.stat(typed).then(
    (found) => found.isFile(),
    () => false,
  );
  if (isFile || /\.mp4$|[/\\]/i.test(typed)) return findByFile(typed, journal, io);
  const open = () => Promise.reject(new Error("no service is needed"));
  const { id, entry } = await (await locateGenerations({}, { journal, open }, io)).find(typed);
  return entry ?? unknownError(`generation ${id}`);
}

/**
 * The newest generation. One that `again` has started, and that the same line would resume, stands for the one that it repeats: else that line
 * would start another one.
 */
async function findNewest(journal: Journal): Promise<StartedEntry> {
  const entries = await journal.entries((part) => !part.some(isStarted));
  for (const entry of entries) {
    if (entry.parent !== undefined && isLeft(entry, entries)) return findById(entry.parent, journal);
    if (isStarted(entry)) return entry;
  }
  return unknownError("generation: none was started here yet");
}

/** Whether the line that has started an attempt would go on with it, or with another one of its run. */
function isLeft(entry: Entry, entries: readonly Entry[]): boolean {
  if (entry.run === undefined) return isUnfinished(entry);
  const done = entries.filter((each) => each.run === entry.run && isTakeDone(each));
  return new Set(done.map(({ position }) => position)).size < (entry.count ?? 0);
}

/** The generation whose video has the content of this file, whatever its name is now. */
async function findByFile(path: string, journal: Journal, { disk, signal }: Io): Promise<StartedEntry> {
  const file = await disk.open(path, "r").catch((error) => {
    throw usage(`Cannot read the video ${path}: ${systemReason(error, { ENOENT: "there is no such file" })}.`);
  });
  const sha256 = await hashFile(file, signal)
    .then((hash) => hash.digest("hex"))
    .finally(() => file.close());
  const isOfVideo = (line: DatedLine): line is DatedLine & { kind: "downloaded" | "delivered" } =>
    (line.kind === "downloaded" || line.kind === "delivered") && line.sha256 === sha256;
  const line = await journal.findLast(isOfVideo);
  return line === undefined ? unknownError(`generation with the video ${path}`) : findById(line.id, journal);
}

async function findById(id: string, journal: Journal): Promise<StartedEntry> {
  return (await journal.entriesOf(id)).find(isStarted) ?? unknownError(`generation ${id}`);
}

function isStarted(entry: Entry): entry is StartedEntry {
  return entry.id !== undefined;
}

function unknownError(what: string): never {
  throw new VidgenError("not_found", `The journal has no ${what}, and only the journal has its request.`, {
    hint: "`vidgen list` shows what was started here; `vidgen generate` starts anything.",
  });
}
