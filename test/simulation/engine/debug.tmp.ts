import { planOf } from "./plan.ts";
import { playEngine } from "./story.ts";
for (const seed of process.argv.slice(2)) {
  const t = performance.now();
  const played = await playEngine(planOf(seed), { tells: true });
  const { lines } = played;
  console.log(seed, "steps", played.steps, Math.round(performance.now() - t), "ms", played.broken);
  console.log(lines.slice(0, 30).join("\n")); if (lines.length > 60) console.log("...");
  console.log(lines.slice(-30).join("\n"));
}
