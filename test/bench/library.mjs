import { fileURLToPath } from "node:url";
import { runForMemory } from "./measure.mjs";

const count = 1000;
const library = fileURLToPath(new URL("../../dist/index.cjs", import.meta.url));
const program = `
const { createClient } = require(${JSON.stringify(library)});
const client = createClient({ journal: process.argv[1] || undefined });
const make = (_, index) => client.generate({ prompt: "take " + index, model: "wan-2.5" }, { intervalMs: 1000 });
Promise.all(Array.from({ length: ${count} }, make)).then((made) => {
  if (new Set(made.map(({ id }) => id)).size !== ${count}) throw new Error("an id twice");
});`;

/** A program on the library that starts and follows 1,000 generations at once, without a journal and with one. */
export function measureLibrary({ env, folder, print }) {
  for (const [name, ...args] of [
    ["", ""],
    [" with a journal", `${folder}/starts.jsonl`],
  ]) {
    const start = performance.now();
    const memory = runForMemory({ args: ["-e", program, ...args], env });
    const seconds = (performance.now() - start) / 1000;
    print(`library: ${count} at once${name}`, `${memory.toFixed(0)} MB`, `${seconds.toFixed(1)} s`);
  }
}
