import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { validateAction, validateWorkflow } from "@action-validator/core";
import { expect, test } from "vitest";
import { readPage } from "../../src/docs.ts";

const folder = fileURLToPath(new URL("../../.github", import.meta.url));
const action = readFileSync(join(folder, "action.yml"), "utf8");

test("the action, the workflows and the recipes have the shape that GitHub wants", () => {
  expect(validateAction(action).errors).toEqual([]);
  const workflows = readdirSync(join(folder, "workflows")).map((name) =>
    readFileSync(join(folder, "workflows", name), "utf8"),
  );
  const recipes = [...readPage("ci").text.matchAll(/```yaml\n([\s\S]*?)```/g)].map(
    ([, recipe]) => `on: push\n${recipe}`,
  );
  expect([...workflows, ...recipes].flatMap((text) => validateWorkflow(text).errors)).toEqual([]);
});
