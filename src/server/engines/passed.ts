import { isRecord } from "../../protocol/json.ts";
import { findSimilar } from "../../protocol/models.ts";
import { readText, toSnakeCase } from "../../protocol/secrets.ts";
import type { RenderRequest } from "../store/generations.ts";
import { type Engine, optionalExtras, type Passes, requiredExtras } from "./engine.ts";

// Fields of a start that vidgen does not know, such as `multi_prompt`. They are part of `extras`, and are passed on to engines that take them. A start
// with a field that would be dropped on the way is refused before anything is paid.

/** The fields of `extras` that vidgen knows. */
export const documentedExtras: readonly string[] = [...optionalExtras, ...requiredExtras, "size"];

/** Splits the fields of a request into those that vidgen knows and those that it passes on. */
export function splitExtras(extras: RenderRequest["extras"]): Record<"documented" | "passed", RenderRequest["extras"]> {
  const entries = Object.entries(extras);
  const isDocumented = ([name]: [string, unknown]) => documentedExtras.includes(name);
  return {
    documented: Object.fromEntries(entries.filter(isDocumented)),
    passed: Object.fromEntries(entries.filter((entry) => !isDocumented(entry))),
  };
}

/**
 * Returns what an engine must take to get these fields, in alphabetical order: their names, without counts of 1. A name inside the value follows if
 * it matters: "elements/n" is a field that contains an n, which only an owner's own workflow gets, and "provider/seed" is an option of OpenRouter's
 * form.
 */
export function namesOf(passed: RenderRequest["extras"]): string[] {
  const names = Object.entries(passed).flatMap(([field, value]) => {
    if (isCountOfOne(field, value)) return [];
    const unsafe = findUnsafe(value);
    const inner = [...(unsafe === undefined ? [] : [unsafe]), ...(field === "provider" ? providerOptions(value) : [])];
    return inner.length === 0 ? [field] : inner.map((name) => `${field}/${name}`);
  });
  return [...new Set(names)].sort();
}

/**
 * Why an engine does not take the fields of a request that vidgen does not know; `undefined` if it takes them all. `isTemporary` if it may take them
 * later, because its list of fields could not be read. A preview takes every field, and shows none.
 */
export async function findPassedFault(
  { name, isSimulation, passes }: Pick<Engine, "name" | "isSimulation" | "passes">,
  { model, extras }: Pick<RenderRequest, "model" | "extras">,
): Promise<{ field: string; text: string; isTemporary?: boolean } | undefined> {
  const names = namesOf(splitExtras(extras).passed);
  const [first] = names;
  if (first === undefined || isSimulation) return undefined;
  const taken = passes ? await passes(model) : { names: [] };
  if (taken === undefined)
    return { field: fieldOf(first), text: `the fields that ${name} takes cannot be read now`, isTemporary: true };
  const refused = names.find((each) => findNameFault(each, taken) !== undefined);
  return refused === undefined
    ? undefined
    : { field: fieldOf(refused), text: `${name} ${findNameFault(refused, taken)}` };
}

const exclusion = "not ";

/** Returns the name by which a request that does not suit an engine leaves it to the others. */
export function exclusionOf({ name, upstreamModel = "" }: Pick<Engine, "name" | "upstreamModel">): string {
  return `${exclusion}${name}#${upstreamModel}`;
}

/** Whether an engine takes all of these names (see `namesOf`). */
export function takesNames(
  taken: Passes | undefined,
  names: readonly string[],
  engine: Pick<Engine, "name" | "upstreamModel">,
): boolean {
  return names.every((name) =>
    name.startsWith(exclusion) ? name !== exclusionOf(engine) : taken && findNameFault(name, taken) === undefined,
  );
}

/** Returns the names of fields among those that an engine must take, for a message. */
export function listNames(names: readonly string[]): string {
  return names
    .filter((name) => !name.startsWith(exclusion))
    .map(nameText)
    .join(", ");
}

const nameText = (name: string) => name.replace("/", " with ");

const fieldOf = (name: string) => name.replace(/\/.*/s, "");

function findNameFault(
  name: string,
  { names, title = "it takes", written = [], isOwn = false, hint = "" }: Passes,
): string | undefined {
  const field = fieldOf(name);
  if (written.includes(field)) return `gets ${field} from vidgen, which writes it for each video`;
  const parts = [field, name.slice(field.length + 1)];
  const unsafe = isOwn ? undefined : parts.find(isUnsafe);
  if (unsafe !== undefined)
    return `does not get ${unsafe}: vidgen passes on no count, callback, secret, form of the answer or path`;
  if (names === "all" || names.some((taken) => name === taken || name.startsWith(`${taken}/`))) return undefined;
  const known = [...new Set(names.map((taken) => taken.split("/").at(-1) ?? taken))];
  const guess = findSimilar(field, [...known, ...documentedExtras]);
  const list = known.length === 0 ? "none" : known.join(", ");
  return `takes no ${nameText(name)}${guess === undefined ? "" : `; did you mean ${guess}?`} (${title}: ${list})${hint}`;
}

const counts = /^(n|samples|batch_size|.*_count|num_(videos|images|outputs|samples).*|number_of_.*)$/;
const unsafeNames = new RegExp(
  [
    counts.source,
    /^(webhook|callback|notify).*$/.source,
    /^(api_key|api_base|base_url|headers|num_retries|fallbacks|timeout|extra_(?!params$).*)$/.source,
    /^(stream|response_format|save_.*|output|.*_path)$/.source,
  ].join("|"),
);

/** Whether no provider gets a field of this name. */
const isUnsafe = (name: string) => unsafeNames.test(toSnakeCase(name));

/** Finds a name inside a value that no provider gets; a text of JSON counts as its object. */
function findUnsafe(value: unknown): string | undefined {
  const read = readText(value);
  if (typeof read !== "object" || read === null) return undefined;
  for (const [name, part] of Object.entries(read)) {
    if (isCountOfOne(name, part)) continue;
    const found = !Array.isArray(read) && isUnsafe(name) ? name : findUnsafe(part);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Returns the names in OpenRouter's form, `{"options": {"<provider>": {...}}}`, where some providers have "parameters"; none of another form. */
function providerOptions(value: unknown): string[] {
  const provider = readText(value);
  if (!isRecord(provider) || !isRecord(provider.options) || Object.keys(provider).length > 1) return [];
  return Object.values(provider.options).flatMap((options) =>
    Object.entries(Object(options)).flatMap(([name, part]) =>
      name === "parameters" && isRecord(part) ? Object.keys(part).map((inner) => `${name}/${inner}`) : [name],
    ),
  );
}

/** Whether a field says how many videos to make, and means the one that is made anyway. */
export const isCountOfOne = (name: string, value: unknown) => counts.test(toSnakeCase(name)) && String(value) === "1";

/** Leaves out counts of 1, which clients send without a need, and which some servers refuse. */
export function withoutCounts<Value>(value: Value): Value {
  if (Array.isArray(value)) return value.map(withoutCounts) as Value;
  if (!isRecord(value)) return value;
  const others = Object.entries(value).filter(([name, part]) => !isCountOfOne(name, part));
  return Object.fromEntries(others.map(([name, part]) => [name, withoutCounts(part)])) as Value;
}

const maxDepth = 8;

/** Whether a value is nested too deeply to be passed on; a text of JSON counts as its value. */
export function isTooDeep(value: unknown, depth = 0): boolean {
  const read = readText(value);
  if (typeof read !== "object" || read === null) return false;
  return depth === maxDepth || Object.values(read).some((part) => isTooDeep(part, depth + 1));
}

/** The http(s) addresses in a value. */
export function addressesIn(value: unknown): string[] {
  const read = readText(value);
  if (typeof read === "object" && read !== null) return Object.values(read).flatMap(addressesIn);
  const text = typeof read === "string" ? read.trim() : "";
  return /^https?:/i.test(text) && URL.canParse(text) ? [text] : [];
}
