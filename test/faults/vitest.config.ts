import { defineConfig } from "vitest/config";
import { createReport } from "./report.ts";

export default defineConfig({
  root: new URL(".", import.meta.url).pathname,
  test: {
    include: ["*.goal.ts"],
    pool: "forks",
    maxWorkers: 2,
    execArgv: ["--no-warnings"],
    reporters: [createReport()],
  },
});
