import { openAsBlob } from "node:fs";
import type { CreateBody } from "./kinds.ts";

/** Returns the bytes of a create, and the headers that describe them. Rejects when an image cannot be read. */
export async function encodeBody({
  encoding,
  fields,
  files,
}: CreateBody): Promise<{ headers: Record<string, string>; body: string | Uint8Array }> {
  if (encoding === "json") return { headers: { "Content-Type": "application/json" }, body: JSON.stringify(fields) };
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, String(value));
  for (const { field, image } of files) {
    const blob = await openAsBlob(image.path, { type: `image/${image.format}` });
    form.append(field, blob, `image.${image.format}`);
  }
  // A Response encodes the form and chooses the boundary that its Content-Type names.
  const encoded = new Response(form);
  const contentType = encoded.headers.get("Content-Type") ?? "multipart/form-data";
  return { headers: { "Content-Type": contentType }, body: new Uint8Array(await encoded.arrayBuffer()) };
}
