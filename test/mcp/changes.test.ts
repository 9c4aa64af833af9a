import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { baseUrl, createWorld, mediaUrl, onStart, type World } from "../vidgen.ts";
import { connectAgent } from "./agent.ts";

// Tools that end or delete what an agent has started, and nothing else.

const fox = { prompt: "a red fox" };
const sent = (world: World, method: string, path: string) =>
  world.requests.filter((request) => request.method === method && request.url.startsWith(baseUrl + path)).length;
const cancels = (world: World) => sent(world, "POST", "/api/cancel");
const deletes = (world: World) => sent(world, "DELETE", "/v1/videos/");

/** An agent with a video that has ended. */
async function withVideo() {
  const world = await createWorld({ renderMs: 1000 });
  const agent = await connectAgent(world);
  const { id } = (await agent.call("generate_video", fox)).value;
  await agent.call("get_video", { id, wait_seconds: 50 });
  return { world, id, ...agent };
}

test("cancel_video stops what an agent started, and the second time says so", async () => {
  const world = await createWorld();
  const { call, leave } = await connectAgent(world);
  const { id } = (await call("generate_video", fox)).value;
  expect((await call("cancel_video", { id })).value).toMatchObject({ id, status: "failed", credits_returned: 10 });
  expect((await call("get_video", { id })).value).toMatchObject({ status: "failed", error: "cancelled" });
  const again = (await call("cancel_video", { id })).value;
  expect(again).toMatchObject({ status: "failed", note: expect.stringContaining("already cancelled") });
  expect((await call("list_videos")).value).toMatchObject({ videos: [{ id, status: "failed" }] });
  await leave();
});

test("cancel_video leaves a completed video alone, and names the tool that shows it", async () => {
  const { world, id, call, leave } = await withVideo();
  const error = (await call("cancel_video", { id })).value;
  expect(error).toMatchObject({ code: "rejected", id, hint: expect.stringContaining("get_video") });
  expect(error.hint).not.toContain("vidgen ");
  expect((await call("get_video", { id })).value).toMatchObject({ status: "completed" });
  expect(cancels(world)).toBe(1);
  await leave();
});

test("what a person started, or nobody here, is neither cancelled nor deleted", async () => {
  const world = await createWorld();
  const id = (await world.vidgen("generate", "a hen", "--no-wait")).stdout.trim();
  const { call, leave } = await connectAgent(world);
  for (const [tool, done] of [
    ["cancel_video", "Nothing was cancelled"],
    ["delete_video", "Nothing was deleted"],
  ] as const) {
    const message = expect.stringContaining(done);
    expect((await call(tool, { id })).value).toMatchObject({ code: "usage", message });
    expect((await call(tool, { id: "unheard-of" })).value).toMatchObject({ code: "not_found", message });
  }
  expect([cancels(world), deletes(world)]).toEqual([0, 0]);
  await leave();
});

test("delete_video deletes the video at the service, and says whether it was ever saved", async () => {
  const { world, id, call, leave } = await withVideo();
  const unsaved = (await call("delete_video", { id })).value;
  expect(unsaved).toMatchObject({ id, deleted: true, was_there: true, file: null });
  expect(unsaved.note).toContain("never saved");
  expect((await call("delete_video", { id })).value).toMatchObject({ deleted: true, was_there: false });
  expect((await call("list_videos")).value).toMatchObject({ videos: [{ id, status: "deleted" }] });
  // Also right after its start, when a service may not know a new id yet.
  expect((await call("get_video", { id })).value).toMatchObject({
    code: "not_found",
    message: expect.stringContaining("was deleted"),
  });
  const other = (await call("generate_video", { prompt: "a hen" })).value.id;
  const file = join(world.folder, "hen.mp4");
  await call("save_video", { id: other, path: "hen.mp4" });
  const saved = (await call("delete_video", { id: other })).value;
  expect(saved).toMatchObject({ deleted: true, file, note: expect.not.stringContaining("never") });
  expect(existsSync(file)).toBe(true);
  await leave();
});

test("delete_video refuses a running video, an unclear one, and one that is being saved", async () => {
  const world = await createWorld();
  const { call, leave } = await connectAgent(world);
  const { id } = (await call("generate_video", fox)).value;
  expect((await call("delete_video", { id })).value).toMatchObject({
    code: "usage",
    message: expect.stringContaining("still running"),
    hint: "cancel_video stops it.",
  });
  await call("get_video", { id, wait_seconds: 50 });
  let isSaving = () => {};
  const saving = new Promise<void>((resolve) => {
    isSaving = resolve;
  });
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  world.faults.push(async ({ url }) => {
    if (url.startsWith(mediaUrl) && url.endsWith(".mp4")) {
      isSaving();
      await released;
    }
    return undefined;
  });
  const save = call("save_video", { id });
  await saving;
  expect((await call("delete_video", { id })).value).toMatchObject({
    code: "usage",
    message: expect.stringContaining("saving"),
  });
  release();
  expect((await save).value).toMatchObject({ status: "completed" });
  const reply = { success: true, data: { id: "unclear-1", status: "processing" } };
  world.faults.push(onStart(() => Response.json(reply), 1));
  await call("generate_video", { prompt: "a hen" });
  world.faults.push(({ url }) =>
    url.includes("unclear-1")
      ? Response.json({ id: "unclear-1", status: "failed", error: "no usable answer", error_code: "unclear" })
      : undefined,
  );
  const unclear = (await call("delete_video", { id: "unclear-1" })).value;
  expect(unclear).toMatchObject({ code: "usage", hint: expect.stringContaining("Only the user") });
  expect(deletes(world)).toBe(0);
  await leave();
});
