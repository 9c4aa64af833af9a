import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readPage } from "../../../src/docs.ts";
import { makeFolder } from "../../folder.ts";
import { hasPromtool } from "../../needs.ts";
import { createCounted } from "../counted.ts";

/** What promtool says of a text, and whether it found fault. */
function promtool(words: string[], input: string) {
  const { status, stdout, stderr } = spawnSync("promtool", words, { input, encoding: "utf8" });
  return { status, said: stdout + stderr };
}

test.skipIf(!hasPromtool)("promtool finds no fault with the metrics", async () => {
  const { start, rest, text } = await createCounted();
  await start("a fox");
  await rest(1);
  expect(promtool(["check", "metrics"], await text())).toEqual({ status: 0, said: "" });
});

const page = readPage("metrics").text;
const [rules = ""] = page.match(/^groups:\n(?:.*\n)*?(?=```)/m) ?? [];

test.skipIf(!hasPromtool)("promtool accepts the three alerts of the page", async () => {
  const file = join(makeFolder(), "vidgen.yml");
  writeFileSync(file, rules);
  expect(promtool(["check", "rules", file], "")).toEqual({
    status: 0,
    said: expect.stringContaining("SUCCESS: 3 rules found"),
  });
});
