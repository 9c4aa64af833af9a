import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { type Goal, portion, tally } from "../faults/goal.ts";
import { pause } from "../faults/wire.ts";
import { query } from "../postgres.ts";
import { slowness } from "../slowness.ts";
import { compareEnd, cost, credits, writerCount } from "./crashes.ts";
import { slowly } from "./engines-killed.ts";
import { listenAsEngine } from "./engines-server.ts";
import { receive } from "./receiver.ts";
import { createEngineStart, refusable, repeatsOf, suspend } from "./shared-killed.ts";
import { clientsOf, type Shared, untilAllEnded, whileSharing } from "./shared-processes.ts";
import { checkServed } from "./shared-videos.ts";
import { createWriters } from "./writers.ts";

const processCount = 3;
/** Two cores end five to six generations a second once nothing goes wrong any more; half of all may be left then. */
const endLimitMs = (count: number) => (60_000 + 200 * count) * slowness;
const diskMb = 128;

/** Goal 31: all that goes wrong on several machines, at the same time and for as long as 5,000 generations take. */
export const chaos: Goal = {
  number: 31,
  title: `chaos: ${processCount} processes on one PostgreSQL`,
  run: ({ random, share }) =>
    whileSharing(random, async (shared) => {
      const disk = mountDisk(shared.media);
      const receiver = await receive(random.fork("receiver"), 10);
      const engine = await listenAsEngine("vllm-omni", { ...slowly(random), completeAfterMs: 3_000 });
      try {
        const flags = [...engine.flags, "--jobs", "64", "--credits", `${credits}`];
        const processes = await shared.open(processCount, ...flags);
        const writers = createWriters({
          clients: clientsOf(processes, writerCount).map(refusable),
          random,
          count: writerCount,
          callbackUrl: receiver.url,
          pauseMs: 400,
          createStart: createEngineStart,
        });
        // A process that begins on a full disk, or without PostgreSQL, would end.
        const allStarted = () => Promise.all(processes.map((each) => each.started()));
        const suspensions: { ended: Promise<unknown> }[] = [];
        const events: Record<string, () => Promise<unknown>> = {
          "a process killed": () => random.pick(processes).kill(),
          "a process frozen": async () => suspensions.push(await suspend(random.pick(processes), random)),
          "LISTEN cut": () => freezeListeners(shared, random.between(1_000, 5_000)),
          ...(disk && { "the disk filled": () => allStarted().then(() => disk.fill(random.between(1_000, 4_000))) }),
        };
        const happened: string[] = [];
        const wanted = portion(5_000, share, 50);
        while (writers.started.length < wanted) {
          // PostgreSQL is killed every 5 to 10 s.
          const end = performance.now() + random.between(5_000, 10_000);
          while (performance.now() < end) {
            const name = random.pick(Object.keys(events));
            happened.push(name);
            await events[name]?.();
            await pause(random.between(500, 3_000));
          }
          await allStarted();
          happened.push("PostgreSQL killed");
          await shared.postgres.stop(random.pick(["SIGKILL", "SIGQUIT"]));
          await pause(random.between(100, 2_000));
          await shared.postgres.start();
        }
        await Promise.all(suspensions.map(({ ended }) => ended));
        await writers.stop();
        const faults = [...writers.faults, ...(await untilAllEnded(shared, cost, endLimitMs(wanted)))];
        for (const { prompt, times } of repeatsOf(engine)) faults.push(`${prompt}: ${times} creates arrived`);
        const books = await shared.books(cost);
        const created = new Set(engine.arrived.map(({ prompt }) => prompt));
        const completed = [...books.states].flatMap(([id, state]) => (state === "completed" ? [id] : []));
        for (const { id, prompt } of writers.started)
          if (books.states.get(id) === "completed" && !created.has(prompt)) faults.push(`${prompt}: no create arrived`);
        faults.push(...compareEnd(books, writers.started, receiver), ...(await checkServed(processes, completed)));
        const figures =
          `${writers.started.length} acknowledged, ${completed.length} completed, ${engine.arrived.length} creates, ${books.refunds} given back; ` +
          `${tally(happened)}${disk ? "" : "; no disk could be mounted to fill it"}`;
        const target = "each generation ends once, no create twice, the credits balance";
        return { figures, target, faults };
      } finally {
        await engine.close();
        await receiver.close();
        disk?.unmount();
      }
    }),
};

/** A small disk for the videos, which only root may mount. */
function mountDisk(folder: string) {
  mkdirSync(folder, { recursive: true });
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${diskMb}m`, "tmpfs", folder]);
  if (mounted.status !== 0) return undefined;
  const file = join(folder, "full");
  return {
    /** Leaves no byte free for so long. */
    async fill(ms: number) {
      try {
        writeFileSync(file, Buffer.alloc((diskMb + 1) * 1024 * 1024));
      } catch {}
      await pause(ms);
      rmSync(file);
    },
    unmount: () => void spawnSync("umount", ["--lazy", folder]),
  };
}

/** Stops the servers of the connections that LISTEN: nothing arrives on them, and they are not closed. */
async function freezeListeners({ database }: Shared, ms: number): Promise<void> {
  const rows = await query(database, "SELECT pid FROM pg_stat_activity WHERE query ILIKE 'LISTEN%'");
  const pids = rows.map(({ pid }) => Number(pid));
  const send = (signal: "SIGSTOP" | "SIGCONT") => {
    for (const pid of pids) {
      try {
        process.kill(pid, signal);
      } catch {
        // Its connection has ended meanwhile.
      }
    }
  };
  send("SIGSTOP");
  await pause(ms);
  send("SIGCONT");
}
