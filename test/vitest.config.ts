import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { isForeignInstalled } from "./needs.ts";
import { slowness } from "./slowness.ts";

const goals = "test/**/*quick.test.ts";
const foreign = "test/foreign/**/*.test.ts";
const slow = "test/**/*.slow.test.ts";
const packages = "**/node_modules/**";

export default defineConfig({
  root: fileURLToPath(new URL("..", import.meta.url)),
  test: {
    globalSetup: "test/setup.ts",
    setupFiles: "test/listeners.ts",
    testTimeout: 60_000 * slowness,
    hookTimeout: 60_000 * slowness,
    expect: { poll: { timeout: 10_000 * slowness } },
    env: { TEST_SLOWNESS: String(slowness) },
    // By default vitest leaves one core to itself, half of a small machine.
    maxWorkers: availableParallelism(),
    projects: [
      // `npm test`. The files share their processes: most of the time of a small file is the loading of what it tests.
      {
        extends: true,
        test: {
          name: "fast",
          include: ["test/**/*.test.ts"],
          exclude: [packages, slow, goals, foreign],
          isolate: false,
        },
      },
      // What needs a browser, a database server, another program, packages of others, or whole videos.
      {
        extends: true,
        test: {
          name: "slow",
          include: [slow, ...(isForeignInstalled ? [foreign] : [])],
          exclude: [packages],
          isolate: false,
        },
      },
      // The goals of `npm run faults` and `npm run soak`, with smaller numbers; some of them measure, so that nothing else may run beside them.
      { extends: true, test: { name: "goals", include: [goals], sequence: { groupOrder: 1 } } },
    ],
  },
});
