import { defineConfig } from "vitest/config";

export default defineConfig({
  root: new URL("..", import.meta.url).pathname,
  // The fault runs have a configuration of their own: npm run faults.
  test: { include: ["test/**/*.test.ts"], exclude: ["test/faults/**"], testTimeout: 30_000 },
});
