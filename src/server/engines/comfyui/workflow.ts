import { readFileSync } from "node:fs";
import { systemReason, usage } from "../../../errors.ts";
import { describeJsonFault, jsonHint } from "../../../protocol/json-fault.ts";
import { findModel } from "../../../protocol/models.ts";
import { toUtf8 } from "../../../protocol/text.ts";
import { exactText, parseExactJson, readExactNumber } from "./exact-json.ts";

type Node = { class_type: string; inputs: Record<string, unknown>; _meta?: unknown };

type Graph = Record<string, Node>;

/** A workflow of the owner, in ComfyUI's API format, whose texts contain placeholders such as {{prompt}}. */
export type Workflow = {
  graph: Graph;
  /** The placeholders by name, with their defaults: `{{fps=24}}`. */
  placeholders: ReadonlyMap<string, string | number | undefined>;
  /** How many images it has placeholders for: {{image}}, {{image_2}} and so on. */
  maxImages: number;
  /** The nodes with the title "vidgen", by which the owner says that they make the video. */
  titledNodes: readonly string[];
};

const placeholder = /\{\{\s*(\w+)\s*(?:=([^{}]*))?\}\}/g;
const wholePlaceholder = new RegExp(`^${placeholder.source}$`);

/**
 * Reads the file of a workflow for these models. Throws `usage` when the file is not a workflow, and when it has no placeholder for the prompt or for
 * the images that a model needs.
 */
export function readWorkflow(file: string, models: readonly string[]): Workflow {
  const content = unwrap(parse(file), file);
  // ComfyUI accepts a node without inputs, and then runs no job of any client until it is restarted.
  for (const [id, { class_type: type, inputs }] of Object.entries(content))
    if (!isObject(inputs))
      throw usage(`${file} has a node without "inputs", which ComfyUI cannot run: ${type}, node ${id}.`, saveHint);
  const graph = hasPlaceholder(content, "id") ? content : withShortIds(content);
  if (!graph)
    throw usage(
      `${file} has no {{id}}, and no "filename_prefix" to put it in: two videos could get the same file name, and one of them the other's content.`,
      'Put {{id}} into the file name of the node that saves the video, such as "out-{{id}}.mp4".',
    );
  const placeholders = new Map<string, string | number | undefined>();
  mapTexts(graph, (text) => {
    for (const [, name = "", value] of text.matchAll(placeholder))
      placeholders.set(name, readDefault(value) ?? placeholders.get(name));
    return text;
  });
  if (!placeholders.has("prompt"))
    throw usage(`${file} has no {{prompt}}.`, "Put {{prompt}} in place of the text of the node that has the prompt.");
  if (placeholders.has("frames") && !placeholders.has("fps") && placeholders.get("frames") === undefined)
    throw usage(
      `${file} has {{frames}} but no {{fps}}, which is needed to count them.`,
      "Put {{fps=24}} where the workflow sets the frame rate.",
    );
  let maxImages = 0;
  while (placeholders.has(imagePlaceholder(maxImages))) maxImages++;
  const unservableModel = models.map(findModel).find((model) => (model?.images?.min ?? 0) > maxImages);
  if (unservableModel)
    throw usage(
      `${unservableModel.id} needs ${unservableModel.images?.min} to ${unservableModel.images?.max} images, but ${file} has placeholders for ${maxImages}.`,
      "Put {{image}}, {{image_2}} and so on in place of the images of its LoadImage nodes.",
    );
  const titledNodes = Object.keys(graph).filter((id) => titleOf(graph[id]) === "vidgen");
  return { graph, placeholders, maxImages, titledNodes };
}

/** Returns the first characters of a generation's id, which are part of its files' names. */
export function shortId(id: string): string {
  return id.slice(0, 8);
}

/** The placeholder for the short id. */
export const shortIdPlaceholder = "short_id";

/** Returns the graph with the placeholder of the short id in each prefix of a file name; `undefined` when there is no such prefix. */
function withShortIds(graph: Graph): Graph | undefined {
  const nodes = Object.entries(graph).map(([id, node]): [string, Node] => {
    const { filename_prefix: prefix } = node.inputs;
    if (typeof prefix !== "string") return [id, node];
    return [id, { ...node, inputs: { ...node.inputs, filename_prefix: `${prefix}_{{${shortIdPlaceholder}}}` } }];
  });
  return hasPlaceholder(nodes, shortIdPlaceholder) ? Object.fromEntries(nodes) : undefined;
}

/** Returns the placeholder of an image, counted from 0. */
export function imagePlaceholder(index: number): string {
  return index === 0 ? "image" : `image_${index + 1}`;
}

/** Returns the graph with its placeholders replaced. A placeholder that is a whole text becomes the value itself, such as a number. */
export function fillWorkflow({ graph }: Workflow, values: ReadonlyMap<string, unknown>): unknown {
  return mapTexts(graph, (text) => {
    const [whole, name = ""] = wholePlaceholder.exec(text) ?? [];
    if (whole !== undefined) return values.get(name);
    return text.replace(placeholder, (_, inside: string) => exactText(values.get(inside)));
  });
}

const saveHint = 'Save it with "Save (API Format)", which newer versions of ComfyUI call "Export (API)".';

function parse(file: string): unknown {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    throw usage(
      `The ComfyUI workflow ${file} cannot be read: ${systemReason(error)}.`,
      "Write --engine model=comfyui:url#file.",
    );
  }
  const text = String(toUtf8(bytes));
  try {
    return parseExactJson(text);
  } catch {
    throw usage(`The ComfyUI workflow ${file} is ${describeJsonFault(text)}.`, jsonHint);
  }
}

/**
 * Returns the graph of a file, which may contain it in other objects, such as a whole request to ComfyUI, `{"client_id": ..., "prompt": graph}`, or to
 * a worker, `{"input": {"workflow": graph}}`. Throws `usage` unless there is exactly one.
 */
function unwrap(json: unknown, file: string): Graph {
  const graphs = findGraphs(json);
  const [found, ...others] = graphs;
  if (!found && isUiFormat(json))
    throw usage(`${file} is a workflow in ComfyUI's UI format, which its API does not accept.`, saveHint);
  const notGraph = (what: string) => usage(`${file} is not a ComfyUI workflow in API format: ${what}.`, saveHint);
  if (!found) throw notGraph(describeContent(json));
  if (others.length > 0)
    throw usage(
      `${file} contains ${graphs.length} workflows: ${graphs.map(({ path }) => `"${path}"`).join(" and ")}.`,
      "Save the one to run in a file of its own.",
    );
  const other = found.entries.find((entry) => !isNodeEntry(entry));
  const nodes = found.path === "" ? "its nodes" : `the nodes of "${found.path}"`;
  if (other) throw notGraph(`"${other[0]}" is beside ${nodes}, and is no node`);
  return Object.fromEntries(found.entries.filter(isNodeEntry));
}

/** Finds the objects that have nodes, with their paths, and their members that are objects: the others, such as a version, are not a part of a graph. */
function findGraphs(value: unknown, path: readonly string[] = []): { path: string; entries: [string, unknown][] }[] {
  if (!isObject(value)) return [];
  const entries = Object.entries(value).filter(([, member]) => isObject(member));
  if (entries.some(isNodeEntry)) return [{ path: path.join("."), entries }];
  return entries.flatMap(([name, member]) => findGraphs(member, [...path, name]));
}

function isNodeEntry(entry: [string, unknown]): entry is [string, Node] {
  return isObject(entry[1]) && typeof entry[1].class_type === "string";
}

function isUiFormat(value: unknown): boolean {
  return isObject(value) && (Array.isArray(value.nodes) || Object.values(value).some(isUiFormat));
}

const maxNames = 5;

function describeContent(json: unknown): string {
  if (Array.isArray(json)) return "it is a list";
  const names = isObject(json) ? Object.keys(json).map((name) => `"${name}"`) : [];
  if (names.length > maxNames) names.splice(maxNames, names.length, "others");
  return names.length === 0 ? "it has no node" : `it has ${names.join(", ")}, and no node`;
}

function titleOf(node: Node | undefined): unknown {
  return isObject(node?._meta) ? node._meta.title : undefined;
}

function hasPlaceholder(value: unknown, wanted: string): boolean {
  let isFound = false;
  mapTexts(value, (text) => {
    isFound ||= [...text.matchAll(placeholder)].some(([, name]) => name === wanted);
    return text;
  });
  return isFound;
}

function readDefault(text: string | undefined): string | number | undefined {
  const value = text?.trim();
  return value !== undefined && /^-?\d+(\.\d+)?$/.test(value) ? readExactNumber(value) : value;
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
