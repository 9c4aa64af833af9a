import { findRealPath } from "../client/ledger/identity.ts";
import type { ProjectPlace } from "../client/ledger/line.ts";
import { findMentions, nameReferences, type References, referenceName } from "../client/request/references.ts";
import {
  findPreset,
  findProject,
  listProjectValues,
  type Project,
  type ProjectValues,
  projectFile,
  unknownName,
} from "../connect/project.ts";
import { findModelSetting, findOutputSetting } from "../connect/settings.ts";
import { usage } from "../errors.ts";
import type { Io } from "../io.ts";
import { type FieldTexts, fields, type Images } from "../protocol/fields.ts";
import { defaultModel } from "../protocol/models.ts";
import { joinStyle, type RequestInput } from "../protocol/request.ts";
import { shorten } from "../protocol/text.ts";
import type { Output } from "./terminal/output.ts";
import { displayPath } from "./terminal/result.ts";

/** What vidgen.json gives to a command that starts generations, where no flag says otherwise. */
export type ProjectInput = {
  /** The values of the request's fields. */
  texts: FieldTexts;
  /** The style for the end of the prompt, from the flag or the file. */
  style: string | undefined;
  output: string | undefined;
  references: References;
  /** For the rows of a batch: the fields of the request, or "output", that these values change (see `IntentLine.untyped`). */
  untyped: readonly string[];
  project: Project | undefined;
};

/** The typed values that come before those of the project's file. */
type ProjectFlags = {
  texts: FieldTexts;
  /** The fields of `--set`. */
  set: Readonly<Record<string, unknown>>;
  preset: string | undefined;
  style: string | undefined;
  /** Whether the file gives the output path, because no flag says it. */
  needsOutput: boolean;
  isRepeat?: boolean;
};

/**
 * Reads the values of the project's file: those of a typed `--preset` come before the environment, all others
 * after it. For a repeated request (`again`) only those of the preset, and the output path. Notes the values
 * on stderr. Throws `usage` for a file that cannot be used.
 */
export async function readProjectInput(
  { texts: typed, set, style, needsOutput, isRepeat = false, ...flags }: ProjectFlags,
  { io, output }: { io: Io; output: Pick<Output, "note" | "trace"> },
): Promise<ProjectInput> {
  if (style?.trim() === "") throw usage("--style is empty.");
  const project = await findProject(io);
  const preset: ProjectValues = flags.preset === undefined ? { texts: {} } : findPreset(flags.preset, project);
  const fileValues = project?.values ?? { texts: {} };
  const values: ProjectValues = isRepeat ? { texts: {}, output: fileValues.output } : fileValues;
  const { VIDGEN_MODEL, VIDGEN_OUTPUT } = io.env;
  const texts: FieldTexts = {};
  for (const { name } of fields) {
    const isTyped = typed[name] !== undefined || Object.hasOwn(set, name);
    const text = preset.texts[name] ?? (name === "model" && VIDGEN_MODEL ? undefined : values.texts[name]);
    if (!isTyped && text !== undefined) texts[name] = text;
  }
  const input = {
    texts,
    style: style === undefined ? (preset.style ?? values.style) : undefined,
    output: needsOutput ? (preset.output ?? (VIDGEN_OUTPUT ? undefined : values.output)) : undefined,
  };
  if (project) {
    for (const line of describeProject(project)) output.trace(line);
    noteProjectInput(input, { file: project.file, preset: flags.preset }, output);
  }
  return {
    ...input,
    style: style?.trim() ?? input.style,
    references: project?.references ?? new Map(),
    untyped: [
      ...Object.keys(texts),
      ...(input.style === undefined ? [] : ["prompt"]),
      ...(input.output === undefined ? [] : ["output"]),
    ],
    project,
  };
}

/**
 * A value of a command, and where it is from: a flag, vidgen.json, a variable, or the saved settings; without
 * a source, the default.
 */
type Sourced<Value> = { value: Value; source: "typed" | "project" | "environment" | "setting" | undefined };

/** The model of a request. */
export async function findModel({ model }: FieldTexts, { texts }: ProjectInput, io: Io): Promise<Sourced<string>> {
  if (model !== undefined) return { value: model, source: "typed" };
  if (texts.model !== undefined) return { value: texts.model, source: "project" };
  const value = await findModelSetting(io);
  if (value === undefined) return { value: defaultModel, source: undefined };
  return { value, source: io.env.VIDGEN_MODEL ? "environment" : "setting" };
}

/** The output path; `undefined` if none is set, and for a command that does not wait for the video. */
export async function findOutput(
  { output, flags: { wait } }: { output: string | undefined; flags: { wait: boolean } },
  projectInput: ProjectInput,
  io: Io,
): Promise<Sourced<string | undefined>> {
  if (output !== undefined) return { value: output, source: "typed" };
  if (projectInput.output !== undefined) return { value: projectInput.output, source: "project" };
  const value = wait ? await findOutputSetting(io) : undefined;
  if (value === undefined) return { value, source: undefined };
  return { value, source: io.env.VIDGEN_OUTPUT ? "environment" : "setting" };
}

/** Notes the values from the file, since the model, the length and the resolution set the price. */
function noteProjectInput(
  { texts, style, output: outputPath }: Pick<ProjectInput, "texts" | "style" | "output">,
  { file, preset }: { file: string; preset: string | undefined },
  output: Pick<Output, "note">,
): void {
  const values = [
    ...Object.entries(texts).map(([name, text]) => `${name} ${text}`),
    ...(style === undefined ? [] : [`style "${shorten(style)}"`]),
    ...(outputPath === undefined ? [] : [`output ${outputPath}`]),
  ];
  const source = preset === undefined ? displayPath(file) : `${displayPath(file)} (preset ${preset})`;
  if (values.length > 0) output.note(`From ${source}: ${values.join(", ")}.`);
}

/** All values of the file, one per line. */
export function describeProject(project: Project): string[] {
  return [
    `${projectFile}: ${project.file}`,
    ...listProjectValues(project).map(([name, value]) => `${name} = ${value}`),
  ];
}

/**
 * A request with the style at the end of its prompt, and the images of the references that are named; `notes`
 * lists them. In a repeated request the names in the prompt are ignored: they were replaced when it was first
 * sent. Throws `usage` for a service that does not take references.
 */
export function withProject(
  { texts, images, set }: RequestInput,
  { style, references, project }: ProjectInput,
  { isRepeated, isLocal }: { isRepeated: boolean; isLocal: boolean },
): RequestInput & { notes: string[] } {
  const referenced = nameReferences(isRepeated ? "" : texts.prompt, images, references);
  const mentions = referenced.names.map((name) => `@${name}`).join(", ");
  if (mentions !== "" && !isLocal)
    throw usage(
      `${mentions} of ${projectFile} needs reference images, which only --local and --engine take. Nothing was sent.`,
      "Begin with an image instead: -i <file>; or write the name without @.",
    );
  const notes = describeReferences(referenced.names, { references, project });
  const prompt = joinStyle(isRepeated ? texts.prompt : referenced.prompt, style);
  return { texts: { ...texts, prompt }, images: referenced.images, set, notes };
}

/** The note about the references that are used, if there are any. */
export function describeReferences(
  names: readonly string[],
  { references, project }: Pick<ProjectInput, "references" | "project">,
): string[] {
  const count = names.reduce((sum, name) => sum + (references.get(name)?.length ?? 0), 0);
  const mentions = names.map((name) => `@${name}`).join(", ");
  const images = `${count} reference image${count === 1 ? "" : "s"}`;
  return names.length === 0 ? [] : [`From ${displayPath(project?.file ?? "")}: ${mentions}, ${images}.`];
}

/** The known references that a prompt and `--reference` name. Throws `usage` for an unknown name that is no file either. */
export async function findNamedReferences(
  prompt: string | undefined,
  { referenceUrls = [] }: Images,
  { project, references }: ProjectInput,
  io: Io,
): Promise<string[]> {
  const typed: string[] = [];
  for (const image of referenceUrls) {
    const name = referenceName(image);
    if (name === undefined) continue;
    if (references.has(name)) typed.push(name);
    else if (!(await isFile(image, io))) throw unknownReference(name, project);
  }
  return [...typed, ...findMentions(prompt ?? "", references)];
}

/**
 * The project of a line: the path of the vidgen.json, without links, if it gave values or references, or else
 * the working folder.
 */
export async function findProjectPlace(
  { untyped, project }: ProjectInput,
  namedReferences: readonly string[],
  { cwd, disk }: Pick<Io, "cwd" | "disk">,
): Promise<ProjectPlace> {
  const gaveValues = untyped.length > 0 || namedReferences.length > 0;
  if (project && gaveValues) return { project: await findRealPath(project.file, disk) };
  return { folder: await findRealPath(cwd ?? "", disk) };
}

function unknownReference(name: string, project: Project | undefined) {
  if (project) return unknownName("reference", name, project, [...project.references.keys()]);
  return usage(`--reference @${name}: there is no ${projectFile} here that names this reference. Nothing was sent.`);
}

async function isFile(path: string, { disk }: Pick<Io, "disk">): Promise<boolean> {
  return (await disk.stat(path).catch(() => undefined))?.isFile() ?? false;
}
