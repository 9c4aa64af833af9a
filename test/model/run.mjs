// Explores the worlds of the model: see README.md.
import { explore, walk } from "./explore.mjs";

const print = (text) => process.stdout.write(`${text}\n`);
const args = process.argv.slice(2);
const names = args.filter((each) => !each.startsWith("--"));
const without = args.flatMap((each) => /^--without=(.*)/.exec(each)?.[1].split(",") ?? []);
const cap = Number(process.env.CAP ?? 100_000);
const isRandom = args.includes("--random");
const secondsEach = Number(process.env.SECS ?? 2);
let violations = 0;
for (const name of ["generation", "keys", "rows", "commands", "runs"]) {
  const world = await import(`./${name}.mjs`);
  const use = { ...world.rules };
  for (const rule of without) if (rule in use) use[rule] = !use[rule];
  for (const [scene, options] of Object.entries(world.scenes)) {
    if (names.length > 0 && !names.includes(name) && !names.includes(scene)) continue;
    const played = { ...options, use };
    const { found, ...size } = isRandom ? walk(world, played, secondsEach) : explore(world, played, cap);
    violations += found.size;
    const sizes = Object.entries(size).map(([what, count]) => `${what} ${count}`);
    print(`${name} ${scene}: ${sizes.join(", ")}, violations ${found.size}`);
    for (const [violation, trace] of found) print(`  ${violation}\n    ${trace.join("; ")}`);
  }
}
process.exitCode = violations > 0 ? 1 : 0;
