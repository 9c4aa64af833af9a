import { expect, test } from "vitest";
import { type GenerationRequest, readRequest } from "../../src/library/request.ts";
import { fields, textFields } from "../../src/protocol/fields.ts";

const toCamelCase = (name: string) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** A value that no field finds a fault with. */
const values: Record<string, unknown> = {
  aspectRatio: "16:9",
  duration: 5,
  seed: 7,
  callbackUrl: "https://hook.example/x",
};

test("each field of `fields.ts` that services may take is one of the library's request, and sent by its name on the wire", async () => {
  const names = textFields.map(({ name }) => toCamelCase(name));
  const given = Object.fromEntries(names.map((name) => [name, values[name] ?? "text"]));
  const images = ["https://images.example/fox.png"];
  const body = await readRequest({ ...given, images } as unknown as GenerationRequest, () => {});
  expect(new Set(Object.keys(body))).toEqual(
    new Set(fields.flatMap(({ name, isLocalOnly }) => (isLocalOnly ? [] : name))),
  );
});

test("a field of extra that only begins with image is sent beside the images; one that is the source image is noted", async () => {
  const images = ["https://images.example/fox.png"];
  const notes: string[] = [];
  const send = (extra: object) =>
    readRequest({ prompt: "a fox", model: "ray-3", images, extra: { ...extra } }, (note) => notes.push(note));
  expect(await send({ image_strength: 0.5 })).toMatchObject({ imageUrl: images[0], image_strength: 0.5 });
  expect(notes).toEqual([]);
  expect(await send({ image_url: "x" })).toEqual({ prompt: "a fox", model: "ray-3", image_url: "x" });
  expect(notes).toEqual(["images is not sent: the field image_url says what the source image is."]);
});
