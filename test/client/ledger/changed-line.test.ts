import { describe, expect, test } from "vitest";
import type { DatedLine, JournalLine } from "../../../src/client/ledger/history.ts";
import type { LeaseState } from "../../../src/client/ledger/journal.ts";
import {
  type Choice,
  choose,
  chooseRun,
  refusalError,
  type WantedGeneration,
} from "../../../src/client/ledger/policy.ts";
import { asVidgenError } from "../../../src/errors.ts";

// A typed line whose values from vidgen.json or stdin have changed since its unfinished attempt must not pay again by accident.

const service = "https://api.example.com";
const id = "0b8a1f58-0000-4000-8000-000000000001";
const attempt = "1c9b2f69-0000-4000-8000-000000000002";

type IntentParts = Partial<JournalLine & { kind: "intent" }>;

/** A journal with one attempt, newest line first. */
function journalOf(intent: IntentParts, later: JournalLine[] = [], lease: LeaseState = "dead") {
  const started: JournalLine = {
    kind: "intent",
    attempt,
    base_url: service,
    account: "a",
    request: { prompt: "a fox", model: "veo-3.1" },
    place: "fox.mp4",
    typed: "line",
    untyped: ["model"],
    ...intent,
  };
  const lines = [started, ...later].map((line): DatedLine => ({ at: "2026-10-01T10:00:00.000Z", ...line })).reverse();
  return {
    async *scan() {
      yield { lines, start: 0, head: "" };
    },
    append: async () => {},
    leaseOf: async () => lease,
  };
}

const running: JournalLine = { kind: "accepted", attempt, id };
const now = new Date("2026-11-10T10:00:00.000Z");

const wanted = (parts: Partial<WantedGeneration> = {}): WantedGeneration => ({
  service,
  request: { prompt: "a fox", model: "wan-2.5" },
  earlier: "resume",
  outputPath: "fox.mp4",
  fullPath: undefined,
  typed: "line",
  untyped: ["model"],
  now,
  ...parts,
});

const summaryOf = (choice: Choice) => {
  if (choice.kind !== "refuse") return choice.kind;
  const error = refusalError(choice);
  return `exit ${error.exit}`;
};

describe("the same line with another model from vidgen.json, 40 days later", () => {
  test.each<[string, JournalLine[], LeaseState, string]>([
    ["may have been charged", [], "dead", "exit 6"],
    ["is being sent by a live process", [], "alive", "new"],
    ["is being sent by a process that may have ended", [], "unsure", "wait"],
    ["is unknown", [{ kind: "unknown", attempt, reason: "reset" }], "dead", "exit 6"],
    ["is unknown with an id", [{ kind: "unknown", attempt, id, reason: "reset" }], "dead", "exit 2"],
    ["runs, and its process has ended", [running], "dead", "exit 2"],
    ["runs, and a live process follows it", [running], "alive", "new"],
    ["is ready", [running, { kind: "completed", id }], "dead", "exit 2"],
    ["is delivered", [running, { kind: "delivered", id, file: "/fox.mp4" }], "dead", "new"],
    ["has failed", [running, { kind: "failed", id, reason: "no" }], "dead", "new"],
    ["was refused", [{ kind: "refused", attempt, reason: "no" }], "dead", "new"],
    ["was not sent", [{ kind: "unsent", attempt, reason: "no" }], "dead", "new"],
    ["is lost", [running, { kind: "lost", id }], "dead", "exit 2"],
    ["was dismissed", [running, { kind: "dismissed", attempt }], "dead", "new"],
  ])("when its attempt %s", async (_, later, lease, expected) => {
    expect(summaryOf(await choose(wanted(), journalOf({}, later, lease)))).toBe(expected);
  });

  test("names the id, what differs, wait <id> and --again", async () => {
    const choice = await choose(wanted(), journalOf({}, [running]));
    const error = choice.kind === "refuse" ? refusalError(choice) : asVidgenError("nothing is refused");
    expect(error).toMatchObject({ code: "usage", id, attempt, charged: undefined });
    expect(error.message).toContain("another model");
    expect(error.hint).toMatch(/`vidgen wait 0b8a1f58-.*--again/);
  });

  test("without an id names the attempt and --dismiss", async () => {
    const choice = await choose(wanted(), journalOf({}));
    const error = choice.kind === "refuse" ? refusalError(choice) : asVidgenError("nothing is refused");
    expect(error).toMatchObject({ code: "unknown", attempt, charged: "maybe" });
    expect(error.hint).toContain(`--dismiss ${attempt}`);
  });
});

describe("an attempt that runs, and whose process has ended", () => {
  const choiceFor = async (parts: Partial<WantedGeneration>, intent: IntentParts = {}) =>
    summaryOf(await choose(wanted(parts), journalOf(intent, [running])));

  test("stops a command that no longer uses vidgen.json, and one that did not use it before", async () => {
    expect(await choiceFor({ untyped: undefined })).toBe("exit 2");
    expect(await choiceFor({}, { untyped: undefined })).toBe("exit 2");
  });

  test("does not stop another line, or a line that differs in more than what came from the file", async () => {
    expect(await choiceFor({ typed: "other" })).toBe("new");
    expect(await choiceFor({ request: { prompt: "a fox", model: "wan-2.5", duration: 4 } })).toBe("new");
    expect(await choiceFor({ untyped: undefined }, { untyped: undefined })).toBe("new");
    expect(await choiceFor({ outputPath: "other.mp4" })).toBe("new");
    expect(await choiceFor({ service: "https://other.example.com" })).toBe("new");
    expect(await choiceFor({ parent: id })).toBe("new");
  });

  test("stops a command that differs in the output path too, if that came from the file", async () => {
    expect(await choiceFor({ outputPath: "other.mp4", untyped: ["model", "output"] })).toBe("exit 2");
    expect(
      await choiceFor({ request: { prompt: "a fox", model: "veo-3.1" }, outputPath: "clips/", untyped: ["output"] }),
    ).toBe("exit 2");
  });

  test("is resumed if nothing differs", async () => {
    expect(await choiceFor({ request: { prompt: "a fox", model: "veo-3.1" } })).toBe("resume");
  });

  test("stops --reuse, which finds no generation of the same request, and is dismissed by --again", async () => {
    expect(await choiceFor({ earlier: "reuse" })).toBe("exit 2");
    expect(await choose(wanted({ earlier: "again" }), journalOf({}, [running]))).toMatchObject({
      kind: "new",
      dismissed: [{ attempt }],
    });
  });

  test("stops -n with the same number of generations, and not with another number", async () => {
    const intent = { run: "r", position: 2, count: 2 };
    const { request, ...line } = wanted();
    const run = await chooseRun({ ...line, requests: [request, request] }, journalOf(intent, [running]));
    expect(run).toMatchObject({ kind: "refuse", because: "changed", entry: { id } });
    const other = { ...line, typed: "other", requests: [request, request] };
    expect(await chooseRun(other, journalOf(intent, [running]))).toMatchObject({ kind: "run", name: undefined });
  });
});

describe("a run with another model from vidgen.json, 40 days later", () => {
  const delivered: JournalLine = { kind: "delivered", id, file: "/fox.mp4" };
  const second: JournalLine = {
    kind: "intent",
    attempt: "2d9b2f69-0000-4000-8000-000000000003",
    base_url: service,
    account: "a",
    request: { prompt: "a fox", model: "veo-3.1" },
    place: "fox.mp4",
    typed: "line",
    untyped: ["model"],
    run: "r",
    position: 2,
    count: 2,
  };
  const secondId = "0b8a1f58-0000-4000-8000-000000000004";
  const secondRuns: JournalLine = { kind: "accepted", attempt: second.attempt, id: secondId };
  const { request, ...line } = wanted();
  const first = { run: "r", position: 1, count: 2 };
  const choiceAfter = (later: JournalLine[], lease: LeaseState = "dead", parts: IntentParts = {}) =>
    chooseRun({ ...line, requests: [request, request] }, journalOf({ ...first, ...parts }, later, lease));

  test.each<[string, JournalLine[], LeaseState, string]>([
    ["was not started", [running, delivered], "dead", "exit 2"],
    ["was not started yet by a live process", [running, delivered], "alive", "run"],
    ["was not started by a process that may have ended", [running, delivered], "unsure", "wait"],
    ["may have been charged", [running, delivered, second], "dead", "exit 6"],
    ["runs", [running, delivered, second, secondRuns], "dead", "exit 2"],
    [
      "has failed",
      [running, delivered, second, secondRuns, { kind: "failed", id: secondId, reason: "no" }],
      "dead",
      "exit 2",
    ],
    [
      "was deleted",
      [running, delivered, second, secondRuns, { kind: "delivered", id: secondId }, { kind: "removed", id: secondId }],
      "dead",
      "run",
    ],
    ["is delivered", [running, delivered, second, secondRuns, { kind: "delivered", id: secondId }], "dead", "run"],
  ])("of which one is delivered and the other %s", async (_, later, lease, expected) => {
    const choice = await choiceAfter(later, lease);
    expect(choice.kind === "refuse" ? summaryOf(choice) : choice.kind).toBe(expected);
  });

  test("of which nothing was charged does not stop the line", async () => {
    expect(await choiceAfter([{ kind: "refused", attempt, reason: "no" }])).toMatchObject({ kind: "run" });
  });

  test("of which one id was printed, and no other was started, stops the line", async () => {
    const later: JournalLine[] = [running, { kind: "told", attempt }];
    expect(await choiceAfter(later, "dead", { no_wait: true })).toMatchObject({ kind: "refuse", entry: { id } });
  });

  test("of which one is delivered is named, and dismissed by --again", async () => {
    const choice = await choiceAfter([running, delivered]);
    const error = choice.kind === "refuse" ? refusalError(choice) : asVidgenError("nothing is refused");
    expect(error).toMatchObject({ code: "usage", id });
    expect(error.message).toContain(`another model (from vidgen.json or stdin), and has 1 of its 2 generations: ${id}`);
    expect(error.hint).toMatch(/`vidgen wait 0b8a1f58-.*--again/);
    const take = { run: "new", position: 1, count: 2 };
    expect(await choose(wanted({ earlier: "again", take }), journalOf(first, [running, delivered]))).toMatchObject({
      kind: "new",
      dismissed: [{ attempt }],
    });
  });
});
