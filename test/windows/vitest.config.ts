import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** `npm run test:windows`: the built program on Windows, or on Linux under Wine. */
export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  test: {
    globalSetup: "../setup.ts",
    include: ["*.goal.ts"],
    testTimeout: 600_000,
    hookTimeout: 600_000,
    fileParallelism: false,
  },
});
