import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Row } from "../../../src/client/batch/row.ts";
import { walkKills } from "../../dying-disk.ts";
import { createMachine, createService, type Machine } from "./machine.ts";

const keepFrame = async (video: string) => ({ path: readFileSync(video, "latin1"), isNearlyOneColor: false });

function filmOf(machine: Machine): Row[] {
  return ["a", "b"].map((id, i) => {
    const row = machine.row(`shot ${id}`, { id, line: i + 2, outputPath: join(machine.folder, `${id}.mp4`) });
    return i === 0 ? row : { ...row, from: 0, load: async (frame) => ({ ...row.record, imageUrl: frame }) };
  });
}

const videosIn = ({ folder }: Machine) =>
  readdirSync(folder)
    .filter((name) => name.endsWith(".mp4"))
    .map((name) => /gen-\d+/.exec(readFileSync(join(folder, name), "latin1"))?.[0]);

test("killed between every two changes of a file, a redo pays for each row once, and never loses the old videos", async () => {
  const seen = { unknown: 0, done: 0 };
  await walkKills(1, async ({ changes, laterMs, run }) => {
    const service = createService({ contentOf: ({ id }) => id, renderMs: () => 5_000 });
    const machine = createMachine(service);
    await machine.run(filmOf(machine), { keepFrame });
    const line = (again = false) => ({ keepFrame, redo: { rows: ["a"], again, name: `redo-${changes}` } });
    await run((disk) => machine.run(filmOf(machine), { ...line(), disk }), machine.kill);
    expect(videosIn(machine), `killed at ${changes}`).toEqual(expect.arrayContaining(["gen-1", "gen-2"]));
    machine.laterMs = laterMs;
    // Nothing is known of the redo if the process was killed before its line was written.
    const isBegun = machine.lines().some(({ kind }) => kind === "redo");
    if (!isBegun) expect(service.starts).toBe(2);
    const looked = await machine.open(filmOf(machine), { isDryRun: true });
    const isOver = looked.plan.done === 2;
    const next = [line(), isBegun ? { keepFrame } : line(), line(isBegun && !isOver)][changes % 3];
    await machine.run(filmOf(machine), next);
    const { batch } = await machine.run(filmOf(machine), { keepFrame, redo: { rows: ["a"], name: "later" } });
    await machine.run(filmOf(machine), { keepFrame });
    const { unknown, blocked, done, to_start } = batch.plan;
    expect(service.charges("shot a"), `killed at ${changes}`).toBeLessThanOrEqual(2);
    expect(service.charges("shot b"), `killed at ${changes}`).toBeLessThanOrEqual(2);
    expect(videosIn(machine), `killed at ${changes}`).toEqual(expect.arrayContaining(["gen-1", "gen-2"]));
    expect([done + unknown + blocked, to_start], `killed at ${changes}`).toEqual([2, 0]);
    if (unknown > 0) seen.unknown++;
    else {
      seen.done++;
      expect(videosIn(machine).sort(), `killed at ${changes}`).toEqual(["gen-1", "gen-2", "gen-3", "gen-4"]);
    }
  });
  expect(seen.unknown).toBeGreaterThan(0);
  expect(seen.done).toBeGreaterThan(20);
});
