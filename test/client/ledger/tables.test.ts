import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type AttemptEvent, type AttemptState, nextState } from "../../../src/client/ledger/attempt.ts";
import type { LeaseState } from "../../../src/client/ledger/journal.ts";
import { type Action, decide, isSameOutput, type Mode } from "../../../src/client/ledger/policy.ts";

// The two tables of the rule about the paid request, cell by cell, as .github/MONEY.md has them.
const page = readFileSync(new URL("../../../.github/MONEY.md", import.meta.url), "utf8");

/** A table of the page that begins with these cells: its head and its rows, as cells. */
function readTable(...firstCells: string[]): { head: string[]; rows: string[][] } {
  const lines = page.split("\n");
  const start = lines.findIndex((line) => line.startsWith(`| ${firstCells.join(" | ")} |`));
  const count = lines.slice(start).findIndex((line) => !line.startsWith("|"));
  const [head = [], , ...rows] = lines
    .slice(start, start + count)
    .map((line) => line.slice(1, -1).split("|").map(withoutRemark));
  return { head, rows };
}

/** A cell without the remark in brackets behind it. */
function withoutRemark(cell: string): string {
  return cell.replace(/\(.*\)/, "").trim();
}

const modes: Record<string, Mode> = {
  "the same run": "resume",
  "`--reuse`": "reuse",
  "`--again`": "again",
  "named key": "key",
};

const actions: Record<string, Action> = {
  pass: "pass",
  wait: "wait",
  "wait for the answer": "wait",
  watch: "watch",
  resume: "resume",
  join: "join",
  dismiss: "dismiss",
  send: "send",
  "send again, else refuse 6": "send again",
  "refuse 10": "refuse lost",
};

describe("table 1: the state after each event", () => {
  const { head, rows } = readTable("state \\ event");
  const cells = rows.flatMap(([state = "", ...after]) =>
    after.map((next, index) => [state, head[index + 1], next === "-" ? state : next]),
  );

  test("has each state and event once", () => {
    expect(new Set(cells.map(([state, event]) => `${state} ${event}`)).size).toBe(90);
  });

  test.each(cells)("%s, then %s: %s", (state, event, next) => {
    expect(nextState(state as AttemptState, event as AttemptEvent)).toBe(next);
  });
});

describe("table 2: what a start does about an earlier attempt", () => {
  const { head, rows } = readTable("state", "lease");
  const leases: LeaseState[] = ["alive", "unsure", "dead"];
  const cells = rows.flatMap(([names = "", lease = "", ...words]) => {
    const isIdHandedOver = names.endsWith("*told*");
    const states = names.split(", ").filter((name) => !name.startsWith("`"));
    return states.flatMap((state) =>
      leases
        .filter((each) => lease === "any" || lease === each)
        .flatMap((lease) =>
          words.map((word, index) => {
            const situation = { state: state as AttemptState, lease, isIdHandedOver };
            const name = isIdHandedOver ? `${state}, told` : state;
            return [name, lease, modes[head[index + 2] ?? ""] as Mode, actions[word], situation] as const;
          }),
        ),
    );
  });

  test("has each state, lease and kind of start once", () => {
    expect(new Set(cells.map(([name, lease, mode]) => `${name} ${lease} ${mode}`)).size).toBe(cells.length);
    expect(cells).toHaveLength(10 * 3 * 4);
  });

  test.each(cells)("%s (%s), at %s: %s", (_, __, mode, action, situation) => {
    expect(decide(situation, mode)).toBe(action);
  });

  test("an id that was handed over changes nothing but of a running attempt", () => {
    for (const [name, lease, mode, action, { state }] of cells)
      if (state !== "running")
        expect([name, decide({ state, lease, isIdHandedOver: true }, mode)]).toEqual([name, action]);
  });
});

describe("the output path of the same run", () => {
  const entry = { place: "Fox.mp4", path: "/clips/Fox.mp4" };

  test.each<[string, { outputPath: string | undefined; path?: string; foldsCase?: boolean }, boolean]>([
    ["as typed, from another folder", { outputPath: "Fox.mp4", path: "/other/Fox.mp4" }, true],
    ["the same full path", { outputPath: "clips/Fox.mp4", path: "/clips/Fox.mp4" }, true],
    ["another case where the disk tells the two apart", { outputPath: "fox.mp4", path: "/clips/fox.mp4" }, false],
    ["another case where it does not", { outputPath: "fox.mp4", path: "/clips/fox.mp4", foldsCase: true }, true],
    ["none", { outputPath: undefined }, false],
    ["stdout", { outputPath: "-" }, false],
  ])("%s", (_, { outputPath, path, foldsCase = false }, isSame) => {
    const fullPath = path === undefined ? undefined : { path, foldsCase };
    expect(isSameOutput(entry, { outputPath, fullPath })).toBe(isSame);
  });

  test("two runs without an output path are not the same for that reason", () => {
    expect(isSameOutput({ place: "-" }, { outputPath: undefined, fullPath: undefined })).toBe(false);
    expect(isSameOutput({}, { outputPath: "-", fullPath: undefined })).toBe(false);
  });
});
