import process from "node:process";
import { expect, onTestFinished, test } from "vitest";
import type { Post } from "../../../src/server/outbound/outbound.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { createVirtualClock } from "../../clock.ts";
import { attempt, completed, newDelivery, newGeneration } from "../store/records.ts";
import { createFakeStore, createSender, delivery, hang } from "./harness.ts";

const accepted = { status: 204 };
const refuse: Post = async () => ({ status: 503 });

/** A promise that a test keeps open until it says so. */
function createGate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

test("at the start, the sender continues with the stored callbacks: due ones at once, the others in time", async () => {
  const store = createFakeStore();
  store.add(delivery("late", { dueMs: -5_000 }), delivery("now"), delivery("soon", { dueMs: 200_000, attempts: 4 }));
  const { clock, sent } = createSender({ store });
  await clock.sleep(1);
  expect(sent.map(({ id }) => id)).toEqual(["late", "now"]);
  await clock.sleep(300_000);
  expect(sent.at(-1)).toEqual({ id: "soon", host: "receiver.example", at: 200_000 });
  expect(store.rows.size).toBe(0);
});

test("the next process continues with the same id and the attempts that are left", async () => {
  const store = createFakeStore();
  store.add(delivery("a"));
  const clock = createVirtualClock();
  const first = createSender({ store, clock, answer: refuse });
  await clock.sleep(100_000);
  await first.callbacks.close();
  expect(store.rows.get("a")).toMatchObject({ attempts: 4, next_at: "2026-01-01T00:02:36.000Z" });
  const second = createSender({ store, clock, answer: refuse });
  await clock.sleep(24 * 3_600_000);
  expect([...first.sent, ...second.sent].map(({ id, at }) => [id, at / 1_000])).toEqual(
    [0, 1, 6, 36, 156, 756, 4356].map((at) => ["a", at]),
  );
  expect(second.lines.at(-1)).toContain("given up after 7 attempts");
  expect(store.rows.size).toBe(0);
});

test("an attempt that close interrupts is not counted, and the next process makes it", async () => {
  const store = createFakeStore();
  store.add(delivery("a"));
  const clock = createVirtualClock();
  const first = createSender({ store, clock, answer: hang });
  await clock.sleep(5_000);
  await first.callbacks.close();
  expect(clock.now()).toBe(5_000);
  expect(first.lines).toEqual([]);
  expect([...store.rows.values()]).toEqual([delivery("a")]);
  const second = createSender({ store, clock });
  await clock.sleep(1);
  expect(second.sent).toEqual([{ id: "a", host: "receiver.example", at: 5_000 }]);
});

test("an attempt that was answered before close is recorded before close resolves", async () => {
  const store = createFakeStore();
  store.add(delivery("a"));
  const gate = createGate();
  const { recordAttempt } = store;
  store.recordAttempt = async (...attempt) => {
    await gate.opened;
    return recordAttempt(...attempt);
  };
  const { clock, callbacks } = createSender({ store });
  await clock.sleep(1);
  let isClosed = false;
  const closing = callbacks.close().then(() => {
    isClosed = true;
  });
  await clock.sleep(1_000);
  expect(isClosed).toBe(false);
  gate.open();
  await closing;
  expect(store.rows.size).toBe(0);
});

test("after close, nothing is sent", async () => {
  const store = createFakeStore();
  store.add(delivery("a", { dueMs: 1_000 }));
  const { clock, callbacks, sent } = createSender({ store });
  await clock.sleep(1);
  await callbacks.close();
  store.add(delivery("b"));
  void callbacks.wake();
  await callbacks.settled();
  await clock.sleep(60_000);
  expect(sent).toEqual([]);
});

test("nothing is sent if close is called while the store is read", async () => {
  const store = createFakeStore();
  store.add(delivery("a"));
  const read = createGate();
  const { due } = store;
  store.due = (query) => read.opened.then(() => due(query));
  const { callbacks, sent } = createSender({ store });
  const closing = callbacks.close();
  read.open();
  await closing;
  expect(sent).toEqual([]);
});

test("an added callback is sent once, when it is due", async () => {
  const store = createFakeStore();
  store.add(delivery("a"), delivery("later", { dueMs: 60_000 }));
  const { clock, callbacks, sent } = createSender({ store, answer: hang });
  await clock.sleep(1_000);
  store.add(delivery("c", { dueMs: 1_500 }));
  void callbacks.wake();
  store.add(delivery("b", { dueMs: 1_000 }));
  void callbacks.wake();
  await clock.sleep(1);
  expect(sent.map(({ id }) => id)).toEqual(["a", "b"]);
  await clock.sleep(500);
  expect(sent.map(({ id }) => id)).toEqual(["a", "b", "c"]);
});

test("a callback that is added while the store is read is sent once", async () => {
  const store = createFakeStore();
  store.add(delivery("a"));
  const read = createGate();
  const { due } = store;
  store.due = async (query) => {
    await read.opened;
    return due(query);
  };
  const { clock, callbacks, sent } = createSender({ store });
  store.add(delivery("b"));
  store.add(delivery("b"));
  void callbacks.wake();
  await clock.sleep(1);
  read.open();
  await clock.sleep(60_000);
  expect(sent.map(({ id }) => id).sort()).toEqual(["a", "b"]);
});

test("callbacks that have been due the longest go first, over all hosts; those due at the same time keep their order", async () => {
  const store = createFakeStore();
  store.add(delivery("c", { host: "a.example", dueMs: -1 }), delivery("a", { host: "a.example", dueMs: -3 }));
  store.add(delivery("b", { host: "b.example", dueMs: -2 }));
  for (const id of ["d", "e", "f"]) store.add(delivery(id, { host: "c.example" }));
  const { clock, sent } = createSender({ store });
  await clock.sleep(1);
  expect(sent.map(({ id }) => id)).toEqual(["a", "b", "c", "d", "e", "f"]);
});

test("a host with its port has 12 slots, and a free slot goes to the next callback", async () => {
  const store = createFakeStore();
  const ids = Array.from({ length: 13 }, (_, index) => String(index + 1));
  for (const id of ids) store.add(delivery(id));
  store.add(delivery("other port", { host: "receiver.example:8443" }));
  const gate = createGate();
  const { clock, sent } = createSender({
    store,
    answer: (url, request) => (request.body.includes('"2"') ? gate.opened.then(() => accepted) : hang(url, request)),
  });
  await clock.sleep(1);
  expect(sent.map(({ id }) => id)).toEqual([...ids.slice(0, 12), "other port"]);
  gate.open();
  await clock.sleep(1);
  expect(sent.at(-1)?.id).toBe("13");
});

test.each([1, 2_000])(
  "1,000 callbacks to each of %i receivers that never answer delay others by at most 2 s",
  async (hosts) => {
    const store = createFakeStore();
    const count = Math.max(1_000, hosts);
    for (let i = 0; i < count; i++) store.add(delivery(`dead ${i}`, { host: `dead-${i % hosts}.example` }));
    store.add(delivery("good", { host: "good.example" }));
    const answer: Post = (url, request) =>
      url.includes("good.example") ? Promise.resolve(accepted) : hang(url, request);
    const { clock, sent } = createSender({ store, answer });
    await clock.sleep(2_000);
    expect(sent.map(({ id }) => id)).toContain("good");
    // One that did not answer gets its others one at a time.
    await clock.sleep(20_000);
    const later = sent.filter(({ host, at }) => host === "dead-0.example" && at >= 15_000);
    expect(later).toHaveLength(1);
  },
);

test.each([
  { name: "a fast host", replyMs: () => 20, least: 100, most: 100 },
  { name: "a slow host", replyMs: () => 60, least: 12, most: 12 },
  { name: "a host that slows down above 40 at once", replyMs: (busy: number) => 20 + busy * 0.75, least: 36, most: 48 },
])("$name gets as many attempts at once as keep it below 50 ms: $least to $most", async ({ replyMs, least, most }) => {
  const store = createFakeStore();
  for (let i = 0; i < 3_000; i++) store.add(delivery(String(i)));
  const clock = createVirtualClock();
  let busy = 0;
  const seen: number[] = [];
  const answer: Post = async () => {
    seen.push(++busy);
    await clock.doze(replyMs(busy));
    busy--;
    return accepted;
  };
  const { sent } = createSender({ store, clock, answer });
  await clock.sleep(20_000);
  expect(new Set(sent.map(({ id }) => id)).size).toBe(3_000);
  expect(Math.max(...seen)).toBeGreaterThanOrEqual(least);
  expect(Math.max(...seen.slice(1_000, 2_000))).toBeLessThanOrEqual(most);
});

test.each([
  { name: "that answers slowly, and gets 12 at once", count: 200, answer: "slow" as const },
  { name: "that does not answer, and gets one at a time", count: 60, answer: "never" as const },
])("of four attempts at a receiver $name one is a retry, so that neither waits for all of the other", async (row) => {
  const store = await openStore(":memory:");
  onTestFinished(() => store.close());
  await store.addAccount({ name: "local", keyHash: "hash", creditsOf: () => 10_000 });
  for (let i = 0; i < 4 * row.count; i++) {
    const id = `${i < 2 * row.count ? "retry" : "first"} ${i}`;
    await store.start(newGeneration({ id }), 1, undefined);
    await store.finish(id, completed, newDelivery(id, id, "2026-01-01T00:00:00.000Z"));
    const failed = attempt("HTTP 503", { at: "2025-12-31T23:59:00.000Z" });
    if (id.startsWith("retry")) await store.recordAttempt(id, failed, "2025-12-31T23:59:59.000Z");
  }
  const clock = createVirtualClock();
  const answer: Post = row.answer === "never" ? hang : (_, { signal }) => clock.doze(60, signal).then(() => accepted);
  const { sent } = createSender({ store, clock, answer });
  while (sent.length < row.count) await clock.sleep(10);
  const tried = new Set<string>();
  let retries = 0;
  for (const [index, { id }] of sent.slice(0, row.count).entries()) {
    if (id.startsWith("retry") || tried.has(id)) retries++;
    tried.add(id);
    expect(Math.abs(retries - (index + 1) / 4)).toBeLessThanOrEqual(4);
  }
});

test("a callback that is resent while it is being sent or waits is not sent twice", async () => {
  const store = createFakeStore();
  store.add(delivery("a"));
  const gate = createGate();
  const answers = [503, 204];
  const { clock, callbacks, sent } = createSender({
    store,
    async answer() {
      if (sent.length === 1) await gate.opened;
      return { status: answers.shift() ?? 204 };
    },
  });
  await clock.sleep(10);
  store.add(delivery("a"));
  void callbacks.wake();
  await clock.sleep(10);
  expect(sent).toHaveLength(1);
  gate.open();
  await clock.sleep(10);
  store.add(delivery("a"));
  void callbacks.wake();
  await clock.sleep(60_000);
  expect(sent).toHaveLength(2);
});

test("a failed attempt is recorded before the next is made", async () => {
  const store = createFakeStore();
  store.add(delivery("a"));
  const written: unknown[] = [];
  const gate = createGate();
  const { recordAttempt } = store;
  store.recordAttempt = async (...attempt) => {
    written.push(attempt);
    await gate.opened;
    return recordAttempt(...attempt);
  };
  const clock = createVirtualClock();
  const { sent } = createSender({ store, clock, answer: (...asked) => clock.doze(120).then(() => refuse(...asked)) });
  await clock.sleep(10_000);
  const attempt = { at: "2026-01-01T00:00:00.000Z", outcome: "HTTP 503", delivered: false, reply: "", ms: 120 };
  expect(written).toEqual([["a", attempt, "2026-01-01T00:00:01.120Z"]]);
  expect(sent).toHaveLength(1);
  gate.open();
  await clock.sleep(1_000);
  expect(sent).toHaveLength(2);
});

test("a receiver that does not answer takes 12 slots, then one, and delays no other", async () => {
  const store = createFakeStore();
  for (let i = 0; i < 100; i++) store.add(delivery(`dead ${i}`, { host: "dead.example", dueMs: -1_000 }));
  store.add(delivery("fine", { host: "fine.example" }));
  const { clock, sent } = createSender({
    store,
    answer: (url, request) => (url.includes("dead") ? hang(url, request) : refuse(url, request)),
  });
  await clock.sleep(14_999);
  expect(sent.filter(({ host }) => host === "dead.example")).toHaveLength(12);
  expect(sent.filter(({ host }) => host === "fine.example").map(({ at }) => at)).toEqual([0, 1_000, 6_000]);
  await clock.sleep(2);
  expect(sent.filter(({ host }) => host === "dead.example")).toHaveLength(13);
});

test("at most 1,024 attempts begin within a second, without a warning from Node", async () => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => void warnings.push(warning);
  process.on("warning", onWarning);
  onTestFinished(() => void process.off("warning", onWarning));
  const store = createFakeStore();
  for (let i = 0; i < 1_100; i++) store.add(delivery(`a${i}`, { host: `host-${i}.example` }));
  const { clock, sent } = createSender({ store, answer: hang });
  await clock.sleep(999);
  expect(sent).toHaveLength(1_024);
  await clock.sleep(2);
  expect(new Set(sent.map(({ id }) => id)).size).toBe(1_100);
  expect(warnings).toEqual([]);
});

test("2,000 waiting callbacks have one timer, and each arrives once", async () => {
  const store = createFakeStore();
  const count = 2_000;
  for (let i = 0; i < count; i++) store.add(delivery(`a${i}`, { host: `host-${i % 100}.example`, dueMs: 1_000 + i }));
  const clock = createVirtualClock();
  let [timers, most] = [0, 0];
  const counted = {
    ...clock,
    async doze(...wait: Parameters<typeof clock.doze>) {
      most = Math.max(most, ++timers);
      await clock.doze(...wait).finally(() => timers--);
    },
  };
  const { callbacks, sent } = createSender({ store, clock: counted });
  await callbacks.settled();
  expect(timers).toBe(1);
  await clock.sleep(1_000 + count);
  expect(most).toBe(1);
  expect(new Set(sent.map(({ id }) => id)).size).toBe(count);
  expect(sent).toHaveLength(count);
});

test("settled waits for attempts in progress, and not for later ones", async () => {
  const store = createFakeStore();
  store.add(delivery("a"), delivery("later", { dueMs: 60_000 }));
  const gate = createGate();
  const { clock, callbacks, lines } = createSender({
    store,
    answer: () => gate.opened.then(() => ({ status: 503 })),
  });
  let isSettled = false;
  const settling = callbacks.settled().then(() => {
    isSettled = true;
  });
  await clock.sleep(10);
  expect(isSettled).toBe(false);
  gate.open();
  await settling;
  expect(clock.now()).toBe(10);
  expect(lines).toHaveLength(1);
});

test("settled waits for a callback that was just added", async () => {
  const store = createFakeStore();
  const { callbacks, sent } = createSender({ store });
  await callbacks.settled();
  store.add(delivery("a"));
  void callbacks.wake();
  await callbacks.settled();
  expect(sent).toHaveLength(1);
});

test("a store that cannot be read for a while is read again, and settled resolves", async () => {
  const store = createFakeStore();
  store.add(delivery("a"));
  const { due } = store;
  store.due = () => Promise.reject(new Error("disk gone"));
  const { clock, callbacks, sent } = createSender({ store });
  await callbacks.settled();
  store.due = due;
  await clock.sleep(10_001);
  expect(sent.map(({ at }) => at)).toEqual([10_000]);
});

test.each([
  ["was delivered", 204, 1],
  ["failed", 503, 7],
])(
  "an attempt that %s is not made again because it could not be written down; it is once it can",
  async (_, status, count) => {
    const store = createFakeStore();
    store.add(delivery("a"));
    const { recordAttempt } = store;
    store.recordAttempt = () => Promise.reject(new Error("disk full"));
    const { clock, sent, lines, troubles } = createSender({ store, answer: async () => ({ status }) });
    await clock.sleep(3_600_000);
    expect([sent.length, lines, store.rows.size]).toEqual([1, [], 1]);
    expect(troubles[0]).toBe("The database cannot be used; retrying in 1 s: Error: disk full");
    store.recordAttempt = recordAttempt;
    await clock.sleep(24 * 3_600_000);
    expect([sent.length, store.rows.size]).toEqual([count, 0]);
  },
);

test("a jump of the clock, as when a laptop wakes up, is noticed within a minute", async () => {
  const store = createFakeStore();
  store.add(delivery("a", { dueMs: 3_000_000 }));
  const clock = createVirtualClock();
  let leapMs = 0;
  const leaping = { ...clock, date: () => new Date(clock.date().getTime() + leapMs) };
  const { sent } = createSender({ store, clock: leaping });
  await clock.sleep(1_000);
  leapMs = 3_600_000;
  await clock.sleep(60_000);
  expect(sent.map(({ at }) => at)).toEqual([60_000]);
});
