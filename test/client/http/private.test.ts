import { subscribe, unsubscribe } from "node:diagnostics_channel";
import dns from "node:dns";
import { once } from "node:events";
import { type AddressInfo, createServer, Socket } from "node:net";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { createApi } from "../../../src/client/http/api.ts";
import { createFetch } from "../../../src/client/http/http.ts";
import { isFinalConnectFailure } from "../../../src/client/http/retry.ts";
import { systemCode } from "../../../src/errors.ts";
import { RequestError } from "../../../src/io.ts";

const apiKey = "canary-key-0123456789";
const { signal } = new AbortController();

/** Where a connection was begun to, in each test: never beyond this machine. */
let attempts: string[] = [];
const onSocket = (message: unknown) =>
  (message as { socket: Socket }).socket.on("connectionAttempt", (address) => attempts.push(address));
beforeEach(() => {
  attempts = [];
  subscribe("net.client.socket", onSocket);
});
afterEach(() => {
  unsubscribe("net.client.socket", onSocket);
  expect(new Set(["127.0.0.1", ...attempts])).toEqual(new Set(["127.0.0.1"]));
});

/** What stands at an address of this machine: it answers each request, closes the connection, and keeps the bytes that came. */
async function listen() {
  const received: string[] = [];
  const server = createServer((socket) => {
    socket.on("error", () => {});
    const index = received.push("") - 1;
    let text = "";
    socket.on("data", (bytes) => {
      text += bytes;
      received[index] = text;
      if (text.includes("\r\n\r\n"))
        socket.end("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return { port: (server.address() as AddressInfo).port, received };
}

/** The name service has these addresses for the name, one list after the other, and the last one from then on. */
function resolveTo(...answers: string[][]) {
  const spy = vi.spyOn(dns, "lookup").mockImplementation(((_name: string, options: { all?: boolean }, done: Done) => {
    const addresses = answers.length > 1 ? answers.shift() : answers[0];
    const all = (addresses ?? []).map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
    setImmediate(() => (options.all ? done(null, all) : done(null, all[0]?.address, all[0]?.family)));
  }) as typeof dns.lookup);
  onTestFinished(() => spy.mockRestore());
}
type Done = (error: null, ...found: unknown[]) => void;

const request = { prompt: "a fox", model: "sora-2" };

/** Each kind of request that has the key: a poll and a start. */
const kinds = {
  poll: (api: ReturnType<typeof createApi>) => api.probe(signal),
  start: (api: ReturnType<typeof createApi>) => api.start(request, "an-attempt", { signal }),
};
const eachKind = Object.entries(kinds);

const apiAt = (baseUrl: string, env: Record<string, string> = {}) =>
  createApi({ baseUrl, apiKey, fetch: createFetch(env) });

test.each(eachKind)("a %s by plain http goes to a name that has a private address", async (_, send) => {
  const { port, received } = await listen();
  resolveTo(["127.0.0.1"]);
  expect((await send(apiAt(`http://gpu-1:${port}`))).status).toBe(404);
  expect(received).toEqual([expect.stringContaining(apiKey)]);
  expect(attempts).toContain("127.0.0.1");
});

test.each(eachKind)(
  "a %s by plain http sends nothing to a name with a public address, which is final",
  async (_, send) => {
    resolveTo(["93.184.216.34", "169.254.7.7", "2606:2800:220::1"]);
    const failure = await send(apiAt("http://gpu-1:8787")).catch((error) => error);
    expect(failure).toBeInstanceOf(RequestError);
    expect(failure.message).toMatch(
      /^gpu-1 is 93\.184\.216\.34, which is not in a private network, and plain http would show the key/,
    );
    expect(isFinalConnectFailure(systemCode(failure), "http://gpu-1:8787")).toBe(true);
  },
);

test("a start that was refused for its address was not sent", async () => {
  resolveTo(["93.184.216.34"]);
  await expect(kinds.start(apiAt("http://gpu-1:8787"))).rejects.toMatchObject({ sent: false });
});

test.each(eachKind)(
  "the address is checked at each connection of a %s: a name may have another one later",
  async (_, send) => {
    const { port, received } = await listen();
    resolveTo(["127.0.0.1"], ["93.184.216.34"]);
    const api = apiAt(`http://gpu-1:${port}`);
    expect((await send(api)).status).toBe(404);
    await expect(send(api)).rejects.toThrow("93.184.216.34");
    expect(received).toHaveLength(1);
  },
);

test.each(eachKind)("of a name with several addresses, a %s uses a private one", async (_, send) => {
  const { port, received } = await listen();
  resolveTo(["2606:2800:220::1", "93.184.216.34", "127.0.0.1"]);
  expect((await send(apiAt(`http://gpu-1:${port}`))).status).toBe(404);
  expect(received).toHaveLength(1);
});

test.each([
  ...["93.184.216.34", "169.254.10.1", "[fe80::1]", "[::ffff:8.8.8.8]", "[64:ff9b::a00:1]"],
  ...["0x5db8d822", "100.100.100.200"],
])("nothing is sent to http://%s", async (host) => {
  for (const [, send] of eachKind)
    await expect(send(apiAt(`http://${host}:8787`))).rejects.toThrow("is not in a private network");
});

test.each(eachKind)(
  "for a %s, the address that it is connected to is checked before the first byte is sent",
  async (_, send) => {
    const { port, received } = await listen();
    resolveTo(["127.0.0.1"]);
    // Where Node keeps it: `remoteAddress` itself cannot be replaced.
    const peer = Socket.prototype as unknown as { _getpeername(): object };
    const spy = vi.spyOn(peer, "_getpeername").mockReturnValue({ address: "93.184.216.34", family: "IPv4", port: 80 });
    onTestFinished(() => spy.mockRestore());
    await expect(send(apiAt(`http://gpu-1:${port}`))).rejects.toThrow("gpu-1 is 93.184.216.34");
    expect(received.join("")).toBe("");
  },
);

test.each(eachKind)(
  "a %s with a key never goes through a proxy, and NO_PROXY lets it connect directly",
  async (_, send) => {
    const [{ port, received }, proxy] = [await listen(), await listen()];
    resolveTo(["127.0.0.1"]);
    const env = { HTTP_PROXY: `http://127.0.0.1:${proxy.port}` };
    const failure = await send(apiAt(`http://gpu-1:${port}`, env)).catch((error) => error);
    expect(failure.message).toContain("add gpu-1 to NO_PROXY");
    expect(isFinalConnectFailure(systemCode(failure), "http://gpu-1:8787")).toBe(true);
    expect([received, proxy.received]).toEqual([[], []]);
    expect((await send(apiAt(`http://gpu-1:${port}`, { ...env, NO_PROXY: "gpu-1" }))).status).toBe(404);
    expect(proxy.received).toEqual([]);
  },
);
