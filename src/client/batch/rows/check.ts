import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { usage, type VidgenError } from "../../../errors.ts";
import { expandHome, type Io } from "../../../io.ts";
import { type FieldTexts, flagOf, imageFields, textFields } from "../../../protocol/fields.ts";
import {
  type Destination,
  describeFlagFault,
  type FieldFault,
  type FieldInput,
  findFaults,
  isSourceImage,
  joinStyle,
  type RequestInput,
  readSetFields,
  replacesSourceImages,
  toRequest,
} from "../../../protocol/request.ts";
import type { StartRequest } from "../../../protocol/schema.ts";
import { shorten } from "../../../protocol/text.ts";
import { isNetworkPath } from "../../../video/naming.ts";
import { recordOf, withoutImage } from "../../ledger/history.ts";
import { findFileDoubt } from "../../request/doubtful-prompt.ts";
import { localImages, readAllImages } from "../../request/images.ts";
import { findMisspelt, nameReferences, type References } from "../../request/references.ts";
import { type Row, readAsWritten } from "../row.ts";
import { columnName } from "./columns.ts";
import type { Variant } from "./each.ts";
import type { Faults } from "./faults.ts";
import type { ImageCheck } from "./image-check.ts";
import { idOf } from "./links.ts";
import { createOutputCheck, networkFault } from "./outputs.ts";
import { setCell, type Table, type TableLine } from "./table.ts";
import { createTemplates } from "./templates.ts";

/** The defaults from the flags for rows without a value; `prompt` and `output` are templates. */
export type RowFlags = Omit<RequestInput, "texts"> & {
  texts: Omit<FieldTexts, "prompt"> & { model: string };
  prompt?: string | undefined;
  /** Added to the end of each prompt. */
  style?: string | undefined;
  output?: string | undefined;
  /** The images of references such as `@hero`, which prompts and the column `references` name. */
  references?: References | undefined;
  /** The flags as they were typed, to recognize a row whose request differs only in the fields of `untyped`. */
  typed?: object | undefined;
  /** The fields whose values are from vidgen.json or a saved setting. */
  untyped?: readonly string[] | undefined;
  /** The value of VIDGEN_MODEL, if it gives the model of rows without one. */
  environmentModel?: string | undefined;
};

type CheckOptions = Destination & {
  table: Table;
  flags: RowFlags;
  eachNames: readonly string[];
  images: ImageCheck;
  /** Gets the references that the rows use. */
  usedReferences: Set<string>;
};

const maxIdLength = 200;

/** Returns a function that checks a row, and returns `undefined` if it cannot be started. */
export function createRowCheck(
  { table, flags, eachNames, images, isLocal, usedReferences }: CheckOptions,
  faults: Faults,
  io: Pick<Io, "date" | "platform" | "home" | "disk">,
) {
  const { columns } = table;
  const settings = readSetFields(flags.set);
  const faultyFlags = checkFlags(flags, settings, { isLocal }, faults);
  const prepare = createTemplates(table, { eachNames, flags: templateWords(flags) }, faults);
  const fillPrompt = flags.prompt === undefined ? undefined : prepare(flags.prompt, { label: "--prompt" });
  const fillOutputPath = flags.output === undefined ? undefined : prepare(flags.output, { label: "-o" });
  const checkOutput = createOutputCheck(table, io, faults);
  const ids = new Map<string, number>();

  const addFault = ({ field, text, subject }: FieldFault, row: TableLine, variant: Variant) => {
    if (faultyFlags.has(field) && !row.texts.has(field)) return;
    const message = subject === undefined ? text : `${subject} ${text}`;
    if (field === "prompt" && !columns.has(field) && !eachNames.includes(field))
      return faults.add(`there is neither a column prompt nor --prompt; the columns are ${listColumns(columns)}`);
    if (subject === undefined && variant.some(([name]) => name === field))
      return faults.add(`--each ${field} ${message}`);
    faults.add(message, { line: row.line, where: columns.get(field) });
  };

  const findId = (row: TableLine, variant: Variant) => {
    const id = idOf(row.texts.get("id"), variant);
    if (id === undefined) return undefined;
    const at = { line: row.line, where: columns.get("id") };
    const earlier = ids.get(id);
    if (/\p{Cc}/u.test(id)) faults.add("must not have control characters", at);
    if (id.length > maxIdLength) faults.add(`must have at most ${maxIdLength} characters, not ${id.length}`, at);
    if (earlier !== undefined) faults.add(`"${shorten(id)}" is also the id of line ${earlier}`, at);
    ids.set(id, earlier ?? row.line);
    return id;
  };

  const { references = new Map() } = flags;

  const readInput = (row: TableLine, n: number): FieldInput & { names: readonly string[] } => {
    const { texts } = row;
    const extra = { ...withoutRowFields(settings, row), ...row.extra };
    // A faulty template counts as a prompt: its fault was already added.
    const typedPrompt = texts.get("prompt") ?? (fillPrompt ? (fillPrompt(row, n) ?? placeholderPrompt) : "");
    const rowTexts = fieldTexts(texts);
    const model = rowTexts.model ?? flags.texts.model;
    // An image from --set, or the frame of another row, replaces the image of the flags.
    const noFlagImage = replacesSourceImages({ extra }) || texts.has("from") ? { imageUrl: [] } : {};
    const resolved = nameReferences(typedPrompt, { ...flags.images, ...row.images, ...noFlagImage }, references);
    const prompt = joinStyle(resolved.prompt, flags.style);
    const { names } = resolved;
    return { texts: { ...flags.texts, ...rowTexts, prompt, model }, images: resolved.images, extra, names };
  };

  const findDoubt = async (row: TableLine, n: number): Promise<Row["doubt"]> => {
    const exact = row.texts.get("exactPrompt") ?? "no";
    if (/^(yes|true)$/i.test(exact)) return undefined;
    if (!/^(no|false)$/i.test(exact))
      faults.add("must be yes or no", { line: row.line, where: columns.get("exactPrompt") });
    const prompt = row.texts.get("prompt") ?? fillPrompt?.(row, n) ?? "";
    const file = await findFileDoubt(prompt.trim(), io.disk.stat);
    const misspelt = findMisspelt(prompt, references);
    const text =
      findMishap(prompt) ??
      (repeatsHeader(row, columns) ? "the row repeats the header" : undefined) ??
      (file && `the prompt ${file.text}`) ??
      (misspelt && `there is no reference ${misspelt.typed}; did you mean ${misspelt.guess}?`);
    const where = columns.get("prompt");
    const exactWay = where === "" ? "--each exactPrompt=yes" : "yes in a column exactPrompt";
    return text === undefined ? undefined : { text: `${text}; with ${exactWay}, these words are sent`, where };
  };

  const readOutputPath = async (row: TableLine, n: number, input: FieldInput) => {
    const cell = row.texts.get("output");
    const fill = cell === undefined ? fillOutputPath : prepare(cell, { label: "output", line: row.line });
    const typed = fill?.(row, n);
    const outputPath = typed === undefined ? undefined : expandHome(typed, io);
    const { prompt, model } = toRequest(input);
    if (outputPath !== undefined) await checkOutput(outputPath, row, { prompt, model });
    return outputPath;
  };

  return async (line: TableLine, variant: Variant, n: number): Promise<Row | undefined> => {
    const row = withVariant(line, variant);
    if (line.texts.size === 0) {
      faults.add("the row is empty", { line: row.line });
      return undefined;
    }
    const id = findId(row, variant);
    const { names, ...input } = readInput(row, n);
    for (const name of names) usedReferences.add(name);
    if (names.length > 0 && !isLocal) {
      const where = columns.get(row.images?.referenceUrls ? "referenceUrls" : "prompt");
      const mentions = names.map((name) => `@${name}`).join(", ");
      faults.add(`${mentions} needs reference images, which only --local and --engine take`, { line: row.line, where });
      return undefined;
    }
    const hasFrame = row.texts.has("from");
    const completeInput = hasFrame ? { ...input, images: { ...input.images, imageUrl: [placeholderFrame] } } : input;
    for (const fault of findFaults(completeInput, { isLocal })) addFault(fault, row, variant);
    if (hasFrame && (row.images?.imageUrl !== undefined || replacesSourceImages(input)))
      faults.add("cannot be combined with an image: the row begins with a frame", {
        line: row.line,
        where: columns.get("from"),
      });
    if (io.platform === "win32" && imageFields.some(({ name }) => row.images?.[name]?.some(isNetworkPath))) {
      faults.add(`an image ${networkFault}`, { line: row.line });
      return undefined;
    }
    const checkedImages = await images.check(input.images);
    const outputPath = await readOutputPath(row, n, input);
    if ("fault" in checkedImages) {
      const { field, fault } = checkedImages;
      if (row.images?.[field]) addFault({ field, text: fault }, row, variant);
      else faults.add(`${flagsOfImages.get(field)}: ${fault}`);
      return undefined;
    }
    const request = toRequest({ ...input, images: checkedImages.recorded });
    const record = recordOf(request);
    const untyped = [...(flags.untyped ?? []), ...(names.length > 0 ? ["prompt", "referenceUrls"] : [])];
    const environmentModel = row.texts.has("model") ? undefined : flags.environmentModel;
    const typed = flags.typed && hashTyped(row, flags.typed, environmentModel);
    const olderTyped = flags.typed && environmentModel && hashTyped(row, flags.typed, undefined);
    const doubt = await findDoubt(row, n);
    const hashes = { doubt, typed, olderTyped, untyped: untyped.length > 0 ? untyped : undefined };
    const written = readAsWritten({ id, record, request }, input.texts.aspectRatio);
    const rowFields = { id, line: line.line, outputPath, written, ...hashes };
    if (hasFrame) return { ...rowFields, record, load: createFramedLoad(input, record, line.line) };
    if (checkedImages.isFile) {
      const files = localImages(input.images);
      return { ...rowFields, record, load: createFileLoad(input, record, line.line), files };
    }
    // Saves memory: a request without secrets is its own record.
    const isSame = JSON.stringify(record) === JSON.stringify(request);
    return { ...rowFields, record: isSame ? request : record, load: createKeptLoad(request) };
  };
}

/** What spreadsheets and scripts write in place of a value that they do not have. */
const noValue = /^(#REF!|#N\/A|#NAME\?|#VALUE!|#DIV\/0!|Loading\.\.\.|nan|NaN|None|NULL|null)$/;

function findMishap(prompt: string): string | undefined {
  return noValue.test(prompt.trim())
    ? `the prompt is only ${prompt.trim()}, which stands for a missing value`
    : undefined;
}

/** Whether each cell of a row is the header of its column. A file without headers has no positions of columns. */
function repeatsHeader({ texts }: TableLine, columns: Table["columns"]): boolean {
  return texts.has("prompt") && [...texts].every(([name, text]) => columns.get(name) && columnName(text) === name);
}

/** The hash of a row's cells and the typed flags, with the value of VIDGEN_MODEL if it gives the model. */
function hashTyped({ texts, images, extra }: TableLine, flags: object, environmentModel: string | undefined): string {
  const line = [...texts, images, extra, flags, ...(environmentModel === undefined ? [] : [environmentModel])];
  return createHash("sha256").update(JSON.stringify(line)).digest("base64url");
}

function listColumns(columns: Table["columns"]): string {
  return shorten([...columns.keys()].join(", "));
}

const flagsOfImages = new Map(imageFields.map((field) => [field.name, flagOf(field, "long")]));

/** Used in place of the frame while the other fields are checked. */
const placeholderFrame = "data:image/png;base64,";

/** Used in place of a prompt while the other fields are checked. */
const placeholderPrompt = "still to come";

/** Adds the faults of the flags themselves, once, and returns their fields. */
function checkFlags(
  flags: RowFlags,
  settings: Record<string, unknown>,
  destination: Destination,
  faults: Faults,
): Set<string> {
  // The number of images depends on the row's model, so it is not checked here: an `imageUrl` from --set turns that check off.
  const texts = { ...flags.texts, prompt: flags.prompt ?? placeholderPrompt };
  const input = { texts, images: flags.images, extra: { imageUrl: "", ...settings } };
  const flagFaults = [...findFaults(input, destination)];
  for (const fault of flagFaults) faults.add(describeFlagFault(fault));
  return new Set(flagFaults.map(({ field }) => field));
}

/** The fields among the cells of a row. */
function fieldTexts(texts: ReadonlyMap<string, string>): FieldTexts {
  return Object.fromEntries(textFields.flatMap(({ name }) => (texts.has(name) ? [[name, texts.get(name)]] : [])));
}

/** The values of flags for templates. */
function templateWords({ texts, images }: RowFlags): Map<string, string> {
  const words = [...Object.entries(texts), ...imageFields.map(({ name }) => [name, images[name]?.[0]] as const)];
  return new Map(words.flatMap(([name, text]) => (text === undefined ? [] : [[name, text] as const])));
}

function withVariant(line: TableLine, variant: Variant): TableLine {
  if (variant.length === 0) return line;
  const row = { ...line, texts: new Map(line.texts) };
  for (const [name, text] of variant) setCell(row, name, text);
  return row;
}

/** The fields of `--set` that the row does not set itself. */
function withoutRowFields(settings: Record<string, unknown>, { texts, images }: TableLine): Record<string, unknown> {
  const hasImage = images?.imageUrl !== undefined || texts.has("from");
  return Object.fromEntries(
    Object.entries(settings).filter(([field]) => !texts.has(field) && !(hasImage && isSourceImage(field))),
  );
}

function createKeptLoad(request: StartRequest): Row["load"] {
  return async () => request;
}

function createFramedLoad(input: FieldInput, record: StartRequest, line: number): Row["load"] {
  return async (frame = "") => {
    const images = await readAllImages({ ...input.images, imageUrl: [frame] });
    const request = toRequest({ ...input, images });
    if (isDeepStrictEqual(withoutImage(recordOf(request)), record)) return request;
    throw changedError(line);
  };
}

/** Reads the images again instead of keeping them in memory. */
function createFileLoad(input: FieldInput, record: StartRequest, line: number): Row["load"] {
  return async () => {
    const request = toRequest({ ...input, images: await readAllImages(input.images) });
    if (isDeepStrictEqual(recordOf(request), record)) return request;
    throw changedError(line);
  };
}

function changedError(line: number): VidgenError {
  return usage(`An image of line ${line} has changed since it was checked; this row was not sent.`);
}
