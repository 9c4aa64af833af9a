import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { ugliness } from "./client.ts";
import { type Goal, portion, tally } from "./goal.ts";
import { slowMedia } from "./media-faults.ts";
import { stillRunning } from "./poll-faults.ts";
import type { Random } from "./random.ts";
import { createService, type Moment, type Service } from "./server.ts";
import { bin, type Ended, envOf, type Spawned, spawnProcess } from "./spawned.ts";
import { slowStart } from "./start-faults.ts";
import { pause } from "./wire.ts";
import { inFolder, side } from "./work.ts";

const unshare = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL"];

/** All videos are of this size, and have the same ETags: only their ids tell them apart. */
const videoBytes = 24_000;

/** Two containers with one VIDGEN_HOME, which is their working folder too; in each, the command is process 1. */
type Scene = { service: Service; home: string; random: Random };

type Played = { ended: Ended[]; faults: string[] };

/** Goal 14: containers that share a folder, and see nothing of each other's processes, pay once and mix nothing. */
export const containers: Goal = {
  number: 14,
  title: "two PID namespaces on one folder",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const target = "0 not right";
      if (!(await canUnshare(folder))) return { figures: "skipped: no namespaces here", target, faults: [] };
      const service = await createService(random, videoBytes);
      const kinds = { "--reuse at once": reuse, "one .part at once": onePart, "one killed": oneKilled, serve };
      const scenes = Object.entries(kinds).flatMap(([kind, play]) =>
        Array.from({ length: portion(8, share) }, (_, i) => ({ kind, play, i })),
      );
      // It takes 20 s, beside the others.
      if (share === 1) scenes.unshift({ kind: "one frozen", play: oneFrozen, i: 0 });
      const ends: string[] = [];
      const faults: string[] = [];
      await side(scenes, 3, async ({ kind, play, i }) => {
        const name = `${kind} ${i}`;
        const home = join(folder, name.replaceAll(/\W/g, "-"));
        mkdirSync(home);
        const played = await play({ service, home, random: random.fork(name) });
        ends.push(...played.ended.map(({ code, signal }) => (signal === null ? `exit ${code}` : "killed")));
        faults.push(...played.faults.map((fault) => `${name}: ${fault}`));
        for (const ended of played.ended)
          for (const ugly of ugliness(ended)) faults.push(`${name}: ${ugly}: ${ended.stderr}`);
      });
      await service.close();
      return { figures: `${scenes.length} scenes: ${tally(ends)}; ${faults.length} not right`, target, faults };
    }),
};

async function canUnshare(folder: string): Promise<boolean> {
  return spawnProcess("unshare", [...unshare, "true"], {}, folder).ended.then(
    ({ code }) => code === 0,
    () => false,
  );
}

/**
 * With `isFast` its clock goes 50 times faster: it watches the lease of another container for a second, not for a minute. Its time of day is
 * wrong by `skewMs`.
 */
function inContainer({ service, home }: Scene, argv: string[], { isFast = false, skewMs = 0 } = {}): Spawned {
  const modules = [...(isFast ? ["fast-clock.mjs"] : []), ...(skewMs === 0 ? [] : [`skewed-clock.mjs?ms=${skewMs}`])];
  const clock = modules.flatMap((name) => ["--import", String(new URL(name, import.meta.url))]);
  return spawnProcess("unshare", [...unshare, process.execPath, ...clock, bin, ...argv], envOf(service, home), home);
}

/** Both want the same: one pays, both save that video. */
async function reuse(scene: Scene): Promise<Played> {
  const { service, random } = scene;
  const prompt = prepare(scene, "fox");
  const run = async (name: string) => {
    await pause(random.next() * 50);
    const skewMs = random.pick([-3_600_000, -120_000, 0, 120_000, 3_600_000]);
    return inContainer(scene, ["generate", prompt, "--reuse", "-o", name], { skewMs }).ended;
  };
  const ended = await Promise.all([run("a.mp4"), run("b.mp4")]);
  const ids = idsOf(scene, prompt);
  const isIts = (name: string) => ids.some((id) => service.oracle.isVideo(id, read(scene, name)));
  const isRight = ids.length === 1 && ended.every(({ code }) => code === 0) && isIts("a.mp4") && isIts("b.mp4");
  return { ended, faults: isRight ? [] : [`charged ${ids.length} times: ${said(ended)}`] };
}

/** Both save under one name: the same generation, or two. One is told that somebody else saves there, unless it comes later. */
async function onePart(scene: Scene): Promise<Played> {
  const { service, random } = scene;
  const prompts = ["fox", random.next() < 0.5 ? "fox" : "owl"].map((name) => prepare(scene, name));
  const ids = prompts.map((prompt) => idsOf(scene, prompt)[0] ?? startedId(service, prompt));
  const run = async (id: string) => {
    await pause(random.next() * 50);
    return inContainer(scene, ["wait", id, "-o", "clip.mp4"]).ended;
  };
  const ended = await Promise.all(ids.map(run));
  const good = ids.filter((_, i) => ended[i]?.code === 0);
  const isIts = good.every((id) => service.oracle.isVideo(id, read(scene, "clip.mp4")));
  const isRight = good.length > 0 && isIts && ended.every(({ code }) => code === 0 || code === 9);
  return { ended, faults: isRight ? [] : [`not one owner: ${said(ended)}`] };
}

function startedId({ oracle }: Service, prompt: string): string {
  return oracle.start({ prompt, model: "wan-2.5", attempt: prompt }, true)?.id ?? "";
}

/** One is killed. The other watches its lease for a minute, and then goes on with its generation. */
async function oneKilled(scene: Scene): Promise<Played> {
  const { service, random } = scene;
  const prompt = prepare(scene, "fox");
  const argv = ["generate", prompt, "-o", "clip.mp4"];
  const child = inContainer(scene, argv);
  await reached(scene, prompt, random.pick(["poll", "media"]), child);
  await pause(random.next() * 150);
  child.kill("SIGKILL");
  const killed = await child.ended;
  if (killed.signal === null) return { ended: [killed], faults: [] };
  const other = inContainer(scene, argv, { isFast: true });
  const early = await Promise.race([other.ended, pause(1_000)]);
  const faults = early ? [`the lease of the killed one was not watched: ${said([early])}`] : [];
  const ended = [killed, await other.ended];
  const ids = idsOf(scene, prompt);
  const isSaved = ids.some((id) => service.oracle.isVideo(id, read(scene, "clip.mp4")));
  if (ended[1]?.code !== 0 || !isSaved) faults.push(`not gone on with: ${said(ended)}`);
  if (ids.length !== 1) faults.push(`charged ${ids.length} times: ${said(ended)}`);
  return { ended, faults };
}

/** One is frozen while it saves, and the other saves its own video under the same name: the first one does not spoil that when it goes on. */
async function oneFrozen(scene: Scene): Promise<Played> {
  const { service } = scene;
  const [fox, owl] = [prepare(scene, "fox"), prepare(scene, "owl")];
  const first = inContainer(scene, ["generate", fox, "-o", "clip.mp4"]);
  await reached(scene, fox, "media", first);
  await pause(60);
  const pid = Number(readFileSync(`/proc/${first.pid}/task/${first.pid}/children`, "utf8"));
  process.kill(pid, "SIGSTOP");
  // In life it would have to be frozen for a minute; by then the time of its next refresh has come.
  await pause(11_000);
  const second = inContainer(scene, ["generate", owl, "-o", "clip.mp4"], { isFast: true });
  await reached(scene, owl, "media", second);
  await pause(60);
  process.kill(pid, "SIGCONT");
  const ended = await Promise.all([first.ended, second.ended]);
  const isIts = idsOf(scene, owl).some((id) => service.oracle.isVideo(id, read(scene, "clip.mp4")));
  const isRight = ended[0].code === 9 && ended[1].code === 0 && isIts;
  return { ended, faults: isRight ? [] : [`${isIts ? "" : "a wrong file; "}${said(ended)}`] };
}

/** The service's folder has one owner, and another one once that has been dead for a minute. */
async function serve(scene: Scene): Promise<Played> {
  const { home } = scene;
  const open = (how = {}) => inContainer(scene, ["serve", "--port", "0", "--media-port", "0"], how);
  const local = (...argv: string[]) => inContainer(scene, [...argv, "--local"]).ended;
  const faults: string[] = [];
  const services = [open(), open()];
  const held = await Promise.race(services.map((each, i) => each.ended.then((ended) => ({ ended, i }))));
  const owner = services[1 - held.i] as Spawned;
  const isHeld = ({ code, stderr }: Ended) => code === 2 && stderr.includes("already running");
  if (!isHeld(held.ended)) faults.push(`of two at once: ${said([held.ended])}`);
  const started = await local("generate", "fox", "--no-wait");
  owner.kill("SIGKILL");
  const killed = await owner.ended;
  const before = announcedIn(home);
  const early = open();
  if ((await Promise.race([early.ended, pause(1_500)])) || announcedIn(home) !== before)
    faults.push("the lease of the killed one was not watched");
  early.kill("SIGKILL");
  const gone = await early.ended;
  const next = open({ isFast: true });
  for (let waits = 0; waits < 200 && announcedIn(home) === before; waits++) await pause(50);
  const waited = await local("wait", started.stdout.trim(), "-o", "clip.mp4");
  if (started.code !== 0 || waited.code !== 0) faults.push(`not gone on with: ${said([started, waited])}`);
  next.kill("SIGKILL");
  const last = await next.ended;
  if (last.signal === null) faults.push(`did not take over: ${said([last])}`);
  return { ended: [held.ended, started, killed, gone, waited, last], faults };
}

function announcedIn(home: string): string {
  const file = join(home, "service", "service.json");
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")).base_url : "";
}

/** Makes a prompt of its own, whose every phase takes its time. */
function prepare({ service, home, random }: Scene, name: string): string {
  const prompt = `${name} of ${home}`;
  service.plan(prompt, { starts: [slowStart(random)], polls: [stillRunning], media: slowMedia });
  return prompt;
}

async function reached({ service }: Scene, prompt: string, moment: Moment, child: Spawned): Promise<void> {
  const seen = new Promise<void>((resolve) => service.watch(prompt, (step) => step === moment && resolve()));
  await Promise.race([seen, child.ended]);
}

function idsOf({ service }: Scene, prompt: string): string[] {
  return service.oracle.startsOf(prompt).flatMap(({ generated }) => generated?.id ?? []);
}

function read({ home }: Scene, name: string): Buffer {
  const file = join(home, name);
  return existsSync(file) ? readFileSync(file) : Buffer.alloc(0);
}

function said(ended: Ended[]): string {
  return ended.map(({ code, signal, stderr }) => `exit ${code}, ${signal}: ${stderr}`).join("; ");
}
