import { existsSync, linkSync, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { type KeyedRow, keyRows, shardOf } from "../../src/client/batch/row.ts";
import { createMachine, createService } from "../client/batch/machine.ts";
import { type Goal, portion, tally } from "./goal.ts";
import type { Random } from "./random.ts";
import { inFolder } from "./work.ts";

/** What is lost between two runs: nothing, the results files, or the journal. */
type Loss = "nothing" | "results" | "journal";

type Played = { runs: string[]; faults: string[] };

/** Goal 23: however a rows file is divided, named and linked from run to run, and whichever runs are at once, no row is paid for twice. */
export const batchResharded: Goal = {
  number: 23,
  title: "batches in other shards each time, under other names, killed and at once",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const played: Played[] = [];
      for (let i = 0; i < portion(150, share, 8); i++) played.push(await play(random.fork(i), folder));
      const runs = played.flatMap((each) => each.runs);
      const faults = played.flatMap((each, i) => each.faults.map((fault) => `batch ${i}: ${fault}`));
      for (const end of ["refused", "killed", "ended"])
        if (!runs.includes(end)) faults.push(`no run was ${end}, nothing was proven`);
      return {
        figures: `${played.length} batches, ${runs.length} runs (${tally(runs)}): ${faults.length} faults`,
        target: "no row paid for twice, every row done or told",
        faults,
      };
    }),
};

/** Up to eight runs of one batch, some of them two at a time. Then one that does what is left. */
async function play(random: Random, parent: string): Promise<Played> {
  const service = createService({ renderMs: () => random.between(1_000, 120_000) });
  const machine = createMachine(service, { parent, atOnce: true });
  const shots = machine.rows(...Array.from({ length: random.between(4, 16) }, (_, i) => `fox ${i}`));
  const keyed = keyRows(shots);
  const loss = random.pick<Loss>(["nothing", "results", "journal"]);
  const names = createNames(machine.folder, random, loss);
  const written = new Set<string>();

  async function run(shard: string | null): Promise<string> {
    const file = names.pick();
    const results = nameResults(file, shard, random.next() < 0.1 ? join(machine.folder, "own.jsonl") : undefined);
    written.add(results);
    const source = { file, total: shots.length, shard };
    const ended = machine.run(rowsOf(keyed, shard), { source, results, jobs: random.between(1, 4) });
    return ended.then(
      () => "ended",
      (error) => (/Nothing was sent/.test(error.message) ? "refused" : `failed: ${error.message} ${error.hint}`),
    );
  }

  const runs: string[] = [];
  for (let i = random.between(1, 8); i > 0; i--) {
    const parts = random.next() < 0.3 ? [pickShard(random), pickShard(random)] : [pickShard(random)];
    const killed = killSometime(machine, service, random);
    runs.push(...(await Promise.race([Promise.all(parts.map(run)), killed])));
    service.fault = undefined;
    if (random.next() < 0.4) lose(loss, machine, written);
    names.change();
  }
  const last = await run(null);
  const faults = shots
    .map(({ record }) => ({ prompt: record.prompt, charges: service.charges(record.prompt) }))
    .flatMap(({ prompt, charges }) => (charges > 1 ? `${prompt}: charged ${charges} times (${loss} lost)` : []));
  const odd = [...runs, last].filter((end) => !["ended", "refused", "killed"].includes(end));
  const batch = await machine.open(shots, { source: { file: names.pick(), total: shots.length, shard: null } });
  await batch.close();
  const { done, unknown, rows } = batch.plan;
  if (done + unknown !== rows) faults.push(`in the end ${JSON.stringify(batch.plan)}`);
  return { runs: [...runs, last], faults: [...faults, ...odd] };
}

function pickShard(random: Random): string | null {
  const of = random.between(1, 4);
  return of === 1 ? null : `${random.between(1, of)}/${of}`;
}

function rowsOf(rows: KeyedRow[], shard: string | null): KeyedRow[] {
  const [index = 0, of = 0] = shard?.split("/").map(Number) ?? [];
  return rows.filter((row) => of === 0 || shardOf(row, of) === index);
}

function nameResults(file: string, shard: string | null, own: string | undefined): string {
  return own ?? `${file}${shard ? `.${shard.replace("/", "-of-")}` : ""}.results.jsonl`;
}

/** Half of the times all processes die, at some start: before it is accepted, after that, or later. */
async function killSometime(
  machine: ReturnType<typeof createMachine>,
  service: ReturnType<typeof createService>,
  random: Random,
): Promise<string[]> {
  let left = random.next() < 0.5 ? random.between(1, 6) : Number.POSITIVE_INFINITY;
  const moment = random.pick(["before", "after", "later"]);
  return new Promise((resolve) => {
    const kill = () => {
      machine.kill();
      resolve(["killed"]);
    };
    service.fault = (_, accept) => {
      if (--left !== 0) return undefined;
      const answer = moment === "before" ? undefined : accept();
      if (moment === "later") void service.clock.sleep(random.between(1, 60_000)).then(kill);
      else kill();
      return answer;
    };
  });
}

/** Without the journal nobody knows whose a partial file is: it is as on another machine, which has none. */
function lose(loss: Loss, { folder, journal }: ReturnType<typeof createMachine>, written: Set<string>): void {
  if (loss === "journal")
    for (const name of readdirSync(folder))
      if (name.endsWith(".part") || join(folder, name) === journal) rmSync(join(folder, name), { recursive: true });
  if (loss === "results") for (const results of written) rmSync(results, { force: true });
}

/** The names of the rows file: it is renamed at times, and has links. Without the journal all of them are in one folder. */
function createNames(folder: string, random: Random, loss: Loss) {
  let file = join(folder, "shots.csv");
  let count = 0;
  const links: string[] = [];
  const linkFolder = join(folder, "links");
  mkdirSync(linkFolder);
  return {
    pick: () => random.pick([file, ...links.filter(existsSync)]),
    change() {
      const at = loss === "journal" ? folder : random.pick([folder, linkFolder]);
      const name = join(at, `${count++}.csv`);
      const way = random.pick(["same", "same", "rename", "symlink", "hard link"]);
      if (way === "symlink") symlinkSync(file, name);
      if (way === "hard link") linkSync(file, name);
      if (way === "symlink" || way === "hard link") links.push(name);
      if (way !== "rename") return;
      renameSync(file, name);
      file = name;
    },
  };
}
