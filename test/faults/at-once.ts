import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ugliness } from "./client.ts";
import { type Goal, portion, tally } from "./goal.ts";
import { slowMedia } from "./media-faults.ts";
import { finePoll, stillRunning } from "./poll-faults.ts";
import type { Random } from "./random.ts";
import { createService, type Service } from "./server.ts";
import { type Ended, envOf, spawnVidgen } from "./spawned.ts";
import { slowStart } from "./start-faults.ts";
import { pause } from "./wire.ts";
import { inFolder, readJournal, side } from "./work.ts";

/** Several processes that want the same; each round has a prompt, a journal and a folder of its own. */
type Round = { service: Service; prompt: string; home: string; size: number; random: Random };

/** About how long such a command takes; in milliseconds. */
const lifeMs = 1_000;

type Seen = { codes: string[]; faults: string[] };

/** Goal 12: one command typed several times at once: `--reuse` pays once, and interrupted runs are each resumed by one. */
export const atOnce: Goal = {
  number: 12,
  title: "several at once of the same command",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const service = await createService(random);
      const seen: Record<string, Seen> = {};
      const kinds = { reuse: [reuse, 25], "one killed": [reuseOneKilled, 25], resumed: [resume, 12] } as const;
      const rounds = Object.entries(kinds).flatMap(([kind, [play, count]]) => {
        seen[kind] = { codes: [], faults: [] };
        return Array.from({ length: portion(count, share) }, (_, i) => ({ kind, play, i }));
      });
      await side(rounds, 2, async ({ kind, play, i }) => {
        const prompt = `${kind} ${i}`;
        const home = join(folder, prompt.replaceAll(" ", "-"));
        mkdirSync(home);
        const size = [4, 2, 8][i % 3] ?? 2;
        const ends = await play({ service, prompt, home, size, random: random.fork(prompt) });
        const { codes, faults } = seen[kind] as Seen;
        codes.push(...ends.ended.map(({ code, signal }) => (signal === null ? `exit ${code}` : "killed")));
        faults.push(...ends.faults.map((fault) => `${prompt}, ${size} at once: ${fault}`));
        for (const ended of ends.ended)
          for (const ugly of ugliness(ended)) faults.push(`${prompt}: ${ugly}: ${ended.stderr}`);
      });
      await service.close();
      return {
        figures: Object.entries(seen)
          .map(([kind, { codes, faults }]) => `${kind}: ${tally(codes)}, ${faults.length} not right`)
          .join("; "),
        target:
          "one charge a round, the same id for each; an exit 6 only when the killed one left no id; each resumed by one",
        faults: Object.values(seen).flatMap(({ faults }) => faults),
      };
    }),
};

type Ends = { ended: Ended[]; faults: string[] };

/** `--reuse`, with starts spread over 0 to 100 ms. */
async function reuse(round: Round): Promise<Ends> {
  const runs = startAll(round);
  const ended = await Promise.all(runs.map(async (run) => (await run).ended));
  return { ended, faults: judgeReuse(ended, round, false) };
}

/** One of them dies at any time, and is typed again at once. */
async function reuseOneKilled(round: Round): Promise<Ends> {
  const { random, size } = round;
  const runs = startAll(round);
  const killed = await (runs[random.between(0, size - 1)] as (typeof runs)[number]);
  await Promise.race([pause(random.next() * lifeMs), killed.ended]);
  killed.kill("SIGKILL");
  await killed.ended;
  const last = await start(round, size).ended;
  const ended = [...(await Promise.all(runs.map(async (run) => (await run).ended))), last];
  return { ended, faults: judgeReuse(ended, round, true) };
}

function startAll(round: Round) {
  const { service, prompt, size, random } = round;
  service.plan(prompt, { starts: [slowStart(random)], polls: [stillRunning], media: slowMedia });
  return Array.from({ length: size }, async (_, i) => {
    await pause(random.fork(i).next() * 100);
    return start(round, i);
  });
}

/** Some save the video, each under a name of its own; some print its address, some its id. */
function start({ service, prompt, home }: Round, i: number) {
  const flags = [["-o", `${i}.mp4`], [], ["--no-wait"]][i % 3] ?? [];
  return spawnVidgen(["generate", prompt, "--reuse", ...flags], envOf(service, home), home);
}

function judgeReuse(ended: Ended[], { service, prompt, home }: Round, mayBeUnknown: boolean): string[] {
  const faults: string[] = [];
  const starts = service.oracle.startsOf(prompt);
  const [generated] = starts.flatMap(({ generated }) => generated ?? []);
  if (service.oracle.chargesOf(prompt) > 1) faults.push(`charged ${service.oracle.chargesOf(prompt)} times`);
  const lines = readJournal(home);
  const outcomes = lines.filter(({ kind }) => kind === "accepted").map(({ attempt }) => attempt);
  const unclear = lines.filter(({ kind, attempt }) => kind === "intent" && !outcomes.includes(attempt));
  for (const [i, { code, signal, stdout, stderr }] of ended.entries()) {
    if (signal !== null && mayBeUnknown) continue;
    const say = (what: string) => faults.push(`${what}: exit ${code}, ${signal}: ${stderr}`);
    if (code === 6 && mayBeUnknown) {
      if (!unclear.some(({ attempt }) => stderr.includes(`${attempt}`)))
        say("calls an attempt unknown whose id is known");
    } else if (code !== 0) say("a bad end");
    else if (generated === undefined) say("success, and nothing was charged");
    else if (i % 3 === 0) {
      const file = join(home, `${i}.mp4`);
      if (!existsSync(file) || !service.oracle.isVideo(generated.id, readFileSync(file))) say("a wrong file");
    } else if (!stdout.includes(generated.id)) say("another id");
  }
  return faults;
}

/** As many interrupted runs of one command as are typed again at once. */
async function resume({ service, prompt, home, size, random }: Round): Promise<Ends> {
  let isDone = false;
  const poll: typeof finePoll = (scene) => (isDone ? finePoll : stillRunning)(scene);
  service.plan(prompt, { polls: Array.from({ length: 9_999 }, () => poll), media: slowMedia });
  const flags = random.next() < 0.5 ? [] : ["-o", "fox-{n}.mp4"];
  const run = () => spawnVidgen(["generate", prompt, ...flags], envOf(service, home), home);
  const first = Array.from({ length: size }, run);
  const accepted = () => readJournal(home).filter(({ kind }) => kind === "accepted").length;
  for (let waits = 0; waits < 1_000 && accepted() < size; waits++) await pause(20);
  await pause(random.next() * 100);
  for (const child of first) child.kill("SIGKILL");
  const killed = await Promise.all(first.map((child) => child.ended));
  isDone = true;
  const ended = await Promise.all(Array.from({ length: size }, () => run().ended));
  const faults: string[] = [];
  const ids = service.oracle.startsOf(prompt).flatMap(({ generated }) => generated?.id ?? []);
  if (ids.length !== size) faults.push(`${ids.length} charges for ${size}`);
  const resumed = ended.map(({ stderr }) => /Resuming (\S+),/.exec(stderr)?.[1] ?? "none");
  if (ids.some((id) => !resumed.includes(id))) faults.push(`resumed ${resumed}, not each of ${ids}`);
  for (const [i, { code, stdout, stderr }] of ended.entries()) {
    const id = resumed[i] ?? "";
    const isSaved = () => service.oracle.isVideo(id, readFileSync(join(home, stdout.trim())));
    const isIts = code === 0 && (flags.length === 0 ? stdout.includes(id) : isSaved());
    if (!isIts) faults.push(`a bad end: exit ${code}, ${stdout}: ${stderr}`);
  }
  return { ended: [...killed, ...ended], faults };
}
