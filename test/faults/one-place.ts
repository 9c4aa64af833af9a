import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ugliness } from "./client.ts";
import { type Goal, portion, tally } from "./goal.ts";
import { type MediaFault, slowMedia } from "./media-faults.ts";
import type { Random } from "./random.ts";
import { createService, type Service } from "./server.ts";
import { type Ended, envOf, spawnVidgen } from "./spawned.ts";
import { pause } from "./wire.ts";
import { inFolder, readJournal, side } from "./work.ts";

const place = "clip.mp4";

/** All videos are of this size, and have the same ETags: only their ids tell them apart. */
const videoBytes = 24_000;

/** Two commands that save under one name; each round has a journal and a folder of its own. */
type Round = { service: Service; prompts: [string, string]; home: string; random: Random };

type Step = { prompt: string; argv: string[]; isOverwriting: boolean };

/** Goal 13: whatever is broken off and gone on with in whatever order, a file has the bytes of one video, and an exit 0 is about that one. */
export const onePlace: Goal = {
  number: 13,
  title: "two generations with one -o, killed while they are saved",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const service = await createService(random, videoBytes);
      const rounds = Array.from({ length: portion(30, share) }, (_, i) => i);
      const faults: string[] = [];
      const ends: string[] = [];
      let resumed = 0;
      await side(rounds, 4, async (i) => {
        const prompts: Round["prompts"] = [`fox ${i}`, `owl ${i}`];
        const home = join(folder, `${i}`);
        mkdirSync(home);
        const media = changing(random.fork(`media ${i}`));
        for (const prompt of prompts) service.plan(prompt, { media });
        const played = await play({ service, prompts, home, random: random.fork(i) });
        faults.push(...played.faults.map((fault) => `round ${i}: ${fault}`));
        ends.push(...played.ended.map(({ code, signal }) => (signal === null ? `exit ${code}` : "killed")));
        for (const prompt of prompts) resumed += service.rangesOf(prompt);
      });
      await service.close();
      if (share === 1 && resumed === 0) faults.push("nothing was gone on with, nothing was proven");
      const wrong = faults.filter((fault) => fault.includes("wrong")).length;
      return {
        figures: `${rounds.length} rounds: ${tally(ends)}; ${resumed} downloads gone on with, ${wrong} wrong files`,
        target: "0 wrong files, each exit 0 with its own",
        faults,
      };
    }),
};

/** Slow, and now and then another version from the next request on. */
function changing(random: Random): MediaFault {
  return async (scene) => {
    await slowMedia(scene);
    if (random.next() < 0.2) scene.state.version = (scene.state.version + 1) % 3;
  };
}

async function play(round: Round): Promise<{ ended: Ended[]; faults: string[] }> {
  const { prompts, random } = round;
  const ended: Ended[] = [];
  const faults: string[] = [];
  for (let i = 0; i < 8; i++) {
    // At first each is broken off; later some are typed at the same time, and the last ones are left alone.
    const chosen =
      i < 2 ? [prompts[i] ?? ""] : [random.pick(prompts), ...(random.next() < 0.25 ? [random.pick(prompts)] : [])];
    const steps = chosen.map((prompt) => (i < 2 ? generate(prompt, []) : pickStep(prompt, round)));
    const before = contentOf(round);
    const runs = steps.map((step) => run(step, round, i < 2 || (i < 6 && random.next() < 0.6)));
    const ends = await Promise.all(runs);
    ended.push(...ends);
    faults.push(
      ...judge(steps, ends, { ...round, before }).map(
        (fault) => `step ${i}, ${steps.map(({ argv }) => argv.join(" ")).join(" and ")}: ${fault}`,
      ),
    );
  }
  return { ended, faults };
}

function generate(prompt: string, flags: string[]): Step {
  return { prompt, argv: ["generate", prompt, "-o", place, ...flags], isOverwriting: flags.includes("--overwrite") };
}

function pickStep(prompt: string, { service, random }: Round): Step {
  const flags = random.next() < 0.3 ? ["--overwrite"] : [];
  const ids = service.oracle.startsOf(prompt).flatMap(({ generated }) => generated?.id ?? []);
  if (random.next() < 0.5)
    return { prompt, argv: ["wait", random.pick(ids), "-o", place, ...flags], isOverwriting: flags.length > 0 };
  return generate(prompt, random.next() < 0.5 ? flags : [...flags, "--reuse"]);
}

async function run({ prompt, argv }: Step, { service, home, random }: Round, isKilled: boolean): Promise<Ended> {
  const reached = new Promise<void>((resolve) => service.watch(prompt, (moment) => moment === "media" && resolve()));
  const child = spawnVidgen(argv, envOf(service, home), home);
  if (isKilled) {
    await Promise.race([reached.then(() => pause(random.next() * 220)), child.ended]);
    child.kill("SIGKILL");
  }
  return child.ended;
}

function contentOf({ home }: Pick<Round, "home">): Buffer | undefined {
  const file = join(home, place);
  return existsSync(file) ? readFileSync(file) : undefined;
}

function judge(steps: Step[], ends: Ended[], round: Round & { before: Buffer | undefined }): string[] {
  const { service, prompts, before } = round;
  const faults: string[] = [];
  const all = prompts
    .flatMap((prompt) => service.oracle.startsOf(prompt))
    .flatMap(({ generated }) => generated?.id ?? []);
  const file = contentOf(round);
  const owner = file && all.find((id) => service.oracle.isVideo(id, file));
  if (file && owner === undefined) faults.push("a wrong file: bytes of no one video");
  const idOf = ({ argv, prompt }: Step, { stderr }: Ended): string | undefined => {
    if (argv[0] === "wait") return argv[1];
    const isIts = service.oracle.startsOf(prompt).some(({ generated }) => generated?.id === owner);
    if (stderr.includes("Already saved: ")) return isIts ? owner : "another one of its prompt";
    return /(?:Started|Resuming) ([0-9a-f-]{36})/.exec(stderr)?.[1];
  };
  const goodIds = ends.flatMap((ended, i) => (ended.code === 0 ? [idOf(steps[i] as Step, ended)] : []));
  const killedPrompts = ends.flatMap(({ signal }, i) => (signal === null ? [] : [steps[i]?.prompt ?? ""]));
  const mayOwn = [
    ...goodIds,
    ...killedPrompts
      .flatMap((prompt) => service.oracle.startsOf(prompt))
      .flatMap(({ generated }) => generated?.id ?? []),
  ];
  if (goodIds.length > 0 && !goodIds.includes(owner) && killedPrompts.length === 0)
    faults.push(`exit 0 for ${goodIds}, and a wrong file, that of ${owner}`);
  const isChanged = file !== undefined && !(before && file.equals(before));
  if (isChanged && !mayOwn.includes(owner)) faults.push(`a wrong file: nobody who saved that of ${owner} ended well`);
  if (before && !file) faults.push("the file is gone, wrong");
  if (before && isChanged && !steps.some(({ isOverwriting }) => isOverwriting))
    faults.push("replaced without --overwrite: wrong");
  for (const ended of ends) {
    const say = (what: string) => faults.push(`${what}: exit ${ended.code}: ${ended.stderr}`);
    for (const ugly of ugliness(ended)) say(ugly);
    if (ended.signal !== null || ended.code === 0) continue;
    // Somebody else's video is there, or somebody else saves one at this moment.
    if (ended.code !== 9 || (!before && ends.length === 1)) say("a bad end");
  }
  faults.push(...judgePart(round, all));
  return faults;
}

/** Each partial file begins one video: that of the generation that the journal says. */
function judgePart({ service, home }: Round, ids: string[]): string[] {
  const parts = readdirSync(home).filter((name) => name.startsWith(`${place}.`) && name.endsWith(".part"));
  return parts.flatMap((name) => judgeOne(join(home, name), { service, home }, ids));
}

function judgeOne(path: string, { service, home }: Pick<Round, "service" | "home">, ids: string[]): string[] {
  const bytes = readFileSync(path);
  const lines = readJournal(home);
  const line = lines.findLast(({ kind, file }) => kind === "part" && file === path);
  const id = line?.id ?? lines.find(({ kind, attempt }) => kind === "accepted" && attempt === line?.attempt)?.id;
  const begins = (id: string) =>
    [0, 1, 2].some((version) => service.oracle.video(id, version).subarray(0, bytes.length).equals(bytes));
  if (!ids.some(begins)) return [`a wrong partial file: ${bytes.length} bytes of no one video`];
  // Without an ETag it starts again, whatever is in the file.
  if (id !== undefined && line?.etag !== undefined && !begins(id)) return [`a wrong partial file: it is not of ${id}`];
  return [];
}
