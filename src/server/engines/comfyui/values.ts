import type { Images, RenderRequest } from "../../store/generations.ts";
import { drawSeed, type ImageFile, type Passes, type RenderTask } from "../engine.ts";
import { frameSize, sizeText } from "../frame-size.ts";
import { isCountOfOne } from "../passed.ts";
import { exactText } from "./exact-json.ts";
import { imagePlaceholder, shortId, shortIdPlaceholder, type Workflow } from "./workflow.ts";

/** The placeholders that vidgen gives values of other fields, or its own. */
const ownPlaceholders = /^(prompt|id|short_id|image(_\d+)?|width|height|duration|frames)$/;

/** Returns what a workflow takes of fields that vidgen does not know: its own placeholders. */
export function passesOf({ placeholders }: Workflow): Passes {
  const names = [...placeholders.keys()];
  const written = names.filter((name) => ownPlaceholders.test(name));
  return { names: names.filter((name) => !written.includes(name)), written, isOwn: true, title: "its workflow has" };
}

type ValueTask = Pick<RenderTask, "id" | "request"> & { images: readonly Pick<ImageFile, "name">[] };

/**
 * Returns the value of each placeholder of a workflow: the request's value, otherwise the placeholder's default, otherwise the service's default.
 * Until an image is uploaded, the value of its placeholder is its name. Throws an Error for people when a placeholder has no value, and when the
 * workflow has no placeholder for a field of the request.
 */
export function valuesOf(workflow: Workflow, task: ValueTask): Map<string, unknown> {
  const match = matchRequest(workflow, task);
  const fault = describeMatch(match, task.request);
  if (fault !== undefined) throw new Error(`${fault}; nothing was submitted`);
  return match.values;
}

/**
 * Returns why a request does not fit a workflow; `undefined` if it does. `names` are the names that an API uses for the fields of the interface,
 * where they differ.
 */
export function findRequestFault(
  workflow: Workflow,
  { images, ...request }: RenderRequest & Images<unknown>,
  names: Readonly<Record<string, string>> = {},
): string | undefined {
  const named = images.map((_, index) => ({ name: imagePlaceholder(index) }));
  return describeMatch(matchRequest(workflow, { id: "", request, images: named }), request, names);
}

/** The values of the placeholders; those that the workflow lacks for the request, and those that have no value. */
type Match = { values: Map<string, unknown>; missing: string[]; empty: string[] };

function matchRequest({ graph, placeholders }: Workflow, { id, request, images }: ValueTask): Match {
  const { prompt, duration, unset = [], extras } = request;
  const { num_frames: frames, size: _, ...otherExtras } = extras;
  const size = frameSize(request);
  const requestsSize = !unset.includes("aspectRatio") || !unset.includes("resolution");
  const requestsDuration = !unset.includes("duration");
  const requested = new Map<string, unknown>([
    ...Object.entries(otherExtras).filter(([name, value]) => placeholders.has(name) || !isCountOfOne(name, value)),
    ["prompt", prompt],
    ...images.map(({ name }, index): [string, unknown] => [imagePlaceholder(index), name]),
  ]);
  if (frames !== undefined) requested.set("frames", frames);
  if (requestsDuration) requested.set("duration", duration);
  if (requestsSize) requested.set("width", size.width).set("height", size.height);
  const defaults = new Map<string, unknown>([
    ["negative_prompt", ""],
    // ComfyUI returns the earlier result for a graph that it has already run.
    ["seed", drawSeed(id)],
    ["width", size.width],
    ["height", size.height],
    ["duration", duration],
  ]);
  const ids = new Map([
    ["id", id],
    [shortIdPlaceholder, shortId(id)],
  ]);
  const find = (name: string) => ids.get(name) ?? requested.get(name) ?? placeholders.get(name) ?? defaults.get(name);
  // A video has one frame more than it has steps between frames.
  const frameCount = Math.round(Number(find("duration")) * Number(find("fps"))) + 1;
  if (Number.isInteger(frameCount)) {
    defaults.set("frames", frameCount);
    // A requested length overrides the workflow's own number of frames.
    if (requestsDuration && frames === undefined && placeholders.has("frames")) requested.set("frames", frameCount);
  }

  const fixed = fixedOf(graph);
  const isFixedSize = !placeholders.has("width") && !placeholders.has("height") && fixed.size === sizeText(size);
  const isMet: Readonly<Record<string, boolean>> = {
    width: isFixedSize,
    height: isFixedSize,
    duration: requested.has("frames") || Math.abs(fixed.seconds - duration) <= fixed.frameSeconds,
  };
  const values = new Map([...placeholders.keys()].map((name) => [name, find(name)]));
  return {
    values,
    missing: [...requested.keys()].filter((name) => !placeholders.has(name) && !isMet[name]),
    empty: [...placeholders.keys()].filter((name) => values.get(name) === undefined),
  };
}

/** Returns the size and the length that the nodes of a workflow have as fixed numbers, if all nodes have the same; else no size and NaN. */
function fixedOf(graph: Workflow["graph"]): { size: string; seconds: number; frameSeconds: number } {
  const only = (name: RegExp) => {
    const inputs = Object.values(graph).flatMap((node) => Object.entries(node.inputs));
    const numbers = inputs.flatMap(([input, value]) => (name.test(input) ? [Number(exactText(value))] : []));
    const [first = Number.NaN, ...others] = new Set(numbers.filter((number) => number > 0));
    return others.length === 0 ? first : Number.NaN;
  };
  const frameSeconds = 1 / only(/^(fps|frame_rate)$/);
  const seconds = (only(/^(length|frames|num_frames)$/) - 1) * frameSeconds;
  return { size: sizeText({ width: only(/^width$/), height: only(/^height$/) }), seconds, frameSeconds };
}

function describeMatch(
  { missing, empty }: Match,
  request: RenderRequest,
  names: Readonly<Record<string, string>> = {},
): string | undefined {
  const fieldsOf = (placeholders: string[]) => [...new Set(placeholders.map((each) => fieldOf(each, request)))];
  const list = (placeholders: string[]) => fieldsOf(placeholders).map((field) => names[field] ?? field);
  const lacking = list(missing).join(" and ");
  if (missing.length > 0)
    return `the workflow has no ${missing.map(inBraces).join(" and no ")} for ${lacking}: add it to the workflow, or leave ${lacking} out`;
  if (empty.length === 0) return undefined;
  return `the workflow needs a value for ${empty.map(inBraces).join(" and ")}: send ${list(empty).join(" and ")}, or write a default into the workflow, such as {{fps=24}}`;
}

/** Returns the field of a request that gives a placeholder its value. */
function fieldOf(placeholder: string, { extras, unset = [] }: RenderRequest): string {
  const isSize = placeholder === "width" || placeholder === "height";
  if (isSize && extras.size !== undefined) return "size";
  if (isSize) return unset.includes("resolution") ? "aspectRatio" : "resolution";
  if (placeholder.startsWith("image")) return placeholder === "image" ? "imageUrl" : "imageUrls";
  return placeholder === "frames" ? "num_frames" : placeholder;
}

function inBraces(name: string): string {
  return `{{${name}}}`;
}
