import * as z from "zod";
import { isUuid } from "../../protocol/id.ts";
import { parse } from "../http/input.ts";
import { type Handler, refuse } from "../http/message.ts";
import type { Queue } from "../queue/queue.ts";
import type { StoredGeneration } from "../store/generations.ts";
import { type CancelOptions, cancelGeneration } from "./cancel.ts";
import {
  id,
  named,
  type Paths,
  parameters,
  type Route,
  refusal,
  reply,
  requestBody,
  schemaRef,
} from "./openapi/operation.ts";
import { findOwnGeneration, notFound, ownersAccount, ownId } from "./own-generation.ts";
import { acknowledgement, removeGeneration } from "./remove.ts";
import { type StartRoutes, startCommon } from "./start.ts";
import {
  createFormSchema,
  createSchema,
  findDefaultModel,
  readVideoStart,
  videoBody,
  videoNames,
  videoSchema,
  videoTypes,
} from "./video-body.ts";

const example = {
  id: "7d562bbb-0c2b-4c6e-9d0a-5a3c8f1e2b4d",
  object: "video",
  status: "queued",
  progress: 0,
  model: "veo-3.1",
  prompt: "a red fox runs through snow at dusk",
  seconds: "5",
  size: "1280x720",
  created_at: 1767225600,
  completed_at: null,
  expires_at: null,
  remixed_from_video_id: null,
  error: null,
};
const completedExample = { ...example, status: "completed", progress: 100, completed_at: 1767225630 };
const createBody = requestBody(createSchema, {
  prompt: example.prompt,
  model: example.model,
  seconds: example.seconds,
  size: example.size,
});

const notLimit = "must be a whole number from 1 to 100";
const listQuery = z.object({
  after: z.string().optional().meta({ description: "The id of a video: the list begins after it." }),
  limit: z.coerce
    .number(notLimit)
    .int(notLimit)
    .min(1, notLimit)
    .max(100, notLimit)
    .default(20)
    .meta({ description: "How many videos to return at most." }),
  order: z
    .enum(["asc", "desc"], { error: 'must be "asc" or "desc"' })
    .default("desc")
    .meta({ description: "asc: the oldest first. desc: the newest first." }),
});

const listSchema = named("VideoList", {
  object: z.literal("list"),
  data: z.array(videoSchema),
  first_id: id.nullable(),
  last_id: id.nullable(),
  has_more: z.boolean(),
});

const removedSchema = named("Removed", { id, object: z.literal("video.deleted"), deleted: z.literal(true) });

const contentQuery = z.object({
  variant: z
    .enum(["video", "thumbnail"], { error: "must be video or thumbnail" })
    .default("video")
    .meta({ description: "The .mp4, or one frame as PNG." }),
});

const rangeHeader = {
  Range: z
    .string()
    .optional()
    .meta({ description: "The bytes to return.", examples: ["bytes=1000-"] }),
};

const bytes = (type: string) => ({ [type]: { schema: { type: "string", format: "binary" } } });

export type VideoOptions = CancelOptions & {
  queue: Pick<Queue, "resume" | "progressOf">;
  /** The handler of the media address. */
  media: Handler;
};

/**
 * Creates the routes of OpenAI's Videos API, as servers of real models offer it. They are about the same generations as /api/generate, so that a
 * client of one API sees what a client of the other has started.
 */
export function createVideos(options: VideoOptions, startBy: StartRoutes): Paths {
  const { store, queue, media } = options;
  const bodyOf = (generation: StoredGeneration) => videoBody(generation, queue.progressOf(generation.id));
  const download: Route = {
    operationId: "downloadVideo",
    summary: "Returns the .mp4, whole or a range, or its thumbnail",
    description: "It needs the API key, which `video_url` in the status of a generation does not need.",
    parameters: [
      ...parameters("path", ownId),
      ...parameters("query", contentQuery.shape),
      ...ownersAccount,
      ...parameters("header", rangeHeader),
    ],
    responses: {
      200: { description: "The whole file", content: { ...bytes("video/mp4"), ...bytes("image/png") } },
      206: { description: "The range", content: bytes("video/mp4") },
      ...refusal(400, "invalid_variant", "variant must be video or thumbnail"),
      ...refusal(404, "not_ready", "this video is not completed yet"),
      416: { description: "The file has fewer bytes" },
    },
    async handle(c) {
      const { id, status, error } = await findOwnGeneration(c, store);
      const { variant } = parse(contentQuery, { variant: c.req.query("variant") });
      if (status === "processing") throw refuse(404, "not_ready", "this video is not completed yet");
      if (status === "failed") throw refuse(404, "failed", `this video was not generated: ${error}`);
      const { method, raw } = c.req;
      const file = `/${id}.${variant === "video" ? "mp4" : "png"}`;
      return media(new Request(new URL(file, c.req.url), { method, headers: raw.headers }), c.env);
    },
  };
  return {
    "/v1/videos": {
      GET: {
        operationId: "listVideos",
        summary: "Lists the videos of the account",
        description: "If `has_more` is true, send `last_id` as `after` to get the next part.",
        parameters: parameters("query", listQuery.shape),
        responses: {
          200: reply("A part of the list", listSchema, {
            object: "list",
            data: [completedExample],
            first_id: example.id,
            last_id: example.id,
            has_more: false,
          }),
          ...refusal(400, "invalid_limit", `limit ${notLimit}`),
        },
        async handle(c) {
          const { after, limit, order } = parse(listQuery, c.req.query());
          const { account } = c.var;
          // A page may begin after a generation whose video was removed since the last page.
          const isOwn = after === undefined || (isUuid(after) && (await store.generation(after))?.account === account);
          if (!isOwn) throw refuse(400, "invalid_after", "after must be the id of a video of this account");
          const found = await store.generations({ account, order, after, limit: limit + 1 });
          const data = found.slice(0, limit).map(bodyOf);
          const [first_id, last_id] = [data[0]?.id ?? null, data.at(-1)?.id ?? null];
          return c.json({ object: "list", data, first_id, last_id, has_more: found.length > limit });
        },
      },
      POST: {
        operationId: "createVideo",
        summary: "Starts a video, which is charged",
        description: startCommon.description,
        parameters: startCommon.parameters,
        requestBody: {
          ...createBody,
          content: {
            ...createBody.content,
            "multipart/form-data": { schema: schemaRef(createFormSchema) },
            "application/x-www-form-urlencoded": { schema: schemaRef(createSchema) },
          },
        },
        responses: {
          200: reply("It has started", videoSchema, example),
          ...startCommon.refusals,
          ...refusal(415, "unsupported_media_type", `the body must be ${videoTypes.join(" or ")}`),
        },
        handle: startBy({
          types: videoTypes,
          read: (c, bytes) => readVideoStart(c, bytes, { model: findDefaultModel(options.engines) }),
          names: videoNames,
          reply: ({ generation }) => bodyOf(generation),
        }),
      },
    },
    "/v1/videos/:id": {
      GET: {
        operationId: "retrieveVideo",
        summary: "Returns a video's status",
        description: "Poll it every 5 to 10 seconds.",
        parameters: [...parameters("path", ownId), ...ownersAccount],
        responses: { 200: reply("The video", videoSchema, completedExample), ...notFound },
        async handle(c) {
          const generation = await findOwnGeneration(c, store);
          if (generation.status === "processing") queue.resume(generation.id);
          return c.json(bodyOf(generation));
        },
      },
      DELETE: {
        operationId: "deleteVideo",
        summary: "Cancels a running video and returns its credits, or removes a video that has ended",
        description:
          "Its files are deleted, and its id is answered with 404 from then on. If it is unclear whether it was charged, it stays until `acknowledged=unclear` is sent; the ledger keeps what was paid.",
        parameters: [...parameters("path", ownId), ...ownersAccount, ...parameters("query", acknowledgement.shape)],
        responses: {
          200: reply("It is removed", removedSchema, { id: example.id, object: "video.deleted", deleted: true }),
          ...notFound,
          ...refusal(409, "not_cancellable", "not cancelled: it is being submitted to fake; the generation continues"),
        },
        async handle(c) {
          const { acknowledged } = parse(acknowledgement, { acknowledged: c.req.query("acknowledged") });
          const found = await findOwnGeneration(c, store);
          const isRunning = found.status === "processing";
          const ended = isRunning ? await cancelGeneration(() => findOwnGeneration(c, store), options) : found;
          await removeGeneration(ended, { ...options, isAcknowledged: acknowledged === "unclear" });
          return c.json({ id: ended.id, object: "video.deleted", deleted: true });
        },
      },
    },
    "/v1/videos/:id/content": { GET: download, HEAD: download },
  };
}

/**
 * The other routes of OpenAI's API and of vLLM-Omni's below /v1/videos: the reply says that they are not offered rather than that the method is
 * wrong.
 */
export const notOffered = ["edits", "extensions", "characters", "characters/:character", "sync", ":id/remix"];

export function refuseNotOffered(): never {
  const message = "edits, extensions, characters, remixes and /v1/videos/sync are not offered; nothing was charged";
  throw refuse(404, "not_offered", message);
}
