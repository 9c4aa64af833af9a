import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import type { Server } from "node:http";
import { Readable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { type Handler, streamResponse } from "../../../src/server/http/message.ts";
import { slowness } from "../../slowness.ts";
import { dial, errorCode, open, read, say } from "../api/wire.ts";

const hello: Handler = async () => new Response("hello");
const echo: Handler = async (request) => new Response(await request.text());

const good = "GET / HTTP/1.1\r\nHost: %h\r\nConnection: close\r\n\r\n";
const post = (headers: string, body: string) => `POST / HTTP/1.1\r\nHost: %h\r\n${headers}\r\n\r\n${body}`;

test.each([
  { what: "no HTTP", request: "hello\r\n\r\n", status: 400 },
  { what: "TLS", request: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", status: 400 },
  { what: "HTTP/2", request: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", status: 400 },
  { what: "HTTP/0.9", request: "GET /\r\n\r\n", status: 400 },
  { what: "HTTP/3.7", request: "GET / HTTP/3.7\r\nHost: %h\r\n\r\n", status: 400 },
  { what: "an unknown method", request: "FETCH / HTTP/1.1\r\nHost: %h\r\n\r\n", status: 400 },
  { what: "a space in a header's name", request: "GET / HTTP/1.1\r\nHost : %h\r\n\r\n", status: 400 },
  { what: "a header without a colon", request: "GET / HTTP/1.1\r\nHost %h\r\n\r\n", status: 400 },
  { what: "a NUL in a header", request: "GET / HTTP/1.1\r\nHost: %h\r\nX: a\0b\r\n\r\n", status: 400 },
  { what: "two lengths", request: post("Content-Length: 1\r\nContent-Length: 2", "ab"), status: 400 },
  {
    what: "a length and chunks",
    request: post("Content-Length: 1\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
    status: 400,
  },
  { what: "a negative length", request: post("Content-Length: -1", ""), status: 400 },
  { what: "a bad chunk", request: post("Transfer-Encoding: chunked", "zz\r\n"), status: 400 },
  { what: "an unknown coding", request: post("Transfer-Encoding: gzip", "x"), status: 400 },
  {
    what: "headers over 16 KiB",
    request: `GET / HTTP/1.1\r\nHost: %h\r\nX: ${"x".repeat(17_000)}\r\n\r\n`,
    status: 431,
  },
  { what: "a path over 16 KiB", request: `GET /${"x".repeat(17_000)} HTTP/1.1\r\nHost: %h\r\n\r\n`, status: 431 },
  {
    what: "a megabyte of headers",
    request: `GET / HTTP/1.1\r\nHost: %h\r\n${"X: y\r\n".repeat(170_000)}\r\n`,
    status: 431,
  },
  { what: "CONNECT", request: "CONNECT evil.example:443 HTTP/1.1\r\nHost: %h\r\n\r\n", status: 405 },
  {
    what: "an unknown Expect",
    request: "GET / HTTP/1.1\r\nHost: %h\r\nExpect: tea\r\nConnection: close\r\n\r\n",
    status: 417,
  },
])("$what: $status with the service's error, and the next client is served", async ({ request, status }) => {
  const { port } = await open(echo);
  errorCode(await say(port, request), status);
  expect(await say(port, good)).toMatch(/^HTTP\/1\.1 200 /);
});

test.each([
  { what: "Upgrade", lines: "Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x" },
  { what: "h2c", lines: "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: x" },
])("$what is answered as if it did not ask for a change of protocol", async ({ lines }) => {
  const { port } = await open(hello);
  expect(await say(port, `GET / HTTP/1.1\r\nHost: %h\r\n${lines}\r\n\r\n`)).toMatch(/^HTTP\/1\.1 200 .*hello/s);
});

test("Expect: 100-continue is answered before the request", async () => {
  const { port } = await open(echo);
  const reply = await say(port, post("Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close", "ab"));
  expect(reply).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 .*ab/s);
});

test("a malformed request does not replace the reply to the valid request before it", async () => {
  let pass = () => {};
  const passed = new Promise<void>((resolve) => {
    pass = resolve;
  });
  const { port } = await open(async () => {
    await passed;
    return new Response("hello");
  });
  const socket = dial(port);
  const all = read(socket);
  socket.write(`GET / HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\nnonsense\r\n\r\n`);
  // Another connection's round trip: by then the nonsense was read.
  await say(port, "nonsense\r\n\r\n");
  pass();
  const [first = "", second = ""] = (await all).split(/(?=HTTP\/1\.1 400)/);
  expect(first).toMatch(/^HTTP\/1\.1 200 .*hello/s);
  expect(errorCode(second, 400)).toBe("malformed_request");
});

test.each([
  { what: "a bad chunk", sent: post("Transfer-Encoding: chunked", "zz\r\n"), status: 400 },
  { what: "CONNECT", sent: "CONNECT evil.example:443 HTTP/1.1\r\nHost: %h\r\n\r\n", status: 405 },
])("$what after good requests is answered after these", async ({ sent, status }) => {
  const seen: string[] = [];
  const { port } = await open(async (request) => {
    seen.push(request.url);
    // Time for the next ones to be read.
    await say(port, "nonsense\r\n\r\n");
    return new Response("hello");
  });
  const good = (path: string) => `GET ${path} HTTP/1.1\r\nHost: %h\r\n\r\n`;
  const [first, second, last = "", ...others] = (await say(port, good("/a") + good("/b") + sent)).split(
    /(?=HTTP\/1\.1)/,
  );
  expect(first).toMatch(/^HTTP\/1\.1 200 .*hello/s);
  expect(second).toMatch(/^HTTP\/1\.1 200 .*hello/s);
  errorCode(last, status);
  expect(others).toEqual([]);
  expect(seen).toHaveLength(2);
});

test("pipelined requests are handled one at a time and answered in order", async () => {
  let [underWay, most] = [0, 0];
  const { port } = await open(async (request) => {
    most = Math.max(most, ++underWay);
    await say(port, "nonsense\r\n\r\n");
    underWay--;
    return new Response(new URL(request.url).pathname);
  });
  const requests = ["/a", "/b", "/c", "/d"].map((path) => `GET ${path} HTTP/1.1\r\nHost: %h\r\n`);
  const replies = await say(port, `${requests.join("\r\n")}Connection: close\r\n\r\n`);
  expect(replies.match(/\/[a-d](?=HTTP|$)/g)).toEqual(["/a", "/b", "/c", "/d"]);
  expect(most).toBe(1);
});

test("a client has 10 s for the headers and an hour for the whole request, because an upload may be slow", async () => {
  const limits: unknown[] = [];
  const watch = (message: unknown) => {
    const { server } = message as { server: Server };
    limits.push([server.headersTimeout, server.requestTimeout]);
  };
  subscribe("http.server.request.start", watch);
  onTestFinished(() => void unsubscribe("http.server.request.start", watch));
  const { port } = await open(hello);
  await say(port, good);
  expect(limits).toEqual([[10_000, 3_600_000]]);
});

const soon = { headersTimeout: 100, requestTimeout: 200, connectionsCheckingInterval: 50 };

test.each([
  { what: "says nothing", sent: "" },
  { what: "stops in its request line", sent: "GET /" },
  { what: "stops in its headers", sent: "GET / HTTP/1.1\r\nHost: %h\r\n" },
  { what: "stops in its body", sent: post("Content-Length: 100", "ab") },
])("a client that $what is told so and cut", async ({ sent }) => {
  const { port } = await open(echo, { limits: soon });
  expect(errorCode(await say(port, sent), 408)).toBe("request_timeout");
});

const pausing = { uploadTimeout: Math.round(200 * slowness), stalledTimeout: 50 };

test("a body that pauses for too long is refused; one that continues is not, until its time limit", async () => {
  const { port } = await open(echo, { limits: pausing });
  const start = performance.now();
  expect(errorCode(await say(port, post("Content-Length: 100", "ab")), 408)).toBe("request_timeout");
  expect(performance.now() - start).toBeGreaterThan(pausing.uploadTimeout - 20);
  const drip = async (port: number) => {
    const socket = dial(port);
    const all = read(socket);
    socket.write(`POST / HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\nContent-Length: 8\r\n\r\n`);
    for (let i = 0; i < 8 && !socket.readableEnded; i++) {
      await pause(pausing.uploadTimeout / 4);
      socket.write("x");
    }
    return all;
  };
  expect(await drip(port)).toMatch(/^HTTP\/1\.1 200 .*xxxxxxxx/s);
  const bounded = await open(echo, { limits: { ...pausing, ...soon, requestTimeout: pausing.uploadTimeout } });
  expect(errorCode(await drip(bounded.port), 408)).toBe("request_timeout");
});

test("a client that does not read its reply is cut; one that waits for its reply is not", async () => {
  let pass = () => {};
  const passed = new Promise<void>((resolve) => {
    pass = resolve;
  });
  const cut = new Promise<unknown>((resolve) => {
    const large = new ReadableStream({ pull: (to) => to.enqueue(new Uint8Array(1_000_000)), cancel: resolve });
    const handler: Handler = async (request) => {
      if (request.url.endsWith("/large")) return new Response(large);
      await passed;
      return hello(request);
    };
    void open(handler, { limits: { stalledTimeout: 200 } }).then(({ port }) => {
      waiting = say(port, good);
      dial(port).pause().write(`GET /large HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
    });
  });
  let waiting = Promise.resolve("");
  await cut;
  pass();
  expect(await waiting).toMatch(/^HTTP\/1\.1 200 .*hello/s);
});

test("a client that sends its headers very slowly is cut too", async () => {
  const { port } = await open(hello, { limits: soon });
  const socket = dial(port);
  socket.write("GET / HTTP/1.1\r\n");
  const all = read(socket);
  const drip = async () => {
    while (!socket.destroyed && !socket.readableEnded) {
      socket.write("X: y\r\n");
      await say(port, good);
    }
  };
  void drip();
  expect(errorCode(await all, 408)).toBe("request_timeout");
});

/** Sends a body for as long as anybody takes it; resolves with what came back. */
function sendEndlessly(port: number, host = "127.0.0.1") {
  const socket = dial(port);
  const reply = read(socket);
  socket.write(`POST / HTTP/1.1\r\nHost: ${host}:${port}\r\nTransfer-Encoding: chunked\r\n\r\n`);
  const write = () => {
    while (!socket.destroyed && socket.write(`10000\r\n${"x".repeat(65_536)}\r\n`));
  };
  socket.on("drain", write);
  write();
  return { socket, reply };
}

test("an endless body is cut after 36 MB, and the handler gets an error", async () => {
  let heard: unknown;
  const print = vi.spyOn(console, "error");
  const { port } = await open(async (request) => {
    await request.text().catch((error) => {
      heard = error;
    });
    return new Response("never seen", { status: 500 });
  });
  const { socket, reply } = sendEndlessly(port);
  // A client that still sends may see the reset alone.
  expect(await reply).toMatch(/^$|^HTTP\/1\.1 413 .*body_too_large/s);
  expect(socket.bytesWritten).toBeLessThan(60_000_000);
  expect(String(heard)).toContain("larger than");
  expect(print).not.toHaveBeenCalled();
});

const stream: Handler = async (_, { outgoing } = {}) =>
  streamResponse(Readable.from(["hello"]), { status: 200, headers: {} }, outgoing);

test.each([
  { what: "answered at once", handler: hello, host: "127.0.0.1" },
  { what: "answered with a stream", handler: stream, host: "127.0.0.1" },
  { what: "refused", handler: hello, host: "evil.example" },
  // On a quiet machine less than the 5 s after which Node would cut it for being idle.
])("it is cut too when nobody reads it and it is $what", { timeout: 4_000 * slowness }, async ({ handler, host }) => {
  const { port } = await open(handler, { limits: { maxBodyBytes: 1_000_000 } });
  const { socket, reply } = sendEndlessly(port, host);
  await reply;
  expect(socket.bytesWritten).toBeLessThan(30_000_000);
});

test("a request's signal aborts when its client disconnects, not when it was answered", async () => {
  const signals: AbortSignal[] = [];
  let arrive = () => {};
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const { port } = await open(async (request) => {
    signals.push(request.signal);
    if (request.url.endsWith("/answered")) return hello(request);
    arrive();
    return new Promise(() => {});
  });
  await say(port, good.replace("/", "/answered"));
  const socket = dial(port);
  socket.write(`GET /hangs HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
  await arrived;
  expect(signals.map(({ aborted }) => aborted)).toEqual([false, false]);
  socket.destroy();
  await once(signals[1] as AbortSignal, "abort");
  expect(signals[0]?.aborted).toBe(false);
});

test("connections above the limit are dropped, and earlier requests are answered", async () => {
  let count = 0;
  let [arrive, pass] = [() => {}, () => {}];
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const passed = new Promise<void>((resolve) => {
    pass = resolve;
  });
  const late: Handler = async (request) => {
    if (++count === 2) arrive();
    await passed;
    return hello(request);
  };
  const { port } = await open(late, { limits: { maxConnections: 1, spareConnections: 1 } });
  const replies = [say(port, good), say(port, good)];
  await arrived;
  expect(await say(port, good)).toBe("");
  pass();
  for (const reply of replies) expect(await reply).toContain("hello");
});

test("after its last allowed request, a connection is closed, never with a 5xx", async () => {
  let calls = 0;
  const counted: Handler = (request) => {
    calls++;
    return hello(request);
  };
  const { port } = await open(counted, { limits: { maxRequestsPerConnection: 2 } });
  const one = `GET / HTTP/1.1\r\nHost: %h\r\n\r\n`;
  const reply = await say(port, one.repeat(4));
  expect(reply.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 200"]);
  expect(calls).toBe(2);
});

test("the body of a reply whose client has disconnected is released", async () => {
  let arrive = () => {};
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  let letGo = (_: unknown) => {};
  const cancelled = new Promise((resolve) => {
    letGo = resolve;
  });
  const { port } = await open(async ({ signal }) => {
    arrive();
    await once(signal, "abort");
    return new Response(new ReadableStream({ cancel: letGo }));
  });
  const socket = dial(port);
  socket.write(`GET / HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
  await arrived;
  socket.destroy();
  await cancelled;
});

test("for a client that does not read, the service produces no more of the reply than the buffers hold", async () => {
  let made = 0;
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    made += 1_000_000;
    if (made > 200_000_000) controller.close();
    else controller.enqueue(new Uint8Array(1_000_000));
  };
  const { port } = await open(async (request) =>
    request.url.endsWith("/large") ? new Response(new ReadableStream({ pull })) : hello(request),
  );
  const socket = dial(port).pause();
  socket.write(`GET /large HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
  for (let turn = 0; turn < 20; turn++) await say(port, good);
  expect(made).toBeGreaterThan(0);
  expect(made).toBeLessThan(100_000_000);
});
