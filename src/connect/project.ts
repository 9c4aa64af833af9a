import { dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { readChunks } from "../client/request/input.ts";
import { systemCode, systemReason, usage, type VidgenError } from "../errors.ts";
import { expandHome, type Io } from "../io.ts";
import { type FieldTexts, fields, findValueFault } from "../protocol/fields.ts";
import { isRecord } from "../protocol/json.ts";
import { describeJsonFault, jsonHint } from "../protocol/json-fault.ts";
import { findSimilar } from "../protocol/models.ts";
import { shorten, toUtf8 } from "../protocol/text.ts";
import { loadProjectSchema } from "./project-schema.ts";
import { checkOutputSetting } from "./settings.ts";

/** The file of a project. It sets what is made, never the service or the key. */
export const projectFile = "vidgen.json";

/** The values of the file, or of one of its presets, for each start. */
export type ProjectValues = {
  /** The fields of the request, as texts like those of flags. */
  texts: FieldTexts;
  style?: string | undefined;
  /** A path relative to the current folder. */
  output?: string | undefined;
};

export type Project = {
  /** The path of the file. */
  file: string;
  values: ProjectValues;
  presets: ReadonlyMap<string, ProjectValues>;
  /** The absolute paths of the images of each reference. */
  references: ReadonlyMap<string, readonly string[]>;
};

type ProjectIo = Pick<Io, "cwd" | "uid" | "home" | "platform" | "disk">;

/**
 * The project of the current folder: the nearest vidgen.json in it or above it, up to the home folder or a
 * folder with `.git`. If there is neither above it, only a vidgen.json in the current folder counts. Throws
 * `usage` for a file that cannot be used, is another user's, or names a path outside of its folder.
 */
export async function findProject(io: ProjectIo): Promise<Project | undefined> {
  for (const folder of await listFolders(io)) {
    const file = join(folder, projectFile);
    const stats = await io.disk.lstat(file).catch((error) => {
      if (!["ENOENT", "ENOTDIR", "EACCES"].includes(systemCode(error) ?? "")) throw unusable(file, systemReason(error));
    });
    if (stats) return readProject(file, stats, io);
  }
  return undefined;
}

async function listFolders({ cwd, home, disk }: ProjectIo): Promise<string[]> {
  if (cwd === undefined) return [];
  const homes = home === "" ? [] : [home, await disk.realpath(home).catch(() => home)];
  const folders: string[] = [];
  for (let folder = cwd; ; folder = dirname(folder)) {
    folders.push(folder);
    if (homes.includes(folder) || (await isThere(join(folder, ".git"), disk))) return folders;
    if (dirname(folder) === folder) return [cwd];
  }
}

function isThere(path: string, disk: Io["disk"]): Promise<boolean> {
  return disk.lstat(path).then(
    () => true,
    () => false,
  );
}

const maxBytes = 1_000_000;

type FileStats = Awaited<ReturnType<Io["disk"]["lstat"]>>;

async function readProject(file: string, stats: FileStats, io: ProjectIo): Promise<Project> {
  const { uid, disk } = io;
  if (stats.isSymbolicLink()) throw unusable(file, "it is a symbolic link, which could lead anywhere");
  if (!stats.isFile()) throw unusable(file, "it is not a file");
  if (uid !== undefined && stats.uid !== uid)
    throw unusable(
      file,
      "it belongs to another user, and decides what is paid for",
      "If you trust it, make it yours: copy it, or run `chown`.",
    );
  const text = await readText(file, disk);
  return checkProject(parse(text, file), file, io);
}

async function readText(file: string, disk: Io["disk"]): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of readChunks(file, disk)) {
      size += chunk.length;
      if (size > maxBytes) throw unusable(file, `it is larger than ${maxBytes / 1_000_000} MB`);
      chunks.push(chunk);
    }
  } catch (error) {
    if (systemCode(error) === undefined) throw error;
    throw unusable(file, systemReason(error));
  }
  const text = toUtf8(Buffer.concat(chunks));
  if (text === undefined) throw unusable(file, "it is not text (UTF-8)");
  return String(text);
}

function parse(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw unusable(file, `it is ${describeJsonFault(text)}`, jsonHint);
  }
}

function unusable(file: string, reason: string, hint = "Fix or move it; vidgen does not change it."): VidgenError {
  return usage(`Cannot use ${file}: ${reason}. Nothing was sent.`, hint);
}

async function checkProject(value: unknown, file: string, io: ProjectIo): Promise<Project> {
  checkNames(value, file);
  const { success, data, error } = (await loadProjectSchema()).safeParse(value);
  if (!success) throw schemaFault(error.issues[0], file);
  const { presets = {}, references = {}, $schema: _, ...values } = data;
  const check = (given: typeof values, prefix: string) => checkValues(given, { file, prefix, io });
  const presetEntries = Object.entries(presets).map(
    async ([name, presetValues]) => [name, await check(presetValues, `presets.${name}.`)] as const,
  );
  const referenceEntries = Object.entries(references).map(async ([name, images]) => {
    const list = [images].flat();
    const fieldName = (index: number) => `references.${name}${Array.isArray(images) ? `[${index}]` : ""}`;
    const paths = list.map((path, index) => checkInside(path, { file, fieldName: fieldName(index), io }));
    return [name, await Promise.all(paths)] as const;
  });
  return {
    file,
    values: await check(values, ""),
    presets: new Map(await Promise.all(presetEntries)),
    references: new Map(await Promise.all(referenceEntries)),
  };
}

/** The names of presets and references are typed on the command line and in prompts: letters, digits, `_` and `-`. */
const namePattern = /^[\p{L}\p{N}_][\p{L}\p{N}_-]*$/u;

/** Checks the names before zod does, which silently drops the key `__proto__` of a record. */
function checkNames(value: unknown, file: string): void {
  for (const group of ["presets", "references"] as const) {
    const valuesByName = isRecord(value) ? value[group] : undefined;
    for (const name of isRecord(valuesByName) ? Object.keys(valuesByName) : [])
      if (!namePattern.test(name) || name === "__proto__")
        throw unusable(file, `${group} has the name "${shorten(name)}"; a name has letters, digits, _ and -`);
  }
}

type Issue = { code?: string | undefined; path: PropertyKey[]; message: string; keys?: readonly string[] };

function schemaFault(issue: Issue | undefined, file: string): VidgenError {
  const { code, path = [], message = "", keys: [key = ""] = [] } = issue ?? {};
  const fieldText = (names: readonly PropertyKey[]) => shorten(formatPath(names));
  if (code !== "unrecognized_keys") return unusable(file, `${fieldText(path) || "the file"} ${message}`);
  const guess = findSimilar(key.slice(0, 30), path.length === 0 ? topNames : valueNames);
  return unusable(file, `unknown field ${fieldText([...path, key])}`, guess && `Did you mean ${guess}?`);
}

const valueNames = ["model", "aspectRatio", "duration", "resolution", "seed", "style", "output"];
const topNames = [...valueNames, "presets", "references"];

/** Such as `references.hero[1]`. */
function formatPath(path: readonly PropertyKey[]): string {
  return path
    .map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`))
    .join("")
    .replace(/^\./, "");
}

async function checkValues(
  { style, output, ...fieldValues }: Record<string, string | number | undefined>,
  { file, prefix, io }: { file: string; prefix: string; io: ProjectIo },
): Promise<ProjectValues> {
  const texts: FieldTexts = {};
  for (const field of fields) {
    const value = fieldValues[field.name];
    if (value === undefined) continue;
    const fault = findValueFault(field, String(value)) ?? findControlFault(String(value));
    if (fault !== undefined) throw unusable(file, `${prefix}${field.name} ${fault}`);
    texts[field.name] = String(value);
  }
  const values = { texts, style: style === undefined ? undefined : String(style).trim() };
  if (output === undefined) return values;
  if (output === "-") throw unusable(file, `${prefix}output must be a path, not -`);
  const path = await checkInside(String(output), { file, fieldName: `${prefix}output`, io });
  await checkOutputSetting(String(output), `${prefix}output in ${file}`);
  return { ...values, output: fromCurrentFolder(path) };
}

function findControlFault(text: string): string | undefined {
  return /\p{Cc}/u.test(text) ? "must not have control characters" : undefined;
}

/**
 * The absolute path that the file names. Throws `usage` unless it is relative, or begins with `~/`, and,
 * followed through links, is inside of the file's folder.
 */
async function checkInside(
  typed: string,
  { file, fieldName, io }: { file: string; fieldName: string; io: ProjectIo },
): Promise<string> {
  const fault = findControlFault(typed);
  if (fault !== undefined) throw unusable(file, `${fieldName} ${fault}`);
  const { disk } = io;
  const folder = dirname(file);
  const isRelative = typed.trim() !== "" && !isAbsolute(typed) && !/^[a-z][a-z\d+.-]*:/i.test(typed);
  const expanded = expandHome(typed, io);
  const path = isAbsolute(expanded) ? expanded : join(folder, expanded);
  const realPath = isRelative ? await followLinks(resolve(path), disk) : undefined;
  const realFolder = await disk.realpath(folder);
  const realPrefix = realFolder.endsWith(sep) ? realFolder : realFolder + sep;
  if (realPath !== undefined && (realPath === realFolder || realPath.startsWith(realPrefix))) return path;
  throw unusable(file, `${fieldName} must be a path inside of its folder, not "${shorten(typed)}"`);
}

/** The path without symbolic links, also of a file that does not exist yet; `undefined` if a link leads nowhere. */
async function followLinks(path: string, disk: Io["disk"]): Promise<string | undefined> {
  const real = await disk.realpath(path).catch(() => undefined);
  if (real !== undefined || dirname(path) === path) return real ?? path;
  if (await isThere(path, disk)) return undefined;
  const parent = await followLinks(dirname(path), disk);
  return parent && join(parent, relative(dirname(path), path));
}

/** An absolute path relative to the current folder; a folder keeps its slash. */
function fromCurrentFolder(path: string): string {
  const relativePath = relative("", path) || ".";
  return /[/\\]$/.test(path) && !/[/\\]$/.test(relativePath) ? `${relativePath}/` : relativePath;
}

/** All values of the file, by their names in the file. */
export function listProjectValues({ file, values, presets, references }: Project): [name: string, value: string][] {
  const nearFile = (path: string) => relative(dirname(file), path);
  return [
    ...namedValues(values, ""),
    ...[...presets].flatMap(([name, each]) => namedValues(each, `presets.${name}.`)),
    ...[...references].map(([name, images]): [string, string] => [
      `references.${name}`,
      images.map(nearFile).join(", "),
    ]),
  ];
}

function namedValues({ texts, style, output }: ProjectValues, prefix: string): [string, string][] {
  const named = Object.entries({ ...texts, style, output });
  return named.flatMap(([name, value]) => (value === undefined ? [] : [[prefix + name, value]]));
}

/** The values of a preset. Throws `usage` for an unknown one. */
export function findPreset(name: string, project: Project | undefined): ProjectValues {
  if (project === undefined)
    throw usage(`--preset ${name} needs a ${projectFile}, and there is none here. Nothing was sent.`);
  const preset = project.presets.get(name);
  if (preset) return preset;
  throw unknownName("preset", name, project, [...project.presets.keys()]);
}

/** The error for a name that the file does not have, with a similar name. */
export function unknownName(
  kind: "preset" | "reference",
  name: string,
  { file }: Pick<Project, "file">,
  known: readonly string[],
): VidgenError {
  const guess = findSimilar(name, [...known]);
  const list = known.length === 0 ? `It has no ${kind}s.` : `Its ${kind}s: ${shorten(known.join(", "))}.`;
  const guessText = guess === undefined ? "" : ` Did you mean ${guess}?`;
  return usage(`${file} has no ${kind} "${shorten(name)}".${guessText} Nothing was sent.`, list);
}
