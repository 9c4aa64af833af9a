import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import { type AddressInfo, createServer as createNetServer } from "node:net";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { createNetworkMatcher } from "../../../src/protocol/addresses.ts";
import type { Lookup } from "../../../src/server/outbound/connection.ts";
import { createOutbound, type Outbound, type OutboundOptions } from "../../../src/server/outbound/outbound.ts";
import { createVirtualClock } from "../../clock.ts";
import { loopbackSpellings, namedForbidden, otherAddresses, unusable } from "./forbidden.ts";

const signal = new AbortController().signal;
const account = "local";

function open(options: Partial<OutboundOptions> = {}): Outbound {
  return createOutbound({ allowLoopback: () => true, lookup: unknownName, clock: createVirtualClock(), ...options });
}

async function unknownName(name: string): ReturnType<Lookup> {
  throw Object.assign(new Error(`no ${name}`), { code: "ENOTFOUND" });
}

/** Names with answers of their own; one answer list after the other when there are several. */
function createNames(names: Record<string, string[][]>): Lookup {
  return async (name) => {
    const answers = names[name] ?? [];
    const addresses = answers.length > 1 ? answers.shift() : answers[0];
    return (addresses ?? []).map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
  };
}

const post = (outbound: Outbound, url: string, body = "{}") =>
  outbound.post(url, { account, headers: {}, body, signal });
const get = (outbound: Outbound, url: string, maxBytes = 1_000) => outbound.get(url, { account, signal, maxBytes });

/** A server on 127.0.0.1 that counts its connections and requests. */
async function receive(answer: RequestListener = (_, response) => void response.end("ok")) {
  const seen = { connections: 0, requests: [] as { line: string; headers: IncomingMessage["headers"] }[] };
  const server = createServer((request, response) => {
    seen.requests.push({ line: `${request.method} ${request.url}`, headers: request.headers });
    answer(request, response);
  });
  server.on("connection", () => seen.connections++).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { seen, port, url: `http://127.0.0.1:${port}` };
}

const forbidden = [
  ...[...loopbackSpellings, ...otherAddresses, ...unusable],
  ...Object.keys(namedForbidden).map((name) => `http://${name}:%p/`),
  ...Object.keys(namedForbidden).map((name) => `https://${name}:%p/`),
];

test("more than 100 addresses are tested", () => {
  expect(new Set(forbidden).size).toBeGreaterThan(100);
});

test.each(forbidden)("%s is refused for callbacks and images, without a connection", async (spelling) => {
  const { seen, port } = await receive();
  const lookup = createNames(Object.fromEntries(Object.entries(namedForbidden).map(([name, all]) => [name, [all]])));
  const outbound = open({ allowLoopback: () => false, lookup });
  const url = spelling.replace("%p", String(port));
  await expect(post(outbound, url)).rejects.toMatchObject({ isForbidden: true });
  await expect(get(outbound, url)).rejects.toMatchObject({ isForbidden: true });
  expect(seen.connections).toBe(0);
});

test.each([...otherAddresses, ...unusable])("%s stays refused while loopback is allowed", async (spelling) => {
  const { seen, port } = await receive();
  const url = spelling.replace("%p", String(port));
  await expect(post(open(), url)).rejects.toMatchObject({ isForbidden: true });
  await expect(get(open(), url)).rejects.toMatchObject({ isForbidden: true });
  expect(seen.connections).toBe(0);
});

test("only addresses in a network that the owner has allowed are reached", async () => {
  const { port } = await receive();
  const lookup = createNames({ "in.example": [["127.0.0.1"]], "out.example": [["127.0.1.1"]] });
  const outbound = open({ allowLoopback: () => false, isAllowed: createNetworkMatcher(["127.0.0.0/24"]), lookup });
  for (const host of ["127.0.0.1", "in.example"])
    expect((await post(outbound, `http://${host}:${port}/`)).status).toBeLessThan(500);
  for (const host of ["127.0.1.1", "out.example", "10.0.0.1"])
    await expect(post(outbound, `http://${host}:${port}/`)).rejects.toMatchObject({ isForbidden: true });
});

test("loopback and networks are allowed to one account only", async () => {
  const { port, seen } = await receive();
  const url = `http://127.0.0.1:${port}/`;
  const isIn = createNetworkMatcher(["127.0.0.0/24"]);
  const theirs = { account: "ci", signal };
  for (const rules of [
    { allowLoopback: (account?: string) => account === "local" },
    { allowLoopback: () => false, isAllowed: (ip: string, account?: string) => account === "local" && isIn(ip) },
  ]) {
    const outbound = open(rules);
    expect((await post(outbound, url)).status).toBe(200);
    expect((await get(outbound, url)).status).toBe(200);
    const before = seen.requests.length;
    await expect(outbound.post(url, { ...theirs, headers: {}, body: "{}" })).rejects.toThrow(/a loopback address/);
    await expect(outbound.get(url, { ...theirs, maxBytes: 9 })).rejects.toThrow(/a loopback address/);
    expect(seen.requests.length).toBe(before);
  }
});

test("the errors say which address is refused and why", async () => {
  await expect(post(open(), "http://10.0.0.1/x")).rejects.toThrow(
    "callbacks to 10.0.0.1 are refused: a private address",
  );
  await expect(get(open(), "http://169.254.169.254/")).rejects.toThrow(
    "images from 169.254.169.254 are refused: a metadata address",
  );
  await expect(post(open(), "ftp://a.example/")).rejects.toThrow("only http and https are allowed");
  await expect(post(open(), "http://a:b@a.example/")).rejects.toThrow(/a\.example are refused.*user name/);
  await expect(post(open(), "http://a.example:25/")).rejects.toThrow(
    "a.example:25 are refused: the port is used by another",
  );
});

test("a name whose address changes is checked at every connection", async () => {
  const { seen, port } = await receive();
  let mayLoop = true;
  const names = { "turn.example": [["127.0.0.1"], ["10.0.0.1"], ["127.0.0.1", "192.168.0.1"], ["127.0.0.1"]] };
  const outbound = open({ lookup: createNames(names), allowLoopback: () => mayLoop });
  const url = `http://turn.example:${port}/`;
  expect((await post(outbound, url)).status).toBe(200);
  await expect(post(outbound, url)).rejects.toThrow("callbacks to 10.0.0.1 are refused");
  await expect(get(outbound, url)).rejects.toThrow("images from 192.168.0.1 are refused");
  mayLoop = false;
  await expect(get(outbound, url)).rejects.toThrow("images from 127.0.0.1 are refused");
  expect(seen.connections).toBe(1);
});

test("a name is looked up once for each connection, so that the checked address is the one that is used", async () => {
  const { port } = await receive();
  const asked: string[] = [];
  const lookup: Lookup = async (name) => [{ address: asked.push(name) === 1 ? "127.0.0.1" : "10.0.0.1", family: 4 }];
  expect((await post(open({ lookup }), `http://once.example:${port}/`)).status).toBe(200);
  expect(asked).toEqual(["once.example"]);
});

test("a connection that proves to be forbidden ends before a byte of the request is sent", async () => {
  const { seen, url } = await receive();
  const answers = [true, false];
  const outbound = open({ allowLoopback: () => answers.shift() ?? false });
  await expect(post(outbound, url)).rejects.toMatchObject({ isForbidden: true });
  expect(seen.requests).toEqual([]);
  expect(answers).toEqual([]);
});

test("no connection is reused", async () => {
  const { seen, url } = await receive();
  const outbound = open();
  await post(outbound, url);
  await post(outbound, url);
  await get(outbound, url);
  expect(seen.connections).toBe(3);
  expect(seen.requests.map(({ headers }) => headers.connection)).toEqual(["close", "close", "close"]);
});

test("a callback arrives unchanged, with the host of its address", async () => {
  let body: Promise<string> | undefined;
  const { seen, port } = await receive((request, response) => {
    body = text(request);
    response.writeHead(202, { "Retry-After": "7" }).end();
  });
  const outbound = open({ lookup: createNames({ "receiver.example": [["127.0.0.1"]] }) });
  const headers = { "Content-Type": "application/json", "webhook-id": "msg_1", Host: "evil.example" };
  const reply = await outbound.post(`http://receiver.example:${port}/a?b=c`, {
    account,
    headers,
    body: '{"ü":1}',
    signal,
  });
  expect(reply.status).toBe(202);
  expect(reply.retryAfter).toBe("7");
  expect(await body).toBe('{"ü":1}');
  const [first] = seen.requests;
  expect(first?.line).toBe("POST /a?b=c");
  expect(first?.headers).toMatchObject({ host: `receiver.example:${port}`, "webhook-id": "msg_1" });
});

test.each([301, 302, 303, 307, 308])("a callback does not follow a redirect: %i is the reply", async (status) => {
  const { seen, url } = await receive((_, response) => void response.writeHead(status, { Location: "/b" }).end());
  expect((await post(open(), url)).status).toBe(status);
  expect(seen.requests).toHaveLength(1);
});

test("an image is fetched over at most three redirects", async () => {
  const { seen, url } = await receive(({ url: path = "" }, response) => {
    const left = Number(path.slice(1));
    if (left > 0) response.writeHead(302, { Location: String(left - 1) });
    response.end(`left ${left}`);
  });
  expect(String(Buffer.from((await get(open(), `${url}/3`)).body))).toBe("left 0");
  const refused = { message: "it redirects more than 3 times", isFinal: true };
  await expect(get(open(), `${url}/4`)).rejects.toMatchObject(refused);
  expect(seen.requests).toHaveLength(8);
  for (const { headers } of seen.requests) expect(headers["user-agent"]).toBe("vidgen");
});

test.each(["http://10.0.0.1/", "http://0x7f.1:%p/", "http://inner.example:%p/", "file:///etc/passwd", "http://[::1"])(
  "a redirect to %s is not followed",
  async (location) => {
    const inner = await receive();
    const outer = await receive((_, response) => {
      response.writeHead(302, { Location: location.replace("%p", String(inner.port)) }).end();
    });
    const names = { "outer.example": [["127.0.0.1"]], "inner.example": [["::1", "127.0.0.1"]] };
    // Loopback stands for the outer world here, and is allowed no longer once the first request was made.
    const outbound = open({ lookup: createNames(names), allowLoopback: () => outer.seen.requests.length === 0 });
    const error = await get(outbound, `http://outer.example:${outer.port}/`).catch((thrown) => thrown);
    expect(error).toMatchObject({ isForbidden: true });
    // A name may be allowed later, or by another process, and must answer as one that does not exist.
    expect("isFinal" in error).toBe(!location.includes("inner.example"));
    expect(outer.seen.requests).toHaveLength(1);
    expect(inner.seen.connections).toBe(0);
  },
);

test("a proxy of the environment is not used", async () => {
  const { seen, url } = await receive();
  const proxied = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "NODE_USE_ENV_PROXY"];
  const before = proxied.map((name) => [name, process.env[name]] as const);
  onTestFinished(() => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  });
  for (const name of proxied) process.env[name] = url;
  await expect(post(open(), "http://receiver.example/")).rejects.toThrow(
    "receiver.example cannot be reached (ENOTFOUND)",
  );
  expect(seen.connections).toBe(0);
});

/** A reply without an end; resolves when its client has gone. */
function endless(response: ServerResponse): Promise<unknown> {
  const closed = once(response, "close");
  const write = () => {
    while (!response.destroyed && response.write(Buffer.alloc(16_384)));
  };
  response.on("drain", write);
  write();
  return closed;
}

test("a callback's reply is cut after 20 kB", async () => {
  let gone: Promise<unknown> | undefined;
  const { url } = await receive((request, response) => {
    if (request.url === "/endless") gone = endless(response);
    else response.end("x".repeat(Number(request.url?.slice(1))));
  });
  expect(await post(open(), `${url}/20000`)).toMatchObject({ status: 200, text: "x".repeat(20_000) });
  expect(await post(open(), `${url}/20001`)).toMatchObject({ status: 200, text: undefined });
  expect(await post(open(), `${url}/endless`)).toMatchObject({ status: 200, text: undefined });
  await gone;
});

test("an image is cut above the size limit, and one of exactly that size is complete", async () => {
  let gone: Promise<unknown> | undefined;
  const { url } = await receive((request, response) => {
    if (request.url === "/endless") gone = endless(response);
    else response.end(Buffer.alloc(1_000_000));
  });
  // Whoever says which image it was leaves out the query, which may hold a secret.
  const refused = { message: "it is larger than 1 MB", isFinal: true };
  await expect(get(open(), `${url}/endless`, 1_000_000)).rejects.toMatchObject(refused);
  await gone;
  expect((await get(open(), `${url}/just`, 1_000_000)).body).toHaveLength(1_000_000);
  await expect(get(open(), `${url}/just`, 999_999)).rejects.toThrow("is larger than");
});

test("any other status than 200 for an image is a reply whose body is not read; an image that ends early is an error", async () => {
  let gone: Promise<unknown> | undefined;
  const { url } = await receive((request, response) => {
    if (request.url === "/none") return void response.writeHead(404).end("none");
    if (request.url === "/busy") {
      response.writeHead(503, { "Retry-After": "7" });
      gone = endless(response);
      return;
    }
    response.writeHead(200, { "Content-Length": 10 }).write("half");
    request.socket.end();
  });
  expect((await get(open(), `${url}/none`)).status).toBe(404);
  expect(await get(open(), `${url}/busy`)).toEqual({ status: 503, retryAfter: "7", body: new Uint8Array() });
  await gone;
  const error = await get(open(), `${url}/half`).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(Error);
  expect(error).not.toHaveProperty("isFinal");
});

test("an image that takes more than 30 s is cut", async () => {
  const clock = createVirtualClock();
  let arrive = (_: ServerResponse) => {};
  const arrived = new Promise<ServerResponse>((resolve) => {
    arrive = resolve;
  });
  const { url } = await receive((_, response) => arrive(response));
  let isOver = false;
  const outcome = get(open({ clock }), url).finally(() => {
    isOver = true;
  });
  const failed = expect(outcome).rejects.toThrow("no response within 30 s");
  const gone = once(await arrived, "close");
  await clock.sleep(29_999);
  expect(isOver).toBe(false);
  await clock.sleep(2);
  await failed;
  await gone;
});

test("a callback whose reply never ends counts by its status after its time limit", async () => {
  const clock = createVirtualClock();
  const timeout = clock.limit(15_000, signal, new Error("no response within 15 s"));
  let arrive = () => {};
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const { url } = await receive((_, response) => {
    response.writeHead(200).write("and");
    arrive();
  });
  let isOver = false;
  const outcome = open()
    .post(url, { account, headers: {}, body: "{}", signal: timeout.signal })
    .finally(() => {
      isOver = true;
    });
  await arrived;
  await clock.sleep(14_999);
  expect(isOver).toBe(false);
  await clock.sleep(2);
  expect((await outcome).status).toBe(200);
});

test("the service's signal ends a request with the signal's reason", async () => {
  const stop = new AbortController();
  const { url } = await receive(() => stop.abort(new Error("the service is stopping")));
  const sending = { account, headers: {}, body: "{}", signal: stop.signal };
  await expect(open().post(url, sending)).rejects.toThrow("the service is stopping");
  await expect(open().post(url, sending)).rejects.toThrow("the service is stopping");
});

test.each([
  { what: "nothing", answer: "" },
  { what: "no HTTP", answer: "220 mail.example\r\n" },
  { what: "a change of protocol", answer: "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n" },
  { what: "a head of 100 kB", answer: `HTTP/1.1 200 OK\r\nX: ${"x".repeat(100_000)}\r\n\r\n` },
])("a receiver that answers $what is an error", async ({ answer }) => {
  const server = createNetServer((socket) => void socket.on("error", () => {}).end(answer)).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  await expect(post(open(), url)).rejects.toThrow(/cannot be reached|without a response/);
});
