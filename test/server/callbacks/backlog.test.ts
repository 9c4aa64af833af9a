import { expect, test } from "vitest";
import { createBacklog } from "../../../src/server/callbacks/backlog.ts";
import type { Delivery } from "../../../src/server/store/store.ts";

const now = new Date("2026-01-01T00:00:00.000Z");
const later = (ms: number) => new Date(now.getTime() + ms);

function delivery(id: string, url = "https://receiver.example/hook", dueMs = 0): Delivery {
  return { id, url, body: "{}", generation: id, attempts: 0, next_at: later(dueMs).toISOString() };
}

/** Takes out all that can be taken. */
function takeAll(backlog: ReturnType<typeof createBacklog>, date = now): string[] {
  const taken: string[] = [];
  for (let next = backlog.take(date); next; next = backlog.take(date)) taken.push(next.id);
  return taken;
}

test("what is due for the longest goes first, over all hosts; what is not due stays", () => {
  const backlog = createBacklog();
  backlog.add(delivery("c", "https://a.example", -1));
  backlog.add(delivery("a", "https://a.example", -3));
  backlog.add(delivery("d", "https://a.example", 5));
  backlog.add(delivery("b", "https://b.example", -2));
  expect(takeAll(backlog)).toEqual(["a", "b", "c"]);
  expect(backlog.nextAt()).toBe(later(5).getTime());
  expect(takeAll(backlog, later(4))).toEqual([]);
  expect(takeAll(backlog, later(5))).toEqual(["d"]);
});

test("those of one time keep their order", () => {
  const backlog = createBacklog();
  for (const id of ["a", "b", "c"]) backlog.add(delivery(id));
  expect(takeAll(backlog)).toEqual(["a", "b", "c"]);
});

test("one host has 4 places, and the port belongs to its name", () => {
  const backlog = createBacklog();
  for (const id of ["1", "2", "3", "4", "5"]) backlog.add(delivery(id, `https://receiver.example/${id}`));
  backlog.add(delivery("other port", "https://receiver.example:8443/"));
  expect(takeAll(backlog)).toEqual(["1", "2", "3", "4", "other port"]);
  expect(backlog.nextAt()).toBe(Number.POSITIVE_INFINITY);
  backlog.release(delivery("2"));
  expect(backlog.nextAt()).toBe(now.getTime());
  expect(takeAll(backlog)).toEqual(["5"]);
});

test("all together have 32", () => {
  const backlog = createBacklog();
  for (let i = 0; i < 40; i++) backlog.add(delivery(String(i), `https://host-${i}.example`));
  expect(takeAll(backlog)).toHaveLength(32);
  expect([backlog.underWay(), backlog.nextAt()]).toEqual([32, Number.POSITIVE_INFINITY]);
  backlog.release(delivery("0", "https://host-0.example"));
  expect(takeAll(backlog)).toEqual(["32"]);
});

test("an empty one waits for nothing", () => {
  expect(createBacklog().nextAt()).toBe(Number.POSITIVE_INFINITY);
});
