import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { ugliness } from "./client.ts";
import { type Goal, portion, tally } from "./goal.ts";
import { measureLife } from "./killed.ts";
import { slowMedia } from "./media-faults.ts";
import type { Generated } from "./oracle.ts";
import { stillRunning } from "./poll-faults.ts";
import type { Random } from "./random.ts";
import { createService, type Moment, type Service } from "./server.ts";
import { type Ended, envOf, type Spawned, spawnVidgen } from "./spawned.ts";
import { slowStart } from "./start-faults.ts";
import { pause } from "./wire.ts";
import { inFolder, readJournal, side, videosIn } from "./work.ts";

/** How one video is asked for. */
type Way = {
  flags: string[];
  /** The journal's line after which the same command is a new run, which pays again: submit.md, "The same run again". */
  isNewAfter?: "told" | "delivered";
};

const ways: Record<string, Way> = {
  "-o file": { flags: ["-o", "fox.mp4"] },
  "-o file --reuse": { flags: ["-o", "fox.mp4", "--reuse"] },
  "-o folder": { flags: ["-o", "videos/"], isNewAfter: "delivered" },
  "no -o": { flags: [], isNewAfter: "delivered" },
  "--no-wait": { flags: ["--no-wait"], isNewAfter: "told" },
  "--no-wait --reuse": { flags: ["--no-wait", "--reuse"] },
};

/** In the order of the dice: a command with a file is the usual one. */
const order = [
  "-o file",
  "no -o",
  "-o file",
  "-o file --reuse",
  "-o folder",
  "-o file",
  "--no-wait",
  "no -o",
  "-o file",
];

type Command = { way: string; prompt: string; home: string; cwd: string; random: Random };

type Outcome = {
  kills: number;
  /** How often the run before had ended well when the command was typed again. */
  renewed: number;
  /** What was done about each exit 6. */
  looked: ("dismissed" | "fetched by the account's id")[];
  last: string;
  faults: { kind: "twice" | "lost" | "wrong" | "other"; what: string }[];
};

/** Goal 11: whoever types the same command until it ends has one video, and has paid once. */
export const again: Goal = {
  number: 11,
  title: "the same command again after SIGKILL, at once, 13 hours and 40 days later",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const service = await createService(random);
      const wanted = portion(200, share, 6);
      const lifeMs = await measureLife(service, folder);
      const outcomes: Outcome[] = [];
      const kills = () => outcomes.reduce((sum, outcome) => sum + outcome.kills, 0);
      // More than are needed: not every moment comes before the end.
      const commands = Array.from({ length: wanted * 2 }, (_, i): Command => {
        const home = join(folder, `home-${i % Math.ceil(wanted / 25)}`);
        const cwd = join(folder, `fox-${i}`);
        const prompt = `fox ${i}`;
        return { way: order[i % order.length] ?? "", prompt, home, cwd, random: random.fork(prompt) };
      });
      await side(commands, 4, async (command) => {
        if (kills() < wanted) outcomes.push(await want(service, command, lifeMs));
      });
      await service.close();
      const faults = outcomes.flatMap((outcome) => outcome.faults);
      const of = (kind: string) => faults.filter((fault) => fault.kind === kind).length;
      const renewed = outcomes.reduce((sum, outcome) => sum + outcome.renewed, 0);
      const looked = tally(outcomes.flatMap((outcome) => outcome.looked));
      const few = kills() < wanted ? [`killed ${kills()} times alone`] : [];
      return {
        figures:
          `${outcomes.length} commands killed ${kills()} times over ${Math.round(lifeMs)} ms of life: ${of("twice")} double charges, ` +
          `${of("lost")} lost videos, ${of("wrong")} wrong files; ${tally(outcomes.map(({ last }) => last))}; ` +
          `after exit 6: ${looked || "none"}; ${renewed} new ones by the rule, after a good end`,
        target: "0, 0, 0, and every one ends",
        faults: [...faults.map(({ what }) => what), ...few],
      };
    }),
};

/** Types a command, kills it up to three times, and types it again until it ends. */
async function want(service: Service, command: Command, lifeMs: number): Promise<Outcome> {
  const { way, prompt, home, cwd, random } = command;
  const { flags, isNewAfter } = ways[way] as Way;
  const outcome: Outcome = { kills: 0, renewed: 0, looked: [], last: "no end", faults: [] };
  service.plan(prompt, { starts: [slowStart(random)], polls: [stillRunning], media: slowMedia });
  mkdirSync(cwd, { recursive: true });
  /** How much later it is typed again. */
  let laterMs = 0;
  const run = (argv: string[]) => {
    const clock = new URL(`skewed-clock.mjs?ms=${laterMs}`, import.meta.url);
    return spawnVidgen(argv, { ...envOf(service, home), NODE_OPTIONS: `--import=${clock}` }, cwd);
  };
  const charged = () => service.oracle.startsOf(prompt).flatMap(({ generated }) => generated ?? []);
  const endedWell = () => {
    const lines = readJournal(home);
    const ended = lines.filter(({ kind }) => kind === isNewAfter);
    const attemptOf = (id: string) => lines.find((line) => line.kind === "accepted" && line.id === id)?.attempt;
    return charged().filter(({ id }) =>
      ended.some((line) => line.id === id || (line.kind === "told" && line.attempt === attemptOf(id))),
    ).length;
  };
  const planned = random.between(1, 3);
  for (let step = 0; step < planned + 4; step++) {
    outcome.renewed = endedWell();
    const child = run(["generate", prompt, ...flags]);
    const isToDie = outcome.kills < planned;
    if (isToDie) await killSometime(child, service, { ...command, isFirst: step === 0, lifeMs });
    const ended = await child.ended;
    const say = (kind: Outcome["faults"][number]["kind"], what: string) =>
      outcome.faults.push({ kind, what: `${prompt}, ${way}: ${what}: exit ${ended.code}: ${ended.stderr}` });
    for (const ugly of ugliness(ended)) say("other", ugly);
    const charges = charged();
    if (charges.length > 1 + outcome.renewed)
      say("twice", `charged ${charges.length} times, ${outcome.renewed} ended well`);
    if (ended.signal === "SIGKILL" && isToDie) {
      outcome.kills++;
      laterMs += random.pick([0, 13 * 3600_000, 40 * 86_400_000]);
      continue;
    }
    outcome.last = `exit ${ended.code}`;
    if (ended.code === 6) {
      const looked = await lookAtAccount(ended, { command, charges, run });
      if ("fault" in looked) say("other", looked.fault);
      else outcome.looked.push(looked.done);
      if ("fault" in looked) return outcome;
      if (looked.done === "dismissed") continue;
    }
    for (const { kind, what } of judge(ended, { command, charges, service })) say(kind, what);
    return outcome;
  }
  outcome.faults.push({ kind: "other", what: `${prompt}, ${way}: does not come to an end` });
  return outcome;
}

type Looking = { command: Command; charges: Generated[]; run(argv: string[]): Spawned };

/** What a person does after exit 6: who finds the generation in the account fetches it. Either way the attempt is dismissed. */
async function lookAtAccount(
  { stderr }: Ended,
  { command, charges, run }: Looking,
): Promise<{ done: Outcome["looked"][number] } | { fault: string }> {
  const attempt = /attempt ([0-9a-f-]{36})/.exec(stderr)?.[1];
  if (attempt === undefined || !stderr.includes("may have been charged")) return { fault: "does not say what to do" };
  const lines = readJournal(command.home).filter((line) => line.attempt === attempt);
  if (lines.some(({ kind }) => kind === "accepted")) return { fault: "calls an attempt unknown whose id is known" };
  const found = charges.find((generated) => generated.attempt === attempt);
  const flags = ways[command.way]?.flags.filter((flag) => flag !== "--reuse" && flag !== "--no-wait") ?? [];
  if (found) {
    const waited = await run(["wait", found.id, ...flags]).ended;
    if (waited.code !== 0) return { fault: `wait ${found.id}: exit ${waited.code}: ${waited.stderr}` };
  }
  const dismissed = await run(["list", "--dismiss", attempt]).ended;
  if (dismissed.code !== 0) return { fault: `list --dismiss: exit ${dismissed.code}: ${dismissed.stderr}` };
  return { done: found ? "fetched by the account's id" : "dismissed" };
}

/** Whether the person has the video of the newest charge in the end, and no other. */
function judge(
  ended: Ended,
  { command, charges, service }: { command: Command; charges: Generated[]; service: Service },
): Outcome["faults"] {
  const { way, home, cwd } = command;
  const found: Outcome["faults"] = [];
  const newest = charges.at(-1);
  const files = [...videosIn(cwd), ...videosIn(join(cwd, "videos"))];
  const isIts = (bytes: Buffer) => newest !== undefined && service.oracle.isVideo(newest.id, bytes);
  const isKnown = (bytes: Buffer) => charges.some(({ id }) => service.oracle.isVideo(id, bytes));
  if (!files.every(isKnown)) found.push({ kind: "wrong", what: "a wrong file" });
  const isSaved = files.some(isIts);
  const isTold = ended.code === 6 || (newest !== undefined && ended.stdout.includes(newest.id));
  if (way.startsWith("-o") ? !isSaved : !isTold) found.push({ kind: "lost", what: "no video" });
  // It was written down as saved before it was killed, and the file that is there is not replaced.
  const isThere =
    ended.code === 9 &&
    isSaved &&
    readJournal(home).some((line) => line.id === newest?.id && line.kind === "delivered");
  if (ended.code !== 0 && ended.code !== 6 && !isThere) found.push({ kind: "other", what: "a bad end" });
  return found;
}

type Killing = Command & { isFirst: boolean; lifeMs: number };

/** Half of them die at any time; the others shortly after a step that the service sees. Only the first run has a request out. */
async function killSometime(child: Spawned, service: Service, { prompt, random, isFirst, lifeMs }: Killing) {
  const steps: Moment[] = isFirst ? ["start", "answered", "poll", "media", "sent"] : ["poll", "media", "sent"];
  if (random.next() < 0.5) {
    await Promise.race([pause(random.next() * lifeMs), child.ended]);
  } else {
    const moment = random.pick(steps);
    const reached = new Promise<void>((resolve) => service.watch(prompt, (seen) => seen === moment && resolve()));
    await Promise.race([reached.then(() => pause(random.next() * 20)), child.ended]);
  }
  child.kill("SIGKILL");
}
