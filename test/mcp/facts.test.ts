import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { aPng } from "../server/queue/pictures.ts";
import { createWorld, isStart, mediaUrl, onStart, type World } from "../vidgen.ts";
import { connectAgent } from "./agent.ts";

// What the tools tell beside ids and states: prices, warnings, pictures.

type Listed = { models: Record<string, unknown>[]; note: string } & Record<string, unknown>;

/** A service that states no prices before a start, and answers a start with `fields`. */
function stateAtStarts(world: World, fields: object): void {
  world.faults.push(async (request) => {
    if (new URL(request.url).pathname === "/v1/models") return Response.json({}, { status: 404 });
    if (!isStart(request)) return undefined;
    return Response.json({ ...((await world.start(request)) as object), ...fields });
  });
}

test("list_models has the prices that a `vidgen serve` states, lengths and ratios", async () => {
  const world = await createWorld();
  const { call, leave } = await connectAgent(world);
  const listed = (await call("list_models")).value as Listed;
  expect(listed.models[0]).toMatchObject({ id: "sora-2", credits: 10, cost: null, prices: [] });
  expect(listed).toMatchObject({ aspect_ratios: expect.arrayContaining(["16:9", "9:16"]), max_seconds: null });
  await leave();
});

test("list_models has what the service stated for earlier videos, and null where nothing is known", async () => {
  const world = await createWorld();
  stateAtStarts(world, { credits_charged: 7, remaining_credits: 90 });
  const { call, leave } = await connectAgent(world);
  await call("generate_video", { prompt: "a fox", model: "ray-3", duration: 8 });
  const { models } = (await call("list_models")).value as Listed;
  expect(models.find(({ id }) => id === "ray-3")).toMatchObject({
    credits: 7,
    prices: [{ duration: 8, credits: 7, at: expect.any(String) }],
  });
  expect(models.find(({ id }) => id === "sora-2")).toMatchObject({ credits: null, cost: null, prices: [] });
  await leave();
});

test("list_models has what a video of a length and a resolution costs, by the service's list or by earlier videos", async () => {
  const world = await createWorld();
  const { call, leave } = await connectAgent(world);
  const priceOf = async (fields: object) => {
    const { models } = (await call("list_models", { ...fields })).value as Listed;
    return models.find(({ id }) => id === "ray-3");
  };
  expect(await priceOf({ duration: 8, resolution: "1080p" })).toMatchObject({
    credits: 10,
    cost: null,
    cost_source: null,
  });
  stateAtStarts(world, { credits_charged: 7, remaining_credits: 90 });
  await call("generate_video", { prompt: "a fox", model: "ray-3", duration: 8 });
  expect(await priceOf({ duration: 8 })).toMatchObject({ credits: 7 });
  expect(await priceOf({ duration: 4 })).toMatchObject({ credits: null });
  await leave();
});

test("list_models with --local: previews have a longest length and no price", async () => {
  const world = await createWorld();
  const { call, leave } = await connectAgent(world, "--local");
  const listed = (await call("list_models")).value as Listed;
  expect(listed).toMatchObject({ max_seconds: 60, note: expect.stringContaining("free") });
  expect(listed.models[0]).toMatchObject({ credits: null, cost: null });
  expect(world.requests, "no other service is asked").toEqual([]);
  await leave();
});

test("a probable mistake in a request is in the answer, and names tools", async () => {
  const world = await createWorld();
  const { call, leave } = await connectAgent(world);
  // This service knows its models, and refuses others.
  const refused = (await call("generate_video", { prompt: "a fox", model: "veo3" })).value;
  expect(refused).toMatchObject({
    code: "rejected",
    hint: expect.stringMatching(/did you mean veo-3.1\?.*list_models/),
  });
  expect(refused.hint).not.toContain("vidgen ");
  const data = { id: "gen-1", status: "processing" };
  world.faults.push(onStart(() => Response.json({ success: true, data, remaining_credits: 990 }), 1));
  const { value } = await call("generate_video", { prompt: "a fox", model: "veo3" });
  expect(value.warnings).toEqual(['Unknown model "veo3"; did you mean veo-3.1? Sent as given.']);
  expect(value.note).toMatch(/list_models.*cancel_video/);
  // Also for the call that is repeated because its answer was lost.
  expect((await call("generate_video", { prompt: "a fox", model: "veo3" })).value).toMatchObject({
    resumed: true,
    warnings: value.warnings,
  });
  expect((await call("generate_video", { prompt: "a fox" })).value.warnings).toEqual([]);
  writeFileSync(join(world.folder, "fox.png"), aPng(2, 2));
  expect((await call("generate_video", { prompt: "a hen", images: ["fox.png"] })).value.warnings).toEqual([
    expect.stringContaining("sent as a data: URL"),
  ]);
  await leave();
});

/** An agent whose service answers for thumbnails with `answer`; returns the images of get_video for a completed video. */
async function readPictures(answer: (world: World) => Response | Promise<Response>) {
  const world = await createWorld({ renderMs: 1000 });
  world.faults.push(({ url }) => (url.startsWith(mediaUrl) && url.endsWith(".png") ? answer(world) : undefined));
  const { client, call, leave } = await connectAgent(world);
  const { id } = (await call("generate_video", { prompt: "a fox" })).value;
  const result = await client.callTool({ name: "get_video", arguments: { id, wait_seconds: 50 } });
  await leave();
  expect(result.structuredContent).toMatchObject({ status: "completed" });
  const requests = world.requests.filter(({ url }) => url.endsWith(".png"));
  for (const { headers } of requests) expect(headers.get("Authorization")).toBeNull();
  const content = result.content as { type: string }[];
  return { images: content.filter(({ type }) => type === "image"), requests: requests.length };
}

test("list_videos has the first 200 characters of a prompt", async () => {
  const world = await createWorld();
  const { call, leave } = await connectAgent(world);
  await call("generate_video", { prompt: "fox ".repeat(1_000) });
  const { videos } = (await call("list_videos")).value as { videos: { prompt: string }[] };
  expect(videos[0]?.prompt).toBe(`${"fox ".repeat(50)}…`);
  await leave();
});

test("get_video of a completed video has its thumbnail as an image", async () => {
  const png = aPng(2, 2);
  const { images, requests } = await readPictures(() => new Response(png));
  expect(images).toEqual([{ type: "image", mimeType: "image/png", data: Buffer.from(png).toString("base64") }]);
  expect(requests).toBe(1);
});

test.each<[string, (world: World) => Response | Promise<Response>]>([
  ["is missing", () => new Response(aPng(2, 2), { status: 404 })],
  ["is no image", () => new Response("a picture")],
  ["is too large", () => new Response(Buffer.concat([aPng(2, 2), Buffer.alloc(600_000)]))],
  ["breaks off", () => Promise.reject(new Error("reset"))],
  ["takes a minute", ({ io }) => io.sleep(60_000).then(() => new Response(aPng(2, 2)))],
])("a thumbnail that %s fails nothing", async (_, answer) => {
  expect((await readPictures(answer)).images).toEqual([]);
});

test("the service's warnings about a request are in the answer", async () => {
  const world = await createWorld();
  stateAtStarts(world, { warnings: ["imageUrl is null: the video is made without it."] });
  const { call, leave } = await connectAgent(world);
  const { warnings } = (await call("generate_video", { prompt: "a fox" })).value;
  expect(warnings).toEqual(["imageUrl is null: the video is made without it."]);
  await leave();
});
