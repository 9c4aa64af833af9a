import * as z from "zod";
import { parseJson } from "../../../protocol/json.ts";
import type { RenderOptions } from "../engine.ts";
import { clean } from "../upstream/reply.ts";
import type { ComfyUi } from "./server.ts";
import type { Workflow } from "./workflow.ts";

/** ComfyUI tells of each step of each node; nobody reads so fast. */
const pauseMs = 1_000;
/** A connection that has ended, or was never made, is tried again after this long. */
const retryMs = 30_000;

/** What the server tells of the node that runs (server.py, main.py); `executing` of a new connection has no job. */
const messageSchema = z.union([
  z.object({
    type: z.literal("progress"),
    data: z.object({ prompt_id: z.string(), node: z.string(), value: z.number().min(0), max: z.number().positive() }),
  }),
  z.object({
    type: z.literal("executing"),
    data: z.object({ prompt_id: z.string().optional(), node: z.string() }),
  }),
]);

/**
 * Tells which node of a job runs, and how much of its work is done, until the signal aborts. ComfyUI says so over its WebSocket alone, and nothing
 * depends on it: without a connection the job is followed all the same.
 */
export async function listen(
  job: string,
  { server, workflow }: { server: ComfyUi; workflow: Workflow },
  { progress, signal }: Pick<RenderOptions, "progress" | "signal">,
): Promise<void> {
  const { io, listen: connect } = server;
  if (!connect) return;
  let [toldAt, told]: [number, string | undefined] = [Number.NEGATIVE_INFINITY, undefined];
  const onText = (text: string) => {
    const { data: message } = messageSchema.safeParse(parseJson(text));
    const { prompt_id: id = job, node } = message?.data ?? {};
    if (!message || id !== job || node === undefined || signal.aborted) return;
    if (node === told && io.now() - toldAt < pauseMs) return;
    [toldAt, told] = [io.now(), node];
    const percent =
      message.type === "progress" ? Math.min(100, (message.data.value / message.data.max) * 100) : undefined;
    progress(percent, nameOf(node, workflow));
  };
  while (!signal.aborted) {
    await connect(job, { signal, onText }).catch(() => {});
    await io.sleep(retryMs, signal).catch(() => {});
  }
}

const maxName = 60;

/** Names a node as ComfyUI does: by its title, else by its type. */
function nameOf(id: string, { graph }: Workflow): string {
  const node = graph[id];
  const { title } = (node?._meta ?? {}) as { title?: unknown };
  const name = typeof title === "string" && title.trim() !== "" ? title : node?.class_type;
  return clean(name ?? `node ${id}`).slice(0, maxName);
}
