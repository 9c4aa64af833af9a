import { expect, test } from "vitest";
import { describeJsonFault, findJsonFault } from "../../src/protocol/json-fault.ts";

test.each([
  ['{"a":1,\n }', 2, 2],
  ['{"a":[1,\n2,],"b":1}', 2, 3],
  ["{}\n// a comment", 2, 1],
  ['{\n  /* a comment */ "a": 1}', 2, 3],
  ["{'a': 1}", 1, 2],
  ["{a: 1}", 1, 2],
  ['{"a" 1}', 1, 6],
  ['{"a": 01}', 1, 7],
  ['{"a": tru}', 1, 7],
  ['{"a": "\\x"}', 1, 7],
  ['{"a": "line\nend"}', 1, 7],
  ['{"a": 1]', 1, 8],
  ['{"a": 1} {"b": 2}', 1, 10],
  ['{"a": {"b": [1, {"c": null, "d": -1.5e+3}]},\n\n  "e": NaN}', 3, 8],
])("%j stops being JSON at line %i, column %i", (text, line, column) => {
  expect(() => JSON.parse(text)).toThrow();
  expect(findJsonFault(text)).toEqual({ line, column, isCut: false });
});

test.each(["", " \n", "{", '{"a"', '{"a":', "[1,", '[{"a":1}\n'])("%j only ends too early", (text) => {
  expect(findJsonFault(text).isCut).toBe(true);
});

test.each(['{"a":"\\u00e9\u007f","b":[],"c":{},"d":[[-0,1e9]]}', '"text"', " null\n"])(
  "%s is JSON to its end",
  (text) => {
    JSON.parse(text);
    expect(findJsonFault(text).isCut).toBe(true);
  },
);

test("a file of ten megabytes is read in one pass", () => {
  const text = `[${'{"a":"x\\n"},'.repeat(800_000)}]`;
  expect(describeJsonFault(text)).toBe(`not JSON at line 1, column ${text.length}`);
});
