import process from "node:process";
import { planOf as planOfEngine, simplerEngine } from "./engine/plan.ts";
import { engineProbeNames } from "./engine/probes.ts";
import { playEngine } from "./engine/story.ts";
import { planOf } from "./plan.ts";
import { probeNames } from "./probes.ts";
import { shrink, simpler } from "./shrink.ts";
import { play } from "./story.ts";

type Broken = { rule: number; message: string };
type Played = { broken: Broken | undefined; lines: string[]; probes: ReadonlySet<string> };

/** A kind of stories: how one is drawn from a seed, played and made plainer. */
type Kind<Plan> = {
  probes: readonly string[];
  draw(seed: string): Plan;
  play(plan: Plan, options?: { tells?: boolean }): Promise<Played>;
  simpler(plan: Plan): Iterable<Plan>;
};

/** Those of the client; and those of the service that pays an engine, whose seeds begin with their name. */
const kinds = {
  client: kindOf({ probes: probeNames, draw: planOf, play, simpler }),
  engine: kindOf({ probes: engineProbeNames, draw: planOfEngine, play: playEngine, simpler: simplerEngine }),
};

export type KindName = keyof typeof kinds;

/** A story in which a rule does not hold. */
export type Finding = { seed: string; broken: Broken };

export type Searched = {
  findings: Finding[];
  stories: number;
  /** How many stories have reached each rare state. */
  probes: ReadonlyMap<string, number>;
  /** Of one core. */
  seconds: number;
};

export type SearchOptions = {
  ms: number;
  /** Which stories: those of the client unless told otherwise. */
  kind?: KindName;
  stories?: number | undefined;
  /** Goes on after the first finding. */
  isThorough?: boolean;
  /** The name of a story in `acts.ts`: only those are played. */
  story?: string | undefined;
  /** Of the stories that break a rule, only those whose message holds this text count. */
  only?: string | undefined;
};

/** Plays the stories `seed/0`, `seed/1` and so on, each from its own seed. */
export async function search(seed: string, options: SearchOptions): Promise<Searched> {
  const { ms, kind = "client", stories: most = Number.POSITIVE_INFINITY, isThorough = false, only = "" } = options;
  const prefix = kind === "engine" ? kind : options.story;
  const end = performance.now() + ms;
  const start = process.cpuUsage();
  const findings: Finding[] = [];
  const counts = new Map<string, number>(kinds[kind].probes.map((name) => [name, 0]));
  let stories = 0;
  while (stories < most && performance.now() < end && (isThorough || findings.length === 0)) {
    const name = `${prefix === undefined ? "" : `${prefix}-`}${seed}/${stories++}`;
    const { broken, probes } = await kinds[kind].play(name);
    for (const probe of probes) counts.set(probe, (counts.get(probe) ?? 0) + 1);
    if (broken?.message.includes(only)) findings.push({ seed: name, broken });
  }
  const { user, system } = process.cpuUsage(start);
  return { findings, stories, probes: counts, seconds: (user + system) / 1e6 };
}

/** The story of a seed in plain words; where a rule is broken, the shortest one that shows it. */
export async function explain(seed: string): Promise<string> {
  return kinds[seed.startsWith("engine-") ? "engine" : "client"].explain(seed);
}

function kindOf<Plan>({ probes, draw, play, simpler }: Kind<Plan>) {
  return {
    probes,
    play: (seed: string) => play(draw(seed)),
    async explain(seed: string): Promise<string> {
      const plan = draw(seed);
      const { broken } = await play(plan);
      const isSame = async (each: Plan) => (await play(each)).broken?.rule === broken?.rule;
      const least = broken ? await shrink(plan, simpler, isSame) : plan;
      const { lines } = await play(least, { tells: true });
      const head = broken
        ? [`seed ${seed}: rule ${broken.rule} does not hold. The shortest story that shows it:`]
        : [`seed ${seed}`];
      return [...head, "", ...lines, "", `npm run simulate -- --seed ${seed}   plays it again`].join("\n");
    },
  };
}
