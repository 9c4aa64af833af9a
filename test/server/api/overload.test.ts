import { once } from "node:events";
import { expect, test } from "vitest";
import { spawnVidgen } from "../../faults/spawned.ts";
import { makeFolder } from "../../folder.ts";
import { type Announced, whileServing } from "../../soak/serve.ts";
import { cookieOf } from "../page/sign-in.ts";
import { aPng } from "../queue/pictures.ts";
import { dial } from "./wire.ts";

// The program as it is installed, with more clients than it has room for.

const unknown = "00000000-0000-4000-8000-000000000000";
const start = { prompt: "a fox", model: "sora-2" };

/** A service with a second account, which has no credits, and what each of the two gets from it. */
function whileBusy(work: (service: Awaited<ReturnType<typeof open>>) => Promise<void>) {
  return whileServing(makeFolder(), ["--page"], async (announced) => work(await open(announced)));
}

async function open({ base_url, api_key }: Announced) {
  const send = (path: string, init: RequestInit = {}, key = api_key) =>
    fetch(base_url + path, { ...init, headers: { Authorization: `Bearer ${key}`, ...init.headers } });
  const post = (path: string, body: object, key?: string) =>
    send(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }, key);
  const signIn = async (key: string) =>
    cookieOf(
      await fetch(base_url, { method: "POST", headers: { Origin: base_url }, body: new URLSearchParams({ key }) }),
    );
  const poor = (await (await post("/accounts", { name: "poor", credits: 0 })).json()) as { api_key: string };
  const cookies = { own: await signIn(api_key), poor: await signIn(poor.api_key) };
  const page = (Cookie: string) => fetch(base_url, { headers: { Cookie, Accept: "text/html" } });
  /** Sends part of a request on a connection of its own, and returns the status of what comes, or 0 when the connection ends before. */
  const hold = (text: string) => {
    const socket = dial(Number(new URL(base_url).port));
    socket.write(text.replace("%h", new URL(base_url).host).replace("%o", base_url));
    const status = Promise.race([
      once(socket, "data").then(([data]) => Number(/^HTTP\/1\.1 (\d+)/.exec(String(data))?.[1])),
      once(socket, "close").then(() => 0),
    ]);
    return { socket, status };
  };
  return { base_url, api_key, poorKey: poor.api_key, cookies, send, post, page, hold };
}

test("600 event streams of one account exclude neither other accounts nor its own page", () =>
  whileBusy(async ({ base_url, send, post, page, hold, cookies }) => {
    const events = `GET /events HTTP/1.1\r\nHost: %h\r\nCookie: ${cookies.poor}\r\n\r\n`;
    const held = Array.from({ length: 600 }, () => hold(events));
    const statuses = await Promise.all(held.map(({ status }) => status));
    expect(statuses.filter((status) => status === 200)).toHaveLength(32);
    expect(statuses.filter((status) => status === 429)).toHaveLength(568);
    const replies = [
      await send("/healthz"),
      await send(`/api/generation-status?id=${unknown}`),
      await post("/api/generate", start),
      await page(cookies.own),
      await page(cookies.poor),
      await fetch(`${base_url}/events`, { headers: { Cookie: cookies.own } }),
    ];
    expect(replies.map(({ status }) => status)).toEqual([200, 404, 200, 200, 200, 200]);
    await replies.at(-1)?.body?.cancel();
    for (const { socket } of held) socket.destroy();
    const again = async () => {
      const { socket, status } = hold(events);
      return status.finally(() => socket.destroy());
    };
    await expect.poll(again).toBe(200);
  }));

test("beside 600 slow requests, a generation starts, and is saved when there is room for its status request", () =>
  whileBusy(async ({ base_url, api_key, send, hold }) => {
    const slow = `POST / HTTP/1.1\r\nHost: %h\r\nOrigin: %o\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\nkey=`;
    const held = Array.from({ length: 600 }, () => hold(slow));
    const status = () => send(`/api/generation-status?id=${unknown}`);
    await expect.poll(async () => (await status()).status).toBe(429);
    const refused = await status();
    expect([refused.headers.get("Retry-After"), await refused.json()]).toMatchObject([
      "5",
      { error: { code: "busy" } },
    ]);
    expect((await send("/healthz")).status).toBe(200);
    const folder = makeFolder();
    const env = { VIDGEN_HOME: folder, VIDGEN_BASE_URL: base_url, VIDGEN_API_KEY: api_key };
    const vidgen = (...argv: string[]) => spawnVidgen(argv, env, folder).ended;
    const started = await vidgen("generate", "a fox", "--model", "sora-2", "--no-wait");
    expect(started.code, started.stderr).toBe(0);
    for (const { socket } of held) socket.write("x".repeat(5));
    const statuses = await Promise.all(held.map((each) => each.status));
    const seen = (status: number) => statuses.filter((each) => each === status).length;
    expect(seen(401) + seen(429)).toBe(600);
    expect(seen(401)).toBeGreaterThanOrEqual(512);
    const metrics = await (await send("/metrics")).text();
    const counted = (labels: string) => Number(metrics.split(`_seconds_count{${labels}} `)[1]?.split("\n")[0] ?? 0);
    expect(counted('method="POST",route="other",status="429"')).toBe(seen(429));
    expect(counted('method="POST",route="page",status="401"')).toBe(seen(401));
    expect(counted('method="POST",route="/api/generate",status="200"')).toBe(1);
    const waited = await vidgen("wait", started.stdout.trim(), "-o", "fox.mp4");
    expect([waited.code, waited.stdout], waited.stderr).toEqual([0, "fox.mp4\n"]);
  }));

test("of too many large bodies at once, the last are refused with 429 after they were sent, and another account's is accepted", () =>
  whileBusy(async ({ poorKey, post, hold }) => {
    const body = Buffer.from(JSON.stringify(start).padEnd(20_000_000));
    const head = `POST /api/generate HTTP/1.1\r\nHost: %h\r\nAuthorization: Bearer ${poorKey}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
    const held = Array.from({ length: 15 }, () => hold(head));
    await Promise.all(held.map(({ socket }) => new Promise((resolve) => socket.write(body.subarray(0, -1), resolve))));
    const image = Buffer.concat([aPng(3, 2), Buffer.alloc(14_000_000)]).toString("base64");
    const other = await post("/api/generate", { ...start, imageUrl: `data:image/png;base64,${image}` });
    for (const { socket } of held) socket.write(body.subarray(-1));
    const statuses = await Promise.all(held.map(({ status }) => status));
    expect([other.status, statuses.filter((each) => each === 402).length]).toEqual([200, 9]);
    expect(statuses.filter((each) => each === 429)).toHaveLength(6);
  }));
