import { Argument, Command, type Help, Option } from "commander";
import packageJson from "../../package.json" with { type: "json" };
import type { Io } from "../io.ts";
import { directives } from "./directives.ts";
import type { Manner, Output } from "./terminal/output.ts";

type Flags = Record<string, unknown>;

/** What there is help on besides the commands. */
const topics = "exit-codes, environment, output, directives";

/** Tidies up after a command; `isOk` when that came to a good end. */
export type Close = (isOk: boolean) => Promise<void>;

/** What every command gets besides its own flags. */
export type Given = {
  output: Output;
  /** Has something tidied up once the command's last word is printed, the newest first. */
  defer(close: Close): void;
};

/** The whole command surface. Each command's own code is loaded when it runs. Throws commander's errors for bad usage. */
export function createProgram(given: Given, io: Io): Command {
  const program = new Command("vidgen")
    .description(
      "Turns a prompt into an .mp4: a client for an asynchronous AI video service, and a local one to try it with.",
    )
    .version(packageJson.version, "--version", "print the version")
    .helpOption("-h, --help", "print this help")
    .exitOverride()
    .configureOutput({
      writeOut: given.output.print,
      // With --json nothing but the error's document may be on stderr.
      writeErr: (text) => void (given.output.json || io.stderr.write(text)),
      getOutHelpWidth: () => io.stdout.columns ?? 80,
      // It has none; commander would open stdout to find out whether that shows any.
      getOutHasColors: () => false,
      // main prints errors, in one shape.
      outputError: () => {},
    })
    .configureHelp({
      showGlobalOptions: true,
      ...((io.stdout.columns ?? 80) < 60 ? { minWidthToWrap: 20, formatItem } : {}),
    })
    .showSuggestionAfterError()
    .addOption(new Option("--json", "print one JSON document instead of text"))
    .addOption(new Option("--quiet", "print nothing on stderr but errors"))
    .addOption(new Option("--verbose", "print each request and reply on stderr"))
    .addOption(new Option("--color", "use colours (default: at a terminal)"))
    .addOption(new Option("--no-color", "use none"))
    .addOption(new Option("--no-input", "never ask anything"));
  const examplesOf = new Map<Command, string[]>();
  const examples = (command: Command, lines: string[]) => {
    examplesOf.set(command, lines);
    command.addHelpText("before", `Examples:\n${lines.map((line) => `  $ ${line}`).join("\n")}\n`);
  };
  examples(program, [
    'vidgen generate "a red fox runs through snow at dusk" --local -o fox.mp4',
    'url=$(vidgen generate "waves at night" --model veo-3.1)',
    "vidgen wait <id> -o waves.mp4",
  ]);
  program.addHelpText("after", `\nHelp topics, for vidgen help <topic>: ${topics}`);

  /** Every run function gets its options first and `io` last. */
  const runs = <Options>(
    load: () => Promise<(options: Options, io: Io) => Promise<void>>,
    args: string[] = [],
    more: object = {},
  ) =>
    async function (this: Command, ...values: unknown[]) {
      const positional = Object.fromEntries(args.map((name, i) => [name, values[i]]));
      // `-o` is `save` from here on; `output` is what prints.
      const { output: save, ...flags } = this.optsWithGlobals<Flags>();
      const options = { ...flags, ...(save === undefined ? {} : { save }), ...positional, ...more, ...given };
      await (await load())(options as Options, io);
    };

  const generate = program
    .command("generate")
    .summary("start a generation, wait for it, save it")
    .description(
      "Starts a generation and waits for it. Prints the video's URL; with -o, saves the video and prints where.",
    )
    .argument("[prompt]", 'what the video shows; "-" reads stdin, "@path" a file')
    .option("-m, --model <id>", "the model (default: VIDGEN_MODEL, else wan-2.5)")
    .option("-a, --aspect-ratio <w:h>", "such as 16:9 or 9:16")
    .option("-d, --duration <length>", "length of the video")
    .option("-r, --resolution <name>", "such as 720p")
    .option("-i, --image <url>", "source image; may be repeated", collect)
    .option("--callback-url <url>", "the service POSTs the result there")
    .option("--set <field=value>", "any further field of the request; may be repeated", collect)
    .addOption(saveOption())
    .option("--download", "the same as -o .")
    .option("--overwrite", "replace the file if it exists")
    .option("--no-wait", "print the id and leave")
    .option("--reuse", "go on with the same request of the last 24 hours instead of paying for another")
    .addOption(timeoutOption())
    .addOption(intervalOption())
    .addOption(openOption())
    .addOption(bellOption())
    .option("--dry-run", "print the request, send nothing")
    .addOption(localOption("use the local service: no account, no credits; saves to the current folder"))
    .addOption(baseUrlOption())
    .action(runs(async () => (await import("./commands/generate.ts")).generate, ["prompt"]));
  examples(generate, [
    'vidgen generate "a red fox runs through snow at dusk" -o fox.mp4',
    'vidgen generate "a red fox runs through snow at dusk" --local',
    "vidgen generate @prompt.txt --model sora-2 --aspect-ratio 9:16 --duration 8 -o clips/",
    'id=$(vidgen generate "waves at night" --no-wait)',
    'vidgen generate "waves at night" --reuse -o waves.mp4',
  ]);

  const status = program
    .command("status")
    .summary("look at a generation once")
    .description("One look at a generation: prints its id, its status, and the URL when there is one.")
    .argument("[id]", "the generation; without one, the newest that runs")
    .option("--exit-status", "exit 4 when it failed, 5 while it runs")
    .addOption(localOption())
    .addOption(baseUrlOption())
    .action(runs(async () => (await import("./commands/status.ts")).status, ["id"]));
  examples(status, ["vidgen status <id>", "until vidgen status <id> --exit-status; do sleep 10; done"]);

  const wait = program
    .command("wait")
    .summary("follow generations that exist")
    .description("Follows generations to their end. Prints each URL; with -o, saves the videos and prints where.")
    .argument("[id...]", "the generations; without one, the newest that runs")
    .option("--all", "all that have not ended, or were to be saved and are not")
    .addOption(saveOption())
    .option("--overwrite", "replace the file if it exists")
    .addOption(timeoutOption())
    .addOption(intervalOption())
    .addOption(openOption())
    .addOption(bellOption())
    .addOption(localOption())
    .addOption(baseUrlOption())
    .action(runs(async () => (await import("./commands/wait.ts")).wait, ["ids"]));
  examples(wait, ["vidgen wait <id> -o fox.mp4", "vidgen wait --all -o clips/"]);

  const list = program
    .command("list")
    .summary("list what this machine has started")
    .description(
      "What this machine has started, newest first, from its journal: id, status, model, age, credits left, file, prompt.",
    )
    .addOption(
      new Option("--status <name>", "only those of one status").choices([
        ...["starting", "processing", "completed", "failed", "unknown", "unsent", "refused"],
      ]),
    )
    .option("--limit <number>", "how many at the most", "30")
    .addOption(localOption("only those of the local service"))
    .action(runs(async () => (await import("./commands/list.ts")).list));
  examples(list, ["vidgen list", "vidgen list --status unknown"]);

  const models = program
    .command("models")
    .summary("list the models")
    .description("The models, and what each is for.")
    .action(runs(async () => (await import("./commands/models.ts")).models));
  examples(models, ["vidgen models", "vidgen models --json"]);

  const login = program
    .command("login")
    .summary("check and save an API key")
    .description("Asks for an API key, checks it with the service, and saves it. The key never goes on a command line.")
    .option("--with-token", "read the key from stdin")
    .addOption(baseUrlOption("the service the key is for"))
    .action(runs(async () => (await import("./commands/login.ts")).login));
  examples(login, ["vidgen login", "vidgen login --base-url https://video.example --with-token < key.txt"]);

  const logout = program
    .command("logout")
    .summary("forget the saved API key")
    .description("Forgets the API key that was saved for the service.")
    .addOption(baseUrlOption("the service the key is for"))
    .action(runs(async () => (await import("./commands/logout.ts")).logout));
  examples(logout, ["vidgen logout"]);

  const serve = program
    .command("serve")
    .summary("run the local service")
    .description(
      "Runs the local service: the whole interface with a preview engine, for trying things out and for tests.",
    )
    .option("--host <name>", "address to listen on", "127.0.0.1")
    .option("--port <number>", "port of the API; 0 takes any free one", "8787")
    .option("--media-port <number>", "port of the videos; 0 takes any free one", "8788")
    .option("--allow-remote", "listen where others on the network can reach it")
    .option("--name <host>", "the name that others reach it by")
    .option("--credits <number>", "set the account's credits (default: at least 1000)")
    .option("--key-for <account>", "make a further account, print its API key, and end")
    .addOption(
      new Option("--pace <pace>", "how long a generation takes").choices(["fast", "realistic"]).default("fast"),
    )
    .option("--webhook-log", "print each callback as it is sent")
    .action(runs(async () => (await import("./commands/serve.ts")).serve));
  examples(serve, ["vidgen serve", "vidgen serve --port 0 --media-port 0 --json", "vidgen serve --key-for ci"]);
  serve.addHelpText("after", `\nIn a prompt, for tests:\n${directives.map(formatDirective).join("\n")}`);

  const doctor = program
    .command("doctor")
    .summary("look at what could be in the way")
    .description(
      "Looks at the settings, the key, the way to the service and this machine, and says what to do. Sends nothing that costs.\n" +
        "Ends with 0 when nothing has failed, else with the exit code of the first check that has.",
    )
    .addOption(localOption("leave the remote service out"))
    .addOption(baseUrlOption())
    .action(runs(async () => (await import("./commands/doctor.ts")).doctor));
  examples(doctor, ["vidgen doctor", "vidgen doctor --json"]);
  const completion = program
    .command("completion")
    .summary("print a shell's completion script")
    .description("Prints the script that teaches a shell to complete commands, flags, models, ids and file names.")
    .addArgument(new Argument("<shell>", "the shell it is for").choices(["bash", "zsh", "fish", "powershell"]))
    .action(runs(async () => (await import("./commands/completion.ts")).completion, ["shell"], { program }));
  examples(completion, [
    "source <(vidgen completion bash)",
    "source <(vidgen completion zsh)",
    "vidgen completion fish | source",
    "vidgen completion powershell | Out-String | Invoke-Expression",
  ]);
  program
    .command("__complete", { hidden: true })
    .addArgument(new Argument("<what>").choices(["ids"]))
    .action(runs(async () => (await import("./commands/complete.ts")).complete));

  const help = program
    .command("help")
    .summary("show the help of a command or a topic")
    .description(
      "The help of a command or a topic. With --json, the whole of it for programs: commands, flags, exit codes.",
    )
    .argument("[name]", `a command, or ${topics}`)
    .option("--man", "print the manual page, for `man -l -`")
    .action(runs(async () => (await import("./commands/help.ts")).help, ["name"], { program, examplesOf }));
  examples(help, ["vidgen help generate", "vidgen help exit-codes", "vidgen help --json"]);

  return program;
}

/** The flags of every command, read before the rest is parsed: errors in the rest have to be printed in the manner asked for. */
export function readManner(argv: readonly string[]): Manner {
  const end = argv.indexOf("--");
  const flags = end === -1 ? argv : argv.slice(0, end);
  const colors = flags.filter((flag) => flag === "--color" || flag === "--no-color");
  return {
    json: flags.includes("--json"),
    quiet: flags.includes("--quiet"),
    verbose: flags.includes("--verbose"),
    color: colors.length === 0 ? undefined : colors.at(-1) === "--color",
  };
}

/** On a narrow terminal what a flag does goes below it: there is no room beside it. */
function formatItem(term: string, _: number, description: string, helper: Help): string {
  const lines = helper.boxWrap(description, (helper.helpWidth ?? 80) - 6).split("\n");
  return [`  ${term}`, ...lines.map((line) => `      ${line}`)].join("\n");
}

function collect(value: string, earlier: string[] = []): string[] {
  return [...earlier, value];
}

function formatDirective([text, effect]: (typeof directives)[number]): string {
  return `  ${text.padEnd(14)}${effect}`;
}

function saveOption(): Option {
  return new Option(
    "-o, --output <place>",
    "save the video: a file, a folder/, - for stdout, or a name with {slug} {model} {id} {date} {n} in it",
  );
}

function timeoutOption(): Option {
  return new Option("--timeout <time>", "how long to wait: 90s, 5m, 1h30m or plain seconds").default("15m");
}

function intervalOption(): Option {
  return new Option("--interval <time>", "time between two looks, 1s or more (default: 10s, then 5s)");
}

function openOption(): Option {
  return new Option("--open", "open the video in the platform's own player once it is there");
}

function bellOption(): Option {
  return new Option("--bell", "ring at the end of a wait of over 15 s");
}

function localOption(description = "use the local service"): Option {
  return new Option("--local", description);
}

function baseUrlOption(description = "the service's address (default: VIDGEN_BASE_URL, else the saved one)"): Option {
  return new Option("--base-url <url>", description);
}
