import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tinyMp4 } from "../../../mp4.ts";
import { aPng } from "../../queue/pictures.ts";
import { apiKey, createTestService, filesIn, type ServiceOptions } from "../../service.ts";
import { ioFetch } from "./fakes/fake.ts";
import { createTestEngine, type EngineOptions } from "./run.ts";

// The engine of one `vidgen serve` that is another one, in one process. test/soak/chain.ts has both in processes that are killed.

const never = new AbortController().signal;

async function createChain(options: ServiceOptions = {}, engine: EngineOptions = {}) {
  const behind = await createTestService(options);
  const fetch = ioFetch({ fetch: (request) => behind.api(request) as Promise<Response> });
  const before = await createTestEngine(fetch, { key: apiKey, clock: behind.clock, ...engine });
  return { behind, before };
}

test("its kind is detected with its key", async () => {
  const { before } = await createChain();
  expect(await before.engine.check(never)).toBe("vidgen serve");
  const { before: wrong } = await createChain({}, { key: "wrong" });
  await expect(wrong.engine.check(never)).rejects.toMatchObject({ code: "auth" });
});

test("it makes the requested video once, and is asked to remove it afterwards", async () => {
  const { behind, before } = await createChain();
  const made = await before.make({ prompt: "an owl", extras: { seed: 5 } });
  expect(made).toMatchObject({ outcome: "made", video: Buffer.from(tinyMp4("an owl")) });
  const [generation, ...others] = await behind.store.list({ limit: 9 });
  expect(others).toEqual([]);
  expect(made.checkpoints).toEqual(["submitting", generation?.id]);
  expect(behind.rendered.map(({ request }) => request)).toMatchObject([
    { model: "wan-2.5", aspectRatio: "16:9", resolution: "720p", duration: 5, extras: { seed: 5 } },
  ]);
});

test("when the video is saved in the first service, the files in the second are removed", async () => {
  const { behind, before } = await createChain();
  const file = join(before.folder, "fox.mp4");
  const request = {
    prompt: "a fox",
    model: "wan-2.5",
    aspectRatio: "9:16",
    duration: 2.5,
    resolution: "480p" as const,
  };
  const outcome = await before.engine.render(
    { id: "1", request: { ...request, extras: {} }, images: [], file, thumbnail: `${file}.png` },
    { resume: undefined, signal: never, confirm() {}, progress() {}, checkpoint: async () => {} },
  );
  expect(behind.rendered[0]?.request).toMatchObject({ aspectRatio: "15:26", duration: 2.5, resolution: "480p" });
  if (outcome.kind === "made") await outcome.discard?.(never);
  expect(filesIn(behind.folder)).toEqual([]);
});

test("it gets several images", async () => {
  const { behind, before } = await createChain();
  const images = await Promise.all(
    [1, 2].map(async (size) => {
      const path = join(before.folder, `${size}.png`);
      await writeFile(path, aPng(size, size));
      return { path, format: "png" as const, megapixels: 0, name: "an image" };
    }),
  );
  expect((await before.make({ images })).outcome).toBe("made");
  expect(behind.rendered[0]?.images.map(({ format }) => format)).toEqual(["png", "png"]);
});

test.each([
  { what: "has no credits", options: { credits: 0 }, prompt: "a fox", says: /has no credits left for this video/ },
  { what: "refuses", options: {}, prompt: "a fox [credits:0]", says: /has no credits left for this video/ },
  { what: "fails", options: {}, prompt: "a fox [fail:too red]", says: /^too red$/ },
])("when the other one $what, so does it", async ({ options, prompt, says }) => {
  const { before } = await createChain(options);
  expect((await before.make({ prompt })).outcome).toMatch(says);
});

test("a job that is unclear there is unclear here, because an engine may have charged for it", async () => {
  const { before } = await createChain({ render: async () => ({ kind: "unclear", reason: "HTTP 502" }) });
  expect((await before.make()).outcome).toMatch(
    /^unclear: it is unclear whether fake generates this video \(HTTP 502\)/,
  );
});

test("a job is stopped there, and the credits are returned in both services", async () => {
  const { behind, before } = await createChain();
  const making = before.make();
  await behind.clock.sleep(5_000);
  const [generation] = await behind.store.list({ limit: 1 });
  expect(await before.engine.cancel?.(generation?.id ?? "", never)).toBe(true);
  expect(await behind.store.balance("local")).toBe(1_000);
  expect((await making).outcome).toMatch(/no longer knows this video's job/);
});

test("a job that is cancelled there fails like a lost job, not because of the request", async () => {
  const { behind, before } = await createChain();
  const checkpoint = async () => {};
  const id = await behind.startId({ model: "wan-2.5" });
  await behind.cancel(id);
  const task = { id: "1", images: [], file: "/none/0.mp4", thumbnail: "/none/0.png", request: {} as never };
  const resume = { state: "submitted", job: id } as const;
  await expect(
    before.engine.render(task, { resume, checkpoint, confirm() {}, progress() {}, signal: never }),
  ).rejects.toThrow("cancelled");
});
