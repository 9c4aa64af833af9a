import { createReadStream } from "node:fs";
import { access, readFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { basename, join } from "node:path";
import { Readable } from "node:stream";
import { errorResponse, type Handler, type OnTrouble, refuse, streamResponse } from "../api/message.ts";
import { readDirectives } from "../jobs/directives.ts";
import type { Media, Store } from "../store/store.ts";

/** `folder` holds the videos. */
export type MediaOptions = { store: Pick<Store, "generation">; folder: string; onTrouble: OnTrouble };

/**
 * Returns the handler of the media address: `/<id>.mp4` and `/<id>.png` by GET and HEAD, a video whole or one range of it, with a strong ETag.
 * It takes no key, as the interface's links carry none; an id cannot be guessed, and is looked up in the store, never used as a path.
 */
export function createMedia({ store, folder, onTrouble }: MediaOptions): Handler {
  /** The ids whose address has answered with the status that the prompt asked for. */
  const refusedOnce = new Set<string>();
  const answer = async (request: Request, outgoing: ServerResponse | undefined) => {
    if (request.method !== "GET" && request.method !== "HEAD") {
      throw refuse(405, "method_not_allowed", "videos accept only GET and HEAD", { Allow: "GET, HEAD" });
    }
    const [, id = "", kind] = /^\/([0-9a-f-]{36})\.(mp4|png)$/.exec(new URL(request.url).pathname) ?? [];
    const generation = id === "" ? undefined : await store.generation(id);
    if (!generation?.media) throw refuse(404, "not_found", "there is no such video");
    const media = withPaths(generation.media, folder);
    if (kind === "png") return serveThumbnail(request, media);
    const { mediaStatus, mediaCut } = readDirectives(generation.request);
    if (mediaStatus !== undefined && !refusedOnce.has(id)) {
      refusedOnce.add(id);
      throw refuse(mediaStatus, "asked_for", "the prompt asked for this status, once");
    }
    // People may delete videos that they no longer want.
    await access(media.file).catch(() => {
      throw refuse(404, "not_found", "this video has been removed");
    });
    return serveVideo(request, { media, isCut: mediaCut, outgoing });
  };
  return (request, { outgoing } = {}) => answer(request, outgoing).catch((error) => errorResponse(error, onTrouble));
}

/** Only the names count: earlier versions stored whole paths, which are wrong once the folder was moved or copied. */
function withPaths({ file, thumbnail, ...media }: Media, folder: string): Media {
  const pathOf = (name: string) => join(folder, basename(name));
  return { ...media, file: pathOf(file), thumbnail: thumbnail === null ? null : pathOf(thumbnail) };
}

async function serveThumbnail(request: Request, { thumbnail }: Media): Promise<Response> {
  const bytes = thumbnail === null ? undefined : await readFile(thumbnail).catch(() => undefined);
  if (!bytes) throw refuse(404, "not_found", "there is no such picture");
  const headers = {
    "Content-Type": "image/png",
    "Content-Length": String(bytes.length),
    "X-Content-Type-Options": "nosniff",
  };
  return new Response(request.method === "HEAD" ? null : bytes, { headers });
}

type Video = { media: Media; isCut: boolean; outgoing: ServerResponse | undefined };

async function serveVideo(request: Request, { media, isCut, outgoing }: Video): Promise<Response> {
  const common = {
    "Content-Type": "video/mp4",
    "Accept-Ranges": "bytes",
    ETag: media.etag,
    "X-Content-Type-Options": "nosniff",
  };
  if (request.headers.get("If-None-Match") === media.etag) return new Response(null, { status: 304, headers: common });
  const range = readRange(request.headers, media);
  if (range === "unsatisfiable") {
    const headers = { ...common, "Content-Range": `bytes */${media.size}`, "Content-Length": "0" };
    return new Response(null, { status: 416, headers });
  }
  const { first, last } = range ?? { first: 0, last: media.size - 1 };
  const partial = range && { "Content-Range": `bytes ${first}-${last}/${media.size}` };
  const headers = { ...common, ...partial, "Content-Length": String(last - first + 1) };
  const init = { status: range ? 206 : 200, headers };
  if (request.method === "HEAD" || media.size === 0) return new Response(null, init);
  const body = isCut && !range ? firstHalf(media) : createReadStream(media.file, { start: first, end: last });
  return streamResponse(body, init, outgoing);
}

/** `[media: cut]`: returns a stream of the video that fails halfway. */
function firstHalf({ file, size }: Media): Readable {
  const half = createReadStream(file, { end: Math.max(0, Math.floor(size / 2) - 1) });
  const broken = async function* () {
    yield* half;
    throw new Error("cut, as the prompt asked for");
  };
  return Readable.from(broken());
}

/** Returns the requested range (RFC 9110, section 14); `undefined` for the whole file, which also answers ranges that are not understood. */
function readRange(
  headers: Headers,
  { size, etag }: Media,
): { first: number; last: number } | "unsatisfiable" | undefined {
  const match = /^bytes=(\d*)-(\d*)$/.exec(headers.get("Range") ?? "");
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
