import { readFileSync, rmSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Engine } from "../../../src/server/engines/engine.ts";
import { openFolder } from "../../../src/server/media/folder.ts";
import type { Get } from "../../../src/server/outbound/outbound.ts";
import { createImageCleaner } from "../../../src/server/queue/retention.ts";
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
function counted(get: Get = async () => ({ status: 200, body: aPng(1, 1) })) {
  const asked: string[] = [];
  const count: Get = (address, options) => {
    asked.push(address);
    return get(address, options);
  };
  return { asked, get: count };
}

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
    const { fetching } = (await service.store.generation(id)) ?? {};
    expect(fetching?.files).toEqual([expect.stringMatching(keptName), null]);
    const name = fetching?.files[0] ?? "";
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

  test("are fetched again by the process that misses them", async () => {
    const { id, ...left } = await lose();
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
    const [needed = ""] = (await own.generation(id))?.fetching?.files ?? [];
    const at = (ms: number) => new Date(clock.date().getTime() - ms);
    for (const name of [old, needed ?? ""]) utimesSync(join(folder, name), at(61 * minuteMs), at(61 * minuteMs));
    utimesSync(join(folder, young), at(59 * minuteMs), at(59 * minuteMs));
    const ownClock = { ...clock, sleep: (clock as ReturnType<typeof createVirtualClock>).doze };
    const cleaner = createImageCleaner({ store: own, videos, clock: ownClock, reportProblem: () => {} });
    onTestFinished(cleaner.close);
    await cleaner.wake();
    expect(filesIn(folder).sort()).toEqual([needed, young].sort());
  });
});

function videoOf({ api }: TestService, id: string): Promise<Response> {
  return api(new Request(`https://api.video.example/v1/videos/${id}`, { headers: bearer(apiKey) }));
}

/** Starts a generation with an image of the second account. */
async function startAsOther(service: TestService): Promise<{ id: string }> {
  const reply = await service.start({ imageUrl: url }, bearer(otherKey));
  return ((await reply.json()) as { data: { id: string } }).data;
}
