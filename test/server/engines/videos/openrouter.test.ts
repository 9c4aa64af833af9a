import { expect, test } from "vitest";
import { models } from "../../../../src/protocol/models.ts";
import { createEngines } from "../../../../src/server/engines/engines.ts";
import { kinds } from "../../../../src/server/engines/videos/kinds.ts";
import { findFault } from "../../../../src/server/engines/videos/offers.ts";
import { createVirtualClock } from "../../../clock.ts";
import { ioFetch, refusedConnection } from "./fakes/fake.ts";
import { createOpenRouter, type OpenRouterOptions } from "./fakes/openrouter.ts";
import { createTestEngine, timeoutMs } from "./run.ts";

const kind = kinds.find(({ id }) => id === "openrouter");
const key = "sk-or-canary";

async function start(options: OpenRouterOptions = {}) {
  const virtual = createVirtualClock();
  let skippedMs = 0;
  const clock = { ...virtual, now: () => virtual.now() + skippedMs };
  const skip = (ms: number) => {
    skippedMs += ms;
  };
  const fake = createOpenRouter({ now: clock.now, completeAfterMs: 90_000, key, ...options });
  const engine = await createTestEngine(ioFetch(fake), { clock, kind: "openrouter", key });
  return { ...engine, fake, skip };
}

function read(engines: string[], keys: Record<string, string> = { OPENROUTER_API_KEY: key }) {
  const sent: [url: string, authorization: string | undefined][] = [];
  const fetch = async (url: string, { headers = {} }: { headers?: Record<string, string> } = {}) => {
    sent.push([url, headers.Authorization]);
    throw refusedConnection();
  };
  const settings = { engines, readKey: (name: string) => keys[name], timeoutMs, jobs: undefined, onNote: () => {} };
  const created = createEngines(settings, { ...createVirtualClock(), fetch });
  return { created, sent };
}

test("without credits at OpenRouter, a generation fails at once with that reason, and nothing is submitted again", async () => {
  const { make, fake } = await start({ hasCredits: false });
  const { outcome, checkpoints, seconds } = await make();
  expect(outcome).toBe(
    "http://gpu.test:8091 has no credits left for this video: HTTP 402: Insufficient credits. Add more to continue.; nothing was submitted",
  );
  expect([checkpoints, seconds, fake.creates.length]).toEqual([["submitting", null], 0, 1]);
});

test.each([
  ["failed", "Content policy violation"],
  ["cancelled", "cancelled at http://gpu.test:8091: Content policy violation"],
  ["expired", "Content policy violation"],
])("a job that is %s is the end, with its own words", async (status, outcome) => {
  const { make } = await start({
    fault: ({ route }) =>
      route === "poll" ? Response.json({ id: "1", status, error: "Content policy violation" }) : undefined,
  });
  expect((await make()).outcome).toBe(outcome);
});

test("a paid job is not given up while it waits for hours, or without a network, and is polled rarely", async () => {
  let polls = 0;
  const hours = 3_600_000;
  const { make, clock } = await start({
    completeAfterMs: 4 * hours,
    fault({ route }) {
      if (route === "poll") polls++;
      return route === "poll" && clock.now() > hours && clock.now() < 3 * hours ? "drop" : undefined;
    },
  });
  const { outcome, seconds } = await make();
  expect([outcome, Math.floor(seconds / 3_600)]).toEqual(["made", 4]);
  expect(polls).toBeLessThan(4 * 60 * 4);
});

test("a paid job with an unreadable reply, as after a change of the format, is polled for a day, and frees its slot after a minute", async () => {
  let polls = 0;
  const freedAt: number[] = [];
  const unreadable = () => Response.json({ data: { state: "completed" } });
  const { make, skip, notes, clock } = await start({
    fault({ route }) {
      if (route !== "poll" || polls++ > 20) return undefined;
      // This process was suspended, which is not the job's time.
      if (polls === 10) skip(25 * 3_600_000);
      return unreadable();
    },
  });
  expect((await make({ releaseSlot: () => void freedAt.push(clock.now()) })).outcome).toBe("made");
  const [first = 0] = freedAt;
  expect([first >= 60_000, first < 100_000]).toEqual([true, true]);
  expect(notes).toEqual([
    "http://gpu.test:8091 answers about this video, but its reply could not be read: HTTP 200. Retrying.",
  ]);
  const never = await start({ fault: ({ route }) => (route === "poll" ? unreadable() : undefined) });
  const { outcome, seconds } = await never.make();
  expect(outcome).toBe(
    "http://gpu.test:8091, which was generating this video, has not given a reply that can be read for 1440 min: HTTP 200",
  );
  expect(Math.floor(seconds / 3_600)).toBe(24);
});

test("a list of models that does not load delays a start by at most a second, and the old list is used meanwhile", async () => {
  let answer: "list" | "silence" = "silence";
  let lists = 0;
  const { engine, clock } = await start({
    fault({ request }) {
      if (!request.url.endsWith("/videos/models")) return undefined;
      lists++;
      return answer === "list" ? undefined : clock.sleep(60 * 60_000).then(() => undefined);
    },
  });
  const request = { prompt: "a fox", model: "veo-3.1", aspectRatio: "16:9", duration: 5, extras: {}, images: [] };
  const ask = async () => {
    const at = clock.now();
    return { fault: await engine.findFault?.({ ...request, resolution: "720p" }), ms: clock.now() - at };
  };
  expect(await ask()).toEqual({ fault: undefined, ms: 1_000 });
  // It is not asked for again at once.
  expect([await ask(), lists]).toEqual([{ fault: undefined, ms: expect.any(Number) }, 1]);
  answer = "list";
  await clock.sleep(11 * 60_000);
  const fault = "google/veo-3.1 takes duration 4, 6 or 8 s, not 5 s";
  expect(await ask()).toMatchObject({ fault });
  answer = "silence";
  await clock.sleep(11 * 60_000);
  expect([await ask(), lists]).toEqual([{ fault, ms: 0 }, 3]);
});

test("a size in pixels is compared only with the model's sizes in the list", () => {
  const offer = {
    ...{ id: "bytedance/seedance-2.5", name: undefined, prices: undefined, takesImage: true, takesLastImage: true },
    passedNames: undefined,
    ...{ durations: undefined, resolutions: ["480p", "720p"], aspectRatios: ["16:9"], sizes: ["854x480", "640x640"] },
  };
  const fox = { prompt: "a fox", model: "seedance", aspectRatio: "1:1", resolution: "720p" as const, duration: 5 };
  const ask = (sizes: string[] | undefined, size: string) =>
    findFault({ ...offer, sizes }, { ...fox, extras: { size }, images: [] });
  expect(ask(offer.sizes, "640x640")).toBeUndefined();
  expect(ask(undefined, "640x360")).toBeUndefined();
  expect(ask(offer.sizes, "640x360")).toBe("bytedance/seedance-2.5 takes size 854x480 or 640x640, not 640x360");
});

test("fields that the start leaves out are left to the model", () => {
  const request = { prompt: "a fox", model: "veo-3.1", aspectRatio: "16:9", duration: 5, extras: {} };
  const open = { ...request, resolution: "480p" as const, unset: ["duration", "resolution", "aspectRatio"] as const };
  expect(kind?.createBody({ id: "1", request: open, images: [] }, undefined).fields).toEqual({
    prompt: "a fox",
    model: "google/veo-3.1",
  });
});

test("as the only engine, it serves the models that it has a similar one for, and names the others", () => {
  const { created } = read(["openrouter"]);
  const names = ["veo-3.1", "kling-2.6", "wan-2.5", "seedance", "minimax"];
  expect(created).toMatchObject([{ name: "https://openrouter.ai/api", models: names }]);
  for (const { id } of models) {
    const readOne = () => read([`${id}=openrouter`]);
    if (names.includes(id)) expect(readOne().created).toHaveLength(1);
    else expect(readOne).toThrow(/OpenRouter has no model that matches|it needs 2 to 4 images/);
  }
  expect(read(["ray-3=openrouter#runway/gen-4.5"]).created).toMatchObject([{ models: ["ray-3"] }]);
  expect(read(["google/veo-3.1-fast=openrouter"]).created).toMatchObject([{ models: ["google/veo-3.1-fast"] }]);
});

test("its usual key goes only to its own origin, and the key of own servers is never sent there", async () => {
  const keys = { OPENROUTER_API_KEY: key, VIDGEN_ENGINE_KEY: "own-canary" };
  const engines = [
    "veo-3.1=openrouter",
    "wan-2.5=openrouter:https://proxy.test/api/v1",
    "ray-3=https://openrouter.ai#x/y",
  ];
  const { created, sent } = read(engines, keys);
  for (const { check } of created) await check(new AbortController().signal).catch(() => {});
  expect(sent).toEqual([
    ["https://openrouter.ai/api/v1/key", `Bearer ${key}`],
    ["https://proxy.test/api/v1/key", "Bearer own-canary"],
    ["https://openrouter.ai/v1/key", `Bearer ${key}`],
  ]);
});

test("without its key, it is refused before anything else happens", () => {
  expect(() => read(["openrouter"], { VIDGEN_ENGINE_KEY: "own-canary" })).toThrow(
    expect.objectContaining({ code: "auth", message: "OpenRouter needs a key, and OPENROUTER_API_KEY is not set." }),
  );
});
