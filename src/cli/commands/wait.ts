import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { isDistinct } from "../../client/naming.ts";
import { asVidgenError, usage, type VidgenError } from "../../errors.ts";
import {
  baseUrlOption,
  bellOption,
  type Context,
  intervalOption,
  localOption,
  openOption,
  readTimes,
  saveOption,
  timeoutOption,
  withDetails,
} from "../command.ts";
import type { Session } from "../context.ts";
import { errorDocument } from "../terminal/output.ts";
import { ringAfter } from "../terminal/progress.ts";
import { checkPlace, collectedResult, printResult, type Result, savedResult } from "../terminal/result.ts";

export function addWait(program: CommandUnknownOpts, context: Context): void {
  declare(program).action((ids, options) => wait(ids, options, context));
}

function declare(program: CommandUnknownOpts) {
  const command = program
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
    .addOption(baseUrlOption());
  return withDetails(command, {
    prints: "as `generate`",
    examples: ["vidgen wait <id> -o fox.mp4", "vidgen wait --all -o clips/"],
  });
}

type Options = ReturnType<ReturnType<typeof declare>["opts"]>;

/** Follows existing generations concurrently, and saves them with `-o`. Throws the error with the highest exit code. */
async function wait(typed: string[], options: Options, context: Context): Promise<void> {
  const { io, output, defer } = context;
  const { all, open = false } = options;
  if (all && typed.length > 0) throw usage("--all takes no ids.");
  if (typed.includes("")) throw usage("An id is empty.");
  checkPlace(options.output, { output, open }, io);
  readTimes(options);
  const { openSession } = await import("../context.ts");
  const session = await openSession({ ...options, output }, io);
  defer(session.close);
  const ids = all ? await openIds(session) : await resolveIds(typed, session);
  const isOne = !all && ids.length < 2;
  if (open && !isOne) throw usage("--open opens one video: name one id.");
  const waiting = { ...context, session, options };
  const follow = async () =>
    isOne ? waitForOne(ids[0] ?? (await session.newestRunning()), waiting) : waitForAll(ids, waiting);
  await ringAfter(options.bell ?? false, follow, io);
}

type Waiting = Context & { session: Session; options: Options };

/** The generations that this machine has started at this service and that have not ended, or are still to be saved; the oldest first. */
async function openIds(session: Session): Promise<string[]> {
  const { isOpen } = await import("../../client/history.ts");
  const open = (await session.client.entries()).filter(isOpen);
  return open.flatMap(({ id }) => id ?? []).reverse();
}

/** Each generation once, even if two of the typed ids stand for the same one. */
async function resolveIds(typed: string[], session: Session): Promise<string[]> {
  return [...new Set(await Promise.all(typed.map(session.resolveId)))];
}

async function waitForOne(id: string, waiting: Waiting): Promise<void> {
  const { options, io, output } = waiting;
  const print = { place: options.output, open: options.open ?? false, output };
  await collectOne(id, 0, { ...waiting, show: (result) => printResult(result, print, io) });
  if (options.output === "-") await waiting.session.recordStreamed(id);
}

/** Prints each line when its video is ready; with `--json` one array at the end, in the order of the ids. */
async function waitForAll(ids: string[], waiting: Waiting): Promise<void> {
  const { options, io, output } = waiting;
  const { output: place } = options;
  const { isFolder } = await import("../../client/place.ts");
  if (place !== undefined && !isDistinct(place) && !(await isFolder(place)))
    throw usage("Several videos go into a folder, or get names that differ: -o folder/ or -o '{slug}-{id}.mp4'");
  if (ids.length === 0) output.note("There is nothing to wait for.");
  const errors: VidgenError[] = [];
  const show = async (result: Result) => {
    if (!output.json) await printResult(result, { place, open: false, output }, io);
  };
  const follow = async (id: string, index: number): Promise<object> => {
    try {
      return (await collectOne(id, index, { ...waiting, show })).document;
    } catch (thrown) {
      const error = asVidgenError(thrown).with({ id });
      errors.push(output.json ? error : error.about(id));
      return { id, ...errorDocument(error) };
    }
  };
  const documents = await Promise.all(ids.map(follow));
  if (output.json) await output.result("", documents);
  const [worst, ...others] = errors.sort((a, b) => b.exit - a.exit);
  if (!worst) return;
  if (!output.json) for (const error of others) await output.fail(error);
  throw worst;
}

/** Waits for a video and saves it with `-o`, or finds the one that is saved already, and shows it; `index` counts for `{n}`. */
async function collectOne(
  id: string,
  index: number,
  waiting: Waiting & { show(result: Result): Promise<void> },
): Promise<Result> {
  const { session, options, output, defer, show } = waiting;
  const saved = await session.findAlreadySaved(id, options.output);
  if (saved !== undefined) {
    const result = savedResult(id, saved);
    await show(result);
    return result;
  }
  const claim = { overwrite: options.overwrite, id, first: index + 1, resume: true };
  const target = options.output === undefined ? undefined : await session.client.claim(options.output, claim);
  const place = target?.place ?? options.output;
  defer(async () => target?.release());
  const collected = await session.collect(id, { ...readTimes(options), target, place });
  const result = collectedResult(collected, session.isInProcess(), output);
  await show(result).catch((error) => {
    throw session.explain(error, id, place);
  });
  return result;
}
