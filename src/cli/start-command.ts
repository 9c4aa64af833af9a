import { join } from "node:path";
import type { Origin } from "../client/generation/choose.ts";
import type { StartedEntry } from "../client/ledger/policy.ts";
import { repeatRequest } from "../client/ledger/repeat.ts";
import { isLocal } from "../client/ledger/same-service.ts";
import { localImages, readAllImages } from "../client/request/images.ts";
import { isFolder } from "../client/save/output-path.ts";
import { checkEngineTimeout, withEngine, withEngineFlag } from "../connect/engines.ts";
import { findServed } from "../connect/local.ts";
import { findJournal } from "../connect/services.ts";
import type { Session } from "../connect/session.ts";
import { findBaseUrl } from "../connect/settings.ts";
import { sayNothingSent, usage } from "../errors.ts";
import type { Io } from "../io.ts";
import type { Images } from "../protocol/fields.ts";
import { guessModel } from "../protocol/models.ts";
import { buildRequest, findDroppedImages, isSourceImage, type RequestInput } from "../protocol/request.ts";
import type { StartRequest } from "../protocol/schema.ts";
import { shorten } from "../protocol/text.ts";
import { quote, shellOf } from "../shell.ts";
import { fillNames, givesDistinctNames } from "../video/naming.ts";
import { flagWords, missingPrompt } from "./command.ts";
import type { Context } from "./context.ts";
import { checkPrompt } from "./doubtful-prompt.ts";
import { findNamedVideo, findParent, frameToCome, type NamedVideo } from "./earlier.ts";
import { checkDistinct } from "./field-flags.ts";
import { withService } from "./onboarding.ts";
import {
  findModel,
  findNamedReferences,
  findOutput,
  findProjectPlace,
  type ProjectInput,
  readProjectInput,
  withProject,
} from "./project-values.ts";
import { lastWord } from "./saved-file.ts";
import { isSeveral, type StartFlags, type TypedStart } from "./start-flags.ts";
import { checkStdin, withStdinImage } from "./stdin-image.ts";
import { askChoice, askWhether, canAsk, readPrompt } from "./terminal/prompts.ts";
import { checkInfoPath, checkOutputPath, noteOutputPath } from "./terminal/result.ts";
import { findOwnAttempt, hashLine, type TypedLine } from "./typed-line.ts";

/**
 * A command that starts generations, read whole: its words and flags, vidgen.json, the settings, and what was
 * asked for at a terminal.
 */
export type StartCommand = ReadStart & {
  origin: Origin;
  /** One for each generation, with the bytes of their images. */
  requests: readonly StartRequest[];
  /**
   * Set if the requests need the last frame of a video, or the yes of a person to the price: gets them, once,
   * at the service of the start, and returns the requests to send. Called only if something is sent.
   */
  completeRequests: ((session?: Session) => Promise<readonly StartRequest[]>) | undefined;
  /** Without a path, the result is the URL. */
  outputPath: string | undefined;
  /** The folder that the videos of several starts go to, typed with a slash at its end. It may be missing. */
  newFolder: string | undefined;
  /** The files that the request was read from, which no video may replace. */
  protectedPaths: readonly string[];
};

/** What is typed, with what vidgen.json, the settings and the journal add. Its flags have the service that the start uses. */
type ReadStart = TypedStart & {
  projectInput: ProjectInput;
  model: Awaited<ReturnType<typeof findModel>>;
  place: Awaited<ReturnType<typeof findOutput>>;
  prompt: string | undefined;
  /** The generation whose request is repeated. */
  parent: StartedEntry | undefined;
};

/**
 * Reads a command that starts generations. What is asked at a terminal is asked here, but for the yes to the
 * price. The typed line is known before the parent and the video of `--from` are looked up, because it decides
 * what "last" means. Nothing is sent that may be charged; prices may be fetched.
 */
export async function readCommand(typed: TypedStart, context: Context): Promise<StartCommand> {
  const { io, output } = context;
  const { generation } = typed;
  const found = await readValues(typed, context);
  const { prompt, projectInput } = found;
  const typedLine = await readLine(found, context);
  const { line } = typedLine;
  await checkPrompt(prompt, typed, { references: projectInput.references, line }, context);
  const journal = findJournal({ ...io, onNote: output.note });
  const findOwn = (word: string) => (word === lastWord ? findOwnAttempt(typedLine, journal, context) : undefined);
  const parent =
    generation === undefined ? undefined : await findParent(generation, await findOwn(generation), journal, io);
  const read = { ...found, parent, flags: parent ? withServiceOf(parent, found.flags) : found.flags };
  const { flags } = read;
  const video = await findFrameVideo(read, findOwn, context);
  const resolved = await resolveInput(read, video !== undefined, context);
  const destination = { isLocal: flags.local ?? false };
  const isRepeated = parent !== undefined && prompt === undefined;
  const input = withProject(resolved.input, projectInput, { isRepeated, ...destination });
  for (const note of input.notes) output.note(note);
  const outputPath = await numberedPath(typed, resolved.outputPath, io);
  checkInfoPath(outputPath, flags);
  const buildRequests = async (typedImages: Images, onNote?: (text: string) => void) => {
    const images = await readAllImages(typedImages, { onNote });
    return resolved.models.flatMap((model) => {
      const request = buildRequest({ ...input, texts: { ...input.texts, model }, images }, destination);
      return Array.from({ length: typed.count }, (_, index) => withNextSeed(request, index));
    });
  };
  // The local service takes data: URLs.
  const onNote = destination.isLocal ? undefined : output.note;
  const requests = await buildRequests(input.images, video ? undefined : onNote);
  checkDistinctNames(requests, outputPath);
  const { askForYes } = resolved;
  const complete = async (session?: Session) => {
    const frame = video && (await takeFrameOf(video, session, read, context));
    await askForYes?.();
    return frame === undefined ? requests : buildRequests({ ...input.images, imageUrl: [frame] }, onNote);
  };
  let completed: ReturnType<typeof complete> | undefined;
  const isFromFile = video !== undefined && "file" in video;
  return {
    ...read,
    origin: { parent: parent?.id, from: video?.id, line: { ...line, isAnswered: askForYes !== undefined, isFromFile } },
    requests,
    completeRequests: video || askForYes ? (session) => (completed ??= complete(session)) : undefined,
    outputPath,
    newFolder: requests.length > 1 && /[/\\]$/.test(resolved.outputPath ?? "") ? resolved.outputPath : undefined,
    protectedPaths: [localImages(input.images), flags.from ?? [], projectInput.project?.file ?? []].flat(),
  };
}

async function readValues(typed: TypedStart, context: Context): Promise<Omit<ReadStart, "parent">> {
  const { io, output } = context;
  const isRepeat = typed.generation !== undefined;
  // Asked first, because the service is a part of the line.
  const flags = isRepeat ? withEngineFlag(typed.flags) : await withService(await withEngine(typed.flags, io), context);
  const { preset, style, wait, open = false } = flags;
  const needsOutput = typed.output === undefined && wait;
  const projectInput = await readProjectInput({ ...typed, preset, style, needsOutput, isRepeat }, context);
  checkOutputPath(typed.output, { open, output }, io);
  const place = await findOutput(typed, projectInput, io);
  await noteOutputPath(place.value, output, io);
  checkStdin(typed.argument, typed.images, { isPromptOptional: isRepeat }, io);
  const isPromptKept = isRepeat && typed.argument === undefined;
  const prompt = isPromptKept ? undefined : await readPrompt(typed.argument, context, projectInput.references);
  return { ...typed, flags, projectInput, model: await findModel(typed.texts, projectInput, io), place, prompt };
}

/** The flags with the service of the generation that is repeated, unless they name another service. */
function withServiceOf(parent: StartedEntry, flags: StartFlags): StartFlags {
  if (flags.local || flags.baseUrl !== undefined || !isLocal(parent)) return checkEngineTimeout(flags);
  const { engine } = parent;
  return checkEngineTimeout({ ...flags, local: true, ...(engine === undefined ? {} : { engine: [...engine] }) });
}

/** The typed line, by which the command is recognized when it is typed again. */
async function readLine(read: Omit<ReadStart, "parent">, { io, output }: Context): Promise<TypedLine> {
  const { generation, flags, set, images, projectInput, model, place, prompt } = read;
  // As in the recorded request, a key in the prompt does not count, so that a new key makes no other command.
  const words = { prompt: prompt && output.redact(prompt), service: await serviceOf(read, io) };
  const hash = await hashLine(read, words, io);
  // A repeated request has its own model.
  const isModelSaid = generation !== undefined || Object.hasOwn(set, "model");
  const variableModel = model.source === "environment" && !isModelSaid ? io.env.VIDGEN_MODEL : undefined;
  const hashes =
    variableModel === undefined
      ? { hash }
      : { hash: await hashLine(read, { ...words, variableModel }, io), olderHash: hash };
  const namedReferences = await findNamedReferences(prompt, images, projectInput, io);
  const projectPlace = await findProjectPlace(projectInput, namedReferences, io);
  const isPlaceTyped = place.source === "typed" || place.source === "environment";
  return {
    line: { ...hashes, isPlaceTyped, ...projectPlace },
    earlier: read.earlier,
    outputAt: async (atLocal) => numberedPath(read, place.value ?? (atLocal && flags.wait ? "." : undefined), io),
  };
}

/**
 * The origin of the service that a line names, or "local"; `undefined` for `again` without a flag, which uses
 * that of the earlier generation.
 */
async function serviceOf({ generation, flags: { local, baseUrl } }: TypedStart, io: Io): Promise<string | undefined> {
  if (local) return "local";
  const url = generation === undefined || baseUrl !== undefined ? await findBaseUrl(baseUrl, io) : undefined;
  return url && new URL(url).origin;
}

/**
 * The video that `--from` names. A repeated generation begins with the frame of the same video again, unless
 * other images are given. `findOwn` returns the attempt of the same command, which says what "last" means.
 */
async function findFrameVideo(
  { flags, images, set, parent }: ReadStart,
  findOwn: (word: string) => ReturnType<typeof findOwnAttempt> | undefined,
  { io, output }: Context,
): Promise<NamedVideo | undefined> {
  const { from: typedFrom } = flags;
  const imageSetting = Object.keys(set).find(isSourceImage);
  const imageFlag = images.imageUrl?.length ? "--image" : imageSetting && `--set ${imageSetting}=...`;
  if (typedFrom !== undefined && imageFlag) throw usage(`--from and ${imageFlag} cannot be combined.`);
  const from = typedFrom ?? (imageFlag ? undefined : parent?.from);
  if (from === undefined) return undefined;
  const ownAttempt = typedFrom === undefined ? undefined : await findOwn(typedFrom);
  const journal = findJournal({ ...io, onNote: output.note });
  return findNamedVideo(from, ownAttempt, journal, io).catch((error) => {
    throw sayNothingSent(error);
  });
}

async function takeFrameOf(
  video: NamedVideo,
  session: Session | undefined,
  { flags, times, parent }: ReadStart,
  context: Context,
): Promise<string> {
  const { takeFrame } = await import("./frame.ts");
  return takeFrame(video, { ...times, session, parentUrl: parent?.base_url, service: flags }, context);
}

type ResolvedInput = {
  input: RequestInput;
  models: readonly string[];
  outputPath: string | undefined;
  /** Set if a person was asked for the fields: shows the request and its price, and asks for a yes. */
  askForYes?(): Promise<void>;
};

/**
 * The fields of the request and the output path: from the command line, the repeated generation and the
 * settings, or asked for at a terminal. A local video is always saved, because its URL may stop working when
 * the command ends.
 */
async function resolveInput(read: ReadStart, hasFrame: boolean, context: Context): Promise<ResolvedInput> {
  const { io, output } = context;
  const { flags, projectInput, prompt, parent } = read;
  const { set = [], wait, dryRun } = flags;
  const [model, place] = [read.model.value, read.place.value];
  const defaultPath = flags.local && wait ? "." : undefined;
  const typedImages = await withStdinImage(read.images, { onNote: flags.local ? undefined : output.note }, context);
  for (const note of findDroppedImages({ images: typedImages, extra: read.set }, "--image")) output.note(note);
  const images = hasFrame ? { ...typedImages, imageUrl: [frameToCome] } : typedImages;
  const texts = { ...projectInput.texts, ...read.texts };
  const outputPath = place ?? defaultPath;
  if (parent) {
    const models = await confirmModels(read.models, flags, context);
    const input = repeatRequest(parent, { texts: { ...texts, prompt, model: models[0] }, images, set });
    return { input, models: models.length > 0 ? models : [input.texts.model], outputPath };
  }
  if (prompt !== undefined) {
    const models = await confirmModels(read.models.length > 0 ? read.models : [model], flags, context);
    return { input: { texts: { ...texts, prompt, model }, images, set }, models, outputPath };
  }
  if (read.models.length > 1 || !canAsk(context, io))
    throw usage(missingPrompt, 'Use vidgen generate "a prompt", - for stdin, or @path for a file.');
  const { askForInput } = await import("./interactive.ts");
  // The image of a frame comes from --from, so the command that is shown after the questions has no --image.
  const withoutFrame = hasFrame ? { image: undefined } : {};
  const answers = await askForInput(
    { texts, images, set, initialModel: model },
    {
      ...flags,
      starts: read.count,
      outputPath: place,
      defaultPath,
      waits: wait && !dryRun,
      complete: (input) => withProject(input, projectInput, { isRepeated: false, isLocal: flags.local ?? false }),
      flags: (values) => flagWords(read.command, { ...flags, ...values, ...withoutFrame }),
    },
    context,
  );
  return { ...answers, models: [answers.input.texts.model] };
}

/** The models; at a terminal, asks about a probable typing error, and about a model that the engine does not have. */
async function confirmModels(
  models: readonly string[],
  { dryRun, engine }: StartFlags,
  context: Context,
): Promise<readonly string[]> {
  const { io } = context;
  if (dryRun || !canAsk(context, io)) return models;
  const served = engine && (await findServed(engine));
  const confirmed: string[] = [];
  for (const model of models) {
    const guess = guessModel(model, served);
    const question = `Unknown model "${shorten(model)}". Did you mean ${guess}?`;
    if (served && !served.includes(model)) {
      const choices = served.map((id) => ({ value: id, name: id }));
      const why = `${engine?.join(" ")} has no ${shorten(model)}. Which model?`;
      confirmed.push(await askChoice(why, choices, guess ?? served[0] ?? "", io));
    } else confirmed.push(guess && !served && (await askWhether(question, true, io)) ? guess : model);
  }
  checkDistinct(confirmed);
  return confirmed;
}

/** Gives each of several requests the next seed: with the same seed they would be equal. */
function withNextSeed(request: StartRequest, index: number): StartRequest {
  const { seed } = request as { seed?: unknown };
  return typeof seed === "number" ? { ...request, seed: seed + index } : request;
}

/**
 * The output path: for several videos, a folder gets names with a number. Throws `usage` if several videos
 * would get one name.
 */
async function numberedPath(typed: TypedStart, outputPath: string | undefined, io: Io): Promise<string | undefined> {
  if (outputPath === undefined || !isSeveral(typed)) return outputPath;
  const { models, count } = typed;
  const [flag, name] =
    models.length > 1 ? ["Several models need", "{slug}-{model}-{n}.mp4"] : ["-n needs", "{slug}-{n}.mp4"];
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
