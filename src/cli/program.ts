import { Command, type CommandUnknownOpts, Help } from "@commander-js/extra-typings";
import packageJson from "../../package.json" with { type: "json" };
import { type Context, detailsOf, withDetails } from "./command.ts";
import { addBatch } from "./commands/batch.ts";
import { addComplete } from "./commands/complete.ts";
import { addCompletion } from "./commands/completion.ts";
import { addDoctor } from "./commands/doctor.ts";
import { addGenerate } from "./commands/generate.ts";
import { addHelp } from "./commands/help.ts";
import { addList } from "./commands/list.ts";
import { addListen } from "./commands/listen.ts";
import { addLogin } from "./commands/login.ts";
import { addLogout } from "./commands/logout.ts";
import { addMcp } from "./commands/mcp.ts";
import { addModels } from "./commands/models.ts";
import { addServe } from "./commands/serve.ts";
import { addStatus } from "./commands/status.ts";
import { addWait } from "./commands/wait.ts";
import { topicNames } from "./help/topics.ts";
import { helpDocument } from "./help/tree.ts";
import type { OutputFlags } from "./terminal/output.ts";

/** In the order of the help. */
const commands = [
  ...[addGenerate, addBatch, addStatus, addWait, addList, addModels, addLogin, addLogout],
  ...[addServe, addListen, addMcp, addDoctor, addCompletion, addComplete, addHelp],
];

/** The whole command surface. Throws commander's errors for bad usage. */
export function createProgram(context: Context): CommandUnknownOpts {
  const { io, output } = context;
  const columns = io.stdout.columns ?? 80;
  const program = new Command("vidgen")
    .description(
      "Turns a prompt into an .mp4: a client for an asynchronous AI video service, with a local service to try it out.",
    )
    .version(packageJson.version, "--version", "print the version")
    .helpOption("-h, --help", "print this help")
    .exitOverride()
    .configureOutput({
      writeOut: output.print,
      // commander writes the help of vidgen without a command there, and nothing else.
      writeErr: output.print,
      getOutHelpWidth: () => columns,
      // main prints errors, in one shape.
      outputError: () => {},
    })
    .configureHelp({
      showGlobalOptions: true,
      formatHelp: output.json ? formatJsonHelp : formatHelp,
      ...(columns < 60 ? { minWidthToWrap: 20, formatItem } : {}),
    })
    .showSuggestionAfterError()
    .option("--json", "print one JSON document instead of text")
    .option("--quiet", "print only errors on stderr")
    .option("--verbose", "print each request and reply on stderr")
    .option("--color", "always use colours (default: at a terminal)")
    .option("--no-color", "never use colours")
    .option("--no-input", "never prompt for input");
  withDetails(program, {
    examples: [
      'vidgen generate "a red fox runs through snow at dusk" --local -o fox.mp4',
      'url=$(vidgen generate "waves at night" --model veo-3.1)',
      "vidgen wait <id> -o waves.mp4",
    ],
    after: `Help topics, for vidgen help <topic>: ${topicNames.join(", ")}`,
  });
  for (const add of commands) add(program, context);
  return program;
}

/** The flags of every command, read before the rest is parsed: errors in the rest must already be printed by these flags. */
export function readGlobalFlags(argv: readonly string[]): OutputFlags & Pick<Context, "input"> {
  const end = argv.indexOf("--");
  const flags = end === -1 ? argv : argv.slice(0, end);
  const color = flags.findLast((flag) => flag === "--color" || flag === "--no-color");
  return {
    json: flags.includes("--json"),
    events: flags.includes("--events"),
    quiet: flags.includes("--quiet"),
    verbose: flags.includes("--verbose"),
    color: color === undefined ? undefined : color === "--color",
    input: !flags.includes("--no-input"),
  };
}

function formatHelp(command: CommandUnknownOpts, helper: Help): string {
  const { examples, after } = detailsOf(command);
  const usage = Help.prototype.formatHelp.call(helper, command, helper);
  const end = after === undefined ? "" : `\n${after}\n`;
  return `Examples:\n${examples.map((line) => `  $ ${line}`).join("\n")}\n\n${usage}${end}`;
}

function formatJsonHelp(command: CommandUnknownOpts): string {
  return `${JSON.stringify(helpDocument(command), null, 2)}\n`;
}

/** On a narrow terminal the description of a flag goes below the flag: there is no room beside it. */
function formatItem(term: string, _: number, description: string, helper: Help): string {
  const lines = helper.boxWrap(description, (helper.helpWidth ?? 80) - 6).split("\n");
  return [`  ${term}`, ...lines.map((line) => `      ${line}`)].join("\n");
}
