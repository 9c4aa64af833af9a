import { readFileSync } from "node:fs";
import { findModel } from "../../../client/request/models.ts";
import { systemReason, usage } from "../../../errors.ts";

/** A workflow of the owner's, in ComfyUI's API format: data, in whose texts places such as {{prompt}} are marked. */
export type Workflow = {
  graph: unknown;
  /** The places by name, with their defaults: `{{fps=24}}`. */
  places: ReadonlyMap<string, string | number | undefined>;
  /** How many images it has places for: {{image}}, {{image_2}} and so on. */
  maxImages: number;
};

const place = /\{\{\s*(\w+)\s*(?:=([^{}]*))?\}\}/g;
const placeAlone = new RegExp(`^${place.source}$`);

/**
 * Reads the file of a workflow for these models. Throws `usage` for what is none, and when it lacks a place for the prompt or for the images that a
 * model needs.
 */
export function readWorkflow(file: string, models: readonly string[]): Workflow {
  const graph = parse(file);
  const nodes = isObject(graph) ? Object.values(graph) : [];
  if (isObject(graph) && Array.isArray(graph.nodes))
    throw usage(`${file} is a workflow in ComfyUI's UI format, which its API does not accept.`, saveHint);
  if (nodes.length === 0 || !nodes.every((node) => isObject(node) && typeof node.class_type === "string"))
    throw usage(`${file} is not a ComfyUI workflow in API format.`, saveHint);
  const places = new Map<string, string | number | undefined>();
  mapTexts(graph, (text) => {
    for (const [, name = "", usual] of text.matchAll(place)) places.set(name, readUsual(usual) ?? places.get(name));
    return text;
  });
  if (!places.has("prompt"))
    throw usage(`${file} has no {{prompt}}.`, "Put {{prompt}} in place of the text of the node that has the prompt.");
  if (places.has("frames") && !places.has("fps") && places.get("frames") === undefined)
    throw usage(
      `${file} has {{frames}} but no {{fps}}, which is needed to count them.`,
      "Put {{fps=24}} where the workflow sets the frame rate.",
    );
  let maxImages = 0;
  while (places.has(imagePlace(maxImages))) maxImages++;
  const needy = models.map(findModel).find((model) => (model?.images?.min ?? 0) > maxImages);
  if (needy)
    throw usage(
      `${needy.id} needs ${needy.images?.min} to ${needy.images?.max} images, but ${file} has places for ${maxImages}.`,
      "Put {{image}}, {{image_2}} and so on in place of the images of its LoadImage nodes.",
    );
  return { graph, places, maxImages };
}

/** Names the place of an image, counted from 0. */
export function imagePlace(index: number): string {
  return index === 0 ? "image" : `image_${index + 1}`;
}

/** Returns the graph with a value in each place. A place that is a whole text becomes the value itself, such as a number. */
export function fillWorkflow({ graph }: Workflow, values: ReadonlyMap<string, unknown>): unknown {
  return mapTexts(graph, (text) => {
    const [alone, name = ""] = placeAlone.exec(text) ?? [];
    if (alone !== undefined) return values.get(name);
    return text.replace(place, (_, inside: string) => String(values.get(inside)));
  });
}

const saveHint = 'Save it with "Save (API Format)", which newer versions of ComfyUI call "Export (API)".';

function parse(file: string): unknown {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw usage(
      `The ComfyUI workflow ${file} cannot be read: ${systemReason(error)}.`,
      "Write --engine model=comfyui:url#file.",
    );
  }
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function readUsual(text: string | undefined): string | number | undefined {
  const usual = text?.trim();
  return usual !== undefined && /^-?\d+(\.\d+)?$/.test(usual) ? Number(usual) : usual;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function mapTexts(value: unknown, map: (text: string) => unknown): unknown {
  if (typeof value === "string") return map(value);
  if (Array.isArray(value)) return value.map((part) => mapTexts(part, map));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, mapTexts(part, map)]));
}
