import { expect, test } from "vitest";
import { createWorld, failure, isStart, onStart, type World } from "../vidgen.ts";
import { connectAgent } from "./agent.ts";

const bodies = (world: World) => world.requests.filter(isStart).map(({ body }) => JSON.parse(body));

test("repeat_video starts the same request with changes, once for the same call", async () => {
  const world = await createWorld();
  const { call, leave } = await connectAgent(world);
  const fox = { prompt: "a red fox", aspectRatio: "16:9", seed: 3 };
  const { id } = (await call("generate_video", fox)).value;
  const first = (await call("repeat_video", { id, aspectRatio: "9:16" })).value;
  const second = (await call("repeat_video", { id, aspectRatio: "9:16" })).value;
  expect([first.resumed, second.resumed, second.id]).toEqual([false, true, first.id]);
  expect((await call("repeat_video", { id })).value.resumed).toBe(false);
  expect((await call("repeat_video", { id, again: true })).value.resumed).toBe(false);
  const body = { ...fox, model: "wan-2.5" };
  expect(bodies(world)).toEqual([body, { ...body, aspectRatio: "9:16" }, body, body]);
  await leave();
});

test("repeat_video sends nothing after its request was cut, nor for an id that nobody here has started", async () => {
  const world = await createWorld();
  const { call, leave } = await connectAgent(world);
  const { id } = (await call("generate_video", { prompt: "a red fox" })).value;
  world.faults.push(
    onStart(() => {
      throw failure("ECONNRESET", true);
    }),
  );
  for (let calls = 0; calls < 2; calls++)
    expect((await call("repeat_video", { id })).value).toMatchObject({ code: "unknown" });
  expect((await call("repeat_video", { id: "unheard-of" })).value).toMatchObject({ code: "not_found" });
  expect(bodies(world)).toHaveLength(2);
  await leave();
});

test("from takes a generation or a video inside the folder, and no images beside it", async () => {
  const world = await createWorld();
  const { call, leave } = await connectAgent(world);
  const wolf = { prompt: "a wolf" };
  const images = ["https://x.example/1.png"];
  expect((await call("generate_video", { ...wolf, from: "fox.mp4", images })).value).toMatchObject({ code: "usage" });
  expect((await call("generate_video", { ...wolf, from: "/etc/hostname" })).value).toMatchObject({ code: "usage" });
  const { id } = (await call("generate_video", { prompt: "a red fox" })).value;
  const error = (await call("generate_video", { ...wolf, from: id })).value;
  expect(error).toMatchObject({ code: "usage", message: expect.stringContaining("needs ffmpeg") });
  expect(bodies(world)).toHaveLength(1);
  await leave();
});
