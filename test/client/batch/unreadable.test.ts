import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { openResults, readResults } from "../../../src/client/batch/results.ts";
import { type Disk, systemMachine } from "../../../src/io.ts";
import { createMachine, createService } from "./machine.ts";

type Line = Record<string, unknown>;

/** A results file of two rows that are paid for, as its lines; another machine has it, and no journal. */
async function createPaid() {
  const service = createService();
  const machine = createMachine(service);
  const shots = machine.rows("a", "b");
  await machine.run(shots, { jobs: 1 });
  machine.rewriteJournal([]);
  return { service, machine, shots, lines: readFileSync(machine.results, "utf8").trimEnd().split("\n") };
}

const swap = (lines: string[], at: number, line: string) => lines.map((each, i) => (i === at ? line : each));

test.each<[string, (lines: string[]) => string[], number]>([
  ["a line of another kind", (lines) => [...lines, '{"at":"2030","note":"hello"}'], 12],
  ["a cut line in the middle", (lines) => swap(lines, 3, lines[3]?.slice(0, 40) ?? ""), 4],
  ["the end of a line", (lines) => swap(lines, 6, lines[6]?.slice(9) ?? ""), 7],
  ["conflict marks", ([first = "", ...lines]) => [first, "<<<<<<< HEAD", ...lines, "=======", ">>>>>>> main"], 2],
  ["conflict marks around the beginning", (lines) => ["<<<<<<< HEAD", ...lines], 1],
  ["all lines joined into one", (lines) => [lines.join(" ")], 1],
  ["lines joined after the first", ([first = "", ...lines]) => [first, lines.join("")], 2],
])("%s stops the run and the status, and nothing is sent", async (_, broken, number) => {
  const { service, machine, shots, lines } = await createPaid();
  const text = `${broken(lines).join("\n")}\n`;
  writeFileSync(machine.results, text);
  const says = {
    code: "usage",
    message: expect.stringMatching(`Cannot read line ${number} of|is not a results file`),
  };
  await expect(machine.open(shots)).rejects.toMatchObject(says);
  await expect(machine.status()).rejects.toMatchObject(says);
  expect(service.starts).toBe(2);
  expect(readFileSync(machine.results, "utf8")).toBe(text);
});

test.each<[string, (text: string) => string]>([
  ["a torn last line", (text) => text.slice(0, -20)],
  ["a last line of which a power failure has left zeros", (text) => text.slice(0, -60) + "\0".repeat(60)],
  ["a torn last line, and a run after it", (text) => `${text.slice(0, -20)}\n${text.slice(0, text.indexOf("\n") + 1)}`],
  ["CRLF and a byte order mark", (text) => `\ufeff${text.replaceAll("\n", "\r\n")}`],
])("%s is read", async (_, changed) => {
  const { service, machine, shots } = await createPaid();
  writeFileSync(machine.results, changed(readFileSync(machine.results, "utf8")));
  for (let runs = 0; runs < 3; runs++) await machine.run(shots, { overwrite: true });
  expect(await machine.status()).toMatchObject({ rows: 2, done: 2 });
  expect(service.starts).toBe(2);
});

test.each<[string, (lines: Line[]) => Line[]]>([
  ["the start", (lines) => lines.map((line) => (line.kind === "accepted" ? { ...line, kind: "taken" } : line))],
  ["the end", (lines) => lines.map((line) => (line.kind === "delivered" ? { ...line, kind: "archived" } : line))],
  ["what came after that", (lines) => [...lines, { ...lines.at(-1), kind: "archived" }]],
  [
    "the start, with an id of another type",
    (lines) => lines.map((line) => (line.kind === "accepted" ? { ...line, id: 7 } : line)),
  ],
])("a newer version's line about %s is no reason to pay again", async (_, change) => {
  const { service, machine, shots, lines } = await createPaid();
  const changed = change(lines.map((line) => JSON.parse(line)));
  writeFileSync(machine.results, changed.map((line) => `${JSON.stringify(line)}\n`).join(""));
  for (let runs = 0; runs < 2; runs++) expect((await machine.run(shots)).batch.plan.to_start).toBe(0);
  expect(await machine.status()).toMatchObject({ rows: 2, missing: 0, failed: 0, lost: 0 });
  expect(service.starts).toBe(2);
});

test("a line about a start whose row is gone stops the run and the status, and nothing is sent", async () => {
  const { service, machine, shots, lines } = await createPaid();
  writeFileSync(machine.results, [...lines.filter((_, i) => i !== 1), ""].join("\n"));
  const says = {
    code: "usage",
    message: `Cannot read line 2 of ${machine.results}: without it, a row could be paid for twice. Nothing was sent.`,
  };
  await expect(machine.open(shots)).rejects.toMatchObject(says);
  await expect(machine.status()).rejects.toMatchObject(says);
  expect(service.starts).toBe(2);
});

test("the results file is deleted while the batch runs: what the journal knows of its rows is written again, and without that it stops", async () => {
  const service = createService();
  const machine = createMachine(service);
  const shots = machine.rows("a", "b", "c");
  const running = machine.run(shots, { jobs: 2 });
  await service.clock.sleep(10_000);
  rmSync(machine.results);
  await running;
  const text = readFileSync(machine.results, "utf8");
  expect((await machine.run(shots)).batch.plan).toMatchObject({ done: 3 });
  writeFileSync(machine.results, text);
  machine.rewriteJournal([]);
  await expect(machine.run(shots)).rejects.toMatchObject({ message: expect.stringContaining("Cannot read line 2 of") });
  expect(service.starts).toBe(3);
});

test("a line that was cut by a full disk does not make the lines after it unreadable", async () => {
  const { machine } = await createPaid();
  const { lastRun, attempts } = await readResults(machine.results, systemMachine.disk);
  const [intent] = attempts[0] ?? [];
  if (!lastRun || !intent) throw new Error("nothing is written down");
  const line = { ...intent, attempt: "another" };
  let isFull = true;
  const open: Disk["open"] = async (...args) => {
    const file = await systemMachine.disk.open(...args);
    const write = (bytes: Buffer) => file.write(isFull ? bytes.subarray(0, 30) : bytes);
    return Object.assign(Object.create(file), { write });
  };
  const { append } = openResults(machine.results, lastRun, {
    redact: (text) => text,
    ...systemMachine,
    disk: { ...systemMachine.disk, open },
  });
  await expect(append(line)).rejects.toMatchObject({ code: "output" });
  isFull = false;
  await append({ ...line, attempt: "a third" });
  const read = await readResults(machine.results, systemMachine.disk);
  expect(read.attempts.map(([{ attempt }]) => attempt)).toEqual([
    ...attempts.map(([{ attempt }]) => attempt),
    "a third",
  ]);
});
