import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import type { Handler } from "./app.ts";
import { refusalResponse, refuse } from "./refusal.ts";
import type { Media, Store } from "./store.ts";

/**
 * The media address: `/<id>.mp4` by GET and HEAD, whole or one range of it, with a strong ETag. It takes no key, as the interface's links
 * carry none; an id cannot be guessed, and is looked up in the store, never used as a path.
 */
export function createMedia(store: Store): Handler {
  return async (request) => {
    try {
      if (request.method !== "GET" && request.method !== "HEAD") {
        throw refuse(405, "method_not_allowed", "media takes GET and HEAD", { Allow: "GET, HEAD" });
      }
      const id = /^\/([0-9a-f-]{36})\.mp4$/.exec(new URL(request.url).pathname)?.[1];
      const media = id === undefined ? null : (await store.generation(id))?.media;
      if (!media) throw refuse(404, "not_found", "there is no such video");
      return serve(request, media);
    } catch (error) {
      return refusalResponse(error);
    }
  };
}

function serve(request: Request, media: Media): Response {
  const headers = {
    "Content-Type": "video/mp4",
    "Accept-Ranges": "bytes",
    ETag: media.etag,
    "X-Content-Type-Options": "nosniff",
  };
  if (request.headers.get("If-None-Match") === media.etag) return new Response(null, { status: 304, headers });
  const range = readRange(request.headers, media);
  if (range === "unsatisfiable") {
    return new Response(null, {
      status: 416,
      headers: { ...headers, "Content-Range": `bytes */${media.size}`, "Content-Length": "0" },
    });
  }
  const { first, last } = range ?? { first: 0, last: media.size - 1 };
  const partial = range && { "Content-Range": `bytes ${first}-${last}/${media.size}` };
  const all = { ...headers, ...partial, "Content-Length": String(last - first + 1) };
  const isBodiless = request.method === "HEAD" || media.size === 0;
  const body = isBodiless ? null : Readable.toWeb(createReadStream(media.file, { start: first, end: last }));
  return new Response(body as ReadableStream | null, { status: range ? 206 : 200, headers: all });
}

/** The one range that is asked for (RFC 9110, section 14); `undefined` for the whole, which also answers what is not understood. */
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
