import { openAsBlob } from "node:fs";
import { readFile } from "node:fs/promises";
import { listImages, replaceImages } from "../../store/generations.ts";
import type { ImageFile } from "../engine.ts";
import type { CreateBody } from "./kinds.ts";

/** Returns the bytes of a create, and the headers that describe them. Rejects when an image cannot be read. */
export async function encodeBody({
  encoding,
  fields,
  images,
  imageField,
}: Pick<CreateBody, "encoding" | "fields" | "images" | "imageField">): Promise<{
  headers: Record<string, string>;
  body: string | Uint8Array;
}> {
  const values = { ...fields };
  if (imageField?.value) {
    const addresses = await Promise.all(listImages(images).map(dataAddress));
    values[imageField.name] = imageField.value(replaceImages(images, addresses));
  }
  if (encoding === "json") return { headers: { "Content-Type": "application/json" }, body: JSON.stringify(values) };
  const form = new FormData();
  for (const [name, value] of Object.entries(values))
    form.append(name, typeof value === "object" ? JSON.stringify(value) : String(value));
  for (const image of imageField && !imageField.value ? images.images : []) {
    const blob = await openAsBlob(image.path, { type: `image/${image.format}` });
    form.append(imageField?.name ?? "", blob, `image.${image.format}`);
  }
  // A Response encodes the form and chooses the boundary that its Content-Type names.
  const encoded = new Response(form);
  const contentType = encoded.headers.get("Content-Type") ?? "multipart/form-data";
  return { headers: { "Content-Type": contentType }, body: new Uint8Array(await encoded.arrayBuffer()) };
}

async function dataAddress({ path, format }: ImageFile): Promise<string> {
  return `data:image/${format};base64,${await readFile(path, "base64")}`;
}
