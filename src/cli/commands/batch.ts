import { type CommandUnknownOpts, Option } from "@commander-js/extra-typings";
import type { Batch } from "../../client/batch/batch.ts";
import type { RedoOptions } from "../../client/batch/redo.ts";
import { knownColumns } from "../../client/batch/rows/columns.ts";
import { formats } from "../../client/batch/rows/file.ts";
import type { GenerationEvent } from "../../client/generation/events.ts";
import { readBudget } from "../../connect/budget.ts";
import { withEngine } from "../../connect/engines.ts";
import type { Services } from "../../connect/services.ts";
import type { Session } from "../../connect/session.ts";
import { readNumber } from "../../connect/values.ts";
import { asVidgenError, beforePaying, usage, VidgenError } from "../../errors.ts";
import type { Machine } from "../../io.ts";
import { readSetFields } from "../../protocol/request.ts";
import {
  baseUrlOption,
  collectValues,
  engineOption,
  engineTimeoutOption,
  eventsOption,
  infoJsonOption,
  intervalOption,
  localOption,
  presetOption,
  readTimes,
  saveOption,
  setOption,
  styleOption,
  timeoutOption,
  withDetails,
} from "../command.ts";
import type { Context } from "../context.ts";
import { readFieldFlags, withFieldFlags } from "../field-flags.ts";
import {
  describeProject,
  describeReferences,
  findModel,
  findNamedReferences,
  readProjectInput,
} from "../project-values.ts";
import { createBatchProgress, describeCounts } from "../terminal/batch-progress.ts";
import { createBatchError, describePlan } from "../terminal/batch-report.ts";
import { addBatchStatus } from "./batch-status.ts";

export function addBatch(program: CommandUnknownOpts, context: Context): void {
  const command = declare(program);
  command.action((file, options) => batch(file, options, { command, ...context }));
  addBatchStatus(command, context);
}

function declare(program: CommandUnknownOpts) {
  const format = new Option("--input-format <name>", "format of the file, whatever its extension").choices(formats);
  const bareCommand = program
    .command("batch")
    .helpGroup("Make videos:")
    .summary("start a generation for each row of a file")
    .description(
      `Starts a generation for each row of a file, and saves the videos. Safe to interrupt: run it again to resume; no row is paid for twice. Columns: ${knownColumns.join(", ")}, set.<field>; other columns can be used as {name} in templates.`,
    )
    .argument(
      "<file>",
      '.csv, .tsv, .jsonl, .yaml, or .txt with one prompt per line and # for a comment; "-" reads stdin',
    )
    .optionsGroup("Rows:")
    .addOption(format)
    .option("--prompt <template>", 'the prompt of rows without one, e.g. "a {animal} in {place}"')
    .addOption(styleOption())
    .option(
      "--each <field=values>",
      "repeat each row with each of these values, such as model=wan-2.5,ray-3; may be repeated",
      collectValues,
    )
    .option(
      "--ignore-columns <names>",
      "columns of the file that are not read, with commas between them; may be repeated",
      collectValues,
    )
    .option("--shard <i/n>", "process shard i of n, for n machines")
    .optionsGroup("Request of each row:");
  const command = withFieldFlags(bareCommand)
    .addOption(presetOption())
    .addOption(setOption())
    .optionsGroup("Output:")
    .addOption(
      saveOption("save each video to a path such as 'clips/{id}.mp4'; names may contain {n} and the file's columns"),
    )
    .option(
      "--join <file>",
      "join the videos of all rows into one film, in the order of the file (vidgen help film); needs ffmpeg",
    )
    .option("--overwrite", "replace files that exist")
    .addOption(infoJsonOption())
    .option("--results <file>", "where results are written (default: <file>.results.jsonl)")
    .addOption(eventsOption())
    .optionsGroup("Money:")
    .option(
      "--max-credits <n>",
      "stop before all runs and shards of this batch in one folder together spend more than n credits; machines without a common folder each have this limit for themselves",
    )
    .option("--max-cost <usd>", "the same limit in US dollars, of what the provider of --engine charges")
    .option("--keep-credits <n>", "stop before fewer than n credits are left in the account")
    .option("--retry-failed", "start refused and failed rows again; each is charged again")
    .option("--retry-unknown", "start rows with an unknown outcome again; they may be charged twice")
    .option(
      "--redo <ids>",
      "make these rows again, such as run,den, or all, and the rows that begin with their frame; each is charged again",
    )
    .option("--again", "with --redo: make rows again that --redo has already made; each is charged again")
    .option("-y, --yes", "do not ask before starting")
    .option("--dry-run", "print the plan and start nothing")
    .optionsGroup("Running:")
    .option("-j, --jobs <n>", "how many generations run at once", "4")
    .option("--fail-fast", "start no more rows after a row was refused or failed")
    .addOption(timeoutOption())
    .addOption(intervalOption())
    .optionsGroup("Service:")
    .addOption(localOption("use the local service: no account, no credits; saves to the current folder"))
    .addOption(engineOption())
    .addOption(engineTimeoutOption())
    .addOption(baseUrlOption());
  return withDetails(command, {
    examples: [
      "vidgen batch shots.csv -o 'clips/{id}.mp4' --jobs 4 --max-credits 2000",
      "vidgen batch shots.csv --dry-run",
      `vidgen batch animals.csv --prompt "a {animal} in {place}" --each "model=wan-2.5,ray-3" -o "{animal}-{model}.mp4"`,
      "vidgen batch shots.csv --shard 2/8 -o clips/",
      "vidgen batch shots.csv -o 'clips/{n}.mp4' --join film.mp4",
      "vidgen batch shots.csv -o 'clips/{n}.mp4' --join film.mp4 --redo run,den",
      "vidgen batch status shots.csv",
    ],
  });
}

type BatchFlags = ReturnType<ReturnType<typeof declare>["opts"]>;

type BatchContext = Context & { command: ReturnType<typeof declare> };

/**
 * Starts a generation for each row that is not done, and waits for those that run. Throws the error that
 * decides the exit code.
 */
async function batch(file: string, flags: BatchFlags, context: BatchContext): Promise<void> {
  const planned = await planBatch(file, flags, context).catch((error) => {
    throw beforePaying(error);
  });
  if (planned) await run(planned, context);
}

/** Does everything that can fail before the first start, and prints the plan. `undefined` for a dry run. */
async function planBatch(file: string, flags: BatchFlags, context: BatchContext): Promise<PlannedBatch | undefined> {
  const { io, output, defer } = context;
  const options = await withEngine(flags, io);
  if (options.dryRun && output.events) throw usage("--events and --dry-run cannot be combined: nothing is started.");
  if (options.results?.trim() === "") throw usage("--results is empty.");
  const limits = readLimits(options);
  const shard = readShard(options.shard);
  const redo = readRedo(options, io);
  const results = options.results ?? nameResults(file, shard);
  const { readRows } = await import("../../client/batch/rows/rows.ts");
  const { noteWait } = await import("../terminal/prompts.ts");
  const { keyRows, shardOf } = await import("../../client/batch/row.ts");
  const { openBatch } = await import("../../client/batch/batch.ts");
  const { checkRedoNames } = await import("../../client/batch/redo.ts");
  const { openServices } = await import("../../connect/services.ts");
  checkJoin(options);
  const { texts: typedTexts, images } = readFieldFlags(context.command);
  const { set = [], each = [], inputFormat: format, prompt, preset, style: typedStyle } = options;
  const needsOutput = options.output === undefined;
  const typedValues = { texts: typedTexts, set: readSetFields(set), preset, style: typedStyle, needsOutput };
  const projectInput = await readProjectInput(typedValues, context);
  await findNamedReferences(undefined, images, projectInput, io);
  const outputPath = options.output ?? projectInput.output ?? (options.local ? "." : undefined);
  if (options.writeInfoJson && outputPath === undefined)
    throw usage("--write-info-json needs -o: the file goes beside the video.");
  const texts = { ...projectInput.texts, ...typedTexts };
  if (texts.model?.includes(","))
    throw usage(
      `--model takes one model in a batch, not "${texts.model}".`,
      "--each model=a,b repeats each row with each.",
    );
  const { value: model, source: modelSource } = await findModel(typedTexts, projectInput, io);
  const ignoreColumns = options.ignoreColumns?.flatMap((names) => names.split(","));
  const isLocal = options.local ?? false;
  const { style, references } = projectInput;
  // VIDGEN_MODEL is a part of the command where it gives the model; a saved model is compared, as a value of vidgen.json is.
  const environmentModel = modelSource === "environment" ? io.env.VIDGEN_MODEL : undefined;
  const isModelSaved = modelSource === "setting" || modelSource === undefined;
  const untyped = isModelSaved ? [...projectInput.untyped, "model"] : projectInput.untyped;
  const typed = { texts: typedTexts, images, set, prompt, preset, style: typedStyle };
  const requestOptions = { ...options, isLocal, style, texts: { ...texts, model }, images, set };
  const fromProject = { references, typed, untyped, environmentModel };
  const rowOptions = { ...requestOptions, ...fromProject, format, each, output: outputPath, ignoreColumns };
  const {
    rows,
    notes,
    unused: unusedColumns,
    references: usedReferences,
  } = await (file === "-"
    ? noteWait(readRows(file, rowOptions, io), "the rows", context)
    : readRows(file, rowOptions, io));
  for (const note of [...describeReferences(usedReferences, projectInput), ...notes]) output.note(note);
  const keyedRows = keyRows(rows);
  if (redo) checkRedoNames(redo, keyedRows);
  const shardRows = shard ? keyedRows.filter((row) => shardOf(row, shard.of) === shard.index) : keyedRows;
  const services = await openServices({ ...options, isStarting: true, isDryRun: options.dryRun, output }, io);
  defer(services.close);
  const session = await services.open().catch((error) => {
    if (!options.dryRun) throw error;
    return openForPlan(error, { services, results }, context);
  });
  const source = { file, total: keyedRows.length, shard: shard ? `${shard.index}/${shard.of}` : null };
  const openedBatch = await openBatch(
    shardRows,
    {
      ...pickPlanOptions(options),
      redo,
      results,
      source,
      keys: keyedRows.map(({ key }) => key),
      signal: io.signal,
      onNote: output.note,
    },
    { service: session.service, io },
  );
  defer(openedBatch.close);
  const needsFrames = openedBatch.rows.some(({ source, state }) => source !== undefined && state.kind === "new");
  const keepFrame = needsFrames ? await prepareFrames(context) : undefined;
  const film = options.join === undefined ? undefined : await prepareJoin(options.join, openedBatch, options, context);
  const { service } = session;
  const planText = describePlan(openedBatch, { results, service, budget: limits });
  const text = film ? `${planText}\n${film.description}` : planText;
  if (options.dryRun) {
    for (const line of projectInput.project ? describeProject(projectInput.project) : []) output.note(line);
    await output.result(text, { ...openedBatch.plan, results, unused_columns: unusedColumns });
    return undefined;
  }
  output.note(text);
  await confirm(openedBatch, options, context);
  return { openedBatch, limits: { ...limits, keepFrame }, film, results, file, unusedColumns, options, session };
}

/** The session for a plan when no base URL is set: the service of the results file, or a placeholder. Nothing is sent to it. */
async function openForPlan(
  error: unknown,
  { services, results }: { services: Services; results: string },
  { io, output }: BatchContext,
): Promise<Session> {
  if (asVidgenError(error).code !== "auth") throw error;
  const { findResults, readResults } = await import("../../client/batch/results.ts");
  const { unsetUrl } = await import("../../connect/local.ts");
  const { lastRun } = await readResults(await findResults(results, io.disk), io.disk);
  output.note("No base URL is set; without --dry-run this would fail.");
  return services.open(lastRun?.service ?? unsetUrl);
}

/** Prepares to take the last frames of videos. Throws `usage` without ffmpeg. */
async function prepareFrames({ io }: BatchContext) {
  const { createFrameKeeper } = await import("../../connect/frames.ts");
  return createFrameKeeper("The column from", io.signal, io);
}

function checkJoin({ join, shard, each = [] }: BatchFlags): void {
  if (join === undefined) return;
  // A mistyped name could otherwise be the file of the rows or of their results, which --overwrite would replace.
  if (!/[^/\\]\.mp4$/i.test(join))
    throw usage(`--join must name an .mp4 file, such as film.mp4, not "${join}". Nothing was sent.`);
  if (shard !== undefined) throw usage("--join and --shard cannot be combined: a shard has only a part of the videos.");
  if (each.length > 0) throw usage("--join and --each cannot be combined: each row would have several videos.");
}

/** Checks the film before anything is paid. `make` joins the videos, given by the keys of their rows. */
async function prepareJoin(
  filmPath: string,
  openedBatch: Batch,
  { overwrite, dryRun }: BatchFlags,
  context: BatchContext,
) {
  const { prepareFilm, makeFilm } = await import("../film.ts");
  const plan = await prepareFilm(filmPath, openedBatch, { overwrite, isDryRun: dryRun }, context);
  const isKept = plan.earlier !== undefined && !overwrite;
  const { deleted, failed, unknown, lost, blocked } = openedBatch.plan;
  return {
    description:
      deleted + failed + unknown + lost + blocked > 0
        ? `${filmPath} is not joined yet: it needs the videos of all rows.`
        : `Then all videos are joined into ${filmPath}${isKept ? ", unless it is up to date" : ""}.`,
    make: (files: ReadonlyMap<string, string>) => makeFilm(plan, files, openedBatch, context),
  };
}

type PlannedBatch = {
  openedBatch: Batch;
  limits: ReturnType<typeof readLimits> & { keepFrame: Awaited<ReturnType<typeof prepareFrames>> | undefined };
  film: Awaited<ReturnType<typeof prepareJoin>> | undefined;
  results: string;
  file: string;
  /** The columns that no field or template uses. */
  unusedColumns: readonly string[];
  options: BatchFlags;
  session: Session;
};

async function run(planned: PlannedBatch, { command, io, output }: BatchContext): Promise<void> {
  const { openedBatch, limits, film, results, file, unusedColumns, options, session } = planned;
  // Otherwise V8 lets garbage grow: 220 MB after ten thousand rows, instead of 110.
  io.optimizeForSize();
  const { countsCredits } = await import("../../client/generation/cost.ts");
  const models = [...new Set(openedBatch.rows.map(({ record }) => record.model))];
  const hasCredits = models.some((model) => countsCredits(session.service, model));
  const progress = createBatchProgress(openedBatch.plan, { output, hasCredits }, io);
  const generations: object[] = [];
  const files = new Map<string, string>();
  for (const { key, state } of film ? openedBatch.rows : [])
    if (state.kind === "done" && state.file !== undefined) files.set(key, state.file);
  const onEvent = (reported: GenerationEvent) => {
    const event =
      reported.event === "ended"
        ? { ...reported, video_url: session.durableUrl(reported.video_url ?? undefined) ?? null }
        : reported;
    progress.show(event);
    output.event(event);
    if (event.event !== "ended") return;
    if (film && event.row !== undefined && event.file !== null) files.set(event.row, event.file);
    if (output.json) generations.push({ ...event, event: undefined });
    if (event.status === "completed" && event.error === null) output.line(progress.lineOf(event));
  };
  const { failFast, writeInfoJson } = options;
  const runOptions = {
    ...limits,
    failFast,
    infoJson: writeInfoJson,
    signal: io.signal,
    abandon: io.abandon,
    onNote: output.note,
    onEvent,
  };
  const end = await openedBatch.run(runOptions);
  output.clearProgress();
  const { counts } = progress;
  output.summarize(counts);
  const joinOutcome = await film?.make(files).catch(asVidgenError);
  const filmError = joinOutcome instanceof VidgenError ? joinOutcome : undefined;
  const madeFilm = joinOutcome instanceof VidgenError ? null : (joinOutcome ?? null);
  if (output.json)
    await output.result("", {
      ...counts,
      results,
      unused_columns: unusedColumns,
      generations,
      ...(film && { film: madeFilm }),
    });
  const isFree = models.every(session.service.isFree);
  const reportOptions = { results, hasCredits, isFree, flags: { ...options, file, command } };
  const error = createBatchError(openedBatch, { end, counts }, reportOptions, io);
  if (error && filmError) output.note(filmError.message);
  if (error ?? filmError) throw error ?? filmError;
  output.note(`${describeCounts(counts, { hasCredits })}; ${results}`);
  if (madeFilm) output.line(madeFilm.file);
}

function pickPlanOptions({ overwrite, retryFailed, retryUnknown, dryRun }: BatchFlags) {
  return { overwrite, retryFailed, retryUnknown, isDryRun: dryRun };
}

async function confirm({ plan: { to_start }, cost }: Batch, { yes }: BatchFlags, context: Context): Promise<void> {
  const { canAsk, askToStart } = await import("../terminal/prompts.ts");
  if (yes || to_start === 0 || !canAsk(context, context.io)) return;
  await askToStart(to_start, cost, context.io);
}

function readLimits({ jobs, keepCredits, ...flags }: BatchFlags) {
  return {
    ...readTimes(flags),
    ...readBudget(flags),
    jobs: readNumber(jobs, "--jobs", { min: 1 }),
    keepCredits: keepCredits === undefined ? undefined : readNumber(keepCredits, "--keep-credits", { min: 0 }),
  };
}

/** The rows to make again. Throws `usage` for a list without names, and for --again without --redo. */
function readRedo({ redo, again }: BatchFlags, { uuid }: Pick<Machine, "uuid">): RedoOptions | undefined {
  if (redo === undefined) {
    if (again) throw usage("--again needs --redo with the ids of the rows to make again. Nothing was sent.");
    return undefined;
  }
  const names = redo.split(",").map((name) => name.trim());
  if (names.includes("")) throw usage("--redo takes ids of rows, separated by commas, or all. Nothing was sent.");
  return { rows: redo.trim() === "all" ? "all" : names, again, name: uuid() };
}

type Shard = { index: number; of: number };

function readShard(text: string | undefined): Shard | undefined {
  if (text === undefined) return undefined;
  const [, index = "", of = ""] = /^(\d{1,4})\/(\d{1,4})$/.exec(text) ?? [];
  const shard = { index: Number(index), of: Number(of) };
  if (shard.index >= 1 && shard.index <= shard.of) return shard;
  throw usage(`--shard must be i/n, such as 2/8 for the second of eight parts, not "${text}".`);
}

function nameResults(file: string, shard: Shard | undefined): string {
  if (file === "-")
    throw usage("--results is required when the rows come from stdin: there is no file to name the results after.");
  return `${file}${shard ? `.${shard.index}-of-${shard.of}` : ""}.results.jsonl`;
}
