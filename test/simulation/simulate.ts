import { randomBytes } from "node:crypto";
import process from "node:process";
import { parseArgs } from "node:util";
import { explain, type KindName, search } from "./search.ts";

// `npm run simulate`. A seed with a slash is one story, any other is where a search begins.
const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    minutes: { type: "string", default: "1" },
    stories: { type: "string" },
    /** Goes on after a rule was broken, and counts. */
    all: { type: "boolean", default: false },
    only: { type: "string" },
    /** The stories of the client, those of the service that pays an engine, or both, the latter a third of the time. */
    kind: { type: "string", default: "both" },
    /** Fails when a rare state was never reached: for runs that are long enough. */
    probes: { type: "boolean", default: false },
  },
});

const print = (text: string) => void process.stdout.write(`${text}\n`);

async function run(): Promise<void> {
  const { seed = randomBytes(4).toString("hex"), minutes, kind } = values;
  if (seed.includes("/")) return print(await explain(seed));
  print(`seed ${seed}`);
  const ms = Number(minutes) * 60_000;
  if (kind === "client" || kind === "engine") return searchKind(kind, seed, ms);
  await searchKind("client", seed, (ms * 2) / 3);
  await searchKind("engine", seed, ms / 3);
}

async function searchKind(kind: KindName, seed: string, ms: number): Promise<void> {
  const { stories, all, only, probes } = values;
  const most = stories === undefined ? undefined : Number(stories);
  const found = await search(seed, { ms, kind, stories: most, isThorough: all, only });
  const perSecond = Math.round(found.stories / found.seconds);
  print(`${kind}: ${found.stories} stories in ${Math.round(found.seconds)} s of one core, ${perSecond} a second`);
  for (const [probe, count] of [...found.probes].sort(([, a], [, b]) => b - a))
    print(`${String(count).padStart(7)} x ${probe}`);
  if (probes && [...found.probes.values()].includes(0)) {
    print("a state was never reached");
    process.exitCode = 1;
  }
  const [first] = found.findings;
  if (first === undefined) return print("none breaks a rule");
  process.exitCode = 1;
  if (!all) {
    print(`rule ${first.broken.rule}: ${first.broken.message}; looking for the shortest story ...`);
    return print(await explain(first.seed));
  }
  const kinds = new Map<string, string[]>();
  for (const { seed, broken } of found.findings) {
    const kind = `rule ${broken.rule}: ${broken.message.replace(/[0-9a-f-]{36}/g, "...").replace(/\b[A-Z]\d?(-\d+)?\b|\b(g|job-)\d+\b/g, "X")}`;
    kinds.set(kind, [...(kinds.get(kind) ?? []), seed]);
  }
  for (const [kind, seeds] of [...kinds].sort(([, a], [, b]) => b.length - a.length))
    print(`${seeds.length} x ${kind} (${seeds.slice(0, 4).join(" ")})`);
}

await run();
