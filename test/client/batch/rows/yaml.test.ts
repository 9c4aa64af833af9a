import { expect, test } from "vitest";
import { faultsOf, readFile } from "./read.ts";

const readYaml = (text: string) => readFile("shots.yaml", text);
const firstFault = async (text: string) => (await faultsOf(readYaml(text)))[0];

test("a prompt has several lines, comments are left out, and an anchor stands for what rows share", async () => {
  const { rows } = await readYaml(
    `# the film
- &night
  id: hill
  prompt: |
    a red fox stands on a hill,
    snow falls
  model: ray-3 # the calm one
  set: { seed: 7 }
- <<: *night
  id: run
  prompt: >-
    the fox runs
    down the hill
  from: previous
`.replace("  from: previous\n", ""),
  );
  expect(rows.map(({ id, line, record }) => [id, line, record])).toEqual([
    ["hill", 3, { prompt: "a red fox stands on a hill,\nsnow falls", model: "ray-3", seed: 7 }],
    ["run", 9, { prompt: "the fox runs down the hill", model: "ray-3", seed: 7 }],
  ]);
});

test("what a text field holds is kept as it was typed, and what set holds has its type", async () => {
  const { rows } = await readYaml(
    '- {id: 007, prompt: 1.10, set.a: 1.50, set.b: "1.50", set: {c: true, d: [0x1F]}}\n- {id: 1e3, prompt: no}\n',
  );
  expect(rows.map(({ id, record }) => [id, record])).toEqual([
    ["007", { prompt: "1.10", model: "wan-2.5", a: 1.5, b: "1.50", c: true, d: [31] }],
    ["1e3", { prompt: "no", model: "wan-2.5" }],
  ]);
});

test.each([
  ["- prompt: a fox\n- prompt: a fox\n  prompt: an owl\n", /^line 3: Map keys must be unique/],
  ["- prompt: a fox\n- prompt: [\n", /^line \d: /],
  ["- prompt: a fox\n- an owl\n", /^line 2: is not a map, such as - prompt/],
  ["- prompt: a fox\n-\n", /^line 2: is not a map/],
  ["- prompt: a fox\n\n- prompt: *owl\n", /^line 3: .*owl/],
  ["- prompt: a fox\n- prompt: !!js/function an owl\n", /^line 2: Unresolved tag/],
  ["prompt: a fox\n", /^line 1: must be a list of rows/],
  ["just text\n", /^line 1: must be a list of rows/],
  ["- &a\n  prompt: a fox\n  note: [*a]\n", /^line 3: \*a is inside of the value of &a/],
  ["- &a\n  prompt: a fox\n  <<: *a\n", /^line 3: \*a is inside of the value of &a/],
  ["- prompt: a fox\n---\n- prompt: an owl\n", /multiple documents/],
  ["- prompt: a fox\n- prompt: an owl\n  duration: -1\n", /^line 2 \(duration\): /],
])("%j is refused with its line", async (text, fault) => {
  expect(await firstFault(text)).toMatch(fault);
});

test("aliases that stand for gigabytes, deep nesting and the names of objects change nothing but an error", async () => {
  const bomb = ["a", "b", "c", "d", "e", "f", "g", "h", "i"].map((name, i, all) => {
    const before = all[i - 1];
    return `  ${name}: &${name} [${Array(10)
      .fill(before ? `*${before}` : "x")
      .join(", ")}]\n`;
  });
  expect(await firstFault(`- prompt: a fox\n${bomb.join("")}`)).toMatch(/^line 1: has more than 100 aliases/);
  const deep = ["[".repeat(100_000), `${"{a: ".repeat(100_000)}`, `\n  ${"- ".repeat(100_000)}`, "? ".repeat(100_000)];
  for (const value of deep) await expect(readYaml(`- prompt: ${value}`)).rejects.toThrow("nested too deeply");
  const { rows } = await readYaml('- prompt: a fox\n  set: {"__proto__": {polluted: 1}}\n');
  expect(Object.prototype).not.toHaveProperty("polluted");
  expect(rows).toHaveLength(1);
  await expect(readYaml(`- prompt: "${"x".repeat(17_000_000)}"\n`)).rejects.toThrow("A YAML file may have 16 MB");
});

test("a hundred rows and more share one anchor", async () => {
  const rows = Array.from({ length: 300 }, (_, i) => `- {<<: *base, id: r${i}}\n`);
  const read = await readYaml(`- &base {id: first, prompt: a fox}\n${rows.join("")}`);
  expect(read.rows).toHaveLength(301);
});

test("an alias without an anchor is named with its own line, inside of a row of many lines", async () => {
  expect(await firstFault("- prompt: a fox\n  model: veo-3.1\n  set:\n    seed: *seed\n")).toMatch(
    /^line 4: \*seed has no anchor &seed before it/,
  );
});
