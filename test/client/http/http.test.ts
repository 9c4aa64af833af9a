import dns from "node:dns";
import { getEventListeners, once } from "node:events";
import { createServer as createHttpServer, type IncomingMessage, type RequestListener } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { expect, onTestFinished, test, vi } from "vitest";
import { createFetch } from "../../../src/client/http/http.ts";
import { findProxy, unusedProxy } from "../../../src/client/http/proxy.ts";
import { describeFailure, readReply } from "../../../src/client/http/reply.ts";
import { isFinalConnectFailure } from "../../../src/client/http/retry.ts";
import { systemCode } from "../../../src/errors.ts";
import { type FetchInit, RequestError } from "../../../src/io.ts";
import { createCertificate } from "../../faults/certificate.ts";

const size = 12_000_003;
/** No two stretches of it are alike. */
const video = new Uint8Array(Uint32Array.from({ length: size / 4 + 1 }, (_, i) => i * 2_654_435_761).buffer, 0, size);

async function listen(server: Server): Promise<string> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => sockets.add(socket.on("error", () => {})));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Serves on this machine until the test ends. */
async function serve(listener: RequestListener, isSecure = false): Promise<string> {
  const server = isSecure ? createHttpsServer(createCertificate(), listener) : createHttpServer(listener);
  return `${isSecure ? "https" : "http"}://${await listen(server)}`;
}

/** Until the test ends, no certificate is checked. */
function trustAll(): void {
  vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
  onTestFinished(() => void vi.unstubAllEnvs());
}

async function read(url: string, fetch = createFetch({})): Promise<Uint8Array> {
  const pieces = [];
  for await (const piece of (await fetch(url)).body ?? []) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** In pieces of odd sizes, the length unsaid. */
const inChunks: RequestListener = (_, response) => {
  for (let at = 0, i = 1; at < size; at += i++ * 997) response.write(video.subarray(at, Math.min(size, at + i * 997)));
  response.end();
};

const whole: RequestListener = (_, response) => {
  response.setHeader("Content-Length", size);
  response.end(video);
};

test.each([
  ["whole", whole, false],
  ["in chunks", inChunks, false],
  ["whole, by https", whole, true],
  ["in chunks, by https", inChunks, true],
])("a body that comes %s is read byte for byte", async (_, listener, isSecure) => {
  if (isSecure) trustAll();
  expect(Buffer.compare(await read(await serve(listener, isSecure)), video)).toBe(0);
});

test("several bodies at once stay apart", async () => {
  const url = await serve(whole);
  const fetch = createFetch({});
  for (const body of await Promise.all([1, 2, 3].map(() => read(url, fetch))))
    expect(Buffer.compare(body, video)).toBe(0);
});

test("headers that arrive byte by byte, while another body arrives, are read unchanged", async () => {
  const etag = `"${"e".repeat(300)}"`;
  const url = await serve(async (request, response) => {
    if (request.url === "/whole") return whole(request, response);
    for (const byte of `HTTP/1.1 200 OK\r\nETag: ${etag}\r\nContent-Length: 2\r\n\r\nok`) {
      request.socket.write(byte);
      await new Promise(setImmediate);
    }
  });
  const fetch = createFetch({});
  const [reply, body] = await Promise.all([fetch(url), read(`${url}/whole`, fetch)]);
  expect(reply.headers.get("ETag")).toBe(etag);
  expect(await reply.text()).toBe("ok");
  expect(Buffer.compare(body, video)).toBe(0);
});

const text = "a red fox runs through snow at dusk. ".repeat(100);

test.each([
  ["gzip", gzipSync(text)],
  ["x-gzip", gzipSync(text)],
  ["deflate", deflateSync(text)],
  ["BR", brotliCompressSync(text)],
])("a reply in %s, which nobody asked for, is decoded", async (coding, body) => {
  const url = await serve((_, response) => response.writeHead(200, { "Content-Encoding": coding }).end(body));
  expect(String(await read(url))).toBe(text);
});

test("a reply in an unknown coding is passed on unchanged; one that is not in the stated coding is an error", async () => {
  const codings = ["zip", "gzip"];
  const url = await serve((_, response) =>
    response.writeHead(200, { "Content-Encoding": codings.shift() }).end("no such thing"),
  );
  expect(String(await read(url))).toBe("no such thing");
  await expect(read(url)).rejects.toThrow("incorrect header check");
});

/** Sends these bytes to whoever asks, and ends the connection so. */
function answer(bytes: string | Uint8Array, end: (socket: Socket) => void): Promise<string> {
  const onData = (socket: Socket) => socket.write(bytes, () => end(socket));
  return listen(createServer((socket) => void socket.once("data", () => onData(socket))));
}

test.each([
  ["ends", (socket: Socket) => socket.end()],
  ["is destroyed", (socket: Socket) => socket.destroy()],
])("what came before a connection that %s is read, and then why there is no more", async (_, end) => {
  const begin = '{"success":true,"data":{"id":"5f3c"';
  for (const framing of ["Content-Length: 99", "Transfer-Encoding: chunked\r\n\r\n40"]) {
    const isChunked = framing.endsWith("40");
    const at = await answer(`HTTP/1.1 200 OK\r\n${framing}\r\n${isChunked ? "" : "\r\n"}${begin}`, end);
    for (let i = 0; i < 50; i++) {
      const init = { method: "POST", body: "{}", headers: { "Idempotency-Key": `attempt-${i}` } };
      const { text: found, cut } = await readReply(await createFetch({})(`http://${at}/`, init));
      expect([found, cut]).toEqual([begin, expect.any(Error)]);
    }
  }
});

// undici 7 throws where nobody can catch it when a server goes while its reply waits to be read (nodejs/undici#5360): it would end this test run.
test.each([
  ["none", (socket: Socket) => socket.end(), 1_048_576],
  ["1048576", (socket: Socket) => socket.end(), 1_048_576],
  ["1048585", (socket: Socket) => socket.end(), "broke off"],
  ["1048585", (socket: Socket) => void socket.resetAndDestroy(), "broke off"],
])("a reply of %s bytes, read once its server has gone, ends: %o", async (length, end, outcome) => {
  const framing = length === "none" ? "" : `Content-Length: ${length}\r\n`;
  const head = Buffer.from(`HTTP/1.1 200 OK\r\nConnection: close\r\n${framing}\r\n`);
  const server = createServer((socket) => {
    socket.once("data", () => {
      socket.write(head);
      socket.write(Buffer.alloc(1024 * 1024, 97), () => setImmediate(end, socket));
    });
  });
  const at = await listen(server);
  const gone = new Promise((resolve) => server.on("connection", (socket: Socket) => socket.on("close", resolve)));
  const { body } = await createFetch({})(`http://${at}/`);
  await gone;
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
  let received = 0;
  const reading = async () => {
    for await (const piece of body ?? []) received += piece.byteLength;
    return received;
  };
  expect(await reading().catch(() => "broke off")).toBe(outcome);
});

test.each(["127.0.0.1", "127.0.0.2", "127.9.9.9"])(
  "a request to this machine at %s never goes through a proxy",
  async (host) => {
    const seen: string[] = [];
    const proxy = await serve((request, response) => {
      seen.push(`${request.method} ${request.url}`);
      response.writeHead(502).end();
    });
    const server = createHttpServer((_, response) => void response.end("here"));
    server.listen(0, host);
    await once(server, "listening");
    onTestFinished(() => void server.close());
    const fetch = createFetch({ HTTP_PROXY: proxy, HTTPS_PROXY: proxy });
    const url = `http://${host}:${(server.address() as AddressInfo).port}/`;
    const headers = { Authorization: "Bearer canary-key" };
    for (const init of [{}, { headers }, { method: "POST", body: "{}", headers }])
      expect(await (await fetch(url, init)).text()).toBe("here");
    expect(seen).toEqual([]);
  },
);

const post = { method: "POST", headers: { "Idempotency-Key": "attempt-1" }, body: "{}" };

async function failureOf(url: string, init: FetchInit = post): Promise<RequestError> {
  const error = await createFetch({})(url, init).catch((error) => error);
  expect(error).toBeInstanceOf(RequestError);
  return error;
}

/** Accepts connections and says nothing, by http or https: a request by https goes on connecting. */
async function listenInSilence(): Promise<{ at: string; contacted: Promise<unknown> }> {
  const server = createServer();
  const contacted = once(server, "connection").then(([socket]) => once(socket.resume(), "data"));
  return { at: await listen(server), contacted };
}

test("if `beforeSend` throws once the request is connected, nothing is sent", async () => {
  const seen: string[] = [];
  const server = createHttpServer((request, response) => {
    seen.push(`${request.method}`);
    response.end("ok");
  });
  const closed = new Promise((resolve) => server.once("connection", (socket: Socket) => socket.on("close", resolve)));
  const url = `http://${await listen(server)}`;
  const taken = new Error("another process may have taken it");
  const fetch = createFetch({});
  const failure = await fetch(url, { ...post, beforeSend: () => expect.fail(taken.message) }).catch((error) => error);
  expect(failure).toMatchObject({ name: "RequestError", sent: false, message: taken.message });
  await closed;
  let calls = 0;
  const reply = await fetch(url, { ...post, beforeSend: () => void calls++ });
  expect([await reply.text(), calls, seen]).toEqual(["ok", 1, ["POST"]]);
});

test("the error of a request says in words which address could not be connected, with the code", async () => {
  const server = createServer();
  const at = await listen(server);
  server.close();
  await once(server, "close");
  const failure = await failureOf(`http://${at}/`);
  expect(failure).toMatchObject({ name: "RequestError", sent: false, message: `connect ECONNREFUSED ${at}` });
  const inWords = `${at} refuses connections (ECONNREFUSED)`;
  expect([systemCode(failure), describeFailure(failure)]).toEqual(["ECONNREFUSED", inWords]);
  // Where a name has several addresses, the error has no message of its own.
  const ofSeveral = new RequestError(new AggregateError([failure.cause]), { sent: false });
  expect(describeFailure(ofSeveral)).toBe(inWords);
});

test.each([
  ["getaddrinfo ENOTFOUND video.example", "ENOTFOUND", "no address was found for video.example (ENOTFOUND)"],
  ["connect ETIMEDOUT 10.0.0.1:443", "ETIMEDOUT", "10.0.0.1:443 does not answer (ETIMEDOUT)"],
  [
    "connect EHOSTUNREACH 10.0.0.1:443 - Local (0.0.0.0:0)",
    "EHOSTUNREACH",
    "there is no route to 10.0.0.1:443 (EHOSTUNREACH)",
  ],
  ["read ECONNRESET", "ECONNRESET", "the connection was closed (ECONNRESET)"],
  ["it took more than 10 s", "ETIMEDOUT", "it took more than 10 s (ETIMEDOUT)"],
])("Node's %j is said in words; a message of our own stays", (message, code, said) => {
  expect(describeFailure(Object.assign(new Error(message), { code }))).toBe(said);
});

test("of an OpenSSL error, only the reason is shown", async () => {
  const at = await answer("HTTP/1.1 400 Bad Request\r\n\r\n", (socket) => socket.end());
  for (const init of [post, {}]) {
    const failure = await createFetch({})(`https://${at}/`, init).catch((error) => error);
    expect(describeFailure(failure)).toBe("TLS error: wrong version number");
    expect(isFinalConnectFailure(systemCode(failure), `https://${at}`)).toBe(true);
  }
});

test("when no name server answers, the error says that the host name could not be looked up", async () => {
  const error = Object.assign(new Error("getaddrinfo EAI_AGAIN"), { code: "EAI_AGAIN", syscall: "getaddrinfo" });
  vi.spyOn(dns, "lookup").mockImplementation(
    ((...given: unknown[]) => void setImmediate(given.at(-1) as (error: Error) => void, error)) as typeof dns.lookup,
  );
  onTestFinished(() => void vi.restoreAllMocks());
  const failure = await failureOf("https://api.video.example/");
  expect([failure.sent, systemCode(failure)]).toEqual([false, "EAI_AGAIN"]);
  expect(describeFailure(failure)).toBe("the name api.video.example could not be looked up (EAI_AGAIN)");
});

test("two requests are aborted with the same reason: each error says whether its own request was sent", async () => {
  const controller = new AbortController();
  const [first, second] = [await listenInSilence(), await listenInSilence()];
  const init = { ...post, signal: controller.signal };
  const another = { ...init, headers: { "Idempotency-Key": "attempt-2" } };
  const failing = Promise.all([failureOf(`http://${first.at}/`, init), failureOf(`https://${second.at}/`, another)]);
  await Promise.all([first.contacted, second.contacted]);
  const reason = new Error("Ctrl-C");
  controller.abort(reason);
  const [sent, unsent] = await failing;
  expect([sent.sent, unsent.sent]).toEqual([true, false]);
  expect([sent.cause, unsent.cause]).toEqual([reason, reason]);
  expect(reason).not.toHaveProperty("sent");
});

test("a request whose connection breaks during the TLS handshake is not sent, even if another one is sent meanwhile", async () => {
  const url = await serve((_, response) => void response.end("order-12's"));
  const breaking = createServer();
  const connected = once(breaking, "connection");
  const withKey = (key: string) => ({ ...post, headers: { "Idempotency-Key": key } });
  const first = failureOf(`https://${await listen(breaking)}/`, withKey("order-1"));
  const [socket] = await connected;
  expect(await (await createFetch({})(url, withKey("order-12"))).text()).toBe("order-12's");
  socket.resetAndDestroy();
  expect((await first).sent).toBe(false);
});

test.each(["stays open", "ends"])(
  "a reply that comes before the body is sent is read, when its connection %s",
  async (how) => {
    const refusal = '{"error":"too large"}';
    const head = `HTTP/1.1 413 Payload Too Large\r\nContent-Length: ${refusal.length}\r\n\r\n`;
    const server = createServer((socket) => {
      // Reads no more than the beginning.
      socket.once("data", () => socket.pause().write(head + refusal, () => how === "ends" && socket.end()));
    });
    const reply = await createFetch({})(`http://${await listen(server)}/`, {
      ...post,
      body: new Uint8Array(50_000_000),
    });
    expect([reply.status, await reply.text()]).toEqual([413, refusal]);
  },
);

test.each([false, true])(
  "a large body arrives whole, and what is left of it is told; by https: %s",
  async (isSecure) => {
    if (isSecure) trustAll();
    const url = await serve(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk);
      const isSame = Buffer.compare(Buffer.concat(chunks), video) === 0;
      response.end(`${request.headers["content-length"]} ${request.headers["transfer-encoding"]} ${isSame}`);
    }, isSecure);
    const left: number[] = [];
    const reply = await createFetch({})(url, { ...post, body: video, onUpload: (bytes) => left.push(bytes) });
    expect(await reply.text()).toBe(`${size} undefined true`);
    expect(left.length).toBeGreaterThan(100);
    expect([left.at(-1), left]).toEqual([0, left.toSorted((a, b) => b - a)]);
  },
);

test("leaving the loop early closes the connection", async () => {
  const server = createHttpServer(inChunks);
  const closed = new Promise((resolve) => server.on("connection", (socket: Socket) => socket.on("close", resolve)));
  const url = `http://${await listen(server)}`;
  for await (const chunk of (await createFetch({})(url)).body ?? []) {
    expect(chunk.length).toBeGreaterThan(0);
    break;
  }
  await closed;
});

test("the connection of a POST is closed after its reply, even if nobody reads the reply", async () => {
  const server = createServer((socket) => {
    socket.once("data", () => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
  });
  const ended = once(server, "connection").then(([socket]) => once(socket, "end"));
  expect((await createFetch({})(`http://${await listen(server)}/`, post)).status).toBe(200);
  await ended;
});

test.each([{}, { Authorization: "Bearer canary-key" }])(
  "a GET keeps its connection; one with `Connection: close` never uses a kept one: %j",
  async (headers) => {
    const server = createHttpServer((request, response) => void response.end(String(request.socket.remotePort)));
    const url = `http://${await listen(server)}/`;
    const fetch = createFetch({});
    const ports = async (init: Record<string, string>) => {
      const port = await (await fetch(url, { headers: { ...headers, ...init } })).text();
      // undici marks a connection as free after its reply was read.
      for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
      return port;
    };
    const [kept, own, again, other] = [
      await ports({}),
      await ports({ Connection: "close" }),
      await ports({}),
      await ports({ Connection: "close" }),
    ];
    expect([again === kept, new Set([kept, own, other]).size]).toEqual([true, 3]);
  },
);

test("a request with a character that a header cannot have is not sent", async () => {
  const url = await serve((_, response) => void response.end("ok"));
  const headers = { "Idempotency-Key": "an order\u2192" };
  const failure = await failureOf(url, { ...post, headers });
  expect([failure.sent, systemCode(failure)]).toEqual([false, "ERR_INVALID_CHAR"]);
});

const none = "";
const proxies = { HTTP_PROXY: "http://one.example:1", HTTPS_PROXY: "https://two.example:2" };

test.each([
  ["http://video.example", proxies, "http://one.example:1"],
  ["https://video.example", proxies, "https://two.example:2"],
  ["https://video.example", { HTTP_PROXY: "http://one.example:1" }, "http://one.example:1"],
  ["http://video.example", { HTTPS_PROXY: "https://two.example:2" }, none],
  ["https://video.example", { ...proxies, https_proxy: "http://three.example:3" }, "http://three.example:3"],
  ["https://video.example", { ...proxies, NO_PROXY: "*" }, none],
  ["https://video.example", { ...proxies, NO_PROXY: "other.example, *" }, none],
  ["https://video.example", { ...proxies, NO_PROXY: "video.example" }, none],
  ["https://api.video.example", { ...proxies, NO_PROXY: "Video.Example" }, none],
  ["https://api.video.example", { ...proxies, NO_PROXY: "a.example .video.example" }, none],
  ["https://api.video.example", { ...proxies, NO_PROXY: "*.video.example" }, none],
  ["https://myvideo.example", { ...proxies, NO_PROXY: "video.example" }, "https://two.example:2"],
  ["https://video.example.org", { ...proxies, NO_PROXY: "video.example" }, "https://two.example:2"],
  ["https://video.example", { ...proxies, NO_PROXY: "video.example:443" }, none],
  ["https://video.example:8443", { ...proxies, NO_PROXY: "video.example:443" }, "https://two.example:2"],
  ["http://video.example", { ...proxies, NO_PROXY: "video.example:80" }, none],
  ["https://video.example", { ...proxies, NO_PROXY: "x.example", no_proxy: "video.example" }, none],
  ["https://video.example", { ...proxies, NO_PROXY: ", ," }, "https://two.example:2"],
  ["https://[2001:db8::1]:8443", { ...proxies, NO_PROXY: "[2001:db8::1]:8443" }, none],
  ["https://[2001:db8::1]:8443", { ...proxies, NO_PROXY: "2001:db8::1" }, none],
  ["https://[2001:db8::1]", { ...proxies, NO_PROXY: "2001:DB8:0::/32" }, none],
  ["https://[2001:db9::1]", { ...proxies, NO_PROXY: "2001:db8::/32, fe80::" }, "https://two.example:2"],
  ["https://10.2.200.7", { ...proxies, NO_PROXY: "10.2.0.0/16" }, none],
  ["https://10.3.0.1", { ...proxies, NO_PROXY: "10.2.0.0/16" }, "https://two.example:2"],
  ["https://10.2.0.1", { ...proxies, NO_PROXY: "10.2.0.0/99 10.2/16 10.2.0.0/ 10.2.0.0/x" }, "https://two.example:2"],
  ["https://10.0.0.2", { ...proxies, NO_PROXY: ".0.2, *.0.2, 0.2" }, "https://two.example:2"],
  ["https://10.0.0.2:8443", { ...proxies, NO_PROXY: "10.0.0.2:8443" }, none],
  ["https://video.example.", { ...proxies, NO_PROXY: "video.example" }, none],
  ["https://api.video.example", { ...proxies, NO_PROXY: "video.example." }, none],
  ["https://api.video.example", { ...proxies, NO_PROXY: ".video.example.:443" }, none],
  ["https://video.example", { HTTPS_PROXY: "two.example:3128" }, "http://two.example:3128"],
  ["https://video.example", { HTTPS_PROXY: " ann:p%40ss@two.example:3128 " }, "http://two.example:3128"],
  ["https://video.example", { HTTPS_PROXY: "10.0.0.1" }, "http://10.0.0.1"],
  ["https://video.example", { ALL_PROXY: "http://all.example:3" }, "http://all.example:3"],
  ["http://video.example", { all_proxy: "all.example:3" }, "http://all.example:3"],
  ["https://video.example", { ...proxies, ALL_PROXY: "http://all.example:3" }, "https://two.example:2"],
  ["https://video.example", { ALL_PROXY: "http://all.example:3", NO_PROXY: ".example" }, none],
  ["https://video.example", { ALL_PROXY: "socks5://127.0.0.1:1080" }, none],
  ["https://video.example", { ...proxies, ALL_PROXY: "socks5h://127.0.0.1:1080" }, "https://two.example:2"],
  ["https://localhost", { ...proxies, ALL_PROXY: "http://all.example:3" }, none],
  ["https://127.9.9.9", { ...proxies, ALL_PROXY: "http://all.example:3" }, none],
])("to %s with %j the proxy is %j", (url, env, proxy) => {
  expect(findProxy(new URL(url), env)?.url.origin ?? none).toBe(proxy);
});

test.each([
  ["HTTP_PROXY", "socks5://ann:secret@127.0.0.1:1080"],
  ["http_proxy", "no address"],
  ["ALL_PROXY", "ftp://proxy.example"],
  ["HTTP_PROXY", "http://ann:secret%6q@proxy.example:3128"],
  ["HTTP_PROXY", "ann:secret#1@proxy.example:3128"],
])("nothing was sent where %s is %s; no retry changes that, and the variable is named", async (variable, value) => {
  const url = "http://video.example/";
  const failure = await createFetch({ [variable]: value })(url, post).catch((error) => error);
  expect(failure.sent).toBe(false);
  expect(isFinalConnectFailure(systemCode(failure), url)).toBe(true);
  expect(describeFailure(failure)).toContain(variable);
  expect(describeFailure(failure)).not.toContain("secret");
});

test.each([
  ["https://video.example", { ALL_PROXY: "socks5://ann:secret@127.0.0.1:1080" }, /^ALL_PROXY names a SOCKS proxy/],
  ["https://video.example", { all_proxy: "SOCKS5h://127.0.0.1:1080" }, /^all_proxy names a SOCKS proxy/],
  ["https://video.example", { ...proxies, ALL_PROXY: "socks5://127.0.0.1:1080" }, undefined],
  ["https://video.example", { ALL_PROXY: "socks5://127.0.0.1:1080", NO_PROXY: "*" }, undefined],
  ["http://localhost:8787", { ALL_PROXY: "socks5://127.0.0.1:1080" }, undefined],
  ["https://video.example", { ALL_PROXY: "http://all.example:3" }, undefined],
])("to %s with %j the warning about an unused proxy is %s", (url, env, warning) => {
  const said = unusedProxy(new URL(url), env)?.says;
  if (warning === undefined) expect(said).toBe(undefined);
  else expect(said).toMatch(warning);
  expect(said ?? "").not.toContain("secret");
});

/** A proxy by http or https that connects everybody to `port` after it has said `status`. */
async function openProxy(port: number, { status = "200 OK", isSecure = false } = {}) {
  const asked: IncomingMessage[] = [];
  const server = isSecure ? createHttpsServer(createCertificate("proxy.example")) : createHttpServer();
  server.on("connect", (request: IncomingMessage, socket: Socket) => {
    asked.push(request);
    socket.write(`HTTP/1.1 ${status}\r\n\r\n`);
    if (!status.startsWith("200")) return;
    const onward = connect(port, "127.0.0.1");
    onward.on("error", () => socket.destroy());
    socket.pipe(onward).pipe(socket);
  });
  return { address: await listen(server), asked };
}

test.each([
  ["http", false, false],
  ["http", true, false],
  ["https", false, true],
  ["https", true, true],
])(
  "a POST by %s, to a proxy with TLS: %s, arrives whole; the proxy gets its password, and nobody else",
  async (scheme, isProxySecure, isSecure) => {
    trustAll();
    const seen: unknown[] = [];
    const listener: RequestListener = ({ method, url, headers, socket }, response) => {
      seen.push(method, url, headers.host, headers["proxy-authorization"], (socket as TLSSocket).servername);
      response.end("ok");
    };
    const { port } = new URL(await serve(listener, isSecure));
    const { address, asked } = await openProxy(Number(port), { isSecure: isProxySecure });
    const proxy = `${isProxySecure ? "https" : "http"}://ann:p%40ss@${address}`;
    const fetch = createFetch({ HTTP_PROXY: proxy, HTTPS_PROXY: proxy });
    const url = `${scheme}://api.video.example/api/generate?a=b`;
    expect(await (await fetch(url, post)).text()).toBe("ok");
    const host = "api.video.example";
    expect(seen).toEqual(["POST", "/api/generate?a=b", host, undefined, isSecure ? host : undefined]);
    const [{ headers, url: target } = expect.fail("not asked")] = asked;
    const login = `Basic ${Buffer.from("ann:p@ss").toString("base64")}`;
    expect([target, headers["proxy-authorization"]]).toEqual([`api.video.example:${isSecure ? 443 : 80}`, login]);
    expect(Object.keys(headers)).not.toContain("idempotency-key");
    for (let i = 0; i < 5; i++) expect(await (await fetch(url)).text()).toBe("ok");
    // undici may open a second connection right after the first reply; both are used again.
    expect(asked.length).toBeLessThanOrEqual(3);
    expect(seen).toHaveLength(6 * 5);
  },
);

const wanted = "the proxy requires a user name and password: HTTPS_PROXY=http://user:password@host:port (HTTP 407)";
const denied = "the proxy refused the user name and password in HTTPS_PROXY (HTTP 407)";

test.each([
  ["407 Proxy Authentication Required", "", true, wanted],
  ["407 Proxy Authentication Required", "ann:secret@", true, denied],
  ["403 Forbidden", "", true, "the proxy in HTTPS_PROXY refused to connect to api.video.example:443 (HTTP 403)"],
  [
    "405 Method Not Allowed",
    "",
    true,
    "the proxy in HTTPS_PROXY refused to connect to api.video.example:443 (HTTP 405)",
  ],
  [
    "429 Too Many Requests",
    "",
    false,
    "the proxy in HTTPS_PROXY could not connect to api.video.example:443 (HTTP 429)",
  ],
  ["502 Bad Gateway", "", false, "the proxy in HTTPS_PROXY could not connect to api.video.example:443 (HTTP 502)"],
  ["100 Continue", "", false, "the proxy in HTTPS_PROXY could not connect to api.video.example:443 (HTTP 100)"],
])(
  "a proxy that says %s to CONNECT (login %j) gets nothing of the request, which was not sent; final: %s",
  async (status, login, isFinal, reason) => {
    const { address, asked } = await openProxy(0, { status });
    const fetch = createFetch({ HTTPS_PROXY: `http://${login}${address}` });
    const url = "https://api.video.example/";
    for (const init of [post, {}]) {
      const failure = await fetch(url, init).catch((error) => error);
      expect(failure).toMatchObject({ name: "RequestError", sent: init !== post });
      expect(describeFailure(failure)).toBe(reason);
      expect(isFinalConnectFailure(systemCode(failure), url)).toBe(isFinal);
    }
    expect(asked).toHaveLength(2);
  },
);

test.each([post, {}])(
  "a proxy that closes every connection is asked once by a request, which fails: %j",
  async (init) => {
    let connections = 0;
    const proxy = createServer((socket) => {
      connections++;
      socket.once("data", () => socket.end());
    });
    const fetch = createFetch({ HTTPS_PROXY: `http://${await listen(proxy)}` });
    const failure = await fetch("https://api.video.example/", init).catch((error) => error);
    expect(failure).toMatchObject({ name: "RequestError", message: "socket hang up" });
    expect([failure.sent, connections]).toEqual([init !== post, 1]);
  },
);

test.each(["the proxy's reply to CONNECT", "TLS behind the proxy"])(
  "while it waits for %s, a request was not sent",
  async (what) => {
    const silent = await listenInSilence();
    const { address } = await openProxy(Number(silent.at.split(":")[1]));
    const [at, scheme] = what.startsWith("TLS") ? [address, "https"] : [silent.at, "http"];
    const controller = new AbortController();
    const proxy = `http://${at}`;
    const init = { ...post, unsentSignal: controller.signal };
    const failing = createFetch({ HTTP_PROXY: proxy })(`${scheme}://api.video.example/`, init).catch((error) => error);
    await silent.contacted;
    controller.abort(new Error("Ctrl-C"));
    expect(await failing).toMatchObject({ message: "Ctrl-C", sent: false });
  },
);

test.each(["answered", "refused", "aborted while it is sent", "aborted before"])(
  "a request that is %s leaves no listener at its signals",
  async (how) => {
    const [controller, unsent] = [new AbortController(), new AbortController()];
    const init = { ...post, signal: controller.signal, unsentSignal: unsent.signal };
    const { at, contacted } = await listenInSilence();
    if (how === "answered") {
      const url = await serve((_, response) => void response.end("ok"));
      for (const method of ["POST", "GET"])
        expect(await (await createFetch({})(url, { ...init, method })).text()).toBe("ok");
    } else if (how === "refused") {
      await failureOf("http://127.0.0.1:1/", init);
    } else {
      const isSent = how === "aborted while it is sent";
      const failing = failureOf(`${isSent ? "http" : "https"}://${at}/`, init);
      await contacted;
      (isSent ? controller : unsent).abort(new Error("Ctrl-C"));
      expect(await failing).toMatchObject({ message: "Ctrl-C", sent: isSent });
    }
    const signals = [controller.signal, unsent.signal];
    await expect.poll(() => signals.flatMap((signal) => getEventListeners(signal, "abort"))).toEqual([]);
  },
);
