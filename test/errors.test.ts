import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import {
  asVidgenError,
  beforePaying,
  type CommandErrorCode,
  compareSeverity,
  exits,
  isSignal,
  systemCode,
  systemHint,
  systemReason,
  usage,
  VidgenError,
} from "../src/errors.ts";

function failure(code: string | number | undefined, cause?: unknown): Error {
  return Object.assign(new Error("it went wrong", { cause }), code === undefined ? {} : { code });
}

test("the exit codes are the design's", () => {
  expect(Object.entries(exits).map(([code, { exit }]) => [code, exit])).toEqual([
    ["ok", 0],
    ["rejected", 1],
    ["bug", 1],
    ["usage", 2],
    ["auth", 3],
    ["failed", 4],
    ["pending", 5],
    ["unknown", 6],
    ["credits", 7],
    ["network", 8],
    ["output", 9],
    ["not_found", 10],
    ["hung_up", 129],
    ["interrupted", 130],
    ["terminated", 143],
  ]);
});

test("the order of docs/exit-codes.md is that in which several errors decide the exit code", async () => {
  const page = await readFile(new URL("../src/docs/exit-codes.md", import.meta.url), "utf8");
  const [, order = ""] = /first one\s+in this order: ([^.]+)\./.exec(page) ?? [];
  const placeOf = (code: CommandErrorCode) => (isSignal({ code }) ? "a signal" : String(exits[code].exit));
  const codes = Object.keys(exits).filter((code) => code !== "ok") as CommandErrorCode[];
  const worstFirst = codes.map((code) => ({ code })).sort(compareSeverity);
  const places = worstFirst.map(({ code }) => placeOf(code));
  expect(places.filter((place, index) => place !== places[index - 1])).toEqual(order.split(/,\s+/));
});

test("only exit 6 says that it may have been charged", () => {
  const charged = Object.entries(exits).filter(([, { meaning }]) => meaning.includes("may have been charged"));
  expect(charged.map(([code]) => code)).toEqual(["unknown"]);
});

test.each(Object.keys(exits).filter((code) => code !== "ok") as CommandErrorCode[])(
  "an error %s ends with its exit code",
  (code) => {
    expect(new VidgenError(code, "It went wrong.").exit).toBe(exits[code].exit);
  },
);

test("what an error already says wins over what is added; a further hint goes below the first", () => {
  const error = new VidgenError("output", "Full.", { hint: "Delete something.", httpStatus: 507, cause: "disk" });
  const { code, message, hint, id, httpStatus, cause } = error.with({
    hint: "Try again.",
    id: "1b4e28ba",
    httpStatus: 500,
    cause: "other",
  });
  expect({ code, message, hint, id, httpStatus, cause }).toEqual({
    code: "output",
    message: "Full.",
    hint: "Delete something.\nTry again.",
    id: "1b4e28ba",
    httpStatus: 507,
    cause: "disk",
  });
  expect(error).toMatchObject({ id: undefined, hint: "Delete something." });
});

test("an error without hints has none", () => {
  expect(usage("Bad flag.").with({ id: "1b4e28ba" })).toMatchObject({ id: "1b4e28ba", hint: undefined });
});

test("a usage error ends with 2", () => {
  expect(usage("Bad flag.", "Try --help.")).toMatchObject({ code: "usage", exit: 2, hint: "Try --help." });
});

test("an error of ours stays what it is", () => {
  const error = usage("Bad flag.");
  expect(asVidgenError(error)).toBe(error);
});

test.each([
  [new TypeError("x is not a function"), "x is not a function"],
  ["text", "text"],
  [undefined, "undefined"],
  [null, "null"],
])("%s is a defect of vidgen", (thrown, message) => {
  const error = asVidgenError(thrown);
  expect(error).toMatchObject({ code: "bug", exit: 1, message: `Internal error in vidgen: ${message}` });
  expect(error.cause).toBe(thrown);
});

test.each([
  ["of the error", failure("ENOSPC"), "ENOSPC"],
  ["of the error, before its cause's", failure("ENOSPC", failure("EPIPE")), "ENOSPC"],
  ["of its cause", failure(undefined, failure("ECONNRESET")), "ECONNRESET"],
  ["of its cause's cause", failure(undefined, failure(undefined, failure("EPIPE"))), "EPIPE"],
  ["of its cause, its own being a number", failure(5, failure("EPIPE")), "EPIPE"],
  ["of several errors' first", new AggregateError([failure("ECONNREFUSED"), failure("ETIMEDOUT")]), "ECONNREFUSED"],
  ["of several errors in a cause", failure(undefined, new AggregateError([failure("ECONNREFUSED")])), "ECONNREFUSED"],
  ["of several errors, before theirs", Object.assign(new AggregateError([failure("A")]), { code: "B" }), "B"],
  ["of none", failure(undefined), undefined],
  ["of no errors", new AggregateError([]), undefined],
  ["of what is no error", { code: "ENOSPC" }, undefined],
  ["of a text", "ENOSPC", undefined],
  ["of nothing", undefined, undefined],
])("the system code %s", (_, error, code) => {
  expect(systemCode(error)).toBe(code);
});

test("an error that is its own cause is not followed for ever", () => {
  const error = failure(undefined);
  error.cause = error;
  expect(systemCode(error)).toBe(undefined);
});

test("why a file could not be used is stated in words; a failure nobody has words for speaks for itself", () => {
  expect(systemReason(failure("ENOSPC"))).toBe("the disk is full");
  expect(systemReason(failure("ENOENT"), { ENOENT: "there is no such file" })).toBe("there is no such file");
  expect(systemReason(failure("EWHAT"))).toBe("it went wrong");
});

test.each<[CommandErrorCode, string, string | undefined, string]>([
  ["usage", "-o is empty.", undefined, "-o is empty."],
  ["auth", "No API key.", "Log in.", "No API key. Nothing was sent, nothing was charged."],
  ["output", "It is on fire", undefined, "It is on fire. Nothing was sent, nothing was charged."],
  ["interrupted", "Not started.", undefined, "Not started. Nothing was sent, nothing was charged."],
  ["failed", "No frame. Nothing was sent.", undefined, "No frame. Nothing was sent."],
  ["unknown", "It may have been charged.", "Check first.", "It may have been charged."],
])(
  "an error with the code %s before anything is paid for says so where money is concerned: %s",
  (code, message, hint, said) => {
    expect(beforePaying(new VidgenError(code, message, { hint }))).toMatchObject({ code, message: said, hint });
  },
);

test.each([
  ["EBUSY", -16, /^it is a mount/, /mount its folder instead/],
  ["EBUSY", -4082, /^another program has it open$/, /^Close that program/],
  ["EMFILE", -24, /^too many open files$/, /ulimit -n/],
  ["EMFILE", -4066, /^too many open files$/, undefined],
  ["ENFILE", -23, /on this machine$/, undefined],
])("%s of the number %i is told with the meaning of its system", (code, errno, reason, hint) => {
  const error = new Error("failed", { cause: Object.assign(new Error(code), { code, errno }) });
  expect(systemReason(error)).toMatch(reason);
  expect(systemHint(error) ?? "").toMatch(hint ?? /^$/);
});
