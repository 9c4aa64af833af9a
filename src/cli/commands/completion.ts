import { Argument, type CommandUnknownOpts } from "@commander-js/extra-typings";
import { withDetails } from "../command.ts";
import type { Context } from "../context.ts";

export function addCompletion(program: CommandUnknownOpts, { output }: Context): void {
  const command = program
    .command("completion")
    .helpGroup("Set up:")
    .summary("print a shell completion script")
    .description("Prints a script with which a shell completes commands, flags, models, ids and file names.")
    .addArgument(new Argument("<shell>", "the shell").choices(["bash", "zsh", "fish", "powershell"] as const))
    .action(async (shell) => {
      const { scripts } = await import("../completion/scripts.ts");
      await output.result(scripts[shell], { shell, script: scripts[shell] });
    });
  withDetails(command, {
    examples: [
      "source <(vidgen completion bash)",
      "source <(vidgen completion zsh)",
      "vidgen completion fish | source",
      "vidgen completion powershell | Out-String | Invoke-Expression",
    ],
    after:
      "vidgen's completion never runs what is typed. zsh itself first runs $(...) in the line. To prevent that: bindkey '^I' complete-word",
  });
}
