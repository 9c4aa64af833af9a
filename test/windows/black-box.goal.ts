import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { afterAll, beforeAll, expect, test } from "vitest";
import { quote } from "../../src/shell.ts";
import { createRandom } from "../faults/random.ts";
import { createService, type Service } from "../faults/server.ts";
import { envOf } from "../faults/spawned.ts";
import { lostStarts } from "../faults/start-faults.ts";
import { pause } from "../faults/wire.ts";
import { nameOf, prefix, spawnNode, spawnVidgen } from "./windows.ts";

// The promise on Windows: nothing is paid twice and no video is lost, whatever dies, races, is held open or is answered.

const random = createRandom(process.env.SEED ?? String(Date.now()));
const kills = Number(process.env.KILLS ?? 8);
const base = prefix === undefined ? tmpdir() : join(prefix, "drive_c");
let service: Service;
let folder = "";

beforeAll(async () => {
  folder = mkdtempSync(join(base, "black-box-"));
  service = await createService(random.fork("service"));
});

afterAll(async () => {
  await service?.close();
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
});

/** A person with a home and a folder of their own, who types lines that name fox.mp4. */
function createPerson(prompt: string) {
  const home = join(folder, prompt.replace(/\W+/g, "-"));
  const start = (...flags: string[]) =>
    spawnVidgen(
      ["generate", prompt, "-o", "fox.mp4", "--timeout", "60s", ...flags],
      home,
      envOf(service, nameOf(join(home, "state"))),
    );
  const file = join(home, "fox.mp4");
  const isSaved = () =>
    existsSync(file) &&
    [...service.oracle.generations.values()].some(
      (each) => each.prompt === prompt && service.oracle.isVideo(each.id, readFileSync(file)),
    );
  const left = () => readdirSync(home).filter((name) => !/^(\.(out|err)-\d+|state|fox\.mp4)$/.test(name));
  return { home, file, start, isSaved, left };
}

test.each(Array.from({ length: kills }, (_, i) => i))(
  "kill %i: the same line again pays nothing and saves the video",
  async (i) => {
    const prompt = `a fox that is killed ${i}`;
    const { start, isSaved, left } = createPerson(prompt);
    const first = start();
    await pause(random.fork(prompt).between(200, 2_500));
    first.kill();
    await first.ended;
    const wasSaved = isSaved();
    let last = await start().ended;
    // What was sent without an answer is unclear: the person looks, and says so.
    if (last.code === 6) last = await start(service.oracle.chargesOf(prompt) === 0 ? "--again" : "--reuse").ended;
    const isUnclear = last.code === 6;
    expect(service.oracle.chargesOf(prompt), last.stderr).toBeLessThanOrEqual(1);
    if (isUnclear) return;
    // Killed at its very end: the file is not replaced.
    expect(wasSaved ? [0, 9] : [0], last.stderr).toContain(last.code);
    expect(isSaved()).toBe(true);
    if (last.code === 0) expect(left()).toEqual([]);
  },
);

// vidgen waits for two minutes for the other one.
const broken = Object.keys(lostStarts).filter((name) => name !== "never answered");

test.each(broken)("a start that is answered with %s is paid once at most", async (name) => {
  const prompt = `a fox, answered with ${name}`;
  service.plan(prompt, { starts: [lostStarts[name] as (typeof lostStarts)[string]] });
  const { start } = createPerson(prompt);
  for (let i = 0; i < 2; i++) expect((await start().ended).code).toBe(6);
  expect(service.oracle.chargesOf(prompt)).toBeLessThanOrEqual(1);
});

test("three of the same line at once pay once", async () => {
  const prompt = "a fox three times";
  const { start, isSaved } = createPerson(prompt);
  const runs = await Promise.all([start(), start(), start()].map(({ ended }) => ended));
  expect(service.oracle.chargesOf(prompt), runs.map(({ stderr }) => stderr).join("\n")).toBe(1);
  expect(isSaved()).toBe(true);
});

/** Opens a file as a program that shares it with nobody, until `close`. */
async function hold(file: string, ms: number) {
  // UV_FS_O_EXLOCK: no share mode at all.
  const script = `const fs = require("fs"); const fd = fs.openSync(${JSON.stringify(nameOf(file))}, fs.constants.O_RDWR | 0x10000000); console.log("held"); setTimeout(() => fs.closeSync(fd), ${ms});`;
  const { ended, kill } = spawnNode(["-e", script], join(folder, "holder"));
  const out = () =>
    readdirSync(join(folder, "holder")).some(
      (name) => name.startsWith(".out") && readFileSync(join(folder, "holder", name), "utf8").includes("held"),
    );
  await expect.poll(out, { timeout: 30_000 }).toBe(true);
  return { ended, close: kill };
}

test("a target that another program opens for some seconds is replaced when it is closed", async () => {
  const prompt = "a fox over another";
  const { home, file, start, isSaved, left } = createPerson(prompt);
  mkdirSync(home, { recursive: true });
  writeFileSync(file, "an earlier fox");
  const held = await hold(file, 4_000);
  const { code, stderr } = await start("--overwrite").ended;
  await held.ended;
  expect([code, isSaved(), left()], stderr).toEqual([0, true, []]);
  expect(service.oracle.chargesOf(prompt)).toBe(1);
});

test("a target that stays open: the reason, and the same line again pays nothing", async () => {
  const prompt = "a fox in a player";
  const { home, file, start, isSaved } = createPerson(prompt);
  mkdirSync(home, { recursive: true });
  writeFileSync(file, "an earlier fox");
  const held = await hold(file, 60_000);
  const stopped = await start("--overwrite").ended;
  expect([stopped.code, stopped.stderr]).toEqual([9, expect.stringContaining("another program has it open")]);
  held.close();
  await held.ended;
  expect((await start("--overwrite").ended).code).toBe(0);
  expect([isSaved(), service.oracle.chargesOf(prompt)]).toEqual([true, 1]);
});

test.each(["CON", "aux.mp4", "a?b.mp4", "fox."])("-o %s is refused before anything is paid", async (name) => {
  const prompt = `a fox in ${name}`;
  const { start } = createPerson(prompt);
  expect((await start("-o", name).ended).code).toBe(2);
  expect(service.oracle.chargesOf(prompt)).toBe(0);
});

test("Windows reads a line as it was written for cmd", async () => {
  const words = ["a red fox", 'say "hi" to it', "back\\slash\\", "50% & more | <less>", "costs $5"];
  const line = words.map((word) => quote(word, "cmd")).join(" ");
  const script = `const { spawnSync } = require("child_process"); process.stdout.write(spawnSync(process.execPath, ["-p", "JSON.stringify(process.argv.slice(1))", "--", ${JSON.stringify(line)}], { windowsVerbatimArguments: true, encoding: "utf8" }).stdout);`;
  const file = join(folder, "line.cjs");
  writeFileSync(file, script);
  const { stdout, stderr } = await spawnNode([nameOf(file)], join(folder, "line")).ended;
  expect(JSON.parse(stdout || stderr)).toEqual(words);
});
