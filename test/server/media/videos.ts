import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { type IncomingMessage, request } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished } from "vitest";
import { systemClock } from "../../../src/io.ts";
import { listen } from "../../../src/server/api/listen.ts";
import { createMedia } from "../../../src/server/media/media.ts";
import { openMedia } from "../../../src/server/media/open.ts";
import { openS3 } from "../../../src/server/media/s3.ts";
import type { S3Options } from "../../../src/server/media/s3-request.ts";
import { readBucket } from "../../../src/server/media/s3-settings.ts";
import type { Media, StoredGeneration } from "../../../src/server/store/generations.ts";
import { makeFolder } from "../../folder.ts";
import { realIo } from "../../real-io.ts";
import { sha256 } from "./fake-s3.ts";

export const content = "0123456789";
const id = "7d560000-0000-4000-8000-000000000000";
export const [mp4, png] = [`/${id}.mp4`, `/${id}.png`];
const { signal } = new AbortController();
const io = realIo();

/** The videos in an S3 store, and one to keep there. */
export async function openVideos(env: Record<string, string>, options: Partial<S3Options> = {}) {
  const folder = makeFolder();
  const scratch = { folder, close: async () => {} };
  const videos = openS3({
    ...readBucket("s3://videos/team", env),
    scratch,
    mark: "aa",
    clock: systemClock,
    ...options,
  });
  const file = join(folder, "fox.mp4");
  await writeFile(file, content);
  const made = { file, thumbnail: null, size: content.length, etag: `"${sha256(content)}"` };
  const readText = async (name: string) => {
    const body = await videos.read(name);
    return body && text(body);
  };
  return { videos, made, keep: () => videos.keep(made, signal), readText };
}

/** The media address of a service that keeps its videos at a place, with one video. */
export async function openAddress(place: string, env: Record<string, string> = {}, hasRedirects = false) {
  const videos = await openMedia(place, "aa", { ...io, env });
  onTestFinished(videos.close);
  const [file, thumbnail] = [join(videos.scratch, `${id}.mp4`), join(videos.scratch, `${id}.png`)];
  await Promise.all([writeFile(file, content), writeFile(thumbnail, "a picture")]);
  const etag = `"${sha256(content)}"`;
  const media: Media = await videos.keep({ file, thumbnail, size: content.length, etag }, signal);
  const generation = { id, media, request: { prompt: "a fox", hasDirectives: false } } as StoredGeneration;
  const troubles: string[] = [];
  const handler = createMedia({
    store: { generation: async (asked) => (asked === id ? generation : undefined) },
    videos,
    hasRedirects,
    reportProblem: (what, error) => void troubles.push(`${what}: ${error}`),
  });
  const listening = await listen(handler, { host: "127.0.0.1", port: 0 }, { now: () => 0, sleep: async () => {} });
  onTestFinished(() => listening.close(0));
  const ask = async (path: string, options: { method?: string; headers?: Record<string, string> } = {}) => {
    const outgoing = request(`${listening.url}${path}`, options).end();
    const [incoming]: IncomingMessage[] = await once(outgoing, "response");
    if (!incoming) throw new Error("no response");
    return { outgoing, incoming };
  };
  return { ask, troubles, etag };
}

/** What a rejected promise was rejected with. */
export const errorOf = (work: Promise<unknown>) =>
  work.then(
    () => expect.fail("it did not reject"),
    (error: Error) => error,
  );
