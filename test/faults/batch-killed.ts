import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readResults } from "../../src/client/batch/results.ts";
import { readStatus } from "../../src/client/batch/status.ts";
import { systemMachine } from "../../src/io.ts";
import { ugliness } from "./client.ts";
import { type Goal, portion, tally } from "./goal.ts";
import { passingMedia } from "./media-faults.ts";
import { lastPolls, pollFaults } from "./poll-faults.ts";
import type { Random } from "./random.ts";
import { createService, type Moment, type Service } from "./server.ts";
import { type Ended, envOf, type Spawned, spawnVidgen } from "./spawned.ts";
import { laterStarts, lostStarts, oddStarts, rarelyLostStarts, refusedStarts, slowStart } from "./start-faults.ts";
import { pause } from "./wire.ts";
import { inFolder } from "./work.ts";

type Shot = { id: string; prompt: string };

/** A file of shots on its way through the faults. */
type Scene = { service: Service; folder: string; shots: Shot[]; random: Random };

type Seen = { ends: string[]; faults: string[] };

const count = 1_000;
const shards = 8;
const maxKills = 60;

/** Goal 15: a batch that is killed at any moment, and run again, pays for each row once and loses nothing in silence. */
export const batchKilled: Goal = {
  number: 15,
  title: "rows through mixed faults, the batch killed and run again",
  run: (how) =>
    inScene(how, async (scene) => {
      const { random, shots } = scene;
      const wanted = portion(200, how.share, 8);
      const seen: Seen = { ends: [], faults: [] };
      const kills = () => seen.ends.filter((end) => end === "killed").length;
      for (let runs = 0; kills() < wanted && runs < wanted * 2; runs++) {
        const child = open(scene);
        const startsLeft = shots.length - charged(scene);
        await killSometime(child, scene, random.between(1, Math.ceil(startsLeft / (wanted - kills()))));
        see(seen, await child.ended);
      }
      const killed = kills();
      const results = join(machineOf(scene.folder, 0), "shots.csv.results.jsonl");
      for (let runs = 0; runs < 20 && (await isOpen(results)); runs++) see(seen, await open(scene).ended);
      if (killed < wanted && how.share === 1) seen.faults.push(`killed ${killed} times alone`);
      const verdict = await judge(scene, [results]);
      return {
        figures: `${shots.length} rows, killed ${killed} times: ${verdict.figures}; ${tally(seen.ends)}`,
        target: "0, 0, 0",
        faults: [...seen.faults, ...verdict.faults],
      };
    }),
};

/** Goal 16: shards that know nothing of each other do every row once. */
export const batchShards: Goal = {
  number: 16,
  title: "eight shards at once, one of them killed each second",
  run: (how) =>
    inScene(how, async (scene) => {
      const { random, folder, shots } = scene;
      const seen: Seen = { ends: [], faults: [] };
      const running = new Set<Spawned>();
      const numbers = Array.from({ length: shards }, (_, i) => i + 1);
      const fileOf = (shard: number) => join(machineOf(folder, shard), `shots.csv.${shard}-of-${shards}.results.jsonl`);
      const shard = async (number: number) => {
        for (let runs = 0; runs < 40 && (await isOpen(fileOf(number))); runs++) {
          const child = open(scene, number);
          running.add(child);
          see(seen, await child.ended);
          running.delete(child);
        }
      };
      const all = Promise.all(numbers.map(shard)).then(() => true);
      // On a machine that is busy with something else, a second is too short for any of them to come far.
      for (let kills = 0; !(await Promise.race([all, pause(1_000)])); kills++)
        if (kills < maxKills) random.pick([...running])?.kill("SIGKILL");
      const results = numbers.map(fileOf);
      const verdict = await judge(scene, results);
      const { shards: found, double_rows, rows } = await readStatus(results, systemMachine);
      const gaps = (found?.missing.length ?? shards) + (found?.double.length ?? 0) + double_rows.length;
      if (gaps > 0 || rows !== shots.length)
        verdict.faults.push(`${rows} rows, ${gaps} shards or rows missing or double`);
      return {
        figures: `${rows} rows in ${shards} files, ${double_rows.length} twice: ${verdict.figures}; ${tally(seen.ends)}`,
        target: "every row once; 0, 0, 0",
        faults: [...seen.faults, ...verdict.faults],
      };
    }),
};

async function inScene<Result>(
  { random, share }: { random: Random; share: number },
  work: (scene: Scene) => Promise<Result>,
): Promise<Result> {
  return inFolder(async (folder) => {
    const service = await createService(random);
    const shots = Array.from({ length: portion(count, share, 40) }, (_, i) => ({ id: `s${i}`, prompt: `fox ${i}` }));
    for (const { prompt } of shots) service.plan(prompt, createPlan(random.fork(prompt)));
    mkdirSync(join(folder, "clips"));
    return work({ service, folder, shots, random: random.fork("kills") }).finally(service.close);
  });
}

/** A quarter of the rows meet a fault of their start, as many one of a poll, half of them one of their download. */
function createPlan(random: Random) {
  const draw = <Fault>(...tables: Record<string, Fault>[]) =>
    random.pick(tables.flatMap((table) => Object.values(table)));
  const starts = random.next() < 0.1 ? [draw(laterStarts)] : [];
  const dice = random.next();
  if (dice < 0.04) starts.push(draw(lostStarts, rarelyLostStarts));
  else if (dice < 0.12) starts.push(draw(oddStarts));
  else if (dice < 0.15) starts.push(draw(refusedStarts));
  else starts.push(slowStart(random));
  const polls = random.next() < 0.25 ? [draw(pollFaults)] : [];
  if (random.next() < 0.02) polls.push(draw(lastPolls));
  return { starts, polls, media: random.next() < 0.5 ? draw(passingMedia) : undefined };
}

/** Starts the batch, on the fast clock. A shard has a machine of its own, where the file has its rows in another order. */
function open({ service, folder, shots }: Scene, shard = 0): Spawned {
  const machine = machineOf(folder, shard);
  const at = Math.floor((shots.length * shard) / shards);
  const rows = [...shots.slice(at), ...shots.slice(0, at)].map(({ id, prompt }) => `${id},${prompt}`);
  mkdirSync(machine, { recursive: true });
  writeFileSync(join(machine, "shots.csv"), ["id,prompt", ...rows].join("\n"));
  const clock = `--import ${new URL("fast-clock.mjs", import.meta.url)}`;
  const env = { ...envOf(service, join(machine, "home")), NODE_OPTIONS: clock };
  const part = shard === 0 ? [] : ["--shard", `${shard}/${shards}`];
  const place = join(folder, "clips", "{id}.mp4");
  return spawnVidgen(["batch", "shots.csv", "-o", place, "--jobs", "8", ...part], env, machine);
}

function machineOf(folder: string, shard: number): string {
  return join(folder, `machine-${shard}`);
}

/** A third die at any time; the others shortly after a step that the service sees for so many rows. */
async function killSometime(child: Spawned, { service, shots, random }: Scene, rows: number): Promise<void> {
  const step = random.pick<Moment>(["start", "start", "answered", "answered", "poll", "media", "sent"]);
  let left = rows;
  const reached = new Promise<void>((resolve) => {
    for (const { prompt } of shots) service.watch(prompt, (seen) => seen === step && --left <= 0 && resolve());
  });
  const anyTime = random.next() < 0.33 ? [pause(random.next() * 1_000)] : [];
  await Promise.race([reached.then(() => pause(random.next() * 20)), ...anyTime, child.ended]);
  child.kill("SIGKILL");
}

function see({ ends, faults }: Seen, ended: Ended): void {
  ends.push(ended.signal === "SIGKILL" ? "killed" : `exit ${ended.code}`);
  for (const ugly of ugliness(ended)) faults.push(`${ugly}: ${ended.stderr.slice(0, 500)}`);
}

function charged({ service, shots }: Scene): number {
  return shots.filter(({ prompt }) => service.oracle.chargesOf(prompt) > 0).length;
}

/** Whether another run has something to do. */
async function isOpen(results: string): Promise<boolean> {
  const { lastRun } = await readResults(results, systemMachine.disk);
  if (lastRun === undefined) return true;
  const { done, failed, unknown } = await readStatus([results], systemMachine);
  return done + failed + unknown < lastRun.rows;
}

/** The service's word on each row, against its file and what the results say of it. */
async function judge({ service, folder, shots }: Scene, results: string[]) {
  const { oracle } = service;
  const { open, ...counts } = await readStatus(results, systemMachine);
  const statuses = new Map(open.map((line) => [line.row, line.status]));
  const faults: string[] = [];
  const of = { twice: 0, lost: 0, wrong: 0 };
  const say = (kind: keyof typeof of, what: string) => {
    of[kind]++;
    faults.push(what);
  };
  for (const { id, prompt } of shots) {
    const charges = oracle.startsOf(prompt).flatMap(({ generated }) => generated ?? []);
    const path = join(folder, "clips", `${id}.mp4`);
    const file = existsSync(path) ? readFileSync(path) : undefined;
    const status = statuses.get(id);
    if (charges.length > 1) say("twice", `${prompt}: charged ${charges.length} times`);
    if (file && !charges.some((each) => oracle.isVideo(each.id, file))) say("wrong", `${prompt}: a wrong file`);
    const isReported = status === "unknown" || status === "starting" || status === "failed";
    if (charges.length > 0 && !file && !isReported) say("lost", `${prompt}: charged, no file, and ${status ?? "done"}`);
    if (!file && status === undefined) say("lost", `${prompt}: neither a file nor a word about it`);
  }
  const { done, failed, unknown, running, missing } = counts;
  if (running + missing > 0) faults.push(`${running} rows running and ${missing} missing in the end`);
  return {
    figures:
      `${of.twice} charged twice, ${of.lost} lost, ${of.wrong} wrong files; ` +
      `${done} done, ${failed} failed, ${unknown} unknown`,
    faults,
  };
}
