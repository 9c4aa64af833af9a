import { isRecord, parseJson } from "../../protocol/json.ts";
import { findSimilar } from "../../protocol/models.ts";
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
 * Why an engine does not take the fields of a request that vidgen does not know; `undefined` if it takes them all. `isTemporary` if it may take them
 * later, because its list of fields could not be read. A preview takes every field, and shows none.
 */
export async function findPassedFault(
  { name, isSimulation, passes }: Pick<Engine, "name" | "isSimulation" | "passes">,
  request: RenderRequest,
): Promise<{ field: string; text: string; isTemporary?: boolean } | undefined> {
  const [first] = Object.keys(splitExtras(request.extras).passed);
  if (first === undefined || isSimulation) return undefined;
  const taken = passes ? await passes(request) : { names: [] };
  if (taken === undefined)
    return { field: first, text: `the fields that ${name} takes cannot be read now`, isTemporary: true };
  const { isOwn = false } = taken;
  const { passed } = splitExtras(request.extras);
  for (const [field, value] of Object.entries(isOwn ? passed : withoutCounts(passed))) {
    const text = findFieldFault(field, value, taken);
    if (text !== undefined) return { field, text: `${name} ${text}` };
  }
  return undefined;
}

function findFieldFault(
  field: string,
  value: unknown,
  { names, takes, title = "it takes", written = [], isOwn = false, hint = "" }: Passes,
): string | undefined {
  if (written.includes(field)) return `gets ${field} from vidgen, which writes it for each video`;
  const unsafe = isOwn ? undefined : findUnsafe(field, value);
  if (unsafe !== undefined)
    return `does not get ${unsafe}: vidgen passes on no count, callback, secret, form of the answer or path`;
  if (names === "all" || (takes ? takes(field, value) : names.includes(field))) return undefined;
  const guess = findSimilar(field, [...names, ...documentedExtras]);
  const list = names.length === 0 ? "none" : names.join(", ");
  return `takes no ${field}${guess === undefined ? "" : `; did you mean ${guess}?`} (${title}: ${list})${hint}`;
}

/** By the words of the name, so that numImages is num_images. */
const wordsOf = (name: string) =>
  name
    .replace(/([a-z\d])([A-Z])/g, "$1_$2")
    .replace(/-/g, "_")
    .toLowerCase();
const counts = /^(n|samples|batch_size|.*_count|num_(videos|images|outputs|samples).*|number_of_.*)$/;
const unsafeNames = new RegExp(
  [
    counts.source,
    /^(webhook|callback|notify).*$/.source,
    /^(api_key|api_base|base_url|headers|num_retries|fallbacks|timeout|extra_(?!params$).*)$/.source,
    /^(stream|response_format|save_.*|output|.*_path)$/.source,
  ].join("|"),
);

/** Finds a name that no provider gets, in objects too; a text of JSON counts as its object. */
function findUnsafe(name: string, value: unknown): string | undefined {
  if (unsafeNames.test(wordsOf(name))) return name;
  const parsed = typeof value === "string" && /^\s*[{[]/.test(value) ? parseJson(value) : value;
  if (typeof parsed !== "object" || parsed === null) return undefined;
  for (const [inner, part] of Object.entries(parsed)) {
    const found = isOne(inner, part) ? undefined : findUnsafe(Array.isArray(parsed) ? "" : inner, part);
    if (found !== undefined) return found;
  }
  return undefined;
}

const isOne = (name: string, value: unknown) => counts.test(wordsOf(name)) && String(value) === "1";

/** Leaves out counts of 1, which clients send without a need, and which some servers refuse. */
export function withoutCounts<Value>(value: Value): Value {
  if (Array.isArray(value)) return value.map(withoutCounts) as Value;
  if (!isRecord(value)) return value;
  const others = Object.entries(value).filter(([name, part]) => !isOne(name, part));
  return Object.fromEntries(others.map(([name, part]) => [name, withoutCounts(part)])) as Value;
}

const maxDepth = 8;

/** Whether a value is nested too deeply to be passed on. */
export function isTooDeep(value: unknown, depth = 0): boolean {
  if (typeof value !== "object" || value === null) return false;
  return depth === maxDepth || Object.values(value).some((part) => isTooDeep(part, depth + 1));
}

/** The http(s) addresses in a value. */
export function addressesIn(value: unknown): string[] {
  if (typeof value === "string") {
    const parsed = /^\s*[{[]/.test(value) ? parseJson(value) : undefined;
    if (parsed !== undefined) return addressesIn(parsed);
    return /^https?:/i.test(value.trim()) && URL.canParse(value.trim()) ? [value.trim()] : [];
  }
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(addressesIn) : [];
}
