import { planOf } from "./plan.ts";
import { playEngine } from "./story.ts";

const [seed, from, to] = process.argv.slice(2);
if (to === undefined) {
  const played = await playEngine(planOf(seed), { tells: true });
  console.log(played.lines.join("\n"), played.steps, played.broken);
} else
  for (let i = Number(from); i < Number(to); i++) {
    const t = process.cpuUsage();
    const played = await playEngine(planOf(`${seed}/${i}`));
    const u = process.cpuUsage(t);
    const p = planOf(`${seed}/${i}`);
    console.log(
      i,
      p.store,
      p.processes,
      p.kind,
      "steps",
      played.steps,
      Math.round((u.user + u.system) / 1000),
      "ms",
      played.broken ?? "",
    );
  }
