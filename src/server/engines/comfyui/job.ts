import * as z from "zod";
import { clean, type Job, optional, type Reply, wordsOf } from "../upstream/reply.ts";
import type { Trouble } from "../upstream/upstream.ts";

const jobSchema = z.object({
  id: z.string(),
  status: z.string(),
  outputs: optional(z.record(z.string(), z.unknown())),
  execution_error: optional(z.object({ node_type: optional(z.string()), exception_message: optional(z.string()) })),
});

/** Reads the reply of `GET /api/jobs/{id}` (get_job in comfy_execution/jobs.py); `viewOf` gives a file's address. A job without an .mp4 has failed. */
export function readJob(reply: Reply, viewOf: (file: OutputFile) => string): Job | Trouble {
  const { data: job } = jobSchema.safeParse(reply.json);
  // A proxy's 404 says nothing about the job.
  const isMissing = reply.status === 404 && reply.json !== undefined && /job not found/i.test(reply.text);
  if (!job) return { trouble: wordsOf(reply), isMissing, retryAfterMs: reply.retryAfterMs };
  const { id, status, execution_error: error } = job;
  const words = [error?.node_type, error?.exception_message].filter((part) => part !== undefined).join(": ");
  const read = { id, status, progress: undefined, url: undefined, error: clean(words) || undefined };
  if (status !== "completed") return read;
  const files = filesIn(job.outputs ?? {});
  const video = files.find(({ filename }) => /\.mp4$/i.test(filename));
  if (video) return { ...read, url: viewOf(video) };
  const made = files.length === 0 ? "no file" : `${files.map(({ filename }) => filename).join(", ")}, and no .mp4`;
  return { ...read, status: "failed", error: clean(`the workflow made ${made}`) };
}

const fileSchema = z.object({ filename: z.string().min(1), subfolder: z.string().catch(""), type: z.string() });

/** A file that ComfyUI has, as `/view` asks for it. */
export type OutputFile = z.infer<typeof fileSchema>;

/**
 * The files that a job's nodes saved, then those that they only show. A video may stand under `images`, `gifs` or `videos`, as its node likes.
 * What a node read, of the type "input", was not made.
 */
function filesIn(outputs: Record<string, unknown>): OutputFile[] {
  const files = Object.values(outputs)
    .flatMap((node) => Object.values(node ?? {}))
    .flatMap((list) => (Array.isArray(list) ? list : []))
    .flatMap((file) => fileSchema.safeParse(file).data ?? []);
  return ["output", "temp"].flatMap((wanted) => files.filter(({ type }) => type === wanted));
}
