import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createWorld, failure, isStart, type World } from "../vidgen.ts";
import { connectAgent } from "./agent.ts";

// Starts that meet something else: other calls, a budget, a cancellation, a bug.

const fox = { prompt: "a red fox" };
const starts = (world: World) => world.requests.filter(isStart).length;

test("calls at the same time keep to the budget together", async () => {
  const world = await createWorld();
  world.env.VIDGEN_MCP_MAX_CREDITS = "25";
  const { call, leave } = await connectAgent(world);
  await Promise.all(["one", "two", "three", "four"].map((prompt) => call("generate_video", { prompt })));
  expect(starts(world)).toBe(2);
  await leave();
});

test.each([
  ["does not fall", 0],
  ["rises", 500],
])("a budget stops after a start at which the balance %s", async (_, earned) => {
  const world = await createWorld();
  world.env.VIDGEN_MCP_MAX_CREDITS = "50";
  const { call, leave } = await connectAgent(world);
  let balance = 1000;
  world.faults.push((request) => {
    if (!isStart(request)) return undefined;
    balance += earned;
    const data = { id: `gen-${starts(world)}`, status: "processing" };
    return Response.json({ success: true, data, remaining_credits: balance });
  });
  const answers = [];
  for (const prompt of ["one", "two", "three", "four"]) answers.push(await call("generate_video", { prompt }));
  // Of the first one nobody has told what was there before.
  expect(answers.map(({ value }) => value.code)).toEqual([undefined, undefined, "credits", "credits"]);
  expect(starts(world)).toBe(2);
  await leave();
});

test.each(["beyond the budget", "cancelled in the queue"])(
  "again: true %s leaves an unknown outcome unknown",
  async (way) => {
    const world = await createWorld();
    if (way === "beyond the budget") world.env.VIDGEN_MCP_MAX_CREDITS = "25";
    const { call, leave } = await connectAgent(world);
    const controller = new AbortController();
    let onOut = () => {};
    const isOut = new Promise<void>((resolve) => {
      onOut = resolve;
    });
    world.faults.push(async (request) => {
      if (!isStart(request)) return undefined;
      onOut();
      await world.io.sleep(1000);
      throw failure("ECONNRESET", true);
    });
    const first = call("generate_video", fox);
    // Of two calls at once, either may be taken up first.
    await isOut;
    const again = call(
      "generate_video",
      { ...fox, again: true, request_key: "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001" },
      { signal: controller.signal },
    );
    await world.io.sleep(500);
    if (way === "cancelled in the queue") controller.abort();
    const [, second] = await Promise.allSettled([first, again]);
    if (second.status === "fulfilled") expect(second.value.value).toMatchObject({ code: "credits" });
    for (const answer of [await first, await call("generate_video", fox)])
      expect(answer.value).toMatchObject({ code: "unknown" });
    expect(starts(world)).toBe(1);
    await leave();
  },
);

test("a call that is cancelled while its start is written down sends nothing", async () => {
  const world = await createWorld();
  const controller = new AbortController();
  let isBeginning = false;
  const date = () => {
    if (isBeginning && existsSync(join(world.home, "journal.jsonl.lock"))) controller.abort();
    return world.io.date();
  };
  const { call, leave } = await connectAgent({ ...world, io: { ...world.io, date } });
  await call("generate_video", fox);
  isBeginning = true;
  await expect(call("generate_video", { prompt: "a hen" }, { signal: controller.signal })).rejects.toThrow();
  expect((await call("generate_video", fox)).value).toMatchObject({ resumed: true });
  expect(starts(world)).toBe(1);
  expect((await call("list_videos")).value).toMatchObject({ videos: [{ prompt: "a hen", status: "unsent" }, {}] });
  await leave();
});

test.each([true, false])("a bug may have been charged when a start request is out: %s", async (isOut) => {
  const world = await createWorld();
  const date = () => {
    throw new TypeError("broken");
  };
  const { call, leave } = await connectAgent({ ...world, io: { ...world.io, date } });
  if (isOut) world.io.unsettled.add("attempt");
  expect((await call("generate_video", fox)).value).toMatchObject({ code: "bug", may_have_been_charged: isOut });
  await leave();
});

test("calls at the same time open the local service once", async () => {
  const world = await createWorld();
  const { call, leave, printed } = await connectAgent(world, "--local");
  const answers = await Promise.all(["a", "b", "c"].map((id) => call("get_video", { id })));
  expect(answers.map(({ value }) => value.code)).toEqual(["not_found", "not_found", "not_found"]);
  expect([await leave(), printed.stderr]).toEqual([0, ""]);
});

test("vidgen mcp --max-cost: the first start of each kind runs alone, and a session costs no more", async () => {
  const world = await createWorld();
  world.faults.push((request) => {
    const id = new URL(request.url).searchParams.get("id");
    if (id === null) return undefined;
    return Response.json({ id, status: "completed", video_url: "https://media.video.example/1.mp4", cost: 0.4 });
  });
  const { call, leave } = await connectAgent(world, "--max-cost", "1");
  const first = await call("generate_video", fox);
  expect((await call("generate_video", { prompt: "two" })).value).toMatchObject({
    code: "pending",
    message: expect.stringContaining("Nothing was sent"),
  });
  await call("get_video", { id: first.value.id });
  expect((await call("generate_video", { prompt: "two" })).value).toMatchObject({ resumed: false });
  expect((await call("generate_video", { prompt: "three" })).value).toMatchObject({ code: "credits" });
  expect((await call("generate_video", { prompt: "two" })).value).toMatchObject({ resumed: true });
  expect(starts(world)).toBe(2);
  await leave();
});

test("vidgen mcp --max-credits is used in place of the variable", async () => {
  const world = await createWorld();
  world.env.VIDGEN_MCP_MAX_CREDITS = "100";
  const { call, leave } = await connectAgent(world, "--max-credits", "15");
  for (const prompt of ["one", "two"]) await call("generate_video", { prompt });
  expect(starts(world)).toBe(1);
  await leave();
});

test.each([
  ["prompt.txt", "Pass the text of this file as the prompt"],
  ["@prompt.txt", "Pass the text of this file as the prompt"],
  ["fox.png", "Pass it in images"],
  ["fox.mov", "Pass it in from"],
  ["https://example.com/fox.jpg", "Pass it in images"],
  ["C:\\Users\\mia\\fox.png", "Pass it in images"],
  ["the @herro walks", "pass its images"],
  ["the @hero walks", "pass its images"],
])("the prompt %j is refused before anything is paid, and exactPrompt: true sends it", async (prompt, advice) => {
  const world = await createWorld();
  for (const name of ["prompt.txt", "fox.png", "fox.mov"]) writeFileSync(join(world.folder, name), "content");
  writeFileSync(join(world.folder, "vidgen.json"), JSON.stringify({ references: { hero: "fox.png" } }));
  const agent = { ...world, io: { ...world.io, cwd: world.folder } };
  const { call, leave } = await connectAgent(agent);
  const { id } = (await call("generate_video", fox)).value;
  for (const [tool, args] of [
    ["generate_video"],
    ["generate_video", { again: true, request_key: "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001" }],
    ["repeat_video", { id }],
  ] as const)
    expect((await call(tool, { prompt, ...args })).text).toMatch(
      new RegExp(`"code":"usage".*Nothing was sent\\..*${advice}.*exactPrompt: true`),
    );
  expect(starts(world)).toBe(1);
  expect((await call("generate_video", { prompt, exactPrompt: true })).value).toMatchObject({ resumed: false });
  // As an earlier version has started it: it is resumed.
  expect((await call("generate_video", { prompt })).value).toMatchObject({ resumed: true });
  expect(starts(world)).toBe(2);
  await leave();
});

test("a prompt with the name of a file outside of the server's folder is not looked up", async () => {
  const world = await createWorld();
  writeFileSync(join(world.folder, "..", "prompt.txt"), "content");
  const { call, leave } = await connectAgent(world);
  for (const prompt of ["../prompt.txt", join(world.folder, "..", "prompt.txt"), "missing.txt", "a fox, prompt.txt"])
    expect((await call("generate_video", { prompt })).value).toMatchObject({ resumed: false });
  await leave();
});

test.each(["", " ", "null", "0"])("a limit of %j in the environment is refused by its name", async (limit) => {
  const world = await createWorld();
  world.env.VIDGEN_MCP_MAX_CREDITS = limit;
  expect(await world.vidgen("mcp")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("VIDGEN_MCP_MAX_CREDITS must be a whole number"),
  });
});
