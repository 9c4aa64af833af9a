import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { type Goal, portion } from "../faults/goal.ts";
import { pause } from "../faults/wire.ts";
import { inFolder, side } from "../faults/work.ts";
import { type Client, createClient, startedId, whileServing } from "./serve.ts";

/** Beside other tests it is slower: a quick look has slack. */
const targetsFor = (share: number) => ({ p95Ms: share === 1 ? 50 : 500, growthMb: 100 });
/** Several times what it takes by itself: other work on the machine is no fault of the program. */
const endLimitMs = 600_000;

/** Goal 8: while all cores render, the service answers, and its memory does not grow with the queue. */
export const busy: Goal = {
  number: 8,
  title: "a queue of generations",
  run: ({ share }) =>
    inFolder((home) =>
      whileServing(home, ["--credits", "1000000"], async (announced, { pid }) => {
        const targets = targetsFor(share);
        const count = portion(200, share, 4);
        const client = createClient(announced, count);
        const startAll = (bodies: object[]) =>
          Promise.all(bodies.map(async (body) => startedId(await client.start(body))));
        // What the renders themselves take, most of it for two large ones at once, and what the system keeps of it.
        const large = Array.from({ length: 2 * availableParallelism() }, (_, index) => ({
          ...bodyOf(index),
          ...largest,
        }));
        const warmUp = await watch(client, await startAll(large));
        const warmMb = readPeakMb(pid);
        const started = performance.now();
        const ids = await startAll(Array.from({ length: count }, (_, index) => bodyOf(index)));
        const looks = await watch(client, ids);
        const seconds = ((performance.now() - started) / 1_000).toFixed(0);
        client.close();
        const peakMb = readPeakMb(pid);
        const p95Ms = percentile(looks.ms, 0.95);
        const faults = [...warmUp.faults, ...looks.faults];
        if (p95Ms > targets.p95Ms) faults.push(`95 in 100 status reads took up to ${p95Ms.toFixed(0)} ms`);
        if (peakMb !== undefined && warmMb !== undefined && peakMb - warmMb > targets.growthMb)
          faults.push(`it took ${peakMb} MB, and ${warmMb} MB with hardly a queue`);
        const figures =
          `${count} at once on ${availableParallelism()} cores in ${seconds} s, ` +
          `status p50 ${percentile(looks.ms, 0.5).toFixed(1)} ms, p95 ${p95Ms.toFixed(1)} ms of ${looks.ms.length}; ` +
          `${peakMb ?? "unknown"} MB at the most, ${warmMb ?? "unknown"} MB with hardly a queue`;
        return { figures, target: `p95 within ${targets.p95Ms} ms, ${targets.growthMb} MB more at the most`, faults };
      }),
    ),
};

const largest = { resolution: "1080p", aspectRatio: "16:9" };

/** Some of each kind: backgrounds of every size and shape. */
function bodyOf(index: number): object {
  const resolution = ["480p", "720p", "480p", "1080p"][index % 4];
  const aspectRatio = ["16:9", "9:16", "1:1"][index % 3];
  return { prompt: `a fox at dusk ${index}`, model: "veo-3.1", duration: 0.5, resolution, aspectRatio };
}

/** Looks at them one by one, as clients that poll do, until all have ended. */
async function watch(client: Client, ids: string[]): Promise<{ ms: number[]; faults: string[] }> {
  const left = new Set(ids);
  const ms: number[] = [];
  const faults: string[] = [];
  const end = performance.now() + endLimitMs;
  while (left.size > 0 && performance.now() < end) {
    await side([...left].slice(0, 8), 4, async (id) => {
      const before = performance.now();
      const { status, json } = await client.status(id);
      ms.push(performance.now() - before);
      if (json.status !== "processing") left.delete(id);
      if (status !== 200 || json.status === "failed") faults.push(`${id}: ${status} ${JSON.stringify(json)}`);
    });
    await pause(15);
  }
  if (left.size > 0) faults.push(`${left.size} have not ended after ${endLimitMs / 1_000} s`);
  return { ms, faults };
}

export function percentile(values: number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length * part)] ?? Number.NaN;
}

/** The most memory that the process had; `undefined` where the system does not say. */
export function readPeakMb(pid: number): number | undefined {
  try {
    const [, kb] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
    return kb === undefined ? undefined : Math.round(Number(kb) / 1_024);
  } catch {
    return undefined;
  }
}
