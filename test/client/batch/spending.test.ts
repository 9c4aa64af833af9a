import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { checkSingle, openSpending } from "../../../src/client/batch/spending.ts";
import { openService } from "../../../src/client/generation/service.ts";
import { accountOf, type JournalLine } from "../../../src/client/ledger/history.ts";
import { openJournal } from "../../../src/client/ledger/journal.ts";
import type { Range } from "../../../src/client/ledger/lines.ts";
import { type Io, systemMachine } from "../../../src/io.ts";
import { makeFolder } from "../../folder.ts";

const baseUrl = "https://api.video.example";
const request = { prompt: "a fox", model: "veo-3.1", duration: 8 };

/** A service that nothing is sent to, its journal, and the ranges of the journal that were read. */
function openAt() {
  const path = join(makeFolder(), "journal.jsonl");
  const ranges: Range[] = [];
  const opened = openJournal(path, systemMachine);
  const scan = (range: Range = {}) => {
    ranges.push(range);
    return opened.scan(range);
  };
  const io = { ...systemMachine, fetch: () => Promise.reject(new Error("sent")), unsettled: new Set<string>() };
  const options = { baseUrl, apiKey: "key", journal: { ...opened, scan } };
  return { service: openService(options, io as unknown as Io), path, ranges };
}

const at = "2026-06-01T00:00:00.000Z";
const textOf = (lines: readonly object[]) => lines.map((line) => `${JSON.stringify({ at, ...line })}\n`).join("");

const started = (name: string, { credits, ...fields }: { credits?: number; model?: string; padding?: number }) => {
  const { model = "veo-3.1", padding = 0 } = fields;
  const intent: JournalLine = {
    kind: "intent",
    attempt: `attempt-${name}`,
    base_url: baseUrl,
    account: accountOf(baseUrl, "key"),
    request: { ...request, model },
    place: "x".repeat(padding),
  };
  return [intent, { kind: "accepted", attempt: `attempt-${name}`, id: name, credits } as JournalLine];
};

test.each([
  ["the newest, if there are several", [{ credits: 90 }, { credits: 10 }], "undefined"],
  ["however far back it is", [{ credits: 90 }, { model: "wan-2.5", padding: 2_500_000 }, {}], "credits"],
  ["not that of another model", [{ model: "wan-2.5", credits: 10 }], "credits"],
  ["not one that a later start did not state", [{ credits: 10 }, {}, {}], "undefined"],
])("the price of a start with a limit is %s", async (_, starts, code) => {
  const { service, path } = openAt();
  writeFileSync(path, textOf(starts.flatMap((each, index) => started(`id-${index}`, each))));
  expect(String((await checkSingle(request, { maxCredits: 50 }, service, new AbortController().signal))?.code)).toBe(
    code,
  );
});

test("a price that is several parts of the file back is found, not unknown", async () => {
  const { service, path } = openAt();
  const others = Array.from({ length: 4 }, (_, i) => started(`other-${i}`, { model: "wan-2.5", padding: 900_000 }));
  writeFileSync(path, textOf([started("old", { credits: 90 }), ...others, started("new", {})].flat()));
  const error = await checkSingle(request, { maxCredits: 50 }, service, new AbortController().signal);
  expect(error?.message).toBe(
    "0 of at most 50 credits are spent, and the next generation costs up to 90: nothing more is started.",
  );
});

test("a budget reads the journal once, and then only the lines that are new, also one that was written in two pieces", async () => {
  const { service, path, ranges } = openAt();
  writeFileSync(path, textOf([...started("a", {}), ...started("b", {})]));
  const { size } = { size: readFileSync(path).length };
  const signal = new AbortController().signal;
  const isOwn = () => true;
  const spending = await openSpending(service, { maxCost: 5 }, { isOwn, signal });
  const mustWait = () => spending?.mustWait(request);
  expect(await mustWait()).toBe(true);
  const [end, otherEnd] = [
    { kind: "completed", id: "a", cost: 1 },
    { kind: "failed", id: "b", reason: "x" },
  ].map((line) => textOf([line])) as [string, string];
  appendFileSync(path, end.slice(0, 20));
  expect(await mustWait()).toBe(true);
  appendFileSync(path, end.slice(20));
  // Another process writes at the same time, and one that forgets an attempt writes spaces.
  appendFileSync(path, textOf(started("other", {})));
  writeFileSync(path, readFileSync(path).fill(" ", 0, 50));
  expect(await mustWait()).toBe(false);
  appendFileSync(path, otherEnd);
  expect(await mustWait()).toBe(false);
  const starts = ranges.map(({ from = 0 }) => from);
  expect(starts[0]).toBe(0);
  expect(starts.slice(1).every((from) => from >= size)).toBe(true);
  expect(starts.at(-1)).toBeGreaterThan(size + end.length);
});
