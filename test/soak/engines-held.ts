import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Goal, portion } from "../faults/goal.ts";
import { pause } from "../faults/wire.ts";
import { inFolder } from "../faults/work.ts";
import { tinyMp4 } from "../mp4.ts";
import type { Fake, Job } from "../server/engines/videos/fakes/fake.ts";
import { percentile, readPeakMb } from "./busy.ts";
import { model } from "./engines-network.ts";
import { listenAsEngine } from "./engines-server.ts";
import { type Client, createClient, startedId, whileServing } from "./serve.ts";

const held = 64;
/** The videos of the whole goal have 512 MB; a process that does this much takes 176 to 203 MB, whatever their size. */
const maxMb = 250;
const endLimitMs = 120_000;

/** Goal 14: what waits for a server elsewhere takes no thread, and its video is not kept in memory. */
export const enginesHeld: Goal = {
  number: 14,
  title: `${held} generations at an engine at once`,
  run: ({ share }) =>
    inFolder(async (home) => {
      const videoBytes = portion(8_000_000, share);
      const videoFor = (job: Job) => largeVideo(job, videoBytes);
      const engine = await listenAsEngine("vllm-omni", { video: videoFor });
      const flags = [...engine.flags, "--jobs", `${held}`, "--credits", "1000000"];
      return whileServing(home, flags, async (announced, { pid }) => {
        const client = createClient(announced, held);
        const before = countThreads(pid);
        const ids = await startMany(client, held);
        await until(() => [...engine.fake.jobs.values()].filter(({ polls }) => polls > 0).length === held);
        await pause(portion(10_000, share));
        const waiting = { threads: countThreads(pid), mb: readPeakMb(pid) };
        for (const id of engine.fake.jobs.keys()) engine.fake.complete(id);
        const faults: string[] = [];
        for (const { id, job } of pair(ids, engine.fake)) {
          const { status, error } = await untilEnded(client, id);
          const file = join(home, "service", "videos", `${id}.mp4`);
          const isRight = status === "completed" && readFileSync(file).equals(videoFor(job));
          if (!isRight) faults.push(`${id} is ${status}: ${error}`);
        }
        client.close();
        const peakMb = readPeakMb(pid);
        if (waiting.threads > before) faults.push(`${before} threads became ${waiting.threads}`);
        if (peakMb !== undefined && peakMb > maxMb) faults.push(`it took ${peakMb} MB`);
        const figures =
          `${before} threads before, ${waiting.threads} with ${held} jobs; ${waiting.mb ?? "unknown"} MB at the most, ` +
          `${peakMb ?? "unknown"} MB with ${held} videos of ${(videoBytes / 1e6).toFixed(1)} MB`;
        return { figures, target: `no thread more, under ${maxMb} MB`, faults };
      }).finally(engine.close);
    }),
};

/** Goal 15: how soon a video is there after the engine has made it. */
export const enginesDelay: Goal = {
  number: 15,
  title: "from the engine's completion to ours",
  run: ({ random, share }) =>
    inFolder(async (home) => {
      const count = portion(200, share, 4);
      const maxP95Ms = share === 1 ? 3_000 : 10_000;
      const made = new Map<string, number>();
      const engine = await listenAsEngine("vllm-omni", {
        async fault(call) {
          if (call.route !== "create") return undefined;
          const reply = await call.serve();
          const { id } = (await reply.clone().json()) as { id: string };
          void pause(random.between(500, 4_000)).then(() => {
            made.set(id, performance.now());
            engine.fake.complete(id);
          });
          return reply;
        },
      });
      const flags = [...engine.flags, "--jobs", `${held}`, "--credits", "1000000"];
      return whileServing(home, flags, async (announced) => {
        const client = createClient(announced, held);
        const ids = await startMany(client, count);
        await until(() => engine.fake.jobs.size > 0);
        const delays: number[] = [];
        const faults: string[] = [];
        await Promise.all(
          ids.map(async (id, index) => {
            const prompt = promptOf(index);
            const findJob = () => [...engine.fake.jobs.values()].find(({ create }) => create.fields.prompt === prompt);
            await until(() => made.has(findJob()?.id ?? ""));
            const { status, error } = await untilEnded(client, id);
            delays.push(performance.now() - (made.get(findJob()?.id ?? "") ?? 0));
            if (status !== "completed") faults.push(`${id} is ${status}: ${error}`);
          }),
        );
        client.close();
        const [p50Ms, p95Ms] = [percentile(delays, 0.5), percentile(delays, 0.95)];
        if (p95Ms > maxP95Ms) faults.push(`95 in 100 took up to ${p95Ms.toFixed(0)} ms`);
        const figures = `p50 ${p50Ms.toFixed(0)} ms, p95 ${p95Ms.toFixed(0)} ms of ${delays.length}`;
        return { figures, target: `p95 within ${maxP95Ms} ms`, faults };
      }).finally(engine.close);
    }),
};

const promptOf = (index: number) => `fox ${index} at dusk`;

function startMany(client: Client, count: number): Promise<string[]> {
  const start = async (index: number) => startedId(await client.start({ prompt: promptOf(index), model }));
  return Promise.all(Array.from({ length: count }, (_, index) => start(index)));
}

function pair(ids: string[], { jobs }: Fake): { id: string; job: Job }[] {
  return ids.flatMap((id, index) => {
    const job = [...jobs.values()].find(({ create }) => create.fields.prompt === promptOf(index));
    return job ? [{ id, job }] : [];
  });
}

async function until(isSo: () => boolean): Promise<void> {
  for (const end = performance.now() + endLimitMs; !isSo(); await pause(10))
    if (performance.now() > end) throw new Error(`not so after ${endLimitMs / 1_000} s: ${isSo}`);
}

async function untilEnded(client: Client, id: string): Promise<Record<string, unknown>> {
  const end = performance.now() + endLimitMs;
  for (;;) {
    const { json } = await client.status(id);
    if (json.status !== "processing" || performance.now() > end) return json;
    await pause(20);
  }
}

/** The job's id again and again, in an .mp4. */
function largeVideo({ id }: Job, bytes: number): Uint8Array {
  const size = Buffer.alloc(8, "\0\0\0\0mdat");
  size.writeUInt32BE(bytes + 8);
  return Buffer.concat([tinyMp4(id), size, Buffer.alloc(bytes, id)]);
}

function countThreads(pid: number): number {
  return readdirSync(`/proc/${pid}/task`).length;
}
