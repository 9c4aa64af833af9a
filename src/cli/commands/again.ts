import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { Entry } from "../../client/ledger/history.ts";
import type { Journal } from "../../client/ledger/journal.ts";
import type { StartedEntry } from "../../client/ledger/policy.ts";
import { findJournal } from "../../connect/services.ts";
import { beforePaying, usage } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import { checkPrompt } from "../doubtful-prompt.ts";
import { resolveLast, throwNotFound } from "../earlier.ts";
import { findLast, locateGenerations } from "../generations.ts";
import { readProjectInput } from "../project-values.ts";
import { findByFile, isVideoFile, lastWord } from "../saved-file.ts";
import { checkStdin } from "../stdin-image.ts";
import { readPrompt } from "../terminal/prompts.ts";
import { findOwnAttempt } from "../typed-line.ts";
import { noteUnsaved } from "../unsaved.ts";
import { generate, mainFlags, readLine, withStartFlags } from "./generate.ts";

export function addAgain(program: CommandUnknownOpts, context: Context): void {
  const bareCommand = program
    .command("again")
    .helpGroup("Make videos:")
    .summary("start the same request again, with changes")
    .description(
      "Starts a new generation with the request of an earlier one, at the same service. Typed values replace those of the earlier request. Prints and saves as generate does. After an interruption, the same command resumes the generation.",
    )
    .argument("<generation>", 'an id, "last", or a video that vidgen has saved')
    .argument("[prompt]", "another prompt");
  const command = withDetails(withStartFlags(bareCommand), {
    examples: [
      "vidgen again last -o fox-2.mp4",
      "vidgen again fox.mp4 --aspect-ratio 9:16 -o fox-portrait.mp4",
      'vidgen again <id> "the same fox, by night" -n 3 -o clips/',
    ],
    mainFlags,
  });
  command.action(async (typedGeneration, typedPrompt, options) => {
    const { io, output } = context;
    const prepare = async () => {
      const journal = findJournal({ ...io, onNote: output.note });
      const projectInput = await readProjectInput({ ...options, isRepeat: true }, { ...context, command });
      checkStdin(typedPrompt, { isPromptOptional: true }, { ...context, command });
      const prompt =
        typedPrompt === undefined ? undefined : await readPrompt(typedPrompt, context, projectInput.references);
      const words = { command: "again" as const, generation: typedGeneration, prompt };
      const line = await readLine(words, { ...options, projectInput }, { ...context, command });
      const { references } = projectInput;
      const { dryRun } = options;
      await checkPrompt(prompt, { argument: typedPrompt, references, ...line, dryRun }, { ...context, command });
      const ownAttempt = typedGeneration === lastWord ? await findOwnAttempt(line, journal, context) : undefined;
      return {
        prompt,
        again: { line, projectInput, parent: await findParent(typedGeneration, ownAttempt, journal, io) },
      };
    };
    const { prompt, again } = await prepare().catch((error) => {
      throw beforePaying(error);
    });
    await generate(prompt, options, { ...context, command }, again);
    await noteUnsaved(context);
  });
}

/** The generation whose request is repeated. Throws `not_found` if the journal does not have it, because nothing else records requests. */
async function findParent(
  typed: string,
  ownAttempt: Entry | undefined,
  journal: Journal,
  io: Io,
): Promise<StartedEntry> {
  if (typed === "") throw usage("The id is empty.");
  if (typed === lastWord) return ownAttempt ? resolveLast(ownAttempt, ownAttempt.parent, journal) : findLast(journal);
  if (await isVideoFile(typed, io))
    return (await findByFile(typed, journal, io)) ?? throwNotFound(`generation with the video ${typed}`);
  const open = () => Promise.reject(new Error("no service is needed"));
  const { id, entry } = await (await locateGenerations({}, { journal, open }, io)).findForChange(typed);
  return entry ?? throwNotFound(`generation ${id}`);
}
