import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import { mainFlags, readTyped, withStartFlags } from "../start-flags.ts";
import { generate } from "./generate.ts";

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
  command.action((generation, argument, flags) =>
    generate(readTyped({ generation, argument }, flags, command), context),
  );
}
