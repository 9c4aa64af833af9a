import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { createStartReader } from "../../../src/server/api/start-body.ts";
import type { Post } from "../../../src/server/outbound/outbound.ts";
import { apiKey, baseUrl, bearer, createTestService, fakeEngine, startRequest, type TestService } from "../service.ts";
import {
  createDescribed,
  createValidator,
  type Description,
  type Operation,
  readDescription,
  resolve,
} from "./described.ts";
import { open } from "./wire.ts";

const jsonType = "application/json";

async function describe(): Promise<Description> {
  return readDescription((await createTestService()).api, baseUrl);
}

test("the description needs no key, and has the address of its own request", async () => {
  const { api } = await createTestService();
  const reply = await api(new Request(`${baseUrl}/openapi.json`));
  expect([reply.status, reply.headers.get("Content-Type")]).toEqual([200, jsonType]);
  expect(await reply.json()).toMatchObject({ openapi: "3.1.0", servers: [{ url: baseUrl }] });
});

test("the description is generated once for each address", async () => {
  const { api } = await createTestService();
  const read = async (origin: string) => (await api(new Request(`${origin}/openapi.json`))).text();
  const first = await read(baseUrl);
  const stringify = vi.spyOn(JSON, "stringify");
  expect(await read(baseUrl)).toBe(first);
  expect(stringify).not.toHaveBeenCalled();
  stringify.mockRestore();
  expect(await read("http://localhost:8787")).toBe(first.replaceAll(baseUrl, "http://localhost:8787"));
});

test("behind a proxy, the description has the public address", async () => {
  const { api } = await createTestService({ publicUrl: "https://video.example/vidgen" });
  expect((await readDescription(api, baseUrl)).servers).toEqual([{ url: "https://video.example/vidgen" }]);
});

/** Routes whose client is vidgen itself. */
const ownerPath = /^\/(accounts|engines|backup|admin|metrics)\b/;

test("each route is described with the methods that it allows, but for those of the owner", async () => {
  const { api, routes } = await createTestService();
  const { paths } = await readDescription(api, baseUrl);
  const allowed: Record<string, string[]> = {};
  for (const path of new Set(routes)) {
    const url = baseUrl + path.replace(/:\w+/g, "x");
    const reply = await api(new Request(url, { method: "PATCH" }));
    // What is not offered is there only to say so.
    if (reply.status === 404 || ownerPath.test(path)) continue;
    const methods = reply.headers.get("Allow")?.split(", ") ?? [`HTTP ${reply.status}`];
    allowed[path.replace(/:(\w+)/g, "{$1}")] = methods.filter((method) => method !== "HEAD").sort();
  }
  const described = Object.entries(paths).map(([path, operations]) => [
    path,
    Object.keys(operations)
      .map((method) => method.toUpperCase())
      .sort(),
  ]);
  expect(Object.fromEntries(described)).toEqual(allowed);
});

test("each operation and each parameter has a description", async () => {
  const { paths } = await describe();
  const described = Object.values(paths).flatMap(Object.values<Operation>);
  const parameters = described.flatMap(({ parameters = [] }) => parameters);
  expect([...described, ...parameters].filter(({ description }) => !description)).toEqual([]);
});

test.each([
  { what: "a field that is not described", body: { error: { code: "a", message: "b", type: "c" }, more: 1 } },
  { what: "a field of another type", body: { error: { code: 4, message: "b", type: "c" } } },
  { what: "a field that is missing", body: { error: { code: "a", type: "c" } } },
  { what: "a status that is not described", body: { success: true }, status: 201 },
])("$what is noticed in every test of the service", async ({ body, status = 404 }) => {
  const { api } = await createTestService();
  const wrong = createDescribed(
    async (request) => (request.url.endsWith("/openapi.json") ? api(request) : Response.json(body, { status })),
    baseUrl,
  );
  await expect(wrong(startRequest({}))).rejects.toThrow("is not as /openapi.json says");
});

/** Values that a field may have, and values that it may not. */
const values = [
  ...[
    "",
    " ",
    "a fox",
    "sora-2",
    "16:9",
    "9:16:1",
    "5",
    "5 s",
    "720p",
    "4k",
    "https://a.example/b.png",
    "ftp://a.example",
  ],
  ...[0, 5, -1, 61, 2.5, true, false, null, [], ["https://a.example/b.png"], [1], {}, { a: [] }],
];

test("each body that is accepted is valid by the description", async () => {
  const description = await describe();
  const validate = createValidator(description);
  const media = description.paths["/api/generate"]?.post?.requestBody?.content[jsonType];
  const read = createStartReader({ engines: [fakeEngine()], hasDirectives: false });
  const { properties } = resolve<{ properties: object }>(description, { $ref: "#/components/schemas/Start" });
  const right = { prompt: fc.constant("a fox"), model: fc.constant("sora-2") };
  const field = fc.record({ name: fc.constantFrom(...Object.keys(properties)), value: fc.constantFrom(...values) });
  let accepted = 0;
  fc.assert(
    fc.property(fc.record(right), fc.array(field, { maxLength: 3 }), (start, fields) => {
      const body = { ...start, ...Object.fromEntries(fields.map(({ name, value }) => [name, value])) };
      try {
        read(body);
      } catch {
        return;
      }
      accepted++;
      expect(validate(media, body, "open"), JSON.stringify(body)).toBeUndefined();
    }),
    { numRuns: 1_000 },
  );
  expect(accepted).toBeGreaterThan(100);
});

/** What gives each example of a refusal or a reply, by the operation and the status. */
const asks: Record<string, (service: TestService, examples: { body: Body }) => Promise<Response>> = {
  "POST /api/generate 200": ({ api }, { body }) => api(startRequest(body)),
  "POST /api/generate 400": ({ api }) => api(startRequest({ model: "veo-3.1" })),
  "POST /api/generate 402": ({ start }) => start({ prompt: "a fox [credits: 0]" }),
  "POST /api/generate 422": async ({ start }) => {
    await start({}, { "Idempotency-Key": "1" });
    return start({ prompt: "a hare" }, { "Idempotency-Key": "1" });
  },
  "POST /api/generate 413": ({ start }) => start({ prompt: "x".repeat(28_000_000) }),
  "POST /api/generate 415": ({ start }) => start({}, { "Content-Type": "text/plain" }),
  "POST /api/generate 429": (service) => startAboveLimit(service, "/api/generate"),
  "GET /api/generation-status 200": async ({ startId, rest, status }) => {
    const id = await startId();
    await rest();
    return status(id);
  },
  "GET /api/generation-status 400": ({ status }) => status(""),
  "GET /api/generation-status 404": ({ status }) => status("nobody's"),
  "POST /api/cancel 200": async ({ startId, cancel }) => cancel(await startId()),
  "POST /api/cancel 404": ({ cancel }) => cancel("nobody's"),
  "POST /api/cancel 409": async ({ startId, rest, cancel }) => {
    const id = await startId();
    await rest();
    return cancel(id);
  },
  "POST /v1/videos 200": ({ api }, { body }) => api(post("/v1/videos", body)),
  "POST /v1/videos 400": ({ api }) => api(post("/v1/videos", { model: "veo-3.1" })),
  "POST /v1/videos 402": ({ api }) => api(post("/v1/videos", { prompt: "a fox [credits: 0]", model: "veo-3.1" })),
  "POST /v1/videos 422": async ({ api, start }) => {
    await start({}, { "Idempotency-Key": "1" });
    return api(post("/v1/videos", fox, { "Idempotency-Key": "1" }));
  },
  "POST /v1/videos 413": ({ api }) => api(post("/v1/videos", { prompt: "x".repeat(28_000_000) })),
  "POST /v1/videos 415": ({ api }) => api(post("/v1/videos", fox, { "Content-Type": "text/plain" })),
  "POST /v1/videos 429": (service) => startAboveLimit(service, "/v1/videos"),
  "GET /v1/videos 200": async (service) => {
    await makeVideo(service);
    return service.api(get("/v1/videos"));
  },
  "GET /v1/videos 400": ({ api }) => api(get("/v1/videos?limit=0")),
  "GET /v1/videos/{id} 200": async (service) => service.api(get(`/v1/videos/${await makeVideo(service)}`)),
  "GET /v1/videos/{id} 404": ({ api }) => api(get("/v1/videos/nobodys")),
  "DELETE /v1/videos/{id} 200": async ({ api, startId }) => api(get(`/v1/videos/${await startId()}`, "DELETE")),
  "DELETE /v1/videos/{id} 404": ({ api }) => api(get("/v1/videos/nobodys", "DELETE")),
  "DELETE /v1/videos/{id} 409": async ({ api, startId, store }) => {
    const id = await startId();
    await store.keepCheckpoint(id, { engine: "fake", state: "submitting", at: "2026-01-01T00:00:00.000Z" });
    return api(get(`/v1/videos/${id}`, "DELETE"));
  },
  "GET /v1/models/{id} 404": ({ api }) => api(get("/v1/models/sora-9")),
  "GET /v1/videos/{id}/content 400": async (service) =>
    service.api(get(`/v1/videos/${await makeVideo(service)}/content?variant=gif`)),
  "GET /v1/videos/{id}/content 404": async ({ api, startId }) => api(get(`/v1/videos/${await startId()}/content`)),
  "GET /healthz 200": ({ api }) => api(new Request(`${baseUrl}/healthz`)),
  "GET /readyz 200": ({ api }) => api(new Request(`${baseUrl}/readyz`)),
  Busy: async ({ api }) => {
    const { url } = await open(api, { limits: { maxRequests: 0 } });
    return fetch(`${url}/openapi.json`);
  },
  Unauthorized: ({ status }) => status("", "wrong"),
  Elsewhere: async ({ api }) => {
    const { url } = await open(api);
    return fetch(`${url}/healthz`, { headers: { Origin: "https://elsewhere.example" } });
  },
};

type Body = Record<string, unknown>;

async function startAboveLimit({ api, store }: TestService, path: string): Promise<Response> {
  await store.setLimits("local", { max_running: 1 });
  await api(post(path, fox));
  return api(post(path, fox));
}

const fox = { prompt: "a red fox runs through snow at dusk", model: "veo-3.1", size: "1280x720" };

/** Makes the video of the examples, and resolves with its id. */
async function makeVideo({ api, rest }: TestService): Promise<string> {
  const { id } = (await (await api(post("/v1/videos", fox))).json()) as { id: string };
  await rest();
  return id;
}

function get(path: string, method = "GET"): Request {
  return new Request(baseUrl + path, { method, headers: bearer(apiKey) });
}

function post(path: string, body: unknown, others: Record<string, string> = {}): Request {
  const headers = { ...bearer(apiKey), "Content-Type": jsonType, ...others };
  return new Request(baseUrl + path, { method: "POST", headers, body: JSON.stringify(body) });
}

/** All examples of replies, by what gives them. */
function examplesOf(description: Description) {
  const operations = Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
  );
  const own = operations.flatMap(({ name, operation: { responses, requestBody } }) =>
    Object.entries(responses).map(([status, reply]) => ({
      ask: "$ref" in reply ? (reply.$ref.split("/").at(-1) ?? "") : `${name} ${status}`,
      body: requestBody?.content[jsonType]?.example as Body,
      example: resolve(description, reply).content?.[jsonType]?.example,
    })),
  );
  return new Map(own.filter(({ example }) => example !== undefined).map((each) => [each.ask, each]));
}

/** Ids, times and origins are others each time. */
function withoutChance(value: unknown): unknown {
  const text = JSON.stringify(value)
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "<id>")
    .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, "<time>")
    .replace(/https?:\/\/[^/"]+/g, "<origin>");
  return JSON.parse(text);
}

test("each example of a reply is a real reply", async () => {
  const examples = examplesOf(await describe());
  expect([...examples.keys()].sort()).toEqual(Object.keys(asks).sort());
  for (const { ask, body, example } of examples.values()) {
    const reply = await asks[ask]?.(await createTestService(), { body });
    if (/\d+$/.test(ask)) expect(`${reply?.status}`, ask).toBe(ask.split(" ").at(-1));
    expect(withoutChance(await reply?.json()), ask).toEqual(withoutChance(example));
  }
});

test("a real callback matches the webhook in the description, with its headers", async () => {
  const received: Parameters<Post>[1][] = [];
  const receive: Post = async (_, sent) => {
    received.push(sent);
    return { status: 204 };
  };
  const service = await createTestService({ receive });
  const description = await readDescription(service.api, baseUrl);
  const { parameters = [], requestBody } = description.webhooks.ended.post;
  await service.startId({ callback_url: "https://receiver.example/hook" });
  await service.rest();
  await service.callbacks.settled();
  const [{ headers = {}, body = "" } = {}] = received;
  expect(Object.keys(headers)).toEqual(["Content-Type", ...parameters.map(({ name }) => name)]);
  const media = requestBody?.content[jsonType];
  expect(withoutChance(JSON.parse(body))).toEqual(withoutChance(media?.example));
  expect(createValidator(description)(media, JSON.parse(body), "closed")).toBeUndefined();
});
