import { randomUUID } from "node:crypto";
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
  const boundary = `vidgen-${randomUUID()}`;
  const part = (disposition: string, value: string | Blob) => [
    `--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\n`,
    ...(typeof value === "string" ? [] : [`Content-Type: ${value.type}\r\n`]),
    "\r\n",
    value,
    "\r\n",
  ];
  // FormData turns each line break of a text into CR LF, which would change the prompt.
  const parts = Object.entries(values).flatMap(([name, value]) =>
    part(`name="${name}"`, typeof value === "object" ? JSON.stringify(value) : String(value)),
  );
  for (const image of imageField && !imageField.value ? images.images : []) {
    const blob = await openAsBlob(image.path, { type: `image/${image.format}` });
    parts.push(...part(`name="${imageField?.name}"; filename="image.${image.format}"`, blob));
  }
  const body = await new Blob([...parts, `--${boundary}--\r\n`], { endings: "transparent" }).bytes();
  return { headers: { "Content-Type": `multipart/form-data; boundary=${boundary}` }, body };
}

async function dataAddress({ path, format }: ImageFile): Promise<string> {
  return `data:image/${format};base64,${await readFile(path, "base64")}`;
}
