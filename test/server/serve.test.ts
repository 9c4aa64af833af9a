import { randomUUID } from "node:crypto";
import { EventEmitter, once } from "node:events";
import fs, { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Io } from "../../src/io.ts";
import { listen } from "../../src/server/api/listen.ts";
import { saveBackup } from "../../src/server/backup.ts";
import { openService } from "../../src/server/serve.ts";
import { makeFolder } from "../folder.ts";
import { tinyMp4 } from "../mp4.ts";
import { realIo } from "../real-io.ts";
import { say } from "./api/wire.ts";
import { cookieOf, useLink } from "./page/sign-in.ts";
import { fakeEngine } from "./service.ts";

const system = realIo();

/** The real world, in which a lease is refreshed after 20 ms instead of 10 s. */
function quickIo(): Io {
  const io = system;
  return { ...io, limit: (ms, parent, reason) => io.limit(ms === 10_000 ? 20 : ms, parent, reason) };
}

type Options = Parameters<typeof openService>[0];

/** A service on free ports of this machine, with what a test changes; closed with the test. */
async function open(changes: Partial<Options> = {}, io: Io = system) {
  const options: Options = {
    folder: changes.folder ?? makeFolder(),
    engines: [fakeEngine()],
    host: "127.0.0.1",
    isLoopback: true,
    ports: { api: 0, media: 0 },
    pace: "fast",
    resume: "all",
    onDelivery: () => {},
    onNote: () => {},
    ...changes,
  };
  const service = await openService(options, io);
  if (service.kind === "held") throw new Error("held");
  onTestFinished(() => service.close(0));
  const start = (prompt: string, model = "sora-2") =>
    service.api(
      new Request("http://127.0.0.1/api/generate", {
        method: "POST",
        headers: { Authorization: `Bearer ${service.address.api_key}`, "Content-Type": "application/json" },
        body: JSON.stringify({ prompt, model }),
      }),
    );
  return { ...service, start };
}

test("a backup that the running service cannot write is an error that says why", async () => {
  const folder = makeFolder();
  await open({ folder });
  const { writeSync } = fs;
  onTestFinished(() => void Object.assign(fs, { writeSync }));
  fs.writeSync = () => {
    throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
  };
  const copy = join(makeFolder(), "copy.db");
  await expect(saveBackup(folder, copy, system)).rejects.toThrow(
    "the running service could not copy its database: the disk is full",
  );
  expect(fs.existsSync(copy)).toBe(false);
});

test("a request that fails because of a full disk is logged with its cause", async () => {
  const notes: string[] = [];
  const service = await open({ onNote: (text) => void notes.push(text) });
  const { writeSync } = fs;
  onTestFinished(() => void Object.assign(fs, { writeSync }));
  fs.writeSync = () => {
    throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
  };
  const reply = await service.start("a fox");
  expect([reply.status, reply.headers.get("Retry-After")]).toEqual([503, "5"]);
  const ready = await service.api(new Request("http://127.0.0.1/readyz"));
  expect([ready.status, await ready.json()]).toMatchObject([503, { database: "unavailable", media: "ok" }]);
  expect(notes).toEqual(["The database cannot be written: the disk is full."]);
});

test("the owner's engines, prices and directives reach the service", async () => {
  const engines = [fakeEngine({ isSimulation: false, models: ["my-wan"] })];
  const service = await open({ engines, creditsPer: new Map([["my-wan", 400]]), hasDirectives: true, credits: 1_000 });
  const start = (prompt: string) => service.start(prompt, "my-wan");
  expect(await (await start("a fox")).json()).toMatchObject({ remaining_credits: 600 });
  expect((await start("a fox [http: 418]")).status).toBe(418);
});

test.each([
  ["are free", {}, { credits_charged: 0, remaining_credits: 1_000 }],
  ["use credits where their number was set", { credits: 30 }, { credits_charged: 10, remaining_credits: 20 }],
])("the owner's previews %s", async (_, options, reply) => {
  const service = await open(options);
  expect(await (await service.start("a fox")).json()).toMatchObject(reply);
});

test("the directives of a preview reach the address of its video", async () => {
  const engine = fakeEngine({
    async render({ file, request: { prompt } }) {
      writeFileSync(file, tinyMp4(prompt));
      return { kind: "made", hasThumbnail: false };
    },
  });
  const service = await open({ engines: [engine] });
  const { data } = (await (await service.start("a fox [media: 403]")).json()) as { data: { id: string } };
  const video = `${service.address.media_url}/${data.id}.mp4`;
  await expect.poll(async () => (await fetch(video)).status).toBe(403);
  expect((await fetch(video)).status).toBe(200);
});

test("a link of an account signs in once, as long as it says, and its keys and sessions stay", async () => {
  let aheadMs = 0;
  const io = { ...system, date: () => new Date(Date.now() + aheadMs) };
  const service = await open({ hasPage: true }, io);
  const post = async (path: string, body: object) => {
    const headers = { Authorization: `Bearer ${service.address.api_key}`, "Content-Type": "application/json" };
    const init = { method: "POST", headers, body: JSON.stringify(body) };
    const reply = await service.api(new Request(`http://127.0.0.1/accounts${path}`, init));
    return (await reply.json()) as { page_url: string };
  };
  const first = await post("", { name: "ci" });
  const Cookie = cookieOf(await useLink(first.page_url));
  const [short, long] = [
    await post("/link", { account: "ci" }),
    await post("/link", { account: "ci", seconds: 259_200 }),
  ];
  aheadMs = 600_000;
  expect((await useLink(short.page_url)).status).toBe(401);
  aheadMs = 259_000_000;
  for (const status of [200, 401]) expect((await useLink(long.page_url)).status).toBe(status);
  const page = await fetch(service.address.base_url, { headers: { Cookie } });
  expect(await page.text()).toContain('popovertarget="account">ci</button>');
});

test("the videos of a disabled account are refused at their address, and shown to the owner, until it is enabled", async () => {
  const engine = fakeEngine({
    async render({ file, thumbnail }) {
      for (const name of [file, thumbnail]) writeFileSync(name, tinyMp4("a fox"));
      return { kind: "made", hasThumbnail: true };
    },
  });
  const service = await open({ engines: [engine] });
  const ask = async (path: string, body?: object, key = service.address.api_key) => {
    const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
    const init = body ? { method: "POST", body: JSON.stringify(body) } : {};
    return service.api(new Request(`http://127.0.0.1${path}`, { headers, ...init }));
  };
  const { api_key } = (await (await ask("/accounts", { name: "ci" })).json()) as { api_key: string };
  const started = await ask("/api/generate", { prompt: "a fox", model: "sora-2" }, api_key);
  const { data } = (await started.json()) as { data: { id: string } };
  const statuses = () =>
    Promise.all(
      ["mp4", "png"].map(async (end) => (await fetch(`${service.address.media_url}/${data.id}.${end}`)).status),
    );
  await expect.poll(statuses).toEqual([200, 200]);
  await ask("/accounts/disable", { account: "ci" });
  expect(await statuses()).toEqual([403, 403]);
  expect((await ask(`/v1/videos/${data.id}/content?account=ci`)).status).toBe(200);
  await ask("/accounts/enable", { account: "ci" });
  expect(await statuses()).toEqual([200, 200]);
});

test("a key that was rotated, or whose service.json was removed, is refused", async () => {
  const folder = makeFolder();
  const run = async (rotate: boolean) => {
    const service = await open({ folder, rotate });
    const accepts = async (key: string) => {
      const headers = { Authorization: `Bearer ${key}` };
      return (await service.api(new Request("http://127.0.0.1/api/generation-status", { headers }))).status !== 401;
    };
    return { key: service.address.api_key, accepts, close: () => service.close(0) };
  };
  const first = await run(false);
  await first.close();
  const rotated = await run(true);
  expect([await rotated.accepts(first.key), await rotated.accepts(rotated.key)]).toEqual([false, true]);
  await rotated.close();
  const same = await run(false);
  expect(same.key).toBe(rotated.key);
  await same.close();
  rmSync(join(folder, "service.json"));
  const fresh = await run(false);
  onTestFinished(fresh.close);
  expect([await fresh.accepts(rotated.key), await fresh.accepts(fresh.key)]).toEqual([false, true]);
});

test("a service whose folder another process has taken over closes, and no longer writes there", async () => {
  const folder = makeFolder();
  const service = await open({ folder }, quickIo());
  const { base_url } = service.address;
  expect((await fetch(`${base_url}/api/generate`)).status).toBe(405);

  const lease = join(folder, "lease");
  const [name = ""] = readdirSync(lease);
  writeFileSync(join(folder, "service.json"), "of the other process");
  renameSync(join(lease, name), join(lease, "other-boot_1_7_1_token"));
  await expect.poll(() => service.lost.aborted).toBe(true);
  await expect
    .poll(() =>
      fetch(base_url).then(
        () => "answers",
        () => "gone",
      ),
    )
    .toBe("gone");
  await service.close(0);
  expect(readFileSync(join(folder, "service.json"), "utf8")).toBe("of the other process");
  expect(readdirSync(lease)).toEqual(["other-boot_1_7_1_token"]);
});

test("a suspended service whose folder another process has taken over submits nothing", async () => {
  const folder = makeFolder();
  const notes: string[] = [];
  const creates: string[] = [];
  const signals = new EventEmitter();
  const rendering = once(signals, "rendering");
  const engine = fakeEngine({
    async render({ request }, { checkpoint }) {
      const wokenUp = once(signals, "woken up");
      signals.emit("rendering");
      await wokenUp;
      await checkpoint({ state: "submitting" });
      creates.push(request.prompt);
      throw new Error("submitted");
    },
  });
  const service = await open({ folder, engines: [engine], onNote: (text) => void notes.push(text) });
  await service.start("a fox");
  await rendering;
  const lease = join(folder, "lease");
  const [name = ""] = readdirSync(lease);
  renameSync(join(lease, name), join(lease, "other-boot_1_7_1_token"));
  signals.emit("woken up");
  await expect.poll(() => notes.join() + creates.join()).not.toBe("");
  expect(creates).toEqual([]);
  expect(notes.join()).toMatch(/another process may have taken over/);
});

/** A port that nobody listens on. */
async function freePort(): Promise<number> {
  const { url, close } = await listen(async () => new Response(), { host: "127.0.0.1", port: 0 }, system);
  await close(0);
  return Number(new URL(url).port);
}

test("a service behind a proxy uses its public addresses, and is no longer ready when it stops", async () => {
  const port = await freePort();
  const service = await open({
    isLoopback: false,
    hasPage: true,
    publicUrls: { api: "https://video.example", media: "https://video.example/videos" },
    ports: { api: port, media: 0 },
  });
  expect(service.address).toMatchObject({
    base_url: "https://video.example",
    media_url: "https://video.example/videos",
  });
  expect(service.pageUrl).toMatch(/^https:\/\/video\.example\/\?token=/);
  const link = service.pageUrl?.replace("https://video.example", `http://127.0.0.1:${port}`) ?? "";
  const signedIn = await useLink(link, { Origin: "https://video.example" });
  expect([signedIn.status, signedIn.headers.get("Set-Cookie")]).toEqual([200, expect.stringMatching(/; Secure$/)]);
  const statusFor = (host: string) =>
    say(port, `GET /openapi.json HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  for (const host of ["video.example", "video.example:443"]) expect(await statusFor(host)).toMatch(/^HTTP\/1\.1 200 /);
  for (const host of ["video.example:8443", "evil.example:443"])
    expect(await statusFor(host)).toMatch(/^HTTP\/1\.1 403 /);
  const ask = async (path: string) => {
    const reply = await service.api(new Request(`http://127.0.0.1${path}`));
    return [reply.status, await reply.json()];
  };
  expect(await ask("/readyz")).toEqual([200, { status: "ok", database: "ok", media: "ok", engines: "ok" }]);
  await service.close(0);
  expect(await ask("/readyz")).toEqual([503, expect.objectContaining({ status: "stopping" })]);
});

test("--cors opens the API and the videos to a site's pages by a key, and neither a cookie nor the page", async () => {
  const origin = "https://studio.example";
  const service = await open({ hasPage: true, corsOrigins: [origin] });
  const { base_url, media_url, api_key } = service.address;
  const Cookie = cookieOf(await useLink(service.pageUrl ?? ""));
  const ask = async (url: string, headers: Record<string, string>) => {
    const reply = await fetch(url, { headers: { Origin: origin, ...headers } });
    return [reply.status, reply.headers.get("Access-Control-Allow-Origin")];
  };
  expect(await ask(`${base_url}/v1/models`, { Authorization: `Bearer ${api_key}` })).toEqual([200, origin]);
  expect(await ask(`${base_url}/v1/models`, { Cookie })).toEqual([401, origin]);
  expect(await ask(`${base_url}/`, { Cookie })).toEqual([403, null]);
  expect(await ask(`${media_url}/${randomUUID()}.mp4`, {})).toEqual([404, origin]);
  expect(await ask(`${media_url}/x.mp4`, { Origin: "https://evil.example" })).toEqual([403, null]);
});

test("a proxy in front of a service is reported once, unless the service has a public address", async () => {
  const notesOf = async (publicUrls: { api?: string }) => {
    const notes: string[] = [];
    const port = await freePort();
    const ports = { api: port, media: 0 };
    const { address } = await open({ ports, publicUrls, onNote: (text) => void notes.push(text) });
    const get = (headers: Record<string, string>) => fetch(`http://127.0.0.1:${port}/healthz`, { headers });
    await get({});
    expect(notes).toEqual([]);
    for (const name of ["Via", "X-Forwarded-For", "X-Forwarded-Proto"]) await get({ [name]: "1.1 proxy" });
    return { notes, address };
  };
  const { notes, address } = await notesOf({});
  await expect.poll(() => notes).toEqual([expect.stringContaining("--public-url and --public-media-url")]);
  expect(notes[0]).toContain(`name videos at ${address.media_url}`);
  expect((await notesOf({ api: "https://video.example" })).notes).toEqual([]);
});

test.each([
  { behind: "on loopback", changes: {}, allowed: ["local"] },
  { behind: "behind a proxy", changes: { publicUrls: { api: "https://video.example" } }, allowed: ["local"] },
  {
    behind: "with a network that is allowed for another account",
    changes: { isLoopback: false, isAllowed: (_ip: string, account?: string) => account === "ci" },
    allowed: ["ci"],
  },
])("callbacks to this machine, $behind, are for $allowed alone", async ({ changes, allowed }) => {
  const receiver = createServer((_, response) => void response.end("a secret"));
  await once(receiver.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void receiver.close());
  const callback_url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  const outcomes: Record<string, string> = {};
  const onDelivery: Options["onDelivery"] = ({ account, outcome }) => {
    outcomes[account] = outcome;
  };
  const service = await open({ ...changes, onDelivery });
  const post = async (path: string, body: object, key = service.address.api_key) => {
    const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
    const request = new Request(`http://127.0.0.1${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    return (await service.api(request)).json();
  };
  const { api_key } = (await post("/accounts", { name: "ci" })) as { api_key: string };
  for (const key of [service.address.api_key, api_key])
    await post("/api/generate", { prompt: "a fox", model: "sora-2", callback_url }, key);
  await expect.poll(() => Object.keys(outcomes).sort()).toEqual(["ci", "local"]);
  for (const account of ["ci", "local"])
    expect(outcomes[account]).toMatch(allowed.includes(account) ? /^HTTP 200$/ : /are refused: a loopback address/);
});
