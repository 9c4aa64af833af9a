import { drawSeed, type Passes, type RenderTask } from "../engine.ts";
import { frameSize } from "../frame-size.ts";
import { isCountOfOne } from "../passed.ts";
import { imagePlaceholder, shortId, shortIdPlaceholder, type Workflow } from "./workflow.ts";

/** The placeholders that vidgen gives values of other fields, or its own. */
const ownPlaceholders = /^(prompt|id|short_id|image(_\d+)?|width|height|duration|frames)$/;

/** Returns what a workflow takes of fields that vidgen does not know: its own placeholders. */
export function passesOf({ placeholders }: Workflow): Passes {
  const names = [...placeholders.keys()];
  const written = names.filter((name) => ownPlaceholders.test(name));
  return { names: names.filter((name) => !written.includes(name)), written, isOwn: true, title: "its workflow has" };
}

/**
 * Returns the value of each placeholder of a workflow: the request's value, otherwise the placeholder's default, otherwise the service's default.
 * Until an image is uploaded, the value of its placeholder is its name. Throws an Error for people when a placeholder has no value, and when the
 * workflow has no placeholder for a field of the request.
 */
export function valuesOf(
  { placeholders }: Workflow,
  { id, request, images }: Pick<RenderTask, "id" | "request" | "images">,
): Map<string, unknown> {
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

  const isUsed = (name: string) => placeholders.has(name) || (name === "duration" && requested.has("frames"));
  const missingPlaceholders = [...requested.keys()].filter((name) => !isUsed(name));
  if (missingPlaceholders.length > 0)
    throw new Error(
      `the workflow has no ${missingPlaceholders.map(inBraces).join(" and no ")}: add it to the workflow, or leave that field out of the request; nothing was submitted`,
    );
  const values = new Map([...placeholders.keys()].map((name) => [name, find(name)]));
  const emptyPlaceholders = [...placeholders.keys()].filter((name) => values.get(name) === undefined);
  if (emptyPlaceholders.length > 0)
    throw new Error(
      `this request has no value for ${emptyPlaceholders.map(inBraces).join(" and ")}, and the workflow has no default, such as {{fps=24}}; nothing was submitted`,
    );
  return values;
}

function inBraces(name: string): string {
  return `{{${name}}}`;
}
