import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import * as z from "zod";
import { writeAnnouncement } from "../../../src/server/announcement.ts";
import { createSecret, createSigner } from "../../../src/server/callbacks/signature.ts";
import { createWorld, failure, type World } from "../../vidgen.ts";

// The socket on loopback is real, and so is the age of a signature, which the package tells by the system's clock; the application is not.

const application = "http://localhost:3000/hooks";
const secret = createSecret();
const minuteMs = 60_000;
const fields = {
  id: "7d562bbb-dd0f-4c2b-a2f6-0fa1c4cb1d2e",
  status: "completed",
  video_url: "https://x.example/a.mp4",
};
const body = JSON.stringify({ ...fields, prompt: "füchse 🦊" });

type Sent = { method?: string; headers?: Record<string, string>; body?: string | Buffer };

/** A callback as the service sends it. */
function signed({ id = `msg_${randomBytes(8).toString("hex")}`, text = body, by = secret, ageMs = 0 } = {}) {
  const headers = createSigner(by)({ id, account: "local", body: text }, new Date(Date.now() - ageMs));
  return { headers: { "content-type": "application/json", ...headers }, body: text };
}

/** A `vidgen listen` that listens, to be stopped. */
async function startListening(world: World, ...flags: string[]) {
  const ended = world.vidgen("listen", "--port", "0", ...flags);
  const { printed } = world;
  const address = () => /"callback_url":"([^"]+)|--callback-url (\S+)/.exec(printed.stdout + printed.stderr);
  while (!address() && printed.code === -1) await new Promise((resolve) => setImmediate(resolve));
  const [, inJson, inNote] = address() ?? [];
  const url = inJson ?? inNote ?? "";
  const send = async ({ method = "POST", headers = {}, body }: Sent) =>
    (await fetch(url, { method, headers, ...(body !== undefined && { body }) })).status;
  const stop = async () => {
    world.press("Ctrl-C");
    const { code, stdout, stderr } = await ended;
    return { code, lines: stdout.split("\n").slice(0, -1), stderr };
  };
  return { url, send, stop, printed };
}

/** A machine that knows the secret, and an application behind it. */
async function createMachine(answer: () => Promise<Response> | Response = () => new Response("thanks")) {
  const world = await createWorld();
  world.env = { ...world.env, VIDGEN_WEBHOOK_SECRET: secret };
  world.faults.push((request) => (request.url === application ? answer() : undefined));
  return world;
}

test("prints what to pass as --callback-url, a line for each callback, and ends well at Ctrl-C", async () => {
  const { url, send, stop } = await startListening(await createMachine());
  expect(await send(signed())).toBe(200);
  expect(await stop()).toEqual({
    code: 0,
    lines: ["completed 7d562bbb signature ok -> 200 in 0 ms"],
    stderr: `Start a generation with --callback-url ${url}\nPress Ctrl-C to stop.\n`,
  });
});

test("--forward passes on the same bytes, and the headers by which the application can check them", async () => {
  const world = await createMachine();
  const { send, stop } = await startListening(world, "--forward", application);
  const callback = signed();
  await send({ ...callback, headers: { ...callback.headers, Authorization: "Bearer x", "X-Other": "y" } });
  await stop();
  const [request] = world.requests;
  expect(world.requests).toHaveLength(1);
  expect(request).toMatchObject({ method: "POST", url: application, body });
  expect(Object.fromEntries(request?.headers ?? [])).toEqual(callback.headers);
});

test("--forward takes an address without its scheme", async () => {
  const world = await createMachine();
  const { send, stop } = await startListening(world, "--forward", application.replace("http://", ""));
  await send(signed());
  await stop();
  expect(world.requests.map(({ url }) => url)).toEqual([application]);
});

test.each([200, 204, 302, 410, 500])("the application's own %i is the answer", async (status) => {
  const world = await createMachine(() => new Response(null, { status }));
  const { send, stop } = await startListening(world, "--forward", application);
  const { headers, body } = signed();
  // A redirect is told, not followed; `fetch` in this test would follow one.
  expect(await send({ headers, body })).toBe(status);
  expect((await stop()).lines).toEqual([`completed 7d562bbb signature ok -> ${status} in 0 ms`]);
});

test("an application that cannot be reached is 502, with the reason", async () => {
  const world = await createMachine(() => {
    throw failure("ECONNREFUSED", false);
  });
  const { send, stop } = await startListening(world, "--forward", application);
  expect(await send(signed())).toBe(502);
  expect((await stop()).lines).toEqual([
    "completed 7d562bbb signature ok, not forwarded: econnrefused on purpose (ECONNREFUSED) -> 502 in 0 ms",
  ]);
});

test("an application that does not answer is 502 before the service gives the attempt up", async () => {
  let arrived = () => {};
  const isThere = new Promise<void>((resolve) => (arrived = resolve));
  const world = await createMachine(() => {
    arrived();
    return new Promise(() => {});
  });
  const { send, stop } = await startListening(world, "--forward", application);
  const sent = send(signed());
  await isThere;
  await world.io.sleep(14_000);
  expect(await sent).toBe(502);
  expect((await stop()).lines[0]).toContain("not forwarded: no response within 12 s -> 502");
});

const good = signed();
const binary = Buffer.concat([Buffer.from('{"id":"'), Buffer.from([0xff]), Buffer.from('"}')]);
const without = (name: string) => ({ ...good, headers: { ...good.headers, [name]: "" } });
const forged: [string, Sent, status: number, reason: string][] = [
  ["of another secret", signed({ by: createSecret() }), 401, "invalid signature: no matching signature found"],
  ["with another body", { ...good, body: body.replace("completed", "failed") }, 401, "no matching signature"],
  ["with another id", { ...good, headers: { ...good.headers, "webhook-id": "msg_0" } }, 401, "no matching signature"],
  ["of six minutes ago", signed({ ageMs: 6 * minuteMs }), 401, "message timestamp too old"],
  ["in six minutes", signed({ ageMs: -6 * minuteMs }), 401, "message timestamp too new"],
  ["without its id", without("webhook-id"), 401, "missing required headers"],
  ["without its time", without("webhook-timestamp"), 401, "missing required headers"],
  ["without its signature", without("webhook-signature"), 401, "missing required headers"],
  ["without any header", { body }, 401, "missing required headers"],
  ["that is cut JSON", signed({ text: body.slice(0, -5) }), 400, "the body is not a JSON object"],
  ["that is a list", signed({ text: "[]" }), 400, "the body is not a JSON object"],
  ["that is null", signed({ text: "null" }), 400, "the body is not a JSON object"],
  ["that is empty", signed({ text: "" }), 400, "the body is not a JSON object"],
  // Its text, with U+FFFD in place of the byte, is what was signed.
  ["whose bytes are no text", { ...signed({ text: binary.toString() }), body: binary }, 400, "the body is not UTF-8"],
  ["of 1 MB and a byte", signed({ text: `"${"x".repeat(999_999)}"` }), 413, "the body is longer than 1 MB"],
  ["by PUT", { ...good, method: "PUT" }, 405, "PUT instead of POST"],
  ["by GET", { method: "GET", headers: good.headers }, 405, "GET instead of POST"],
];
test.each(forged)("a callback %s is refused and not forwarded", async (_, sent, status, reason) => {
  const world = await createMachine();
  const { send, stop } = await startListening(world, "--forward", application);
  expect(await send(sent)).toBe(status);
  expect((await stop()).lines).toEqual([
    expect.stringMatching(new RegExp(`^refused: .*${reason}.* -> ${status} in 0 ms$`)),
  ]);
  expect(world.requests).toEqual([]);
});

test("a body of 1 MB is not too large", async () => {
  const { send, stop } = await startListening(await createMachine());
  expect(await send(signed({ text: JSON.stringify({ x: "x".repeat(999_992) }) }))).toBe(200);
  expect((await stop()).lines).toEqual(["? ? signature ok -> 200 in 0 ms"]);
});

test("a duplicate is answered like the first one and not forwarded, also while the first is on its way", async () => {
  const statuses = [202, 500];
  const world = await createMachine(() => new Response(null, { status: statuses.shift() ?? 0 }));
  const { send, stop } = await startListening(world, "--forward", application);
  const id = "msg_1";
  expect(await Promise.all([send(signed({ id })), send(signed({ id }))])).toEqual([202, 202]);
  expect(await send(signed({ id, ageMs: minuteMs, text: '{"id":"other"}' }))).toBe(202);
  const { lines } = await stop();
  expect(lines.map((line) => line.includes("duplicate"))).toEqual([false, true, true]);
  expect(world.requests).toHaveLength(1);
});

test("what the application did not accept is forwarded again when the service sends it again", async () => {
  const statuses = [500, 200];
  const world = await createMachine(() => new Response(null, { status: statuses.shift() ?? 0 }));
  const { send, stop } = await startListening(world, "--forward", application);
  const id = "msg_1";
  const answers = [];
  for (let i = 0; i < 3; i++) answers.push(await send(signed({ id })));
  await stop();
  expect([answers, world.requests.length]).toEqual([[500, 200, 200], 2]);
});

test("a forged callback with the id of a good one keeps nobody from getting the good one", async () => {
  const world = await createMachine();
  const { send, stop } = await startListening(world, "--forward", application);
  const id = "msg_1";
  expect(await send(signed({ id, by: createSecret() }))).toBe(401);
  expect(await send(signed({ id }))).toBe(200);
  await stop();
  expect(world.requests).toHaveLength(1);
});

test("without VIDGEN_WEBHOOK_SECRET it checks with the local service's secret, from when that is there", async () => {
  const world = await createWorld();
  const { send, stop } = await startListening(world);
  await send({ body });
  await send(signed());
  await writeAnnouncement(join(world.home, "service"), { api_key: "vgs_0", webhook_secret: secret });
  await send({ body });
  await send(signed());
  const { lines, stderr } = await stop();
  expect(stderr).toContain("Signatures are not checked: set VIDGEN_WEBHOOK_SECRET");
  expect(lines).toEqual([
    "completed 7d562bbb not signed, not checked -> 200 in 0 ms",
    "completed 7d562bbb not checked -> 200 in 0 ms",
    "refused: invalid signature: missing required headers -> 401 in 0 ms",
    "completed 7d562bbb signature ok -> 200 in 0 ms",
  ]);
});

test("a local service whose file is damaged while it listens lets nothing through", async () => {
  const world = await createWorld();
  const { send, stop } = await startListening(world, "--forward", application);
  await writeAnnouncement(join(world.home, "service"), { api_key: 0 } as never);
  expect(await send(signed())).toBe(500);
  expect((await stop()).lines).toEqual([expect.stringMatching(/^refused: Cannot read .*service\.json.* -> 500/)]);
  expect(world.requests).toEqual([]);
});

test("--no-check takes callbacks of a service that does not sign", async () => {
  const { send, stop } = await startListening(await createMachine(), "--no-check");
  expect(await send({ body })).toBe(200);
  const { lines, stderr } = await stop();
  expect(lines).toEqual(["completed 7d562bbb not signed, not checked -> 200 in 0 ms"]);
  expect(stderr).toContain("Signatures are not checked.\n");
});

test("what comes in cannot steer the terminal, and a secret in it is not printed", async () => {
  const { send, stop } = await startListening(await createMachine());
  await send(signed({ text: JSON.stringify({ status: "\u001b[31mred\r\n\u202efine", id: "\u0007a\nb" }) }));
  await send(signed({ text: JSON.stringify({ status: secret, id: secret }) }));
  const { lines, stderr } = await stop();
  expect(lines[0]).toBe("red fine a b signature ok -> 200 in 0 ms");
  expect(lines[1]).toBe("[key] [key] signature ok -> 200 in 0 ms");
  expect(stderr).not.toContain(secret);
});

test("--json prints the address first, then one document a line, as the schema says", async () => {
  const world = await createMachine();
  const schema = z.fromJSONSchema(JSON.parse((await world.vidgen("help", "listen", "--json")).stdout).result);
  const { url, send, stop } = await startListening(world, "--json");
  const { headers, body } = signed({ id: "msg_1" });
  await send({ headers, body });
  await send({ headers, body: "{" });
  const { lines, stderr } = await stop();
  const [address, first, second] = lines.map((line) => schema.parse(JSON.parse(line)));
  expect([stderr, lines.length, address]).toEqual(["", 3, { event: "listening", callback_url: url }]);
  const told = { event: "callback", webhook_id: "msg_1", verified: true, duplicate: false, error: null };
  expect(first).toEqual({ ...fields, ...told, http_status: 200, took_ms: 0, at: "2026-01-01T00:00:00.000Z" });
  expect(second).toMatchObject({
    id: null,
    verified: false,
    http_status: 401,
    error: expect.stringContaining("invalid signature"),
  });
});

test("it listens on 127.0.0.1 alone", { skip: process.platform !== "linux" }, async () => {
  const { url, stop } = await startListening(await createMachine());
  const other = connect(Number(new URL(url).port), "127.0.0.2");
  await expect(once(other, "connect")).rejects.toMatchObject({ code: "ECONNREFUSED" });
  await stop();
});

test.each([
  [
    ["--host", "0.0.0.0"],
    '--host must be an IP address of this machine in a private network, such as 10.0.0.5, not "0.0.0.0"',
  ],
  [["--host", "203.0.113.5"], "use a tunnel to the port"],
  [["--host", "gpu-1"], "--host must be an IP address"],
  [["--port", "x"], "--port must be a whole number from 0 to 65535"],
  [["--forward", "ftp://localhost:3000"], "--forward is not an http(s) URL"],
  [["--forward", "http://u:p@localhost/"], "--forward must not contain a user name or password"],
])("%j is a usage error", async (flags, words) => {
  const world = await createWorld();
  const { code, stdout, stderr } = await world.vidgen("listen", ...flags);
  expect([code, stdout, stderr]).toEqual([2, "", expect.stringContaining(words)]);
});

test("a port that is in use is a usage error, and so is a bad secret, which is not printed", async () => {
  const world = await createWorld();
  const other = createServer().listen(0, "127.0.0.1");
  await once(other, "listening");
  const { port } = other.address() as AddressInfo;
  const inUse = await world.vidgen("listen", "--port", String(port));
  other.close();
  expect([inUse.code, inUse.stderr]).toEqual([2, expect.stringContaining(`127.0.0.1:${port} is in use.`)]);
  world.env = { ...world.env, VIDGEN_WEBHOOK_SECRET: "whsec_not base64!" };
  const bad = await world.vidgen("listen");
  expect([bad.code, bad.stderr]).toEqual([
    2,
    expect.stringContaining("VIDGEN_WEBHOOK_SECRET is not a Standard Webhooks secret"),
  ]);
  expect(bad.stderr).not.toContain("not base64!");
});
