import process from "node:process";
import type { Reporter, TestCase } from "vitest/node";
import { seed } from "./random.ts";

/** The command that was typed: several print their goals so. */
const script = process.env.npm_lifecycle_event ?? "faults";

/** Prints one line a goal, in order, and what it all took. vitest itself ends non-zero when one falls short. */
export function createReport(): Reporter {
  const start = performance.now();
  return {
    onInit() {
      print(`seed ${seed} (SEED=${seed} npm run ${script} repeats it)`);
    },
    onTestCaseResult(test) {
      const { goal } = test.meta();
      print(
        `${goal?.isReached ? "done" : "FAIL"}  ${test.name}${goal ? ` after ${(goal.ms / 1000).toFixed(1)} s` : ""}`,
      );
      for (const { message = "" } of test.result().errors ?? []) print(message.replace(/^/gm, "      "));
    },
    onTestRunEnd(modules, errors) {
      const broken = modules.flatMap((module) => [...module.errors()]);
      for (const [message, times] of countOf([...broken, ...errors].map(({ stack, message }) => stack ?? message)))
        print(`FAIL  thrown outside any goal, ${times} x: ${message}`);
      const tests = modules.map((module) => [...module.children.allTests()]);
      const lines = tests.flat().flatMap((test) => test.meta().goal ?? []);
      print("");
      for (const { number, title, figures, target, isReached } of lines.sort((a, b) => a.number - b.number))
        print(`${String(number).padStart(2)} ${isReached ? "pass" : "FAIL"}  ${title}: ${figures} (target: ${target})`);
      const peaks = tests.map((inModule) => megabytes(Math.max(0, ...inModule.map(peakOf))));
      const seconds = Math.round((performance.now() - start) / 1000);
      const own = megabytes(process.resourceUsage().maxRSS);
      print(`\n${seconds} s in all; peak memory ${own} (runner), ${peaks.join(", ")} (workers)`);
    },
  };
}

function countOf(texts: string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  return counts;
}

function peakOf(test: TestCase): number {
  return test.meta().peakKb ?? 0;
}

function megabytes(kilobytes: number): string {
  return `${Math.round(kilobytes / 1024)} MB`;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
