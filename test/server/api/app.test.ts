import { expect, onTestFinished, test } from "vitest";

import { hashKey } from "../../../src/server/api/accounts.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/server/store/store.ts";

import { aPng, pngOf } from "../queue/pictures.ts";
import {
  apiKey,
  baseUrl,
  bearer,
  createTestService,
  fakeEngine,
  mediaUrl,
  otherKey,
  readError,
  readStart,
  startRequest,
  type TestService,
} from "../service.ts";
import { errorCode, open, say } from "./wire.ts";

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const timestamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const url = "https://images.example/a.png";
const unknownId = "00000000-0000-4000-8000-000000000000";
const dataUrl = (bytes: Uint8Array) => `data:image/png;base64,${Buffer.from(bytes).toString("base64")}`;
const statusPath = "/api/generation-status";

test("a start is answered with the documented envelope and nothing else", async () => {
  const service = await createTestService();
  const response = await service.start({ prompt: "a fox", model: "veo-3.1" });
  expect(response.status).toBe(200);
  expect(response.headers.get("Content-Type")).toBe("application/json");
  expect(await response.json()).toStrictEqual({
    success: true,
    data: {
      id: expect.stringMatching(uuid),
      status: "processing",
      model: "veo-3.1",
      prompt: "a fox",
      created_at: expect.stringMatching(timestamp),
    },
    credits_charged: 10,
    remaining_credits: 990,
  });
});

test("the status of an id that does not exist has the balance, so that a client can check its key", async () => {
  const service = await createTestService();
  await service.start();
  const missing = await service.status(unknownId);
  expect([missing.status, missing.headers.get("Remaining-Credits")]).toEqual([404, "990"]);
});

test("while a generation is processing, both links are null", async () => {
  const service = await createTestService();
  const { id, created_at } = (await readStart(await service.start())).data;
  const response = await service.status(id);
  expect(response.status).toBe(200);
  expect(await response.json()).toStrictEqual({
    id,
    created_at,
    status: "processing",
    video_url: null,
    thumbnail_url: null,
  });
});

test("a completed generation has a link under the media address", async () => {
  const service = await createTestService();
  const { id, created_at } = (await readStart(await service.start())).data;
  await service.rest();
  expect(await (await service.status(id)).json()).toStrictEqual({
    id,
    created_at,
    status: "completed",
    video_url: `${mediaUrl}/${id}.mp4`,
    thumbnail_url: `${mediaUrl}/${id}.png`,
  });
});

test("a failed generation has an error that says why", async () => {
  const service = await createTestService();
  const { id, created_at } = (await readStart(await service.start({ prompt: "a fox [fail]" }))).data;
  await service.rest();
  expect(await (await service.status(id)).json()).toStrictEqual({
    id,
    created_at,
    status: "failed",
    video_url: null,
    thumbnail_url: null,
    error: "the model run did not succeed (asked for by the prompt)",
    hint: "Try another prompt or model.",
  });
});

test("each start costs credits, and is refused without enough credits", async () => {
  const service = await createTestService({ credits: 25 });
  expect(await readStart(await service.start())).toMatchObject({ remaining_credits: 15 });
  expect(await readStart(await service.start())).toMatchObject({ remaining_credits: 5 });
  const refused = await service.start();
  expect(refused.status).toBe(402);
  expect((await readError(refused)).message).toContain("credits");
  await service.rest(3);
  expect(service.rendered).toHaveLength(2);
});

test("the last credits can be spent", async () => {
  const service = await createTestService({ credits: 10 });
  expect(await readStart(await service.start())).toMatchObject({ remaining_credits: 0 });
});

test("a refused start takes no credits", async () => {
  const service = await createTestService({ credits: 20 });
  for (const fields of [{ model: "nope" }, { prompt: "" }, { model: "kling-1.6-elements" }]) {
    expect((await service.start(fields)).status).toBe(400);
  }
  expect((await service.start({}, { "Content-Type": "text/plain" })).status).toBe(415);
  expect(await readStart(await service.start())).toMatchObject({ remaining_credits: 10 });
});

test("a failed generation gives no credits back", async () => {
  const service = await createTestService({ credits: 30 });
  await service.start({ prompt: "[fail]" });
  await service.rest();
  expect(await readStart(await service.start())).toMatchObject({ remaining_credits: 10 });
});

const sevenModels = ["sora-2", "veo-3.1", "kling-2.6", "wan-2.5", "ray-3", "seedance", "minimax"];

test.each(sevenModels)("takes %s", async (model) => {
  const service = await createTestService();
  expect(await readStart(await service.start({ model }))).toMatchObject({ success: true, data: { model } });
});

test.each([
  { images: 0, status: 400 },
  { images: 1, status: 400 },
  { images: 2, status: 200 },
  { images: 3, status: 200 },
  { images: 4, status: 200 },
  { images: 5, status: 400 },
])("kling-1.6-elements with $images images: $status", async ({ images, status }) => {
  const service = await createTestService();
  const response = await service.start({ model: "kling-1.6-elements", imageUrls: Array(images).fill(url) });
  expect(response.status).toBe(status);
  if (status === 400) expect((await readError(response)).message).toMatch(/imageUrls, not \d/);
});

test.each([
  {
    what: "an unknown model",
    fields: { model: "sora-9" },
    says: `model must be one of ${[...sevenModels.slice(0, 3), "kling-1.6-elements", ...sevenModels.slice(3)].join(", ")}; whoever runs the service adds others with \`vidgen serve --engine\``,
  },
  { what: "no model", fields: { model: undefined }, says: "model is missing" },
  { what: "no prompt", fields: { prompt: undefined }, says: "prompt is missing" },
  { what: "an empty prompt", fields: { prompt: "" }, says: "prompt must not be empty" },
  { what: "a blank prompt", fields: { prompt: " \n\t" }, says: "prompt must not be empty" },
  { what: "a prompt that is a number", fields: { prompt: 5 }, says: "prompt must be a string" },
  { what: "a prompt that is null", fields: { prompt: null }, says: "prompt is missing" },
  { what: "the ratio 16x9", fields: { aspectRatio: "16x9" }, says: 'aspectRatio must be a ratio such as "16:9"' },
  { what: "the ratio :", fields: { aspectRatio: ":" }, says: 'aspectRatio must be a ratio such as "16:9"' },
  { what: "the ratio 16:9:1", fields: { aspectRatio: "16:9:1" }, says: 'aspectRatio must be a ratio such as "16:9"' },
  { what: "the ratio 0:9", fields: { aspectRatio: "0:9" }, says: "aspectRatio must be between 1:4 and 4:1" },
  { what: "the ratio 1:100", fields: { aspectRatio: "1:100" }, says: "aspectRatio must be between 1:4 and 4:1" },
  { what: "the ratio 5:1", fields: { aspectRatio: "5:1" }, says: "aspectRatio must be between 1:4 and 4:1" },
  { what: "a ratio that is a number", fields: { aspectRatio: 1.5 }, says: "aspectRatio must be a string" },
  { what: "the duration true", fields: { duration: true }, says: "duration must be a number of seconds" },
  { what: "the duration abc", fields: { duration: "abc" }, says: "duration must be a number of seconds" },
  { what: "the duration -1", fields: { duration: -1 }, says: "duration must be more than 0 and at most 60 seconds" },
  { what: "the duration 0", fields: { duration: 0 }, says: "duration must be more than 0 and at most 60 seconds" },
  { what: "the duration 61", fields: { duration: 61 }, says: "duration must be more than 0 and at most 60 seconds" },
  {
    what: "the duration '61'",
    fields: { duration: "61" },
    says: "duration must be more than 0 and at most 60 seconds",
  },
  { what: "the resolution 8k", fields: { resolution: "8k" }, says: "resolution must be 480p, 720p or 1080p" },
  { what: "an image that is a number", fields: { imageUrl: 5 }, says: "imageUrl must be a string" },
  { what: "an image by ftp", fields: { imageUrl: "ftp://x" }, says: "imageUrl must be an http(s) or data: address" },
  { what: "images that are a text", fields: { imageUrls: url }, says: "imageUrls must be an array" },
  { what: "a bad image among good ones", fields: { imageUrls: [url, 5] }, says: "imageUrls.1 must be a string" },
  { what: "a callback by ftp", fields: { callback_url: "ftp://x" }, says: "callback_url must be an http(s) address" },
  {
    what: "a callback to no address",
    fields: { callback_url: "here" },
    says: "callback_url must be an http(s) address",
  },
])("refuses $what with a message that names the field", async ({ fields, says }) => {
  const service = await createTestService();
  const response = await service.start(fields);
  expect(response.status).toBe(400);
  expect(await response.json()).toStrictEqual({
    error: { code: `invalid_${Object.keys(fields)[0]}`, message: says, type: "invalid_request_error" },
  });
});

test.each([
  { what: "no JSON", body: "prompt=a fox", code: "invalid_json", says: "the body is not JSON" },
  { what: "empty", body: "", code: "invalid_json", says: "the body is not JSON" },
  { what: "null", body: "null", code: "invalid_body", says: "the body must be an object" },
  { what: "an array", body: "[]", code: "invalid_body", says: "the body must be an object" },
  { what: "a string", body: '"a fox"', code: "invalid_body", says: "the body must be an object" },
  {
    what: "over 28 MB",
    status: 413,
    body: "x".repeat(28_000_001),
    code: "body_too_large",
    says: "the body is larger than 28 MB",
  },
])(
  "refuses a body that is $what, and answers the next request normally",
  async ({ status = 400, body, code, says }) => {
    const service = await createTestService();
    const response = await service.api(startRequest(body));
    expect(response.status).toBe(status);
    expect(await readError(response)).toStrictEqual({ code, message: says });
    expect(await readStart(await service.start())).toMatchObject({ remaining_credits: 990 });
  },
);

test("a body that is not UTF-8 is refused, because its prompt would be changed", async () => {
  const service = await createTestService();
  const body = Buffer.from('{"prompt":"a f\xf6x","model":"sora-2"}', "latin1");
  const headers = { ...bearer(apiKey), "Content-Type": "application/json" };
  const response = await service.api(new Request(`${baseUrl}/api/generate`, { method: "POST", headers, body }));
  expect(response.status).toBe(400);
  expect((await readError(response)).code).toBe("invalid_json");
});

test("a body that is compressed is 415, with what is accepted", async () => {
  const service = await createTestService();
  const refused = await service.start({}, { "Content-Encoding": "gzip" });
  expect([refused.status, refused.headers.get("Accept-Encoding")]).toEqual([415, "identity"]);
  expect((await readError(refused)).code).toBe("unsupported_content_encoding");
  expect((await service.start({}, { "Content-Encoding": "identity" })).status).toBe(200);
});

test("a body of exactly 28 MB is read", async () => {
  const service = await createTestService();
  const body = JSON.stringify({ prompt: "a fox", model: "sora-2" }).padEnd(28_000_000);
  expect((await service.api(startRequest(body))).status).toBe(200);
});

test("large bodies are read four at a time, because each takes memory; small ones do not wait for them", async () => {
  const store = await openStore(":memory:");
  const [begun, waiting]: [string[], (() => void)[]] = [[], []];
  const start: Store["start"] = async (generation, ...rest) => {
    const { prompt } = generation.request;
    begun.push(prompt);
    if (prompt === "large") await new Promise<void>((resolve) => waiting.push(resolve));
    return store.start(generation, ...rest);
  };
  const service = await createTestService({ store: { ...store, start } });
  onTestFinished(store.close);
  const send = async (prompt: string, size: number) => {
    const body = JSON.stringify({ prompt, model: "sora-2" }).padEnd(size);
    return (await service.api(startRequest(body, { "Content-Length": String(size) }))).status;
  };
  const large = Array.from({ length: 6 }, () => send("large", 1_000_001));
  while (begun.length < 4) await new Promise(setImmediate);
  expect(await send("small", 1_000_000)).toBe(200);
  expect(begun).toEqual(["large", "large", "large", "large", "small"]);
  while (begun.length < 7) {
    waiting.shift()?.();
    await new Promise(setImmediate);
  }
  for (const finish of waiting) finish();
  expect(await Promise.all(large)).toEqual([200, 200, 200, 200, 200, 200]);
});

/** Starts with bodies of so many bytes, all of which come but the last one, until that is sent. */
function sendLate(service: TestService, bytes: number, count: number, key = apiKey, length = 20_000_000) {
  const start = Buffer.from(JSON.stringify({ prompt: "a fox", model: "sora-2" }).padEnd(bytes - 1));
  return Array.from({ length: count }, () => {
    let end = () => {};
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(start);
        end = () => {
          controller.enqueue(Buffer.from(" "));
          controller.close();
        };
      },
    });
    const headers = { ...bearer(key), "Content-Type": "application/json", "Content-Length": String(length) };
    const init = { method: "POST", headers, body, duplex: "half" } as const;
    return { end, reply: service.api(new Request(`${baseUrl}/api/generate`, init)) };
  });
}

test("clients that send large bodies slowly do not make others wait", async () => {
  const service = await createTestService();
  const slow = sendLate(service, 1_000, 20);
  const [large] = sendLate(service, 20_000_000, 1);
  large?.end();
  expect((await large?.reply)?.status).toBe(200);
  for (const { end } of slow) end();
  expect((await Promise.all(slow.map(({ reply }) => reply))).map(({ status }) => status)).toEqual(Array(20).fill(200));
});

test("large bodies for which there is no room are refused after they were read, and earlier ones are accepted", async () => {
  const service = await createTestService();
  const bodies = sendLate(service, 20_000_000, 12);
  const refused = bodies.slice(10).map(({ reply }) => reply);
  expect(await Promise.race([...refused, new Promise((resolve) => setTimeout(resolve, 100))])).toBe(undefined);
  for (const { end } of bodies) end();
  for (const reply of await Promise.all(refused)) {
    expect([reply.status, reply.headers.get("Retry-After")]).toEqual([429, "5"]);
    expect(await readError(reply)).toMatchObject({
      code: "busy",
      message: expect.stringContaining("nothing was charged"),
    });
  }
  const taken = await Promise.all(bodies.slice(0, 10).map(({ reply }) => reply));
  expect(taken.map(({ status }) => status)).toEqual(Array(10).fill(200));
});

test("an account that fills the memory for large bodies is refused before other accounts", async () => {
  const service = await createTestService();
  const many = sendLate(service, 20_000_000, 10);
  const [large] = sendLate(service, 20_000_000, 1, otherKey);
  for (const body of [...many, large]) body?.end();
  expect((await large?.reply)?.status).toBe(200);
  expect((await Promise.all(many.map(({ reply }) => reply))).map(({ status }) => status)).toEqual([
    ...Array(9).fill(200),
    429,
  ]);
});

test("small bodies have their own memory, which is limited too", async () => {
  const service = await createTestService({ credits: 10_000 });
  const small = sendLate(service, 900_000, 111, apiKey, 900_000);
  const [other] = sendLate(service, 200_000, 1, otherKey, 200_000);
  for (const body of [...small, other]) body?.end();
  expect((await other?.reply)?.status).toBe(200);
  const statuses = (await Promise.all(small.map(({ reply }) => reply))).map(({ status }) => status);
  expect(statuses).toEqual([...Array(110).fill(200), 429]);
});

test("fields that are left out have defaults: 16:9, 5 seconds, 480p", async () => {
  const service = await createTestService();
  await service.start({ prompt: "a fox", model: "ray-3" });
  await service.rest();
  expect(service.rendered.map(({ request }) => request)).toStrictEqual([
    { prompt: "a fox", model: "ray-3", aspectRatio: "16:9", duration: 5, resolution: "480p", extras: {} },
  ]);
});

test.each([
  { asked: { duration: 7 }, given: { duration: 7 } },
  { asked: { duration: "7" }, given: { duration: 7 } },
  { asked: { duration: 60 }, given: { duration: 60 } },
  { asked: { aspectRatio: "9:16" }, given: { aspectRatio: "9:16" } },
  { asked: { aspectRatio: "2.39:1" }, given: { aspectRatio: "2.39:1" } },
  { asked: { resolution: "1080p" }, given: { resolution: "1080p" } },
])("$asked reaches the engine as $given", async ({ asked, given }) => {
  const service = await createTestService();
  expect((await service.start(asked)).status).toBe(200);
  await service.rest();
  expect(service.rendered).toMatchObject([{ request: given }]);
});

test.each([
  { asked: { imageUrl: url }, images: [url] },
  { asked: { imageUrls: [`${url}/2`, url] }, images: [`${url}/2`, url] },
  { asked: { imageUrl: url, imageUrls: [`${url}/2`] }, images: [url, `${url}/2`] },
])("$asked reaches the engine as $images", async ({ asked, images }) => {
  const service = await createTestService();
  await service.start(asked);
  await service.rest();
  expect(service.rendered).toMatchObject([{ images: images.map((source) => ({ name: `the image at ${source}` })) }]);
});

test("five images are too many for any model", async () => {
  const service = await createTestService();
  const response = await service.start({ model: "sora-2", imageUrls: Array(5).fill(url) });
  expect(response.status).toBe(400);
  expect((await readError(response)).message).toBe("sora-2 takes at most 4 images in imageUrls, not 5");
});

test.each([
  { what: "a field it does not know", fields: { style: "noir" } },
  { what: "an image's address", fields: { imageUrl: url } },
  { what: "an image's data", fields: { imageUrl: dataUrl(aPng(3, 2)) } },
  { what: "a callback that is null", fields: { callback_url: null } },
])("$what is no reason to refuse", async ({ fields }) => {
  const service = await createTestService();
  expect((await service.start(fields)).status).toBe(200);
});

test.each([
  { what: "no key", headers: {} },
  { what: "a wrong key", headers: bearer("wrong") },
  { what: "the key with a letter more", headers: bearer(`${apiKey}x`) },
  { what: "the scheme Basic", headers: { Authorization: `Basic ${apiKey}` } },
  { what: "no scheme", headers: { Authorization: apiKey } },
  { what: "an empty bearer", headers: { Authorization: "Bearer " } },
  { what: "two keys", headers: bearer(`${apiKey} ${apiKey}`) },
])("$what: 401 at both endpoints", async ({ headers }) => {
  const service = await createTestService();
  const generate = { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: "{}" };
  for (const request of [
    new Request(`${baseUrl}/api/generate`, generate),
    new Request(`${baseUrl}${statusPath}?id=${unknownId}`, { headers }),
  ]) {
    const response = await service.api(request);
    expect(response.status).toBe(401);
    expect(response.headers.get("WWW-Authenticate")).toBe("Bearer");
    expect((await readError(response)).message).toContain("API key");
  }
});

test("the reply is the same for an unknown key and for a text that cannot be a key", async () => {
  const service = await createTestService();
  const [likely, malformed] = await Promise.all(
    [otherKey.replace("another", "nobody!"), "?"].map(async (key) => (await service.status(unknownId, key)).text()),
  );
  expect(likely).toBe(malformed);
});

test("the scheme's name may be in any case", async () => {
  const service = await createTestService();
  expect((await service.start({}, { Authorization: `bearer ${apiKey}` })).status).toBe(200);
});

test("another account's generation is answered exactly as one that does not exist", async () => {
  const service = await createTestService();
  const id = await service.startId();
  const replies = await Promise.all([service.status(id, otherKey), service.status(unknownId)]);
  expect(replies.map(({ status }) => status)).toEqual([404, 404]);
  const [theirs, nobodys] = await Promise.all(replies.map((reply) => reply.text()));
  expect(theirs).toBe(nobodys);
});

test.each([
  { method: "GET", path: `${statusPath}?id=${unknownId}`, status: 404 },
  { method: "GET", path: `${statusPath}?id=../../etc/passwd`, status: 404 },
  { method: "GET", path: `${statusPath}?id=%00`, status: 404 },
  { method: "GET", path: `${statusPath}?id=${unknownId}%00`, status: 404 },
  { method: "GET", path: statusPath, status: 400 },
  { method: "GET", path: `${statusPath}?id=`, status: 400 },
  { method: "GET", path: "/", status: 404 },
  { method: "GET", path: "/api", status: 404 },
  { method: "GET", path: "/toString", status: 404 },
  { method: "POST", path: "/api/generate/", status: 404 },
])("$method $path: $status", async ({ method, path, status }) => {
  const service = await createTestService();
  const response = await service.api(new Request(baseUrl + path, { method, headers: bearer(apiKey) }));
  expect(response.status).toBe(status);
  expect((await readError(response)).message).not.toBe("");
});

test.each([
  { path: "/api/generate", allow: "POST", others: ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"] },
  { path: "/api/cancel", allow: "POST", others: ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"] },
  { path: statusPath, allow: "GET", others: ["POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"] },
  { path: "/openapi.json", allow: "GET", others: ["POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"] },
])("$path allows $allow, and answers other methods with 405", async ({ path, allow, others }) => {
  const service = await createTestService();
  for (const method of others) {
    const response = await service.api(new Request(baseUrl + path, { method, headers: bearer(apiKey) }));
    expect(response.status, method).toBe(405);
    expect(response.headers.get("Allow"), method).toBe(allow);
  }
});

test.each([
  { type: "text/plain", status: 415 },
  { type: "application/x-www-form-urlencoded", status: 415 },
  { type: "application/jsonp", status: 415 },
  { type: undefined, status: 415 },
  { type: "application/json; charset=utf-8", status: 200 },
  { type: "application/json;charset=UTF-8", status: 200 },
  { type: "Application/JSON", status: 200 },
])("content type $type: $status", async ({ type, status }) => {
  const service = await createTestService();
  const request = startRequest({ prompt: "a fox", model: "sora-2" });
  if (type === undefined) request.headers.delete("Content-Type");
  else request.headers.set("Content-Type", type);
  expect((await service.api(request)).status).toBe(status);
});

test("the same Idempotency-Key and body return the same generation, charged once and rendered once", async () => {
  const service = await createTestService();
  const key = { "Idempotency-Key": "attempt-1" };
  const first = await readStart(await service.start({}, key));
  await service.rest();
  expect(await readStart(await service.start({}, key))).toStrictEqual(first);
  expect(await readStart(await service.start({}, { "Idempotency-Key": "attempt-2" }))).toMatchObject({
    remaining_credits: 980,
  });
  await service.rest();
  expect(service.rendered).toHaveLength(2);
});

test("a known Idempotency-Key gets its first reply, even if the start would be refused now", async () => {
  let fault: string | undefined;
  const engine = fakeEngine({ isSimulation: false, findFault: async () => fault });
  const service = await createTestService({ engines: [engine], credits: 10 });
  const key = { "Idempotency-Key": "attempt-1" };
  const first = await readStart(await service.start({}, key));
  await service.store.setLimits("local", { max_running: 1 });
  expect((await service.start({})).status).toBe(429);
  expect(await readStart(await service.start({}, key))).toEqual(first);
  fault = "at most 4 seconds";
  expect((await service.start({})).status).toBe(400);
  expect(await readStart(await service.start({}, key))).toEqual(first);
  expect((await service.start({}, { "Idempotency-Key": "attempt-2" })).status).toBe(400);
  expect(await service.store.balance("local")).toBe(0);
});

test.each([
  { what: "an empty one", key: "", status: 400 },
  { what: "one of 256 characters", key: "x".repeat(256), status: 400 },
  { what: "an empty one in quotes", key: '""', status: 400 },
  { what: "one of 256 characters in quotes", key: `"${"x".repeat(256)}"`, status: 400 },
  { what: "one of 255 characters", key: "x".repeat(255), status: 200 },
  { what: "one of 255 characters in quotes", key: `"${"x".repeat(255)}"`, status: 200 },
])("an Idempotency-Key has 1 to 255 characters: $what is $status", async ({ key, status }) => {
  const service = await createTestService();
  for (const path of ["/api/generate", "/v1/videos"]) {
    const headers = { ...bearer(apiKey), "Content-Type": "application/json", "Idempotency-Key": key };
    const body = JSON.stringify({ prompt: "a fox", model: "sora-2" });
    const reply = await service.api(new Request(`${baseUrl}${path}`, { method: "POST", headers, body }));
    const isRefused = (await reply.text()).includes("invalid_idempotency_key");
    expect([reply.status, isRefused]).toEqual([status, status === 400]);
  }
  // The second start is the first one's.
  expect(await service.store.balance("local")).toBe(status === 200 ? 990 : 1000);
});

test("two simultaneous requests with the same Idempotency-Key start one generation", async () => {
  const service = await createTestService();
  const key = { "Idempotency-Key": "attempt-1" };
  const [a, b] = await Promise.all([service.start({}, key), service.start({}, key)]);
  const first = await readStart(a);
  expect(first.remaining_credits).toBe(990);
  expect(await readStart(b)).toStrictEqual(first);
});

test("the same Idempotency-Key with another body gets a 422 with a link, and nothing is charged", async () => {
  const service = await createTestService();
  const key = { "Idempotency-Key": "attempt-1" };
  await service.start({}, key);
  const reused = await service.start({ prompt: "a hare" }, key);
  expect(reused.status).toBe(422);
  expect(reused.headers.get("Link")).toBe('</openapi.json>; rel="describedby"; type="application/json"');
  expect(await readError(reused)).toMatchObject({ code: "idempotency_key_reused" });
  expect(await readStart(await service.start())).toMatchObject({ remaining_credits: 980 });
});

test.each(["/api/generate", "/v1/videos"])(
  "%s: a replayed reply says so, whatever the order of the members",
  async (path) => {
    const service = await createTestService();
    const send = async (key: string, text: string) => {
      const headers = { ...bearer(apiKey), "Content-Type": "application/json", "Idempotency-Key": key };
      const reply = await service.api(new Request(`${baseUrl}${path}`, { method: "POST", headers, body: text }));
      return [reply.status, reply.headers.get("Idempotent-Replayed"), JSON.parse(await reply.text())];
    };
    const [, , first] = await send('"k"', '{"prompt":"a fox","model":"sora-2"}');
    expect(await send("k", ' {"model": "sora-2", "prompt": "a fox"}')).toEqual([200, "true", first]);
    expect(await send("l", '{"prompt":"a fox","model":"sora-2"}')).toMatchObject([200, null, {}]);
    expect(await service.store.balance("local")).toBe(980);
  },
);

test("a member that stands twice is refused where a key was sent", async () => {
  const service = await createTestService();
  const send = async (text: string, key?: string) => {
    const headers = { ...bearer(apiKey), "Content-Type": "application/json", ...(key && { "Idempotency-Key": key }) };
    return service.api(new Request(`${baseUrl}/api/generate`, { method: "POST", headers, body: text }));
  };
  for (const doubled of ['"seed":1,"\\u0073eed":2', '"a":[{"b":1,"b":1}]']) {
    const text = `{"prompt":"a fox","model":"sora-2",${doubled}}`;
    const refused = await send(text, "k");
    expect([refused.status, (await readError(refused)).code]).toEqual([400, "invalid_json"]);
    expect((await send(text)).status).toBe(200);
  }
  expect(await service.store.balance("local")).toBe(980);
});

test.each([
  ["a", "b"],
  ["a", "a"],
  ["", "a"],
])("two Idempotency-Keys, %o, are refused before anything is charged", async (...keys) => {
  const service = await createTestService();
  const { port } = await open(service.api);
  const body = JSON.stringify({ prompt: "a fox", model: "sora-2" });
  const lines = keys.map((key) => `idempotency-key: ${key}\r\n`).join("");
  for (const path of ["/api/generate", "/v1/videos"]) {
    const head = `POST ${path} HTTP/1.1\r\nHost: %h\r\nConnection: close\r\nAuthorization: Bearer ${apiKey}\r\n${lines}`;
    const type = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    expect(errorCode(await say(port, `${head}${type}`), 400)).toBe("invalid_idempotency_key");
  }
  expect(await service.store.balance("local")).toBe(1000);
});

test("the same Idempotency-Key from another account starts another generation", async () => {
  const service = await createTestService();
  const key = { "Idempotency-Key": "attempt-1" };
  const mine = await readStart(await service.start({}, key));
  const theirs = await readStart(await service.start({}, { ...key, ...bearer(otherKey) }));
  expect(theirs.data.id).not.toBe(mine.data.id);
  expect(theirs.remaining_credits).toBe(990);
});

test("two accounts' keys stay apart, whatever the accounts are called", async () => {
  const service = await createTestService();
  await service.store.addAccount({ name: "local extra", keyHash: hashKey("extra-key"), creditsOf: () => 10 });
  await service.start({}, { "Idempotency-Key": "extra 1" });
  const theirs = await service.start({}, { "Idempotency-Key": "1", ...bearer("extra-key") });
  expect(await readStart(theirs)).toMatchObject({ remaining_credits: 0 });
});

test("an Idempotency-Key whose start was refused for lack of credits can be used again", async () => {
  const service = await createTestService({ credits: 5 });
  const key = { "Idempotency-Key": "attempt-1" };
  expect((await service.start({}, key)).status).toBe(402);
  expect((await service.start({ prompt: "a hare" }, key)).status).toBe(402);
});

test.each(["account", "start", "generation"] as const)(
  "a defect in the store's %s is a 500, and whoever runs the service reads why",
  async (method) => {
    const broken: Store = {
      ...(await openStore(":memory:")),
      [method]: () => Promise.reject(new Error("secret details")),
    };
    const service = await createTestService({ store: broken });
    const response = await (method === "generation" ? service.status(unknownId) : service.start());
    expect(response.status).toBe(500);
    expect(await response.json()).toStrictEqual({
      error: { code: "internal", message: "internal error in the local service", type: "server_error" },
    });
    expect(service.troubles).toEqual(["A request was answered with HTTP 500: Error: secret details"]);
  },
);

test("a start stores the label in its headers; a start with an unreadable label is refused and costs nothing", async () => {
  const service = await createTestService();
  const labelled = (name: string, size?: string) =>
    service.start({}, { "Vidgen-Label": name, ...(size !== undefined && { "Vidgen-Label-Size": size }) });
  const { id } = (await readStart(await labelled(encodeURIComponent("Füchse 🦊.csv"), "40"))).data;
  expect((await service.store.generation(id))?.request.label).toEqual({ name: "Füchse 🦊.csv", size: 40 });
  const unsized = (await readStart(await labelled("foxes"))).data;
  expect((await service.store.generation(unsized.id))?.request.label).toEqual({ name: "foxes", size: null });
  const left = await service.store.balance("local");
  for (const [name, size] of [
    ["%E0%A4", "1"],
    ["%00", "1"],
    ["a%0Ab", "1"],
    ["x".repeat(201), "1"],
    ["%20", "1"],
  ])
    expect(await readError(await labelled(name ?? "", size))).toMatchObject({ code: "invalid_label" });
  for (const size of ["0", "-1", "many", "1.5"])
    expect(await readError(await labelled("foxes", size))).toMatchObject({ code: "invalid_label" });
  expect(await service.store.balance("local")).toBe(left);
});

test("a read of the provenance that fails changes no reply, and is not remembered", async () => {
  const store = await openStore(":memory:");
  const { read = () => Promise.reject(new Error("none")), ...provenance } = store.provenance ?? {};
  const outcomes = [() => Promise.reject(new Error("canary: disk I/O error"))];
  const failing = { ...provenance, read: () => (outcomes.pop() ?? read)() } as NonNullable<Store["provenance"]>;
  const service = await createTestService({ store: { ...store, provenance: failing }, credits: 100 });
  const [first, second] = [await service.start(), await service.start()];
  expect([first.status, (await readStart(first)).remaining_credits]).toEqual([200, 90]);
  expect([second.status, (await readStart(second)).remaining_credits]).toEqual([200, 80]);
  const lifetimes = [first, second].map(({ headers }) => headers.has("Idempotency-Key-Lifetime"));
  expect(lifetimes, "without it, no client sends a start again").toEqual([false, true]);
  expect(service.troubles).toEqual([expect.stringContaining("canary: disk I/O error")]);
  await store.close();
});

const field = "imageUrl";
test.each([
  ["data that is no image", { [field]: "data:image/png;base64,AAAA" }, apiKey, /is not a PNG, JPEG or WebP image/],
  ["data that is not base64", { [field]: "data:image/png;base64,not base64!" }, apiKey, /is not valid base64/],
  ["data of SVG", { [field]: "data:image/svg+xml,<svg/>" }, apiKey, /is not a PNG, JPEG or WebP image/],
  [
    "a picture of 144 megapixels",
    { [field]: dataUrl(pngOf(12_000, 12_000, new Uint8Array())) },
    apiKey,
    /144 megapixels/,
  ],
  ["a picture that is cut off", { imageUrls: [dataUrl(aPng(3, 2).subarray(0, 20))] }, apiKey, /cannot be decoded/],
  [
    "a private address",
    { [field]: "http://10.0.0.1/a.png" },
    apiKey,
    /images from 10.0.0.1 are refused: a private address/,
  ],
  ["a private address in another notation", { [field]: "http://0x0a000001/a.png" }, apiKey, /a private address/],
  ["another account's loopback address", { [field]: "http://127.0.0.1/a.png" }, otherKey, /a loopback address/],
  ["the port of another protocol", { [field]: "http://images.example:25/a.png" }, apiKey, /another protocol/],
])("an image that cannot be used is refused before it is charged: %s", async (_, fields, key, says) => {
  const service = await createTestService();
  const reply = await service.start(fields, bearer(key));
  expect([reply.status, await readError(reply)]).toEqual([
    400,
    { code: "invalid_imageUrl", message: expect.stringMatching(says) },
  ]);
  const charges = (await service.store.ledger({ limit: 9 })).filter(({ reason }) => reason === "start");
  expect(charges).toEqual([]);
});
