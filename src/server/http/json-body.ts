import { refuse } from "./refusal.ts";

const longestBody = 1_000_000;

/** A request's JSON, as it was sent and as what it says. Throws the refusal of a body that is none, or is larger than 1 MB. */
export async function readJsonBody(request: Request): Promise<{ text: string; json: unknown }> {
  if (!/^application\/json\s*(;|$)/i.test(request.headers.get("Content-Type") ?? "")) {
    throw refuse(415, "unsupported_media_type", "the body must be application/json");
  }
  const bytes = await readBytes(request);
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return { text, json: JSON.parse(text) };
  } catch {
    throw refuse(400, "invalid_json", "the body is not JSON");
  }
}

/** Reads to the end, also what is too large: many a client sends its whole body before it reads the reply. */
async function readBytes(request: Request): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of request.body ?? []) {
    length += chunk.byteLength;
    if (length <= longestBody) chunks.push(chunk);
  }
  if (length > longestBody) throw refuse(400, "body_too_large", "the body is larger than 1 MB");
  return Buffer.concat(chunks);
}
