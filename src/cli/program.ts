import { Command, type CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import packageJson from "../../package.json" with { type: "json" };
import { usage } from "../errors.ts";
import { withDetails } from "./command.ts";
import type { Context } from "./context.ts";
import type { OutputFlags } from "./terminal/output.ts";

/** In the order of the help. A command's file is loaded when that command runs, or when all are needed. */
const commands = {
  generate: async () => (await import("./commands/generate.ts")).addGenerate,
  again: async () => (await import("./commands/again.ts")).addAgain,
  batch: async () => (await import("./commands/batch.ts")).addBatch,
  status: async () => (await import("./commands/status.ts")).addStatus,
  wait: async () => (await import("./commands/wait.ts")).addWait,
  cancel: async () => (await import("./commands/cancel.ts")).addCancel,
  delete: async () => (await import("./commands/delete.ts")).addDelete,
  list: async () => (await import("./commands/list.ts")).addList,
  models: async () => (await import("./commands/models.ts")).addModels,
  login: async () => (await import("./commands/login.ts")).addLogin,
  logout: async () => (await import("./commands/logout.ts")).addLogout,
  config: async () => (await import("./commands/config.ts")).addConfig,
  serve: async () => (await import("./commands/serve.ts")).addServe,
  accounts: async () => (await import("./commands/accounts.ts")).addAccounts,
  listen: async () => (await import("./commands/listen.ts")).addListen,
  mcp: async () => (await import("./commands/mcp.ts")).addMcp,
  doctor: async () => (await import("./commands/doctor.ts")).addDoctor,
  completion: async () => (await import("./commands/completion.ts")).addCompletion,
  __complete: async () => (await import("./commands/complete.ts")).addComplete,
  help: async () => (await import("./commands/help.ts")).addHelp,
};

/** The command that a command line names: the first word that is not a flag, since global flags take no value. */
export function commandOf(argv: readonly string[]): string | undefined {
  const name = argv.find((word) => !word.startsWith("-"));
  return name !== undefined && Object.hasOwn(commands, name) ? name : undefined;
}

/**
 * The program with the command that these words name; with all commands if they name none, or name a command
 * that describes the others. Help and guesses need them. Only the command that runs needs its code: of the
 * others, the built program has outlines.
 */
export async function createProgram(argv: readonly string[], context: Context): Promise<CommandUnknownOpts> {
  const program = createBareProgram(context);
  if (["--version", "-V", "version"].includes(argv[0] ?? "")) return program;
  await configureHelp(program, argv, context);
  const name = commandOf(argv);
  const needsAll = name === undefined || name === "help" || name === "__complete";
  const isHelp = asksForHelp(argv);
  const outlining = needsAll || isHelp ? await import("./help/outline.ts") : undefined;
  const outlines = outlining?.readOutlines();
  for (const [each, load] of Object.entries(commands)) {
    if (!needsAll && each !== name) continue;
    const outline = each === name && !isHelp ? undefined : outlines?.find((outline) => outline.name === each);
    if (outline) outlining?.addOutlined(program, outline);
    else if (each === name || !outlines) (await load())(program, context);
  }
  // `readGlobalFlags` reads them. They are added to each command, because commander refuses a word of several
  // flags, such as -yq, with another flag in it.
  for (const command of program.commands)
    for (const flags of ["-q, --quiet", "-v, --verbose"]) command.addOption(new Option(flags).hideHelp());
  return program;
}

function createBareProgram({ io, output }: Context): CommandUnknownOpts {
  // If stdout is a pipe, such as to less, stderr is still the terminal.
  const columns = io.stdout.columns ?? Math.min(io.stderr.columns ?? 80, 80);
  const program = new Command("vidgen")
    .description(
      "Turns a prompt into an .mp4: a client for an asynchronous AI video service, with a local service to try it out.",
    )
    .optionsGroup("Flags of every command:")
    .version(packageJson.version, "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .exitOverride()
    .configureOutput({
      writeOut: output.print,
      // The only text that commander writes there is the help, for `vidgen` without a command.
      writeErr: output.print,
      getOutHelpWidth: () => columns,
      // main prints errors, in one shape.
      outputError: () => {},
    })
    .showSuggestionAfterError()
    .hook("preAction", (_, command) => checkValues(command))
    .option("--json", "print one JSON document instead of text")
    .option("-q, --quiet", "print only errors on stderr")
    .option("-v, --verbose", "print each request and reply on stderr")
    .option("--color", "always use colours (default: at a terminal)")
    .option("--no-color", "never use colours")
    .option("--no-input", "never prompt for input");
  const { version } = packageJson;
  program.command("version", { hidden: true }).action(() => output.result(version, { version }));
  withDetails(program, {
    examples: [
      'vidgen generate "a red fox runs through snow at dusk" --local -o fox.mp4',
      'url=$(vidgen generate "waves at night" --model veo-3.1)',
      "vidgen wait <id> -o waves.mp4",
    ],
  });
  return program;
}

/** The global flags, read before the rest is parsed, because they decide how errors in the rest are printed. */
export function readGlobalFlags(argv: readonly string[]): OutputFlags & Pick<Context, "input"> {
  const end = argv.indexOf("--");
  const flags = end === -1 ? argv : argv.slice(0, end);
  const color = flags.findLast((flag) => flag === "--color" || flag === "--no-color");
  return {
    json: flags.includes("--json"),
    events: flags.includes("--events"),
    quiet: hasFlag(flags, "-q", "--quiet"),
    verbose: hasFlag(flags, "-v", "--verbose"),
    color: color === undefined ? undefined : color === "--color",
    input: !flags.includes("--no-input"),
  };
}

/**
 * Short flags without a value may be written as one word, such as -qv or -yq; the last may take a value, such
 * as -yqo. A word with a dash and white space is a value, such as "-quiet forest". No other word with a dash
 * is a value, since `checkValues` refuses them.
 */
function hasFlag(words: readonly string[], short: string, long: string): boolean {
  return words.some((word) => word === long || /^-([qvy]+)\S*$/.exec(word)?.[1]?.includes(short.slice(1)));
}

/**
 * Throws `usage` for a value that is itself a flag, even a misspelt one, because its own value is missing:
 * `-o --local` would use the paid service, and save to a file of that name. `-` is stdin, and `-5` a number.
 */
function checkValues(command: CommandUnknownOpts): void {
  if (command.name() === "__complete") return;
  for (const option of command.options.filter(({ required }) => required)) {
    const { short, long = "", flags } = option;
    const name = option.attributeName();
    if (command.getOptionValueSource(name) !== "cli") continue;
    for (const value of [command.getOptionValue(name)].flat()) {
      if (typeof value !== "string") continue;
      if (/^-(-|[a-z])\S*$/i.test(value) || value === "--")
        throw usage(`${long} needs a value: ${long} ${/<.*>/.exec(flags)?.[0]}, not ${value}. Nothing was sent.`);
      if (short && `-${short}${value}`.startsWith(long))
        throw usage(
          `${short}${value} would set ${long} to "${value}". Nothing was sent.`,
          `Long flags have two dashes: ${long}.`,
        );
      if (short && value.startsWith("="))
        throw usage(
          `${short}${value} would set ${long} to "${value}". Nothing was sent.`,
          `Type ${short} ${value.slice(1)} or ${long}${value}.`,
        );
    }
  }
}

/**
 * Whether commander will print help and run nothing. A flag's value cannot be one of these words, because
 * `checkValues` refuses such a value.
 */
function asksForHelp(argv: readonly string[]): boolean {
  const end = argv.indexOf("--");
  return argv.slice(0, end === -1 ? undefined : end).some((word) => /^(--help|-[qv]*h)$/.test(word));
}

/** Sets how help is printed, in a pager at a terminal. What that needs is loaded for a command line that may print help. */
async function configureHelp(program: CommandUnknownOpts, argv: readonly string[], context: Context): Promise<void> {
  const name = commandOf(argv);
  const isHelpAsked = name === "help" || argv.some((word) => /^(--help|-\w*h)/.test(word));
  if (name !== undefined && !isHelpAsked) return;
  // commander would add those of a group, such as the flags of `batch` in the help of `batch status`.
  const visibleGlobalOptions = ({ parent }: CommandUnknownOpts) => (parent ? [...program.options] : []);
  const shared = { showGlobalOptions: true, visibleGlobalOptions, minWidthToWrap: 20 };
  if (context.output.json) {
    const { helpDocument } = await import("./help/tree.ts");
    const { topicsAsData } = await import("./help/topics.ts");
    const topics = await topicsAsData();
    program.configureHelp({
      ...shared,
      formatHelp: (command) => `${JSON.stringify(helpDocument(command, topics), null, 2)}\n`,
    });
    return;
  }
  const { formatHelp, formatItem, formatOverview, termOf } = await import("./help/format.ts");
  const format = { ...shared, formatItem, subcommandTerm: termOf };
  if (!isHelpAsked) return void program.configureHelp({ ...format, formatHelp: formatOverview });
  const all = argv.includes("--all");
  program.configureHelp({ ...format, formatHelp: (command, helper) => formatHelp(command, helper, { all }) });
  const { findPager } = await import("./terminal/pager.ts");
  program.configureOutput({ writeOut: (text) => context.output.print(text, findPager(context)) });
}
