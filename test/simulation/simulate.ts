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
    only: { type: "string" },
    /** Plays only the stories of the client with this name in `acts.ts`. */
    story: { type: "string" },
    /** The stories of the client, those of the service that pays an engine, or both, the latter a third of the time. */
    kind: { type: "string", default: "both" },
    /** Fails when a rare state was never reached: for runs that are long enough. */
    probes: { type: "boolean", default: false },
  },
});

const print = (text: string) => void process.stdout.write(`${text}\n`);

async function run(): Promise<void> {
  const { seed = randomBytes(4).toString("hex"), minutes, story } = values;
  const kind = story === undefined ? values.kind : "client";
  if (seed.includes("/")) return print(await explain(seed));
  print(`seed ${seed}`);
  const ms = Number(minutes) * 60_000;
  if (kind === "client" || kind === "engine") return searchKind(kind, seed, ms);
  await searchKind("client", seed, (ms * 2) / 3);
  await searchKind("engine", seed, ms / 3);
}

async function searchKind(kind: KindName, seed: string, ms: number): Promise<void> {
  const { stories, only, probes, story } = values;
  const most = stories === undefined ? undefined : Number(stories);
  const found = await search(seed, { ms, kind, stories: most, isThorough: true, only, story });
  const perSecond = Math.round(found.stories / found.seconds);
  print(`${kind}: ${found.stories} stories in ${Math.round(found.seconds)} s of one core, ${perSecond} a second`);
  for (const [probe, count] of [...found.probes].sort(([, a], [, b]) => b - a))
    print(`${String(count).padStart(7)} x ${probe}`);
  if (probes && [...found.probes.values()].includes(0)) {
    print("a state was never reached");
    process.exitCode = 1;
  }
  if (found.findings.length === 0) return print("none breaks a rule");
  process.exitCode = 1;
  const seedsByKind = new Map<string, string[]>();
  for (const { seed, broken } of found.findings) {
    const name = `rule ${broken.rule}: ${broken.message
      .replace(/[0-9a-f-]{36}/g, "...")
      .replace(/"[^"]*" then$/, "... then")
      .replace(/\b[A-Z]\d?(-\d+)?\b|\b(g|job-)\d+\b/g, "X")}`;
    seedsByKind.set(name, [...(seedsByKind.get(name) ?? []), seed]);
  }
  const kinds = [...seedsByKind].sort(([, a], [, b]) => b.length - a.length);
  for (const [name, seeds] of kinds) print(`${seeds.length} x ${name} (${seeds.slice(0, 4).join(" ")})`);
  for (const [, [first = ""]] of kinds) print(`\n${await explain(first)}`);
}

await run();
