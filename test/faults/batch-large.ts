import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ugliness } from "./client.ts";
import { type Goal, portion } from "./goal.ts";
import { createService } from "./server.ts";
import { type Ended, envOf, type Spawned, spawnVidgen } from "./spawned.ts";
import { inFolder, videosIn } from "./work.ts";

/** What the system says of a process at a moment. */
type Sample = { rows: number; rssMb: number; cpuMs: number; files: number };

/** A leak of 4 kB a row, which is 18 MB, breaks it. */
const maxGrowthMb = 12;

/** Goal 17: a long batch needs no more memory than a short one; and once it is finished, running it again is quick. */
export const batchLong: Goal = {
  number: 17,
  title: "a long batch against a service that answers at once",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const count = portion(10_000, share);
      const service = await createService(random, 1_000);
      const prompts = Array.from({ length: count }, (_, i) => `fox ${i}`);
      writeFileSync(join(folder, "shots.txt"), prompts.join("\n"));
      mkdirSync(join(folder, "clips"));
      const env = envOf(service, join(folder, "home"));
      const open = () =>
        spawnVidgen(["batch", "shots.txt", "-o", "clips/{n}.mp4", "--jobs", "32"], env, folder, { limitMs: 500_000 });
      const started = () => service.oracle.starts.length;
      const first = await watch(open(), started);
      const charged = started();
      const again = await watch(open(), started);
      const further = started() - charged;
      const saved = videosIn(join(folder, "clips")).length;
      await service.close();
      const late = first.samples.filter(({ rows }) => rows > count / 10);
      const middle = Math.ceil(late.length / 2);
      const growth = peakOf(late.slice(middle)) - peakOf(late.slice(0, middle));
      const peak = peakOf(first.samples);
      const cpuMs = (first.samples.at(-1)?.cpuMs ?? 0) / count;
      const files = Math.max(0, ...first.samples.map((sample) => sample.files));
      const faults = [...troubleOf(first.ended), ...troubleOf(again.ended)];
      if (saved !== count || charged !== count || further > 0)
        faults.push(`${saved} of ${count} saved, ${charged} charged, ${further} more when run again`);
      if (peak > 200) faults.push(`${peak} MB`);
      if (growth > maxGrowthMb) faults.push(`grows by ${growth} MB in its second half`);
      if (files > 200) faults.push(`${files} files open`);
      return {
        figures:
          `${count} rows in ${seconds(first.ended)}, ${cpuMs.toFixed(1)} ms of own time each, ${peak} MB at most, ` +
          `${growth} MB more in the second half, ${files} files open at most; ` +
          `run again, finished: ${seconds(again.ended)}, ${peakOf(again.samples)} MB`,
        target: `under 200 MB, growth under ${maxGrowthMb} MB`,
        faults,
      };
    }),
};

/** Goal 18: a large file is checked and planned while somebody waits. */
export const batchPlanned: Goal = {
  number: 18,
  title: "a large CSV checked and planned",
  run: ({ share }) =>
    inFolder(async (folder) => {
      const count = portion(100_000, share);
      const row = (_: unknown, i: number) => `s${i},"a fox, no. ${i}",${i % 2 === 0 ? "wan-2.5" : "ray-3"},16:9`;
      writeFileSync(
        join(folder, "shots.csv"),
        ["id,prompt,model,aspectRatio", ...Array.from({ length: count }, row)].join("\n"),
      );
      const env = envOf({ baseUrl: "http://127.0.0.1:9" }, join(folder, "home"));
      const argv = ["batch", "shots.csv", "-o", "clips/{id}.mp4", "--dry-run", "--json"];
      mkdirSync(join(folder, "clips"));
      const { ended, samples } = await watch(spawnVidgen(argv, env, folder), () => 0);
      const faults = troubleOf(ended);
      const plan = faults.length === 0 ? JSON.parse(ended.stdout) : {};
      if (plan.to_start !== count) faults.push(`${plan.to_start} to start`);
      return { figures: `${count} rows in ${seconds(ended)}, ${peakOf(samples)} MB`, target: "printed", faults };
    }),
};

/** Looks at a process until it has ended; on Linux alone. */
async function watch({ pid, ended }: Spawned, rows: () => number): Promise<{ ended: Ended; samples: Sample[] }> {
  const samples: Sample[] = [];
  const look = () => {
    try {
      const status = readFileSync(`/proc/${pid}/status`, "utf8");
      const [user = 0, system = 0] =
        readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ").slice(11, 13).map(Number) ?? [];
      const rssMb = Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
      const files = readdirSync(`/proc/${pid}/fd`).length;
      // In hundredths of a second.
      samples.push({ rows: rows(), rssMb, cpuMs: (user + system) * 10, files });
    } catch {}
  };
  const timer = setInterval(look, 50);
  return { ended: await ended.finally(() => clearInterval(timer)), samples };
}

function peakOf(samples: Sample[]): number {
  return Math.max(0, ...samples.map(({ rssMb }) => rssMb));
}

function troubleOf(ended: Ended): string[] {
  const trouble = ended.code === 0 ? [] : [`exit ${ended.code}: ${ended.stderr.slice(-600)}`];
  return [...trouble, ...ugliness(ended)];
}

function seconds({ ms }: Ended): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
