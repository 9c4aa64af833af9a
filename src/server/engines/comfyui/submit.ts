import { randomUUID } from "node:crypto";
import * as z from "zod";
import { drawSeed, type RenderTask } from "../engine.ts";
import type { ServerReply } from "../upstream/reply.ts";
import {
  classifyReply,
  prepare,
  type SubmitOptions,
  type SubmitOutcome,
  type SubmitSignals,
  type SubmitVerdict,
  submitOnce,
  toNotSubmitted,
} from "../upstream/submit.ts";
import { findFault } from "./faults.ts";
import type { ComfyUi } from "./server.ts";
import { valuesOf } from "./values.ts";
import { fillWorkflow, imagePlaceholder, type Workflow } from "./workflow.ts";

/** The time limit for each step before the submit. */
const stepMs = 60_000;

/**
 * Submits a workflow for a task, at most once. vidgen chooses the job's id, so that the job can be found after an unclear submit. Rejects, before
 * anything is sent, when the request does not fit the workflow.
 */
export async function submitWorkflow(
  task: RenderTask,
  { server, workflow }: { server: ComfyUi; workflow: Workflow },
  options: Omit<SubmitOptions, "job">,
): Promise<SubmitOutcome> {
  const { name, io } = server;
  const values = await prepare(() => valuesOf(workflow, task));
  const limit = io.limit(stepMs, options.signal, new Error(`no response within ${stepMs / 1_000} s`));
  try {
    // Only a server that keeps the job's id can be asked for the job after an unclear submit.
    await server.findVersion(limit.signal);
    for (const [index, image] of task.images.entries()) {
      limit.restart();
      const reply = await server.upload(image, limit.signal);
      const file = findUploadedName(reply);
      const classified = classifyReply(reply);
      if (file === undefined && classified.kind === "refused")
        return {
          kind: "refused",
          error: `${name} refused an image: ${classified.reason}`,
          failure: "image",
          isNotSubmitted: true,
        };
      // An upload is free, so it can be repeated, whatever its reply means.
      if (file === undefined) return { ...classified, kind: "not submitted" };
      values.set(imagePlaceholder(index), file);
    }
  } catch (error) {
    options.signal.throwIfAborted();
    return toNotSubmitted(error);
  } finally {
    limit.clear();
  }
  const graph = fillWorkflow(workflow, values);
  const seed = drawSeed(task.id);
  const drawnSeed = values.get("seed") === seed ? seed : undefined;
  const { traceparent } = task.request;
  for (let attempt = 1; ; attempt++) {
    const job = randomUUID();
    let hasInternalError = false;
    const create = async (signals: SubmitSignals) => {
      const reply = await server.create(graph, job, { ...signals, traceparent });
      hasInternalError = isInternalError(reply);
      return classify(reply, server, signals.signal);
    };
    const outcome = await submitOnce(create, server, { ...options, job, drawnSeed });
    if (!hasInternalError || outcome.kind !== "not submitted") return outcome;
    if (attempt === maxInternalErrors)
      return {
        kind: "refused",
        error: `${name} refused the workflow: ComfyUI fails on it each time (HTTP 500)`,
        failure: "crash",
        isNotSubmitted: true,
      };
  }
}

/** After this number of ComfyUI's internal errors without a job, the workflow counts as refused. */
const maxInternalErrors = 3;

/** Whether ComfyUI itself failed on a request, as it does on some graphs each time. A proxy's page has another text. */
function isInternalError({ status, text }: ServerReply): boolean {
  return status === 500 && /^500 Internal Server Error\s+Server got itself in trouble/.test(text);
}

const uploadedSchema = z.object({ name: z.string().min(1), subfolder: z.string().catch("") });

/** Returns the name by which a graph refers to an uploaded image. */
function findUploadedName({ status, json }: ServerReply): string | undefined {
  const { data } = uploadedSchema.safeParse(status === 200 ? json : undefined);
  return data && (data.subfolder === "" ? data.name : `${data.subfolder}/${data.name}`);
}

const createdSchema = z.object({ prompt_id: z.string().regex(/^[\w-]+$/) });

async function classify(reply: ServerReply, server: ComfyUi, signal: AbortSignal): Promise<SubmitVerdict> {
  const job = reply.status === 200 ? createdSchema.safeParse(reply.json).data?.prompt_id : undefined;
  const fault = await findFault(reply, server, signal);
  if (job !== undefined && fault === undefined) return { kind: "submitted", submitted: { job } };
  const classified = classifyReply(reply);
  if (job === undefined && classified.kind !== "refused") return classified;
  // ComfyUI runs the nodes that have no faults, and they would not make the requested video.
  if (job !== undefined) await server.stop(job, signal).catch(() => {});
  const { words, failure } = fault ?? { words: classified.reason, failure: "workflow" };
  return { kind: "refused", error: `${server.name} refused the workflow: ${words}`, failure };
}
