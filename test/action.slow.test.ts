import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { readPage } from "../src/docs.ts";
import { makeFolder } from "./folder.ts";

const folder = fileURLToPath(new URL("../.github", import.meta.url));
const action = readFileSync(join(folder, "action.yml"), "utf8");
const steps = action.split(/^ {4}- /m).slice(1);

test("the action gives the key to the one step that runs vidgen, and none without the address where it belongs", () => {
  const [step = "", ...others] = steps.filter((step) => step.includes("inputs.key"));
  expect(others).toEqual([]);
  expect(step).toMatch(/^id: vidgen\n/);
  expect(step).toMatch(/VIDGEN_API_KEY: \${{ inputs\.base-url && inputs\.key }}\n/);
});

test("the action puts nothing that somebody types into a script", () => {
  for (const step of steps)
    expect(step.match(/run: \|?\n?[\s\S]*?(?=\n {6}shell)|run: .*/)?.[0] ?? "").not.toContain("${{");
});

test("the recipes use inputs that the action has", () => {
  const inputs = [...action.matchAll(/^ {2}([\w-]+):\n {4}description/gm)].map(([, name]) => name);
  const [, ...used] = readPage("ci").text.split(/uses: you\/vidgen.*\n {8}with:\n/);
  const names = used.flatMap((text) =>
    [...(text.split("```")[0] ?? "").matchAll(/^ {10}([\w-]+):/gm)].map(([, name]) => name),
  );
  expect(names.length).toBeGreaterThan(5);
  expect(inputs).toEqual(expect.arrayContaining(names));
});

const windows = { skip: process.platform === "win32" };

test("the action's step prints what vidgen prints, and has the saved files as its output", windows, () => {
  const { status, stdout, files, folder } = runStep("generate @prompt.txt --local -d 1 -o *.mp4");
  expect(stdout).toBe("*.mp4\n");
  expect(status).toBe(0);
  expect(files).toBe("files<<end-of-files\n*.mp4\nend-of-files\n");
  expect(readdirSync(folder)).toContain("*.mp4");
});

test("the action's step ends with vidgen's exit code, with its output complete", windows, () => {
  const { status, files } = runStep("generate @missing.txt --local -o clip.mp4");
  expect(status).toBe(2);
  expect(files).toBe("files<<end-of-files\nend-of-files\n");
});

/** Runs the script of the action's step as GitHub does. */
function runStep(typed: string) {
  const cwd = makeFolder();
  writeFileSync(join(cwd, "prompt.txt"), "a fox");
  writeFileSync(join(cwd, "old.mp4"), "");
  const [step = ""] = steps.filter((step) => step.startsWith("id: vidgen"));
  const script = step.split("run: |\n")[1]?.split("      shell:")[0] ?? "";
  const output = join(cwd, "output");
  const { status, stdout } = spawnSync("bash", ["--noprofile", "--norc", "-eo", "pipefail", "-c", script], {
    cwd,
    encoding: "utf8",
    env: {
      PATH: process.env.PATH,
      GITHUB_ACTION_PATH: folder,
      GITHUB_OUTPUT: output,
      ARGUMENTS: typed,
      VIDGEN_API_KEY: "",
      VIDGEN_BASE_URL: "",
      VIDGEN_HOME: join(cwd, "home"),
    },
  });
  return { status, stdout, files: readFileSync(output, "utf8"), folder: cwd };
}
