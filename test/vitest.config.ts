import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { isForeignInstalled } from "./foreign/installed.ts";

const quick = "test/**/*quick.test.ts";
const foreign = "test/foreign/**";

export default defineConfig({
  root: fileURLToPath(new URL("..", import.meta.url)),
  test: {
    testTimeout: 30_000,
    projects: [
      // One process for all: most of the time of a small file is the loading of what it tests.
      {
        extends: true,
        test: {
          name: "tests",
          include: ["test/**/*.test.ts"],
          exclude: ["**/node_modules/**", quick, ...(isForeignInstalled ? [] : [foreign])],
          isolate: false,
        },
      },
      // The goals of `npm run faults` and `npm run soak`, with smaller numbers.
      { extends: true, test: { name: "quick", include: [quick] } },
    ],
  },
});
