import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { iterateBatch } from "../../../src/client/batch/iterate.ts";
import { systemMachine } from "../../../src/io.ts";
import { lacks } from "../../needs.ts";
import { createMachine, createService } from "./machine.ts";

test("a listener that throws stops the starts, and what was started is saved", async () => {
  for (const name of ["started", "state", "ended"]) {
    const service = createService();
    const { rows, run, videoOf } = createMachine(service);
    const shots = rows("a", "b", "c", "d");
    const onEvent = ({ event }: { event: string }) => {
      if (event === name) throw new Error("my own bug");
    };
    const { end } = await run(shots, { jobs: 1, onEvent });
    expect(end.stopError).toMatchObject({ message: /my own bug/ });
    expect(service.starts).toBe(name === "ended" ? 1 : service.generations.length);
    expect(service.generations).toHaveLength(1);
    expect(shots.slice(0, 1).map(videoOf)).toEqual([expect.stringContaining("a")]);
  }
});

test.each([
  ["of a row that may have been charged", "unknown"],
  ["of a row that was refused", "failed"],
])("an output %s may exist: the user has fetched or made it", async (_, kind) => {
  const fault = (prompt: string) =>
    prompt === "a" ? new Response("oops", { status: kind === "unknown" ? 502 : 400 }) : undefined;
  const service = createService({ fault });
  const { rows, run } = createMachine(service);
  const shots = rows("a", "b");
  await run(shots.slice(0, 1));
  writeFileSync(shots[0]?.outputPath ?? "", "fetched by hand");
  const { batch } = await run(shots);
  expect(batch.plan).toMatchObject({ [kind]: 1, to_start: 1 });
});

test("generations that run for long do not make a busy service look dead", async () => {
  let lag = 0;
  const service = createService({ capacity: 1, renderMs: () => 20 * 60_000 });
  service.fault = () =>
    service.generations.length > 0 && lag++ % 2 === 1 ? Response.json({}, { status: 429 }) : undefined;
  const { rows, run } = createMachine(service);
  const { end, statuses } = await run(rows("a", "b", "c"), { timeoutMs: 3600_000 });
  expect(end.stopError).toBeUndefined();
  expect(statuses).toEqual({ 1: "completed", 2: "completed", 3: "completed" });
});

test.each([
  ["for ever", undefined],
  ["with a Retry-After of years", "999999999"],
])("a service that answers 429 %s ends the run", async (_, after) => {
  const headers: Record<string, string> = after === undefined ? {} : { "Retry-After": after };
  const service = createService({ fault: () => Response.json({}, { status: 429, headers }) });
  const { rows, run } = createMachine(service);
  const { end } = await run(rows("a"));
  expect(end.stopError).toMatchObject({ code: "network" });
  expect(service.clock.now()).toBeLessThan(20 * 60_000);
});

const pipe: [string, (path: string) => void][] = lacks("named pipes in folders")
  ? []
  : [["a pipe", (path) => void execFileSync("mkfifo", [path])]];
const badResults: [string, (path: string) => void, name?: string][] = [
  ["a folder", (path) => void mkdirSync(path)],
  ...pipe,
  ["in a folder that is a file", () => {}, "diary/results.jsonl"],
];

test.each(badResults)(
  "a results path that is %s is refused before anything is sent, and nothing is left",
  async (_, make, name = "r.jsonl") => {
    const service = createService();
    const { folder, rows, open } = createMachine(service);
    writeFileSync(join(folder, "diary"), "");
    const results = join(folder, name);
    make(results);
    await expect(open(rows("a"), { results })).rejects.toMatchObject({
      exit: expect.toSatisfy((exit) => [2, 9].includes(exit)),
    });
    expect(existsSync(`${results}.lock`)).toBe(false);
  },
);

const failing = () => Promise.reject(Object.assign(new Error("too many open files"), { code: "EMFILE" }));
const { disk: real } = systemMachine;
const failExceptLocks = ((path: string) =>
  path.includes(".lock") ? real.readdir(path) : failing()) as typeof real.readdir;
const failAtRows = ((path: string) => (path.endsWith(".csv") ? failing() : real.stat(path))) as typeof real.stat;

test.each([
  ["the folder of the rows cannot be listed", { ...real, readdir: failExceptLocks }],
  ["the rows file cannot be looked at", { ...real, stat: failAtRows }],
])("nothing is sent when %s: another shard may have paid for a row", async (_, disk) => {
  const service = createService();
  const machine = createMachine(service);
  await machine.run(machine.rows("a"), { results: join(machine.folder, "shots.csv.1-of-2.results.jsonl") });
  machine.rewriteJournal([]);
  await expect(machine.run(machine.rows("a"), { disk, overwrite: true })).rejects.toMatchObject({ code: "output" });
  expect(service.starts).toBe(1);
});

test("an output path that cannot be checked is named in the error, which is not a bug", async () => {
  const machine = createMachine(createService());
  const [shot] = machine.rows("a");
  if (shot?.outputPath === undefined) throw new Error("no row");
  writeFileSync(shot.outputPath, "");
  const stat = ((path: string) => (path === shot.outputPath ? failing() : real.stat(path))) as typeof real.stat;
  const message = `Cannot save ${shot.outputPath}: too many open files.`;
  await expect(machine.open([shot], { disk: { ...real, stat } })).rejects.toMatchObject({ code: "output", message });
});

test("a lock that can no longer be refreshed stops the run before the start, and is not a bug", async () => {
  const service = createService();
  const machine = createMachine(service);
  const utimes: typeof real.utimes = (path, ...times) =>
    String(path).includes(join("results.jsonl.lock", "/")) ? failing() : real.utimes(path, ...times);
  const { end } = await machine.run(machine.rows("a"), { disk: { ...real, utimes } });
  const message = `Cannot write ${machine.results}.lock: too many open files.`;
  expect(end.stopError).toMatchObject({ code: "output", message });
  expect(service.starts).toBe(0);
});

test("an unreadable lock beside another shard's results is named in the error, which is not a bug", async () => {
  const machine = createMachine(createService());
  const other = join(machine.folder, "shots.csv.1-of-2.results.jsonl");
  await machine.run(machine.rows("a"), { results: other });
  writeFileSync(`${other}.lock`, "");
  const message = `Cannot read ${other}.lock: part of the path is not a folder.`;
  await expect(machine.open(machine.rows("a"))).rejects.toMatchObject({ code: "output", message });
});

test("a lost lease stops the run: another process continues it", async () => {
  const service = createService();
  const machine = createMachine(service);
  const running = machine.run(machine.rows("a", "b"), { jobs: 1 });
  await service.clock.sleep(30_000);
  rmSync(`${machine.results}.lock`, { recursive: true });
  const { end } = await running;
  expect(end.stopError).toMatchObject({ code: "output", message: /no longer holds/ });
  expect(service.starts).toBe(1);
});

test("a number of jobs with which the run would hang is refused", async () => {
  const { rows, run } = createMachine(createService());
  for (const jobs of [0, Number.NaN]) await expect(run(rows("a"), { jobs })).rejects.toMatchObject({ code: "usage" });
});

test("a paid generation whose row is gone from the file is named", async () => {
  const service = createService();
  const machine = createMachine(service);
  const [fox, bear] = machine.rows("a fox", "a bear");
  void machine.run([fox, bear].flatMap((row) => row ?? []));
  await service.clock.sleep(20_000);
  machine.kill();
  const { notes } = await machine.open([machine.row("a hare"), ...(fox ? [fox] : [])]);
  expect(notes.join("\n")).toMatch(/gen-2/);
});

test("an unknown model gets one note", async () => {
  const { row, run } = createMachine(createService());
  const { batch } = await run([1, 2, 3].map((line) => row("a fox", { line, model: "wan-2.6" })));
  expect((batch as unknown as { notes: string[] }).notes.filter((note) => note.includes("wan-2.6"))).toHaveLength(1);
});

test("the iterator says why nothing more was started", async () => {
  const { rows, open } = createMachine(createService());
  const batch = await open(rows("a", "b", "c"));
  const { signal } = new AbortController();
  const events: string[] = [];
  for await (const each of iterateBatch(
    batch,
    { jobs: 1, maxCredits: 20, signal, abandon: signal, onNote() {} },
    () => new Date(0),
  ))
    events.push(each.event === "error" ? each.error.code : each.event);
  expect(events.slice(-2)).toEqual(["credits", "summary"]);
});

test("a row whose end cannot be written is not reported as done", async () => {
  const service = createService();
  const machine = createMachine(service);
  const running = machine.run(machine.rows("a"));
  await service.clock.sleep(20_000);
  rmSync(machine.results);
  mkdirSync(machine.results);
  const { end, events } = await running;
  expect(end.failures).toMatchObject([{ ended: { error: { code: "output" } } }]);
  expect(events.at(-1)).toMatchObject({ event: "ended", status: "completed", error: { code: "output" } });
});
