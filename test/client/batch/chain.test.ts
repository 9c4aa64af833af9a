import { existsSync, rmSync } from "node:fs";
import { expect, test } from "vitest";
import type { Row } from "../../../src/client/batch/row.ts";
import { createMachine, createService, leaveAlone, type Machine } from "./machine.ts";

/** Stands for taking the last frame of a video: its path names the video. */
const keepFrame = async (video: string) => ({ path: `frame of ${video}`, isNearlyOneColor: false });

/** Rows that begin from the row before; the request of each has the path of the frame in place of the image. */
function chain(machine: Machine, ...prompts: string[]): Row[] {
  return prompts.map((prompt, i) => {
    const row = machine.row(prompt, { line: i + 2 });
    if (i === 0) return row;
    return { ...row, from: i - 1, load: async (frame) => ({ ...row.record, imageUrl: frame }) };
  });
}

const imagesOf = (service: ReturnType<typeof createService>) =>
  service.generations.map(({ prompt, request }) => [prompt, (request as { imageUrl?: string }).imageUrl]);

test("a row waits for the video of the row that it begins from, and others run beside it", async () => {
  const service = createService();
  const machine = createMachine(service);
  const rows = [...chain(machine, "a", "b", "c"), machine.row("d", { line: 5 })];
  const { end, batch } = await machine.run(rows, { keepFrame });
  expect(end).toEqual({ stopped: undefined, failures: [], blocked: 0 });
  expect(batch.plan).toMatchObject({ to_start: 4, chains: [[2, 3, 4]] });
  expect(imagesOf(service)).toEqual([
    ["a", undefined],
    ["d", undefined],
    ["b", `frame of ${rows[0]?.outputPath}`],
    ["c", `frame of ${rows[1]?.outputPath}`],
  ]);
  const intents = machine.lines().filter(({ kind }) => kind === "intent");
  expect(intents.map(({ line, from }) => [line, from])).toEqual([
    [2, undefined],
    [5, undefined],
    [3, "gen-1"],
    [4, "gen-3"],
  ]);
});

test("the order names the rows to start alone, and one that they wait for", async () => {
  const machine = createMachine(createService());
  const rows = chain(machine, "a", "b", "c", "d");
  await machine.run(rows.slice(0, 2), { keepFrame });
  const { batch } = await machine.run(rows, { keepFrame });
  expect(batch.plan).toMatchObject({ done: 2, to_start: 2, chains: [[4, 5]] });
});

test.each([
  ["failed", "b [fail]", undefined],
  ["refused", "b", () => Response.json({ error: "no" }, { status: 400 })],
  ["unknown", "b", () => new Response("oops", { status: 502 })],
])(
  "what depends on a row that is %s is not started, and says so, in this run and the next",
  async (status, prompt, answer) => {
    const service = createService({ fault: (each) => (each === "b" ? answer?.() : undefined) });
    const machine = createMachine(service);
    const rows = chain(machine, "a", prompt, "c", "d");
    const { statuses, events, end } = await machine.run(rows, { keepFrame });
    expect(statuses).toEqual({ 2: "completed", 3: status, 4: "unsent", 5: "unsent" });
    expect(end.failures.map(({ row }) => row.line)).toEqual([3]);
    expect(end.blocked).toBe(2);
    const told = events.flatMap((event) => (event.event === "ended" && event.error ? [event.error.message] : []));
    expect(told.slice(1)).toEqual([
      expect.stringMatching(/^Not started: it begins from line 3, which/),
      expect.stringMatching(/^Not started: it begins from line 4, which was not started/),
    ]);
    const again = await machine.run(rows, { keepFrame });
    expect(again.batch.plan).toMatchObject({ done: 1, blocked: 2, to_start: 0 });
    expect(again.statuses).toEqual({});
  },
);

test("after a failed row was made, those that waited for it begin from its new video", async () => {
  const service = createService({
    fault: (prompt) => (prompt === "a" ? Response.json({ error: "no" }, { status: 400 }) : undefined),
  });
  const machine = createMachine(service);
  const rows = chain(machine, "a", "b");
  await machine.run(rows, { keepFrame });
  service.fault = undefined;
  const { statuses } = await machine.run(rows, { keepFrame, retryFailed: true });
  expect(statuses).toEqual({ 2: "completed", 3: "completed" });
});

test.each([
  ["a row in front of another", ["a", "x", "b", "c"]],
  ["a row at the end", ["a", "b", "c", "x"]],
])("%s is the only one that is generated, and the others keep their frames", async (_, prompts) => {
  const service = createService();
  const machine = createMachine(service);
  await machine.run(chain(machine, "a", "b", "c"), { keepFrame });
  const longer = chain(machine, ...prompts).map((row) => ({
    ...row,
    outputPath: `${machine.folder}/${row.record.prompt}.mp4`,
  }));
  const batch = await machine.open(longer);
  await batch.close();
  expect(batch.plan).toMatchObject({ rows: 4, done: 3, to_start: 1 });
  expect(batch.notes.filter((note) => note.includes("with the last frame of an earlier video"))).toHaveLength(
    prompts[1] === "x" ? 1 : 0,
  );
  await machine.run(longer, { keepFrame });
  expect(service.generations).toHaveLength(4);
});

test.each([
  ["with both", () => {}],
  ["with the results file alone", leaveAlone],
  ["with the journal alone", ({ results }: Machine) => rmSync(results)],
] as [string, (machine: Machine) => void][])("killed, it goes on: %s", async (_, lose) => {
  const service = createService();
  const machine = createMachine(service);
  const rows = chain(machine, "a", "b", "c");
  const killed = machine.run(rows, { keepFrame });
  await service.clock.sleep(90_000);
  machine.kill();
  void killed;
  lose(machine);
  const { statuses } = await machine.run(rows, { keepFrame });
  expect(Object.values(statuses)).toContain("completed");
  expect(rows.every(({ outputPath = "" }) => existsSync(outputPath))).toBe(true);
  expect(service.generations.map(({ prompt }) => prompt)).toEqual(["a", "b", "c"]);
});

test("a frame that cannot be taken ends the row before it is sent", async () => {
  const service = createService();
  const machine = createMachine(service);
  const rows = chain(machine, "a", "b", "c");
  const { statuses } = await machine.run(rows, { keepFrame: () => Promise.reject(new Error("no picture")) });
  expect(statuses).toEqual({ 2: "completed", 3: "unsent", 4: "unsent" });
  expect(service.starts).toBe(1);
});
