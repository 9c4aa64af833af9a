import type { Command } from "commander";
import { aspectRatios, models } from "../../client/models.ts";
import { formatBash } from "../completion/bash.ts";
import { formatFish } from "../completion/fish.ts";
import { formatPowershell } from "../completion/powershell.ts";
import { collectWords, type Suggestions, type Vocabulary } from "../completion/words.ts";
import { formatZsh } from "../completion/zsh.ts";
import { createTopics } from "../help/topics.ts";
import { type CommandTree, describeCommand } from "../help/tree.ts";
import type { Given } from "../program.ts";

export type CompletionOptions = Given & { shell: string; program: Command };

const formats: Readonly<Record<string, (words: Vocabulary) => string>> = {
  bash: formatBash,
  zsh: formatZsh,
  fish: formatFish,
  powershell: formatPowershell,
};

/** Prints the script that teaches a shell to complete vidgen's command line. */
export async function completion({ shell, program, output }: CompletionOptions): Promise<void> {
  const tree = describeCommand(program, new Map());
  const script = formats[shell]?.(collectWords(tree, suggestionsFor(tree))) ?? "";
  await output.result(script, { shell, script });
}

function suggestionsFor(tree: CommandTree): Suggestions {
  return {
    "--model": models.map(({ id, characteristic }) => [id, characteristic]),
    "--aspect-ratio": aspectRatios.map((ratio) => [ratio, ""]),
    "--resolution": ["480p", "720p", "1080p"].map((name) => [name, ""]),
    "help name": [...tree.commands, ...createTopics()].map(({ name, summary }) => [name, summary]),
  };
}
