import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import OpenAI, { APIError, NotFoundError } from "openai";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readPage } from "../../src/docs.ts";
import { spawnVidgen } from "../faults/spawned.ts";
import { aPng } from "../server/queue/pictures.ts";
import { type Announced, type Serving, serve } from "../soak/serve.ts";

// The built `vidgen serve`, as the client that others have written for OpenAI's Videos API sees it.

let home: string;
let serving: Serving;
let address: Announced;
let videos: OpenAI["videos"];
let models: OpenAI["models"];

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "vidgen-openai-"));
  serving = serve(home, "--port", "0", "--media-port", "0", "--credits", "500");
  address = await serving.started;
  ({ videos, models } = new OpenAI({ baseURL: `${address.base_url}/v1`, apiKey: address.api_key }));
});

afterAll(async () => {
  await serving.end("SIGTERM");
  await rm(home, { recursive: true, force: true });
});

const model = "sora-2";
const inKey = (key: string) => ({ headers: { "Idempotency-Key": key } });

async function poll(id: string): Promise<OpenAI.Video> {
  for (;;) {
    const video = await videos.retrieve(id);
    if (video.status === "completed" || video.status === "failed") return video;
    await sleep(100);
  }
}

test("the example of `vidgen help local-service` runs as it is pasted", async () => {
  const [, example = ""] = /```js\n([\s\S]*?)```/.exec(readPage("local-service").text) ?? [];
  const script = `${example}console.log(job.status, (await reply.text()).slice(4, 8));`;
  const env = { ...process.env, VIDGEN_BASE_URL: address.base_url, VIDGEN_API_KEY: address.api_key };
  const folder = fileURLToPath(new URL(".", import.meta.url));
  const argv = ["--input-type=module", "--eval", script];
  const { stdout } = await promisify(execFile)(process.execPath, argv, { cwd: folder, env });
  expect(stdout).toBe("completed ftyp\n");
});

test("creates, polls, lists, downloads and deletes a video", async () => {
  const created = await videos.create({ prompt: "a fox at dusk", model, seconds: "4", size: "1280x720" });
  expect(created).toMatchObject({ object: "video", model, seconds: "4", size: "1280x720", completed_at: null });
  expect(created).toMatchObject({ expires_at: null, remixed_from_video_id: null, error: null });
  expect(["queued", "in_progress"]).toContain(created.status);
  const ended = await poll(created.id);
  expect(ended).toMatchObject({ status: "completed", progress: 100, error: null });
  expect(Math.abs((ended.completed_at ?? 0) * 1_000 - Date.now())).toBeLessThan(30_000);
  const reply = await videos.downloadContent(created.id);
  const bytes = Buffer.from(await reply.arrayBuffer());
  expect([reply.headers.get("Content-Type"), bytes.toString("latin1", 4, 8)]).toEqual(["video/mp4", "ftyp"]);
  const part = await videos.downloadContent(created.id, {}, { headers: { Range: "bytes=4-7" } });
  expect([part.status, await part.text()]).toEqual([206, "ftyp"]);
  const picture = await videos.downloadContent(created.id, { variant: "thumbnail" });
  expect(picture.headers.get("Content-Type")).toBe("image/png");
  expect((await videos.list()).data.map(({ id }) => id)).toContain(created.id);
  expect(await videos.delete(created.id)).toEqual({ id: created.id, object: "video.deleted", deleted: true });
  await expect(videos.retrieve(created.id)).rejects.toBeInstanceOf(NotFoundError);
});

test("may name no model, and learns why a video failed", async () => {
  const { id, model: chosen } = await videos.create({ prompt: "a fox [fail:too red]" });
  expect(chosen).toBe("wan-2.5");
  expect(await poll(id)).toMatchObject({ status: "failed", error: { code: "failed", message: "too red" } });
  await expect(videos.downloadContent(id)).rejects.toMatchObject({ status: 404, code: "failed" });
  await expect(videos.downloadContent(id, { variant: "spritesheet" })).rejects.toMatchObject({ status: 400 });
});

test("pages through a list by itself", async () => {
  const ids: string[] = [];
  for (let index = 0; index < 5; index++)
    ids.unshift((await videos.create({ prompt: `owl ${index}`, model, seconds: "4" })).id);
  const found: string[] = [];
  for await (const { id } of videos.list({ limit: 2 })) found.push(id);
  expect(found.slice(0, 5)).toEqual(ids);
  const oldestFirst: string[] = [];
  for await (const { id } of videos.list({ limit: 2, order: "asc" })) oldestFirst.push(id);
  expect(oldestFirst).toEqual(found.toReversed());
});

test("makes its two larger sizes too, and finds a model", async () => {
  const portrait = await videos.create({ prompt: "a tower", model, size: "1024x1792" });
  expect(portrait.size).toBe("1080x1920");
  const landscape = await videos.create({ prompt: "a bridge", model, size: "1792x1024" });
  expect(landscape.size).toBe("1920x1080");
  expect(await models.retrieve(model)).toMatchObject({ id: model, object: "model" });
  await expect(models.retrieve("sora-9")).rejects.toBeInstanceOf(NotFoundError);
});

test("is told what is not offered, and is not charged for it", async () => {
  const { id } = await videos.create({ prompt: "a mill", model, seconds: "4" });
  const before = (await videos.list({ limit: 100 })).data.length;
  const video = { id };
  const asked = [
    videos.edit({ prompt: "at night", video }),
    videos.extend({ prompt: "at night", seconds: "4", video }),
    videos.createCharacter({ name: "fox", video: new File(["x"], "fox.mp4") }),
    videos.getCharacter("fox"),
    videos.remix(id, { prompt: "at night" }),
  ];
  for (const each of await Promise.allSettled(asked))
    expect(each).toMatchObject({ status: "rejected", reason: { status: 404, code: "not_offered" } });
  expect((await videos.list({ limit: 100 })).data.length).toBe(before);
});

test("sends no header for its option idempotencyKey: two creates with it are two videos", async () => {
  const options = { idempotencyKey: "one" };
  const fox = { prompt: "a fox", model, seconds: "4" as const };
  expect((await videos.create(fox, options)).id).not.toBe((await videos.create(fox, options)).id);
});

test("sends an image as a file, and as an address in an object", async () => {
  const input_reference = new File([aPng(64, 64)], "fox.png", { type: "image/png" });
  const { id } = await videos.create({ prompt: "a fox moves", model, seconds: "4", input_reference });
  expect(await poll(id)).toMatchObject({ status: "completed" });
  const image_url = `data:image/png;base64,${Buffer.from(aPng(64, 64)).toString("base64")}`;
  await videos.create({ prompt: "a fox moves", model, seconds: "4", input_reference: { image_url } });
});

test("a create that is sent again with its Idempotency-Key is paid once, also when its reply was cut", async () => {
  const before = (await videos.list({ limit: 100 })).data.length;
  const file = new File([aPng(8, 8)], "fox.png");
  const fox = { prompt: "a fox [cut]", model, seconds: "4" as const, input_reference: file };
  await expect(videos.create(fox, inKey("cut"))).rejects.toThrow("terminated");
  const { id } = await videos.create(fox, inKey("cut"));
  expect((await videos.create(fox, inKey("cut"))).id).toBe(id);
  const { data } = await videos.list({ limit: 100 });
  expect(data.length).toBe(before + 1);
});

test("reads an error as one of OpenAI's", async () => {
  const error: APIError = await videos
    .create({ prompt: "a fox", model, size: "1024x1536" as "1024x1792" })
    .catch((each) => each);
  expect(error).toBeInstanceOf(APIError);
  expect([error.status, error.code, error.type]).toEqual([400, "invalid_size", "invalid_request_error"]);
  expect(error.message).toContain("size must have a shorter side of 480, 720 or 1080");
  const { videos: theirs } = new OpenAI({ baseURL: `${address.base_url}/v1`, apiKey: "wrong" });
  await expect(theirs.list()).rejects.toMatchObject({ status: 401, type: "authentication_error" });
});

test("what it starts is seen by vidgen's own command, and the other way round", async () => {
  const env = { VIDGEN_BASE_URL: address.base_url, VIDGEN_API_KEY: address.api_key, VIDGEN_HOME: join(home, "client") };
  const vidgen = (...argv: string[]) => spawnVidgen(argv, env, home).ended;
  const { id } = await videos.create({ prompt: "a hare", model, seconds: "4" });
  await poll(id);
  const seen = await vidgen("status", id, "--json");
  expect(JSON.parse(seen.stdout)).toMatchObject({ id, status: "completed" });
  const ours = await vidgen("generate", "a wolf", "--model", model, "--duration", "4", "--json");
  expect(await videos.retrieve(JSON.parse(ours.stdout).id)).toMatchObject({ prompt: "a wolf", status: "completed" });
});
