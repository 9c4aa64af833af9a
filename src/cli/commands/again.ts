import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { findJournal } from "../../connect/services.ts";
import { beforePaying } from "../../errors.ts";
import { withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import { findParent } from "../earlier.ts";
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
    const stop = (error: unknown) => {
      throw beforePaying(error);
    };
    const parent = await findParent(typed, journal, context.io).catch(stop);
    await generate(prompt, options, { ...context, command }, parent);
  });
}
