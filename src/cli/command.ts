import { type Argument, type CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import { readTime } from "../connect/values.ts";
import { usage } from "../errors.ts";

/** The parts of a command's help that commander has no field for. */
type HelpDetails = {
  /** Shown at the beginning of the help. */
  examples: readonly string[];
  /** The flags that the help shows, such as --model; the others are shown with --all. */
  mainFlags?: readonly string[];
  /** Shown at the end of the help. */
  after?: string;
};

const details = new WeakMap<CommandUnknownOpts, HelpDetails>();

/** Adds details to a command. */
export function withDetails<Command extends CommandUnknownOpts>(
  command: Command,
  commandDetails: HelpDetails,
): Command {
  details.set(command, commandDetails);
  return command;
}

export function detailsOf(command: CommandUnknownOpts): HelpDetails {
  return details.get(command) ?? { examples: [] };
}

export type Suggestion = readonly [word: string, description: string];

const suggestions = new WeakMap<object, () => readonly Suggestion[]>();

/**
 * Sets the words that completion offers for a flag or an argument; unlike commander's `choices`, other values
 * are accepted too.
 */
export function withSuggestions<Parameter extends object>(
  parameter: Parameter,
  words: () => readonly Suggestion[],
): Parameter {
  suggestions.set(parameter, words);
  return parameter;
}

export function suggestionsFor(parameter: Option | Argument): readonly Suggestion[] | undefined {
  return suggestions.get(parameter)?.();
}

export const missingPrompt = "A prompt is missing.";

// Flags of more than one command. Those of the request's fields are in field-flags.ts.
export const setOption = () =>
  new Option("--set <field=value>", "another field of the request; may be repeated").argParser(collectValues);

export const styleOption = () =>
  new Option("--style <text>", "added to the end of each prompt, such as 'watercolour, soft light'");

export const presetOption = () => new Option("--preset <name>", "use the values of a preset of vidgen.json");

export const saveOption = (
  description = "save the video to a file, a folder/, or - for stdout; names may contain {slug} {model} {id} {date} {n} (default: VIDGEN_OUTPUT, else the saved setting)",
) => new Option("-o, --output <path>", description);

export const infoJsonOption = () =>
  new Option("--write-info-json", "with -o, also write <file>.json: the request, times and credits");

const defaultTimeout = "15m";

export const timeoutOption = () =>
  new Option("--timeout <time>", "stop waiting after this long, such as 90s or 5m; the video goes on").default(
    defaultTimeout,
  );

export const intervalOption = () =>
  new Option("--interval <time>", "polling interval, at least 1s (default: 10s, then 5s)");

export const openOption = () => new Option("--open", "open the video in the default player when it is ready");

export const bellOption = () => new Option("--bell", "ring the terminal bell after a wait of more than 15 s");

/** The flag is read before the command line is parsed (see `readGlobalFlags`). */
export const eventsOption = () => new Option("--events", "print events as they happen, one JSON object per line");

export const localOption = (description = "use the local service") => new Option("--local", description);

export const engineOption = () =>
  new Option(
    "--engine <spec>",
    "generate the videos with a provider or your own server, such as openrouter or wan-2.5=http://gpu-1:8091; implies --local (default: VIDGEN_ENGINE)",
  ).argParser(collectValues);

export const engineTimeoutOption = () =>
  new Option(
    "--engine-timeout <time>",
    "give up when the engine shows no progress for this long (default: 30m; ComfyUI 24h)",
  );

export const baseUrlOption = (
  description = "the service's base URL (default: VIDGEN_BASE_URL, else the saved setting)",
) => new Option("--base-url <url>", description);

/** For a flag that may be repeated. */
export function collectValues(value: string, earlier: string[] | undefined): string[] {
  return [...(earlier ?? []), value];
}

/** `--timeout` and `--interval` in milliseconds; without `--interval`, polling uses its default intervals. Throws `usage`. */
export function readTimes({ timeout, interval }: { timeout: string; interval?: string }) {
  const timeoutMs = readTime(timeout, "--timeout");
  const intervalMs = interval === undefined ? undefined : readTime(interval, "--interval");
  if (intervalMs !== undefined && intervalMs < 1000) throw usage("--interval must be at least 1s.");
  return { timeoutMs, intervalMs };
}

/** The words of a command line with these flags, without those that have their default. */
export function flagWords(command: CommandUnknownOpts, values: Readonly<Record<string, unknown>>): string[] {
  return command.options.flatMap((option) => {
    const value = values[option.attributeName()];
    // The default of a negated flag such as --no-wait is `true`.
    const defaultValue = option.negate ? true : option.defaultValue;
    // Messages and README use -o, not --output.
    const name = option.short === "-o" ? option.short : (option.long ?? option.flags);
    if (value === undefined || value === defaultValue) return [];
    return typeof value === "boolean" ? [name] : [value].flat().flatMap((each) => [name, String(each)]);
  });
}
