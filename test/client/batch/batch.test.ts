import { existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readStatus } from "../../../src/client/batch/status.ts";
import { systemMachine } from "../../../src/io.ts";
import { createMachine, createService, leaveAlone, type Machine } from "./machine.ts";

test("each row is started, saved, and written down", async () => {
  const service = createService();
  const { rows, run, lines, videoOf } = createMachine(service);
  const shots = rows("a fox", "a bear", "a fox");
  const { end, statuses } = await run(shots);
  expect(end).toEqual({ stopped: undefined, failures: [], blocked: 0 });
  expect(statuses).toEqual({ 1: "completed", 2: "completed", 3: "completed" });
  expect(shots.map((row) => videoOf(row).includes(row.record.prompt))).toEqual([true, true, true]);
  expect(service.generations).toHaveLength(3);
  const ofKind = (kind: string) => lines().filter((line) => line.kind === kind);
  expect(ofKind("intent")).toMatchObject([1, 2, 3].map((line) => ({ line, row: expect.any(String) })));
  expect(ofKind("accepted")).toEqual([
    expect.objectContaining({ id: "gen-1", remaining_credits: 999_990 }),
    expect.objectContaining({ id: "gen-2", balance_fell: 10 }),
    expect.objectContaining({ id: "gen-3", balance_fell: 10 }),
  ]);
  expect(ofKind("delivered").map(({ id, file }) => [id, file])).toContainEqual(["gen-1", "a-fox-1.mp4"]);
});

test("run again, it starts nothing, and downloads a video whose file is gone", async () => {
  const service = createService();
  const { rows, run } = createMachine(service);
  const shots = rows("a fox", "a bear");
  await run(shots);
  rmSync(shots[0]?.outputPath ?? "");
  const { batch, statuses } = await run(shots);
  expect(batch.plan).toMatchObject({ rows: 2, done: 1, running: 1, to_start: 0 });
  expect(statuses).toEqual({ 1: "completed" });
  expect(existsSync(shots[0]?.outputPath ?? "")).toBe(true);
  expect(service.starts).toBe(2);
});

test("reordered and with rows added, nothing is paid for twice", async () => {
  const service = createService();
  const { row, run } = createMachine(service);
  await run([row("a fox", { line: 1 }), row("a bear", { line: 2, id: "b" }), row("a fox", { line: 3 })]);
  const again = [
    row("a hare", { line: 1 }),
    row("a fox", { line: 4 }),
    row("a bear", { line: 2, id: "b" }),
    row("a fox", { line: 5 }),
    row("a fox", { line: 6 }),
  ];
  const { batch } = await run(again);
  expect(batch.plan).toMatchObject({ done: 3, to_start: 2 });
  expect(["a fox", "a bear", "a hare"].map(service.charges)).toEqual([3, 1, 1]);
});

test.each([
  ["with the journal and the results file", () => {}],
  ["with the results file alone", leaveAlone],
  ["with the journal alone", (paths) => rmSync(paths.results)],
  ["with a torn results file", (paths) => truncateSync(paths.results, readFileSync(paths.results).length - 20)],
] as [string, (paths: Machine) => void][])("killed while rows run, it continues with them: %s", async (_, lose) => {
  const service = createService();
  const machine = createMachine(service);
  const shots = machine.rows("a", "b", "c", "d", "e", "f");
  const killed = machine.run(shots, { jobs: 2 });
  await service.clock.sleep(30_000);
  machine.kill();
  void killed;
  lose(machine);
  const { batch, statuses } = await machine.run(shots);
  expect(batch.plan).toMatchObject({ running: 2, to_start: 4 });
  expect(Object.values(statuses)).toEqual(Array(6).fill("completed"));
  expect(service.generations).toHaveLength(6);
});

test.each([
  ["left alone", {}, { unknown: 1, to_start: 0 }, 1],
  ["started again with --retry-unknown", { retryUnknown: true }, { unknown: 0, to_start: 1 }, 2],
])("a row that may have been charged is %s", async (_, options, plan, charges) => {
  const service = createService({ fault: (_, accept) => accept() && new Response("oops", { status: 502 }) });
  const machine = createMachine(service);
  const shots = machine.rows("a fox");
  const first = await machine.run(shots);
  expect(first.statuses).toEqual({ 1: "unknown" });
  service.fault = undefined;
  for (const lose of [() => {}, () => rmSync(machine.journal)]) {
    lose();
    const batch = await machine.open(shots, options);
    expect(batch.plan).toMatchObject(plan);
    await batch.close();
  }
  await machine.run(shots, options);
  expect(service.charges("a fox")).toBe(charges);
});

test("what the journal alone knows of the rows is written to the results file", async () => {
  const machine = createMachine(createService());
  const shots = machine.rows("a", "b [fail]");
  await machine.run(shots);
  rmSync(machine.results);
  const { batch } = await machine.run(shots);
  expect(batch.plan).toMatchObject({ done: 1, failed: 1, to_start: 0 });
  expect(await readStatus([machine.results], systemMachine)).toMatchObject({ done: 1, failed: 1, missing: 0 });
  const size = machine.lines().length;
  await machine.run(shots);
  expect(machine.lines()).toHaveLength(size + 1);
});

test("killed while a start is out, the row may have been charged", async () => {
  const service = createService({
    fault: (prompt, accept) => (prompt === "b" && accept() ? new Promise(() => {}) : undefined),
  });
  const machine = createMachine(service);
  const shots = machine.rows("a", "b", "c");
  void machine.run(shots);
  await service.clock.sleep(10_000);
  machine.kill();
  service.fault = undefined;
  const { batch } = await machine.run(shots);
  expect(batch.plan).toMatchObject({ running: 1, unknown: 1, to_start: 1 });
  expect(service.charges("b")).toBe(1);
});

test("a failed row is left alone, unless --retry-failed is given or the row has changed", async () => {
  const service = createService();
  const { row, run, open } = createMachine(service);
  const rows = [row("a fox [fail]", { id: "fox" }), row("a bear", { line: 2 })];
  expect((await run(rows)).statuses).toEqual({ 1: "failed", 2: "completed" });
  for (const [options, changed, to_start] of [
    [{}, rows, 0],
    [{ retryFailed: true }, rows, 1],
    [{}, [row("a fox", { id: "fox" })], 1],
  ] as const) {
    const batch = await open([...changed], options);
    expect(batch.plan).toMatchObject({ failed: 1 - to_start, to_start });
    await batch.close();
  }
});

test("a changed row with the id of one that was paid for is a fault that names both", async () => {
  const { row, run, open } = createMachine(createService());
  await run([row("a bear"), row("a fox", { id: "fox", line: 2 })]);
  await expect(open([row("a hare", { id: "fox", line: 7 })])).rejects.toMatchObject({
    code: "usage",
    message: expect.stringMatching(/^line 7: "fox" is a different request .* line 2 .*gen-2/m),
  });
});

test("an output that exists is a fault, unless it is the row's own video", async () => {
  const service = createService();
  const { rows, run, open } = createMachine(service);
  const shots = rows("a fox", "a bear");
  writeFileSync(shots[1]?.outputPath ?? "", "a diary");
  await expect(open(shots)).rejects.toMatchObject({ code: "usage", message: expect.stringContaining("line 2") });
  expect(service.starts).toBe(0);
  await run(shots, { overwrite: true });
  expect((await run(shots)).batch.plan.done).toBe(2);
});

test("a service that accepts three generations at a time has to refuse few starts", async () => {
  const service = createService({ capacity: 3 });
  const { rows, run } = createMachine(service);
  const { statuses } = await run(rows(...Array.from({ length: 60 }, (_, i) => `shot ${i}`)));
  expect(Object.values(statuses).filter((status) => status === "completed")).toHaveLength(60);
  expect(service.refused.filter((at) => at > 60_000).length).toBeLessThan(10);
  expect(service.clock.now() / 60_000).toBeLessThan(30);
});

test("a service that accepts one start per ten seconds gets as many as it accepts", async () => {
  let last = Number.NEGATIVE_INFINITY;
  let refused = 0;
  const service = createService({
    fault() {
      if (service.clock.now() - last < 10_000) {
        refused++;
        return new Response("slow down", { status: 429 });
      }
      last = service.clock.now();
      return undefined;
    },
  });
  const { rows, run } = createMachine(service);
  const { end } = await run(rows(...Array.from({ length: 60 }, (_, i) => `shot ${i}`)), { jobs: 8 });
  expect(end.failures).toEqual([]);
  // One after the other would take an hour.
  expect(service.clock.now() / 60_000).toBeLessThan(40);
  expect(refused).toBeLessThan(30);
});

test("Retry-After is waited for", async () => {
  let starts = 0;
  const busy = () => new Response("later", { status: 429, headers: { "Retry-After": "300" } });
  const service = createService({ fault: () => (starts++ === 0 ? busy() : undefined) });
  const { rows, run } = createMachine(service);
  const { events } = await run(rows("a"));
  expect(events[0]).toMatchObject({ event: "started" });
  expect(service.generations[0]?.endsAt).toBe(360_000);
});

test.each([
  [402, "credits", { error: "no credits" }],
  [401, "auth", { error: "no such key" }],
  [403, "auth", { error: "no" }],
])("after a %i nothing more is started, and the next run tries again", async (status, code, body) => {
  const service = createService({ fault: (prompt) => (prompt === "b" ? Response.json(body, { status }) : undefined) });
  const machine = createMachine(service);
  const shots = machine.rows("a", "b", "c");
  const { end, statuses } = await machine.run(shots);
  expect(end.stopError).toMatchObject({ code });
  expect(statuses).toEqual({ 1: "completed", 2: "refused" });
  service.fault = undefined;
  expect((await machine.run(shots)).statuses).toEqual({ 2: "completed", 3: "completed" });
});

test("a refused row is written down and the rest continues; with --fail-fast it does not", async () => {
  const refuse = (prompt: string) =>
    prompt === "b" ? Response.json({ error: "no bears" }, { status: 400 }) : undefined;
  for (const [failFast, starts] of [
    [false, 4],
    [true, 2],
  ] as const) {
    const service = createService({ fault: refuse });
    const { rows, run } = createMachine(service);
    await run(rows("a", "b", "c", "d"), { failFast });
    expect(service.starts).toBe(starts);
  }
});

test("three unknown outcomes in a row stop it", async () => {
  const service = createService({ fault: () => new Response("oops", { status: 500 }) });
  const { rows, run } = createMachine(service);
  const { end } = await run(rows("a", "b", "c", "d"));
  expect(end.stopError).toMatchObject({ code: "unknown" });
  expect(service.starts).toBe(3);
});

test("Ctrl-C: the start that is out gets its id, and nothing more is started", async () => {
  const controller = new AbortController();
  const service = createService({
    fault: async (_, accept) => {
      controller.abort(new Error("Ctrl-C"));
      await service.clock.sleep(5_000);
      return accept();
    },
  });
  const { rows, run } = createMachine(service);
  const shots = rows("a", "b");
  const { events } = await run(shots, { signal: controller.signal });
  expect(events).toMatchObject([
    { event: "started", id: "gen-1" },
    { event: "ended", status: "processing" },
  ]);
  service.fault = undefined;
  expect((await run(shots)).batch.plan).toMatchObject({ running: 1, to_start: 1 });
});

test.each([
  ["--max-credits", { maxCredits: 55 }, 5],
  ["--keep-credits", { keepCredits: 955 }, 4],
])("%s stops before it is overrun, over several runs", async (_, limit, count) => {
  const service = createService({ credits: 1000 });
  const { rows, run } = createMachine(service);
  const shots = rows(..."abcdefgh");
  expect((await run(shots.slice(0, 3), limit)).end.stopError).toBeUndefined();
  const { end } = await run(shots, limit);
  expect(end.stopError).toMatchObject({ code: "credits" });
  expect(service.generations).toHaveLength(count);
});

test("--keep-credits counts rows that may have been charged", async () => {
  const service = createService({ credits: 1000 });
  service.fault = (prompt, accept) =>
    "cd".includes(prompt) ? accept() && new Response("", { status: 502 }) : undefined;
  const { rows, run } = createMachine(service);
  const shots = rows(..."abcdef");
  await run(shots, { keepCredits: 965 });
  await run(shots, { keepCredits: 965 });
  expect(service.credits).toBe(970);
});

test("a second process exits at once", async () => {
  const machine = createMachine(createService());
  const first = await machine.open(machine.rows("a"));
  const { open } = createMachine(createService());
  await expect(open(machine.rows("a"), { results: machine.results })).rejects.toMatchObject({ code: "usage" });
  await first.close();
});

test("a file that is no results file is not written to", async () => {
  const machine = createMachine(createService());
  for (const text of ["id,prompt\n1,a fox\n", "a diary\n"]) {
    writeFileSync(machine.results, text);
    await expect(machine.open(machine.rows("a"))).rejects.toMatchObject({ code: "usage" });
    expect(readFileSync(machine.results, "utf8")).toBe(text);
  }
});

test("while it runs, a start that is out is on its way; once it is killed, it may have been charged", async () => {
  const service = createService({ fault: () => new Promise(() => {}) });
  const machine = createMachine(service);
  void machine.run(machine.rows("a"));
  await service.clock.sleep(1_000);
  expect(await machine.status()).toMatchObject({ running: 1, unknown: 0 });
  machine.kill();
  expect(await machine.status()).toMatchObject({ running: 0, unknown: 1 });
});
