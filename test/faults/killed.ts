import { mkdirSync, watch } from "node:fs";
import { join } from "node:path";
import { ugliness } from "./client.ts";
import { type Goal, portion, tally } from "./goal.ts";
import { slowMedia } from "./media-faults.ts";
import { stillRunning } from "./poll-faults.ts";
import { createRandom, type Random } from "./random.ts";
import { createService, type Service } from "./server.ts";
import { envOf, spawnVidgen } from "./spawned.ts";
import { slowStart } from "./start-faults.ts";
import { pause } from "./wire.ts";
import { inFolder, readJournal, side, videosIn } from "./work.ts";

/** Goal 5: a process that dies at any moment takes nothing with it that `wait --all` does not bring back. */
export const killed: Goal = {
  number: 5,
  title: "SIGKILL at seeded moments, then wait --all",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const service = await createService(random);
      const count = portion(200, share, 8);
      const lifeMs = await measureLife(service, folder);
      const homes = Array.from({ length: Math.ceil(count / 25) }, (_, i) => join(folder, `home-${i}`));
      // More than are needed: not every moment comes before the end.
      const commands = Array.from({ length: count * 2 }, (_, i) => ({
        prompt: `fox ${i}`,
        home: homes[i % homes.length] ?? "",
      }));
      const ends: string[] = [];
      const said = new Map<string, string>();
      const kills = () => ends.filter((end) => end === "killed").length;
      let underWay = 0;
      await side(commands, 4, async ({ prompt, home }) => {
        while (underWay > 0 && kills() + underWay >= count) await pause(5);
        if (kills() >= count) return;
        underWay++;
        const { signal, stderr } = await kill(service, { prompt, home, lifeMs, random: random.fork(prompt) });
        underWay--;
        said.set(prompt, stderr);
        ends.push(signal === null ? "ended before" : "killed");
      });
      const before = service.oracle.starts.length;
      const faults: string[] = kills() < count ? [`killed ${kills()} times alone`] : [];
      const codes: string[] = [];
      let accepted = 0;
      let saved = 0;
      let uncertain = 0;
      for (const home of homes) {
        const waited = await spawnVidgen(
          ["wait", "--all", "-o", "videos/", "--timeout", "30s"],
          envOf(service, home),
          home,
        ).ended;
        codes.push(`exit ${waited.code}`);
        if (waited.code !== 0) faults.push(`wait --all: exit ${waited.code}: ${trouble(waited.stderr)}`);
        for (const ugly of ugliness(waited)) faults.push(`wait --all: ${ugly}: ${trouble(waited.stderr)}`);
        const videos = videosIn(join(home, "videos"));
        const lines = readJournal(home);
        const ids = lines.flatMap(({ kind, id }) => (kind === "accepted" && id !== undefined ? [id] : []));
        accepted += ids.length;
        for (const id of ids) {
          if (videos.some((bytes) => service.oracle.isVideo(id, bytes))) saved++;
          else faults.push(`${id} was accepted, and is lost: ${trouble(waited.stderr)}`);
        }
        const known = [...service.oracle.generations.keys()];
        for (const bytes of videos)
          if (!known.some((id) => service.oracle.isVideo(id, bytes))) faults.push("a file that is no whole video");
        for (const { generated } of commands
          .filter((each) => each.home === home)
          .flatMap(({ prompt }) => service.oracle.startsOf(prompt))) {
          if (!generated || ids.includes(generated.id)) continue;
          uncertain++;
          if (said.get(generated.prompt)?.includes(generated.id))
            faults.push(`${generated.prompt}: its id was said before it was written down`);
          if (!lines.some(({ kind, attempt }) => kind === "intent" && attempt === generated.attempt))
            faults.push(`${generated.prompt}: charged, and its intent is not in the journal`);
        }
      }
      const further = service.oracle.starts.length - before;
      if (further > 0) faults.push(`${further} further charges`);
      for (const { prompt } of commands)
        if (service.oracle.chargesOf(prompt) > 1)
          faults.push(`${prompt}: charged ${service.oracle.chargesOf(prompt)} times`);
      await service.close();
      return {
        figures:
          `${tally(ends)} over ${Math.round(lifeMs)} ms of life, ${before} charged: ${accepted} accepted, ` +
          `${accepted - saved} of them lost, ${uncertain} known by their intent alone; ${further} further charges; ` +
          `wait --all: ${tally(codes)}`,
        target: "0 accepted ids lost, 0 further charges",
        faults,
      };
    }),
};

/**
 * Half of them die at any time of their lives; the others shortly after the answer or the last byte of the video has gone out, when
 * what has happened is being written down.
 */
async function kill(
  service: Service,
  { prompt, home, lifeMs, random }: { prompt: string; home: string; lifeMs: number; random: Random },
) {
  const moment = random.pick(["any", "any", "answered", "sent", "part"] as const);
  const reached = new Promise<void>((resolve) => service.watch(prompt, (seen) => seen === moment && resolve()));
  const videos = join(home, "videos");
  mkdirSync(videos, { recursive: true });
  const child = start(service, prompt, home, random);
  if (moment === "part") {
    // At once when its partial file has come into being: whose it is has to be known by then.
    const watcher = watch(videos, (_, name) => name?.endsWith(".part") && child.kill("SIGKILL"));
    return child.ended.finally(() => watcher.close());
  }
  if (moment === "any") await pause(random.next() * lifeMs);
  else await Promise.race([reached.then(() => pause(random.next() * 20)), child.ended]);
  child.kill("SIGKILL");
  return child.ended;
}

/** What is said of errors, without what is said of the good. */
function trouble(stderr: string): string {
  return stderr.replace(/^(Generating|Saving) .*\n/gm, "");
}

/** A command of which every phase takes its time: the answer, a few looks, the download. */
function start(service: Service, prompt: string, home: string, random: Random) {
  service.plan(prompt, { starts: [slowStart(random)], polls: [stillRunning], media: slowMedia });
  mkdirSync(home, { recursive: true });
  return spawnVidgen(["generate", prompt, "-o", "videos/"], envOf(service, home), home);
}

/** How long such a command lives, undisturbed, from its start to its end. */
export async function measureLife(service: Service, folder: string): Promise<number> {
  const home = join(folder, "measured");
  const lives: number[] = [];
  for (const group of ["abcd", "efgh"]) {
    const runs = [...group].map((name) => start(service, `measured ${name}`, home, createRandom(name)).ended);
    for (const { code, stderr, ms } of await Promise.all(runs)) {
      if (code !== 0) throw new Error(`cannot measure: exit ${code}: ${stderr}`);
      lives.push(ms);
    }
  }
  return lives.reduce((sum, ms) => sum + ms) / lives.length;
}
