import { writeSync } from "node:fs";
import { open, rename } from "node:fs/promises";
import { systemCode, VidgenError } from "../../../errors.ts";
import type { HttpResponse } from "../../../io.ts";
import { faultOfMp4 } from "../../../video/mp4.ts";
import { type RetryForeverOptions, retryForever } from "../../retry-forever.ts";
import type { RenderOutcome } from "../engine.ts";

// Some servers reply to a create with the video itself. That reply is the only copy.

type UnreadReply = Pick<HttpResponse, "status" | "headers" | "body">;

/** The length and the type of an .mp4's first box. */
const startBytes = 8;

/** Reads the start of a reply. Returns whether the reply is a video, and the reply with its whole body. Rejects when reading fails. */
export async function peek({ status, headers, body }: UnreadReply): Promise<{ reply: UnreadReply; isVideo: boolean }> {
  const chunks = body?.[Symbol.asyncIterator]();
  const firstChunks: Uint8Array[] = [];
  let start = Buffer.alloc(0);
  while (chunks && start.length < startBytes) {
    const { done, value } = await chunks.next();
    if (done) break;
    firstChunks.push(value);
    start = Buffer.concat(firstChunks);
  }
  // An .mp4 begins with the length of its first box, which has bytes that no text has.
  const isText = start.every((byte) => byte > 8);
  const hasVideoType = /^\s*video\//i.test(headers.get("Content-Type") ?? "") && !isText;
  const isVideo = hasVideoType || start.toString("latin1", 4, startBytes) === "ftyp";
  async function* whole() {
    try {
      yield* firstChunks;
      for (let next = await chunks?.next(); next && !next.done; next = await chunks?.next()) yield next.value;
    } finally {
      await chunks?.return?.();
    }
  }
  return { reply: { status, headers, body: whole() }, isVideo };
}

/**
 * Writes the video of a reply to a file, and resolves once it is on the disk. Calls `onPart` for each part. Retries while this machine cannot write.
 * Rejects when the reply breaks off, and when the signal aborts.
 */
export async function saveReply(
  { body }: Pick<UnreadReply, "body">,
  path: string,
  { onPart, ...options }: RetryForeverOptions & { onPart(): void },
): Promise<void> {
  const what = "The video in a reply cannot be written";
  const write = <Result>(work: () => Result | Promise<Result>) =>
    retryForever(
      async () => {
        onPart();
        return work();
      },
      { ...options, what },
    );
  const file = await write(() => open(path, "w"));
  try {
    for await (const chunk of body ?? [])
      for (let at = 0; at < chunk.byteLength; ) at += await write(() => writeSync(file.fd, chunk, at));
    await write(() => file.sync());
  } finally {
    await file.close();
  }
}

/**
 * Uses a video from the reply to a create, which is in `savedFile`: an earlier process may have saved it under another path of this machine. Rejects
 * with `output` when the file is not a whole video, which a retry would not change. The outcome is "unclear" when this machine does not have the file.
 */
export async function takeSaved(
  { savedFile, file, name }: { savedFile: string; file: string; name: string },
  options: RetryForeverOptions,
): Promise<RenderOutcome> {
  const find = async () => {
    try {
      if (savedFile !== file) await rename(savedFile, file).catch(ignoreMissing);
      const handle = await open(file);
      return await faultOfMp4(handle).finally(() => handle.close());
    } catch (error) {
      ignoreMissing(error);
      return "missing";
    }
  };
  const fault = await retryForever(find, { ...options, what: "The video cannot be read" });
  if (fault === "missing") return { kind: "unclear", reason: "its reply had the video, which is not on this machine" };
  if (fault && fault.noLengthReason !== "another format")
    throw new VidgenError("output", `${name} sent this video, but it cannot be used: ${fault.reason}`);
  return { kind: "made", hasThumbnail: false };
}

function ignoreMissing(error: unknown): void {
  if (systemCode(error) !== "ENOENT") throw error;
}
