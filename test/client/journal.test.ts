import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { link } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { compactJournal } from "../../src/client/compact.ts";
import type { Line } from "../../src/client/history.ts";
import { openJournal } from "../../src/client/journal.ts";

const now = new Date("2026-06-01T00:00:00.000Z");
const baseUrl = "https://api.video.example";

function newJournal(date = now) {
  const folder = mkdtempSync(join(tmpdir(), "vidgen-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return openJournal(join(folder, "journal.jsonl"), { date: () => date });
}

const intent = (attempt: string): Line => ({
  kind: "intent",
  attempt,
  base_url: baseUrl,
  request: { prompt: attempt, model: "wan-2.5" },
});
const accepted = (attempt: string): Line => ({ kind: "accepted", attempt, id: `id-${attempt}`, remaining_credits: 5 });

async function statusAfter(...lines: Line[]) {
  const journal = newJournal();
  for (const line of lines) await journal.append(line);
  return (await journal.entries())[0]?.status;
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
] as [string, Line[]][])("is %s after %j", async (status, lines) => {
  expect(await statusAfter(intent("a"), ...lines)).toBe(status);
});

test("is newest first, and empty where there is none", async () => {
  const journal = newJournal();
  expect(await journal.entries()).toEqual([]);
  for (const attempt of ["a", "b", "c"]) await journal.append(intent(attempt));
  expect((await journal.entries()).map(({ attempt }) => attempt)).toEqual(["c", "b", "a"]);
});

test("a line that a crash has torn hides neither those before nor those after it", async () => {
  const journal = newJournal();
  await journal.append(intent("a"));
  appendFileSync(journal.path, '{"at":"2026-06-01T00:00:00.000Z","kind":"intent","attempt":"torn","requ');
  await journal.append(intent("b"));
  appendFileSync(journal.path, "\u0000\u0000 not JSON\n[1]\nnull\n{}\n");
  expect((await journal.entries()).map(({ attempt }) => attempt)).toEqual(["b", "a"]);
});

test("what is JSON but no line of ours is passed over, whatever it says", async () => {
  const journal = newJournal();
  await journal.append(intent("a"));
  const at = "2026-06-01T00:00:00.000Z";
  const whole = { at, ...intent("b") };
  const strange = [
    ...Object.keys(whole).map((name) => ({ ...whole, [name]: undefined })),
    ...Object.keys(whole).map((name) => ({ ...whole, [name]: 5 })),
    { ...whole, at: "yesterday" },
    { ...whole, base_url: "nowhere" },
    { ...whole, kind: "of tomorrow" },
    { at, kind: "accepted", attempt: "a", id: { toString: "no" } },
    { at, kind: "claim", file: "x.part", pid: "1" },
    { at, kind: "completed" },
  ];
  appendFileSync(journal.path, strange.map((line) => `${JSON.stringify(line)}\n`).join(""));
  expect((await journal.entries()).map(({ attempt, status }) => [attempt, status])).toEqual([["a", "starting"]]);
  expect(await journal.claimants("x.part")).toEqual([]);
});

test("a prompt of the wrong type is read as empty: the attempt is not lost", async () => {
  const journal = newJournal();
  const request = { prompt: 5, model: null, seed: 7 } as unknown as { prompt: string; model: string };
  await journal.append({ kind: "intent", attempt: "a", base_url: baseUrl, request });
  expect((await journal.entries())[0]?.request).toEqual({ prompt: "", model: "", seed: 7 });
});

test("a wider mode is tightened", async () => {
  const journal = newJournal();
  writeFileSync(journal.path, "", { mode: 0o644 });
  await journal.append(intent("a"));
  expect(statSync(journal.path).mode & 0o777).toBe(0o600);
});

test("many append at once, and no line is lost or mixed", async () => {
  const journal = newJournal();
  const attempts = Array.from({ length: 100 }, (_, i) => `attempt-${i}`);
  await Promise.all(attempts.map((attempt) => journal.append(intent(attempt))));
  expect(new Set((await journal.entries()).map(({ attempt }) => attempt))).toEqual(new Set(attempts));
});

/** A journal past 10 MB: `old` are finished and past 90 days, the rest is to stay. */
async function bigJournal() {
  const journal = newJournal();
  const lines = [];
  const at = "2026-01-01T00:00:00.000Z";
  const padding = "x".repeat(2000);
  for (let i = 0; i < 5000; i++) {
    lines.push({
      at,
      kind: "intent",
      attempt: `old-${i}`,
      base_url: baseUrl,
      request: { prompt: padding, model: "m" },
    });
    lines.push({ at, ...accepted(`old-${i}`) }, { at, kind: "completed", id: `id-old-${i}` });
  }
  const kept = [
    { at, ...intent("old-unknown") },
    { at, kind: "unknown", attempt: "old-unknown", reason: "reset" },
    { at, ...intent("old-running") },
    { at, ...accepted("old-running") },
    { at, ...intent("old-unsaved"), place: "x.mp4" },
    { at, ...accepted("old-unsaved") },
    { at, kind: "completed", id: "id-old-unsaved" },
    { at: now.toISOString(), ...intent("new-refused") },
    { at: now.toISOString(), kind: "refused", attempt: "new-refused", reason: "no" },
  ];
  writeFileSync(journal.path, `${[...lines, ...kept].map((line) => JSON.stringify(line)).join("\n")}\n`);
  return journal;
}

const keptAttempts = ["new-refused", "old-unsaved", "old-running", "old-unknown"];

test("past 10 MB what ended more than 90 days ago goes, and nothing else", async () => {
  const journal = await bigJournal();
  await compactJournal(journal.path, now);
  expect((await journal.entries()).map(({ attempt }) => attempt)).toEqual(keptAttempts);
  expect(statSync(journal.path).size).toBeLessThan(10_000);
  expect(statSync(journal.path).mode & 0o777).toBe(0o600);
  expect([".old", ".new", ".lock"].map((end) => existsSync(journal.path + end))).toEqual([false, false, false]);
});

test("below 10 MB it is left as it is", async () => {
  const journal = newJournal(new Date("2020-01-01"));
  await journal.append(intent("a"));
  await journal.append({ kind: "refused", attempt: "a", reason: "x" });
  const before = readFileSync(journal.path, "utf8");
  await compactJournal(journal.path, now);
  expect(readFileSync(journal.path, "utf8")).toBe(before);
});

test("what is appended while it is compacted is not lost", async () => {
  const journal = await bigJournal();
  const compacting = compactJournal(journal.path, now);
  const attempts = Array.from({ length: 200 }, (_, i) => `during-${i}`);
  for (const attempt of attempts) await journal.append(intent(attempt));
  await compacting;
  const found = new Set((await journal.entries()).map(({ attempt }) => attempt));
  expect(attempts.filter((attempt) => !found.has(attempt))).toEqual([]);
  expect(found.has("old-unknown")).toBe(true);
});

test("a compaction that was killed after its rename loses nothing: the old file is read, and merged by the next one", async () => {
  const journal = await bigJournal();
  await link(journal.path, `${journal.path}.old`);
  appendFileSync(`${journal.path}.old`, `${JSON.stringify({ at: now.toISOString(), ...intent("late") })}\n`);
  rmSync(journal.path);
  await journal.append(intent("newest"));
  const attempts = async () =>
    (await journal.entries()).map(({ attempt }) => attempt).filter((attempt) => !/^old-\d/.test(attempt));
  expect((await attempts()).toSorted()).toEqual([...keptAttempts, "late", "newest"].toSorted());
  writeFileSync(`${journal.path}.lock`, "");
  utimesSync(`${journal.path}.lock`, 0, 0);
  appendFileSync(journal.path, `${" ".repeat(10_000_000)}\n`);
  await compactJournal(journal.path, now);
  expect((await attempts()).toSorted()).toEqual([...keptAttempts, "late", "newest"].toSorted());
  expect(existsSync(`${journal.path}.old`)).toBe(false);
});

test("one compaction at a time", async () => {
  const journal = await bigJournal();
  writeFileSync(`${journal.path}.lock`, "");
  utimesSync(`${journal.path}.lock`, now, now);
  const { size } = statSync(journal.path);
  await compactJournal(journal.path, now);
  expect(statSync(journal.path).size).toBe(size);
});
