import { connect, type Socket } from "node:net";
import process from "node:process";
import { PassThrough } from "node:stream";
import { expect, onTestFinished, test } from "vitest";
import { createFetch } from "../../../src/client/http/http.ts";
import { keepReply } from "../../../src/client/http/raw-reply.ts";
import { type Reply, readReply } from "../../../src/client/http/reply.ts";
import { type FetchInit, RequestError } from "../../../src/io.ts";
import { createCertificate } from "../../faults/certificate.ts";
import { chunk, head, type ListenOptions, listen, send } from "../../faults/wire.ts";

const body = '{"success":true,"data":{"id":"0b9c6a52-1f6e-4a35","status":"processing"},"remaining_credits":41}';
const { length } = body;
const ok = head(200, { "Content-Length": length });
const interim = "HTTP/1.1 100 Continue\r\n\r\n";

/** Answers each request with these bytes; each piece comes once the one before it has been read. */
async function answer(pieces: string[], end?: (socket: Socket) => void, options?: ListenOptions): Promise<string> {
  const onRequest = async (_: unknown, socket: Socket) => {
    for (const piece of pieces) {
      await send(socket, Buffer.from(piece, "latin1"));
      for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
    }
    end?.(socket);
  };
  const server = await listen({ onRequest }, options);
  onTestFinished(server.close);
  return `${options?.tls ? "https" : "http"}://127.0.0.1:${server.port}`;
}

async function post(url: string, env: Record<string, string> = {}, more: FetchInit = {}): Promise<Reply> {
  const init = { method: "POST", headers: { "Idempotency-Key": "attempt-1" }, body: "{}", ...more };
  return readReply(await createFetch(env)(`${url}/api/generate`, init));
}

const whole = { status: 200, text: body, cut: undefined };

test.each([
  ["a 100 (Continue)", [interim, ok + body]],
  ["a 100 in the same packet", [interim + ok + body]],
  [
    "two, with headers, the second without a reason",
    ["HTTP/1.1 100 Go on\r\nX: y\r\n\r\nHTTP/1.1 100\r\n\r\n", ok + body],
  ],
  ["102, 103 and 100", ["HTTP/1.1 102 x\r\n\r\n", "HTTP/1.1 103 x\r\nLink: </x>\r\n\r\n", interim, ok, body]],
  ["one that comes byte by byte, as the reply does", [...`${interim}${ok}${body}`]],
  ["none, and a body in pieces", [ok, ...body]],
])("before the reply comes %s", async (_, pieces) => {
  expect(await post(await answer(pieces))).toMatchObject(whole);
});

test("a body that looks like an interim reply is unchanged", async () => {
  const says = `${interim}{}`;
  const reply = head(200, { "Content-Length": says.length });
  expect(await post(await answer([reply, says]))).toMatchObject({ text: says, cut: undefined });
});

test.each([false, true])("an interim reply over TLS, through a proxy: %s", async (isProxied) => {
  const { NODE_TLS_REJECT_UNAUTHORIZED: before } = process.env;
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
  onTestFinished(() => {
    if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before;
  });
  const url = await answer([interim, ok + body], undefined, { tls: createCertificate("api.video.example") });
  if (!isProxied) return expect(await post(url)).toMatchObject(whole);
  const asked: string[] = [];
  const proxy = await listen({
    onHead({ method, path }, socket) {
      asked.push(`${method} ${path}`);
      socket.removeAllListeners("data");
      const onward = connect(Number(new URL(url).port), "127.0.0.1");
      onward.on("error", () => socket.destroy());
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
      socket.pipe(onward).pipe(socket);
      return true;
    },
  });
  onTestFinished(proxy.close);
  const env = { HTTPS_PROXY: `http://127.0.0.1:${proxy.port}` };
  expect(await post("https://api.video.example", env)).toMatchObject(whole);
  expect(asked).toEqual(["CONNECT api.video.example:443"]);
});

test.each([
  ["half an interim reply", ["HTTP/1.1 100 Cont"]],
  ["an interim reply alone", [interim]],
  ["a few letters", ["HTTP"]],
])("%s, and then the end of the connection, is no reply", async (_, pieces) => {
  const failure = await post(await answer(pieces, (socket) => socket.end())).catch((error) => error);
  expect(failure).toBeInstanceOf(RequestError);
  expect(failure.sent).toBe(true);
});

test.each([
  ["101 (Switching Protocols)", "HTTP/1.1 101 x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"],
  ["an interim reply that does not end", `HTTP/1.1 100 x\r\nX: ${"x".repeat(200_000)}`],
  ["what is not HTTP", "SSH-2.0\r\n"],
])("%s is refused at once, though the connection stays open", async (_, bytes) => {
  const failure = await post(await answer([bytes])).catch((error) => error);
  expect(failure).toBeInstanceOf(RequestError);
  expect(failure.sent).toBe(true);
});

const chunked = head(200, { "Transfer-Encoding": "chunked" });
const size = `${length.toString(16)}\r\n`;
const withHeader = (line: string) => ok.replace("\r\n\r\n", `\r\n${line}\r\n\r\n`);

test.each([
  ["a length twice", withHeader(`Content-Length: ${length}`) + body],
  ["two lengths", withHeader("Content-Length: 7") + body],
  ["a length that is no number", head(200, { "Content-Length": "many" }) + body],
  ["a negative length", head(200, { "Content-Length": -1 }) + body],
  ["a length of 30 digits", head(200, { "Content-Length": "9".repeat(30) }) + body],
  ["a length and chunks", `${withHeader("Transfer-Encoding: chunked")}${size}${body}\r\n0\r\n\r\n`],
  ["a header without a colon", withHeader("nonsense") + body],
  ["a header of no name", withHeader(": x") + body],
  ["a space before a colon", withHeader("X : y") + body],
  ["a name that is not ASCII", withHeader("\xe9: x") + body],
  ["a control character", withHeader("X: \x01") + body],
  ["a NUL", withHeader("X: a\0b") + body],
  ["a CR in a header", withHeader("X: a\rb") + body],
  ["a folded header", withHeader("X: a\r\n b") + body],
  ["a header of 20 kB", withHeader(`X: ${"x".repeat(20_000)}`) + body],
  ["an interim reply that ends in LF, from HTTP/1.0, before it", `HTTP/1.0 100 Continue\n\n${ok}${body}`],
  ["LF alone", (ok + body).replaceAll("\r\n", "\n")],
  ["HTTP/1.2", ok.replace("1.1", "1.2") + body],
  ["chunks that are none", chunked + body],
  ["chunks with LF alone", `${chunked}${size.trim()}\n${body}\n0\n\n`],
  ["spaces behind a chunk's size", `${chunked}${size.trim()}  \r\n${body}\r\n0\r\n\r\n`],
  ["gzip that is none", withHeader("Content-Encoding: gzip") + body],
])("a reply with %s is passed on as it came, and then an error", async (_, reply) => {
  for (const pieces of [[reply], [interim, reply]]) {
    const { status, text, cut } = await post(await answer(pieces));
    expect([status, text.slice(0, length), cut]).toEqual([200, body, expect.any(Error)]);
  }
});

test("a reply with an invalid header counts as no reply: the request was sent", async () => {
  const failure = await post(await answer([withHeader("nonsense"), body])).catch((error) => error);
  expect(failure).toBeInstanceOf(RequestError);
  expect(failure.sent).toBe(true);
});

test("no more than about a MiB of a reply is kept", async () => {
  const connection = new PassThrough({ highWaterMark: 2 ** 24 });
  let length = 0;
  connection.on("readable", () => {
    for (let piece = connection.read(); piece !== null; piece = connection.read()) length += piece.length;
  });
  const readRaw = keepReply(connection);
  connection.write(head(200));
  for (let i = 0; i < 40; i++) {
    connection.write(Buffer.alloc(100_000, "a"));
    await new Promise(setImmediate);
  }
  expect(length).toBe(head(200).length + 4_000_000);
  const kept = readRaw()?.body.length;
  expect(kept).toBeGreaterThan(1_000_000);
  expect(kept).toBeLessThan(1_200_000);
});

const closed = (socket: Socket) => socket.end();
const reset = (socket: Socket) => void socket.resetAndDestroy();

test.each([
  ["is longer than it says", ok.replace(`${length}`, `${length - 5}`) + body, undefined, false],
  ["is followed by other bytes", `${ok}${body}<!-- cached -->`, undefined, false],
  ["is followed by another", `${ok}${body}${ok}${body}`, undefined, false],
  ["is shorter than it says", ok.replace(`${length}`, `${length + 5}`) + body, closed, true],
  ["is shorter than it says, and reset", ok.replace(`${length}`, `${length + 5}`) + body, reset, true],
  ["lacks its last chunk", `${chunked}${size}${body}\r\n`, closed, true],
  ["has a chunk of another size", `${chunked}${(length - 5).toString(16)}\r\n${body}\r\n0\r\n\r\n`, undefined, true],
  ["has a chunk without a size", `${chunked}${size}${body}\r\nzz\r\n`, undefined, true],
  ["has a trailer that is none", `${chunked}${size}${body}\r\n0\r\nno trailer\r\n\r\n`, undefined, true],
  ["ends with its connection", head(200) + body, closed, false],
  ["is of HTTP/1.0", `HTTP/1.0 200 OK\r\n\r\n${body}`, closed, false],
])("what came of a reply that %s is read", async (_, reply, end, isCut) => {
  for (const pieces of [[reply], [reply.slice(0, -body.length - 20), reply.slice(-body.length - 20)]]) {
    const { status, text, cut } = await post(await answer(pieces, end));
    expect([status, text.slice(0, 80), cut]).toEqual([200, body.slice(0, 80), isCut ? expect.any(Error) : undefined]);
  }
});

test("when a chunk breaks off, the chunks before it are read, and nothing twice", async () => {
  const [first, second] = [body.slice(0, 30), body.slice(30)];
  const url = await answer([chunked + chunk(Buffer.from(first)), `zz\r\n${second}`]);
  expect(await post(url)).toMatchObject({ text: first, cut: expect.any(Error) });
});

test("the part of a stalled reply that has arrived is read when the timeout is over", async () => {
  const controller = new AbortController();
  const late = new Error("no response within 120 s");
  const url = await answer([ok + body.slice(0, 60)], () => controller.abort(late));
  expect(await post(url, {}, { signal: controller.signal })).toMatchObject({ text: body.slice(0, 60), cut: late });
});
