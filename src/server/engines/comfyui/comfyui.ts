import * as z from "zod";
import { VidgenError } from "../../../errors.ts";
import type { Engine, RenderOptions, RenderTask } from "../engine.ts";
import { finish } from "../upstream/finish.ts";
import { wordsOf } from "../upstream/reply.ts";
import { confirm } from "../upstream/submit.ts";
import { describe } from "../upstream/upstream.ts";
import type { ServerIo } from "../videos/server.ts";
import { type ComfyUi, type ComfyUiOptions, createComfyUi } from "./server.ts";
import { submit } from "./submit.ts";
import type { Workflow } from "./workflow.ts";

/** `upstreamModel` is the workflow's file, as the owner names it. */
type Options = ComfyUiOptions & { workflow: Workflow } & Pick<Engine, "models" | "concurrency" | "upstreamModel">;

/**
 * Returns the engine for a ComfyUI server that runs a workflow of the owner's. Its checkpoint is the name of the job there, chosen here and kept
 * before it is submitted.
 */
export function createComfyUiEngine(options: Options, io: ServerIo): Engine {
  const { url, workflow, models, concurrency, upstreamModel, timeoutMs } = options;
  const server = createComfyUi(options, io);
  const engine: Engine = {
    name: url,
    upstreamModel,
    isSimulation: false,
    models,
    maxImages: workflow.maxImages,
    concurrency,
    timeoutMs,
    async render(task, { resume, ...rest }) {
      const outcome = await begin(task, { server, workflow, resume, ...rest });
      const how = { upstream: server, cancel: engine.cancel, ...rest };
      return outcome.kind === "submitted" ? finish(outcome.submitted, task, how) : outcome;
    },
    async cancel(job, signal) {
      const reply = await server.cancel(job, signal);
      // Versions before 0.26 do not have it.
      if (reply.status !== 200 && reply.status !== 404) throw new Error(wordsOf(reply));
      return cancelledSchema.safeParse(reply.json).success;
    },
    async check(signal) {
      const version = await server.findVersion(signal).catch((error) => {
        throw error instanceof VidgenError ? error : new Error(`does not answer (${describe(error)})`);
      });
      return `ComfyUI ${version}`;
    },
  };
  return engine;
}

/** It is false for a job that has ended. */
const cancelledSchema = z.object({ cancelled: z.literal(true) });

async function begin(
  task: RenderTask,
  { server, workflow, resume, ...options }: { server: ComfyUi; workflow: Workflow } & Omit<RenderOptions, "progress">,
) {
  if (!resume || !("job" in resume)) return submit(task, { server, workflow }, options);
  const { state, job } = resume;
  if (state === "submitted") return { kind: "submitted" as const, submitted: { job } };
  return confirm(job, server, { ...options, reason: "the local service ended while it submitted this video" });
}
