import { describe, expect, test } from "vitest";
import type { Clock } from "../../../src/io.ts";
import type { Engine } from "../../../src/server/engines/engine.ts";
import { createVideosEngine } from "../../../src/server/engines/videos/videos.ts";
import type { Call, FakeOptions } from "../engines/videos/fakes/fake.ts";
import { ioFetch } from "../engines/videos/fakes/fake.ts";
import { createSglang } from "../engines/videos/fakes/sglang.ts";
import { createTestService, type TestService } from "../service.ts";

const minute = 60_000;
const model = "wan-2.5";

type Fault = NonNullable<FakeOptions["fault"]>;

/** An engine over a server that makes a video in 10 s, if the fault lets it. */
function anEngine(name: string, clock: Clock, { fault, jobs = 4 }: { fault?: Fault; jobs?: number } = {}): Engine {
  const fake = createSglang({ now: clock.now, completeAfterMs: 10_000, ...(fault && { fault }) });
  const noOpen = () => Promise.reject(new Error("there is no other host"));
  return createVideosEngine(
    {
      ...{ url: `http://${name}.test`, upstreamModel: undefined, key: undefined, kind: undefined },
      ...{ models: [model], concurrency: jobs, timeoutMs: 30 * minute, onNote: () => {} },
    },
    { ...clock, sleep: (clock as { doze?: Clock["sleep"] }).doze ?? clock.sleep, fetch: ioFetch(fake), open: noOpen },
  );
}

const refuse = () => {
  throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED", sent: false });
};
const broken: Fault = ({ route }: Call) =>
  route === "create" ? new Response("bad gateway", { status: 502 }) : undefined;

async function startAll(service: TestService, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index++) ids.push(await service.startId({ model }));
  return ids;
}

/** How the generations have ended, and how many did so. */
async function endsOf({ store }: TestService, ids: string[]): Promise<Record<string, number>> {
  const ends: Record<string, number> = {};
  for (const id of ids) {
    const { status = "lost", error } = (await store.generation(id)) ?? {};
    const end = error ? error.replace(/\(.*\)/, "") : status;
    ends[end] = (ends[end] ?? 0) + 1;
  }
  return ends;
}

describe("with a good engine of the same model", () => {
  test("one that is not there fails no generation", async () => {
    const engines = (clock: Clock) => [anEngine("dead", clock, { fault: refuse }), anEngine("good", clock)];
    const service = await createTestService({ engines });
    const ids = await startAll(service, 12);
    await service.clock.sleep(40 * minute);
    expect(await endsOf(service, ids)).toEqual({ completed: 12 });
  });

  test("one that answers 502 leaves at most 3 of 100 unclear", async () => {
    const engines = (clock: Clock) => [anEngine("broken", clock, { fault: broken, jobs: 16 }), anEngine("good", clock)];
    const service = await createTestService({ engines });
    const ids = await startAll(service, 100);
    await service.clock.sleep(40 * minute);
    const { completed = 0, ...others } = await endsOf(service, ids);
    expect(completed).toBeGreaterThanOrEqual(97);
    expect(Object.keys(others)).toEqual([expect.stringMatching(/^it is unclear whether http:\/\/broken\.test/)]);
  });
});
