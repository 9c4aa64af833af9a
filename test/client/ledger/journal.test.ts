import { appendFileSync, chmodSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { DatedLine, Entry, JournalLine, PartLine } from "../../../src/client/ledger/history.ts";
import { openJournal } from "../../../src/client/ledger/journal.ts";
import {
  findByBeginning,
  findByCommand,
  findById,
  findByKey,
  findLine,
  readEntries,
  scanEntries,
} from "../../../src/client/ledger/search.ts";
import { type Machine, systemMachine } from "../../../src/io.ts";
import { makeFolder } from "../../folder.ts";
import { lacks } from "../../needs.ts";
import { makeSpecial, specialFiles } from "../../special.ts";

const now = new Date("2026-06-01T00:00:00.000Z");
const baseUrl = "https://api.video.example";

function newJournal(date = now, machine: Partial<Machine> = {}) {
  const path = join(makeFolder(), "journal.jsonl");
  return { ...openJournal(path, { ...systemMachine, ...machine, date: () => date }), path };
}

const isPart = (line: DatedLine): line is DatedLine & PartLine => line.kind === "part";

const intent = (attempt: string): JournalLine => ({
  kind: "intent",
  attempt,
  base_url: baseUrl,
  account: "0123456789ab",
  request: { prompt: attempt, model: "wan-2.5" },
});
const accepted = (attempt: string): JournalLine => ({
  kind: "accepted",
  attempt,
  id: `id-${attempt}`,
  remaining_credits: 5,
});

const unclear: JournalLine = { kind: "unclear", id: "id-a", reason: "x" };

test("a search in a journal that cannot be read says so, and is no bug", async () => {
  const path = join(makeFolder(), "journal.jsonl");
  await openJournal(path, systemMachine).append(intent("a"));
  const failing = () => Promise.reject(Object.assign(new Error("EIO: i/o error"), { code: "EIO" }));
  const open: typeof systemMachine.disk.open = async (...how) =>
    Object.assign(await systemMachine.disk.open(...how), { read: failing });
  const journal = openJournal(path, { ...systemMachine, disk: { ...systemMachine.disk, open } });
  const message = `Cannot read the journal ${path}: EIO: i/o error.`;
  await expect(findById(journal, "id-a")).rejects.toMatchObject({ code: "output", message });
});

async function statusAfter(...lines: JournalLine[]) {
  const journal = newJournal();
  for (const line of lines) await journal.append(line);
  return (await readEntries(journal))[0]?.status;
}

test.each([
  ["starting", []],
  ["unsent", [{ kind: "unsent", attempt: "a", reason: "x" }]],
  ["refused", [{ kind: "refused", attempt: "a", reason: "x" }]],
  ["unknown", [{ kind: "unknown", attempt: "a", reason: "x" }]],
  ["processing", [accepted("a")]],
  ["completed", [accepted("a"), { kind: "completed", id: "id-a" }]],
  ["failed", [accepted("a"), { kind: "failed", id: "id-a", reason: "x" }]],
  ["completed", [accepted("a"), { kind: "completed", id: "id-a" }, { kind: "failed", id: "id-a", reason: "late" }]],
  ["processing", [accepted("a"), { kind: "unknown", attempt: "a", reason: "late" }]],
  ["unknown", [accepted("a"), unclear]],
  ["unknown", [accepted("a"), { kind: "lost", id: "id-a" }, unclear]],
  ["unknown", [{ kind: "refused", attempt: "a", id: "id-a", reason: "x" }, unclear]],
  ["completed", [accepted("a"), unclear, { kind: "completed", id: "id-a" }]],
  ["completed", [accepted("a"), { kind: "completed", id: "id-a" }, unclear]],
  ["failed", [accepted("a"), unclear, { kind: "failed", id: "id-a", reason: "x" }]],
  ["failed", [accepted("a"), { kind: "failed", id: "id-a", reason: "x" }, unclear]],
  ["dismissed", [accepted("a"), unclear, { kind: "dismissed", attempt: "a" }]],
  ["dismissed", [accepted("a"), { kind: "dismissed", attempt: "a" }, unclear]],
] as [string, JournalLine[]][])("is %s after %j", async (status, lines) => {
  expect(await statusAfter(intent("a"), ...lines)).toBe(status);
});

test.each([
  ["refused", [{ kind: "found", id: "id-a" }]],
  ["refused", [{ kind: "completed", id: "id-a" }]],
  ["unknown", [accepted("a")]],
  ["unknown", [{ kind: "completed", id: "id-a" }]],
  ["unknown", [{ kind: "delivered", id: "id-a", file: "a.mp4" }]],
] as [string, JournalLine[]][])("keeps no reason of an attempt that was %s after %j", async (kind, lines) => {
  const journal = newJournal();
  const outcome = { kind, attempt: "a", id: "id-a", reason: "x", code: "rejected" } as JournalLine;
  for (const line of [intent("a"), outcome, ...lines]) await journal.append(line);
  expect((await readEntries(journal))[0]).toMatchObject({ id: "id-a" });
  expect((await readEntries(journal))[0]).not.toMatchObject({ reason: "x" });
  expect((await readEntries(journal))[0]).not.toHaveProperty("code");
});

test("is newest first, and empty where there is none", async () => {
  const journal = newJournal();
  expect(await readEntries(journal)).toEqual([]);
  for (const attempt of ["a", "b", "c"]) await journal.append(intent(attempt));
  expect((await readEntries(journal)).map(({ attempt }) => attempt)).toEqual(["c", "b", "a"]);
});

test("a line that was cut by a crash hides neither the lines before it nor those after it", async () => {
  const journal = newJournal();
  await journal.append(intent("a"));
  appendFileSync(journal.path, '{"at":"2026-06-01T00:00:00.000Z","kind":"intent","attempt":"torn","requ');
  await journal.append(intent("b"));
  appendFileSync(journal.path, "\u0000\u0000 not JSON\n[1]\nnull\n{}\n");
  expect((await readEntries(journal)).map(({ attempt }) => attempt)).toEqual(["b", "a"]);
});

test("an intent without the account that pays is not read, and neither are lines about it", async () => {
  const journal = newJournal();
  await journal.append(intent("a"));
  appendFileSync(journal.path, `${JSON.stringify({ at: now, ...intent("b"), account: undefined })}\n`);
  await journal.append(accepted("b"));
  expect((await readEntries(journal)).map(({ attempt }) => attempt)).toEqual(["a"]);
});

test("a byte order mark, as some editors write it, hides no attempt", async () => {
  const journal = newJournal();
  writeFileSync(journal.path, `\ufeff${JSON.stringify({ at: now, ...intent("a") })}\n`);
  await journal.append(accepted("a"));
  expect((await readEntries(journal)).map(({ attempt, status }) => [attempt, status])).toEqual([["a", "processing"]]);
});

test.each([
  ["of a new kind", { kind: "paid", attempt: "a" }, {}],
  ["of a new kind, with an id", { kind: "paid", attempt: "a", id: "id-a" }, { id: "id-a" }],
  ["whose fields have changed", { kind: "unsent", attempt: "a", reason: { text: "x" } }, {}],
])("an attempt that a newer version has written a line %s about may have been charged", async (_, line, known) => {
  const journal = newJournal();
  await journal.append(intent("a"));
  await journal.append({ kind: "unsent", attempt: "a", reason: "x" });
  appendFileSync(journal.path, `${JSON.stringify({ at: now, ...line })}\n`);
  expect((await readEntries(journal))[0]).toMatchObject({ status: "unknown", ...known });
  await journal.append({ kind: "dismissed", attempt: "a" });
  expect((await readEntries(journal))[0]).toMatchObject({ dismissed: true });
});

test("the attempts of an id are found wherever they are, and in either letter case where it is a UUID", async () => {
  const journal = newJournal();
  const uuid = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";
  await journal.append(intent("a"));
  await journal.append({ kind: "accepted", attempt: "a", id: uuid });
  for (let i = 0; i < 30; i++)
    await journal.append({ ...intent(`other ${i}`), place: "x".repeat(50_000) } as JournalLine);
  await journal.append({ kind: "completed", id: uuid });
  for (const id of [uuid, uuid.toUpperCase()])
    expect(await findById(journal, id)).toMatchObject([{ attempt: "a", status: "completed" }]);
  expect(await findById(journal, "other 3")).toEqual([]);
});

test.each(["refused", "unknown", "newer version's word"])(
  "an id that comes in a line %s after the attempt was dismissed is kept: its video may have been paid for",
  async (kind) => {
    const journal = newJournal();
    for (const line of [intent("a"), { kind: "dismissed", attempt: "a" }] as JournalLine[]) await journal.append(line);
    await journal.append({ kind, attempt: "a", id: "id-a", reason: "x" } as JournalLine);
    expect(await readEntries(journal)).toMatchObject([{ id: "id-a", dismissed: true }]);
  },
);

test("a key or an attempt that equals the id of another generation is not mixed up with it", async () => {
  const journal = newJournal();
  for (const line of [{ ...intent("1001"), key: "1001" }, intent("second")]) await journal.append(line as JournalLine);
  await journal.append({ kind: "accepted", attempt: "second", id: "1001" });
  await journal.append({ kind: "completed", id: "1001" });
  await journal.append({ kind: "unknown", attempt: "1001", reason: "reset" });
  const found = (entries: Entry[]) => entries.map(({ attempt, id, status }) => [attempt, id, status]);
  const [second, first] = [
    ["second", "1001", "completed"],
    ["1001", undefined, "unknown"],
  ];
  expect(found(await readEntries(journal))).toEqual([second, first]);
  expect(found(await findByKey(journal, "1001"))).toEqual([first]);
  expect(found(await findById(journal, "1001"))).toEqual([second]);
});

test("an id is found where it lies across two parts of the file that are read one after the other", async () => {
  const journal = newJournal();
  const uuid = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";
  const offsetOf = (text: string) => readFileSync(journal.path).indexOf(text);
  for (const attempt of ["a", "b"]) await journal.append(intent(attempt));
  const fill = (length: number) => journal.append({ ...intent("other"), place: "x".repeat(length) } as JournalLine);
  const accept = (id: string, attempt: string) => journal.append({ kind: "accepted", attempt, id });
  const first = statSync(journal.path).size;
  await fill(0);
  const least = statSync(journal.path).size - first;
  const before = statSync(journal.path).size;
  await accept("sample", "b");
  const within = offsetOf("sample") - before;
  await fill(1_000_000 - 10 - within - least - statSync(journal.path).size);
  await accept(uuid, "a");
  expect(offsetOf(uuid)).toBe(1_000_000 - 10);
  expect(await findById(journal, uuid)).toMatchObject([{ attempt: "a", id: uuid }]);
});

test("an id is found however it is written in JSON, and an attempt with two ids has the lines of both", async () => {
  const journal = newJournal();
  for (const id of ['with "quotes"', "back\\slash", "狐", "short"]) {
    await journal.append(intent(`of ${id}`));
    await journal.append({ kind: "accepted", attempt: `of ${id}`, id });
    expect(await findById(journal, id)).toMatchObject([{ attempt: `of ${id}`, id }]);
  }
  await journal.append(intent("a"));
  await journal.append({ kind: "unknown", attempt: "a", id: "first", reason: "HTTP 408" });
  await journal.append({ kind: "accepted", attempt: "a", id: "second" });
  await journal.append({ kind: "delivered", id: "second" });
  for (const id of ["first", "second"])
    expect(await findById(journal, id)).toMatchObject([{ attempt: "a", id: "first", state: "delivered" }]);
});

/** A story about a few attempts: which line comes next, and about which attempt, in a file of several parts. */
const storyKinds = [
  "intent",
  "accepted",
  "unknown",
  "newer",
  "completed",
  "delivered",
  "removed",
  "dismissed",
  "told",
  "torn",
];
const story = fc.array(
  fc.record({
    kind: fc.constantFrom(...storyKinds),
    attempt: fc.integer({ min: 0, max: 3 }),
    id: fc.integer({ min: 0, max: 2 }),
    key: fc.constantFrom(undefined, "key", "id-1"),
    size: fc.constantFrom(0, 0, 400_000),
  }),
  { minLength: 4, maxLength: 24 },
);

test("a search by words finds the attempts that the whole journal has, with all their lines, wherever these are", () => {
  const path = join(makeFolder(), "journal.jsonl");
  const journal = openJournal(path, systemMachine);
  const property = fc.asyncProperty(story, async (events) => {
    const known = new Set<string>();
    const texts = events.flatMap(({ kind, attempt: number, id: idNumber, key, size }, index) => {
      const [attempt, id] = [`attempt-${number}`, `id-${idNumber}`];
      const at = new Date(index * 1000).toISOString();
      if (kind === "intent") {
        if (known.has(attempt)) return [];
        known.add(attempt);
        return JSON.stringify({ at, ...intent(attempt), key, place: "x".repeat(size) });
      }
      const names = kind === "dismissed" || kind === "told" ? { attempt } : { attempt, id };
      const isAboutId = ["completed", "delivered", "removed"].includes(kind);
      const line = JSON.stringify({ at, kind, ...(isAboutId ? { id } : names), reason: "x".repeat(size) });
      return kind === "torn" ? line.slice(0, -5) : line;
    });
    writeFileSync(path, `${texts.join("\n")}\n`);
    const all = await readEntries(journal);
    const lines = texts.filter((text) => text.endsWith("}")).map((text) => JSON.parse(text));
    for (const id of ["id-0", "id-1", "id-2"]) {
      const names = new Set(lines.flatMap((line) => (line.id === id ? line.attempt : [])));
      expect(await findById(journal, id)).toEqual(all.filter(({ attempt }) => names.has(attempt)));
    }
    expect(await findByKey(journal, "key")).toEqual(all.filter(({ key }) => key === "key"));
    expect(await findByBeginning(journal, "attempt-1")).toEqual(all.filter(({ attempt }) => attempt === "attempt-1"));
  });
  return fc.assert(property, { numRuns: 25 });
});

test("an id that several attempts have is found with all of them, however far apart their lines are", async () => {
  const journal = newJournal();
  const apart = { ...intent("other"), place: "x".repeat(1_200_000) };
  const lines: object[] = [
    { ...intent("a"), key: "key" },
    apart,
    { ...intent("b"), key: "key" },
    apart,
    intent("c"),
    apart,
    { kind: "unknown", attempt: "a", id: "id", reason: "HTTP 408" },
    apart,
    { kind: "accepted", attempt: "b", id: "id" },
    apart,
    { kind: "dismissed", attempt: "a" },
    apart,
    { kind: "accepted", attempt: "c", id: "id" },
    apart,
    { kind: "removed", id: "id" },
  ];
  writeFileSync(journal.path, lines.map((line) => `${JSON.stringify({ at: now, ...line })}\n`).join(""));
  expect(await findById(journal, "id")).toMatchObject([
    { attempt: "c", state: "running", removed: true },
    { attempt: "b", state: "running" },
    { attempt: "a", state: "unknown", dismissed: true },
  ]);
  expect(await findByKey(journal, "key")).toMatchObject([{ attempt: "b" }, { attempt: "a", dismissed: true }]);
});

test("a key that was sent a hundred times is found with all its attempts", async () => {
  const journal = newJournal();
  const lines = Array.from({ length: 100 }, (_, i) => [{ ...intent(`a${i}`), key: "nightly" }, accepted(`a${i}`)]);
  const texts = [...lines.flat(), intent("other")].map((line) => `${JSON.stringify({ at: now, ...line })}\n`);
  writeFileSync(journal.path, texts.join(""));
  const found = await findByKey(journal, "nightly");
  expect(found.map(({ id }) => id)).toEqual(Array.from({ length: 100 }, (_, i) => `id-a${99 - i}`));
});

test("JSON that is not a line of the journal is skipped, whatever it contains", async () => {
  const journal = newJournal();
  await journal.append(intent("a"));
  const at = "2026-06-01T00:00:00.000Z";
  const whole = { at, ...intent("b") };
  const needed = ["at", "kind", "attempt", "base_url"];
  const strange = [
    ...needed.map((name) => ({ ...whole, [name]: undefined })),
    ...needed.map((name) => ({ ...whole, [name]: 5 })),
    { ...whole, base_url: "nowhere" },
    { at, kind: "part", file: "x.part" },
    { at, kind: "completed" },
  ];
  appendFileSync(journal.path, strange.map((line) => `${JSON.stringify(line)}\n`).join(""));
  expect((await readEntries(journal)).map(({ attempt, status }) => [attempt, status])).toEqual([["a", "starting"]]);
  expect(await findLine(journal, isPart)).toBe(undefined);
});

test("a request of the wrong type is read as text: the attempt is not lost", async () => {
  const journal = newJournal();
  const request = { prompt: 5, model: null, seed: 7 };
  appendFileSync(journal.path, `${JSON.stringify({ at: now, ...intent("a"), request })}\n`);
  appendFileSync(journal.path, `${JSON.stringify({ at: now, ...intent("b"), request: undefined })}\n`);
  expect((await readEntries(journal)).map(({ request }) => request)).toEqual([
    { prompt: "", model: "" },
    { prompt: "5", model: "null", seed: 7 },
  ]);
});

test.skipIf(lacks("file modes"))(
  "a new file is the owner's alone; one that exists, or that a link leads to, keeps its mode",
  async () => {
    const made = newJournal();
    await made.append(intent("a"));
    expect(statSync(made.path).mode & 0o777).toBe(0o600);
    const wide = newJournal();
    writeFileSync(wide.path, "");
    chmodSync(wide.path, 0o644);
    const linked = newJournal();
    symlinkSync(wide.path, linked.path);
    for (const journal of [wide, linked]) await journal.append(intent("a"));
    expect(statSync(wide.path).mode & 0o777).toBe(0o644);
    expect(await readEntries(linked)).toHaveLength(2);
  },
);

const notAFile = "it is a pipe, a socket or a device";

test.skipIf(lacks("named pipes in folders")).each(specialFiles)(
  "%s is refused at once, and not changed, whatever it is used for",
  async (kind) => {
    const journal = newJournal();
    await makeSpecial(kind, journal.path);
    const { mode } = statSync(journal.path);
    const all = [
      journal.append(intent("a")),
      readEntries(journal),
      findLine(journal, isPart),
      journal.forget([{ attempt: "a" }]),
    ];
    const ended = await Promise.allSettled(all);
    expect(ended).toEqual(
      Array.from({ length: 4 }, () => ({
        status: "rejected",
        reason: expect.objectContaining({ code: "output", message: expect.stringContaining(notAFile) }),
      })),
    );
    expect(statSync(journal.path).mode).toBe(mode);
  },
);

test("when many processes append at once, no line is lost or mixed with another", async () => {
  const journal = newJournal();
  const attempts = Array.from({ length: 100 }, (_, i) => `attempt-${i}`);
  await Promise.all(attempts.map((attempt) => journal.append(intent(attempt))));
  expect(new Set((await readEntries(journal)).map(({ attempt }) => attempt))).toEqual(new Set(attempts));
});

test("a long journal is read from its end, no further than needed, also across lines that are longer than a chunk", async () => {
  const journal = newJournal();
  const prompts = ["ä".repeat(300_000), "🦊".repeat(400_000), "x", "ö".repeat(1_500_000), "y"];
  const attempts = prompts.map((prompt, i) => ({ ...intent(`a${i}`), request: { prompt, model: "m" } }));
  for (const line of attempts) await journal.append(line);
  for (const i of [4, 3, 2, 1, 0]) await journal.append(accepted(`a${i}`));
  const entries = await readEntries(journal);
  expect(entries.map(({ request }) => request.prompt)).toEqual(prompts.toReversed());
  expect(entries.map(({ id }) => id)).toEqual(["id-a4", "id-a3", "id-a2", "id-a1", "id-a0"]);
  const newest: string[] = [];
  for await (const part of scanEntries(journal)) {
    newest.push(...part.map(({ attempt }) => attempt));
    if (newest.includes("a3")) break;
  }
  expect(newest).toEqual(["a4", "a3", "a2"]);
});

test("a forgotten attempt is removed completely, also from the copies of an older version, and nothing else changes", async () => {
  const journal = newJournal();
  const lines: object[] = [
    intent("a"),
    intent("b"),
    accepted("a"),
    accepted("b"),
    { kind: "unfinished", end: 9, next: "", lines: [{ at: now, ...intent("a") }] },
    { kind: "unfinished", end: 9, next: "", lines: [{ at: now, ...intent("b") }] },
    { kind: "completed", id: "id-a" },
  ];
  for (const line of lines) await journal.append(line as JournalLine);
  // A copy is skipped when it is read.
  expect((await findByCommand(journal, { prompt: "a", hashes: [] })).map(({ status }) => status)).toEqual([
    "completed",
  ]);
  const before = readFileSync(journal.path, "utf8");
  await journal.lock(() => journal.forget([{ attempt: "a", id: "id-a" }]));
  const after = readFileSync(journal.path, "utf8");
  expect(after).toHaveLength(before.length);
  const blank = (line: string) => (/"(id-)?a"/.test(line) ? " ".repeat(line.length) : line);
  expect(after.split("\n")).toEqual(before.split("\n").map(blank));
  await journal.append(intent("c"));
  expect((await readEntries(journal)).map(({ attempt }) => attempt)).toEqual(["c", "b"]);
});

test("the attempts of a command are found by their prompt or the hash of its line, to the beginning of a long journal", async () => {
  const journal = newJournal();
  const line = (text: object) => `${JSON.stringify({ at: now.toISOString(), ...text })}\n`;
  const first = [
    line({ ...intent("by its line"), typed: "hash" }),
    line(accepted("by its line")),
    line(intent("by its prompt")),
  ];
  const others = Array.from({ length: 12_000 }, (_, i) => line(intent(`other-${i}`)));
  writeFileSync(journal.path, [...first, ...others].join(""));
  const found = await findByCommand(journal, { prompt: "by its prompt", hashes: ["hash"] });
  expect(found.map(({ attempt, status }) => `${attempt} ${status}`)).toEqual([
    "by its prompt starting",
    "by its line processing",
  ]);
});

test("two processes that read and write under the lock never overlap", async () => {
  const journal = newJournal();
  const log: string[] = [];
  const work = (name: string) =>
    journal.lock(async () => {
      log.push(`${name} in`);
      await journal.append(intent(name));
      log.push(`${name} out`);
    });
  await Promise.all(["a", "b", "c"].map(work));
  expect(log.filter((_, i) => i % 2 === 0).map((line) => line.replace("in", "out"))).toEqual(
    log.filter((_, i) => i % 2 === 1),
  );
});

test("a lease is held until it is released", async () => {
  const self = { machine: "boot", namespace: "1", pid: 1, start: "0" };
  const journal = newJournal(now, { processes: { self: async () => self, startOf: async () => self.start } });
  const hold = await journal.acquire("a");
  expect(await journal.leaseOf("a")).toBe("alive");
  expect(await journal.acquire("a")).toBe(undefined);
  await hold?.release();
  expect(await journal.leaseOf("a")).toBe("dead");
});
