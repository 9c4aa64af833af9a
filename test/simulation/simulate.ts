import { randomBytes } from "node:crypto";
import process from "node:process";
import { parseArgs } from "node:util";
import { planOf } from "./plan.ts";
import { shrink } from "./shrink.ts";
import { type Played, play } from "./story.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    minutes: { type: "string", default: "1" },
    stories: { type: "string", default: "Infinity" },
    /** Goes on after a rule was broken, and tells how often. */
    all: { type: "boolean", default: false },
    /** Only stories that break this rule, or whose message holds this text, count. */
    only: { type: "string" },
    json: { type: "boolean", default: false },
  },
});

type Broken = NonNullable<Played["broken"]>;

const isWanted = (broken: Broken) =>
  values.only === undefined || `${broken.rule} ${broken.message}`.includes(values.only);

const print = (text: string) => void process.stdout.write(`${text}\n`);

async function show(seed: string): Promise<void> {
  const plan = planOf(seed);
  const { broken } = await play(plan);
  const least = broken ? await shrink(plan, async (each) => (await play(each)).broken?.rule === broken.rule) : plan;
  const { lines } = await play(least, { tells: true });
  print(`seed ${seed}${broken ? `: rule ${broken.rule} is broken; the shortest story that shows it:` : ""}\n`);
  print(lines.join("\n"));
  if (values.json) print(JSON.stringify(least));
  print(`\nnpm run simulate -- --seed ${seed}   plays it again`);
}

async function search(seed: string): Promise<boolean> {
  const end = performance.now() + Number(values.minutes) * 60_000;
  const start = process.cpuUsage();
  const found = new Map<string, string[]>();
  let stories = 0;
  let steps = 0;
  for (; stories < Number(values.stories) && performance.now() < end; stories++) {
    const name = `${seed}/${stories}`;
    const played = await play(planOf(name));
    steps += played.steps;
    if (played.broken === undefined || !isWanted(played.broken)) continue;
    const kind = `${played.broken.rule} ${played.broken.message.replace(/[0-9a-f-]{36}/g, "...").replace(/\b[A-Z]\d?\b/g, "X")}`;
    found.set(kind, [...(found.get(kind) ?? []), name]);
    if (!values.all) break;
  }
  const { user, system } = process.cpuUsage(start);
  const seconds = (user + system) / 1e6;
  print(
    `${stories} stories in ${seconds.toFixed(1)} s of one core: ${(stories / seconds).toFixed(0)} a second, ${(steps / seconds).toFixed(0)} steps a second`,
  );
  for (const [kind, names] of [...found].sort(([, a], [, b]) => b.length - a.length))
    print(`${names.length} x rule ${kind}: ${names.slice(0, 4).join(" ")}`);
  const first = [...found.values()][0]?.[0];
  if (first !== undefined && !values.all) await show(first);
  return first === undefined;
}

if (values.seed?.includes("/")) {
  await show(values.seed);
} else {
  const seed = values.seed ?? randomBytes(4).toString("hex");
  print(`seed ${seed}`);
  process.exitCode = (await search(seed)) ? 0 : 1;
}
