import { mkdirSync, readFileSync, rmSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Engine } from "../../../src/server/engines/engine.ts";
import { openFolder } from "../../../src/server/media/folder.ts";
import type { Get } from "../../../src/server/outbound/outbound.ts";
import { createImageCleaner } from "../../../src/server/queue/retention.ts";
import { fetchedFiles } from "../../../src/server/store/generations.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/server/store/store.ts";
import type { createVirtualClock } from "../../clock.ts";
import { apiKey, bearer, createTestService, fakeEngine, filesIn, otherKey, type TestService } from "../service.ts";
import { aPng } from "./pictures.ts";

// Images at other machines are fetched and kept before their generation waits for an engine.

const url = "https://images.example/a.png";
const data = `data:image/png;base64,${Buffer.from(aPng(3, 1)).toString("base64")}`;
const minuteMs = 60_000;
const keptName = /^images\/[0-9a-f-]{36}$/;

async function aStore(): Promise<Store> {
  const store = await openStore(":memory:");
  onTestFinished(store.close);
  return store;
}

/** Counts what it is asked for. */
function counted(get: Get = anImage) {
  const asked: string[] = [];
  const count: Get = (address, options) => {
    asked.push(address);
    return get(address, options);
  };
  return { asked, get: count };
}

const anImage = async () => ({ status: 200, body: aPng(1, 1) });

const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

/** Makes nothing, and does not end. */
const stuck: Engine["render"] = (_, { signal }) => untilAborted(signal);

describe("the images of a generation that waits for an engine", () => {
  test("are kept under random names that no address serves; those of its data: addresses stay in the database", async () => {
    const { asked, get } = counted();
    const service = await createTestService({ get, engines: [fakeEngine({ render: stuck })] });
    await service.startId();
    const id = await service.startId({ imageUrls: [url, data], model: "kling-1.6-elements" });
    await service.clock.sleep(1_000);
    const { imageFetch } = (await service.store.generation(id)) ?? {};
    expect(imageFetch).toEqual({ files: [expect.stringMatching(keptName), null] });
    const [name = ""] = fetchedFiles(imageFetch);
    expect([asked, filesIn(service.folder)]).toEqual([[url], [name]]);
    expect(new Uint8Array(readFileSync(join(service.folder, name)))).toEqual(aPng(1, 1));
    for (const path of [name, name.replace("images/", ""), `${name.replace("images/", "")}.png`])
      expect((await service.media(new Request(`https://media.video.example/${path}`))).status).toBe(404);
    for (const body of [await (await service.status(id)).text(), await (await videoOf(service, id)).text()])
      expect(body).not.toContain(name.replace("images/", ""));
  });

  test.each<[string, Engine["render"]]>([
    ["completes", async () => ({ kind: "made", hasThumbnail: false })],
    ["fails", () => Promise.reject(new Error("out of memory"))],
  ])("are removed when it %s", async (_, end) => {
    const service: TestService = await createTestService({
      render: async (task, options) => {
        expect(filesIn(service.folder).filter((name) => keptName.test(name))).toHaveLength(1);
        return end(task, options);
      },
    });
    const id = await service.startId({ imageUrl: url });
    await service.rest();
    expect([service.ended, filesIn(service.folder)]).toEqual([[id], []]);
  });

  test.each<[string, (service: TestService, id: string) => Promise<Response>]>([
    ["it is cancelled", (service, id) => service.cancel(id, otherKey)],
    [
      "it is deleted",
      ({ api }, id) =>
        api(new Request(`https://api.video.example/v1/videos/${id}`, { method: "DELETE", headers: bearer(otherKey) })),
    ],
    [
      "its account is deleted",
      ({ api }) =>
        api(
          new Request("https://api.video.example/accounts/delete", {
            method: "POST",
            headers: { ...bearer(apiKey), "Content-Type": "application/json" },
            body: JSON.stringify({ account: "other" }),
          }),
        ),
    ],
  ])("are removed when %s", async (_, end) => {
    const service = await createTestService({ engines: [fakeEngine({ render: stuck })] });
    await service.startId();
    const id = (await startAsOther(service)).id;
    await service.clock.sleep(1_000);
    expect(filesIn(service.folder)).toHaveLength(1);
    expect((await end(service, id)).status).toBe(200);
    expect(filesIn(service.folder)).toEqual([]);
    expect((await service.store.generation(id))?.status).toBe("failed");
  });

  test("are used by the next process, which asks nobody for them", async () => {
    const store = await aStore();
    const first = await createTestService({ store, engines: [fakeEngine({ render: stuck })] });
    const running = await first.startId();
    const id = await first.startId({ imageUrl: url });
    await first.clock.sleep(1_000);
    first.kill();
    const { asked, get } = counted();
    const { folder } = first;
    const service = await createTestService({ store, folder, get, resume: "all" });
    await service.rest(2);
    expect(new Set(service.ended)).toEqual(new Set([running, id]));
    expect(asked).toEqual([]);
    expect(service.rendered.find((task) => task.id === id)?.images).toMatchObject([
      { name: `the image at ${url}`, format: "png" },
    ]);
  });
});

describe("the images that are missing", () => {
  /** A generation whose images are fetched, and then lost; with the checkpoint that it has by then. */
  async function lose(state?: "submitting" | "submitted") {
    const store = await aStore();
    const render: Engine["render"] = async (_, { checkpoint, signal }) => {
      if (state === "submitting") await checkpoint({ state });
      if (state === "submitted") await checkpoint({ state, job: "1" });
      return untilAborted(signal);
    };
    const engine = fakeEngine({ name: "http://gpu-1", isSimulation: false, render });
    const first = await createTestService({ store, engines: [engine], credits: 100 });
    if (state === undefined) await first.startId();
    const id = await first.startId({ imageUrl: url });
    await first.clock.sleep(1_000);
    first.kill();
    rmSync(join(first.folder, "images"), { recursive: true });
    return { store, folder: first.folder, id, resume: "all" as const };
  }
  const makes = (made: number[]): Engine =>
    fakeEngine({
      ...{ name: "http://gpu-1", isSimulation: false },
      render: async ({ images }) => {
        made.push(images.length);
        return Promise.reject(new Error("made"));
      },
    });

  test.each([
    ["misses them", () => {}],
    ["cannot read them", (path: string) => void mkdirSync(path, { recursive: true })],
  ])("are fetched again by the process that %s", async (_, damage) => {
    const { id, ...left } = await lose();
    for (const file of await left.store.fetchedImages()) damage(join(left.folder, file));
    const [{ asked, get }, made]: [ReturnType<typeof counted>, number[]] = [counted(), []];
    const service = await createTestService({ ...left, get, engines: [makes(made)] });
    await service.rest();
    expect([asked, made.sort()]).toEqual([[url], [0, 1]]);
    expect((await service.store.generation(id))?.error).toBe("made");
  });

  test.each(["submitting", "submitted"] as const)("are never asked for once it is %s", async (state) => {
    const { id, ...left } = await lose(state);
    const { asked, get } = counted();
    const service = await createTestService({ ...left, get, engines: [makes([])] });
    await service.rest();
    expect([service.ended, asked]).toEqual([[id], []]);
  });
});

const secondMs = 1_000;
const failures: Record<string, Get> = {
  "answers 429": replies(429),
  "answers 500": replies(500),
  "answers 503": replies(503),
  "cuts its reply": rejects("socket hang up", { code: "ECONNRESET" }),
  "does not answer": rejects("no response within 30 s"),
  "has no address": rejects("getaddrinfo ENOTFOUND", { code: "ENOTFOUND" }),
  "has an address that this process must not use": rejects("images from 10.0.0.1 are refused", { isForbidden: true }),
};

function replies(status: number, retryAfter?: string): Get {
  return async () => ({ status, retryAfter, body: new Uint8Array() });
}

function rejects(message: string, facts: object = {}): Get {
  return async () => {
    throw Object.assign(new Error(message), facts);
  };
}

/** A service whose images come from this host, and when that was asked, in seconds. */
async function createAsked(get: Get, options: Parameters<typeof createTestService>[0] = {}) {
  const asked: number[] = [];
  const service: TestService = await createTestService({
    ...{ credits: 100, hasRefunds: false, ...options },
    get: (address, request) => {
      asked.push(service.clock.now() / secondMs);
      return get(address, request);
    },
  });
  return { service, asked };
}

async function statusOf(service: TestService, id: string) {
  return (await (await service.status(id)).json()) as { status: string; not_submitted?: string; error?: string };
}

describe("a host that fails", () => {
  const allTries = [0, 5, 15, 35, 75, 135, 195, 255, 300];

  test.each(Object.entries(failures))(
    "and %s is asked again for 5 minutes; then the start is refunded",
    async (_, get) => {
      const { service, asked } = await createAsked(get);
      const id = await service.startId({ imageUrl: url });
      await service.clock.sleep(299 * secondMs);
      expect(asked).toEqual(allTries.slice(0, -1));
      const { status, not_submitted } = await statusOf(service, id);
      expect([status, await service.store.balance("local")]).toEqual(["processing", 90]);
      expect(not_submitted).toMatch(/^the image at \S+ .*; it is asked for again at 2026-01-01T00:05:00.000Z$/);
      await service.clock.sleep(2 * secondMs);
      expect(asked).toEqual(allTries);
      expect(await service.store.generation(id)).toMatchObject({ status: "failed", failure: "image" });
      expect(await service.store.balance("local")).toBe(100);
    },
  );

  test.each(Object.entries(failures))("and %s, and is well again, has its image used", async (_, get) => {
    let tries = 0;
    const { service, asked } = await createAsked((...args) => (++tries < 3 ? get(...args) : anImage()));
    const id = await service.startId({ imageUrl: url });
    await service.clock.sleep(20 * secondMs);
    await service.rest();
    expect([asked, service.ended]).toEqual([allTries.slice(0, 3), [id]]);
    expect(await service.store.generation(id)).toMatchObject({ status: "completed" });
  });

  test.each<[string, Get]>([
    ["answers 404", replies(404)],
    ["sends SVG", async () => ({ status: 200, body: new TextEncoder().encode("<svg/>") })],
    ["sends a broken header", async () => ({ status: 200, body: aPng(3, 2).subarray(0, 20) })],
    ["sends more than 20 MB", rejects("it is larger than 20 MB", { isFinal: true })],
    [
      "redirects to a private address",
      rejects("images from 10.0.0.1 are refused", { isForbidden: true, isFinal: true }),
    ],
    ["asks to wait for longer than 5 minutes", replies(429, "301")],
  ])("in a way that does not pass (%s) is asked once, and the start is refunded at once", async (_, get) => {
    const { service, asked } = await createAsked(get);
    const id = await service.startId({ imageUrl: url });
    await service.clock.sleep(secondMs);
    expect([asked, await service.store.balance("local")]).toEqual([[0], 100]);
    expect(await service.store.generation(id)).toMatchObject({ status: "failed", failure: "image" });
  });

  test("is not asked before its Retry-After", async () => {
    const { service, asked } = await createAsked(replies(429, "40"));
    await service.startId({ imageUrl: url });
    await service.clock.sleep(400 * secondMs);
    expect(asked).toEqual([0, 40, 85, 145, 205, 265]);
  });

  test("is asked again at the stored time by the next process, and once more if the 5 minutes are over", async () => {
    const store = await aStore();
    const first = await createAsked(replies(503), { store });
    const id = await first.service.startId({ imageUrl: url });
    await first.service.clock.sleep(20 * secondMs);
    first.service.kill();
    const second = await createAsked(replies(503), { store, resume: "all" });
    await second.service.clock.sleep(34 * secondMs);
    expect([first.asked, second.asked]).toEqual([[0, 5, 15], []]);
    second.service.kill();
    const third = await createAsked(replies(503), { store });
    await third.service.clock.sleep(3_600 * secondMs);
    await third.service.status(id);
    await third.service.clock.sleep(secondMs);
    expect([third.asked, await paidFor(store, id)]).toEqual([[3_600], 0]);
  });

  test("is asked by one request at a time, and holds up no other host", async () => {
    let [running, most] = [0, 0];
    const { service } = await createAsked(async (address) => {
      if (!address.includes("failing.example")) return anImage();
      most = Math.max(most, ++running);
      await service.clock.sleep(2 * secondMs);
      running--;
      return { status: 503, body: new Uint8Array() };
    });
    await service.startId({ imageUrl: "https://failing.example/1.png" });
    await service.clock.sleep(3 * secondMs);
    for (const name of [2, 3, 4]) await service.startId({ imageUrl: `https://failing.example/${name}.png` });
    const { id } = await startAsOther(service);
    await service.clock.sleep(60 * secondMs);
    expect([most, service.ended]).toEqual([1, [id]]);
  });

  test("keeps a place of max_running, which a cancel frees, with its credits", async () => {
    const { service } = await createAsked(replies(503));
    await service.store.setLimits("local", { max_running: 1 });
    const id = await service.startId({ imageUrl: url });
    await service.clock.sleep(60 * secondMs);
    expect((await service.start()).status).toBe(429);
    expect(await (await service.cancel(id)).json()).toMatchObject({ credits_returned: 10 });
    expect([await service.store.balance("local"), (await service.start()).status]).toEqual([100, 200]);
  });

  test("for one process by its own rules is left to another process", async () => {
    const store = { ...(await aStore()), isShared: true };
    const forbidding = await createAsked(failures["has an address that this process must not use"] ?? anImage, {
      store,
    });
    const id = await forbidding.service.startId({ imageUrl: url });
    await forbidding.service.clock.sleep(secondMs);
    forbidding.service.kill();
    const other = await createAsked(anImage, { store, resume: "all" });
    await other.service.clock.sleep(4 * secondMs);
    expect(other.asked).toEqual([]);
    await other.service.clock.sleep(2 * secondMs);
    await other.service.rest();
    expect([forbidding.asked.length, other.asked.length, other.service.ended]).toEqual([1, 1, [id]]);
  });

  test("gets the next try of a shared store from another process first", async () => {
    const store = { ...(await aStore()), isShared: true };
    const { service, asked } = await createAsked(replies(503), { store });
    await service.startId({ imageUrl: url });
    await service.clock.sleep(6.9 * secondMs);
    expect(asked).toHaveLength(1);
    await service.clock.sleep(secondMs);
    expect(asked).toHaveLength(2);
  });

  test("while images are missing is asked within the claim for 5 minutes, then the start is refunded", async () => {
    const store = await aStore();
    const first = await createTestService({ store, credits: 100, engines: [fakeEngine({ render: stuck })] });
    await first.startId();
    const id = await first.startId({ imageUrl: url });
    await first.clock.sleep(secondMs);
    first.kill();
    const { service, asked } = await createAsked(replies(503), { store, resume: "all", concurrency: 2 });
    await service.clock.sleep(310 * secondMs);
    expect(asked).toEqual(allTries);
    expect(await store.generation(id)).toMatchObject({ status: "failed", failure: "image" });
    expect(await paidFor(store, id)).toBe(0);
  });
});

describe("a process that begins", () => {
  test("removes the fetched images that no unfinished generation names, once they are an hour old", async () => {
    const store = await aStore();
    const service = await createTestService({ store, engines: [fakeEngine({ render: stuck })] });
    await service.startId();
    const id = await service.startId({ imageUrl: url });
    await service.clock.sleep(1_000);
    const { store: own, folder, clock } = service;
    const videos = await openFolder({ folder });
    const { signal } = new AbortController();
    const [old, young] = [await videos.keepImage(aPng(1, 1), signal), await videos.keepImage(aPng(1, 1), signal)];
    const [needed = ""] = fetchedFiles((await own.generation(id))?.imageFetch);
    const at = (ms: number) => new Date(clock.date().getTime() - ms);
    for (const name of [old, needed]) utimesSync(join(folder, name), at(61 * minuteMs), at(61 * minuteMs));
    utimesSync(join(folder, young), at(59 * minuteMs), at(59 * minuteMs));
    const ownClock = { ...clock, sleep: (clock as ReturnType<typeof createVirtualClock>).doze };
    const cleaner = createImageCleaner({ store: own, videos, clock: ownClock, reportProblem: () => {} });
    onTestFinished(cleaner.close);
    await cleaner.wake();
    expect(filesIn(folder).sort()).toEqual([needed, young].sort());
  });
});

/** Returns how many credits a generation has cost so far. */
async function paidFor(store: Store, generation: string): Promise<number> {
  return (await store.ledger({ generation, limit: 9 })).reduce((paid, { amount }) => paid - amount, 0);
}

function videoOf({ api }: TestService, id: string): Promise<Response> {
  return api(new Request(`https://api.video.example/v1/videos/${id}`, { headers: bearer(apiKey) }));
}

/** Starts a generation with an image of the second account. */
async function startAsOther(service: TestService): Promise<{ id: string }> {
  const reply = await service.start({ imageUrl: url }, bearer(otherKey));
  return ((await reply.json()) as { data: { id: string } }).data;
}
