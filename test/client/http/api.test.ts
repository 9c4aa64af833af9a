import { expect, test } from "vitest";
import { createApi, startInit } from "../../../src/client/http/api.ts";
import { readReply } from "../../../src/client/http/reply.ts";
import { type FetchInit, RequestError } from "../../../src/io.ts";

const apiKey = "canary-key-0123456789";
const signals = { signal: new AbortController().signal, unsentSignal: new AbortController().signal };
const { signal } = signals;

/** A client whose requests are kept, and all get the same answer. */
function createTestClient({ baseUrl = "https://api.video.example", answer = () => new Response("{}") } = {}) {
  const sent: { url: string; init: FetchInit }[] = [];
  const fetch = async (url: string, init: FetchInit = {}) => {
    sent.push({ url, init });
    return answer();
  };
  return { client: createApi({ baseUrl, apiKey, fetch }), sent };
}

/** A body of these parts that breaks off after them when `cut` is given. */
function bodyOf(parts: (string | Uint8Array)[], cut?: Error): ReadableStream<Uint8Array> {
  const left = parts.map((part) => (typeof part === "string" ? new TextEncoder().encode(part) : part));
  return new ReadableStream({
    pull(controller) {
      const next = left.shift();
      if (next) controller.enqueue(next);
      else if (cut) controller.error(cut);
      else controller.close();
    },
  });
}

test("the start request, as it is sent", async () => {
  const { client, sent } = createTestClient();
  await client.start({ prompt: "a fox", model: "veo-3.1", aspectRatio: "16:9" }, "attempt-1", signals);
  expect(sent).toEqual([
    {
      url: "https://api.video.example/api/generate",
      init: {
        ...signals,
        method: "POST",
        headers: {
          Authorization: `Bearer ${apiKey}`,
          Accept: "application/json",
          "Accept-Encoding": "identity",
          "Content-Type": "application/json",
          "Idempotency-Key": "attempt-1",
        },
        body: '{"prompt":"a fox","model":"veo-3.1","aspectRatio":"16:9"}',
      },
    },
  ]);
});

test("the status request, as it is sent", async () => {
  const { client, sent } = createTestClient();
  await client.status("1b4e28ba-2fa1-41d2-883f-0016d3cca427", signal);
  expect(sent).toEqual([
    {
      url: "https://api.video.example/api/generation-status?id=1b4e28ba-2fa1-41d2-883f-0016d3cca427",
      init: {
        signal,
        headers: { Authorization: `Bearer ${apiKey}`, Accept: "application/json", "Accept-Encoding": "identity" },
      },
    },
  ]);
});

test.each([
  ["a/b?c&d", "a%2Fb%3Fc%26d"],
  ["a b#c", "a%20b%23c"],
  ["../x", "..%2Fx"],
  ["ид", "%D0%B8%D0%B4"],
])("the id %s is escaped", async (id, escaped) => {
  const { client, sent } = createTestClient();
  await client.status(id, signal);
  expect(sent[0]?.url).toBe(`https://api.video.example/api/generation-status?id=${escaped}`);
});

test("a base URL keeps its path", async () => {
  const { client, sent } = createTestClient({ baseUrl: "https://x.example/video/v1" });
  await client.status("a", signal);
  await client.start({ prompt: "a fox", model: "ray-3" }, "attempt-1", signals);
  expect(client.baseUrl).toBe("https://x.example/video/v1");
  expect(sent.map(({ url }) => url)).toEqual([
    "https://x.example/video/v1/api/generation-status?id=a",
    "https://x.example/video/v1/api/generate",
  ]);
});

test("the request that `--dry-run` shows has no API key", () => {
  expect(JSON.stringify(startInit({ prompt: "a fox", model: "ray-3" }, "attempt-1"))).not.toMatch(/authorization/i);
});

test("a reply is read to its end", async () => {
  const answer = () =>
    new Response(bodyOf(['{"error"', ':"later"}']), { status: 429, headers: { "Retry-After": "7" } });
  expect(await createTestClient({ answer }).client.status("a", signal)).toEqual({
    status: 429,
    retryAfter: "7",
    headers: expect.objectContaining({ "retry-after": "7" }),
    text: '{"error":"later"}',
    json: { error: "later" },
  });
});

test.each([
  ["a page", new Response("<html>", { status: 502 }), { status: 502, text: "<html>", json: undefined }],
  ["no body", new Response(null, { status: 204 }), { status: 204, text: "", json: undefined }],
  ["a byte order mark", new Response('\ufeff{"a":1}'), { status: 200, json: { a: 1 } }],
  ["a redirect", new Response(null, { status: 302, headers: { Location: "https://evil.example" } }), { status: 302 }],
])("a reply that is %s is no failure", async (_, response, reply) => {
  const { client, sent } = createTestClient({ answer: () => response });
  expect(await client.status("a", signal)).toMatchObject(reply);
  expect(sent).toHaveLength(1);
});

test("a character that is split between two chunks of a body is decoded correctly", async () => {
  const fox = new TextEncoder().encode('"🦊"');
  const answer = () => new Response(bodyOf([fox.slice(0, 3), fox.slice(3)]));
  expect((await createTestClient({ answer }).client.status("a", signal)).json).toBe("🦊");
});

test("of a body that breaks off, the text so far is kept, and `cut` has the reason", async () => {
  const cut = new Error("other side closed");
  const answer = () => new Response(bodyOf(['{"data":{"id":"1b4e28ba"', ',"sta'], cut));
  expect(await createTestClient({ answer }).client.start({ prompt: "a", model: "b" }, "c", signals)).toEqual({
    status: 200,
    retryAfter: null,
    headers: expect.any(Object),
    text: '{"data":{"id":"1b4e28ba","sta',
    json: undefined,
    cut,
  });
});

test("a body that breaks off after its last character also counts as cut", async () => {
  const cut = new Error("other side closed");
  const answer = () => new Response(bodyOf(['{"id":"a"}'], cut));
  expect(await createTestClient({ answer }).client.status("a", signal)).toMatchObject({ json: { id: "a" }, cut });
});

test.each<["start" | "status", number]>([
  ["start", 1024 * 1024],
  // A status may have the video itself.
  ["status", 90_000_000],
])("the reply to a %s is cut after %i bytes, and the rest is not read", async (what, bytes) => {
  let isCancelled = false;
  const endless = () =>
    new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new TextEncoder().encode("x".repeat(65_536))),
      cancel: () => {
        isCancelled = true;
      },
    });
  const { client } = createTestClient({ answer: () => new Response(endless()) });
  const request = { prompt: "a fox", model: "veo-3.1" };
  const { text, cut } = await (what === "start" ? client.start(request, "k", {}) : client.status("a", signal));
  expect(bytes - text.length).toBeLessThan(65_536);
  expect(text.length).toBeLessThanOrEqual(bytes);
  expect(cut).toMatchObject({ message: `the response is longer than ${bytes} bytes` });
  expect(isCancelled).toBe(true);
});

test("a reply of exactly 1 MiB is not cut", async () => {
  const whole = "x".repeat(1024 * 1024);
  expect(await readReply(new Response(whole))).toMatchObject({ text: whole, cut: undefined });
  expect(await readReply(new Response(`${whole}x`))).toMatchObject({ cut: expect.any(Error) });
});

test("a failure to connect is passed on unchanged", async () => {
  const failure = new RequestError(new Error("refused"), { sent: false });
  const answer = () => {
    throw failure;
  };
  await expect(createTestClient({ answer }).client.status("a", signal)).rejects.toBe(failure);
});
