import { describe, expect, test } from "vitest";
import { type AttemptEvent, type AttemptState, nextState } from "../../../src/client/ledger/attempt.ts";
import type { LeaseState } from "../../../src/client/ledger/journal.ts";
import { type Action, decide, isSameOutput, type Mode } from "../../../src/client/ledger/policy.ts";

// The two tables of the rule about the paid request, cell by cell, as the specification has them.

/** "-" leaves the state unchanged. */
const table1 = `
state     | accepted | refused | unsent | unknown | completed | delivered | failed | unclear | lost | found
sending   | running  | refused | unsent | unknown | ready     | delivered | failed | unknown | -    | running
unsent    | -        | -       | -      | -       | -         | -         | -      | -       | -    | -
refused   | -        | -       | -      | -       | ready     | -         | failed | unknown | -    | running
unknown   | running  | -       | -      | -       | ready     | delivered | failed | -       | -    | running
running   | -        | -       | -      | -       | ready     | delivered | failed | unknown | lost | -
ready     | -        | -       | -      | -       | -         | delivered | -      | -       | -    | -
delivered | -        | -       | -      | -       | -         | delivered | -      | -       | -    | -
failed    | -        | -       | -      | -       | ready     | delivered | -      | -       | -    | -
lost      | running  | -       | -      | -       | ready     | delivered | failed | unknown | -    | running
`;

/** "running*" is an attempt of --no-wait whose id was handed over. */
const table2 = `
state           | lease  | resume         | reuse          | again   | key
sending         | alive  | pass           | wait           | pass    | wait
sending         | unsure | watch          | watch          | watch   | watch
sending         | dead   | send again     | send again     | dismiss | send again
unknown         | alive  | wait           | wait           | pass    | wait
unknown         | unsure | watch          | watch          | watch   | watch
unknown         | dead   | send again     | send again     | dismiss | send again
running, ready  | alive  | pass           | join           | pass    | join
running, ready  | unsure | watch          | watch          | watch   | watch
running, ready  | dead   | resume         | resume         | dismiss | resume
running*        | any    | pass           | resume         | pass    | resume
delivered       | any    | pass           | resume         | pass    | resume
failed          | any    | pass           | pass           | pass    | resume
unsent, refused | any    | pass           | pass           | pass    | send
lost            | any    | refuse lost    | refuse lost    | dismiss | resume
`;

/** The lines of a table as cells, without its head. */
function rowsOf(table: string): { head: string[]; rows: string[][] } {
  const [head = [], ...rows] = table
    .trim()
    .split("\n")
    .map((line) => line.split("|").map((cell) => cell.trim()));
  return { head, rows };
}

describe("table 1: the state after each event", () => {
  const { head, rows } = rowsOf(table1);
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
  const { head, rows } = rowsOf(table2);
  const leases: LeaseState[] = ["alive", "unsure", "dead"];
  const cells = rows.flatMap(([states = "", lease = "", ...actions]) =>
    states.split(", ").flatMap((name) =>
      (lease === "any" ? leases : [lease as LeaseState]).flatMap((lease) =>
        actions.map((action, index) => {
          const situation = { state: name.replace("*", "") as AttemptState, lease, isIdHandedOver: name.endsWith("*") };
          return [name, lease, head[index + 2] as Mode, action as Action, situation] as const;
        }),
      ),
    ),
  );

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
