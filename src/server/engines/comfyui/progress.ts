import * as z from "zod";
import { parseJson } from "../../../protocol/json.ts";
import type { RenderOptions } from "../engine.ts";
import { clean } from "../upstream/reply.ts";
import type { ComfyUi } from "./server.ts";
import type { Workflow } from "./workflow.ts";

/** ComfyUI reports each step of each node, faster than anyone can read. */
const minReportMs = 1_000;
/** The wait before connecting again, after a connection has ended or failed. */
const retryMs = 30_000;

/** The messages about a node (server.py, main.py, execution.py); the `executing` message of a new connection names no job. */
const messageSchema = z.union([
  z.object({
    type: z.literal("progress"),
    data: z.object({ prompt_id: z.string(), node: z.string(), value: z.number().min(0), max: z.number().positive() }),
  }),
  z.object({
    type: z.literal("executing"),
    data: z.object({ prompt_id: z.string().optional(), node: z.string() }),
  }),
  z.object({
    type: z.literal("executed"),
    data: z.object({ prompt_id: z.string(), node: z.string(), output: z.record(z.string(), z.unknown()) }),
  }),
]);

/** `onOutput` is called with what a node has put out, as a job's `outputs` have it. */
export type ListenOptions = Pick<RenderOptions, "progress" | "signal"> & {
  onOutput(node: string, output: Record<string, unknown>): void;
};

/**
 * Reports which node of a job runs, and how much of the node's work is done, until the signal aborts. ComfyUI reports this only over its WebSocket.
 * The job itself is followed by polls, even without this connection.
 */
export async function listen(
  job: string,
  { server, workflow }: { server: ComfyUi; workflow: Workflow },
  { progress, onOutput, signal }: ListenOptions,
): Promise<void> {
  const { io, listen: connect } = server;
  if (!connect) return;
  let [reportedAt, reportedNode]: [number, string | undefined] = [Number.NEGATIVE_INFINITY, undefined];
  const onText = (text: string) => {
    const { data: message } = messageSchema.safeParse(parseJson(text));
    const { prompt_id: id = job, node } = message?.data ?? {};
    if (!message || id !== job || node === undefined || signal.aborted) return;
    if (message.type === "executed") return onOutput(node, message.data.output);
    if (node === reportedNode && io.now() - reportedAt < minReportMs) return;
    [reportedAt, reportedNode] = [io.now(), node];
    const percent =
      message.type === "progress" ? Math.min(100, (message.data.value / message.data.max) * 100) : undefined;
    progress(percent, nodeName(node, workflow));
  };
  while (!signal.aborted) {
    await connect(job, { signal, onText }).catch(() => {});
    await io.sleep(retryMs, signal).catch(() => {});
  }
}

const maxName = 60;

/** Names a node as ComfyUI does: by its title or, without one, by its type. */
function nodeName(id: string, { graph }: Workflow): string {
  const node = graph[id];
  const { title } = (node?._meta ?? {}) as { title?: unknown };
  const name = typeof title === "string" && title.trim() !== "" ? title : node?.class_type;
  return clean(name ?? `node ${id}`).slice(0, maxName);
}
