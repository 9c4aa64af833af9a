import type { ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import { errorResponse, type Handler, refuse, streamResponse } from "../http/message.ts";
import type { ReportProblem } from "../observe/problem.ts";
import type { Media } from "../store/generations.ts";
import type { Store } from "../store/store.ts";
import type { MediaStore } from "./media-store.ts";

export type MediaHandlerOptions = {
  store: Pick<Store, "generation">;
  videos: MediaStore;
  /** Whether a video is served by a redirect to the store's own URL, where the store has one. */
  hasRedirects?: boolean | undefined;
  /** Whether the videos of an account are refused to everybody without a key; by default, no account's are. */
  isDisabled?: Store["isDisabled"] | undefined;
  /** Added to each reply with a video or a picture. */
  headers?: Record<string, string>;
  reportProblem: ReportProblem;
};

/**
 * Returns the handler of the media address: `/<id>.mp4` and `/<id>.png` by GET and HEAD, a video whole or one range of it, with a strong ETag.
 * Requests need no key, because the links in replies contain none, and ids cannot be guessed. An id is never used as a path.
 */
export function createMedia(options: MediaHandlerOptions): Handler {
  const { store, videos, hasRedirects = false, isDisabled, reportProblem } = options;
  // A cache must revalidate before each use, because the video may have been deleted.
  const headers = { "X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-cache", ...options.headers };
  const respond = async (request: Request, outgoing: ServerResponse | undefined) => {
    if (request.method !== "GET" && request.method !== "HEAD") {
      throw refuse(405, "method_not_allowed", "videos accept only GET and HEAD", { Allow: "GET, HEAD" });
    }
    const { id, kind } = readPath(request) ?? {};
    const generation = id === undefined ? undefined : await store.generation(id);
    if (!generation?.media) throw refuse(404, "not_found", "there is no such video");
    const { media, account } = generation;
    if (await isDisabled?.(account))
      throw refuse(403, "account_disabled", "the account of this video is disabled; the service's owner can enable it");
    if (kind === "png") return serveThumbnail(request, media, { videos, headers });
    // The signed URL accepts only GET.
    if (hasRedirects && videos.presign && request.method === "GET") {
      const location = await videos.presign(media.file);
      return new Response(null, {
        status: 302,
        headers: { ...headers, Location: location, "Cache-Control": "no-store" },
      });
    }
    return serveVideo(request, { media, videos, headers, outgoing });
  };
  return (request, { outgoing } = {}) =>
    respond(request, outgoing).catch((error) => errorResponse(error, reportProblem));
}

function readPath({ url }: Request): { id: string; kind: "mp4" | "png" } | undefined {
  const [, id, kind] = /^\/([0-9a-f-]{36})\.(mp4|png)$/.exec(new URL(url).pathname) ?? [];
  return id === undefined ? undefined : { id, kind: kind === "png" ? kind : "mp4" };
}

/** Returns the id of the generation whose video is requested; `undefined` for any other request. */
export function readVideoId(request: Request): string | undefined {
  const { id, kind } = readPath(request) ?? {};
  return kind === "mp4" && ["GET", "HEAD"].includes(request.method) ? id : undefined;
}

async function serveThumbnail(
  request: Request,
  { thumbnail }: Media,
  { videos, headers: common }: { videos: MediaStore; headers: Record<string, string> },
): Promise<Response> {
  const body = thumbnail === null ? undefined : await videos.read(thumbnail);
  if (!body) throw refuse(404, "not_found", "there is no such picture");
  const bytes = await buffer(body);
  const headers = { ...common, "Content-Type": "image/png", "Content-Length": String(bytes.length) };
  return new Response(request.method === "HEAD" ? null : bytes, { headers });
}

type Video = {
  media: Media;
  videos: MediaStore;
  headers: Record<string, string>;
  outgoing: ServerResponse | undefined;
};

async function serveVideo(
  request: Request,
  { media, videos, outgoing, headers: mediaHeaders }: Video,
): Promise<Response> {
  const common = { ...mediaHeaders, "Content-Type": "video/mp4", "Accept-Ranges": "bytes", ETag: media.etag };
  if (hasMatch(request.headers.get("If-None-Match"), media))
    return new Response(null, { status: 304, headers: common });
  const range = readRange(request.headers, media);
  if (range === "unsatisfiable") {
    const headers = { ...common, "Content-Range": `bytes */${media.size}`, "Content-Length": "0" };
    return new Response(null, { status: 416, headers });
  }
  const { first, last } = range ?? { first: 0, last: media.size - 1 };
  const partial = range && { "Content-Range": `bytes ${first}-${last}/${media.size}` };
  const headers = { ...common, ...partial, "Content-Length": String(last - first + 1) };
  const init = { status: range ? 206 : 200, headers };
  // For HEAD, one byte is enough to show that the video still exists.
  const bytesToRead = { first, last: request.method === "HEAD" ? first : last };
  const body = await videos.read(media.file, media.size === 0 ? undefined : bytesToRead);
  if (!body) throw refuse(404, "not_found", "this video has been removed");
  if (request.method === "HEAD" || media.size === 0) {
    body.destroy();
    return new Response(null, init);
  }
  return streamResponse(body, init, outgoing);
}

/** Whether If-None-Match (RFC 9110, 13.1.2) contains the video's ETag, weak or strong. The ETag contains no comma. */
function hasMatch(condition: string | null, { etag }: Media): boolean {
  if (condition === null) return false;
  const tags = condition.split(",").map((each) => each.trim().replace(/^W\//, ""));
  return condition.trim() === "*" || tags.includes(etag);
}

/** Returns the requested range (RFC 9110, section 14); `undefined` for the whole file, which is also the reply to an invalid range. */
function readRange(
  headers: Headers,
  { size, etag }: Media,
): { first: number; last: number } | "unsatisfiable" | undefined {
  const match = /^bytes=(\d*)-(\d*)$/i.exec(headers.get("Range") ?? "");
  if (!match || (match[1] === "" && match[2] === "")) return undefined;
  const condition = headers.get("If-Range");
  if (condition !== null && condition !== etag) return undefined;
  if (match[1] === "") {
    const suffix = Math.min(Number(match[2]), size);
    return suffix === 0 ? "unsatisfiable" : { first: size - suffix, last: size - 1 };
  }
  const first = Number(match[1]);
  const last = match[2] === "" ? size - 1 : Math.min(Number(match[2]), size - 1);
  if (match[2] !== "" && Number(match[2]) < first) return undefined;
  return first < size ? { first, last } : "unsatisfiable";
}
