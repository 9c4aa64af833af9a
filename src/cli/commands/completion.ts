import { Argument, type CommandUnknownOpts } from "@commander-js/extra-typings";
import { type Context, withDetails } from "../command.ts";

export function addCompletion(program: CommandUnknownOpts, { output }: Context): void {
  const command = program
    .command("completion")
    .summary("print a shell's completion script")
    .description("Prints the script that teaches a shell to complete commands, flags, models, ids and file names.")
    .addArgument(new Argument("<shell>", "the shell it is for").choices(["bash", "zsh", "fish", "powershell"] as const))
    .action(async (shell) => {
      const { scripts } = await import("../completion/scripts.ts");
      await output.result(scripts[shell], { shell, script: scripts[shell] });
    });
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
