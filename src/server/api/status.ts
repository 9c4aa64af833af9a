import { HTTPException } from "hono/http-exception";
import * as z from "zod";
import { failureCodes, states } from "../../protocol/schema.ts";
import type { Queue } from "../queue/queue.ts";
import type { ServiceParts } from "../service-parts.ts";
import { statusBody } from "../status-body.ts";
import { isSubmitting } from "../store/generations.ts";
import { id, named, parameters, type Route, refusal, reply, time, url } from "./openapi/operation.ts";
import { findOwnGeneration, notFound, ownersAccount, ownId } from "./own-generation.ts";

export const costSchema = z.number().meta({ description: "What the engine's provider charged, in USD." });

/** What `statusBody` returns. */
export const generationSchema = z.object({
  id,
  status: z.enum(states),
  video_url: url
    .nullable()
    .meta({ description: "URL of the .mp4, which needs no API key; null until the generation is completed." }),
  thumbnail_url: url.nullable().meta({ description: "URL of one frame, as PNG." }),
  created_at: time,
  error: z.string().optional().meta({ description: "Why it failed." }),
  error_code: z.enum(failureCodes).optional().meta({
    description:
      "credits: the account at the engine's provider has no credits. unclear: it is unknown whether the engine generates the video and charges for it; it is not submitted again, and its credits are not returned automatically. not_submitted: no engine accepted it. auth: the engine refuses its key, so it was not submitted. not_fetched: the engine generated it, but its file cannot be used.",
  }),
  hint: z.string().optional().meta({ description: "What to do about a failure, if error_code does not say that." }),
  cost: costSchema.optional(),
  drawn_seed: z
    .int()
    .optional()
    .meta({ description: "The seed that was sent to the engine, where the request has none." }),
});

const statusSchema = named("Generation", {
  ...generationSchema.shape,
  progress: z.number().optional().meta({
    description: "How much of the video is generated, in percent; with `progress_node`, how much of that node's work.",
  }),
  progress_node: z.string().optional().meta({ description: "The node of ComfyUI's workflow that runs." }),
  fetching: z.string().optional().meta({
    description:
      "Set while the engine has completed the video and the service does not have it yet: how far its download is, such as `its video cannot be fetched: HTTP 404`.",
  }),
  not_submitted: z.string().optional().meta({
    description:
      "Why a generation that is processing was not submitted to an engine yet. Until then, no provider charges for it.",
  }),
  submitting: z.string().optional().meta({
    description:
      "The engine to which a generation is being submitted, while it is not known whether the engine has accepted it.",
  }),
});

const exampleId = "7d562bbb-0c2b-4c6e-9d0a-5a3c8f1e2b4d";

export const processingExample = {
  id: exampleId,
  status: "processing",
  video_url: null,
  thumbnail_url: null,
  created_at: "2026-01-01T00:00:00.000Z",
};

export const completedExample = {
  ...processingExample,
  status: "completed",
  video_url: `http://127.0.0.1:8788/${exampleId}.mp4`,
  thumbnail_url: `http://127.0.0.1:8788/${exampleId}.png`,
};

export type StatusOptions = Pick<ServiceParts, "store" | "mediaUrl"> & {
  queue: Pick<Queue, "resume" | "progressOf" | "whyNotSubmitted">;
};

/** GET /api/generation-status, the interface's status. */
export function createStatusRoute({ store, queue, mediaUrl }: StatusOptions): Route {
  return {
    operationId: "status",
    summary: "Returns a generation; poll it every 5 to 10 seconds",
    description:
      "Polling also resumes a generation that an earlier process of the service left unfinished. With 404, the header Remaining-Credits has the balance of the account.",
    parameters: [...parameters("query", ownId), ...ownersAccount],
    responses: {
      200: reply("The generation", statusSchema, completedExample),
      ...refusal(400, "invalid_id", "the query parameter id is missing"),
      ...notFound,
    },
    async handle(c) {
      const generation = await findOwnGeneration(c, store).catch(async (error) => {
        // A client checks its key by the status of an id that does not exist.
        if (error instanceof HTTPException && error.status === 404)
          error.res?.headers.set("Remaining-Credits", String(await store.balance(c.var.account)));
        throw error;
      });
      if (generation.status === "processing") queue.resume(generation.id);
      const body = statusBody(generation, mediaUrl());
      const progress = body.status === "processing" ? queue.progressOf(generation.id) : undefined;
      const not_submitted = queue.whyNotSubmitted(generation);
      return c.json({
        ...body,
        ...(progress?.percent !== undefined && { progress: progress.percent }),
        ...(progress?.node !== undefined && { progress_node: progress.node }),
        ...(progress?.fetching !== undefined && { fetching: progress.fetching }),
        ...(not_submitted !== undefined && { not_submitted }),
        ...(body.status === "processing" && isSubmitting(generation) && { submitting: generation.checkpoint?.engine }),
      });
    },
  };
}
