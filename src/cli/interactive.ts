import { type ExpectedCost, expectCost } from "../client/generation/cost.ts";
import type { Service } from "../client/generation/service.ts";
import { readAllImages, readImages } from "../client/request/images.ts";
import { isFolder } from "../client/save/output-path.ts";
import { formatExpected } from "../connect/format.ts";
import { unsetUrl } from "../connect/local.ts";
import { openServices, resolveService } from "../connect/services.ts";
import type { SessionOptions } from "../connect/session.ts";
import { asVidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { type Field, type FieldTexts, fields, findValueFault, isImageField } from "../protocol/fields.ts";
import { defaultModel, findModel, guessModel, maxLocalSeconds, models } from "../protocol/models.ts";
import {
  buildRequest,
  checkImage,
  type RequestInput,
  readSetFields,
  replacesSourceImages,
} from "../protocol/request.ts";
import { shorten } from "../protocol/text.ts";
import { commandLine, pipeLine, type ShellIo, shellOf } from "../shell.ts";
import type { Context } from "./context.ts";
import { frameToCome } from "./earlier.ts";
import { fieldAttributes } from "./field-flags.ts";
import { programName } from "./terminal/output.ts";
import {
  askChoice,
  askText,
  askYes,
  type Check,
  checkedBy,
  type PromptChoice,
  readPath,
  withoutCurlyQuotes,
} from "./terminal/prompts.ts";
import { checkOutputPath, noteOutputPath } from "./terminal/result.ts";

/** The input from the command line; `initialModel` is selected first. */
type KnownInput = Omit<RequestInput, "texts"> & { texts: FieldTexts; initialModel: string };

type AskInputOptions = Pick<SessionOptions, "local" | "baseUrl" | "engine"> & {
  dryRun?: boolean;
  open?: boolean;
  /** The output path from `-o` or the setting; asked for if it is not set, unless `waits` is `false`. */
  outputPath: string | undefined;
  /** The output path if neither `-o`, nor the setting, nor an answer gives one. */
  defaultPath: string | undefined;
  /** How many generations are started. */
  starts: number;
  /** Whether the command waits for the video, so that it can save it. */
  waits: boolean;
  /** The input with what vidgen.json adds to it, as it will be sent. */
  complete(input: RequestInput): RequestInput;
  /** The words of the typed command line, with these values replaced. */
  flags(values: object): string[];
};

/**
 * Asks for what the command line does not give. `askForYes` shows a summary, the price and the equivalent
 * command, and asks for a yes, if that is not a dry run. Both throw `interrupted` on Ctrl-C, and `askForYes` if
 * the answer is not yes. Flags and settings are checked first, so that no question is asked in vain.
 */
export async function askForInput(known: KnownInput, options: AskInputOptions, context: Context) {
  const { io, output } = context;
  const { local = false, dryRun, open = false } = options;
  const destination = { isLocal: local };
  await readAllImages(known.images);
  // Checks the rest of the request now, with placeholders for the prompt and the images, which are asked for
  // below. An imageUrl in --set skips the check of the number of images (see `replacesSourceImages`).
  const set = ["imageUrl=", ...known.set];
  const { model = defaultModel } = known.texts;
  buildRequest({ ...known, texts: { ...known.texts, model, prompt: "still to come" }, set }, destination);
  if (!local && !dryRun) await resolveService(options.baseUrl, io);
  const service = await openForPrice(options, context);
  const { findServed } = await import("../connect/local.ts");
  const served = options.engine ? await findServed(options.engine) : models.map(({ id }) => id);

  const maxSeconds = local ? maxLocalSeconds : undefined;
  const isMissing = options.engine !== undefined && !served.includes(known.initialModel);
  if (isMissing) output.note(`${options.engine?.join(" ")} has no ${known.initialModel}.`);
  const changes = isMissing ? { texts: { ...known.texts, model: undefined }, initialModel: served[0] ?? "" } : {};
  const questions = { maxSeconds, isPreview: service.isPreview, served };
  const input = await askForFields({ ...known, ...changes }, questions, io);
  const shown = options.complete(input);
  const request = buildRequest({ ...shown, images: await readAllImages(shown.images) }, destination);
  const check = (outputPath: string) => checkOutputPath(outputPath, { output, open }, io);
  const isPathAsked = options.waits && options.outputPath === undefined;
  const answer = isPathAsked ? await askOutputPath(check, io) : undefined;
  const outputPath = answer ?? options.outputPath ?? options.defaultPath;
  const flags = options.flags({ ...fieldAttributes(input), ...(answer === undefined ? {} : { output: answer }) });
  const command = generateLine(input.texts.prompt, [...flags, ...(output.json ? ["--json"] : [])], io);
  await noteOutputPath(answer, output, io);
  const savePathRow = options.waits ? formatRow("Save to", describeOutput(outputPath)) : "";
  const askForYes = async () => {
    const { starts } = options;
    const cost = await expectCost(
      service,
      Array.from({ length: starts }, () => request),
      io.signal,
    );
    const price = formatExpected(cost) ?? (service.isLocal ? "unknown" : "unknown until the service states it");
    output.note(
      `\n${summarize(shown, service)}${savePathRow}${formatRow("Cost", price)}\nEquivalent command:\n  ${command}\n`,
    );
    const question = `Start ${starts === 1 ? "it" : `these ${starts} generations`}?${costSentence(cost, { starts, isLocal: service.isLocal })}`;
    if (!dryRun) await askYes(question, io, { isDefaultYes: cost.kind === "free" });
  };
  return { input, outputPath, askForYes };
}

/** The service that a start would use, or a placeholder if none is set. It is asked for its prices alone. */
async function openForPrice({ local = false, baseUrl, engine }: AskInputOptions, { io, output, defer }: Context) {
  // The start prints the notes itself.
  const quiet = { ...output, note: () => {} };
  const flags = { local, ...(baseUrl !== undefined && { baseUrl }), ...(engine && { engine }) };
  const services = await openServices({ ...flags, isStarting: true, isDryRun: true, output: quiet }, io);
  defer(services.close);
  const session = await services.open().catch((error) => {
    if (asVidgenError(error).code !== "auth") throw error;
    return services.open(unsetUrl);
  });
  return session.service;
}

/**
 * The sentence about the cost, such as " It costs about 10 credits."; empty if it is free, or if the price of
 * an engine is unknown.
 */
function costSentence(cost: ExpectedCost, { starts, isLocal }: { starts: number; isLocal: boolean }): string {
  const price = formatExpected(cost) ?? (isLocal ? undefined : "credits");
  if (cost.kind === "free" || price === undefined) return "";
  return ` ${starts === 1 ? "It costs" : "They cost"} ${price}.`;
}

/** `maxSeconds` is the longest video, if known; `served` has the models to choose from. */
type QuestionOptions = Pick<Service, "isPreview"> & {
  initialModel: string;
  maxSeconds: number | undefined;
  served: readonly string[];
};

/** Asks for the missing fields of an input. */
async function askForFields(
  { initialModel, ...known }: KnownInput,
  options: Omit<QuestionOptions, "initialModel">,
  io: Io,
): Promise<RequestInput> {
  const texts: FieldTexts = { ...known.texts };
  let { images } = known;
  for (const field of fields) {
    if (field.name === "imageUrl") {
      if (replacesSourceImages({ extra: readSetFields(known.set) })) continue;
      const answers = await askImages(texts.model ?? initialModel, images.imageUrl ?? [], field, io);
      images = { ...images, imageUrl: answers };
    } else if (!isImageField(field)) texts[field.name] ??= await askField(field, { ...options, initialModel }, io);
  }
  const { prompt = "", model = initialModel } = texts;
  return { ...known, texts: { ...texts, prompt: withoutCurlyQuotes(prompt), model }, images };
}

/** Asks for the value of a field, if it has a question. `undefined` means the service's default. */
async function askField(
  field: Field,
  { initialModel, maxSeconds, isPreview, served }: QuestionOptions,
  io: Io,
): Promise<string | undefined> {
  const { name, isRequired = false, label = name, question, suggestions } = field;
  if (question === undefined) return undefined;
  if (name === "model") return askChoice(question, modelChoices(initialModel, served, { isPreview }), initialModel, io);
  const byDefault = isRequired ? [] : [{ value: "", name: serviceDefault }];
  if (suggestions) {
    const choices = suggestions.map(([value]) => ({ value, name: value }));
    return (await askChoice(question, [...byDefault, ...choices], "", io)) || undefined;
  }
  const check: Check = (answer) => {
    const text = answer.trim();
    if (text === "" && !isRequired) return true;
    if (field.findAnswerFault) return field.findAnswerFault(text, { maxSeconds }) ?? true;
    const fault = findValueFault(field, text);
    return fault === undefined || `${label} ${fault}.`;
  };
  const hint = isRequired ? "" : ` (Enter: ${serviceDefault})`;
  return (await askText(`${question}${hint}`, check, io)).trim() || undefined;
}

/** Asks for an output path, as for `-o`; `undefined` prints only the URL. `check` throws for a path that cannot be used. */
async function askOutputPath(check: (outputPath: string) => void, io: Io): Promise<string | undefined> {
  const read = (text: string) => readPath(text, io);
  const pathHint = "Enter a file such as fox.mp4, a folder/, or . for this folder.";
  const isOutputPath = checkedBy(check, pathHint);
  const validate: Check = (text) => {
    const outputPath = read(text);
    if (outputPath === "") return true;
    return outputPath.startsWith("~") ? pathHint : isOutputPath(outputPath);
  };
  const outputPath = read(
    await askText(
      "Where should the video be saved? (Enter: the current folder; none: only print its URL)",
      validate,
      io,
    ),
  );
  if (outputPath === "none") return undefined;
  const isBare = /(^|\/)[^/.]+$/.test(outputPath) && outputPath !== "-" && !(await isFolder(outputPath, io.disk));
  return isBare ? `${outputPath}.mp4` : outputPath || ".";
}

/** The input as a list, to be checked before it is sent. */
function summarize({ texts, images }: RequestInput, service: Pick<Service, "isPreview">): string {
  const rows = fields.flatMap((field): [string, string][] => {
    const { name, label, question } = field;
    if (label === undefined) return [];
    if (isImageField(field)) return (images[field.name] ?? []).map((image) => [label, describeImage(image)]);
    const text = texts[name] ?? (question === undefined ? undefined : serviceDefault);
    return text === undefined ? [] : [[label, describeValue(name, text, service)]];
  });
  return rows.map(([label, value]) => formatRow(label, value)).join("");
}

function describeImage(image: string): string {
  return image === frameToCome ? "the last frame of the video of --from" : shorten(image, 200);
}

function formatRow(label: string, value: string): string {
  return `  ${label.padEnd(12)}${value}\n`;
}

function describeOutput(outputPath: string | undefined): string {
  if (outputPath === undefined) return "nowhere: only its URL is printed";
  return outputPath === "." ? "the current folder" : outputPath;
}

function describeValue(name: string, text: string, service: Pick<Service, "isPreview">): string {
  if (name === "model") return describeModel(text, service);
  return name === "duration" && /^[\d.]+$/.test(text) ? `${text} s` : text;
}

function describeModel(model: string, service: Pick<Service, "isPreview">): string {
  const guess = guessModel(model);
  const about = guess === undefined ? aboutModel(model, service) : `did you mean ${guess}?`;
  return about === undefined ? model : `${model} (${about})`;
}

/** What a known model is good at, or that the service draws previews for it, which show nothing of that. */
function aboutModel(model: string, { isPreview }: Pick<Service, "isPreview">): string | undefined {
  return isPreview(model) ? "preview" : findModel(model)?.characteristic;
}

/** The command line that does the same without questions. */
export function generateLine(prompt: string, flags: readonly string[], io: ShellIo): string {
  const command = `${programName(io.env)} generate`;
  const shell = shellOf(io);
  // As an argument `-` means stdin, and `@` a file.
  if (prompt === "-" || prompt.startsWith("@"))
    return pipeLine(prompt, `${command} - ${commandLine(flags, shell)}`, shell);
  return `${command} ${commandLine(prompt.startsWith("-") ? [...flags, "--", prompt] : [prompt, ...flags], shell)}`;
}

const serviceDefault = "service default";

/** The models that can be made, and the initial model if it is not one of them. */
function modelChoices(initial: string, served: readonly string[], service: Pick<Service, "isPreview">): PromptChoice[] {
  const nameOf = (id: string) => [id, aboutModel(id, service) ?? []].flat().join(": ");
  const known = served.map((id) => ({ value: id, name: nameOf(id) }));
  return served.includes(initial) ? known : [{ value: initial, name: initial }, ...known];
}

/** Asks for images: first the required ones, then more until the maximum or an empty answer. */
async function askImages(
  model: string,
  typedImages: readonly string[],
  { question }: Field,
  io: Io,
): Promise<string[]> {
  const images = [...typedImages];
  const { min, max } = findModel(model)?.images ?? { min: 0, max: 0 };
  while (images.length < max) {
    const isEnough = images.length >= min;
    const check = checkedBy(async (text) => {
      if (isEnough && text.trim() === "") return;
      for (const image of await readImages([...images, readPath(text, io)])) checkImage(image, "imageUrl");
    }, "Enter an http(s) URL or a file: PNG, JPEG or WebP, 20 MB in total.");
    const hint = isEnough ? `up to ${max}; press Enter to finish` : `${min} to ${max}`;
    const answer = readPath(await askText(`${question} ${images.length + 1}? (${hint})`, check, io), io);
    if (answer === "") break;
    images.push(answer);
  }
  return images;
}
