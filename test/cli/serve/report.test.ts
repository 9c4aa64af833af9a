import { expect, test } from "vitest";
import { describeVideoAccess } from "../../../src/cli/serve/report.ts";

test.each([
  [{}, " until it is deleted (--keep does that after a time) or its account is disabled."],
  [{ keep: "30d" }, " until it is deleted, at most 30d after it was generated, or its account is disabled."],
  [
    { mediaRedirect: true as const },
    " disabled. The store's own address, to which --media-redirect leads, ends after 15 minutes.",
  ],
])("with %j, says who can see a video, and what ends that", (options, end) => {
  const line = describeVideoAccess(options);
  expect(line).toMatch(/^Anyone with the address of a video can see it without a key, until it is deleted/);
  expect(line.endsWith(end)).toBe(true);
});
