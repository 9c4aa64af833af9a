import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { createReport } from "../faults/report.ts";

const run = { pool: "forks" as const, execArgv: ["--no-warnings"] };

export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  test: {
    reporters: [createReport()],
    projects: [
      {
        test: {
          ...run,
          name: "together",
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
          include: ["*.goal.ts"],
          exclude: ["*.alone.goal.ts"],
        },
      },
      // What is measured is not to be measured beside something else.
      {
        test: {
          ...run,
          name: "alone",
          maxWorkers: 1,
          fileParallelism: false,
          sequence: { groupOrder: 2 },
          include: ["*.alone.goal.ts"],
        },
      },
    ],
  },
});
