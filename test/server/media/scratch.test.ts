import { existsSync } from "node:fs";
import { chown, mkdir, readdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { expect, test } from "vitest";
import { type Processes, systemMachine } from "../../../src/io.ts";
import { openScratch } from "../../../src/server/media/scratch.ts";
import { createVirtualClock } from "../../clock.ts";
import { makeFolder } from "../../folder.ts";

const hourMs = 3_600_000;

/** Processes of one machine, which end when they are removed from `running`. */
async function createWorld() {
  const clock = createVirtualClock();
  const running = new Set([7, 8]);
  const startOf: Processes["startOf"] = async (pid) => (running.has(pid) ? String(pid) : undefined);
  const as = (pid: number) => ({
    ...systemMachine,
    ...clock,
    processes: { startOf, self: async () => ({ machine: "boot-1", namespace: "1", pid, start: String(pid) }) },
  });
  const folder = makeFolder();
  const open = (pid: number) => openScratch(join(folder, "unfinished-"), as(pid));
  /** Makes it look as old as that. */
  const age = (path: string, ms: number) => utimes(path, 0, (clock.date().getTime() - ms) / 1_000);
  return { folder, running, open, age };
}

test("the files of a killed process are removed by the next process", async () => {
  const { folder, running, open, age } = await createWorld();
  const left = await open(7);
  await writeFile(join(left.folder, "fox.mp4"), "half a fox");
  running.delete(7);
  await age(left.folder, hourMs + 1_000);
  const next = await open(8);
  expect((await readdir(folder)).map((name) => join(folder, name))).toEqual([next.folder]);
});

test("the folder of a running process stays, however long it makes no video", async () => {
  const { open, age } = await createWorld();
  const idle = await open(7);
  await age(idle.folder, 1_000 * hourMs);
  await open(8);
  expect(existsSync(idle.folder)).toBe(true);
  await idle.close();
  expect(existsSync(idle.folder)).toBe(false);
});

test("a folder that was just created stays, because its lease may follow", async () => {
  const { folder, open, age } = await createWorld();
  const fresh = join(folder, "unfinished-000000");
  await mkdir(fresh);
  await age(fresh, hourMs - 1_000);
  await open(8);
  expect(existsSync(fresh)).toBe(true);
  await age(fresh, hourMs + 1_000);
  await open(8);
  expect(existsSync(fresh)).toBe(false);
});

test("other folders and those of other users stay", async () => {
  const { folder, open, age } = await createWorld();
  const isRoot = process.getuid?.() === 0;
  const others = ["fox", "fox-unfinished-000000", ...(isRoot ? ["unfinished-000000"] : [])].map((name) =>
    join(folder, name),
  );
  for (const path of others) {
    await mkdir(path);
    if (path.endsWith("/unfinished-000000")) await chown(path, 65_534, 65_534);
    await age(path, 1_000 * hourMs);
  }
  const { close } = await open(8);
  await close();
  expect((await readdir(folder)).map((name) => join(folder, name)).sort()).toEqual(others.sort());
});
