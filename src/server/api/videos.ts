import * as z from "zod";
import { isUuid } from "../../client/http/id.ts";
import type { Engine } from "../engines/engine.ts";
import type { Queue } from "../jobs/queue.ts";
import { createMedia, type MediaOptions } from "../media/media.ts";
import { removeMedia } from "../media/media-store.ts";
import type { Store, StoredGeneration } from "../store/store.ts";
import { type CancelOptions, cancelOwn } from "./cancel.ts";
import { type ApiContext, refuse } from "./message.ts";
import { findOwnGeneration } from "./own-generation.ts";
import type { StartFormat } from "./start.ts";
import { parse } from "./start-body.ts";
import { readVideoStart, videoBody, videoNames, videoTypes } from "./video-body.ts";

export type VideoOptions = CancelOptions &
  MediaOptions & {
    store: Pick<Store, "generations" | "remove">;
    queue: Pick<Queue, "resume" | "progressOf">;
  };

type Route = (c: ApiContext) => Promise<Response>;

/** The routes of `/v1/videos`, and how it writes a start. */
export type Videos = { format: StartFormat } & Record<"list" | "show" | "content" | "remove", Route>;

const notLimit = "must be a whole number from 1 to 100";
/** The query of the list. */
export const videosQuery = z.object({
  after: z.string().optional(),
  limit: z.coerce.number(notLimit).int(notLimit).min(1, notLimit).max(100, notLimit).default(20),
  order: z.enum(["asc", "desc"], { error: 'must be "asc" or "desc"' }).default("desc"),
});

/**
 * Creates the API that OpenAI's Videos API has left to servers of real models, over the same generations as the interface's: a client of either sees
 * what the other one has started.
 */
export function createVideos(options: VideoOptions): Videos {
  const { store, queue, videos, clock } = options;
  const media = createMedia(options);
  const show = (generation: StoredGeneration) => videoBody(generation, queue.progressOf(generation.id));
  return {
    format: {
      types: videoTypes,
      read: readVideoStart,
      names: videoNames,
      reply: ({ generation }) => show(generation),
    },
    async list(c) {
      const { after, limit, order } = parse(videosQuery, c.req.query());
      const { account } = c.var;
      // One that was removed meanwhile still has its place.
      const isOwn = after === undefined || (isUuid(after) && (await store.generation(after))?.account === account);
      if (!isOwn) throw refuse(400, "invalid_after", "after must be the id of a video of this account");
      const found = await store.generations({ account, order, after, limit: limit + 1 });
      const data = found.slice(0, limit).map(show);
      const [first_id, last_id] = [data[0]?.id ?? null, data.at(-1)?.id ?? null];
      return c.json({ object: "list", data, first_id, last_id, has_more: found.length > limit });
    },
    async show(c) {
      const generation = await findOwnGeneration(c, store);
      if (generation.status === "processing") queue.resume(generation.id);
      return c.json(show(generation));
    },
    async content(c) {
      const { id, status, error } = await findOwnGeneration(c, store);
      const kind = kinds.get(c.req.query("variant") ?? "video");
      if (kind === undefined) throw refuse(400, "invalid_variant", "variant must be video or thumbnail");
      if (status === "processing") throw refuse(404, "not_ready", "this video is not completed yet");
      if (status === "failed") throw refuse(404, "failed", `this video was not generated: ${error}`);
      const { method, raw } = c.req;
      return media(new Request(new URL(`/${id}.${kind}`, c.req.url), { method, headers: raw.headers }), c.env);
    },
    async remove(c) {
      const found = await findOwnGeneration(c, store);
      const { id, media } = found.status === "processing" ? await cancelOwn(c, options) : found;
      // Before it is called removed: a file that is left would stay forever.
      await removeMedia(videos, media);
      await store.remove(id, clock.date().toISOString());
      return c.json({ id, object: "video.deleted", deleted: true });
    },
  };
}

const kinds = new Map([
  ["video", "mp4"],
  ["thumbnail", "png"],
]);

/** What OpenAI's API had besides, below /v1/videos. No engine here does it, and a client is told so rather than that the method is wrong. */
export const notOffered = ["edits", "extensions", "characters", "characters/:character", ":id/remix"];

export const refuseNotOffered: Route = async () => {
  const message = "edits, extensions, characters and remixes of videos are not offered; nothing was charged";
  throw refuse(404, "not_offered", message);
};

/**
 * The routes of GET /v1/models and /v1/models/<id>: what is served here. Other servers of `/v1/videos` have them too, and are told apart by
 * `owned_by`.
 */
export function createModels({ engines }: { engines: readonly Pick<Engine, "models">[] }) {
  const served = [...new Set(engines.flatMap(({ models }) => models))];
  const data = served.map((id) => ({ id, object: "model", created: 0, owned_by: "vidgen" }));
  const list: Route = async (c) => c.json({ object: "list", data });
  const show: Route = async (c) => {
    const wanted = c.req.param("id") ?? "";
    const found = data.find(({ id }) => id === wanted);
    if (found) return c.json(found);
    const message = `${wanted.slice(0, 64)} is not served here; GET /v1/models lists what is`;
    throw refuse(404, "model_not_found", message);
  };
  return { list, show };
}
