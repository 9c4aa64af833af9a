import * as z from "zod";
import { videosQuery } from "../videos.ts";
import {
  idParameter,
  notFound,
  notStarted,
  refusal,
  reply,
  requestBody,
  startNote,
  startParameters,
  toAccount,
} from "./replies.ts";
import { schemaRef } from "./schemas.ts";

const videos = { tags: ["videos"] };

const video = {
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
  error: null,
};
const { prompt, model, seconds, size } = video;
const completed = { ...video, status: "completed", progress: 100, completed_at: 1767225630 };
const create = requestBody("Create", { prompt, model, seconds, size });
const list = { object: "list", data: [completed], first_id: video.id, last_id: video.id, has_more: false };

/** What the query's own check says of each parameter. */
const { properties = {} } = z.toJSONSchema(videosQuery, { io: "input" });
const listParameters = Object.entries(properties).map(([name, schema]) => ({ name, in: "query", schema }));

const bytes = (type: string) => ({ [type]: { schema: { type: "string", format: "binary" } } });

export const videoPaths = {
  "/v1/videos": {
    post: {
      ...videos,
      operationId: "createVideo",
      summary: "Starts a video, which is charged",
      description: startNote,
      parameters: startParameters,
      requestBody: {
        ...create,
        content: { ...create.content, "multipart/form-data": { schema: schemaRef("CreateForm") } },
      },
      responses: {
        200: reply("It has started", "Video", video),
        ...notStarted,
        ...refusal(415, "unsupported_media_type", "the body must be application/json or multipart/form-data"),
        ...toAccount,
      },
    },
    get: {
      ...videos,
      operationId: "listVideos",
      summary: "Lists the videos of the account",
      parameters: listParameters,
      responses: {
        200: reply("A part of the list", "VideoList", list),
        ...refusal(400, "invalid_limit", "limit must be a whole number from 1 to 100"),
        ...toAccount,
      },
    },
  },
  "/v1/videos/{id}": {
    parameters: [idParameter("path")],
    get: {
      ...videos,
      operationId: "retrieveVideo",
      summary: "Returns a video's status",
      responses: { 200: reply("The video", "Video", completed), ...notFound, ...toAccount },
    },
    delete: {
      ...videos,
      operationId: "deleteVideo",
      summary: "Cancels a running video and returns its credits, or removes a video that has ended",
      responses: {
        200: reply("It is removed", "Removed", { id: video.id, object: "video.deleted", deleted: true }),
        ...notFound,
        ...refusal(409, "not_cancellable", "not cancelled: it is being submitted to fake; the generation continues"),
        ...toAccount,
      },
    },
  },
  "/v1/videos/{id}/content": {
    parameters: [idParameter("path")],
    get: {
      ...videos,
      operationId: "downloadVideo",
      summary: "Returns the .mp4, whole or a range, or its thumbnail",
      parameters: [
        { name: "variant", in: "query", schema: { enum: ["video", "thumbnail"], default: "video" } },
        { name: "Range", in: "header", schema: { type: "string", examples: ["bytes=1000-"] } },
      ],
      responses: {
        200: { description: "The whole file", content: { ...bytes("video/mp4"), ...bytes("image/png") } },
        206: { description: "The range", content: bytes("video/mp4") },
        ...refusal(400, "invalid_variant", "variant must be video or thumbnail"),
        ...refusal(404, "not_ready", "this video is not completed yet"),
        416: { description: "The file has fewer bytes" },
        ...toAccount,
      },
    },
  },
  "/v1/models": {
    get: {
      ...videos,
      operationId: "listModels",
      summary: "Lists the models that this service serves",
      responses: { 200: reply("The models", "Models"), ...toAccount },
    },
  },
  "/v1/models/{id}": {
    parameters: [{ name: "id", in: "path", required: true, schema: { type: "string" } }],
    get: {
      ...videos,
      operationId: "retrieveModel",
      summary: "Returns a model that this service serves",
      responses: {
        200: reply("The model", "Model"),
        ...refusal(404, "model_not_found", "sora-9 is not served here; GET /v1/models lists what is"),
        ...toAccount,
      },
    },
  },
};
