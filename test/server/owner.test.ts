import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { expect, onTestFinished, test } from "vitest";
import { type OwnerOptions, type Ownership, takeOwnership } from "../../src/server/owner.ts";
import { compile } from "../compiled.ts";
import { makeFolder } from "./service.ts";

/** A machine on which these processes run, each named with its birth. */
function machine(pid: number, births: Record<number, string | undefined>): OwnerOptions {
  return { pid, isRunning: (each) => each in births, birthOf: async (each) => births[each] };
}

async function release(ownership: Ownership): Promise<void> {
  if (ownership.kind !== "taken") throw new Error(`held by ${ownership.pid}`);
  await ownership.release();
}

const ownerFiles = (folder: string) => readdirSync(folder).sort();

test("a folder is made and taken, for its owner's eyes alone", async () => {
  const folder = join(await makeFolder(), "new", "service");
  expect(await takeOwnership(folder, machine(7, { 7: "a" }))).toMatchObject({ kind: "taken" });
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  expect(ownerFiles(folder)).toEqual(["owner.1"]);
  expect(statSync(join(folder, "owner.1")).mode & 0o777).toBe(0o600);
});

test("a second one is told who holds it, also within the same process", async () => {
  const folder = await makeFolder();
  const births = { 7: "a", 8: "b" };
  await takeOwnership(folder, machine(7, births));
  expect(await takeOwnership(folder, machine(8, births))).toEqual({ kind: "held", pid: 7 });
  expect(await takeOwnership(folder, machine(7, births))).toEqual({ kind: "held", pid: 7 });
  expect(ownerFiles(folder)).toEqual(["owner.1"]);
});

test("what is released can be taken while its owner runs on; numbers only grow", async () => {
  const folder = await makeFolder();
  const births = { 7: "a", 8: "b" };
  await release(await takeOwnership(folder, machine(7, births)));
  expect(await takeOwnership(folder, machine(8, births))).toMatchObject({ kind: "taken" });
  expect(ownerFiles(folder)).toEqual(["owner.1", "owner.2"]);
});

test.each([
  ["has ended", { 8: "b" }, "taken"],
  ["has ended and its number is another process's now", { 7: "later", 8: "b" }, "taken"],
  ["runs", { 7: "a", 8: "b" }, "held"],
  ["may run: whose the number is cannot be told", { 7: undefined, 8: "b" }, "held"],
])("an owner that %s", async (_, births, kind) => {
  const folder = await makeFolder();
  await takeOwnership(folder, machine(7, { 7: "a" }));
  expect(await takeOwnership(folder, machine(8, births))).toMatchObject({ kind });
});

test.each(["", "{", "null", "[]", '{"pid":0}', '{"pid":-1}', '{"pid":"7"}', "\0\0\0\0"])(
  "a file that a power cut has left with %j holds nobody up",
  async (content) => {
    const folder = await makeFolder();
    writeFileSync(join(folder, "owner.3"), content);
    const running = { ...machine(8, { 8: "b" }), isRunning: () => true };
    expect(await takeOwnership(folder, running)).toMatchObject({ kind: "taken" });
    expect(ownerFiles(folder)).toEqual(["owner.3", "owner.4"]);
  },
);

test("the folder stays small", async () => {
  const folder = await makeFolder();
  writeFileSync(join(folder, "owner.1.0123456789abcdef"), "left by a killed process");
  writeFileSync(join(folder, "service.db"), "");
  for (let i = 0; i < 30; i++) await release(await takeOwnership(folder, machine(7, { 7: "a" })));
  const files = ownerFiles(folder);
  expect(files).toHaveLength(9);
  expect(files).toEqual(expect.arrayContaining(["owner.30", "owner.23", "service.db"]));
});

test("of twenty that find the owner gone, one takes it and the others are told so", async () => {
  for (let round = 0; round < 10; round++) {
    const folder = await makeFolder();
    await takeOwnership(folder, machine(7, { 7: "a" }));
    const births = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [100 + i, `birth ${i}`]));
    const all = await Promise.all(
      Object.keys(births).map((pid) => takeOwnership(folder, machine(Number(pid), births))),
    );
    expect(all.filter(({ kind }) => kind === "taken")).toHaveLength(1);
    const winner = 100 + all.findIndex(({ kind }) => kind === "taken");
    expect(all.filter((each) => each.kind === "held" && each.pid === winner)).toHaveLength(19);
  }
});

test("one that comes so late that its number is free again gives way", async () => {
  const folder = await makeFolder();
  await takeOwnership(folder, machine(7, { 7: "a" }));
  // While the late one finds that 7 is gone, others have come and gone, and 9 is the owner now.
  const overtaken = (pid: number) => {
    if (pid !== 7) return true;
    renameSync(join(folder, "owner.1"), join(folder, "owner.30"));
    writeFileSync(join(folder, "owner.30"), JSON.stringify({ pid: 9, birth: "c" }));
    return false;
  };
  const late = { ...machine(8, { 8: "b", 9: "c" }), isRunning: overtaken };
  expect(await takeOwnership(folder, late)).toEqual({ kind: "held", pid: 9 });
  expect(ownerFiles(folder)).toEqual(["owner.30"]);
});

// Processes of their own.

/** Takes the folder as often as it can until its turns are used up, writes down when it has it, and is killed in the last of them. */
const contender = `
import { appendFileSync } from "node:fs";
import { systemIo } from "../src/cli/system.ts";
import { takeOwnership } from "../src/server/owner.ts";
const [folder, log, turns] = process.argv.slice(2);
const io = systemIo();
const say = (word) => appendFileSync(log, word + " " + process.pid + "\\n");
process.stdout.write("ready");
await new Promise((resolve) => process.stdin.once("data", resolve));
for (let left = Number(turns); left > 0; ) {
  const ownership = await takeOwnership(folder, io);
  if (ownership.kind === "held") continue;
  say("in");
  await io.sleep(1);
  say("out");
  if (--left === 0) process.kill(process.pid, "SIGKILL");
  await ownership.release();
}
`;

function startContender(script: string, folder: string, log: string): ChildProcess {
  const child = spawn(process.execPath, [script, folder, log, "8"]);
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

test("six processes take turns, each killed in its last: never two at once", async () => {
  const folder = await makeFolder();
  const log = join(folder, "log");
  const script = await compile(contender);
  const children = Array.from({ length: 6 }, () => startContender(script, join(folder, "service"), log));
  await Promise.all(children.map((child) => once(child.stdout as NodeJS.ReadableStream, "data")));
  const ends = children.map((child) => once(child, "exit"));
  for (const child of children) child.stdin?.write("go");
  for (const end of ends) expect(await end).toEqual([null, "SIGKILL"]);
  const lines = readFileSync(log, "utf8").trim().split("\n");
  expect(lines).toHaveLength(6 * 8 * 2);
  const turns = lines.filter((line) => line.startsWith("in"));
  expect(lines).toEqual(turns.flatMap((line) => [line, line.replace("in", "out")]));
});

test.runIf(process.platform === "linux")("a killed owner whose parent has not seen it yet is gone", async () => {
  const folder = await makeFolder();
  const hold = `
    import { systemIo } from "../src/cli/system.ts";
    import { takeOwnership } from "../src/server/owner.ts";
    const io = systemIo();
    await takeOwnership("${folder}", io);
    process.stdout.write(String(process.pid));
    await io.sleep(60_000);`;
  // sleep, which the shell becomes, never looks after the child that it inherits.
  const parent = spawn("sh", ["-c", '"$@" & exec sleep 60', "sh", process.execPath, await compile(hold)]);
  onTestFinished(() => void parent.kill("SIGKILL"));
  const [said] = await once(parent.stdout, "data");
  const pid = Number(said);
  const me = { pid: process.pid, isRunning: (each: number) => process.kill(each, 0) };
  expect(await takeOwnership(folder, me)).toEqual({ kind: "held", pid });
  process.kill(pid, "SIGKILL");
  await untilZombie(pid);
  expect(me.isRunning(pid)).toBe(true);
  expect(await takeOwnership(folder, me)).toMatchObject({ kind: "taken" });
});

async function untilZombie(pid: number): Promise<void> {
  while (!/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8")))
    await new Promise((resolve) => setImmediate(resolve));
}
