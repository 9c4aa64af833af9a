import { posix } from "node:path";
import { VidgenError } from "../../../errors.ts";
import type { Engine, RenderOptions, RenderTask } from "../engine.ts";
import { describeShapeFault } from "../frame-size.ts";
import { finish } from "../upstream/finish.ts";
import { isCompleted, isFailed, pollJob } from "../upstream/follow.ts";
import { clean } from "../upstream/reply.ts";
import { confirm } from "../upstream/submit.ts";
import { describeCheck } from "../upstream/upstream.ts";
import type { ServerIo } from "../videos/server.ts";
import { checkNodes } from "./faults.ts";
import { findResult, type WorkflowResult } from "./job.ts";
import { listen } from "./progress.ts";
import { type ComfyUi, type ComfyUiOptions, createComfyUi } from "./server.ts";
import { submitWorkflow } from "./submit.ts";
import { findRequestFault, passesOf } from "./values.ts";
import { createQueueCache, watch } from "./watch.ts";
import { shortId, type Workflow } from "./workflow.ts";

/** `upstreamModel` is the workflow's file, as the owner wrote it. */
type ComfyUiEngineOptions = Omit<ComfyUiOptions, "titledNodes"> & { workflow: Workflow } & Pick<
    Engine,
    "models" | "concurrency" | "upstreamModel"
  >;

/**
 * Returns the engine for a ComfyUI server that runs a workflow of the owner. The checkpoint is the id of ComfyUI's job, which vidgen chooses and
 * stores before it submits the job.
 */
export function createComfyUiEngine(options: ComfyUiEngineOptions, io: ServerIo): Engine {
  const { url, workflow, models, concurrency, upstreamModel, timeoutMs, onNote } = options;
  const server = createComfyUi({ ...options, titledNodes: workflow.titledNodes }, io);
  const queueCache = createQueueCache(server);
  const cancelJob = (job: string, signal: AbortSignal) => cancel(job, server, signal);
  return {
    name: url,
    upstreamModel,
    isSimulation: false,
    models,
    maxImages: workflow.maxImages,
    isInconsistent: server.isInconsistent,
    concurrency,
    timeoutMs,
    passes: async () => passesOf(workflow),
    findFault: async (request, names) => describeShapeFault(request) ?? findRequestFault(workflow, request, names),
    async render(task, { resume, ...rest }) {
      const outcome = await begin(task, { server, workflow, resume, ...rest });
      if (outcome.kind !== "submitted") return outcome;
      const outputs: Record<string, unknown> = {};
      const describeLoss = () => `${lostReason}${describeSaved(findResult(outputs, workflow.titledNodes), task.id)}`;
      const { upstream, result, end: endWatch } = watch(server, { queueCache, describeLoss });
      const listening = new AbortController();
      const { submitted } = outcome;
      const onOutput = (node: string, output: object) => void Object.assign(outputs, { [node]: output });
      const listenOptions = { progress: rest.progress, onOutput, signal: listening.signal };
      if ("job" in submitted) void listen(submitted.job, { server, workflow }, listenOptions);
      const end = await finish(submitted, task, { upstream, cancel: cancelJob, ...rest }).finally(() => {
        listening.abort();
        endWatch();
      });
      const notes = end.kind === "made" ? notesOf(result(), task.id) : [];
      for (const note of notes) onNote(`${url}: ${note}`);
      return end;
    },
    cancel: cancelJob,
    async check(signal) {
      const version = await server.findVersion(signal).catch((error) => {
        throw error instanceof VidgenError ? error : new Error(describeCheck(error));
      });
      for (const note of await checkNodes(workflow, server, signal)) server.noteOnce(`${url}: ${note}.`);
      return `ComfyUI ${version}`;
    },
  };
}

const stopPollMs = 1_000;

/**
 * Stops a job, and resolves once it neither waits nor runs; with `false` if it has completed or failed by then. A running node stops only at its next
 * step, which may take a while. Rejects when the signal aborts first.
 */
async function cancel(job: string, server: ComfyUi, signal: AbortSignal): Promise<boolean> {
  await server.stop(job, signal);
  for (;;) {
    const { running, waiting } = await server.findQueue(signal);
    if (!running.includes(job) && !waiting.includes(job)) break;
    await server.io.sleep(stopPollMs, signal);
  }
  const polled = await pollJob(job, server, signal);
  if ("reason" in polled && !polled.isMissing) throw new Error(polled.reason);
  return "reason" in polled || !(isCompleted(polled) || isFailed(polled));
}

/** Why the server may no longer know a job. */
const lostReason = "it was restarted, or the job was removed from its queue";

/** Names the file of a generation that has ended, for its owner to look at: nothing is downloaded without the job. */
function describeSaved(result: WorkflowResult | undefined, id: string): string {
  if (result?.video.type !== "output" || !hasIdInName(result, id)) return "";
  const { filename, subfolder } = result.video;
  return `. It had saved ${clean(posix.join(subfolder, filename))}, which may be in its output folder`;
}

function hasIdInName({ video }: WorkflowResult, id: string): boolean {
  return `${video.subfolder}/${video.filename}`.includes(shortId(id));
}

/** Returns notes for the owner about a finished video. */
function notesOf(result: WorkflowResult | undefined, id: string): string[] {
  if (!result) return [];
  const { filename, node } = result.video;
  const sharedNameNote = `node ${node} chose the file name ${clean(filename)}: two jobs may share this name, and get each other's video. Put {{id}} into the name in the workflow.`;
  return hasIdInName(result, id) ? result.notes : [...result.notes, sharedNameNote];
}

async function begin(
  task: RenderTask,
  { server, workflow, resume, ...options }: { server: ComfyUi; workflow: Workflow } & Omit<RenderOptions, "progress">,
) {
  if (resume?.state === "finished") return { kind: "submitted" as const, submitted: { videoUrl: resume.url } };
  if (!resume || !("job" in resume)) return submitWorkflow(task, { server, workflow }, options);
  const { state, job } = resume;
  if (state === "submitted") return { kind: "submitted" as const, submitted: { job } };
  return confirm(job, server, { ...options, reason: "the local service ended while it submitted this video" });
}
