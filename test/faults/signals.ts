import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ugliness } from "./client.ts";
import { type Goal, portion, tally } from "./goal.ts";
import { slowMedia, stalledMedia } from "./media-faults.ts";
import { stillRunning } from "./poll-faults.ts";
import type { Random } from "./random.ts";
import { createService, type Moment, type Plan, type Service } from "./server.ts";
import { type Ended, type Spawned, spawnVidgen } from "./spawned.ts";
import { startBody } from "./start-faults.ts";
import { listen, pause, reply } from "./wire.ts";
import { inFolder, side } from "./work.ts";

const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
type Signal = (typeof signals)[number];

/** A stretch of a command's life, and how it is met. */
type Phase = {
  plan?: Plan;
  /** The moment that begins it; without one it is the start of the process. */
  moment?: Moment | "connected";
  /** The signal comes up to this long after that. */
  withinMs: number;
  /** Followed by the same signal once more. */
  isTwice?: boolean;
  /** The id is known by then, and has to be said. */
  isKnown?: boolean;
  /** The command may have come to its end by itself. */
  mayBeDone?: boolean;
};

const endless = Array.from({ length: 200 }, () => stillRunning);

const phases: Record<string, Phase> = {
  "start-up": { withinMs: 110, mayBeDone: true },
  connecting: { moment: "connected", withinMs: 40 },
  "request out, answered later": {
    moment: "start",
    withinMs: 30,
    isKnown: true,
    plan: {
      starts: [
        {
          executes: true,
          async act({ socket, generated }) {
            await pause(250);
            await reply(socket, 200, startBody(generated));
          },
        },
      ],
      polls: endless,
    },
  },
  "request out, never answered": {
    moment: "start",
    withinMs: 30,
    isTwice: true,
    plan: { starts: [{ executes: true, act: () => {} }] },
  },
  polling: { moment: "poll", withinMs: 300, isKnown: true, plan: { polls: endless } },
  downloading: { moment: "media", withinMs: 60, isKnown: true, plan: { media: stalledMedia } },
  saving: { moment: "sent", withinMs: 12, isKnown: true, mayBeDone: true, plan: { media: slowMedia } },
};

/** Goal 6: a signal ends a command in good order, whatever it is at. */
export const signalled: Goal = {
  number: 6,
  title: "SIGINT, SIGTERM and SIGHUP in every phase",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const service = await createService(random);
      const count = portion(300, share, 21);
      const commands = Array.from({ length: count }, (_, i) => ({
        name: Object.keys(phases)[i % 7] as string,
        signal: signals[Math.floor(i / 7) % 3] as Signal,
        prompt: `fox ${i}`,
      }));
      const faults: string[] = [];
      const ends: string[] = [];
      await side(commands, 6, async ({ name, signal, prompt }) => {
        const phase = phases[name] as Phase;
        const file = join(folder, `${prompt.replace(" ", "-")}.mp4`);
        const ended = await interrupt(service, { phase, signal, prompt, file, random: random.fork(prompt) });
        ends.push(endOf(ended));
        const [generated] = service.oracle.startsOf(prompt).flatMap((start) => start.generated ?? []);
        const say = (what: string) => faults.push(`${name}, ${signal}: ${what}: ${endOf(ended)}: ${ended.stderr}`);
        for (const ugly of ugliness(ended)) say(ugly);
        const isWhole = existsSync(file) && service.oracle.isVideo(generated?.id ?? "", readFileSync(file));
        if (existsSync(file) && !isWhole) say("a file that is not whole");
        const isDone = phase.mayBeDone && ended.code === 0 && isWhole;
        const isRight = phase.isTwice ? ended.code === 6 : ended.signal === signal;
        if (!isRight && !isDone) say("a wrong end");
        if (isDone) return;
        if (phase.isKnown && !ended.stderr.includes(`vidgen wait ${generated?.id} `))
          say("the command to go on is missing");
        if (phase.isTwice && !ended.stderr.includes("may have been charged"))
          say("does not say what may have happened");
        if (name === "connecting" && !ended.stderr.includes("Nothing was sent"))
          say("does not say that nothing was sent");
      });
      await service.close();
      return {
        figures: `${count} signals in ${Object.keys(phases).length} phases: ${tally(ends)}; ${faults.length} that are not right`,
        target: "by the signal itself, or 6 where it may have been charged; 0 not right",
        faults,
      };
    }),
};

type Interruption = { phase: Phase; signal: Signal; prompt: string; file: string; random: Random };

async function interrupt(service: Service, { phase, signal, prompt, file, random }: Interruption): Promise<Ended> {
  service.plan(prompt, phase.plan ?? {});
  let onReached = () => {};
  const reached = new Promise<void>((resolve) => (onReached = resolve));
  // Accepts connections and never says a word: TLS waits for one.
  const silent = await listen({
    onConnection() {
      onReached();
      return true;
    },
  });
  const baseUrl = phase.moment === "connected" ? `https://127.0.0.1:${silent.port}` : service.baseUrl;
  service.watch(prompt, (moment) => moment === phase.moment && onReached());
  const env = { VIDGEN_HOME: `${file}-home`, VIDGEN_BASE_URL: baseUrl, VIDGEN_API_KEY: "key" };
  const child: Spawned = spawnVidgen(["generate", prompt, "-o", file], env, "/");
  if (phase.moment) await Promise.race([reached, child.ended]);
  await pause(random.next() * phase.withinMs);
  child.kill(signal);
  if (phase.isTwice) {
    await pause(random.between(60, 200));
    child.kill(signal);
  }
  const ended = await child.ended;
  await silent.close();
  return ended;
}

function endOf({ code, signal }: Ended): string {
  return signal === null ? `exit ${code}` : `died of ${signal}`;
}
