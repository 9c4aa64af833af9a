import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { createReport } from "./report.ts";

export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  test: {
    include: ["*.goal.ts"],
    pool: "forks",
    maxWorkers: 2,
    execArgv: ["--no-warnings"],
    reporters: [createReport()],
  },
});
