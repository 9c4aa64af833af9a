import type { Clock } from "../../src/io.ts";
import { createVideosEngine } from "../../src/server/engines/videos/videos.ts";
import { type Goal, portion } from "../faults/goal.ts";
import { type Call, type FakeOptions, ioFetch, json } from "../server/engines/videos/fakes/fake.ts";
import { createTestService } from "../server/service.ts";
import { fakes, model, promptIn } from "./engines-network.ts";

const starts = 100;
const maxUnclear = 3;
const timeoutMs = 30 * 60_000;
const jobs = 16;

type Fault = NonNullable<FakeOptions["fault"]>;
type OnCreate = (call: Call, clock: Pick<Clock, "sleep">) => ReturnType<Fault>;

/** How the creates of the broken engine end, each time. */
const breaks: Record<string, OnCreate> = {
  refused() {
    throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED", sent: false });
  },
  "503, as it is full": () => json(503, { detail: "the queue is full" }),
  "429": () => json(429, { error: { message: "slow down" } }),
  "401": () => json(401, { error: "Unauthorized" }),
  "502": () => new Response("<h1>502 Bad Gateway</h1>", { status: 502 }),
  "502 after 5 s": (_, { sleep }) => sleep(5_000).then(() => new Response("", { status: 502 })),
  "a page": () => new Response("<h1>Hello</h1>"),
  "a reset": () => "drop",
  "a reset after it was taken": ({ serve }) => serve().then(() => "drop" as const),
  "a cut reply": async ({ serve }) => ({ reply: await serve(), bytes: 10 }),
  silence: (_, { sleep }) => sleep(10 * timeoutMs).then(() => undefined),
};

/** Goal 22: a broken engine beside a good one of the same model costs nobody more than a few videos, whose credits stay paid. */
export const enginesBroken: Goal = {
  number: 22,
  title: `a good and a broken engine, ${starts} starts, ${Object.keys(breaks).length} faults`,
  async run({ share }) {
    const count = portion(starts, share, 40);
    const figures: string[] = [];
    const faults: string[] = [];
    for (const [name, onCreate] of Object.entries(breaks)) {
      const { completed, unclear, balance, wrong } = await runStarts(onCreate, count);
      figures.push(`${name}: ${completed} completed, ${unclear} unclear`);
      if (unclear > maxUnclear || completed + unclear < count) wrong.push(`${completed} completed, ${unclear} unclear`);
      if (balance !== 10_000 - 10 * (completed + unclear)) wrong.push(`${balance} credits are left`);
      faults.push(...wrong.map((fault) => `${name}: ${fault}`));
    }
    return {
      figures: figures.join("; "),
      target: `at most ${maxUnclear} of ${count} unclear, all others made`,
      faults,
    };
  },
};

async function runStarts(onCreate: OnCreate, count: number) {
  const sent: string[] = [];
  const engine = (name: string, clock: Clock & { doze?: Clock["sleep"] }, isBroken: boolean) => {
    const own = { ...clock, sleep: clock.doze ?? clock.sleep };
    const fault: Fault = async (call) => {
      if (call.route !== "create") return undefined;
      const prompt = promptIn(await call.request.clone().text());
      if (!isBroken) sent.push(prompt);
      return isBroken ? onCreate(call, own) : undefined;
    };
    const fake = fakes["vllm-omni"]({ now: clock.now, completeAfterMs: 10_000, fault });
    return createVideosEngine(
      {
        url: `http://${name}.test`,
        upstreamModel: undefined,
        key: undefined,
        kind: undefined,
        models: [model],
        concurrency: jobs,
        timeoutMs,
        onNote: () => {},
      },
      { ...own, fetch: ioFetch(fake), open: () => Promise.reject(new Error("there is no other host")) },
    );
  };
  const service = await createTestService({
    credits: 10_000,
    engines: (clock) => [engine("broken", clock, true), engine("good", clock, false)],
  });
  const ids: string[] = [];
  for (let index = 0; index < count; index++) {
    ids.push(await service.startId({ model, prompt: `fox ${index} at dusk` }));
    await service.clock.sleep(500);
  }
  // Silence is unclear after the time limit.
  await service.clock.sleep(timeoutMs + 10 * 60_000);
  const ended = await Promise.all(ids.map((id) => service.store.generation(id)));
  const unclear = ended.filter((each) => each?.error?.includes("it is unclear whether")).length;
  const completed = ended.filter((each) => each?.status === "completed").length;
  const others = ended.filter((each) => each?.status === "failed" && !each.error?.includes("unclear whether"));
  const wrong = others.map((each) => `it failed: ${each?.error}`);
  if (new Set(sent).size < sent.length) wrong.push("a create was sent twice to the good engine");
  const balance = await service.store.balance("local");
  await service.queue.close();
  return { completed, unclear, balance, wrong };
}
