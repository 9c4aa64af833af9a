import { randomInt } from "node:crypto";
import type { RenderTask } from "../engine.ts";
import { frameSize } from "../frame-size.ts";
import { imagePlace, shortId, shortIdPlace, type Workflow } from "./workflow.ts";

/** ComfyUI answers a graph that it has run with what it made then: another seed makes another video. */
const maxSeed = 2 ** 48 - 1;

/**
 * Returns what a request puts into each place of a workflow: what it asks for, else the place's default, else the service's; an image's own name
 * stands where its name there is to come. Throws an Error made for people when a place is left without a value, and when the workflow has no place
 * for what is asked.
 */
export function valuesOf(
  { places }: Workflow,
  { id, request, images }: Pick<RenderTask, "id" | "request" | "images">,
): Map<string, unknown> {
  const { prompt, duration, unset = [], extras } = request;
  const { num_frames: frames, size: _, ...others } = extras;
  const size = frameSize(request);
  const isSized = !unset.includes("aspectRatio") || !unset.includes("resolution");
  const isTimed = !unset.includes("duration");
  const asked = new Map<string, unknown>([
    ...Object.entries(others),
    ["prompt", prompt],
    ...images.map(({ name }, index): [string, unknown] => [imagePlace(index), name]),
  ]);
  if (frames !== undefined) asked.set("frames", frames);
  if (isTimed) asked.set("duration", duration);
  if (isSized) asked.set("width", size.width).set("height", size.height);
  const usual = new Map<string, unknown>([
    ["negative_prompt", ""],
    ["seed", randomInt(maxSeed)],
    ["width", size.width],
    ["height", size.height],
    ["duration", duration],
  ]);
  const ids = new Map([
    ["id", id],
    [shortIdPlace, shortId(id)],
  ]);
  const find = (name: string) => ids.get(name) ?? asked.get(name) ?? places.get(name) ?? usual.get(name);
  // A video has one frame more than its length has steps from frame to frame.
  const counted = Math.round(Number(find("duration")) * Number(find("fps"))) + 1;
  if (Number.isInteger(counted)) {
    usual.set("frames", counted);
    // A length that is asked for counts more than the workflow's own number of frames.
    if (isTimed && frames === undefined && places.has("frames")) asked.set("frames", counted);
  }

  const isServed = (name: string) => places.has(name) || (name === "duration" && asked.has("frames"));
  const unserved = [...asked.keys()].filter((name) => !isServed(name));
  if (unserved.length > 0)
    throw new Error(
      `the workflow has no ${unserved.map(marked).join(" and no ")}: add it to the workflow, or leave that field out of the request; nothing was submitted`,
    );
  const values = new Map([...places.keys()].map((name) => [name, find(name)]));
  const open = [...places.keys()].filter((name) => values.get(name) === undefined);
  if (open.length > 0)
    throw new Error(
      `this request has nothing for ${open.map(marked).join(" and ")} of the workflow, which can have a default, such as {{fps=24}}; nothing was submitted`,
    );
  return values;
}

function marked(name: string): string {
  return `{{${name}}}`;
}
