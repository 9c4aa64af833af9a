import { expect, test } from "vitest";
import { judgeFreeSpace } from "../../../src/cli/doctor/machine.ts";

test.each([
  [5_000_000_000, "pass", "5.00 GB"],
  [79_400_000_000, "pass", "79 GB"],
  [400_000_000, "warn", "400.0 MB"],
  [10_000_000, "fail", "10.0 MB"],
])("%i free bytes: %s", (bytes, state, says) => {
  expect(judgeFreeSpace(bytes)).toMatchObject({ state, says: expect.stringContaining(says) });
});
