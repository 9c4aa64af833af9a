import * as z from "zod";
import { usage } from "../../../errors.ts";
import type { FailureKind } from "../../store/generations.ts";
import { clean, type ServerReply } from "../upstream/reply.ts";
import type { ComfyUi } from "./server.ts";
import type { Workflow } from "./workflow.ts";

/** What ComfyUI says is wrong with a workflow, for people, and what that is for a hint. */
export type WorkflowFault = { words: string; failure: FailureKind };

/** The types of ComfyUI's errors (validate_inputs and validate_prompt in execution.py). Any other error is the workflow's. */
const kinds: Readonly<Record<string, FailureKind>> = {
  value_not_in_list: "value",
  value_smaller_than_min: "value",
  value_bigger_than_max: "value",
  invalid_input_type: "value",
  custom_validation_failed: "value",
  required_input_missing: "inputs",
  return_type_mismatch: "link",
  bad_linked_input: "link",
  exception_during_validation: "link",
  exception_during_inner_validation: "link",
  prompt_no_outputs: "no_video",
};

const errorSchema = z.object({
  type: z.string().catch(""),
  message: z.string().catch(""),
  details: z.string().catch(""),
  extra_info: z.record(z.string(), z.unknown()).catch({}),
});

const replySchema = z.object({
  error: errorSchema.optional().catch(undefined),
  node_errors: z
    .record(z.string(), z.object({ class_type: z.string().catch("node"), errors: z.array(errorSchema).catch([]) }))
    .catch({}),
});

type NodeError = z.infer<typeof errorSchema>;

/** Returns the faults that ComfyUI finds in a graph; `undefined` if the reply has none. A missing file comes first: it is the most frequent one. */
export async function findFault(
  { json }: ServerReply,
  server: Pick<ComfyUi, "findNode">,
  signal: AbortSignal,
): Promise<WorkflowFault | undefined> {
  const { error, node_errors } = replySchema.safeParse(json).data ?? {};
  const { node_id, class_type } = error?.extra_info ?? {};
  // The message contains only the node's title, which may be any text.
  if (error?.type === "missing_node_type")
    return { words: clean(`${class_type}, node ${node_id}: ${error.message}`), failure: "node" };
  const nodes = Object.entries(node_errors ?? {});
  const faults: WorkflowFault[] = [];
  for (const [id, { class_type: type, errors }] of nodes) {
    const found = await Promise.all(errors.map((each) => readError(each, { type, server, signal })));
    const words = found.map((each) => each.words).join("; ") || "an error";
    const { failure = "workflow" } = found[0] ?? {};
    faults.push({ words: `${type} (node ${id}): ${words}`, failure });
  }
  const first = faults.find(({ failure }) => failure === "file") ?? faults[0];
  if (first) return { ...first, words: clean(faults.map(({ words }) => words).join("; ")) };
  return error && { words: clean(error.message), failure: kinds[error.type] ?? "workflow" };
}

async function readError(
  { type, message, details, extra_info: info }: NodeError,
  { type: node, server, signal }: { type: string; server: Pick<ComfyUi, "findNode">; signal: AbortSignal },
): Promise<WorkflowFault> {
  const { input_name: input, received_value: file } = info;
  const words = [message, details].filter(Boolean).join(": ");
  if (/\binvalid \w+ file\b/i.test(details)) return { words, failure: "input_file" };
  if (type !== "value_not_in_list" || !isModelFile(file)) return { words, failure: kinds[type] ?? "workflow" };
  // ComfyUI leaves out a list of more than 20 files.
  const names =
    optionsOf(info.input_config) ??
    (await server.findNode(node, signal).then(
      (found) => optionsOf(found?.[String(input)]),
      () => undefined,
    ));
  return { words: describeMissingFile({ file, input, names }), failure: "file" };
}

/** How long a check waits for the descriptions of nodes, without which it says nothing about them. */
const nodesMs = 3_000;

/**
 * Checks the nodes of a workflow, free of charge: resolves with a note for each file that ComfyUI does not have. Throws `usage` with all types of
 * nodes that it does not have. What it does not describe in time is not checked.
 */
export async function checkNodes(
  { graph }: Workflow,
  { findNode, io }: Pick<ComfyUi, "findNode" | "io">,
  signal: AbortSignal,
): Promise<string[]> {
  const limit = io.limit(nodesMs, signal, new Error("no response"));
  const types = [...new Set(Object.values(graph).map(({ class_type }) => class_type))];
  const described = types.map(async (type) => [type, await findNode(type, limit.signal)] as const);
  const settled = await Promise.allSettled(described).finally(limit.clear);
  const found = new Map(settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : [])));
  const missing = types.filter((type) => found.has(type) && found.get(type) === undefined);
  if (missing.length > 0)
    throw usage(
      `does not have nodes of the workflow: ${missing.map(clean).join(", ")}`,
      "Install them in ComfyUI, or choose another workflow.",
    );
  return Object.entries(graph).flatMap(([id, { class_type: type, inputs }]) =>
    Object.entries(inputs).flatMap(([input, file]) => {
      const names = optionsOf(found.get(type)?.[input]);
      if (!isFile(file) || !names || names.includes(file)) return [];
      return [clean(`${type} (node ${id}): ${describeMissingFile({ file, input, names })}`)];
    }),
  );
}

/** Whether a value is the name of a file, and not a placeholder for one. */
const isFile = (value: unknown): value is string => typeof value === "string" && /^[^{}]+\.[a-z]\w{1,11}$/i.test(value);

/** Says that a file of a model is missing, with the most similar one that there is. */
function describeMissingFile({
  file,
  input,
  names,
}: {
  file: string;
  input: unknown;
  names: readonly string[] | undefined;
}): string {
  const nearest = names && findNearest(file, names);
  const others = nearest === undefined ? names && "; it has none like it" : `; the nearest is ${nearest}`;
  return `ComfyUI does not have ${file} (${input})${others ?? ""}`;
}

/** Whether a value of an input is the name of a file of a model. */
function isModelFile(value: unknown): value is string {
  return typeof value === "string" && /\.(safetensors|sft|ckpt|pt|pth|bin|gguf|onnx)$/i.test(value);
}

/** Returns the values that an input takes, if it has a list: `[["a", "b"], {}]`, or `["COMBO", {"options": ["a", "b"]}]`. */
function optionsOf(config: unknown): readonly string[] | undefined {
  const [type, settings] = Array.isArray(config) ? config : [];
  const list: unknown = Array.isArray(type) ? type : settings?.options;
  return Array.isArray(list) ? list.map(String) : undefined;
}

/** Returns the name that shares most words with another one, such as the same model in another precision or folder. */
function findNearest(name: string, names: readonly string[]): string | undefined {
  const wordsOf = (text: string) =>
    new Set(
      text
        .toLowerCase()
        .replace(/\.\w+$/, "")
        .split(/[^a-z\d]+/),
    );
  const wanted = wordsOf(name);
  const scored = names.map((other) => {
    const words = wordsOf(other);
    const shared = [...wanted].filter((word) => words.has(word)).length;
    return { other, score: shared / (wanted.size + words.size - shared) };
  });
  const [best] = scored.sort((a, b) => b.score - a.score);
  return best && best.score > 0 ? best.other : undefined;
}
