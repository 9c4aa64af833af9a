import { type EventEmitter, getEventListeners, once } from "node:events";
import { createServer as createHttpServer, type ServerResponse } from "node:http";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import process from "node:process";
import { expect, onTestFinished, test, vi } from "vitest";
import { endProcess } from "../../src/cli/system.ts";
import { isFinalConnectFailure } from "../../src/client/http/retry.ts";
import { systemCode } from "../../src/errors.ts";
import type { FetchInit, HttpResponse, Io } from "../../src/io.ts";
import { openRealIo } from "../real-io.ts";

/** The real `Io`, of which nothing is left after the test. */
function createIo(): Io {
  const { io, close } = openRealIo();
  onTestFinished(() => {
    close();
    vi.unstubAllEnvs();
  });
  return io;
}

/** Listens on a free port until the test ends, and returns its address. */
async function listen(server: Server): Promise<string> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => sockets.add(socket.on("error", () => {})));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function serve(onRequest: (socket: Socket) => void): Promise<string> {
  return listen(createServer((socket) => void socket.once("data", () => onRequest(socket))));
}

/** An https address that takes connections and never says a word: whoever calls it goes on connecting. */
async function listenInSilence(): Promise<{ url: string; accepted: Promise<Socket> }> {
  const server = createServer();
  const accepted = once(server, "connection").then(([socket]: Socket[]) => socket as Socket);
  return { url: (await listen(server)).replace("http:", "https:"), accepted };
}

function post(io: Io, url: string, init: FetchInit = {}) {
  return io.fetch(url, { method: "POST", headers: { "Idempotency-Key": "attempt-1" }, body: "{}", ...init });
}

async function failureOf(fetching: Promise<HttpResponse>): Promise<Error & { sent?: boolean }> {
  return fetching.then(
    () => expect.fail("it was answered"),
    (error) => error,
  );
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

test("nothing was sent to a port that refuses", async () => {
  const server = createServer();
  const url = await listen(server);
  server.close();
  await once(server, "close");
  const failure = await failureOf(post(createIo(), url));
  expect(failure.sent).toBe(false);
  expect(systemCode(failure)).toBe("ECONNREFUSED");
});

test("nothing was sent where TLS fails, and time does not mend that", async () => {
  const url = await serve((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
  const failure = await failureOf(post(createIo(), url.replace("http:", "https:")));
  expect(failure.sent).toBe(false);
  expect(isFinalConnectFailure(systemCode(failure), url)).toBe(true);
});

test("it was sent when the connection is reset after the request was read", async () => {
  const url = await serve((socket) => socket.resetAndDestroy());
  const failure = await failureOf(post(createIo(), url));
  expect(failure.sent).toBe(true);
  expect(systemCode(failure)).toMatch(/^(ECONNRESET|UND_ERR_SOCKET)$/);
});

test("it was sent when the connection is reset before the request was read, but after it was written", async () => {
  const sockets: Socket[] = [];
  const server = createServer({ pauseOnConnect: true }, (socket) => sockets.push(socket));
  const url = await listen(server);
  const accepted = once(server, "connection");
  const beforeSend = () => void accepted.then(() => setImmediate(() => sockets[0]?.resetAndDestroy()));
  const failure = await failureOf(post(createIo(), url, { beforeSend }));
  expect(failure.sent).toBe(true);
});

test.each([
  ["half a status line", "HTTP/1.1 2"],
  ["half the headers", "HTTP/1.1 200 OK\r\nContent-Len"],
  ["what is no HTTP", "SSH-2.0-OpenSSH_9.6\r\n"],
  ["nothing", ""],
])("it was sent when %s comes back", async (_, reply) => {
  const url = await serve((socket) => socket.end(reply));
  expect(await failureOf(post(createIo(), url))).toMatchObject({ sent: true });
});

test("a reply that breaks off within its body is there, and reading it fails", async () => {
  const url = await serve((socket) => {
    socket.write(ok.slice(0, -1));
    setImmediate(() => socket.destroy());
  });
  const response = await post(createIo(), url);
  expect(response.status).toBe(200);
  await expect(response.text()).rejects.toThrow();
});

test("a request that is aborted while it is out was sent", async () => {
  const controller = new AbortController();
  const url = await serve(() => controller.abort(new Error("time is over")));
  const failure = await failureOf(post(createIo(), url, { signal: controller.signal }));
  expect(failure).toMatchObject({ message: "time is over", sent: true });
});

test("a free request counts as sent, even to a port that refuses", async () => {
  const server = createServer();
  const url = await listen(server);
  server.close();
  expect(await failureOf(createIo().fetch(url))).toMatchObject({ sent: true });
});

test("another request that is sent meanwhile does not make this one sent", async () => {
  const io = createIo();
  const { url: silent, accepted } = await listenInSilence();
  const failing = failureOf(post(io, silent));
  const socket = await accepted;
  const url = await serve((socket) => socket.end(ok));
  await post(io, url, { headers: { "Idempotency-Key": "attempt-2" } });
  socket.resetAndDestroy();
  expect((await failing).sent).toBe(false);
});

test("each POST has a connection of its own, GETs share one", async () => {
  const ports: Record<string, Set<unknown>> = { GET: new Set(), POST: new Set() };
  const server = createHttpServer((request, response) => {
    ports[request.method ?? ""]?.add(request.socket.remotePort);
    response.end("ok");
  });
  const url = await listen(server);
  const io = createIo();
  for (let i = 0; i < 3; i++) {
    await (await io.fetch(url)).text();
    await (await post(io, url)).text();
  }
  expect(ports.GET?.size).toBe(1);
  expect(ports.POST?.size).toBe(3);
});

test.each(["127.0.0.1", "localhost"])("no proxy is asked for %s", async (host) => {
  const proxied = await listen(createServer((socket) => socket.destroy()));
  const url = (await serve((socket) => void socket.end(ok))).replace("127.0.0.1", host);
  const io = createIo();
  vi.stubEnv("no_proxy", "");
  vi.stubEnv("NO_PROXY", "video.example");
  for (const name of ["http_proxy", "HTTP_PROXY"]) vi.stubEnv(name, proxied);
  expect(await (await io.fetch(url)).text()).toBe("ok");
  expect(await (await post(io, url)).text()).toBe("ok");
});

test.each(["127.0.0.1", "localhost"])("no proxy is asked for %s", async (host) => {
  const proxied = await listen(createServer((socket) => socket.destroy()));
  const url = (await serve((socket) => void socket.end(ok))).replace("127.0.0.1", host);
  const io = createIo();
  vi.stubEnv("no_proxy", "");
  vi.stubEnv("NO_PROXY", "video.example");
  for (const name of ["http_proxy", "HTTP_PROXY"]) vi.stubEnv(name, proxied);
  expect(await (await io.fetch(url)).text()).toBe("ok");
  expect(await (await post(io, url)).text()).toBe("ok");
});

test("a thousand looks at once share 64 connections, and no video waits for one of them", async () => {
  const held: ServerResponse[] = [];
  const server = createHttpServer((request, response) => {
    if (request.url === "/video.mp4") response.end("a video");
    else held.push(response);
  });
  const url = await listen(server);
  const io = createIo();
  const looks = Array.from({ length: 1000 }, async () => {
    const reply = await io.fetch(url, { headers: { Authorization: "Bearer a-key" } });
    return reply.text();
  });
  await expect.poll(() => held.length).toBe(64);
  expect(await (await io.fetch(`${url}/video.mp4`)).text()).toBe("a video");
  expect(held.length).toBe(64);
  server.on("request", (_, response) => response.end("a look"));
  for (const response of held) response.end("a look");
  expect(new Set(await Promise.all(looks))).toEqual(new Set(["a look"]));
});

test("what is sent arrives: method, headers and body", async () => {
  let seen = "";
  const url = await listen(
    createServer((socket) => {
      socket.on("data", (chunk) => {
        seen += chunk;
        if (seen.endsWith('{"prompt":"a fox"}')) socket.end(ok);
      });
    }),
  );
  await post(createIo(), `${url}/api/generate`, { body: '{"prompt":"a fox"}' });
  expect(seen).toMatch(/^POST \/api\/generate HTTP\/1\.1\r\n/);
  expect(seen).toMatch(/^idempotency-key: attempt-1\r$/im);
});

test("an unsent signal that is aborted already sends nothing", async () => {
  let connections = 0;
  const url = await listen(createServer(() => connections++));
  const unsentSignal = AbortSignal.abort(new Error("Ctrl-C"));
  const failure = await failureOf(post(createIo(), url, { unsentSignal }));
  expect(failure).toMatchObject({ message: "Ctrl-C", sent: false });
  expect(connections).toBe(0);
});

test("an unsent signal ends a request that is still connecting", async () => {
  const { url, accepted } = await listenInSilence();
  const controller = new AbortController();
  const failing = failureOf(post(createIo(), url, { unsentSignal: controller.signal }));
  await accepted;
  controller.abort(new Error("Ctrl-C"));
  expect(await failing).toMatchObject({ message: "Ctrl-C", sent: false });
});

test("an unsent signal leaves a request alone that was sent", async () => {
  const controller = new AbortController();
  const url = await serve((socket) => {
    controller.abort(new Error("Ctrl-C"));
    setImmediate(() => socket.end(ok));
  });
  const response = await post(createIo(), url, { unsentSignal: controller.signal });
  expect(await response.text()).toBe("ok");
});

test.each([5_000, 0, 2 ** 40])("a sleep of %i ms ends at once when its signal is aborted already", async (ms) => {
  await expect(createIo().sleep(ms, AbortSignal.abort(new Error("stop")))).rejects.toThrow("stop");
});

test("a sleep ends when its signal aborts, and leaves nothing behind", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const controller = new AbortController();
  const sleeping = createIo().sleep(5_000, controller.signal);
  controller.abort(new Error("stop"));
  await expect(sleeping).rejects.toThrow("stop");
  expect(vi.getTimerCount()).toBe(0);
});

test.each([1_000, 2 ** 31, 2 ** 33])("a sleep of %i ms takes that long", async (ms) => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { signal } = new AbortController();
  let isOver = false;
  const sleeping = createIo()
    .sleep(ms, signal)
    .then(() => {
      isOver = true;
    });
  await vi.advanceTimersByTimeAsync(ms - 10);
  expect(isOver).toBe(false);
  await vi.advanceTimersByTimeAsync(10);
  await sleeping;
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
});

test("a limit aborts with its reason when the time is over, not before", () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const reason = new Error("no response");
  const { signal } = createIo().limit(1_000, new AbortController().signal, reason);
  vi.advanceTimersByTime(999);
  expect(signal.aborted).toBe(false);
  vi.advanceTimersByTime(1);
  expect(signal.reason).toBe(reason);
});

test.each([2 ** 31, Number.POSITIVE_INFINITY])("a limit of %d ms does not end at once", (ms) => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { signal } = createIo().limit(ms, new AbortController().signal, new Error("no response"));
  vi.advanceTimersByTime(60_000);
  expect(signal.aborted).toBe(false);
});

test("a limit that is cleared leaves nothing behind and never aborts", () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const parent = new AbortController();
  const { signal, clear } = createIo().limit(1_000, parent.signal, new Error("no response"));
  clear();
  expect(vi.getTimerCount()).toBe(0);
  expect(getEventListeners(parent.signal, "abort")).toHaveLength(0);
  parent.abort();
  expect(signal.aborted).toBe(false);
});

test.each(["before", "after"])("a limit passes on what its parent aborted with %s", (when) => {
  const parent = new AbortController();
  const io = createIo();
  if (when === "before") parent.abort("why");
  const { signal, clear } = io.limit(60_000, parent.signal, new Error("no response"));
  parent.abort("why");
  clear();
  expect(signal.reason).toBe("why");
});

/** What the process would have ended with: its signals and its exit code, in order. */
function watchEnd(): unknown[] {
  const ends: unknown[] = [];
  vi.spyOn(process, "removeAllListeners").mockReturnThis();
  vi.spyOn(process, "kill").mockImplementation((_, signal) => !!ends.push(signal) as true);
  vi.spyOn(process, "exit").mockImplementation((code) => ends.push(code) as never);
  onTestFinished(() => void vi.restoreAllMocks());
  return ends;
}

test.each([
  ["SIGINT", "interrupted", 130],
  ["SIGTERM", "terminated", 143],
] as const)("the first %s asks to stop, the second to leave at once", (name, code, exit) => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const ends = watchEnd();
  vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const before = process.listeners(name);
  const { signal, abandon } = createIo();
  const [press] = process.listeners(name).filter((listener) => !before.includes(listener));
  press?.(name);
  expect(signal.reason).toMatchObject({ code });
  expect(abandon.aborted).toBe(false);
  press?.(name);
  expect(abandon.reason).toMatchObject({ code });
  expect(ends).toEqual([]);
  vi.advanceTimersByTime(3_000);
  // The exit code is for where the signal has no effect. Windows has no signals: there `kill` would end with another code.
  expect(ends).toEqual(process.platform === "win32" ? [exit] : [name, exit]);
});

test.each(["a second signal", "a defect"])("%s ends with 6 while a paid request is out, and says so", (cause) => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const ends = watchEnd();
  const written = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const event = cause === "a defect" ? "uncaughtException" : "SIGTERM";
  const listeners = () => (process as EventEmitter).listeners(event);
  const before = listeners();
  createIo().unsettled.add("attempt-1");
  const [listener] = listeners().filter((listener) => !before.includes(listener));
  for (let i = 0; i < 2; i++) listener?.(new Error("on purpose"));
  vi.advanceTimersByTime(3_000);
  expect(ends[0]).toBe(6);
  expect(written).toHaveBeenCalledWith(
    expect.stringMatching(
      /\w\. The start request was sent: it may have been charged \(attempt attempt-1\)[\s\S]*vidgen list --status unknown/,
    ),
  );
});

test.each([0, 1, 6, 9])("exit code %i is no signal", (code) => {
  const ends = watchEnd();
  endProcess(code);
  expect(ends).toEqual([code]);
});

test("nothing was sent where the proxy's address is none", async () => {
  vi.stubEnv("HTTPS_PROXY", "not an address");
  vi.stubEnv("https_proxy", "not an address");
  const failure = await failureOf(post(createIo(), "https://127.0.0.1:1"));
  expect(failure.sent).toBe(false);
});
