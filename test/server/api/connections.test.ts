import { expect, test } from "vitest";
import { createConnections } from "../../../src/server/api/connections.ts";

/** Connections by name, on a clock that the test sets; `open` names those that are open. */
function createTestConnections(changes: Partial<Parameters<typeof createConnections>[0]> = {}) {
  const limits = { maxConnections: 4, spareConnections: 2, crowdedConnections: 100, maxPerAddress: 2, ...changes };
  const clock = { ms: 0 };
  const isExempt = (address: string) => address === "127.0.0.1";
  const connections = createConnections<ReturnType<typeof create>>(limits, isExempt, { now: () => clock.ms });
  const create = (name: string) => ({ name, bytesRead: 0, isClosed: false, destroy: close });
  function close(this: { isClosed: boolean }) {
    this.isClosed = true;
    return this as never;
  }
  const byName: Record<string, ReturnType<typeof create>> = {};
  const named = (name: string) => byName[name] ?? create(name);
  const add = (name: string, address = "10.0.0.1") => {
    byName[name] = create(name);
    return connections.add(named(name), address);
  };
  /** A whole request, and its reply. */
  const use = (name: string) => {
    connections.setBusy(named(name));
    connections.setUsed(named(name));
  };
  const open = () => [...connections.open()].map(({ name }) => name).join(" ");
  return { add, use, named, connections, clock, open };
}

test("above the limit, those silent longest after a reply are closed first, then those that have sent nothing for 2 s", () => {
  const { add, use, clock, open } = createTestConnections();
  for (const name of ["unused", "first", "second", "third"]) add(name);
  use("second");
  clock.ms = 1_000;
  for (const name of ["third", "first"]) use(name);
  clock.ms = 1_299;
  expect([add("new"), open()]).toEqual([true, "unused first third new"]);
  clock.ms = 1_300;
  expect([add("next"), open()]).toEqual([true, "unused first new next"]);
  clock.ms = 1_999;
  expect([add("another"), open()]).toEqual([true, "unused new next another"]);
  // "unused" is the only one that has been silent for 2 s.
  clock.ms = 2_000;
  expect([add("last"), open()]).toEqual([true, "new next another last"]);
});

test("a connection with a request, with a part of one, or that may just be sending a paid one is never closed", () => {
  const { add, use, named, connections, clock, open } = createTestConnections();
  for (const name of ["request", "half a head", "reply", "fresh"]) add(name);
  connections.setBusy(named("request"));
  named("half a head").bytesRead = 20;
  clock.ms = 60_000;
  use("reply");
  connections.remove(named("fresh"));
  add("fresh");
  expect([add("spare"), add("another spare"), add("one too many")]).toEqual([true, true, false]);
  expect(open()).toBe("request half a head reply fresh spare another spare");
  // A connection whose reply has ended is silent again, and the one that closed itself is gone.
  connections.setUsed(named("request"));
  clock.ms = 61_000;
  expect([add("new"), open()]).toEqual([true, "half a head fresh spare another spare new"]);
});

test("an address with many connections makes room first, and gets no spare one, but only in a crowd", () => {
  const limits = { maxConnections: 6, spareConnections: 4, crowdedConnections: 4 };
  const { add, use, named, connections, clock, open } = createTestConnections(limits);
  for (const name of ["a1", "a2", "a3"]) add(name);
  for (const name of ["a1", "a2", "a3"]) use(name);
  clock.ms = 10_000;
  // Four in all are a crowd; three are not.
  expect([add("b1", "10.0.0.2"), open()]).toEqual([true, "a1 a2 a3 b1"]);
  connections.setBusy(named("a2"));
  expect([add("a4"), open()]).toEqual([true, "a2 a3 b1 a4"]);
  for (const name of ["a3", "a4", "b1"]) connections.setBusy(named(name));
  for (const name of ["c1", "c2", "c3"]) add(name, "127.0.0.1");
  expect([add("a5"), add("b2", "10.0.0.2"), add("b3", "10.0.0.2"), add("c4", "127.0.0.1")]).toEqual([
    false,
    true,
    false,
    true,
  ]);
  expect(open()).toBe("a2 a3 b1 a4 c1 c2 c3 b2 c4");
});

test("an exempt address, such as a proxy's, has no limit of its own", () => {
  const { add, use, clock, open } = createTestConnections({ maxConnections: 50, crowdedConnections: 0 });
  const names = Array.from({ length: 20 }, (_, index) => String(index));
  for (const name of names) add(name, "127.0.0.1");
  for (const name of names) use(name);
  clock.ms = 10_000;
  expect([add("new", "127.0.0.1"), open()]).toEqual([true, [...names, "new"].join(" ")]);
});

test.each([
  ["2001:db8::2", true],
  ["2001:db8::a:b:c:d", true],
  ["2001:db8:0:0:a:b:c:d", true],
  ["2001:db8:0:1::1", false],
  ["2001:db8::1:0:0:0:1", false],
])("2001:db8::1 and %s count as one client, whose connections are limited: %s", (other, isSame) => {
  const { add, use, clock, open } = createTestConnections({ crowdedConnections: 0 });
  for (const name of ["first", "second"]) {
    add(name, "2001:db8::1");
    use(name);
  }
  clock.ms = 10_000;
  expect([add("new", other), open()]).toEqual([true, isSame ? "second new" : "first second new"]);
});
