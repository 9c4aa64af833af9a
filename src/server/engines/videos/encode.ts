import { openAsBlob } from "node:fs";
import { readFile } from "node:fs/promises";
import type { ImageFile } from "../engine.ts";
import type { CreateBody } from "./kinds.ts";

/** Returns the bytes of a create, and the headers that describe them. Rejects when an image cannot be read. */
export async function encodeBody({
  encoding,
  fields,
  files,
  imageValue,
}: CreateBody): Promise<{ headers: Record<string, string>; body: string | Uint8Array }> {
  if (encoding === "json") {
    const values: Record<string, unknown> = { ...fields };
    for (const { field, image } of files) values[field] = [imageValue?.(await dataAddress(image))];
    return { headers: { "Content-Type": "application/json" }, body: JSON.stringify(values) };
  }
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

async function dataAddress({ path, format }: ImageFile): Promise<string> {
  return `data:image/${format};base64,${await readFile(path, "base64")}`;
}
