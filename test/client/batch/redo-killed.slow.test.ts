import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Row } from "../../../src/client/batch/row.ts";
import { type Disk, type DiskFile, systemMachine } from "../../../src/io.ts";
import { createMachine, createService, type Machine } from "./machine.ts";

const keepFrame = async (video: string) => ({ path: readFileSync(video, "latin1"), isNearlyOneColor: false });

/** A disk whose process is killed before its call number `last` that changes a file. */
function createDyingDisk(last: number, die: () => void) {
  let calls = 0;
  const files = new Set<DiskFile>();
  const isDead = () => calls > last;
  const count = () => {
    calls++;
    if (calls !== last + 1) return;
    for (const file of files) void file.close().catch(() => {});
    die();
  };
  const dying =
    <Args extends unknown[], Result>(work: (...args: Args) => Promise<Result>, changes = (..._: Args) => true) =>
    (...args: Args): Promise<Result> => {
      if (changes(...args)) count();
      return isDead() ? new Promise<never>(() => {}) : work(...args);
    };
  const { disk } = systemMachine;
  const wrapFile = (file: DiskFile): DiskFile => {
    files.add(file);
    return new Proxy(file, {
      get(target, name) {
        const value = Reflect.get(target, name);
        if (typeof value !== "function") return value;
        const changes = ["write", "sync", "datasync", "truncate", "utimes"].includes(String(name));
        return dying(value.bind(target), () => changes);
      },
    });
  };
  const calling = (name: "link" | "mkdir" | "rename" | "rm" | "rmdir" | "utimes") =>
    dying(disk[name] as (...args: unknown[]) => Promise<unknown>);
  const dyingDisk = {
    ...disk,
    link: calling("link"),
    mkdir: calling("mkdir"),
    rename: calling("rename"),
    rm: calling("rm"),
    rmdir: calling("rmdir"),
    utimes: calling("utimes"),
    open: dying(
      async (path: string, flags: string, mode?: number) => wrapFile(await disk.open(path, flags, mode)),
      (_, flags) => flags !== "r",
    ),
    writeSync(...args: Parameters<Disk["writeSync"]>) {
      count();
      if (isDead()) throw new Error("killed");
      return disk.writeSync(...args);
    },
  } as Disk;
  return { disk: dyingDisk, isDead };
}

function filmOf(machine: Machine): Row[] {
  return ["a", "b"].map((id, i) => {
    const row = machine.row(`shot ${id}`, { id, line: i + 2, outputPath: join(machine.folder, `${id}.mp4`) });
    return i === 0 ? row : { ...row, from: 0, load: async (frame) => ({ ...row.record, imageUrl: frame }) };
  });
}

const videosIn = ({ folder }: Machine) =>
  readdirSync(folder)
    .filter((name) => name.endsWith(".mp4"))
    .map((name) => /gen-\d+/.exec(readFileSync(join(folder, name), "latin1"))?.[0]);

test("killed between every two changes of a file, a redo pays for each row once, and never loses the old videos", async () => {
  const seen = { unknown: 0, done: 0 };
  let isKilled = true;
  for (let last = 0; isKilled; last++) {
    const service = createService({ contentOf: ({ id }) => id, renderMs: () => 5_000 });
    const machine = createMachine(service);
    await machine.run(filmOf(machine), { keepFrame });
    const line = (again = false) => ({ keepFrame, redo: { rows: ["a"], again, name: `redo-${last}` } });
    let isDead = () => false;
    await new Promise<unknown>((resolve) => {
      const dying = createDyingDisk(last, () => {
        machine.kill();
        resolve(undefined);
      });
      isDead = dying.isDead;
      void machine.run(filmOf(machine), { ...line(), disk: dying.disk }).then(resolve);
    });
    isKilled = isDead();
    expect(videosIn(machine), `killed at ${last}`).toEqual(expect.arrayContaining(["gen-1", "gen-2"]));
    machine.laterMs = last % 2 === 0 ? 0 : 40 * 24 * 3600_000;
    // Nothing is known of the redo if the process was killed before its line was written.
    const isBegun = machine.lines().some(({ kind }) => kind === "redo");
    if (!isBegun) expect(service.starts).toBe(2);
    const looked = await machine.open(filmOf(machine), { isDryRun: true });
    const isOver = looked.plan.done === 2;
    const next = [line(), isBegun ? { keepFrame } : line(), line(isBegun && !isOver)][last % 3];
    await machine.run(filmOf(machine), next);
    const { batch } = await machine.run(filmOf(machine), { keepFrame, redo: { rows: ["a"], name: "later" } });
    await machine.run(filmOf(machine), { keepFrame });
    const { unknown, blocked, done, to_start } = batch.plan;
    expect(service.charges("shot a"), `killed at ${last}`).toBeLessThanOrEqual(2);
    expect(service.charges("shot b"), `killed at ${last}`).toBeLessThanOrEqual(2);
    expect(videosIn(machine), `killed at ${last}`).toEqual(expect.arrayContaining(["gen-1", "gen-2"]));
    expect([done + unknown + blocked, to_start], `killed at ${last}`).toEqual([2, 0]);
    if (unknown > 0) seen.unknown++;
    else {
      seen.done++;
      expect(videosIn(machine).sort(), `killed at ${last}`).toEqual(["gen-1", "gen-2", "gen-3", "gen-4"]);
    }
  }
  expect(seen.unknown).toBeGreaterThan(0);
  expect(seen.done).toBeGreaterThan(20);
});
