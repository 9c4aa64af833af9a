import { imageFormatOf } from "../client/request/images.ts";
import { fetchMedia } from "../client/save/download.ts";
import type { Io } from "../io.ts";
import type { ToolImage } from "./tool.ts";

/** The maximum size, which in base64 is below the 1 MB that some agents accept as a result. */
const maxBytes = 500_000;
const limitMs = 10_000;

/** Downloads a thumbnail; `undefined` if it is too large, not an image, or not there within 10 s. Never rejects. */
export async function fetchThumbnail(
  url: string,
  { io, signal }: { io: Pick<Io, "fetch" | "limit">; signal: AbortSignal },
): Promise<ToolImage | undefined> {
  const limit = io.limit(limitMs, signal, new Error("no thumbnail within 10 s"));
  try {
    const { status, body } = await fetchMedia(url, {}, { signal: limit.signal, fetch: io.fetch });
    if (status !== 200) return undefined;
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of body ?? []) {
      size += chunk.byteLength;
      if (size > maxBytes) return undefined;
      chunks.push(chunk);
    }
    const bytes = Buffer.concat(chunks);
    const format = imageFormatOf(bytes);
    return format && { type: "image", mimeType: `image/${format}`, data: bytes.toString("base64") };
  } catch {
    return undefined;
  } finally {
    limit.clear();
  }
}
