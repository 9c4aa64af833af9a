import { defineConfig } from "vitest/config";
import { isPausedParser } from "./faults/undici.ts";

export default defineConfig({
  root: new URL("..", import.meta.url).pathname,
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 30_000,
    onUnhandledError: (error) => !isPausedParser(error),
  },
});
