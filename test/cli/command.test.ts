import { Command } from "@commander-js/extra-typings";
import { expect, test } from "vitest";
import { collectValues, flagWords, readTimes } from "../../src/cli/command.ts";

test.each([
  ["90s", 90_000],
  ["5m", 300_000],
  ["1h30m", 5_400_000],
  ["30d", 2_592_000_000],
  ["1y1d", 31_622_400_000],
  ["1h", 3_600_000],
  ["2m30s", 150_000],
  ["45", 45_000],
  ["1.5s", 1_500],
  ["0.5", 500],
  ["5 minutes", 300_000],
  ["1 hour 30 min", 5_400_000],
  ["90 seconds", 90_000],
  ["1 m", 60_000],
  ["2 days", 172_800_000],
])("the time %s is %i ms", (text, ms) => {
  expect(readTimes({ timeout: text }).timeoutMs).toBe(ms);
});

const noTimes = [
  "",
  "0",
  "0s",
  "0m",
  "-5",
  "5x",
  "m",
  "1m1h",
  "1 h m",
  "5 foxes",
  "1e3",
  "5M",
  "1.5m",
  "Infinity",
  "NaN",
  "9".repeat(20),
];
test.each(noTimes)("the time %j is refused", (text) => {
  expect(() => readTimes({ timeout: text }).timeoutMs).toThrow(
    `--timeout must be a time such as 90s, 5m, 1h30m or plain seconds, not "${text}"`,
  );
});

test.each([
  [undefined, undefined],
  ["1", 1_000],
  ["1m", 60_000],
])("the interval %s is %s ms", (text, ms) => {
  expect(readTimes({ timeout: "15m", ...(text === undefined ? {} : { interval: text }) }).intervalMs).toBe(ms);
});

test.each(["0.9", "0.999s", "0", ""])("the interval %j is refused", (text) => {
  expect(() => readTimes({ timeout: "15m", interval: text })).toThrow("--interval");
});

test("the flags of a command line that says the same: those with their default are left out", () => {
  const command = new Command()
    .option("-m, --model <id>")
    .option("--no-wait")
    .option("--timeout <time>", "", "15m")
    .option("--set <field=value>", "", collectValues)
    .option("-o, --output <path>")
    .option("--local");
  const defaults = { wait: true, timeout: "15m" };
  expect(flagWords(command, { ...defaults, model: undefined })).toEqual([]);
  const values = { model: "ray-3", wait: false, timeout: "1m", set: ["a=1", "b=2"], output: ".", local: true };
  expect(flagWords(command, values).join(" ")).toBe(
    "--model ray-3 --no-wait --timeout 1m --set a=1 --set b=2 -o . --local",
  );
});
