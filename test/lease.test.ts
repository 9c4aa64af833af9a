import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { expect, test } from "vitest";
import { type Clock, type Processes, systemMachine } from "../src/io.ts";
import { type Acquired, acquireLease, type Lease, readHolder, tryLease, type Watch } from "../src/lease.ts";
import { createVirtualClock } from "./clock.ts";
import { compile } from "./compiled.ts";
import { makeFolder } from "./folder.ts";

function makePath(): string {
  const folder = makeFolder();
  return join(folder, "thing.lease");
}

/** A container in which these processes run, each with its start time. */
function container(starts: Record<number, string>, namespace = "1") {
  const startOf = async (pid: number) => starts[pid];
  const as = (pid: number): Processes => ({
    self: async () => ({ machine: "boot-1", namespace, pid, start: starts[pid] ?? "-" }),
    startOf,
  });
  return { starts, as };
}

function worldOf(processes: Processes, clock: Clock = createVirtualClock()) {
  return { ...systemMachine, ...clock, processes };
}

function leaseOf(acquired: Acquired): Lease {
  if (acquired.kind === "held") throw new Error(`held by ${acquired.holder.pid}`);
  return acquired.lease;
}

test("a lease whose file could not be removed once is over for its own process too", async () => {
  const path = makePath();
  const world = worldOf(container({ 7: "a" }).as(7));
  const refused = async () => Promise.reject(Object.assign(new Error("input/output error"), { code: "EIO" }));
  const lease = leaseOf(await acquireLease(path, { ...world, disk: { ...world.disk, rm: refused } }));
  await lease.release();
  expect(readdirSync(path)).toHaveLength(1);
  const next = leaseOf(await acquireLease(path, world));
  expect(await acquireLease(path, world)).toMatchObject({ kind: "held" });
  await next.release();
  expect(readdirSync(join(path, ".."))).toEqual([]);
});

test("looking changes nothing, and what was found stale stays so until it is refreshed", async () => {
  const path = makePath();
  const clock = createVirtualClock();
  const world = worldOf(container({ 7: "a" }).as(7), clock);
  const file = join(path, "boot-1_2_7_a_token");
  mkdirSync(path);
  writeFileSync(file, "");
  const files = () => readdirSync(path);
  const before = files();
  const watch: Watch = new Map();
  expect(await readHolder(path, world, watch)).toMatchObject({ isSure: false });
  for (let i = 0; i < 7; i++) {
    await clock.sleep(10_000);
    await readHolder(path, world, watch);
  }
  for (let i = 0; i < 2; i++) expect(await readHolder(path, world, watch)).toBeUndefined();
  utimesSync(file, clock.date(), clock.date());
  expect(await readHolder(path, world, watch)).toMatchObject({ isSure: true });
  expect(files()).toEqual(before);
});

test("a second process is told who holds it, also the same process, until it is released", async () => {
  const path = makePath();
  const { as } = container({ 7: "a", 8: "b" });
  const [seven, eight] = [worldOf(as(7)), worldOf(as(8))];
  const lease = leaseOf(await acquireLease(path, seven));
  expect(await acquireLease(path, eight)).toMatchObject({ kind: "held", holder: { pid: 7 } });
  expect(await acquireLease(path, seven)).toMatchObject({ kind: "held", holder: { pid: 7 } });
  expect(await acquireLease(path, eight)).toMatchObject({ kind: "held" });
  await lease.release();
  expect(readdirSync(join(path, ".."))).toEqual([]);
  leaseOf(await acquireLease(path, eight));
});

test("a holder that was suspended for so long that another may have taken over knows it at once, until it has looked", async () => {
  const clock = createVirtualClock();
  let suspendedMs = 0;
  const now = () => clock.now() + suspendedMs;
  const lease = leaseOf(await acquireLease(makePath(), worldOf(container({ 7: "a" }).as(7), { ...clock, now })));
  suspendedMs = 49_000;
  lease.assertFresh();
  suspendedMs = 51_000;
  expect(lease.assertFresh).toThrow("another process may have taken over");
  await lease.confirm();
  lease.assertFresh();
});

test.each([
  ["has ended", undefined],
  ["has ended, and its number is another process's now", "later"],
])("a holder that %s holds nothing", async (_, start) => {
  const path = makePath();
  const machine = container({ 7: "a", 8: "b" });
  await acquireLease(path, worldOf(machine.as(7)));
  if (start === undefined) delete machine.starts[7];
  else machine.starts[7] = start;
  leaseOf(await acquireLease(path, worldOf(machine.as(8))));
  expect(await acquireLease(path, worldOf(machine.as(8)))).toMatchObject({ kind: "held" });
});

test("a holder in another container lives as long as it refreshes, and stops once it finds another's name", async () => {
  const path = makePath();
  const clock = createVirtualClock();
  const [one, other] = [container({ 7: "a" }), container({ 7: "a" }, "2")];
  const first = leaseOf(await acquireLease(path, worldOf(one.as(7), clock)));
  for (let i = 0; i < 8; i++) await clock.sleep(20_000);
  expect(await acquireLease(path, worldOf(other.as(7), clock))).toMatchObject({ kind: "held" });

  // The container is frozen: its own timers stand still.
  const frozen = createVirtualClock();
  const path2 = makePath();
  const second = leaseOf(await acquireLease(path2, worldOf(one.as(7), frozen)));
  const later = createVirtualClock();
  leaseOf(await acquireLease(path2, worldOf(other.as(7), later)));
  expect(later.now()).toBeGreaterThanOrEqual(60_000);
  expect(second.lost.aborted).toBe(false);
  await frozen.sleep(10_001);
  await expect.poll(() => second.lost.aborted).toBe(true);
  await second.release();
  expect(await acquireLease(path2, worldOf(other.as(7), later))).toMatchObject({ kind: "held" });
  expect(first.lost.aborted).toBe(false);
});

test.each([
  ["without its start time is stale when it is not refreshed: its number may be another's", "-", false, "acquired"],
  ["without its start time lives as long as it refreshes", "-", true, "held"],
  ["with its start time lives however long it is suspended", "a", false, "held"],
])("a holder on this machine %s", async (_, start, isRefreshed, kind) => {
  const path = makePath();
  const clock = createVirtualClock();
  const { as } = container({ 7: start, 8: start });
  await acquireLease(path, worldOf(as(7), isRefreshed ? clock : createVirtualClock()));
  expect(await acquireLease(path, worldOf(as(8), clock))).toMatchObject({ kind });
});

test.each([-86_400_000, -120_000, 120_000, 86_400_000])(
  "a holder elsewhere whose clock is %i ms off lives as long as it refreshes, and is stale when it does not",
  async (errorMs) => {
    const clock = createVirtualClock();
    const off = (clock: Clock) => ({ ...clock, date: () => new Date(clock.date().getTime() + errorMs) });
    const [one, other] = [container({ 7: "a" }).as(7), container({ 7: "a" }, "2").as(7)];
    const [alive, frozen] = [makePath(), makePath()];
    await acquireLease(alive, worldOf(one, off(clock)));
    expect(await acquireLease(alive, worldOf(other, clock))).toMatchObject({ kind: "held", holder: { isSure: true } });
    await acquireLease(frozen, worldOf(one, off(createVirtualClock())));
    leaseOf(await acquireLease(frozen, worldOf(other, clock)));
  },
);

test("what is not watched is not seen: a pause between two looks says nothing about a holder elsewhere", async () => {
  const path = makePath();
  const clock = createVirtualClock();
  await acquireLease(path, worldOf(container({ 7: "a" }, "2").as(7), createVirtualClock()));
  const watch: Watch = new Map();
  const look = async () => {
    const acquired = await tryLease(path, worldOf(container({ 8: "b" }).as(8), clock), watch);
    return acquired.kind;
  };
  expect(await look()).toBe("held");
  await clock.sleep(3_600_000);
  expect(await look()).toBe("held");
});

test.each(["free", "held by one that has ended"])(
  "of twenty that try at once, one gets it when it is %s",
  async (state) => {
    for (let round = 0; round < 10; round++) {
      const path = makePath();
      const starts = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [100 + i, `start ${i}`]));
      const machine = container({ 7: "a", ...starts });
      if (state !== "free") await acquireLease(path, worldOf(machine.as(7)));
      delete machine.starts[7];
      const all = await Promise.all(
        Object.keys(starts).map((pid) => acquireLease(path, worldOf(machine.as(Number(pid))))),
      );
      expect(all.filter(({ kind }) => kind === "acquired")).toHaveLength(1);
      expect(readdirSync(path)).toHaveLength(1);
      expect(readdirSync(join(path, ".."))).toEqual(["thing.lease"]);
    }
  },
);

test("a file that is no holder's beside that of a live one changes nothing", async () => {
  const path = makePath();
  const { as } = container({ 7: "a", 8: "b" });
  await acquireLease(path, worldOf(as(7)));
  for (const name of [".DS_Store", "~", "boot-1_1_99_gone_token", "zzz"]) writeFileSync(join(path, name), "");
  expect(await acquireLease(path, worldOf(as(8)))).toMatchObject({ kind: "held", holder: { pid: 7 } });
});

test("a process that has lost its lease is told so in words", async () => {
  const path = makePath();
  const lease = leaseOf(await acquireLease(path, worldOf(container({ 7: "a" }).as(7))));
  rmSync(path, { recursive: true });
  await expect(lease.confirm()).rejects.toMatchObject({ code: "output", message: /no longer holds/ });
});

test.each([
  ["an empty folder", () => {}],
  ["a file that is no holder's", (path: string) => writeFileSync(join(path, "what is this"), "")],
])("%s, as a crash may leave it, holds nobody up", async (_, leave) => {
  const path = makePath();
  mkdirSync(path);
  leave(path);
  leaseOf(await acquireLease(path, worldOf(container({ 8: "b" }).as(8))));
});

test("a lease whose file cannot be removed is free for the process that has released it", async () => {
  const path = makePath();
  const machine = container({ 7: "a", 8: "b" });
  const [seven, eight] = [worldOf(machine.as(7)), worldOf(machine.as(8))];
  const rm = () => Promise.reject(Object.assign(new Error("EPERM: not permitted"), { code: "EPERM" }));
  const lease = leaseOf(await acquireLease(path, { ...seven, disk: { ...seven.disk, rm } }));
  await lease.release();
  const again = leaseOf(await acquireLease(path, seven));
  expect(await acquireLease(path, eight)).toMatchObject({ kind: "held" });
  await again.release();
  leaseOf(await acquireLease(path, eight));
});

test("what a killed process held is free at once", async () => {
  const path = makePath();

  const script = await compile(`
    import { systemMachine } from "../src/io.ts";
    import { acquireLease } from "../src/lease.ts";
    const acquired = await acquireLease(process.argv[2], systemMachine);
    console.log(acquired.kind);
  `);
  const child = spawn(process.execPath, [script, path], { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout, "data");
  expect(await acquireLease(path, systemMachine)).toMatchObject({ kind: "held", holder: { pid: child.pid } });
  child.kill("SIGKILL");
  await once(child, "exit");
  await leaseOf(await acquireLease(path, systemMachine)).release();
});
