import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { close, type OpenAttemptOptions, openAttempt } from "../../client/generation/attempt.ts";
import { withCharge } from "../../client/ledger/price.ts";
import { isExistsError } from "../../client/save/files.ts";
import { withEngine, withEngineFlag } from "../../connect/engines.ts";
import type { Session } from "../../connect/session.ts";
import { findOutputSetting } from "../../connect/settings.ts";
import { asVidgenError, usage, type VidgenError } from "../../errors.ts";
import { quote, shellOf } from "../../shell.ts";
import { givesDistinctNames } from "../../video/naming.ts";
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
  readTimes,
  saveOption,
  timeoutOption,
  withDetails,
} from "../command.ts";
import type { Context } from "../context.ts";
import type { Generations, LocatedGeneration } from "../generations.ts";
import { isFinalError, lineOf, resumeHint, waitNext, withResume, withResumeHint } from "../resume.ts";
import { endAll, failedOutcome, followOne, type Outcome } from "../several.ts";
import type { Output } from "../terminal/output.ts";
import { createProgress, ringAfter } from "../terminal/progress.ts";
import { createReporter, type Reporter } from "../terminal/reporter.ts";
import { checkInfoPath, checkOutputPath, displayPath, noteOutputPath } from "../terminal/result.ts";
import { deliver, watch } from "../watch.ts";

export function addWait(program: CommandUnknownOpts, context: Context): void {
  declare(program).action((ids, options) => wait(ids, options, context));
}

function declare(program: CommandUnknownOpts) {
  const command = program
    .command("wait")
    .helpGroup("Make videos:")
    .summary("wait for generations already started")
    .description(
      "Waits until generations have ended, at the service where each was started. Prints each URL; with -o, saves the videos and prints the paths. A video of the local service is always saved: without -o, where `vidgen generate` would have saved it. If several fail, the most severe error sets the exit code.",
    )
    .argument(
      "[id...]",
      'ids of generations, their saved files, "last" for the newest (default: the newest running one)',
    )
    .optionsGroup("Waiting:")
    .option("--all", "every unfinished generation, plus finished ones not yet saved")
    .addOption(timeoutOption())
    .addOption(intervalOption())
    .addOption(bellOption())
    .optionsGroup("Output:")
    .addOption(saveOption())
    .option("--overwrite", "replace the file if it exists")
    .addOption(infoJsonOption())
    .addOption(openOption())
    .addOption(eventsOption())
    .optionsGroup("Service:")
    .addOption(localOption())
    .addOption(engineOption())
    .addOption(engineTimeoutOption())
    .addOption(baseUrlOption());
  return withDetails(command, {
    examples: ["vidgen wait <id> -o fox.mp4", "vidgen wait last --open", "vidgen wait --all -o clips/"],
  });
}

type WaitFlags = ReturnType<ReturnType<typeof declare>["opts"]>;

/** The flags, with the output path from the flag or the setting. */
type WaitCommandOptions = Omit<WaitFlags, "output"> & { output: string | undefined };

/** Follows existing generations concurrently, and saves them with `-o`. Throws the worst error. */
async function wait(typed: string[], flags: WaitFlags, context: Context): Promise<void> {
  const { io, output, defer } = context;
  const options = { ...withEngineFlag(flags), output: flags.output ?? (await findOutputSetting(io)) };
  const { all, open = false } = options;
  if (all && typed.length > 0) throw usage("--all and ids cannot be combined.");
  if (typed.includes("")) throw usage("An id is empty.");
  checkOutputPath(options.output, { output, open }, io);
  checkInfoPath(options.output, options);
  await noteOutputPath(options.output, output, io);
  // Checked before anything is opened.
  readTimes(options);
  if (options.engineTimeout !== undefined) await withEngine(flags, io);
  const { openServices } = await import("../../connect/services.ts");
  const { locateGenerations } = await import("../generations.ts");
  const services = await openServices({ ...options, output }, io);
  defer(services.close);
  const generations = await locateGenerations(options, services, io);
  const found = await (all ? generations.findUnfinished() : findTyped(typed, generations));
  const isOne = !all && found.length < 2;
  if (open && !isOne) throw usage("--open works with one id only.");
  const reporter = createReporter(createProgress(output, io), output, io);
  const waitContext = { ...context, options, reporter };
  const follow = async () =>
    isOne
      ? waitForOne(found[0] ?? (await findNewest(generations, output)), waitContext)
      : waitForAll(found, waitContext);
  await ringAfter(options.bell ?? false, follow, io);
}

type WaitContext = Context & { options: WaitCommandOptions; reporter: Reporter };

async function findNewest({ findRunning }: Generations, { note }: Pick<Output, "note">): Promise<LocatedGeneration> {
  const newest = await findRunning();
  if (newest.otherCount > 0)
    note(`${newest.otherCount === 1 ? "1 more is" : `${newest.otherCount} more are`} running: vidgen wait --all`);
  return newest;
}

/** Each generation once, even if two typed ids mean the same one. */
async function findTyped(typed: string[], { find }: Generations): Promise<LocatedGeneration[]> {
  const found = await Promise.all(typed.map(find));
  return [...new Map(found.map((each) => [each.id, each])).values()];
}

/**
 * The output path of a generation; `undefined` prints only its URL. A local video is always saved, where its
 * own start would have saved it, because its URL may stop working when the command ends.
 */
function chooseOutput(
  { entry }: LocatedGeneration,
  { service }: Session,
  { output }: WaitCommandOptions,
): string | undefined {
  if (output !== undefined || !service.isLocal) return output;
  // The journal's `place` is -o as it was typed, and its `path` is absolute.
  const { place: typedPath, path = typedPath } = entry ?? {};
  return path === undefined || typedPath === "-" ? "." : displayPath(path) || ".";
}

async function waitForOne(located: LocatedGeneration, waitContext: WaitContext): Promise<void> {
  const { options, io, output, reporter } = waitContext;
  const { id, open } = located;
  const stop = (thrown: unknown) => {
    const error = withKnownCharge(thrown, located);
    reporter.stopped(id, error);
    throw error;
  };
  const session = await open().catch(stop);
  const outputPath = chooseOutput(located, session, options);
  const saveCommand = lineOf(waitNext([id], { ...options, outputPath: "." }), io);
  const resume = { ...options, outputPath };
  try {
    const attempt = await openAttempt(session.service, id, openOptions(waitContext, { outputPath, firstNumber: 1 }));
    waitContext.defer(() => close(attempt));
    resume.outputPath = attempt.outputPath;
    const finished = await watch(attempt, { session, reporter });
    await deliver(
      finished,
      { outputPath, open: options.open ?? false, saveCommand, output },
      { session, reporter, io },
    );
  } catch (error) {
    // The same -o would fail again.
    stop(isExistsError(error) ? error : withResumeHint(error, id, resume, io));
  }
}

/** The error with the id, and whether its generation was charged, as far as the journal knows. */
function withKnownCharge(thrown: unknown, { id, entry }: LocatedGeneration): VidgenError {
  return withCharge(asVidgenError(thrown).with({ id }), entry);
}

type AttemptOutput = { outputPath: string | undefined; firstNumber: number };

function openOptions({ options, io }: WaitContext, attemptOutput: AttemptOutput): OpenAttemptOptions {
  const { overwrite, writeInfoJson } = options;
  const infoJson = attemptOutput.outputPath === undefined ? undefined : writeInfoJson;
  const { outputPath, firstNumber: first } = attemptOutput;
  return { ...readTimes(options), outputPath, first, overwrite, infoJson, signal: io.signal };
}

/** Prints each line when its video is ready; with `--json` one array at the end, in the order of the ids. */
async function waitForAll(found: LocatedGeneration[], waitContext: WaitContext): Promise<void> {
  const { options, io, output, reporter, defer } = waitContext;
  const { output: outputPath } = options;
  const { isFolder } = await import("../../client/save/output-path.ts");
  if (outputPath !== undefined && !givesDistinctNames(outputPath) && !(await isFolder(outputPath, io.disk)))
    throw usage(
      `Several videos need a folder or distinct names: -o folder/ or -o ${quote("{slug}-{id}.mp4", shellOf(io))}`,
    );
  if (found.length === 0) output.note("Nothing to wait for.");
  const follow = async (located: LocatedGeneration, index: number): Promise<Outcome> => {
    const { id, open } = located;
    try {
      const session = await open();
      const attemptOutput = { outputPath: chooseOutput(located, session, options), firstNumber: index + 1 };
      const attempt = await openAttempt(session.service, id, openOptions(waitContext, attemptOutput));
      defer(() => close(attempt));
      return await followOne(attempt, { ...attemptOutput, output }, { session, reporter, io, resume: options });
    } catch (error) {
      const known = withResume(withKnownCharge(error, located), id, { ...options, outputPath }, io);
      reporter.stopped(id, known);
      return failedOutcome(known, { id }, output);
    }
  };
  const outcomes = await Promise.all(found.map(follow));
  await endAll(outcomes, output, (failed) => {
    const resumableIds = failed.flatMap(({ id, error }) => (isFinalError(error) || id === undefined ? [] : id));
    if (resumableIds.length === 0) return {};
    const next = waitNext(options.all ? "--all" : resumableIds, { ...options, outputPath });
    return { hint: resumeHint(next, io), next: [next] };
  });
}
