import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createReadStream } from "node:fs";
import { writeFile } from "node:fs/promises";
import { Agent, type IncomingHttpHeaders, type RequestOptions, request } from "node:http";
import { connect } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { setImmediate } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { type Clock, systemClock } from "../../../src/io.ts";
import { type Listening, listen } from "../../../src/server/api/listen.ts";
import { type Handler, streamResponse } from "../../../src/server/http/message.ts";
import { makeFolder } from "../../folder.ts";
import { slowness } from "../../slowness.ts";
import { apiKey, bearer, createTestService, readError } from "../service.ts";
import { readDescription } from "./described.ts";

const loopback = { host: "127.0.0.1", port: 0 };
const json = { "Content-Type": "application/json" };

/** The grace never ends; `close` resolves when the last reply is through. Idle connections are closed at once. */
const patient: Pick<Clock, "now" | "sleep"> = {
  now: () => 0,
  sleep: async (ms, signal) => {
    if (ms >= 1_000) await never(signal);
  },
};
const never = (signal?: AbortSignal) =>
  new Promise<void>((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
/** The grace is over at once. */
const impatient: Pick<Clock, "now" | "sleep"> = { now: () => 0, sleep: async () => {} };

async function open(handler: Handler, clock = impatient, at = loopback): Promise<Listening> {
  const listening = await listen(handler, at, clock);
  onTestFinished(() => listening.close(0));
  return listening;
}

type Reply = { status: number | undefined; headers: IncomingHttpHeaders; body: Buffer };
type Ask = RequestOptions & { body?: string | Buffer };

/** One request by node:http, which sends paths, methods and bodies that fetch would not. */
async function ask(url: string, { body, ...options }: Ask = {}): Promise<Reply> {
  const outgoing = request(url, options);
  outgoing.end(body);
  const [incoming] = await once(outgoing, "response");
  return { status: incoming.statusCode, headers: incoming.headers, body: await buffer(incoming) };
}

/** All requests over one connection, one after the other. */
function oneConnection(): Agent {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  return agent;
}

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await setImmediate();
}

/** A promise, and what resolves it. */
function createGate() {
  let pass = () => {};
  const passed = new Promise<void>((resolve) => {
    pass = resolve;
  });
  return { passed, pass };
}

const hello: Handler = async () => new Response("hello");

test("a handler is reached at the address that the server returns", async () => {
  const { url } = await open(hello);
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:[1-9]\d*$/);
  expect(await (await fetch(url)).text()).toBe("hello");
});

test("method, path, headers and JSON are the same on both sides", async () => {
  const { url } = await open(async (incoming) => {
    const { method, headers } = incoming;
    const seen = { method, url: incoming.url, mine: headers.get("X-Mine"), body: await incoming.json() };
    return Response.json(seen, { status: 418, headers: { "X-Yours": "tea" } });
  });
  const response = await fetch(`${url}/a%20b?c=d`, { method: "POST", headers: { "X-Mine": "1" }, body: '{"ü":[1]}' });
  expect(response.status).toBe(418);
  expect(response.headers.get("X-Yours")).toBe("tea");
  expect(response.headers.get("Content-Type")).toBe("application/json");
  expect(await response.json()).toEqual({ method: "POST", url: `${url}/a%20b?c=d`, mine: "1", body: { ü: [1] } });
});

test("a path that begins with two slashes stays a path", async () => {
  const { url } = await open(async (incoming) => new Response(incoming.url));
  expect(String((await ask(url, { path: "//evil.example/a" })).body)).toBe(`${url}//evil.example/a`);
});

test("several megabytes are the same after an upload and a download", async () => {
  const { url } = await open(async (incoming) => new Response(incoming.body));
  const sent = randomBytes(6_000_000);
  const { body } = await ask(url, { method: "POST", body: sent });
  expect(createHash("sha256").update(body).digest("hex")).toBe(createHash("sha256").update(sent).digest("hex"));
});

test("the reply to HEAD has headers and no body, and the connection stays usable", async () => {
  const { url } = await open(async () => new Response("hello", { headers: { "Content-Length": "5" } }));
  const agent = oneConnection();
  const head = await ask(url, { method: "HEAD", agent });
  expect(head).toMatchObject({ status: 200, headers: { "content-length": "5" } });
  expect(head.body).toHaveLength(0);
  expect(String((await ask(url, { agent })).body)).toBe("hello");
});

test("an idle connection stays open for longer than proxies reuse one", async () => {
  const { url } = await open(hello);
  const { headers } = await ask(url, { agent: oneConnection() });
  expect(Number(/timeout=(\d+)/.exec(String(headers["keep-alive"]))?.[1])).toBeGreaterThanOrEqual(150);
});

test("when a client disconnects during a reply, the file is closed and the server continues", async () => {
  const path = join(makeFolder(), "large");
  await writeFile(path, Buffer.alloc(16_000_000));
  const file = createReadStream(path).on("error", () => {});
  const isClosed = new Promise<void>((resolve) => file.once("close", () => resolve()));
  const { url } = await open(async (incoming, { outgoing } = {}) =>
    incoming.url.endsWith("/large") ? streamResponse(file, { status: 200, headers: {} }, outgoing) : hello(incoming),
  );
  const outgoing = request(`${url}/large`).end();
  const [incoming] = await once(outgoing, "response");
  await once(incoming, "data");
  outgoing.destroy();
  await isClosed;
  expect(file.bytesRead).toBeLessThan(16_000_000);
  expect(String((await ask(url)).body)).toBe("hello");
});

test("when a client disconnects during its request body, the server continues", async () => {
  const started = createGate();
  const failed = createGate();
  const { url } = await open(async (incoming) => {
    if (incoming.method === "GET") return hello(incoming);
    started.pass();
    await incoming.text().catch(failed.pass);
    return new Response();
  });
  const outgoing = request(url, { method: "POST", headers: { "Content-Length": 100 } }).on("error", () => {});
  outgoing.write("only this");
  await started.passed;
  outgoing.destroy();
  await failed.passed;
  expect(String((await ask(url)).body)).toBe("hello");
});

test("a reply that fails halfway does not look complete to the client", async () => {
  const { url } = await open(async (_, { outgoing } = {}) => {
    const parts = async function* () {
      yield "half";
      throw new Error("disk gone");
    };
    return streamResponse(Readable.from(parts()), { status: 200, headers: {} }, outgoing);
  });
  await expect(ask(url)).rejects.toThrow();
});

test("a handler that rejects gives a 500, and the server continues", async () => {
  const { url } = await open((incoming) =>
    incoming.url.endsWith("/bad") ? Promise.reject(new Error("defect")) : hello(incoming),
  );
  const { status, body } = await ask(`${url}/bad`);
  expect([status, JSON.parse(String(body)).error.code]).toEqual([500, "internal"]);
  expect(String((await ask(url)).body)).toBe("hello");
});

test.each(["TRACE", "OPTIONS", "PROPFIND"])("%s is answered with what is allowed", async (method) => {
  const { url } = await open((await createTestService()).api);
  const { status, headers } = await ask(`${url}/api/generate`, { method });
  expect(status).toBe(405);
  expect(headers.allow).toBe("POST");
});

test("a start and its status work over a socket", async () => {
  const service = await createTestService();
  const { url } = await open(service.api);
  const body = JSON.stringify({ prompt: "a fox", model: "sora-2" });
  const headers = { ...bearer(apiKey), ...json };
  const started = await fetch(`${url}/api/generate`, { method: "POST", headers, body });
  const { data } = (await started.json()) as { data: { id: string } };
  await service.rest();
  const status = await fetch(`${url}/api/generation-status?id=${data.id}`, { headers: bearer(apiKey) });
  expect(await status.json()).toMatchObject({ id: data.id, status: "completed" });
});

test.each([
  { what: "too large", method: "POST", headers: { ...bearer(apiKey), ...json }, status: 413 },
  { what: "sent with a wrong key", method: "POST", headers: { ...bearer("wrong"), ...json }, status: 401 },
  { what: "of another type", method: "POST", headers: { ...bearer(apiKey), "Content-Type": "video/mp4" }, status: 415 },
  { what: "sent with a wrong method", method: "PUT", headers: json, status: 405 },
  { what: "sent with GET", method: "GET", headers: { "Content-Length": "29000000" }, status: 405 },
])("a body of 29 MB that is $what: $status, and the next request is answered", async ({ method, headers, status }) => {
  const { url } = await open((await createTestService()).api);
  const agent = oneConnection();
  for (const path of ["/api/generate", "/api/generate"]) {
    const reply = await ask(url + path, { method, headers, agent, body: Buffer.alloc(29_000_000, "x") });
    expect(reply.status).toBe(status);
  }
  expect((await ask(`${url}/api/generation-status`, { agent, headers: bearer(apiKey) })).status).toBe(400);
});

test("fetch can read the 413 for a body over 28 MB", async () => {
  const { url } = await open((await createTestService()).api);
  const body = "x".repeat(28_000_001);
  const response = await fetch(`${url}/api/generate`, {
    method: "POST",
    headers: { ...bearer(apiKey), ...json },
    body,
  });
  expect(response.status).toBe(413);
  expect((await readError(response)).code).toBe("body_too_large");
});

test.each(["/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fpasswd"])(
  "the media address has nothing at %s, as it stands on the wire",
  async (path) => {
    const { url } = await open((await createTestService()).media);
    expect((await ask(url, { path })).status).toBe(404);
  },
);

test("a video is delivered over a socket, whole and in part", async () => {
  const service = await createTestService({ content: "0123456789" });
  const { url } = await open(service.media);
  const path = `/${await service.startId()}.mp4`;
  await service.rest();
  expect(String((await ask(url + path)).body)).toBe("0123456789");
  const part = await ask(url + path, { headers: { Range: "bytes=4-" } });
  expect(part).toMatchObject({ status: 206, headers: { "content-range": "bytes 4-9/10", "content-length": "6" } });
  expect(String(part.body)).toBe("456789");
});

test.each(["[cut]", "[media: cut]"])(
  "%s breaks off over the socket as well, and nothing is printed",
  async (directive) => {
    const print = vi.spyOn(console, "error");
    const service = await createTestService({ content: "0123456789" });
    const { url } = await open((request, bindings) =>
      (request.url.endsWith(".mp4") ? service.media : service.api)(request, bindings),
    );
    const body = JSON.stringify({ prompt: `a fox ${directive}`, model: "sora-2" });
    const read = async (path: string, options: Ask = {}) => {
      const [incoming] = await once(request(url + path, options).end(options.body), "response");
      let text = "";
      incoming.on("data", (chunk: Buffer) => (text += chunk));
      const end = await once(incoming, "end").then(
        () => "whole",
        () => "broken off",
      );
      return [text, end];
    };
    const start = await read("/api/generate", { method: "POST", headers: { ...bearer(apiKey), ...json }, body });
    const id = /"id":"([0-9a-f-]{36})"/.exec(start[0] ?? "")?.[1];
    const isStart = directive === "[cut]";
    if (isStart) expect(start).toEqual([`{"success":true,"data":{"id":"${id}"`, "broken off"]);
    await service.rest();
    if (!isStart) expect(await read(`/${id}.mp4`)).toEqual(["01234", "broken off"]);
    expect(print).not.toHaveBeenCalled();
  },
);

// On a quiet machine less than the 5 s for which Node keeps a connection that nobody uses.
const soon = { timeout: 4_000 * slowness };

test("close waits until a reply in progress has ended", soon, async () => {
  const started = createGate();
  const gate = createGate();
  const listening = await open(async () => {
    started.pass();
    await gate.passed;
    return new Response("late");
  }, patient);
  const reply = ask(listening.url, { agent: oneConnection() });
  await started.passed;
  const closed = listening.close(3_000);
  await turns(10);
  await expect(fetch(listening.url)).rejects.toMatchObject({ cause: { code: "ECONNREFUSED" } });
  gate.pass();
  expect(String((await reply).body)).toBe("late");
  await closed;
});

test("close does not wait for a connection whose last reply has ended", soon, async () => {
  const rest = createGate();
  const listening = await open(async (_, { outgoing } = {}) => {
    const parts = async function* () {
      yield "one, ";
      await rest.passed;
      yield "two";
    };
    return streamResponse(Readable.from(parts()), { status: 200, headers: {} }, outgoing);
  }, patient);
  const [incoming] = await once(request(listening.url, { agent: oneConnection() }).end(), "response");
  const closed = listening.close(3_000);
  rest.pass();
  expect(String(await buffer(incoming))).toBe("one, two");
  await closed;
});

test("close does not wait for an idle connection", soon, async () => {
  const listening = await open(hello, patient);
  await ask(listening.url, { agent: oneConnection() });
  await listening.close(3_000);
});

test("close ends a connection that was never used", soon, async () => {
  const listening = await open(hello, patient);
  const socket = connect(Number(new URL(listening.url).port), "127.0.0.1").on("error", () => {});
  await once(socket, "connect");
  await ask(listening.url);
  await listening.close(3_000);
});

test("a reply that begins after close has Connection: close", soon, async () => {
  const started = createGate();
  const gate = createGate();
  const listening = await open(async () => {
    started.pass();
    await gate.passed;
    return new Response("late");
  }, patient);
  const reply = ask(listening.url, { agent: oneConnection() });
  await started.passed;
  const closed = listening.close(3_000);
  gate.pass();
  expect((await reply).headers.connection).toBe("close");
  await closed;
});

test("close cuts a reply that is still unfinished after the grace period", async () => {
  const started = createGate();
  const slept: number[] = [];
  const clock = { now: () => 0, sleep: async (ms: number) => void slept.push(ms) };
  const listening = await open(async () => {
    started.pass();
    return new Promise<Response>(() => {});
  }, clock);
  const reply = ask(listening.url);
  await started.passed;
  const cut = expect(reply).rejects.toMatchObject({ code: "ECONNRESET" });
  await listening.close(3_000);
  await cut;
  expect(slept).toEqual([300, 3_000]);
});

test("each request that arrives while the service closes is answered", soon, async () => {
  const { url, close } = await open(hello, systemClock);
  let answered = 0;
  const outcomes = new Set<string>();
  const client = async () => {
    const agent = oneConnection();
    for (;;) {
      try {
        await ask(url, { agent });
        answered++;
      } catch (error) {
        return outcomes.add(String((error as NodeJS.ErrnoException).code));
      }
    }
  };
  const clients = Array.from({ length: 20 }, client);
  while (answered < 200) await turns(1);
  await close(3_000);
  await Promise.all(clients);
  expect([...outcomes]).toEqual(["ECONNREFUSED"]);
});

test("very many idle connections keep no client out, and no request is cut for another one", async () => {
  const [arrival, gate] = [createGate(), createGate()];
  const late: Handler = async ({ url }) => {
    if (!url.endsWith("/late")) return new Response("hello");
    arrival.pass();
    await gate.passed;
    return new Response("hello");
  };
  let now = 0;
  const limits = { maxConnections: 4, spareConnections: 12 };
  const { url, close } = await listen(late, { ...loopback, limits }, { ...impatient, now: () => now });
  onTestFinished(() => close(0));
  const first = ask(`${url}/late`);
  await arrival.passed;
  const crowd = Array.from({ length: 12 }, () => connect(Number(new URL(url).port), "127.0.0.1").on("error", () => {}));
  onTestFinished(() => crowd.forEach((socket) => void socket.destroy()));
  await Promise.all(crowd.map((socket) => once(socket, "connect")));
  for (let i = 0; i < 30; i++) {
    now += 2_000;
    expect(String((await ask(url, { agent: oneConnection() })).body)).toBe("hello");
  }
  gate.pass();
  expect(String((await first).body)).toBe("hello");
});

test("above the limit, the connection that has been silent longest after a request is closed, and an unused one after 2 s", async () => {
  let now = 0;
  const limits = { maxConnections: 3, headersTimeout: 60_000 };
  const { url, close } = await listen(hello, { ...loopback, limits }, { ...impatient, now: () => now });
  onTestFinished(() => close(0));
  const isOpen = new Map<string, boolean>();
  const dial = async (name: string, sent: string) => {
    const socket = connect(Number(new URL(url).port), "127.0.0.1").on("error", () => {});
    onTestFinished(() => void socket.destroy());
    isOpen.set(name, true);
    socket.once("close", () => isOpen.set(name, false));
    await once(socket, "connect");
    if (sent !== "") socket.write(sent);
    if (sent.endsWith("\r\n\r\n")) await once(socket, "data");
    else await turns(20);
    return socket.resume();
  };
  const openOnes = () => [...isOpen].flatMap(([name, open]) => (open ? [name] : []));
  const get = `GET / HTTP/1.1\r\nHost: ${new URL(url).host}\r\n\r\n`;
  await dial("half a head", get.slice(0, 20));
  await dial("used", get);
  await dial("unused", "");
  now = 1_000;
  await dial("one", get);
  await expect.poll(openOnes).toEqual(["half a head", "unused", "one"]);
  // None is silent for long enough.
  await dial("two", get);
  expect(openOnes()).toEqual(["half a head", "unused", "one", "two"]);
  now = 2_000;
  await dial("three", get);
  await expect.poll(openOnes).toEqual(["half a head", "unused", "three"]);
  await dial("four", get);
  await expect.poll(openOnes).toEqual(["half a head", "three", "four"]);
});

test("a connection on which a paid request may be arriving is not closed for others; above the spare ones a new connection is", async () => {
  const limits = { maxConnections: 2, spareConnections: 2 };
  const { url, close } = await listen(hello, { ...loopback, limits }, impatient);
  onTestFinished(() => close(0));
  const open = Array.from({ length: 4 }, () => connect(Number(new URL(url).port), "127.0.0.1").on("error", () => {}));
  onTestFinished(() => open.forEach((socket) => void socket.destroy()));
  await Promise.all(open.map((socket) => once(socket, "connect")));
  await expect(ask(url, { agent: false })).rejects.toThrow();
  const get = `GET / HTTP/1.1\r\nHost: ${new URL(url).host}\r\n\r\n`;
  const replies = open.map((socket) => once(socket.end(get), "data"));
  for (const reply of replies) expect(String(await reply)).toContain("200 OK");
});

test("a request on a connection above the limit is answered, however many there are", async () => {
  const { url, close } = await listen(hello, { ...loopback, limits: { maxConnections: 3 } }, impatient);
  onTestFinished(() => close(0));
  const unused = Array.from({ length: 3 }, () => connect(Number(new URL(url).port), "127.0.0.1").on("error", () => {}));
  onTestFinished(() => unused.forEach((socket) => void socket.destroy()));
  await Promise.all(unused.map((socket) => once(socket, "connect")));
  const replies = await Promise.all(Array.from({ length: 300 }, () => ask(url, { agent: false })));
  expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
});

test("above the limit of requests in progress, only the routes that document a 429 refuse", async () => {
  const { api } = await createTestService();
  const { url, close } = await listen(api, { ...loopback, limits: { maxRequests: 0 } }, impatient);
  onTestFinished(() => close(0));
  const description = await readDescription(api, url);
  const [refused, described]: [string[], string[]] = [[], []];
  for (const [path, operations] of Object.entries(description.paths)) {
    for (const [method, { responses }] of Object.entries(operations)) {
      const route = `${method} ${path}`;
      if (JSON.stringify(responses[429] ?? "").includes("Busy")) described.push(route);
      const reply = await ask(`${url}${path}?x=y`, { method: method.toUpperCase(), headers: json });
      if (reply.status !== 429) continue;
      refused.push(route);
      expect([JSON.parse(String(reply.body)).error.code, reply.headers["retry-after"]]).toEqual(["busy", "5"]);
    }
  }
  expect(refused).toEqual(described);
  const taken = Object.entries(description.paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method} ${path}`),
  );
  expect(taken.filter((route) => !refused.includes(route))).toEqual([
    "post /api/generate",
    "post /v1/videos",
    "get /healthz",
  ]);
});

test("a request counts as in progress until its reply has ended or its client has gone", async () => {
  const gate = createGate();
  const late: Handler = async ({ url }, { leaveLimit } = {}) => {
    if (url.endsWith("/stream")) leaveLimit?.();
    if (!url.endsWith("/")) await gate.passed;
    return new Response("hello");
  };
  const { url, close } = await listen(late, { ...loopback, limits: { maxRequests: 2 } }, impatient);
  onTestFinished(() => close(0));
  const statusNow = async (body?: Buffer) =>
    (await ask(url, { method: body ? "POST" : "GET", body: body ?? "" })).status;
  const streams = [ask(`${url}/stream`), ask(`${url}/stream`), ask(`${url}/stream`)];
  const [first] = [ask(`${url}/late`)];
  expect(await statusNow()).toBe(200);
  const leaving = request(`${url}/late`).on("error", () => {});
  leaving.end();
  await expect.poll(() => statusNow()).toBe(429);
  expect(await statusNow(randomBytes(5_000_000)), "a body is read to its end").toBe(429);
  leaving.destroy();
  await expect.poll(() => statusNow()).toBe(200);
  const second = ask(`${url}/late`);
  await expect.poll(() => statusNow()).toBe(429);
  gate.pass();
  for (const reply of [first, second, ...streams]) expect((await reply)?.status).toBe(200);
  expect(await statusNow()).toBe(200);
});

test("a port in use rejects with the system's error", async () => {
  const { url } = await open(hello);
  const at = { ...loopback, port: Number(new URL(url).port) };
  await expect(listen(hello, at, impatient)).rejects.toMatchObject({ code: "EADDRINUSE" });
});

test("an IPv6 address is written in brackets", async () => {
  const has = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === "::1"));
  const opened = open(hello, impatient, { host: "::1", port: 0 });
  if (!has)
    return expect(opened).rejects.toMatchObject({ code: expect.stringMatching(/^EADDRNOTAVAIL|EAFNOSUPPORT$/) });
  const { url } = await opened;
  expect(url).toMatch(/^http:\/\/\[::1\]:\d+$/);
  expect(await (await fetch(url)).text()).toBe("hello");
});
