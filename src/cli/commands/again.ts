import { isDeepStrictEqual } from "node:util";
import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { redactValue } from "../../client/http/redaction.ts";
import { type Entry, recordOf, withoutImage } from "../../client/ledger/history.ts";
import type { Journal } from "../../client/ledger/journal.ts";
import { isStarted, type StartedEntry } from "../../client/ledger/policy.ts";
import { guessModel } from "../../client/request/models.ts";
import { localBaseUrl } from "../../connect/local.ts";
import { findJournal } from "../../connect/services.ts";
import { beforePaying, usage } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import { findByFile, findNewest, isVideoFile, unknownError } from "../earlier.ts";
import { readFieldFlags } from "../field-flags.ts";
import { last, locateGenerations } from "../generations.ts";
import { readPrompt } from "../terminal/prompts.ts";
import { generate, withNextSeed, withStartFlags } from "./generate.ts";

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
  command.action(async (typed, typedPrompt, options) => {
    const { io, output } = context;
    const find = async () => {
      const journal = findJournal({ ...io, onNote: output.note });
      const prompt = typedPrompt === undefined ? undefined : await readPrompt(typedPrompt, io);
      const isOfLine = createLineTest(prompt, options, { ...context, command });
      const parent = await (typed === last
        ? findLastParent(journal, isOfLine, options)
        : findParent(typed, journal, io));
      return { prompt, parent };
    };
    const { prompt, parent } = await find().catch((error) => {
      throw beforePaying(error);
    });
    await generate(prompt, options, { ...context, command }, parent);
  });
}

/** The generation whose request is repeated. Throws `not_found` for one that the journal does not know, since only that has its request. */
async function findParent(typed: string, journal: Journal, io: Io): Promise<StartedEntry> {
  if (typed === "") throw usage("The id is empty.");
  if (await isVideoFile(typed, io)) return findByFile(typed, journal, io);
  const open = () => Promise.reject(new Error("no service is needed"));
  const { id, entry } = await (await locateGenerations({}, { journal, open }, io)).findForChange(typed);
  return entry ?? unknownError(`generation ${id}`);
}

/** Whether this command line would send the request of an attempt if it repeated a generation. Rejects where it cannot be built. */
type LineTest = (parent: StartedEntry, attempt: Entry) => Promise<boolean>;

/** The newest generation; where this very line has started that one, the one that it repeats. */
function findLastParent(journal: Journal, isOfLine: LineTest, { reuse = false }): Promise<StartedEntry> {
  return findNewest(journal, isStarted, async (entry, isLeft) => {
    if (entry.parent === undefined || !(reuse || isLeft)) return undefined;
    const parent = (await journal.entriesOf(entry.parent)).find(isStarted);
    return parent && (await isOfLine(parent, entry).catch(() => false)) ? parent : undefined;
  });
}

function createLineTest(
  prompt: string | undefined,
  { set = [], from }: { set?: readonly string[]; from?: string },
  { command, output }: Context & { command: CommandUnknownOpts },
): LineTest {
  return async (parent, { request, position = 1 }) => {
    const { repeatRequest } = await import("../../client/ledger/repeat.ts");
    const { buildRequest } = await import("../../client/request/request.ts");
    const { readAllImages } = await import("../../client/request/images.ts");
    const { texts, images } = readFieldFlags(command);
    // With a frame, the image depends on the source video; the start compares the whole request anyway.
    const isFromFrame = from !== undefined || parent.from !== undefined;
    const wanted = isFromFrame ? withoutImage(request) : request;
    // A person may have been asked about a slip in the model, and have taken the other one.
    const models = new Set([texts.model, guessModel(texts.model ?? "") ?? texts.model]);
    for (const model of models) {
      const changes = { texts: { ...texts, prompt, model }, images, set };
      const repeated = isFromFrame ? withoutImage(parent.request) : parent.request;
      const earlier = { id: parent.id, request: repeated, isLocal: parent.base_url === localBaseUrl };
      const input = repeatRequest(earlier, changes);
      const read = await readAllImages(input.images, { onNote: () => {} });
      // What only the local service takes is refused by the start itself.
      const built = buildRequest({ ...input, images: read }, { isLocal: true });
      const record = redactValue(recordOf(withNextSeed(built, position - 1)), output.redact);
      if (isDeepStrictEqual(isFromFrame ? withoutImage(record) : record, wanted)) return true;
    }
    return false;
  };
}
