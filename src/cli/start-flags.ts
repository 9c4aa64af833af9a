import type { Command, CommandUnknownOpts } from "@commander-js/extra-typings";
import type { Earlier } from "../client/ledger/policy.ts";
import { readBudget } from "../connect/budget.ts";
import { readNumber } from "../connect/values.ts";
import { usage } from "../errors.ts";
import { defaultModel } from "../protocol/models.ts";
import { readSetFields } from "../protocol/request.ts";
import {
  baseUrlOption,
  bellOption,
  engineOption,
  engineTimeoutOption,
  eventsOption,
  infoJsonOption,
  intervalOption,
  localOption,
  openOption,
  presetOption,
  readTimes,
  saveOption,
  setOption,
  styleOption,
  timeoutOption,
} from "./command.ts";
import { readFieldFlags, readModels, withFieldFlags } from "./field-flags.ts";

/** The flags of `withStartFlags` that most people need. */
export const mainFlags = [
  ...["--model", "--aspect-ratio", "--duration", "--resolution", "--image", "--from", "--count"],
  ...["--output", "--max-cost", "--again", "--reuse", "--dry-run", "--no-wait", "--local", "--engine"],
];

/** Adds the flags of a command that starts generations. */
export function withStartFlags<Words extends unknown[]>(bareCommand: Command<Words>) {
  const model = `the model, or several with commas between them (default: VIDGEN_MODEL, else ${defaultModel})`;
  const imageUrl = "source image: a URL, a PNG, JPEG or WebP file, or - for stdin; may be repeated";
  return withFieldFlags(bareCommand.optionsGroup("Request:"), { model, imageUrl })
    .addOption(styleOption())
    .addOption(presetOption())
    .addOption(setOption())
    .option("--from <id|file>", 'begin with the last frame of a video: an id, "last", or a file; needs ffmpeg')
    .option(
      "-n, --count <n>",
      "how many generations of each model to start, each charged; with --seed, each gets the next seed",
    )
    .optionsGroup("Output:")
    .addOption(saveOption())
    .option("--download", "the same as -o .")
    .option("--overwrite", "replace the file if it exists")
    .addOption(infoJsonOption())
    .addOption(openOption())
    .addOption(eventsOption())
    .optionsGroup("Money:")
    .option(
      "--max-credits <n>",
      "start nothing that would cost more than n credits, counting all generations of this command",
    )
    .option("--max-cost <usd>", "start nothing that would cost more US dollars, at the provider of --engine")
    .option("--again", "start a new generation instead of resuming an interrupted run")
    .option("--reuse", "take the video that this request made in the last 24 hours, or is making")
    .option("--dry-run", "start nothing; print the request that would be sent, or what would be resumed")
    .optionsGroup("Waiting:")
    .option("--no-wait", "print the id and exit")
    .addOption(timeoutOption())
    .addOption(intervalOption())
    .addOption(bellOption())
    .optionsGroup("Service:")
    .addOption(localOption("use the local service: no account, no credits; saves to the current folder"))
    .addOption(engineOption())
    .addOption(engineTimeoutOption())
    .addOption(baseUrlOption());
}

export type StartFlags = ReturnType<ReturnType<typeof withStartFlags>["opts"]>;

/** The words and flags of a command that starts generations, as they are typed. */
export type TypedStart = ReturnType<typeof readTyped>;

/**
 * Reads the words and flags of a command, once: the generation that `again` repeats, and the argument with
 * the prompt. Throws `usage` for a value that is not valid, and for flags that contradict each other.
 */
export function readTyped(
  words: { generation: string | undefined; argument: string | undefined },
  flags: StartFlags,
  command: CommandUnknownOpts,
) {
  const { wait, open, again, reuse } = flags;
  if (flags.dryRun && flags.events) throw usage("--events and --dry-run cannot be combined: nothing is started.");
  const typed = {
    ...words,
    ...readFieldFlags(command),
    command,
    flags,
    times: readTimes(flags),
    budget: readBudget(flags),
    /** How many generations of each model are started. */
    count: flags.count === undefined ? 1 : readNumber(flags.count, "-n", { min: 1, max: maxStarts }),
    /** The fields of `--set`. */
    set: readSetFields(flags.set ?? []),
    output: flags.output ?? (flags.download ? "." : undefined),
  };
  const models = readModels(typed);
  checkSeveral({ ...typed, models });
  if (again && reuse) throw usage("--again and --reuse cannot be combined.");
  if (!wait && typed.output !== undefined)
    throw usage("--no-wait cannot be combined with -o: save the video later with `vidgen wait <id> -o ...`.");
  if (!wait && open)
    throw usage("--no-wait cannot be combined with --open: open the video later with `vidgen wait <id> --open`.");
  if (!wait && command.getOptionValueSource("timeout") === "cli")
    throw usage("--no-wait cannot be combined with --timeout: wait later with `vidgen wait <id> --timeout ...`.");
  const taken: Earlier = reuse ? "reuse" : "resume";
  const earlier: Earlier = again ? "again" : taken;
  return { ...typed, models, earlier };
}

/** The largest number of generations that one command starts. */
const maxStarts = 20;

function checkSeveral({ models, count, set, flags }: Pick<TypedStart, "models" | "count" | "set" | "flags">): void {
  if (!isSeveral({ models, count })) return;
  const flag = models.length > 1 ? "Several models" : "-n";
  const total = models.length * count;
  if (total > maxStarts)
    throw usage(
      `-n ${count} of ${models.length} models would start ${total} generations: at most ${maxStarts} are allowed.`,
    );
  if (models.length > 1 && Object.hasOwn(set, "model"))
    throw usage("Several models and --set model=... cannot be combined.");
  if (flags.reuse)
    throw usage(`${flag} and --reuse cannot be combined: the same command already resumes what is left of it.`);
  if (flags.open) throw usage(`${flag} and --open cannot be combined: --open works with one video only.`);
}

/** Whether a command starts several generations. */
export function isSeveral({ models, count }: Pick<TypedStart, "models" | "count">): boolean {
  return models.length > 1 || count > 1;
}
