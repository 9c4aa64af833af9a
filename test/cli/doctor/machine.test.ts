import { expect, test } from "vitest";
import { judgeFreeSpace } from "../../../src/cli/doctor/machine.ts";

test.each([
  [5_000_000_000, "pass", "5.00 GB"],
  [79_400_000_000, "pass", "79 GB"],
  [400_000_000, "warn", "0.40 GB"],
  [10_000_000, "fail", "0.01 GB"],
])("%i free bytes: %s", (bytes, state, says) => {
  expect(judgeFreeSpace(bytes)).toMatchObject({ state, says: expect.stringContaining(says) });
});
