import { join } from "node:path";
import type { Command, CommandUnknownOpts } from "@commander-js/extra-typings";
import type { Budget } from "../../client/batch/costs.ts";
import type { Earlier, StartedEntry } from "../../client/ledger/policy.ts";
import { createFolder } from "../../client/save/files.ts";
import { readBudget } from "../../connect/budget.ts";
import { checkEngineTimeout, withEngine, withEngineFlag } from "../../connect/engines.ts";
import { localBaseUrl } from "../../connect/local.ts";
import { findJournal } from "../../connect/services.ts";
import type { Session } from "../../connect/session.ts";
import { findBaseUrl, findModelSetting, findOutputSetting } from "../../connect/settings.ts";
import { readNumber } from "../../connect/values.ts";
import { beforePaying, usage } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { defaultModel, guessModel } from "../../protocol/models.ts";
import type { RequestInput } from "../../protocol/request.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import { shorten } from "../../protocol/text.ts";
import { quote, type ShellIo, shellOf } from "../../shell.ts";
import { fillNames, givesDistinctNames } from "../../video/naming.ts";
import {
  baseUrlOption,
  bellOption,
  engineOption,
  engineTimeoutOption,
  eventsOption,
  flagWords,
  infoJsonOption,
  intervalOption,
  localOption,
  missingPrompt,
  openOption,
  presetOption,
  readTimes,
  saveOption,
  setOption,
  styleOption,
  timeoutOption,
  withDetails,
} from "../command.ts";
import type { Context } from "../context.ts";
import { checkPrompt } from "../doubtful-prompt.ts";
import { checkDistinct, readFieldFlags, readModels, withFieldFlags } from "../field-flags.ts";
import { type PreparedStart, printId, type StartContext, startAndReport } from "../making.ts";
import { withService } from "../onboarding.ts";
import {
  findNamedReferences,
  findProjectPlace,
  type ProjectInput,
  readProjectInput,
  withProject,
} from "../project-values.ts";
import { waitCommand, withResumeHint } from "../resume.ts";
import { lastWord } from "../saved-file.ts";
import { checkStdin, withStdinImage } from "../stdin-image.ts";
import { createProgress, ringAfter } from "../terminal/progress.ts";
import { askWhether, canAsk, readPrompt } from "../terminal/prompts.ts";
import { createReporter } from "../terminal/reporter.ts";
import { checkInfoPath, checkOutputPath, noteOutputPath } from "../terminal/result.ts";
import { findOwnAttempt, hashLine, type TypedLine, type TypedWords } from "../typed-line.ts";
import { noteUnsaved } from "../unsaved.ts";
import { deliver, watch } from "../watch.ts";

export function addGenerate(program: CommandUnknownOpts, context: Context): void {
  const command = withStartFlags(
    program
      .command("generate")
      .helpGroup("Make videos:")
      .summary("start a generation, wait for it, save it")
      .description(
        "Starts a generation and waits for it. Prints the video's URL; with -o, saves the video and prints the path.",
      )
      .argument("[prompt]", 'what the video shows; "-" reads stdin, "@path" a file'),
  );
  withDetails(command, {
    examples: [
      'vidgen generate "a red fox runs through snow at dusk" -o fox.mp4',
      'vidgen generate "a red fox runs through snow at dusk" --local',
      'vidgen generate "a red fox runs through snow at dusk" -m veo-3.1 --engine openrouter -o fox.mp4',
      "vidgen generate @prompt.txt --model sora-2 --aspect-ratio 9:16 --duration 8 -o clips/",
      'vidgen generate "a red fox runs through snow at dusk" -n 3 -o clips/',
      'magick fox.jpg -resize 1280x png:- | vidgen generate "the fox turns its head" -i - -o fox.mp4',
      "vidgen generate \"a red fox runs through snow at dusk\" -m veo-3.1,sora-2 -o 'fox-{model}.mp4'",
      'id=$(vidgen generate "waves at night" --no-wait)',
      'vidgen generate "waves at night" --reuse -o waves.mp4',
    ],
    mainFlags,
  });
  command.action(async (prompt, options) => {
    await generate(prompt, options, { ...context, command });
    await noteUnsaved(context);
  });
}

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

type GenerateFlags = ReturnType<ReturnType<typeof withStartFlags>["opts"]>;

type CommandContext = Context & { command: CommandUnknownOpts };

/**
 * Starts a generation, or several with `-n` or several models, waits for it, and saves it with `-o`. Prints the URL, the saved file, or with
 * `--no-wait` the id. `again` is the generation to repeat; typed values replace those of its request.
 */
export async function generate(
  typed: string | undefined,
  flags: GenerateFlags,
  context: CommandContext,
  again?: RepeatedLine,
): Promise<void> {
  const { io, output } = context;
  const throwUnsent = (error: unknown) => {
    throw beforePaying(error);
  };
  const reporter = createReporter(createProgress(output, io), output, io);
  const parent = again?.parent;
  const options = await (parent ? withParent(flags, parent) : withEngine(flags, io))
    .then((serviceFlags) => (parent ? serviceFlags : withService(serviceFlags, context)))
    .catch(throwUnsent);
  const prepared = await prepare(typed, { ...options, ...again }, context).catch(throwUnsent);
  if (!prepared) return;
  const { session, requests, startOptions } = prepared;
  const startContext = { ...context, options, reporter };
  const [request] = requests;
  if (requests.length === 1 && request) return followGeneration({ session, request, startOptions }, startContext);
  const { makeTakes } = await import("../takes.ts");
  await ringAfter(options.bell ?? false, () => makeTakes(prepared, startContext), io);
}

/** The flags with the service of the generation that is repeated, unless they name another service. */
async function withParent(flags: GenerateFlags, { base_url, engine }: StartedEntry): Promise<GenerateFlags> {
  const options = withEngineFlag(flags);
  if (options.local || options.baseUrl !== undefined || base_url !== localBaseUrl) return checkEngineTimeout(options);
  return checkEngineTimeout({ ...options, local: true, ...(engine === undefined ? {} : { engine: [...engine] }) });
}

async function followGeneration(
  prepared: PreparedStart,
  context: StartContext & { options: GenerateFlags },
): Promise<void> {
  const { io, output, reporter, options } = context;
  const { session } = prepared;
  const startedAt = io.now();
  const started = await startAndReport(prepared, context);
  const { attempt, document, credits, isResumed } = started;
  const { id, outputPath } = attempt;
  try {
    if (!options.wait) return await printId(started, session, context);
    const finished = await ringAfter(options.bell ?? false, () => watch(attempt, { session, reporter }), io);
    const saveCommand = waitCommand([id], { ...options, outputPath: "." }, io);
    const tookMs = isResumed ? undefined : io.now() - startedAt;
    const print = { outputPath, extra: document, open: options.open ?? false, tookMs, credits, saveCommand, output };
    await deliver(finished, print, { session, reporter, io });
  } catch (error) {
    throw reporter.stopped(id, withResumeHint(error, id, { ...options, outputPath }, io));
  }
}

/** Does everything that can fail before the paid request. `undefined` after a dry run. */
async function prepare(typed: string | undefined, options: GenerateFlags & RepeatOptions, context: CommandContext) {
  const { io, output, defer } = context;
  const { parent, overwrite = false, local = false } = options;
  if (options.dryRun && output.events) throw usage("--events and --dry-run cannot be combined: nothing is started.");
  const { buildRequest } = await import("../../protocol/request.ts");
  const { openServices } = await import("../../connect/services.ts");
  const { localImages, readAllImages } = await import("../../client/request/images.ts");
  const times = readTimes(options);
  const budget = readBudget(options);
  const starts = readStarts(options, context.command);
  const earlier = chooseEarlier(options);
  // The `again` command has already read the project, the prompt and the line.
  const projectInput = options.projectInput ?? (await readProjectInput(options, context));
  const configuredPath = await chooseOutputPath(options, projectInput, context);
  if (!parent) checkStdin(typed, {}, context);
  const prompt = parent ? typed : await readPrompt(typed, context, projectInput.references);
  const line = options.line ?? (await readLine({ command: "generate", prompt }, { ...options, projectInput }, context));
  const { references } = projectInput;
  if (!parent) await checkPrompt(prompt, { argument: typed, references, ...line, dryRun: options.dryRun }, context);
  const frame = await findFrame(line, options, context);
  const inputOptions = { ...options, projectInput, configuredPath, frame: frame?.path, starts };
  const {
    input: resolvedInput,
    models,
    outputPath: chosenPath,
    isConfirmed,
  } = await resolveInput(prompt, inputOptions, context);
  const input = withProject(resolvedInput, projectInput, {
    isRepeated: parent !== undefined && prompt === undefined,
    isLocal: local,
  });
  for (const note of input.notes) output.note(note);
  const outputPath = await outputFor(starts, chosenPath, io);
  checkInfoPath(outputPath, options);
  const images = await readAllImages(input.images, { onNote: output.note });
  const requests = models.flatMap((model) => {
    const request = buildRequest({ ...input, texts: { ...input.texts, model }, images }, { isLocal: local });
    return Array.from({ length: starts.count }, (_, index) => withNextSeed(request, index));
  });
  checkDistinctNames(requests, outputPath);
  const typedLine = { line: { ...line.line, isAnswered: isConfirmed } };
  if (options.dryRun) {
    const { printDryRun } = await import("../dry-run.ts");
    const parentUrl = parent?.base_url;
    const dryRunOptions = {
      ...options,
      parentUrl,
      outputPath,
      earlier,
      budget,
      parent: parent?.id,
      project: projectInput.project,
    };
    return printDryRun(requests, { ...dryRunOptions, ...typedLine }, context);
  }
  const services = await openServices({ ...options, isStarting: true, output }, io);
  defer(services.close);
  const session = await services.open(parent?.base_url);
  // A name with a slash at its end is a folder, which may be missing.
  if (requests.length > 1 && chosenPath !== undefined && /[/\\]$/.test(chosenPath))
    await createFolder(chosenPath, chosenPath, io.disk);
  const protectedPaths = [localImages(input.images), options.from ?? [], projectInput.project?.file ?? []].flat();
  // `abandon` aborts on the second Ctrl-C, also while a start request is out.
  const { signal, abandon } = io;
  const startOptions = {
    earlier,
    origin: { parent: parent?.id, from: frame?.id, ...typedLine },
    save: { outputPath, overwrite, protectedPaths, infoJson: options.writeInfoJson },
    times,
    noWait: !options.wait,
    signal,
    abandon,
  };
  const check = requests.length === 1 ? await checkOf(requests[0] as StartRequest, budget, session, signal) : undefined;
  return { session, requests, startOptions: { ...startOptions, check }, budget, isConfirmed };
}

/** The check of a single start against its limits. It throws only when a new generation would be started, since resuming one costs nothing. */
async function checkOf(request: StartRequest, budget: Budget, { service }: Session, signal: AbortSignal) {
  if (Object.values(budget).every((limit) => limit === undefined)) return undefined;
  const { checkSingle } = await import("../../client/batch/spending.ts");
  const overrun = await checkSingle(request, budget, service, signal);
  return () => {
    if (overrun) throw overrun;
  };
}

/** The generation that is repeated, the typed command line, and its values from vidgen.json. */
type RepeatedLine = { parent: StartedEntry; line: TypedLine; projectInput: ProjectInput };

type RepeatOptions = Partial<{ [name in keyof RepeatedLine]: RepeatedLine[name] | undefined }>;

/** Reads a command line that starts generations, so that it is recognized when typed again. */
export async function readLine(
  words: Pick<TypedWords, "command" | "generation" | "prompt">,
  { projectInput, ...flags }: GenerateFlags & { projectInput: ProjectInput },
  { io, command, output }: CommandContext,
): Promise<TypedLine> {
  const options = withEngineFlag(flags);
  const starts = readStarts(options, command);
  const { local = false, baseUrl, from, set, preset, style, wait } = options;
  // Without --base-url, `again` uses the service of the generation that it repeats.
  const usesSettings = words.command === "generate" || baseUrl !== undefined;
  const remoteUrl = usesSettings ? await findBaseUrl(baseUrl, io) : undefined;
  const service = local ? "local" : remoteUrl && new URL(remoteUrl).origin;
  const outputAt = async ({ isLocal }: { isLocal: boolean }) =>
    outputFor(starts, (await findOutput(options, projectInput, io)) ?? (isLocal && wait ? "." : undefined), io);
  // As in the recorded request, a key in the prompt does not count, so that a new key makes no other command.
  const prompt = words.prompt && output.redact(words.prompt);
  const allWords = { ...words, prompt, from, set, preset, style, count: starts.count, service };
  const hash = await hashLine(allWords, command, io);
  const variableModel = await findVariableModel(allWords, { models: starts.models, projectInput }, io);
  const hashes =
    variableModel === undefined
      ? { hash }
      : { hash: await hashLine({ ...allWords, variableModel }, command, io), olderHash: hash };
  const namedReferences = await findNamedReferences(words.prompt, projectInput, { io, command });
  const usesVariable = wait && projectInput.output === undefined && Boolean(io.env.VIDGEN_OUTPUT);
  const isPlaceTyped = outputFlag(options) !== undefined || usesVariable;
  const place = await findProjectPlace(projectInput, namedReferences, io);
  return { line: { ...hashes, isPlaceTyped, ...place }, earlier: chooseEarlier(options), outputAt };
}

/** VIDGEN_MODEL if it gives the model of a request: no flag, setting of the line or preset does. A repeated request has its own model. */
async function findVariableModel(
  { command, set = [] }: Pick<TypedWords, "command" | "set">,
  { models, projectInput }: { models: readonly string[]; projectInput: ProjectInput },
  { env }: Pick<Io, "env">,
): Promise<string | undefined> {
  const { readSetFields } = await import("../../protocol/request.ts");
  const isSaid =
    models.length > 0 || projectInput.texts.model !== undefined || Object.hasOwn(readSetFields(set), "model");
  return command === "again" || isSaid ? undefined : env.VIDGEN_MODEL || undefined;
}

/** The last frame that `--from` asks for. A repeated generation begins with the same frame again, unless other images are given. */
async function findFrame(
  line: TypedLine,
  { from: typed, parent, ...options }: GenerateFlags & RepeatOptions,
  context: CommandContext,
): Promise<{ path: string; id: string | undefined } | undefined> {
  const { imageUrl: images = [] } = readFieldFlags(context.command).images;
  const { isSourceImage, readSetFields } = await import("../../protocol/request.ts");
  const imageSetting = Object.keys(readSetFields(options.set ?? [])).find(isSourceImage);
  const imageFlag = images.length > 0 ? "--image" : imageSetting && `--set ${imageSetting}=...`;
  if (typed !== undefined && imageFlag) throw usage(`--from and ${imageFlag} cannot be combined.`);
  const from = typed ?? (imageFlag ? undefined : parent?.from);
  if (from === undefined) return undefined;
  const { takeFrame } = await import("../frame.ts");
  const journal = findJournal({ ...context.io, onNote: context.output.note });
  const ownAttempt = typed === lastWord ? await findOwnAttempt(line, journal, context) : undefined;
  return takeFrame(from, { ...readTimes(options), ownAttempt, parentUrl: parent?.base_url, service: options }, context);
}

/** Starts `count` generations of each model; without typed models, of the model in the settings. */
type Starts = { models: readonly string[]; count: number };

/** The largest number of generations that one command starts. */
const maxStarts = 20;

function readStarts({ count: typed, set = [], reuse, open }: GenerateFlags, command: CommandUnknownOpts): Starts {
  const count = typed === undefined ? 1 : readNumber(typed, "-n", { min: 1, max: maxStarts });
  const models = readModels(readFieldFlags(command));
  const starts = { models, count };
  if (!isSeveral(starts)) return starts;
  const flag = models.length > 1 ? "Several models" : "-n";
  const total = models.length * count;
  if (total > maxStarts)
    throw usage(
      `-n ${count} of ${models.length} models would start ${total} generations: at most ${maxStarts} are allowed.`,
    );
  if (models.length > 1 && set.some((each) => /^\s*model\s*=/.test(each)))
    throw usage("Several models and --set model=... cannot be combined.");
  if (reuse)
    throw usage(`${flag} and --reuse cannot be combined: the same command already resumes what is left of it.`);
  if (open) throw usage(`${flag} and --open cannot be combined: --open works with one video only.`);
  return starts;
}

function isSeveral({ models, count }: Starts): boolean {
  return models.length > 1 || count > 1;
}

/** Gives each of several requests the next seed: with the same seed they would be equal. */
function withNextSeed(request: StartRequest, index: number): StartRequest {
  const { seed } = request as { seed?: unknown };
  return typeof seed === "number" ? { ...request, seed: seed + index } : request;
}

/** The output path: for several videos, a folder gets names with a number. Throws `usage` if several videos would get one name. */
async function outputFor(
  starts: Starts,
  outputPath: string | undefined,
  io: ShellIo & Pick<Io, "disk">,
): Promise<string | undefined> {
  if (outputPath === undefined || !isSeveral(starts)) return outputPath;
  const { models, count } = starts;
  const [flag, name] =
    models.length > 1 ? ["Several models need", "{slug}-{model}-{n}.mp4"] : ["-n needs", "{slug}-{n}.mp4"];
  const { isFolder } = await import("../../client/save/output-path.ts");
  if (await isFolder(outputPath, io.disk)) return join(outputPath, name);
  const hasModel = count === 1 && outputPath.includes("{model}");
  if (outputPath !== "-" && (givesDistinctNames(outputPath) || hasModel)) return outputPath;
  throw usage(`${flag} a folder or distinct names, not ${outputPath}: -o clips/ or -o ${quote(name, shellOf(io))}`);
}

/** Throws `usage` if two models get the same name in a path, where long names are cut and some characters are replaced. */
function checkDistinctNames(requests: readonly StartRequest[], outputPath = ""): void {
  if (requests.length === 1 || givesDistinctNames(outputPath)) return;
  const names = new Map<string, string>();
  for (const { model } of requests) {
    const name = fillNames(outputPath, { model }, "").toLowerCase();
    const other = names.get(name);
    if (name !== "" && other !== undefined)
      throw usage(`${other} and ${model} would get the same name: add {n} to -o ${outputPath}.`);
    names.set(name, model);
  }
}

function chooseEarlier({ again, reuse }: GenerateFlags): Earlier {
  if (again && reuse) throw usage("--again and --reuse cannot be combined.");
  if (again) return "again";
  return reuse ? "reuse" : "resume";
}

/** The output path from the flag, vidgen.json or the setting; `undefined` without them. */
async function chooseOutputPath(
  options: GenerateFlags,
  projectInput: ProjectInput,
  { io, output, command }: CommandContext,
): Promise<string | undefined> {
  const { wait, open = false } = options;
  const typed = outputFlag(options);
  if (!wait && typed !== undefined)
    throw usage("--no-wait cannot be combined with -o: save the video later with `vidgen wait <id> -o ...`.");
  if (!wait && open)
    throw usage("--no-wait cannot be combined with --open: open the video later with `vidgen wait <id> --open`.");
  if (!wait && command.getOptionValueSource("timeout") === "cli")
    throw usage("--no-wait cannot be combined with --timeout: wait later with `vidgen wait <id> --timeout ...`.");
  checkOutputPath(typed, { open, output }, io);
  const outputPath = await findOutput(options, projectInput, io);
  await noteOutputPath(outputPath, output, io);
  return outputPath;
}

function outputFlag({ output, download }: GenerateFlags): string | undefined {
  return output ?? (download ? "." : undefined);
}

async function findOutput(options: GenerateFlags, projectInput: ProjectInput, io: Io): Promise<string | undefined> {
  return outputFlag(options) ?? projectInput.output ?? (options.wait ? findOutputSetting(io) : undefined);
}

type ResolveOptions = { configuredPath: string | undefined; frame: string | undefined; starts: Starts };

/**
 * The fields of the request and the output path: from the command line, the repeated generation and the settings, or asked for at a terminal. A
 * local video is always saved, because its URL may stop working when the command ends.
 */
async function resolveInput(
  prompt: string | undefined,
  options: GenerateFlags & RepeatOptions & { projectInput: ProjectInput } & ResolveOptions,
  context: CommandContext,
): Promise<{
  input: RequestInput;
  models: readonly string[];
  outputPath: string | undefined;
  isConfirmed: boolean;
}> {
  const { io } = context;
  const { set = [], configuredPath, projectInput, frame, parent, starts } = options;
  const defaultPath = options.local && options.wait ? "." : undefined;
  const { texts: typedTexts, images: namedImages } = readFieldFlags(context.command);
  const typedImages = await withStdinImage(namedImages, context);
  const texts = { ...projectInput.texts, ...typedTexts };
  const { findDroppedImages, readSetFields } = await import("../../protocol/request.ts");
  for (const note of findDroppedImages({ images: typedImages, extra: readSetFields(set) }, "--image"))
    context.output.note(note);
  const images = frame === undefined ? typedImages : { ...typedImages, imageUrl: [frame] };
  if (parent) {
    const { repeatRequest } = await import("../../client/ledger/repeat.ts");
    const models = await confirmModels(starts.models, options, context);
    const earlier = { ...parent, isLocal: parent.base_url === localBaseUrl };
    const input = repeatRequest(earlier, { texts: { ...texts, prompt, model: models[0] }, images, set });
    const allModels = models.length > 0 ? models : [input.texts.model];
    return { input, models: allModels, outputPath: configuredPath ?? defaultPath, isConfirmed: false };
  }
  const initialModel = texts.model ?? (await findModelSetting(io)) ?? defaultModel;
  if (prompt !== undefined) {
    const typed = starts.models.length > 0 ? starts.models : [initialModel];
    const models = await confirmModels(typed, options, context);
    const input = { texts: { ...texts, prompt, model: models[0] ?? initialModel }, images, set };
    return { input, models, outputPath: configuredPath ?? defaultPath, isConfirmed: false };
  }
  if (starts.models.length > 1 || !canAsk(context, io))
    throw usage(missingPrompt, 'Use vidgen generate "a prompt", - for stdin, or @path for a file.');
  const { askForInput } = await import("../interactive.ts");
  const waits = options.wait && !options.dryRun;
  // The image of a frame comes from --from, so the command that is shown after the questions has no --image.
  const withoutFrame = frame === undefined ? {} : { image: undefined };
  const flags = (values: object) => flagWords(context.command, { ...options, ...values, ...withoutFrame });
  const known = { texts, images, set, initialModel };
  const answers = await askForInput(
    known,
    { ...options, starts: starts.count, outputPath: configuredPath, defaultPath, waits, flags },
    context,
  );
  return { ...answers, models: [answers.input.texts.model], isConfirmed: true };
}

/** The models; for a probable typing error, asks at a terminal. Engines may have models that vidgen does not know. */
async function confirmModels(
  models: readonly string[],
  { dryRun, engine }: GenerateFlags,
  context: CommandContext,
): Promise<string[]> {
  const confirmed: string[] = [];
  for (const model of models) {
    const guess = guessModel(model);
    const canGuess = guess !== undefined && !dryRun && engine === undefined && canAsk(context, context.io);
    const question = `Unknown model "${shorten(model)}". Did you mean ${guess}?`;
    confirmed.push(canGuess && (await askWhether(question, true, context.io)) ? guess : model);
  }
  checkDistinct(confirmed);
  return confirmed;
}
