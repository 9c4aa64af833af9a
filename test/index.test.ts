import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { Webhook } from "standardwebhooks";
import {
  type Client,
  type ClientOptions,
  createClient,
  type Downloaded,
  type Generation,
  type GenerationRequest,
  type Started,
  VidgenError,
  verifyCallback,
} from "vidgen";
import { createVidgen } from "vidgen/ai-sdk";
import { expect, expectTypeOf, onTestFinished, test, vi } from "vitest";
import { accountOf } from "../src/client/ledger/history.ts";
import { type Machine, systemMachine } from "../src/io.ts";
import { makeFolder } from "./folder.ts";
import { tinyMp4 } from "./mp4.ts";
import { lacks } from "./needs.ts";

// The library as others import it, by the package's own name, over real sockets on loopback.

const apiKey = "canary-key-0123456789";
const video = tinyMp4("a fox");
const request = { prompt: "a fox", model: "wan-2.5" };

/** A client for which time passes twenty times as fast. The published types do not show the second parameter of `createClient`. */
function createHurriedClient(options: ClientOptions): Client {
  const { now, sleep } = systemMachine;
  const machine = {
    ...systemMachine,
    now: () => now() * 20,
    sleep: (ms: number, signal?: AbortSignal) => sleep(ms / 20, signal),
  };
  return (createClient as (options: ClientOptions, machine: Machine) => Client)(options, machine);
}

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
  const folder = makeFolder();
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const posts = () => calls.filter(({ method }) => method === "POST");
  return { calls, posts, folder, baseUrl, client: createClient({ baseUrl, apiKey, ...options }) };
}

const send = (response: ServerResponse, status: number, body: unknown) =>
  void response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));

/** What the service of the interface does: it accepts, renders for one look, and has the video. The starts get these ids, the last one over and over. */
function honest(...ids: string[]): Answer {
  const known = ["1b4e28ba-2fa1-41d2-883f-0016d3cca427", ...ids];
  let [looks, starts] = [0, 0];
  return ({ method, url, headers }, response) => {
    if (url.endsWith(".mp4")) return void response.writeHead(200, { "Content-Length": video.length }).end(video);
    if (method === "POST")
      return send(response, 200, {
        success: true,
        data: { id: known[starts++] ?? known.at(-1), status: "processing" },
        credits_charged: 10,
        remaining_credits: 90,
      });
    const id = known.find((each) => url.endsWith(each));
    if (id === undefined) return send(response, 404, { error: "not found" });
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

test("estimate returns what the service lists now, or else what an earlier start has cost, and starts nothing", async () => {
  const prices = { source: "OpenRouter", prices: { duration_seconds: "0.40" } };
  const listed = { id: "wan-2.5", owned_by: "vidgen", credits: 10, usd_prices: [prices] };
  let data = [listed];
  const serve = honest("gen-1");
  const journal = join(makeFolder(), "journal.jsonl");
  const { client, posts } = await createWorld(
    (call, response) => (call.url === "/v1/models" ? send(response, 200, { data }) : serve(call, response)),
    { journal },
  );
  const eight = { ...request, duration: 8 };
  expect(await client.estimate(eight)).toEqual({ credits: 10, cost: 3.2, source: "OpenRouter" });
  expect(await client.estimate(request)).toMatchObject({ credits: 10, cost: undefined, source: undefined });
  data = [];
  expect(await client.estimate(eight)).toMatchObject({ credits: undefined, cost: undefined });
  expect(posts()).toEqual([]);
  // @ts-expect-error
  await expect(client.estimate(eight, { length: 8 })).rejects.toMatchObject({ code: "usage" });
});

test("a generation that its service calls unclear rejects with unknown, id and attempt, and the same call sends nothing", async () => {
  const id = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";
  const journal = join(makeFolder(), "journal.jsonl");
  const { client, posts } = await createWorld(
    ({ method }, response) => {
      if (method === "POST") return send(response, 200, { success: true, data: { id, status: "processing" } });
      send(response, 200, { id, status: "failed", error: "it is unclear (HTTP 502)", error_code: "unclear" });
    },
    { journal },
  );
  const first = await failureOf(client.generate(request));
  expect(first).toMatchObject({ code: "unknown", id, idempotencyKey: expect.any(String) });
  expect(first.message).toContain("may have been charged: it is unclear (HTTP 502).");
  const { idempotencyKey } = first;
  for (const onExisting of ["resume", "reuse"] as const)
    expect(await failureOf(client.generate(request, { onExisting }))).toMatchObject({
      ...{ code: "unknown", id, idempotencyKey },
    });
  expect(await failureOf(client.follow(id))).toMatchObject({ code: "unknown", id });
  expect(await client.generations.get(id)).toMatchObject({ status: "unknown", id });
  expect(await client.generations.resume()).toEqual([]);
  expect(posts()).toHaveLength(1);
});

test("start, status, follow, download: from a prompt to a file", async () => {
  const { client, folder, posts, baseUrl, calls } = await createWorld(honest());
  const started = await client.start({ ...request, aspectRatio: "9:16" });
  expect(started).toMatchObject({ resumed: false, credits: 10, remainingCredits: 90 });
  const { id } = started;
  expect((await client.status(id)).status).toBe("processing");
  expect(await client.follow(id)).toMatchObject({
    ...{ id, status: "completed", videoUrl: `${baseUrl}/fox.mp4` },
    raw: { video_url: `${baseUrl}/fox.mp4` },
  });
  const shown: number[] = [];
  const { file } = await client.download(id, `${folder}/`, { onProgress: (received) => shown.push(received) });
  expect([readFileSync(file), shown.at(-1)]).toEqual([Buffer.from(video), video.length]);
  expect(readdirSync(folder)).toHaveLength(1);
  expect(posts()).toEqual([
    expect.objectContaining({
      body: JSON.stringify({ ...request, aspectRatio: "9:16" }),
      headers: expect.objectContaining({
        "idempotency-key": started.idempotencyKey,
        authorization: `Bearer ${apiKey}`,
      }),
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
  // It answers at once that it keeps no keys.
  const { client, posts, folder, baseUrl } = await createWorld((call, response) =>
    call.method === "POST" ? answer(call, response) : send(response, 404, { error: "no such generation" }),
  );
  const error = await failureOf(client.start(request));
  expect([error.code, posts().length, posts()[0]?.headers["idempotency-key"]]).toEqual([
    "unknown",
    1,
    error.idempotencyKey,
  ]);
  expect(error.hint).not.toContain("written down");
  const journal = join(folder, "deep/journal.jsonl");
  const written = await failureOf(createClient({ baseUrl, apiKey, journal }).start(request));
  const lines = readFileSync(journal, "utf8").trim().split("\n");
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { kind: "intent", attempt: written.idempotencyKey, request },
    { kind: "unknown", attempt: written.idempotencyKey },
  ]);
  expect(written.hint).toContain(`recorded in ${journal}`);
});

test("what is refused or was never sent names no attempt", async () => {
  const { client, baseUrl } = await createWorld((_, response) => send(response, 402, { error: "no credits" }));
  expect(await failureOf(client.start(request))).toMatchObject({
    code: "credits",
    httpStatus: 402,
    idempotencyKey: undefined,
  });
  const secure = createClient({ baseUrl: baseUrl.replace("http:", "https:"), apiKey });
  expect(await failureOf(secure.start(request))).toMatchObject({ code: "network", idempotencyKey: undefined });
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
  expect((await client.start(request, { signal })).id).toMatch(/^1b4e28ba/);
  expect(await failureOf(client.start(request, { signal }))).toMatchObject({
    code: "interrupted",
    idempotencyKey: undefined,
  });
  for (const call of [client.status("x", { signal }), client.follow("x", { signal })])
    expect((await failureOf(call)).code).toBe("interrupted");
  expect([calls.length, posts().length]).toEqual([1, 1]);
});

test("an abort that outlasts the ten seconds for the id leaves it open whether it was charged", async () => {
  const controller = new AbortController();
  const { baseUrl, posts } = await createWorld(() => controller.abort());
  const client = createHurriedClient({ baseUrl, apiKey });
  const error = await failureOf(client.start(request, { signal: controller.signal }));
  expect([error.code, error.idempotencyKey]).toEqual(["unknown", posts()[0]?.headers["idempotency-key"]]);
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
  const error = await failureOf(createHurriedClient({ baseUrl, apiKey, journal }).start(request));
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
  const { id } = await client.start(request);
  const onProgress = () => {
    throw new Error("mine");
  };
  const { file } = await client.download(id, join(folder, "fox.mp4"), { onProgress });
  expect(readFileSync(file)).toEqual(Buffer.from(video));
});

test.each([
  ["an address without TLS", { baseUrl: "http://video.example", apiKey }],
  ["no address", { baseUrl: "", apiKey }],
  ["a key with a space in it", { baseUrl: "https://video.example", apiKey: "a b" }],
  ["a journal without a path", { baseUrl: "https://video.example", apiKey, journal: "" }],
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
  const { client, folder, posts } = await createWorld(honest("2c5f39cb-3fb2-42e3-984f-1127e4ddb538"));
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

test.each(["maxCredits", "keepCredits", "maxCost"])("the limit %s is a number: null is not no limit", async (limit) => {
  const { client, folder, posts } = await createWorld(honest());
  for (const value of [null, "", "5", Number.NaN, -1, {}]) {
    const options = { results: join(folder, "results.jsonl"), [limit]: value };
    const failure = await failureOf(client.batch([{ request }], options)[Symbol.asyncIterator]().next());
    expect(failure).toMatchObject({ code: "usage", message: expect.stringContaining(limit) });
  }
  expect(posts()).toEqual([]);
});

test("when the caller of batch stops, nothing more is started", async () => {
  const { client, folder, posts } = await createWorld(honest());
  const rows = ["a", "b", "c"].map((prompt) => ({ request: { ...request, prompt } }));
  for await (const { event } of client.batch(rows, { results: join(folder, "results.jsonl"), jobs: 1 }))
    if (event === "started") break;
  expect(posts()).toHaveLength(1);
});

test("its types say what comes back", () => {
  expectTypeOf<Client["start"]>().returns.resolves.toEqualTypeOf<Started>();
  expectTypeOf<Client["status"]>().returns.resolves.toEqualTypeOf<Generation>();
  expectTypeOf<ReturnType<Client["download"]>>().resolves.toEqualTypeOf<Downloaded>();
  expectTypeOf<Downloaded>().toHaveProperty("sha256").toEqualTypeOf<string>();
  expectTypeOf<VidgenError>().not.toHaveProperty("exit");
  expectTypeOf<VidgenError>().not.toHaveProperty("with");
  expectTypeOf({ prompt: "a fox", model: "tomorrow's", extra: { seed: 7 } }).toExtend<GenerationRequest>();
  // @ts-expect-error: a field of the service that vidgen does not know goes into extra.
  ({ prompt: "a fox", model: "ray-3", imageURL: 3 }) satisfies GenerationRequest;
  // @ts-expect-error: a duration is a number.
  expectTypeOf<Client["start"]>().toBeCallableWith({ prompt: "a fox", model: "ray-3", duration: "5" });
  // @ts-expect-error: a start needs a model.
  expectTypeOf<Client["start"]>().toBeCallableWith({ prompt: "a fox" });
});

test("generate does the whole job; again after a crash it continues with the same generation", async () => {
  const { folder, baseUrl, posts } = await createWorld(honest());
  const journal = join(folder, "journal.jsonl");
  const output = join(folder, "fox.mp4");
  const create = () => createClient({ baseUrl, apiKey, journal });
  const started: Started[] = [];
  const stop = new AbortController();
  const onStarted = (each: Started) => {
    started.push(each);
    stop.abort();
  };
  const error = await failureOf(create().generate(request, { output, signal: stop.signal, onStarted }));
  expect(error).toMatchObject({ name: "AbortError", code: "interrupted", id: started[0]?.id });
  const done = await create().generate(request, { output });
  expect(done).toMatchObject({ id: started[0]?.id, resumed: true, file: output, size: video.length });
  expect([readFileSync(output), posts().length]).toEqual([Buffer.from(video), 1]);
});

/** An option that each call does not have, and the one that was meant. */
const misspelled: [string, string, (client: Client, name: Record<string, number>) => Promise<unknown>, string][] = [
  ["generate", "timeout", (client, name) => client.generate(request, name), "timeoutMs"],
  ["start", "idempotencykey", (client, name) => client.start(request, name), "idempotencyKey"],
  ["status", "signals", (client, name) => client.status("x", name), "signal"],
  ["follow", "timeout", (client, name) => client.follow("x", name), "timeoutMs"],
  ["download", "overwite", (client, name) => client.download("x", "fox.mp4", name), "overwrite"],
  ["download", "onprogress", (client, name) => client.download("x", { to: "bytes" }, name), "onProgress"],
  ["generations.list", "limits", (client, name) => client.generations.list(name), "limit"],
  ["generations.resume", "interval", (client, name) => client.generations.resume(name), "intervalMs"],
  ["batch", "maxCredit", (client, name) => firstOf(client.batch([{ request }], withResults(name))), "maxCredits"],
  ["row 1", "outputs", (client, name) => firstOf(client.batch([{ request, ...name }], withResults())), "output"],
];
const firstOf = (events: AsyncIterable<unknown>) => events[Symbol.asyncIterator]().next();
const withResults = (more = {}) => ({ results: join(makeFolder(), "results.jsonl"), ...more });

test.each(misspelled)("%s refuses the option %s, and sends nothing", async (call, name, make, meant) => {
  const { client, calls, folder } = await createWorld(honest());
  const withJournal = createClient({ baseUrl: "http://127.0.0.1:1", apiKey, journal: join(folder, "journal.jsonl") });
  for (const each of [client, withJournal])
    expect(await failureOf(make(each, { [name]: 1 }))).toMatchObject({
      code: "usage",
      message: `${call} has no option "${name}"; did you mean ${meant}?`,
      hint: expect.stringContaining(meant),
    });
  expect([calls, readdirSync(folder)]).toEqual([[], []]);
});

test("createClient refuses an option that it does not have, and a call one that is like none, and a value that is none", async () => {
  const typed = { baseUrl: "https://video.example", apikey: "key" };
  expect(() => createClient(typed)).toThrow('createClient has no option "apikey"; did you mean apiKey?');
  const wrong: [object, string][] = [
    [{ journal: false }, "journal must be a path or true, not a value of type boolean."],
    [{ apiKey: 123456 }, "apiKey must be text, not a value of type number."],
    [{ onNote: null }, "onNote must be a function, not null."],
    [{ fetch: "fetch" }, 'fetch must be a function, not "fetch".'],
  ];
  for (const [options, message] of wrong)
    expect(() => createClient({ baseUrl: "https://video.example", ...options })).toThrow(message);
  const { client, calls } = await createWorld(honest());
  const failures = [
    await failureOf(client.start(request, { extra: {} } as object)),
    await failureOf(client.generate(request, { onExisting: "again" as "new" })),
    await failureOf(client.generations.list({ status: "done" as "completed" })),
    await failureOf(client.follow("x", 5_000 as unknown as object)),
    await failureOf(client.follow("x", null as unknown as object)),
    await failureOf(client.status("x", { signal: "soon" as unknown as AbortSignal })),
  ];
  expect(failures.map(({ code, message, hint }) => [code, message, hint])).toEqual([
    ["usage", 'start has no option "extra".', "Its options are signal, idempotencyKey, onExisting, from."],
    ["usage", 'onExisting must be one of resume, reuse, new, not "again".', undefined],
    ["usage", expect.stringMatching(/^status must be one of starting, .* refused, not "done"\.$/), undefined],
    ["usage", "The options of follow must be an object.", undefined],
    ["usage", "The options of follow must be an object.", undefined],
    ["usage", 'signal must be an AbortSignal, not "soon".', undefined],
  ]);
  expect(calls).toEqual([]);
});

test("onExisting: a finished generation is reused, a new one is started beside it, an interrupted one is resumed", async () => {
  let starts = 0;
  const { client, posts } = await createWorld(
    ({ method, url, headers }, response) => {
      if (method === "POST")
        return send(response, 200, { success: true, data: { id: `x${++starts}`, status: "processing" } });
      const id = url.split("=")[1];
      if (id === "x3" && posts().length === 3 && !isFinished) return send(response, 200, { id, status: "processing" });
      send(response, 200, { id, status: "completed", video_url: `http://${headers.host}/fox.mp4` });
    },
    { journal: join(makeFolder(), "journal.jsonl") },
  );
  let isFinished = false;
  const generate = (onExisting?: "resume" | "reuse" | "new") => client.generate(request, { onExisting });
  const short = ({ id, resumed }: Started) => [id, resumed];
  expect(short(await generate())).toEqual(["x1", false]);
  expect(short(await generate("reuse"))).toEqual(["x1", true]);
  // It is finished: there is nothing to resume.
  expect(short(await generate("resume"))).toEqual(["x2", false]);
  expect(await failureOf(client.generate(request, { timeoutMs: 300 }))).toMatchObject({ code: "pending", id: "x3" });
  isFinished = true;
  // As without the option.
  expect(short(await generate(undefined))).toEqual(["x3", true]);
  expect(short(await generate("new"))).toEqual(["x4", false]);
  expect(short(await client.start(request, { onExisting: "reuse" }))).toEqual(["x4", true]);
  expect(short(await client.start(request))).toEqual(["x5", false]);
  expect(posts()).toHaveLength(5);
});

test("an error has its hint, in the words of a program", async () => {
  const { client, folder, baseUrl } = await createWorld(({ method, url, headers, body }, response) => {
    if (body.includes("lost")) return void response.socket?.resetAndDestroy();
    if (method === "POST") return send(response, 402, { error: "no credits" });
    const id = url.split("=")[1] ?? "";
    if (id === "failed") return send(response, 200, { id, status: "failed", error: "no foxes" });
    if (id === "unclear") return send(response, 200, { id, status: "failed", error_code: "unclear" });
    send(response, 200, { id, status: "completed", video_url: `http://${headers.host}/x.mp4` });
  });
  writeFileSync(join(folder, "mine.mp4"), "mine");
  const hintOf = async (call: Promise<unknown>) => (await failureOf(call)).hint;
  const elements = { ...request, model: "kling-1.6-elements", images: ["https://images.example/fox.png"] };
  expect({
    exists: await hintOf(client.download("x", join(folder, "mine.mp4"))),
    folder: await hintOf(client.download("x", join(folder, "no/fox.mp4"))),
    failed: await hintOf(client.follow("failed")),
    unclear: await hintOf(client.follow("unclear")),
    credits: await hintOf(client.start(request)),
    images: await hintOf(client.start(elements)),
    model: await hintOf(client.start({ ...request, model: " " })),
  }).toEqual({
    exists: "Pass overwrite: true to replace it, or choose another name for the output.",
    folder: `Create it first (${lacks("sh") ? "mkdir" : "mkdir -p"} ${join(folder, "no")}), or end the output path with / to have it created.`,
    failed: "Look at the reason first: each attempt may be charged.",
    unclear: expect.stringMatching(/; onExisting: "new" starts another one, which is charged too\.$/),
    credits: expect.stringContaining("Add credits to your account"),
    images: "Pass each in images.",
    model: "`models` lists them.",
  });
  const events: unknown[] = [];
  const rows = [{ request: { ...request, prompt: "lost" } }, { request, output: join(folder, "fox.mp4") }];
  for await (const event of client.batch(rows, withResults()))
    if (event.event === "ended") events.push(event.error?.hint);
  expect(events).toEqual([
    expect.stringContaining("`vidgen list --status unknown` shows the attempt"),
    expect.stringContaining("Add credits to your account"),
  ]);
  const unreachable = createClient({ baseUrl: baseUrl.replace("http:", "https:"), apiKey });
  expect(await hintOf(unreachable.start(request))).toContain("vidgen doctor");
});

test("an idempotency key is one start for ever, also for another process, and for no other request", async () => {
  const { folder, baseUrl, posts } = await createWorld(honest());
  const journal = join(folder, "journal.jsonl");
  const create = () => createClient({ baseUrl, apiKey, journal });
  const how = { idempotencyKey: "order-17" };
  const both = await Promise.all([create().start(request, how), create().start(request, how)]);
  expect(both.map(({ id }) => id)).toEqual([both[0]?.id, both[0]?.id]);
  expect(await create().start(request, how)).toEqual({ ...both[0], ...how, resumed: true });
  expect(posts().map(({ headers }) => headers["idempotency-key"])).toEqual(["order-17"]);
  const other = await failureOf(create().start({ ...request, prompt: "a bear" }, how));
  expect([other.code, other.message]).toEqual(["usage", expect.stringContaining("used for another request")]);
  expect((await failureOf(create().start(request, { idempotencyKey: "a b" }))).code).toBe("usage");
  expect(posts()).toHaveLength(1);
});

test("a key that an older version used with 16:09, and a row of it, are the same request", async () => {
  const journal = join(makeFolder(), "journal.jsonl");
  const { client, posts, folder } = await createWorld(honest("2b4e28ba-2fa1-41d2-883f-0016d3cca427"), { journal });
  const results = join(folder, "rows.jsonl");
  const rows = async (aspectRatio: string) => {
    for await (const _ of client.batch([{ request: { ...request, aspectRatio } }], { results }));
  };
  await client.start({ ...request, aspectRatio: "16:9" }, { idempotencyKey: "order-17" });
  await rows("16:9");
  for (const path of [journal, results])
    writeFileSync(path, readFileSync(path, "utf8").replaceAll('"aspectRatio":"16:9"', '"aspectRatio":"16:09"'));
  const again = await client.start({ ...request, aspectRatio: "16:09" }, { idempotencyKey: "order-17" });
  await rows("16:09");
  expect([again.resumed, posts().length]).toEqual([true, 2]);
});

test("a key whose start is unclear sends nothing again; one that was never sent, or refused, does", async () => {
  const answers: Answer[] = [
    (_, response) => send(response, 402, { error: "no credits" }),
    (_, response) => void response.socket?.resetAndDestroy(),
  ];
  const { folder, baseUrl, posts } = await createWorld((call, response) => {
    if (call.method === "GET") return send(response, 404, { error: "not found" });
    answers.shift()?.(call, response);
  });
  const journal = join(folder, "journal.jsonl");
  const start = (url = baseUrl) =>
    failureOf(createClient({ baseUrl: url, apiKey, journal }).start(request, { idempotencyKey: "order-18" }));
  expect((await start()).code).toBe("credits");
  for (let i = 0; i < 2; i++) expect(await start()).toMatchObject({ code: "unknown", idempotencyKey: "order-18" });
  const records = await createClient({ baseUrl, apiKey, journal }).generations.list();
  expect(records.map(({ idempotencyKey }) => idempotencyKey)).toEqual(["order-18", "order-18"]);
  expect(posts()).toHaveLength(2);
});

test("a short list is of this service, however much was started at another one since", async () => {
  const journal = join(makeFolder(), "journal.jsonl");
  const at = "2026-06-01T00:00:00.000Z";
  const linesOf = (base_url: string, attempt: string) => {
    const intent = { kind: "intent", attempt, base_url, account: "0123456789ab", request };
    return [intent, { kind: "unsent", attempt, reason: "x".repeat(400) }].map((each) =>
      JSON.stringify({ at, ...each }),
    );
  };
  const [own, other] = ["https://video.example", "https://other.example"];
  const others = Array.from({ length: 4_000 }, (_, i) => linesOf(other, `other-${i}`));
  writeFileSync(journal, `${[linesOf(own, "own"), ...others].flat().join("\n")}\n`);
  const records = await createClient({ baseUrl: own, apiKey, journal }).generations.list({ limit: 1 });
  expect(records.map(({ idempotencyKey }) => idempotencyKey)).toEqual(["own"]);
});

test("a key used at two services stands for a start at each, though both have one journal", async () => {
  const [lost, other] = [
    await createWorld((_, response) => void response.socket?.resetAndDestroy()),
    await createWorld(honest()),
  ];
  const journal = join(lost.folder, "journal.jsonl");
  const start = (baseUrl: string) =>
    createHurriedClient({ baseUrl, apiKey, journal }).start(request, { idempotencyKey: "order-23" });
  expect((await failureOf(start(lost.baseUrl))).code).toBe("unknown");
  expect(await start(other.baseUrl)).toMatchObject({ resumed: false });
  expect((await failureOf(start(lost.baseUrl))).code).toBe("unknown");
  expect(await start(other.baseUrl)).toMatchObject({ resumed: true });
  expect([lost.posts().length, other.posts().length]).toEqual([1, 1]);
});

/** A service that loses its first reply to a start, and then says of its keys what `lifetime` is. */
function forgetful(lifetime: () => string | undefined): Answer {
  const next = honest();
  let starts = 0;
  return (call, response) => {
    const seconds = lifetime();
    if (seconds !== undefined) response.setHeader("Idempotency-Key-Lifetime", seconds);
    if (call.method === "POST" && starts++ === 0) return void response.socket?.resetAndDestroy();
    next(call, response);
  };
}

test("an unclear start with a key is sent again to a service that says it knows the key, and has its id then", async () => {
  const { client, posts } = await createWorld(forgetful(() => "86400"));
  const { id } = await client.start(request, { idempotencyKey: "order-19" });
  expect(id).toBe("1b4e28ba-2fa1-41d2-883f-0016d3cca427");
  expect(posts().map(({ headers }) => headers["idempotency-key"])).toEqual(["order-19", "order-19"]);
});

test.each([
  ["another process has left it unclear", "86400", apiKey, undefined],
  ["it knows keys no longer than that", "600", apiKey, "unknown"],
  ["it was sent with the API key of another account", "86400", `${apiKey}-other`, "unknown"],
])("a start whose key is unclear in the journal, and %s", async (_, seconds, nextKey, code) => {
  let lifetime: string | undefined;
  const { folder, baseUrl, posts } = await createWorld(forgetful(() => lifetime));
  const startWith = (key: string) =>
    createClient({ baseUrl, apiKey: key, journal: join(folder, "journal.jsonl") }).start(request, {
      idempotencyKey: "order-20",
    });
  const start = () => startWith(nextKey);
  expect((await failureOf(startWith(apiKey))).code).toBe("unknown");
  expect(posts()).toHaveLength(1);
  lifetime = seconds;
  if (code !== undefined) expect((await failureOf(start())).code).toBe(code);
  else expect(await start()).toMatchObject({ id: "1b4e28ba-2fa1-41d2-883f-0016d3cca427" });
  expect(posts()).toHaveLength(code === undefined ? 2 : 1);
  if (code === undefined) expect((await start()).resumed).toBe(true);
});

test.each([
  ["says nothing of its keys", undefined],
  ["says that it knows them for a day", "86400"],
])(
  "an unclear start with a key that was written by a clock ahead of this one is not sent again, where the service %s",
  async (_, seconds) => {
    const { folder, baseUrl, posts } = await createWorld((call, response) => {
      if (seconds !== undefined) response.setHeader("Idempotency-Key-Lifetime", seconds);
      honest()(call, response);
    });
    const journal = join(folder, "journal.jsonl");
    const [attempt, at] = ["order-23", new Date(Date.now() + 2 * 3_600_000).toISOString()];
    const lines = [
      { at, kind: "intent", attempt, base_url: baseUrl, account: accountOf(baseUrl, apiKey), request },
      { at, kind: "unknown", attempt, reason: "x" },
    ];
    writeFileSync(journal, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    const started = createClient({ baseUrl, apiKey, journal }).start(request, { idempotencyKey: attempt });
    expect((await failureOf(started)).code).toBe("unknown");
    expect(posts()).toHaveLength(0);
  },
);

test.each([
  ["an attempt that was not sent hides no unclear one", ["unknown", "unsent"], "unknown"],
  ["one that was dismissed while it ran is resumed", ["accepted", "dismissed"], undefined],
  ["one whose video was deleted stops the start", ["accepted", "removed"], "not_found"],
] as const)("of the attempts with a key, %s", async (_, kinds, code) => {
  const { folder, baseUrl, posts } = await createWorld(honest());
  const journal = join(folder, "journal.jsonl");
  const id = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";
  const attempt = "order-22";
  const intent = { kind: "intent", attempt, base_url: baseUrl, account: accountOf(baseUrl, apiKey), request };
  const lines = kinds.flatMap((kind) => {
    const hasId = kind === "accepted" || kind === "removed";
    const line = { kind, attempt, id: hasId ? id : undefined, reason: "x" };
    return kind === "dismissed" || kind === "removed" ? [line] : [intent, line];
  });
  const at = new Date().toISOString();
  writeFileSync(journal, lines.map((line) => `${JSON.stringify({ at, ...line })}\n`).join(""));
  const started = createClient({ baseUrl, apiKey, journal }).start(request, { idempotencyKey: attempt });
  if (code === undefined) expect(await started).toMatchObject({ id, resumed: true });
  else expect((await failureOf(started)).code).toBe(code);
  expect(posts()).toHaveLength(0);
});

test("a start that is sent again with its key, and refused, stays unclear", async () => {
  const answers: Answer[] = [
    (_, response) => void response.socket?.resetAndDestroy(),
    (_, response) => send(response, 402, { error: "no credits" }),
  ];
  const { baseUrl, posts } = await createWorld((call, response) => {
    response.setHeader("Idempotency-Key-Lifetime", "86400");
    if (call.method === "GET") return send(response, 404, { error: "not found" });
    (answers.shift() ?? answers[0] ?? ((_, last) => send(last, 402, { error: "no credits" })))(call, response);
  });
  const client = createHurriedClient({ baseUrl, apiKey });
  const error = await failureOf(client.start(request, { idempotencyKey: "order-21" }));
  expect(error).toMatchObject({ code: "unknown", idempotencyKey: "order-21" });
  expect(new Set(posts().map(({ headers }) => headers["idempotency-key"]))).toEqual(new Set(["order-21"]));
});

test("a video as bytes, and to a stream that gets nothing before it is whole", async () => {
  const { client } = await createWorld(honest());
  const { id } = await client.start(request);
  const { bytes, status } = await client.download(id, { to: "bytes" });
  expect([Buffer.from(bytes), status]).toEqual([Buffer.from(video), "completed"]);
  const received: Uint8Array[] = [];
  let isClosed = false;
  const to = new WritableStream<Uint8Array>({
    write: (chunk) => void received.push(chunk),
    close() {
      isClosed = true;
    },
  });
  await client.download(id, { to });
  expect([Buffer.concat(received), isClosed]).toEqual([Buffer.from(video), true]);
});

test("a stream that breaks is `output`, and a video that is cut reaches no stream", async () => {
  const { client } = await createWorld(honest());
  const { id } = await client.start(request);
  const broken = new WritableStream({
    write: () => {
      throw new Error("gone");
    },
  });
  expect((await failureOf(client.download(id, { to: broken }))).code).toBe("output");

  const cutting = await createWorld((call, response) => {
    if (!call.url.endsWith(".mp4")) return honest()(call, response);
    response.writeHead(200, { "Content-Length": video.length }).write(video.subarray(0, 10));
    response.destroy();
  });
  const written: unknown[] = [];
  const to = new WritableStream({ write: (chunk) => void written.push(chunk) });
  const how = { timeoutMs: 3_000, intervalMs: 1_000 };
  await failureOf(
    cutting.client.download(
      (await cutting.client.start(request)).id,
      { to },
      { ...how, signal: AbortSignal.timeout(4_000) },
    ),
  );
  expect(written).toEqual([]);
});

test("an error has the request's name and its reply's headers, without cookies", async () => {
  const { client } = await createWorld((_, response) => {
    response.setHeader("X-Request-Id", "req-7").setHeader("Set-Cookie", "a=canary");
    send(response, 400, { error: "no such model" });
  });
  const error = await failureOf(client.start(request));
  expect(error).toMatchObject({ code: "rejected", httpStatus: 400, requestId: "req-7" });
  expect(JSON.stringify(error.headers)).not.toContain("canary");
});

test("close ends what is under way, and lets go of it", async () => {
  const { client, folder, baseUrl } = await createWorld((call, response) =>
    call.method === "POST" ? honest()(call, response) : send(response, 200, { id: "x", status: "processing" }),
  );
  const journal = join(folder, "journal.jsonl");
  const other = createClient({ baseUrl, apiKey, journal });
  const following = failureOf(other.generate(request));
  while ((await client.status("x").catch(() => undefined)) && (await other.generations.list()).length === 0);
  await other.close();
  expect((await following).name).toBe("AbortError");
  expect((await failureOf(other.status("x"))).name).toBe("AbortError");
  expect(readdirSync(folder).filter((name) => name.includes("lease"))).toEqual([]);
});

test("what was left is listed, and gone on with", async () => {
  const { client, folder, baseUrl, posts } = await createWorld(honest());
  expect((await failureOf(client.generations.list())).code).toBe("usage");
  const create = () => createClient({ baseUrl, apiKey, journal: join(folder, "journal.jsonl") });
  const { id, idempotencyKey } = await create().start(request);
  expect(await create().generations.list()).toMatchObject([
    { id, idempotencyKey, status: "processing", request, credits: 10 },
  ]);
  expect(await create().generations.get(id)).toMatchObject({ idempotencyKey });
  expect(await create().generations.get("another")).toBeUndefined();
  expect(await create().generations.resume()).toEqual([
    { id, idempotencyKey, file: undefined, videoUrl: expect.stringContaining(".mp4"), error: undefined },
  ]);
  expect(await create().generations.resume()).toEqual([]);
  expect(posts()).toHaveLength(1);
});

test("what a crash has left is resumed where its start said, whatever the folder of the process, four at a time", async () => {
  let downloads = 0;
  let most = 0;
  const { folder, baseUrl, posts } = await createWorld(({ url, headers }, response) => {
    const video_url = `http://${headers.host}/fox.mp4`;
    if (!url.endsWith(".mp4")) return send(response, 200, { id: url.split("=")[1], status: "completed", video_url });
    most = Math.max(most, ++downloads);
    setTimeout(() => {
      downloads--;
      response.writeHead(200, { "Content-Length": video.length }).end(video);
    }, 50);
  });
  const journal = join(folder, "journal.jsonl");
  const at = new Date().toISOString();
  const ids = Array.from({ length: 6 }, (_, i) => `1b4e28ba-2fa1-41d2-883f-00000000000${i}`);
  const attemptOf = (i: number) => `0000000${i}-0000-4000-8000-000000000000`;
  const lines = ids.flatMap((id, i) => [
    {
      kind: "intent",
      attempt: attemptOf(i),
      base_url: baseUrl,
      account: accountOf(baseUrl, apiKey),
      request,
      place: `${i}.mp4`,
      path: join(folder, `${i}.mp4`),
    },
    { kind: "accepted", attempt: attemptOf(i), id },
    { kind: "part", file: join(folder, `${i}.mp4.0000000${i}.part`), attempt: attemptOf(i) },
  ]);
  writeFileSync(journal, lines.map((line) => `${JSON.stringify({ at, ...line })}\n`).join(""));
  for (const i of ids.keys()) writeFileSync(join(folder, `${i}.mp4.0000000${i}.part`), "");
  const resumed = await createClient({ baseUrl, apiKey, journal }).generations.resume();
  expect(resumed.map(({ file, error }) => [file, error])).toEqual(
    ids.map((_, i) => [join(folder, `${5 - i}.mp4`), undefined]),
  );
  expect(most).toBeLessThanOrEqual(4);
  expect(posts()).toEqual([]);
});

test("images are paths, addresses and bytes; what the service may not know goes into extra", async () => {
  const { client, folder, posts } = await createWorld(honest());
  const png = Buffer.from("\x89PNG\r\n\x1a\nrest", "latin1");
  writeFileSync(join(folder, "fox.png"), png);
  const address = `data:image/png;base64,${png.toString("base64")}`;
  for (const image of [png, join(folder, "fox.png"), new URL("https://images.example/fox.png")])
    await client.start({ ...request, duration: 5, images: [image], extra: { seed: 7 } });
  const sent = { ...request, duration: 5, seed: 7 };
  const images = [address, address, "https://images.example/fox.png"];
  expect(posts().map(({ body }) => JSON.parse(body))).toEqual(images.map((imageUrl) => ({ ...sent, imageUrl })));
  const bad = [{ imageURL: "x" }, { duration: "5" }, { images: [Buffer.from("text")] }, { aspectRatio: "tall" }];
  for (const fields of bad) {
    const typed = { ...request, ...fields } as unknown as GenerationRequest;
    expect((await failureOf(client.start(typed))).code).toBe("usage");
  }
  expect(posts()).toHaveLength(3);
});

test("a fetch of the program's own: what it rejects with counts as sent, unless it says that it was not", async () => {
  const { baseUrl, posts, folder } = await createWorld(honest());
  const withFetch = (fetch: typeof globalThis.fetch) => createHurriedClient({ baseUrl, apiKey, fetch });
  const done = await withFetch(fetch).generate(request, { output: `${folder}/` });
  expect([readFileSync(done.file ?? ""), posts()[0]?.headers.authorization]).toEqual([
    Buffer.from(video),
    `Bearer ${apiKey}`,
  ]);
  const reject = (sent: boolean | undefined) => () =>
    Promise.reject(Object.assign(new Error("ECONNREFUSED"), { sent }));
  expect((await failureOf(withFetch(reject(undefined)).start(request))).code).toBe("unknown");
  const signal = AbortSignal.timeout(300);
  expect(await failureOf(withFetch(reject(false)).start(request, { signal }))).toMatchObject({
    ...{ name: "AbortError", message: expect.stringContaining("Nothing was sent") },
  });
  expect(posts()).toHaveLength(1);
});

test("close ends a start whose body never ends, with a fetch that ignores its signal", async () => {
  const { baseUrl } = await createWorld(honest());
  const endless = async () => new Response(new ReadableStream({ start() {} }), { status: 200 });
  const client = createClient({ baseUrl, apiKey, fetch: endless });
  const starting = failureOf(client.status("x"));
  await client.close();
  expect((await starting).name).toBe("AbortError");
});

test("address, key and journal are those of the environment", async () => {
  expect(() => createClient()).toThrow(
    expect.objectContaining({
      message: "No base URL: pass baseUrl, or set VIDGEN_BASE_URL.",
      hint: expect.stringContaining("`npx vidgen serve`"),
    }),
  );
  const { baseUrl, folder, posts } = await createWorld(honest());
  for (const [name, value] of Object.entries({ VIDGEN_BASE_URL: baseUrl, VIDGEN_API_KEY: apiKey, VIDGEN_HOME: folder }))
    vi.stubEnv(name, value);
  onTestFinished(() => void vi.unstubAllEnvs());
  const { idempotencyKey } = await createClient({ journal: true }).start(request);
  expect(posts()[0]?.headers.authorization).toBe(`Bearer ${apiKey}`);
  expect(readFileSync(join(folder, "journal.jsonl"), "utf8")).toContain(idempotencyKey);
  vi.unstubAllEnvs();
});

test("a callback is read when its signature is good, in the web's form and in Node's", async () => {
  const secret = `whsec_${Buffer.from("a secret of 24 bytes or so").toString("base64")}`;
  const body = JSON.stringify({ id: "x", status: "completed", video_url: "https://media.example/x.mp4" });
  const sign = (date: Date) => ({
    "Webhook-Id": "msg_1",
    "Webhook-Timestamp": String(Math.floor(date.getTime() / 1_000)),
    "Webhook-Signature": new Webhook(secret).sign("msg_1", date, body),
  });
  const headers = sign(new Date());
  const event = { id: "x", status: "completed", videoUrl: "https://media.example/x.mp4", webhookId: "msg_1" };
  const request = new Request("http://app.example/", { method: "POST", headers, body });
  expect(await verifyCallback(request, secret)).toMatchObject(event);
  expect(await verifyCallback({ headers, body: Buffer.from(body) }, secret)).toMatchObject(event);
  const old = sign(new Date(Date.now() - 6 * 60_000));
  const forged = [
    { headers, body: body.replace("x.mp4", "y.mp4") },
    { headers: old, body },
    { headers: {}, body },
  ];
  for (const each of forged) expect((await failureOf(verifyCallback(each, secret))).code).toBe("auth");
  expect((await failureOf(verifyCallback({ headers, body }, "no secret!"))).code).toBe("usage");
  const parsed = { headers, body: JSON.parse(body) };
  expect(await failureOf(verifyCallback(parsed, secret))).toMatchObject({
    code: "usage",
    message: expect.stringContaining("text or bytes"),
  });
});

test("what the service warns about is a note and in the result, and a warning of the AI SDK", async () => {
  const warnings = ["Previews do not show mood."];
  const notes: string[] = [];
  const { client, baseUrl } = await createWorld(
    (_, response) => send(response, 200, { success: true, data: { id: "gen-1", status: "processing" }, warnings }),
    { onNote: (note) => notes.push(note) },
  );
  expect(await client.start(request)).toMatchObject({ warnings });
  expect(notes).toEqual(["The service warns: Previews do not show mood."]);
  const call = { ...noOptions, prompt: "a fox", n: 1, providerOptions: {} };
  const started = await createVidgen({ baseUrl, apiKey })("ray-3").doStart(call);
  expect(started.warnings).toEqual([{ type: "other", message: warnings[0] }]);
});

/** The options that a call of the AI SDK leaves out. */
const noOptions = {
  ...{ aspectRatio: undefined, resolution: undefined, duration: undefined, fps: undefined, seed: undefined },
  ...{ generateAudio: undefined, image: undefined, frameImages: undefined, inputReferences: undefined },
};

test("an option of the provider for the AI SDK stays where the call leaves it out, and the call's own has precedence", async () => {
  const { baseUrl, posts } = await createWorld(honest());
  const model = createVidgen({ baseUrl, apiKey })("ray-3");
  const call = { ...noOptions, prompt: "a fox", n: 1 };
  const providerOptions = { vidgen: { fps: 24, seed: 7, generate_audio: true, negative_prompt: "rain" } };
  await model.doStart({ ...call, providerOptions });
  await model.doStart({ ...call, seed: 8, providerOptions });
  const body = { prompt: "a fox", model: "ray-3", fps: 24, generate_audio: true, negative_prompt: "rain" };
  expect(posts().map(({ body }) => JSON.parse(body))).toEqual([
    { ...body, seed: 7 },
    { ...body, seed: 8 },
  ]);
});

test.each([
  ["prompt.txt", "Pass the text of this file as the prompt"],
  ["fox.mov", "Pass it in from"],
  ["https://example.com/fox.jpg", "Pass it in images"],
  ["C:\\Users\\mia\\fox.png", "Pass it in images"],
])("the prompt %j is refused before anything is paid, and exactPrompt sends it", async (prompt, advice) => {
  const journal = join(makeFolder(), "journal.jsonl");
  const { client, folder, posts, baseUrl } = await createWorld(honest("2b4e28ba-2fa1-41d2-883f-0016d3cca427"), {
    journal,
  });
  const home = process.cwd();
  onTestFinished(() => process.chdir(home));
  process.chdir(folder);
  const typed = { ...request, prompt };
  const meant = { ...typed, exactPrompt: true };
  const provider = createVidgen({ baseUrl, apiKey });
  const start = (options: { exactPrompt?: true }) =>
    provider("wan-2.5").doStart({ ...noOptions, prompt, n: 1, providerOptions: { vidgen: options } });
  const rows = async (rowRequest: GenerationRequest) => {
    for await (const event of client.batch([{ request: rowRequest }], { results: "rows.jsonl" }))
      if (event.event === "summary") return event;
  };
  // As an earlier version has started it: it is resumed.
  await client.start(meant, { idempotencyKey: "order-1" });
  for (const name of ["prompt.txt", "fox.mov", "fox.png"]) writeFileSync(name, "content");
  expect(await client.start(typed, { idempotencyKey: "order-1" })).toMatchObject({ resumed: true });
  for (const refused of [
    () => client.start(typed),
    () => client.generate(typed),
    () => client.start(typed, { idempotencyKey: "order-2" }),
    () => start({}),
    () => rows(typed),
  ]) {
    const { code, message, hint = "" } = await failureOf(refused());
    expect([code, `${message} ${hint}`]).toEqual([
      "usage",
      expect.stringMatching(new RegExp(`${advice}[^]*exactPrompt: true`)),
    ]);
  }
  expect(posts()).toHaveLength(1);
  await client.start(meant);
  await start({ exactPrompt: true });
  await rows(meant);
  expect(posts().map(({ body }) => JSON.parse(body))).toEqual(Array.from({ length: 4 }, () => typed));
});
