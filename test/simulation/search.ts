import process from "node:process";
import { type Plan, planOf } from "./plan.ts";
import { type Probe, probeNames } from "./probes.ts";
import { shrink } from "./shrink.ts";
import { type Played, play } from "./story.ts";

type Broken = NonNullable<Played["broken"]>;

/** A story in which a rule does not hold. */
export type Finding = { seed: string; broken: Broken };

export type Searched = {
  findings: Finding[];
  stories: number;
  /** How many stories have reached each rare state. */
  probes: ReadonlyMap<Probe, number>;
  /** Of one core. */
  seconds: number;
};

export type SearchOptions = {
  ms: number;
  stories?: number | undefined;
  /** Goes on after the first finding. */
  isThorough?: boolean;
  /** Of the stories that break a rule, only those whose message holds this text count. */
  only?: string | undefined;
};

/** Plays the stories `seed/0`, `seed/1` and so on, each from its own seed. */
export async function search(seed: string, options: SearchOptions): Promise<Searched> {
  const { ms, stories: most = Number.POSITIVE_INFINITY, isThorough = false, only = "" } = options;
  const end = performance.now() + ms;
  const start = process.cpuUsage();
  const findings: Finding[] = [];
  const counts = new Map<Probe, number>(probeNames.map((name) => [name, 0]));
  let stories = 0;
  while (stories < most && performance.now() < end && (isThorough || findings.length === 0)) {
    const name = `${seed}/${stories++}`;
    const { broken, probes } = await play(planOf(name));
    for (const probe of probes) counts.set(probe, (counts.get(probe) ?? 0) + 1);
    if (broken?.message.includes(only)) findings.push({ seed: name, broken });
  }
  const { user, system } = process.cpuUsage(start);
  return { findings, stories, probes: counts, seconds: (user + system) / 1e6 };
}

/** The story of a seed in plain words; where a rule is broken, the shortest one that shows it. */
export async function explain(seed: string): Promise<string> {
  return explainPlan(seed, planOf(seed));
}

async function explainPlan(seed: string, plan: Plan): Promise<string> {
  const { broken } = await play(plan);
  const isSame = async (each: Plan) => (await play(each)).broken?.rule === broken?.rule;
  const least = broken ? await shrink(plan, isSame) : plan;
  const { lines } = await play(least, { tells: true });
  const head = broken
    ? [`seed ${seed}: rule ${broken.rule} does not hold. The shortest story that shows it:`]
    : [`seed ${seed}`];
  return [...head, "", ...lines, "", `npm run simulate -- --seed ${seed}   plays it again`].join("\n");
}
