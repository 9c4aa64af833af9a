import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { type Client, type ClientOptions, createClient, type Generation, type Started, VidgenError } from "vidgen";
import { expect, expectTypeOf, onTestFinished, test } from "vitest";
import { tinyMp4 } from "./mp4.ts";

// The library as others import it, by the package's own name, over real sockets on loopback.

const apiKey = "canary-key-0123456789";
const video = tinyMp4("a fox");
const request = { prompt: "a fox", model: "wan-2.5" };

type Call = { method: string; url: string; headers: IncomingMessage["headers"]; body: string };
type Answer = (call: Call, response: ServerResponse) => void;

/** A service that answers as it is told to, and the folder of whoever uses it. */
async function createWorld(answer: Answer, options: Partial<ClientOptions> = {}) {
  const calls: Call[] = [];
  const server = createServer(async (incoming, response) => {
    let body = "";
    for await (const chunk of incoming) body += chunk;
    const { method = "", url = "", headers } = incoming;
    calls.push({ method, url, headers, body });
    answer({ method, url, headers, body }, response);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const folder = mkdtempSync(join(tmpdir(), "vidgen-library-"));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const posts = () => calls.filter(({ method }) => method === "POST");
  return { calls, posts, folder, baseUrl, client: createClient({ baseUrl, apiKey, ...options }) };
}

const send = (response: ServerResponse, status: number, body: unknown) =>
  void response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));

/** What the service of the interface does: it accepts, renders for one look, and has the video. */
function honest(): Answer {
  let looks = 0;
  return ({ method, url, headers }, response) => {
    if (url.endsWith(".mp4")) return void response.writeHead(200, { "Content-Length": video.length }).end(video);
    const id = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";
    if (method === "POST")
      return send(response, 200, { success: true, data: { id, status: "processing" }, remaining_credits: 90 });
    if (!url.endsWith(id)) return send(response, 404, { error: "not found" });
    const video_url = `http://${headers.host}/fox.mp4`;
    return send(response, 200, looks++ === 0 ? { id, status: "processing" } : { id, status: "completed", video_url });
  };
}

async function failureOf(call: Promise<unknown>): Promise<VidgenError> {
  const thrown = await call.then(
    () => expect.fail("it worked"),
    (error) => error,
  );
  expect(thrown).toBeInstanceOf(VidgenError);
  return thrown;
}

test("start, status, follow, download: from a prompt to a file", async () => {
  const { client, folder, posts, baseUrl, calls } = await createWorld(honest());
  const started = await client.start({ ...request, aspectRatio: "9:16" });
  expect(started).toMatchObject({ generation: { status: "processing" }, remaining_credits: 90 });
  const { id } = started.generation;
  expect((await client.status(id)).status).toBe("processing");
  expect(await client.follow(id)).toMatchObject({ generation: { id }, videoUrl: `${baseUrl}/fox.mp4` });
  const shown: number[] = [];
  const { file } = await client.download(id, `${folder}/`, { onProgress: (received) => shown.push(received) });
  expect([readFileSync(file), shown.at(-1)]).toEqual([Buffer.from(video), video.length]);
  expect(readdirSync(folder)).toHaveLength(1);
  expect(posts()).toEqual([
    expect.objectContaining({
      body: JSON.stringify({ ...request, aspectRatio: "9:16" }),
      headers: expect.objectContaining({ "idempotency-key": started.attempt, authorization: `Bearer ${apiKey}` }),
    }),
  ]);
  expect(calls.filter(({ url }) => url === "/fox.mp4")[0]?.headers.authorization).toBeUndefined();
});

const unclear: [string, Answer][] = [
  ["a reset", (_, response) => void response.socket?.resetAndDestroy()],
  ["a 500", (_, response) => send(response, 500, { error: "oops" })],
  ["an answer without an id", (_, response) => send(response, 200, { success: true })],
];
test.each(unclear)("after %s it may have been charged: sent once, and the attempt is named", async (_, answer) => {
  const { client, posts, folder, baseUrl } = await createWorld(answer);
  const error = await failureOf(client.start(request));
  expect([error.code, posts().length, posts()[0]?.headers["idempotency-key"]]).toEqual(["unknown", 1, error.attempt]);
  expect(error.hint).not.toContain("written down");
  const journal = join(folder, "deep/journal.jsonl");
  const written = await failureOf(createClient({ baseUrl, apiKey, journal }).start(request));
  const lines = readFileSync(journal, "utf8").trim().split("\n");
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { kind: "intent", attempt: written.attempt, request },
    { kind: "unknown", attempt: written.attempt },
  ]);
  expect(written.hint).toContain(`recorded in ${journal}`);
});

test("what is refused or was never sent names no attempt", async () => {
  const { client, baseUrl } = await createWorld((_, response) => send(response, 402, { error: "no credits" }));
  expect(await failureOf(client.start(request))).toMatchObject({
    code: "credits",
    httpStatus: 402,
    attempt: undefined,
  });
  const secure = createClient({ baseUrl: baseUrl.replace("http:", "https:"), apiKey });
  expect(await failureOf(secure.start(request))).toMatchObject({ code: "network", attempt: undefined });
});

test("without its journal nothing is sent", async () => {
  const { folder, baseUrl, posts } = await createWorld(honest());
  writeFileSync(join(folder, "file"), "");
  const client = createClient({ baseUrl, apiKey, journal: join(folder, "file/journal.jsonl") });
  expect([(await failureOf(client.start(request))).code, posts()]).toEqual(["output", []]);
});

test("a request that cannot be sent is a usage error, and nothing is sent", async () => {
  const { client, posts } = await createWorld(honest());
  const round: Record<string, unknown> = { ...request };
  round.self = round;
  for (const bad of [round, { ...request, prompt: " " }, { prompt: "a fox" }, { ...request, model: " " }, undefined])
    expect((await failureOf(client.start(bad as typeof request))).code).toBe("usage");
  expect(posts()).toEqual([]);
});

test("a model that vidgen does not know is sent as it is, with a note where it looks like a slip", async () => {
  const notes: string[] = [];
  const { client, posts } = await createWorld(honest(), { onNote: (text) => notes.push(text) });
  for (const model of ["wan-2.6", "house-model-9"]) await client.start({ ...request, model });
  expect(posts().map(({ body }) => JSON.parse(body).model)).toEqual(["wan-2.6", "house-model-9"]);
  expect(notes).toEqual(['Unknown model "wan-2.6"; did you mean wan-2.5? Sent as typed.']);
});

test("a signal that has aborted sends nothing; one that aborts while the request is out leaves its id time to come", async () => {
  const controller = new AbortController();
  const accept = honest();
  const { client, calls, posts } = await createWorld((call, response) => {
    controller.abort();
    setTimeout(() => accept(call, response), 100);
  });
  const { signal } = controller;
  expect((await client.start(request, { signal })).generation.id).toMatch(/^1b4e28ba/);
  expect(await failureOf(client.start(request, { signal }))).toMatchObject({ code: "interrupted", attempt: undefined });
  for (const call of [client.status("x", { signal }), client.follow("x", { signal })])
    expect((await failureOf(call)).code).toBe("interrupted");
  expect([calls.length, posts().length]).toEqual([1, 1]);
});

test("an abort that outlasts the ten seconds for the id leaves it open whether it was charged", async () => {
  const controller = new AbortController();
  const { client, posts } = await createWorld(() => controller.abort());
  const error = await failureOf(client.start(request, { signal: controller.signal }));
  expect([error.code, error.attempt]).toEqual(["unknown", posts()[0]?.headers["idempotency-key"]]);
});

test("a follow ends when its signal aborts, and when its time is over", async () => {
  const { client } = await createWorld(({ url }, response) =>
    send(response, 200, { id: url.split("=")[1], status: "processing" }),
  );
  const signal = AbortSignal.timeout(300);
  expect(await failureOf(client.follow("a", { signal }))).toMatchObject({ code: "interrupted", id: "a" });
  expect(await failureOf(client.follow("b", { timeoutMs: 300 }))).toMatchObject({ code: "pending", id: "b" });
});

test("a video is never saved over a file that exists, nor in halves", async () => {
  const { client, folder } = await createWorld(({ url, headers }, response) => {
    if (url.endsWith(".mp4")) return void response.writeHead(400).end();
    return send(response, 200, { id: "x", status: "completed", video_url: `http://${headers.host}/x.mp4` });
  });
  const file = join(folder, "mine.mp4");
  writeFileSync(file, "mine");
  expect(await failureOf(client.download("x", file))).toMatchObject({ code: "output", id: "x" });
  expect(await failureOf(client.download("x", join(folder, "new.mp4")))).toMatchObject({ code: "output", id: "x" });
  expect([readdirSync(folder), readFileSync(file, "utf8")]).toEqual([["mine.mp4"], "mine"]);
});

test("the key is in no error and in no journal, whatever the service says", async () => {
  const { folder, baseUrl } = await createWorld((_, response) =>
    send(response, 500, { error: `bad ${apiKey}\u001b[2J` }),
  );
  const journal = join(folder, "journal.jsonl");
  const error = await failureOf(createClient({ baseUrl, apiKey, journal }).start(request));
  expect(error.message).toContain("bad [key]");
  expect(error.message + readFileSync(journal, "utf8")).not.toContain(apiKey);
  expect(error.message).not.toContain("\u001b");
});

test("what a listener throws loses nothing", async () => {
  const { client, folder } = await createWorld(honest(), {
    onNote() {
      throw new Error("mine");
    },
  });
  const { generation } = await client.start(request);
  const onProgress = () => {
    throw new Error("mine");
  };
  const { file } = await client.download(generation.id, join(folder, "fox.mp4"), { onProgress });
  expect(readFileSync(file)).toEqual(Buffer.from(video));
});

test.each([
  ["an address without TLS", { baseUrl: "http://video.example", apiKey }],
  ["no address", { baseUrl: "", apiKey }],
  ["a key with a space in it", { baseUrl: "https://video.example", apiKey: "a b" }],
])("%s is a usage error", (_, options) => {
  expect(() => createClient(options)).toThrow(VidgenError);
});

test("it leaves the process alone", () => {
  const count = () => ["SIGINT", "SIGTERM", "uncaughtException"].map((event) => process.listenerCount(event));
  const before = count();
  createClient({ baseUrl: "https://video.example", apiKey });
  expect(count()).toEqual(before);
});

test("batch yields what happens to each row; again with the same results file it starts nothing", async () => {
  const { client, folder, posts } = await createWorld(honest());
  const results = join(folder, "results.jsonl");
  const rows = [
    { request, output: join(folder, "fox.mp4") },
    { id: "bear", request: { ...request, prompt: "a bear" } },
  ];
  const run = async () => {
    const names: string[] = [];
    for await (const { event, at } of client.batch(rows, { results, intervalMs: 1000 })) {
      expect(at).toMatch(/^2.*Z$/);
      if (event !== "state" && event !== "progress") names.push(event);
    }
    return names.sort();
  };
  expect(await run()).toEqual(["ended", "ended", "saved", "started", "started", "summary"]);
  expect(readFileSync(join(folder, "fox.mp4")).equals(video)).toBe(true);
  expect(await run()).toEqual(["summary"]);
  expect(posts()).toHaveLength(2);
  const again = client.batch([{ id: "bear", request }], { results })[Symbol.asyncIterator]();
  expect(await failureOf(again.next())).toMatchObject({ code: "usage" });
});

test("when the caller of batch stops, nothing more is started", async () => {
  const { client, folder, posts } = await createWorld(honest());
  const rows = ["a", "b", "c"].map((prompt) => ({ request: { ...request, prompt } }));
  for await (const { event } of client.batch(rows, { results: join(folder, "results.jsonl"), jobs: 1 }))
    if (event === "started") break;
  expect(posts()).toHaveLength(1);
});

test("its types say what comes back", () => {
  expectTypeOf<Client["start"]>().returns.resolves.toEqualTypeOf<Started & { attempt: string }>();
  expectTypeOf<Client["status"]>().returns.resolves.toEqualTypeOf<Generation>();
  expectTypeOf<Client["download"]>().returns.resolves.toHaveProperty("file").toEqualTypeOf<string>();
  expectTypeOf<Client["download"]>().returns.resolves.toHaveProperty("content").toHaveProperty("sha256");
  // @ts-expect-error: a start needs a model.
  expectTypeOf<Client["start"]>().toBeCallableWith({ prompt: "a fox" });
});
