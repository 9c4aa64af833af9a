import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { PassThrough } from "node:stream";
import { describe, expect, test } from "vitest";
import { findPager, runPager } from "../../../src/cli/terminal/pager.ts";
import { makeFolder } from "../../folder.ts";
import { lacks } from "../../needs.ts";

test.each([
  [{}, "less"],
  [{ PAGER: "less -S" }, "less -S"],
  [{ PAGER: "" }, undefined],
  [{ PAGER: "cat" }, undefined],
  [{ TERM: "dumb" }, undefined],
  [{ CI: "true" }, undefined],
])("with %j the pager is %j", (env, pager) => {
  const at = (isTTY: boolean) => ({ stdout: Object.assign(new PassThrough(), { isTTY }), env });
  const output = { json: false, events: false };
  expect(findPager({ io: at(true), output, input: true })).toBe(pager);
  expect(findPager({ io: at(false), output, input: true })).toBe(undefined);
});

describe.skipIf(lacks("sh"))("a pager", () => {
  const { PATH } = process.env;

  test.each(["no-such-pager", "no-such-pager -R", "/dev/null", "no-such-pager 2>/dev/null"])(
    "%s is not there: nothing is shown",
    (pager) => {
      expect(runPager("a page", pager, { PATH })).toBe(false);
    },
  );

  test("reads the text, and gets less's flags as from git, unless there are others", () => {
    const file = join(makeFolder(), "shown");
    const pager = `{ echo "$LESS $LV"; cat; } > '${file}'`;
    expect(runPager("a page\n", pager, { PATH })).toBe(true);
    expect(readFileSync(file, "utf8")).toBe("FRX -c\na page\n");
    runPager("a page\n", pager, { PATH, LESS: "-S" });
    expect(readFileSync(file, "utf8")).toBe("-S -c\na page\n");
  });

  test("that is left before the end, or fails, has shown the text", () => {
    expect(runPager("line\n".repeat(100_000), "true", { PATH })).toBe(true);
    expect(runPager("a page", "false", { PATH })).toBe(true);
  });
});
