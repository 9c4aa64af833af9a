import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeFolder } from "../../../folder.ts";
import { faultsOf, read } from "./read.ts";

const png = Buffer.from("89504e470d0a1a0a0000000d49484452", "hex");

test("a local image is in the record as a hash, and is read again when the row is started", async () => {
  const path = join(makeFolder(), "fox.png");
  await writeFile(path, png);
  const { rows, notes } = await read(`prompt,imageUrl\na,${path}\nb,${path}\n`);
  expect(notes).toEqual(["Local images are sent as data: URLs; not every service accepts that."]);
  const hash = rows[0]?.record.imageUrl;
  expect(hash).toMatch(/^sha256:/);
  expect(rows.map(({ record }) => record.imageUrl)).toEqual([hash, hash]);
  expect(await rows[1]?.load()).toEqual({
    prompt: "b",
    model: "wan-2.5",
    imageUrl: `data:image/png;base64,${png.toString("base64")}`,
  });
  await writeFile(path, Buffer.concat([png, png]));
  await expect(rows[1]?.load()).rejects.toThrow(
    "An image of line 3 has changed since it was checked; this row was not sent.",
  );
});

test("several images are counted and recorded in their order", async () => {
  const path = join(makeFolder(), "fox.png");
  await writeFile(path, png);
  const imageUrl = ["https://images.example/1.png", path];
  const row = { prompt: "a", model: "kling-1.6-elements", imageUrl };
  const { rows } = await read(JSON.stringify(row), { format: "jsonl" });
  expect(rows[0]?.record.imageUrls).toEqual([imageUrl[0], expect.stringMatching(/^sha256:/)]);
  expect((await rows[0]?.load())?.imageUrls).toEqual([imageUrl[0], expect.stringMatching(/^data:image\/png/)]);
});

test("an image that cannot be used is a fault with its line, and one of -i is reported once", async () => {
  const folder = makeFolder();
  const faults = await faultsOf(
    read(`prompt,image_url\na,${folder}\nb,\nc,\nd,https://\n`, { images: { imageUrl: ["no.png"] } }),
  );
  expect(faults).toEqual([
    expect.stringMatching(/^--image: .*no\.png/),
    expect.stringMatching(/^line 2, column 2 \(image_url\): .*vidgen-test-/),
    'line 5, column 2 (image_url): must be an http(s) URL, not "https://": the service itself fetches it',
  ]);
});
