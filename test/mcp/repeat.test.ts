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
  expect(
    (await call("repeat_video", { id, again: true, request_key: "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001" })).value
      .resumed,
  ).toBe(false);
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

const key = "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001";

test.each([{}, { request_key: null }, { request_key: "" }])("again: true with %j needs a request_key", async (args) => {
  const world = await createWorld();
  const { call, leave } = await connectAgent(world);
  expect((await call("generate_video", { prompt: "a red fox", again: true, ...args })).value).toMatchObject({
    code: "usage",
    message: "again: true needs a request_key. Nothing was sent.",
  });
  expect((await call("generate_video", { prompt: "a red fox", again: true, request_key: "short" })).isError).toBe(true);
  expect(bodies(world)).toEqual([]);
  await leave();
});

test("again: true pays once for each request_key, in whichever session it is repeated", async () => {
  const world = await createWorld();
  const fox = { prompt: "a red fox" };
  const first = await connectAgent(world);
  const plain = (await first.call("generate_video", fox)).value;
  const again = { ...fox, again: true, request_key: key };
  const { id, resumed } = (await first.call("generate_video", again)).value;
  expect([id === plain.id, resumed]).toEqual([false, false]);
  await first.leave();
  const second = await connectAgent(world.reboot());
  for (const args of [again, { ...fox, request_key: key }])
    expect((await second.call("generate_video", args)).value).toMatchObject({ id, resumed: true });
  expect((await second.call("generate_video", { ...again, prompt: "a hen" })).value).toMatchObject({ code: "usage" });
  expect(bodies(world)).toHaveLength(2);
  // Without `again` a new key starts nothing that the arguments have started.
  const other = { request_key: key.replace("1", "2") };
  expect((await second.call("generate_video", { ...fox, ...other })).value).toMatchObject({ resumed: true });
  expect(bodies(world)).toHaveLength(2);
  await second.leave();
});

test("after a start with a request_key that may have been charged, neither the same call nor one without again sends anything", async () => {
  const world = await createWorld();
  const { call, leave } = await connectAgent(world);
  world.faults.push(
    onStart(() => {
      throw failure("ECONNRESET", true);
    }),
  );
  const fox = { prompt: "a red fox" };
  const again = { ...fox, again: true, request_key: key };
  for (const args of [again, again, fox, { ...fox, request_key: key }])
    expect((await call("generate_video", args)).value).toMatchObject({ code: "unknown", may_have_been_charged: true });
  expect(bodies(world)).toHaveLength(1);
  await leave();
});

test("a request_key that was used at another service only finds what the arguments find here", async () => {
  const world = await createWorld();
  const fox = { prompt: "a red fox" };
  const here = await connectAgent(world);
  await here.call("generate_video", { ...fox, again: true, request_key: key });
  await here.leave();
  const elsewhere = await connectAgent(world.reboot(), "--base-url", "https://api.video.example:8443");
  const { id, resumed } = (await elsewhere.call("generate_video", fox)).value;
  expect(resumed).toBe(false);
  expect((await elsewhere.call("generate_video", { ...fox, request_key: key })).value).toMatchObject({
    id,
    resumed: true,
  });
  expect(bodies(world)).toHaveLength(2);
  await elsewhere.leave();
});
