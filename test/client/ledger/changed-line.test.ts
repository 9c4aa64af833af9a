import { lstat } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import type { DatedLine, JournalLine } from "../../../src/client/ledger/history.ts";
import type { LeaseState } from "../../../src/client/ledger/journal.ts";
import type { CommandLine, ProjectPlace } from "../../../src/client/ledger/line.ts";
import {
  type Choice,
  choose,
  chooseRun,
  type RunChoice,
  type WantedGeneration,
} from "../../../src/client/ledger/policy.ts";
import { refusalError } from "../../../src/client/ledger/refusal.ts";
import { asVidgenError } from "../../../src/errors.ts";
import type { Disk } from "../../../src/io.ts";

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
    folder: "/work",
    ...intent,
  };
  const lines = [started, ...later].map((line): DatedLine => ({ at: "2026-10-01T10:00:00.000Z", ...line })).reverse();
  return {
    async *scan() {
      yield { lines, end: 0 };
    },
    append: async () => {},
    leaseOf: async () => lease,
  };
}

const line: CommandLine = { hash: "line", isPlaceTyped: false, folder: "/work" };
/** A disk with one vidgen.json. */
const disk = {
  stat: (path: string) => (path === "/one/vidgen.json" ? lstat("/") : Promise.reject(new Error(`no ${path}`))),
} as Pick<Disk, "stat">;

const running: JournalLine = { kind: "accepted", attempt, id };
const now = new Date("2026-11-10T10:00:00.000Z");

const wanted = (parts: Partial<WantedGeneration> = {}): WantedGeneration => ({
  service,
  request: { prompt: "a fox", model: "wan-2.5" },
  earlier: "resume",
  outputPath: "fox.mp4",
  fullPath: undefined,
  line,
  now,
  ...parts,
});

const summaryOf = (choice: Choice | Exclude<RunChoice, { kind: "run" }>) => {
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
    expect(summaryOf(await choose(wanted(), journalOf({}, later, lease), disk))).toBe(expected);
  });

  test("names the id, what differs, wait <id> and --again", async () => {
    const choice = await choose(wanted(), journalOf({}, [running]), disk);
    const error = choice.kind === "refuse" ? refusalError(choice) : asVidgenError("nothing is refused");
    expect(error).toMatchObject({ code: "usage", id, attempt, charged: undefined });
    expect(error.message).toContain("another model");
    expect(error.hint).toMatch(/`vidgen wait 0b8a1f58-.*--again/);
  });

  test("without an id names the attempt and --dismiss", async () => {
    const choice = await choose(wanted(), journalOf({}), disk);
    const error = choice.kind === "refuse" ? refusalError(choice) : asVidgenError("nothing is refused");
    expect(error).toMatchObject({ code: "unknown", attempt, charged: "maybe" });
    expect(error.hint).toContain(`--dismiss ${attempt}`);
  });
});

describe("an attempt that runs, and whose process has ended", () => {
  const choiceFor = async (parts: Partial<WantedGeneration>, intent: IntentParts = {}) =>
    summaryOf(await choose(wanted(parts), journalOf(intent, [running]), disk));

  test("does not stop another line, another service, or what repeats another generation", async () => {
    expect(await choiceFor({ line: { ...line, hash: "other" } })).toBe("new");
    expect(await choiceFor({ line: undefined })).toBe("new");
    expect(await choiceFor({ line: { ...line, isAnswered: true } })).toBe("new");
    expect(await choiceFor({ service: "https://other.example.com" })).toBe("new");
    expect(await choiceFor({ parent: id })).toBe("new");
  });

  const sameRequest = { request: { prompt: "a fox", model: "veo-3.1" } };
  const typedLine = { ...line, isPlaceTyped: true };

  test.each<[string, Partial<WantedGeneration>, IntentParts, string]>([
    ["neither was typed", { outputPath: "other.mp4" }, {}, "exit 2"],
    ["neither was typed, and the request is the same", { ...sameRequest, outputPath: "other.mp4" }, {}, "exit 2"],
    ["that of the line was typed", { ...sameRequest, outputPath: "other.mp4", line: typedLine }, {}, "new"],
    ["that of the line was typed, and the request differs", { outputPath: "other.mp4", line: typedLine }, {}, "new"],
    ["that of the attempt was typed", { outputPath: "other.mp4" }, { place_typed: true }, "new"],
    ["the attempt saves nothing", sameRequest, { place: undefined }, "exit 2"],
    ["the line saves nothing", { ...sameRequest, outputPath: undefined }, {}, "new"],
    ["the line saves nothing, and the request differs", { outputPath: undefined }, {}, "exit 2"],
    ["neither saves anything", { ...sameRequest, outputPath: undefined }, { place: undefined }, "resume"],
  ])("at another output path, when %s", async (_, parts, intent, expected) => {
    expect(await choiceFor(parts, intent)).toBe(expected);
  });

  const one = "/one/vidgen.json";
  const gone = "/gone/vidgen.json";
  const inProject = (project: string) => ({ project, folder: undefined });
  const inFolder = (folder: string) => ({ project: undefined, folder });

  test.each<[string, { project: string | undefined; folder: string | undefined }, ProjectPlace, string]>([
    ["neither has a vidgen.json", inFolder("/a"), inFolder("/b"), "exit 2"],
    ["both have the same", inProject(one), inProject(one), "exit 2"],
    ["both have another", inProject(one), inProject("/two/vidgen.json"), "new"],
    ["that of the attempt was moved or deleted", inProject(gone), inProject("/two/vidgen.json"), "exit 2"],
    ["that of the attempt was deleted, and there is none now", inProject(gone), inFolder("/elsewhere"), "exit 2"],
    ["the line has none any more, in the same folder", inProject(one), inFolder("/one"), "exit 2"],
    ["the line has none, in a folder of it", inProject(one), inFolder("/one/a/b"), "exit 2"],
    ["the line has none, in another folder", inProject(one), inFolder("/oneself"), "new"],
    ["the attempt had none, in a folder of it", inFolder("/one/a"), inProject(one), "exit 2"],
    ["the attempt had none, in another folder", inFolder("/two"), inProject(one), "new"],
    ["the attempt is of an older version", { project: undefined, folder: undefined }, inProject(one), "exit 2"],
  ])("in two projects, when %s", async (_, intent, place, expected) => {
    const parts = { line: { hash: "line", isPlaceTyped: false, ...place } };
    expect(await choiceFor(parts, intent)).toBe(expected);
    // --again dismisses nothing of another project, also not the same request. Without it, the same request counts in any project.
    for (const each of [parts, { ...parts, ...sameRequest }]) {
      const again = await choose(wanted({ ...each, earlier: "again" }), journalOf(intent, [running]), disk);
      expect(again).toMatchObject({ kind: "new", dismissed: expected === "new" ? [] : [{ attempt }] });
    }
    expect(await choiceFor({ ...parts, ...sameRequest }, intent)).toBe("resume");
  });

  test("by the hash without VIDGEN_MODEL is found only if an older version started it, and then another model is another video", async () => {
    const parts = { line: { ...line, hash: "with the variable", olderHash: "line" } };
    const older = { folder: undefined };
    expect(await choiceFor(parts)).toBe("new");
    expect(await choiceFor(parts, older)).toBe("new");
    const request = { prompt: "a fox", model: "wan-2.5", duration: 4 };
    expect(await choiceFor({ ...parts, request }, older)).toBe("exit 2");
    expect(await choiceFor({ ...parts, request })).toBe("new");
  });

  test.each<[string, JournalLine[], LeaseState, string]>([
    ["may have been charged", [], "dead", "exit 6"],
    ["is unknown", [{ kind: "unknown", attempt, reason: "reset" }], "dead", "exit 6"],
    ["runs", [running], "dead", "exit 2"],
    ["is ready", [running, { kind: "completed", id }], "dead", "exit 2"],
    ["is lost", [running, { kind: "lost", id }], "dead", "exit 10"],
    ["runs in a live process", [running], "alive", "new"],
    ["is delivered", [running, { kind: "delivered", id }], "dead", "new"],
    ["has failed", [running, { kind: "failed", id, reason: "no" }], "dead", "new"],
    ["was deleted", [running, { kind: "completed", id }, { kind: "removed", id }], "dead", "new"],
    ["was dismissed", [running, { kind: "dismissed", attempt }], "dead", "new"],
  ])("at another path of the same origin, when it %s", async (_, later, lease, expected) => {
    const journal = journalOf({}, later, lease);
    const elsewhere = { ...sameRequest, service: `${service}/v2`, line: undefined };
    expect(summaryOf(await choose(wanted(elsewhere), journal, disk))).toBe(expected);
    expect(summaryOf(await choose(wanted({ ...elsewhere, earlier: "reuse" }), journal, disk))).toBe(expected);
    expect(await choose(wanted({ ...elsewhere, earlier: "again" }), journal, disk)).toEqual({
      kind: "new",
      dismissed: [],
    });
    // So it does by its key, and as a position of a run.
    const keyed = journalOf({ key: "k" }, later, lease);
    expect(summaryOf(await choose(wanted({ ...elsewhere, key: "k" }), keyed, disk))).toBe(expected);
    const { request = sameRequest.request, ...run } = wanted(elsewhere);
    const ofRun = await chooseRun(
      { ...run, requests: [request, request] },
      journalOf({ run: "r", position: 2, count: 2 }, later, lease),
      disk,
    );
    expect(ofRun.kind === "run" ? "new" : summaryOf(ofRun)).toBe(expected);
  });

  test("is resumed if nothing differs", async () => {
    expect(await choiceFor({ request: { prompt: "a fox", model: "veo-3.1" } })).toBe("resume");
  });

  test("stops --reuse, which finds no generation of the same request, and is dismissed by --again", async () => {
    expect(await choiceFor({ earlier: "reuse" })).toBe("exit 2");
    expect(await choose(wanted({ earlier: "again" }), journalOf({}, [running]), disk)).toMatchObject({
      kind: "new",
      dismissed: [{ attempt }],
    });
  });

  test("stops -n with the same number of generations, and not with another number", async () => {
    const intent = { run: "r", position: 2, count: 2 };
    const { request, ...parts } = wanted();
    const run = await chooseRun({ ...parts, requests: [request, request] }, journalOf(intent, [running]), disk);
    expect(run).toMatchObject({ kind: "refuse", because: "changed", entry: { id } });
    const other = { ...parts, line: { ...line, hash: "other" }, requests: [request, request] };
    expect(await chooseRun(other, journalOf(intent, [running]), disk)).toMatchObject({ kind: "run", name: undefined });
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
    folder: "/work",
    run: "r",
    position: 2,
    count: 2,
  };
  const secondId = "0b8a1f58-0000-4000-8000-000000000004";
  const secondRuns: JournalLine = { kind: "accepted", attempt: second.attempt, id: secondId };
  const { request, ...line } = wanted();
  const first = { run: "r", position: 1, count: 2 };
  const choiceAfter = (later: JournalLine[], lease: LeaseState = "dead", parts: IntentParts = {}) =>
    chooseRun({ ...line, requests: [request, request] }, journalOf({ ...first, ...parts }, later, lease), disk);

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
    expect(error.message).toContain(
      `another model (from vidgen.json, a setting or stdin), and has 1 of its 2 generations: ${id}`,
    );
    expect(error.hint).toMatch(/`vidgen wait 0b8a1f58-.*--again/);
    const take = { run: "new", position: 1, count: 2 };
    expect(
      await choose(wanted({ earlier: "again", take }), journalOf(first, [running, delivered]), disk),
    ).toMatchObject({
      kind: "new",
      dismissed: [{ attempt }],
    });
  });
});

describe("a line that begins with the last frame of a video, before and after the frame is extracted", () => {
  const source = "0b8a1f58-0000-4000-8000-000000000009";
  const withFrame = (frame: string) => ({ prompt: "a fox", model: "veo-3.1", imageUrl: `data:image/png,${frame}` });
  const unknown: JournalLine = { kind: "unknown", attempt, reason: "reset" };
  const keptKey = { key: attempt, firstSentAt: "2026-11-10T09:00:00.000Z" };
  const ofFile = { ...line, isFromFile: true };

  test.each<[string, Partial<WantedGeneration>, IntentParts, JournalLine[], string]>([
    ["of the same generation runs: resumed", { from: source }, { from: source }, [running], "resume"],
    [
      "of the same generation, in another line",
      { from: source, line: undefined },
      { from: source },
      [running],
      "resume",
    ],
    ["of another generation runs", { from: id, line: undefined }, { from: source }, [running], "new"],
    ["of the same file runs: resumed", { line: ofFile }, {}, [running], "resume"],
    ["of a file runs, in another line", { line: { ...ofFile, hash: "other" } }, {}, [running], "new"],
    ["of a file runs, and the line has an image that changed", {}, {}, [running], "exit 2"],
    [
      "has another prompt",
      { from: source, line: undefined },
      { from: source, request: { prompt: "an owl", model: "veo-3.1" } },
      [running],
      "new",
    ],
    ["is unknown", { from: source }, { from: source }, [unknown], "exit 6"],
    [
      "is unknown, and its key was sent with another frame",
      { from: source, keptKey },
      { from: source },
      [unknown],
      "exit 6",
    ],
    [
      "is unknown, and its key was sent with another frame of a file",
      { line: ofFile, keptKey },
      {},
      [unknown],
      "exit 6",
    ],
  ])("an attempt that begins with that %s", async (_, parts, intent, later, expected) => {
    const journal = journalOf({ request: withFrame("old"), ...intent }, later);
    expect(summaryOf(await choose(wanted({ request: withFrame("new"), ...parts }), journal, disk))).toBe(expected);
  });

  test("sends a key again with the frame that it was sent with", async () => {
    const journal = journalOf({ request: withFrame("old"), from: source }, [unknown]);
    const choice = await choose(wanted({ request: withFrame("old"), from: source, keptKey }), journal, disk);
    expect(choice).toMatchObject({ kind: "new", resends: keptKey });
  });

  test("continues the run of several such generations", async () => {
    const take = { run: "2d7f4a1b-0000-4000-8000-000000000003", position: 1, count: 2 };
    const journal = journalOf({ request: withFrame("old"), from: source, ...take }, [running]);
    const { request: _, ...parts } = wanted({ from: source, line: undefined });
    const requests = [withFrame("new"), withFrame("new")];
    expect(await chooseRun({ ...parts, requests }, journal, disk)).toMatchObject({ kind: "run", name: take.run });
  });
});
