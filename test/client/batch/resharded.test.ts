import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { expect, test } from "vitest";
import { keyRows, type Row, shardOf } from "../../../src/client/batch/row.ts";
import { readStatus } from "../../../src/client/batch/status.ts";
import { systemMachine } from "../../../src/io.ts";
import { lacks } from "../../needs.ts";
import { createMachine, createService, leaveAlone } from "./machine.ts";

type Part = { shard: string | null; file?: string; results?: string };

/** A machine with twelve rows, whose runs do a part of them, as `--shard` does. */
function createShots(renderMs = 60_000) {
  const service = createService({ renderMs: () => renderMs });
  const machine = createMachine(service, { isAlive: () => true });
  const rows = machine.rows(..."abcdefghijkl");
  const keyed = keyRows(rows);
  const partOf = (shard: string | null): Row[] => {
    const [index = 0, of = 0] = shard?.split("/").map(Number) ?? [];
    return keyed.filter((row) => of === 0 || shardOf(row, of) === index);
  };
  const options = ({ shard, file = machine.rowsFile, results }: Part) => ({
    source: { file, total: rows.length, shard },
    overwrite: true,
    results: results ?? `${file}${shard ? `.${shard.replace("/", "-of-")}` : ""}.results.jsonl`,
  });
  return {
    service,
    machine,
    rows,
    run: (part: Part) => machine.run(partOf(part.shard), options(part)),
    open: (part: Part) => machine.open(partOf(part.shard), options(part)),
    results: (part: Part) => options(part).results,
  };
}

type Shots = ReturnType<typeof createShots>;

const halves = [{ shard: "1/2" }, { shard: "2/2" }];
const thirds = [{ shard: "1/3" }, { shard: "2/3" }, { shard: "3/3" }];

/** The runs after those of the two halves. */
const ways: [string, (shots: Shots) => Part[]][] = [
  ["by other shards", () => thirds],
  ["without --shard", () => [{ shard: null }]],
  [
    "by other shards, with the journal alone",
    ({ results }) => {
      for (const half of halves) rmSync(results(half));
      return thirds;
    },
  ],
  [
    "by other shards, with the results files alone",
    ({ machine }) => {
      machine.rewriteJournal([]);
      return thirds;
    },
  ],
  [
    "with --results in another folder",
    ({ machine }) => {
      mkdirSync(join(machine.folder, "out"));
      return [{ shard: null, results: join(machine.folder, "out/all.jsonl") }];
    },
  ],
  [
    "with other --results beside the rows file, without the journal",
    ({ machine }) => {
      machine.rewriteJournal([]);
      return [{ shard: null, results: join(machine.folder, "all.jsonl") }];
    },
  ],
  [
    "after the rows file was renamed, without the journal",
    ({ machine }) => {
      machine.rewriteJournal([]);
      const file = join(machine.folder, "takes.csv");
      renameSync(machine.rowsFile, file);
      return [{ shard: null, file }];
    },
  ],
  [
    "by a hard link to the rows file",
    ({ machine }) => {
      const file = join(machine.folder, "takes.csv");
      linkSync(machine.rowsFile, file);
      return [
        { shard: "1/3", file },
        { shard: null, file },
      ];
    },
  ],
  [
    "by a symbolic link to the rows file from another folder",
    ({ machine }) => {
      const file = join(machine.folder, "links/takes.csv");
      mkdirSync(join(machine.folder, "links"));
      symlinkSync(machine.rowsFile, file);
      return [
        { shard: "1/3", file },
        { shard: null, file },
      ];
    },
  ],
  [
    "after the results files were renamed, without the journal",
    ({ machine, results }) => {
      machine.rewriteJournal([]);
      for (const [i, half] of halves.entries()) renameSync(results(half), join(machine.folder, `old-${i}.jsonl`));
      return [{ shard: null }];
    },
  ],
];

test.each(ways.filter(([way]) => !(way.includes("symbolic") && lacks("symbolic links"))))(
  "rows that two shards have paid for are done %s",
  async (_, change) => {
    const shots = createShots();
    for (const half of halves) await shots.run(half);
    for (const part of change(shots)) {
      const { batch } = await shots.run(part);
      expect(batch.plan).toMatchObject({ done: batch.plan.rows, to_start: 0 });
    }
    expect(shots.service.starts).toBe(12);
  },
);

test.each([true, false])(
  "rows that a killed shard has started are followed by another one; the journal is there: %s",
  async (isThere) => {
    const shots = createShots();
    const { machine, service } = shots;
    void shots.run({ shard: "1/2" });
    await service.clock.sleep(10_000);
    machine.kill();
    machine.isAlive = () => false;
    if (!isThere) leaveAlone(machine);
    const started = service.starts;
    const { batch, statuses } = await shots.run({ shard: null });
    expect(batch.plan).toMatchObject({ running: started, to_start: 12 - started });
    expect(new Set(Object.values(statuses))).toEqual(new Set(["completed"]));
    expect(service.starts).toBe(12);
  },
);

test("while a shard runs, a run that shares rows with it is refused, and a disjoint one is not", async () => {
  const { open } = createShots();
  const first = await open({ shard: "1/2" });
  for (const shard of ["1/3", "1/2", null])
    await expect(open({ shard })).rejects.toMatchObject({ code: "usage", message: /1-of-2.*Nothing was sent/ });
  const other = await open({ shard: "2/2" });
  await other.close();
  await first.close();
  await (await open({ shard: null })).close();
});

test("a run is refused while another one holds the results file by another name", async () => {
  const { open, machine, results } = createShots();
  await (await open({ shard: null })).close();
  mkdirSync(join(machine.folder, "elsewhere"));
  const link = join(machine.folder, "elsewhere/r.jsonl");
  linkSync(results({ shard: null }), link);
  // As a program has it, which has no rows file.
  const first = await open({ shard: null, file: "", results: results({ shard: null }) });
  await expect(open({ shard: null, file: "", results: link })).rejects.toMatchObject({
    code: "usage",
    message: /holds/,
  });
  await first.close();
});

test("the journal's attempts are found by every name of the results file", async () => {
  const service = createService();
  const machine = createMachine(service);
  const source = { file: "", total: 1, shard: null };
  await machine.run(machine.rows("a"), { source });
  const results = join(machine.folder, "renamed.jsonl");
  const [begin = ""] = readFileSync(machine.results, "utf8").split("\n");
  writeFileSync(results, `${begin}\n`);
  rmSync(machine.results);
  expect((await machine.run(machine.rows("a"), { source, results })).batch.plan).toMatchObject({ done: 1 });
  expect(service.starts).toBe(1);
});

test("the journal knows a rows file whose results were elsewhere and are gone, also by a new name", async () => {
  const { service, machine, run } = createShots();
  const results = join(machine.folder, "out/all.jsonl");
  await run({ shard: null, results });
  rmSync(results);
  const file = join(machine.folder, "takes.csv");
  renameSync(machine.rowsFile, file);
  expect((await run({ shard: null, file })).batch.plan).toMatchObject({ done: 12 });
  expect(service.starts).toBe(12);
});

test("a damaged results file of another shard stops the run", async () => {
  const shots = createShots();
  await shots.run({ shard: "1/2" });
  writeFileSync(shots.results({ shard: "1/2" }), "<<<<<<< HEAD\n");
  await expect(shots.open({ shard: null })).rejects.toMatchObject({ code: "usage", message: /1-of-2/ });
});

test("the results of another rows file, or of another service, do not count", async () => {
  const shots = createShots();
  const { machine, service } = shots;
  const file = join(machine.folder, "takes.csv");
  writeFileSync(file, "");
  await shots.run({ shard: "1/2", file });
  const batch = await shots.open({ shard: null });
  expect(batch.plan).toMatchObject({ done: 0, to_start: 12 });
  await batch.close();
  const local = { baseUrl: "http://vidgen.localhost", results: join(machine.folder, "local.jsonl"), overwrite: true };
  await machine.run(shots.rows.slice(0, 1), local);
  const starts = service.starts;
  const { notes, ...again } = await machine.open(shots.rows.slice(0, 1), { overwrite: true });
  expect(again.plan).toMatchObject({ to_start: 1 });
  expect(notes.join()).toContain("vidgen.localhost");
  expect(service.starts).toBe(starts);
});

test("paths in the results file are relative to it: the folder may move, with its videos", async () => {
  const shots = createShots();
  await shots.run({ shard: null });
  const { machine } = shots;
  const moved = join(machine.folder, "moved");
  mkdirSync(moved);
  for (const row of shots.rows) renameSync(row.outputPath ?? "", join(moved, basename(row.outputPath ?? "")));
  renameSync(machine.rowsFile, join(moved, "shots.csv"));
  renameSync(machine.results, join(moved, "shots.csv.results.jsonl"));
  machine.rewriteJournal([]);
  expect((await shots.run({ shard: null, file: join(moved, "shots.csv") })).batch.plan).toMatchObject({ done: 12 });
});

test("the status of shards of two numbers counts each row once", async () => {
  const shots = createShots();
  for (const part of [...halves, ...thirds]) await shots.run(part);
  const files = [...halves, ...thirds].map(shots.results);
  const status = await readStatus(files, systemMachine);
  expect(status).toMatchObject({ rows: 12, done: 12, missing: 0, shards: null, double_rows: [] });
});
