import { describe, expect, test } from "vitest";
import type { FetchInit, HttpResponse } from "../../../../src/io.ts";
import { detectKind } from "../../../../src/server/engines/videos/detect.ts";
import { createVirtualClock } from "../../../clock.ts";
import { type Call, type FakeOptions, ioFetch, refusedConnection } from "./fakes/fake.ts";
import { createLiteLlm } from "./fakes/litellm.ts";
import { createOpenRouter } from "./fakes/openrouter.ts";
import { createSglang } from "./fakes/sglang.ts";
import { createTensorRtLlm } from "./fakes/tensorrt-llm.ts";
import { createVllmOmni } from "./fakes/vllm-omni.ts";
import { createTestEngine } from "./run.ts";

type Fetch = (url: string, init?: FetchInit) => Promise<HttpResponse>;

/** Asks a server, and returns the id of the kind and the requests that it took. */
async function detect(fetch: Fetch, { url = "http://gpu.test", headers = {} } = {}) {
  const requests: string[] = [];
  const watched: Fetch = (address, init = {}) => {
    requests.push(`${init.method ?? "GET"} ${address}`);
    return fetch(address, init);
  };
  const { limit } = createVirtualClock();
  const kind = await detectKind({ url, headers }, { fetch: watched, limit }, new AbortController().signal);
  return { id: kind?.id, requests };
}

describe.each([
  ["vllm-omni", createVllmOmni],
  ["sglang", createSglang],
  ["fastvideo", (options: FakeOptions = {}) => createSglang({ ...options, owner: "fastvideo" })],
  ["tensorrt-llm", createTensorRtLlm],
  ["litellm", createLiteLlm],
  ["openrouter", createOpenRouter],
] as const)("a server of %s", (id, create) => {
  test("is detected by requests that cost nothing", async () => {
    const fake = create();
    const found = await detect(ioFetch(fake));
    expect(found.id).toBe(id);
    expect(found.requests.filter((request) => !request.startsWith("GET http://gpu.test/"))).toEqual([]);
    expect(fake.creates).toEqual([]);
  });

  test("is detected with a key, and under a path", async () => {
    const fetch = ioFetch(create({ key: "secret" }));
    const behindProxy: Fetch = (url, init) => fetch(url.replace("http://gpu.test/proxy/", "http://gpu.test/"), init);
    const headers = { Authorization: "Bearer secret" };
    expect((await detect(behindProxy, { url: "http://gpu.test/proxy/", headers })).id).toBe(id);
  });
});

test.each([
  [
    "a web page",
    () => new Response("<!doctype html><title>Hello</title>", { headers: { "Content-Type": "text/html" } }),
  ],
  ["a server without any of the paths", () => new Response("Not Found", { status: 404 })],
  ["another API", () => Response.json({ object: "list", data: [{ id: "m", owned_by: "library" }] })],
  ["an empty reply", () => new Response(null, { status: 204 })],
])("%s is none of them", async (_what, answer) => {
  expect((await detect(async () => answer())).id).toBeUndefined();
});

test.each([401, 503])("an HTTP %i does not decide the kind, and is passed on", async (status) => {
  const server = createVllmOmni({
    fault: ({ request }) => (request.url.endsWith("/models") ? new Response("", { status }) : undefined),
  });
  await expect(detect(ioFetch(server))).rejects.toThrow(`HTTP ${status}`);
});

test.each([
  [{}, "asks for a key (HTTP 401)"],
  [{ Authorization: "Bearer wrong" }, "refuses the key (HTTP 401)"],
])("with the headers %j a server with keys %s", async (headers, message) => {
  const wrong = expect.objectContaining({ code: "auth", message });
  await expect(detect(ioFetch(createVllmOmni({ key: "secret" })), { headers })).rejects.toEqual(wrong);
});

test.each([
  [{}, "asks for a key (HTTP 401)"],
  [{ key: "wrong" }, "refuses the key (HTTP 400)"],
])("the check of a LiteLLM without a database, with the key %j, %s", async ({ key }: { key?: string }, message) => {
  const fake = createLiteLlm({ key: "secret" });
  const { engine } = await createTestEngine(ioFetch(fake), { ...(key !== undefined && { key }) });
  const check = engine.check(new AbortController().signal);
  await expect(check).rejects.toEqual(expect.objectContaining({ code: "auth", message }));
  const right = await createTestEngine(ioFetch(fake), { key: "secret" });
  expect(await right.engine.check(new AbortController().signal)).toBe("LiteLLM");
});

const isOpen = ({ route }: Call) => route === "other";
test.each<[string, NonNullable<FakeOptions["fault"]>, string]>([
  ["a server that is away", () => Promise.reject(refusedConnection()), "does not answer (it refuses connections)"],
  ["a server behind a proxy", () => new Response("<h1>Bad gateway</h1>", { status: 502 }), "answers with HTTP 502"],
  [
    "a server whose replies are cut",
    async (call) => (isOpen(call) ? { reply: await call.serve(), bytes: 30 } : undefined),
    "answers, but its reply could not be read (ECONNRESET)",
  ],
  [
    "a server whose replies are too long",
    () => new Response("x".repeat(20_000_000)),
    "answers, but its reply could not be read (its reply is longer than 1 MB)",
  ],
])("the check of %s says what came", async (_, fault, message) => {
  const { engine } = await createTestEngine(ioFetch(createVllmOmni({ fault })));
  await expect(engine.check(new AbortController().signal)).rejects.toThrow(new Error(message));
});

test("an endless reply is read up to 1 MB", async () => {
  let sent = 0;
  const endless = () =>
    new ReadableStream({
      pull(controller) {
        sent += 100_000;
        controller.enqueue(new Uint8Array(100_000));
      },
    });
  await expect(detect(async () => new Response(endless()))).rejects.toThrow("longer than 1 MB");
  expect(sent).toBeLessThan(2_000_000);
});

test("the error of a server that does not answer is passed on", async () => {
  const refused = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
  await expect(detect(() => Promise.reject(refused))).rejects.toBe(refused);
});

test("the error of a reply that ends early is passed on", async () => {
  const fake = createVllmOmni({ fault: async (call) => ({ reply: await call.serve(), bytes: 30 }) });
  await expect(detect(ioFetch(fake))).rejects.toThrow("the connection was closed");
});

test("a server that does not answer is given up after 10 seconds", async () => {
  const clock = createVirtualClock();
  const fake = createSglang({ fault: () => new Promise(() => {}) });
  const found = detectKind(
    { url: "http://gpu.test", headers: {} },
    { fetch: ioFetch(fake), limit: clock.limit },
    new AbortController().signal,
  );
  void clock.sleep(10_001);
  await expect(found).rejects.toThrow("no response within 10 s");
});
