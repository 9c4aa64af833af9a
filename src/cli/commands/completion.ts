import { Argument, type CommandUnknownOpts } from "@commander-js/extra-typings";
import { type Context, withDetails } from "../command.ts";

const shells = ["bash", "zsh", "fish", "powershell"] as const;

export function addCompletion(program: CommandUnknownOpts, context: Context): void {
  const command = program
    .command("completion")
    .summary("print a shell's completion script")
    .description("Prints the script that teaches a shell to complete commands, flags, models, ids and file names.")
    .addArgument(new Argument("<shell>", "the shell it is for").choices(shells))
    .action((shell) => printScript(shell, program, context));
  withDetails(command, {
    prints: "a script",
    examples: [
      "source <(vidgen completion bash)",
      "source <(vidgen completion zsh)",
      "vidgen completion fish | source",
      "vidgen completion powershell | Out-String | Invoke-Expression",
    ],
  });
}

const loadFormat = {
  bash: async () => (await import("../completion/bash.ts")).formatBash,
  zsh: async () => (await import("../completion/zsh.ts")).formatZsh,
  fish: async () => (await import("../completion/fish.ts")).formatFish,
  powershell: async () => (await import("../completion/powershell.ts")).formatPowershell,
};

async function printScript(
  shell: (typeof shells)[number],
  program: CommandUnknownOpts,
  { output }: Context,
): Promise<void> {
  const { collectWords } = await import("../completion/words.ts");
  const format = await loadFormat[shell]();
  const script = format(collectWords(program));
  await output.result(script, { shell, script });
}
