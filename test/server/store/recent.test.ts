import { expect, test } from "vitest";
import { createRecent } from "../../../src/server/store/recent.ts";

/** What reads by writing down what is looked for. */
function aRecent(options: { most?: number; mayKeep?(value: string): boolean } = {}) {
  const looked: string[] = [];
  const find = (key: string) => {
    looked.push(key);
    return key === "nothing" ? undefined : `value of ${key}`;
  };
  return { ...createRecent({ find, most: 2, ...options }), looked };
}

test("what was found is looked for once", () => {
  const { read, looked } = aRecent();
  expect([read("a"), read("a")]).toEqual(["value of a", "value of a"]);
  expect(looked).toEqual(["a"]);
});

test("what was not found is looked for again", () => {
  const { read, looked } = aRecent();
  expect([read("nothing"), read("nothing")]).toEqual([undefined, undefined]);
  expect(looked).toEqual(["nothing", "nothing"]);
});

test("what has changed is looked for again", () => {
  const { read, forget, looked } = aRecent();
  read("a");
  forget("a");
  read("a");
  expect(looked).toEqual(["a", "a"]);
});

test("the one that came first makes room", () => {
  const { read, looked } = aRecent();
  for (const key of ["a", "b", "c", "b", "c", "a"]) read(key);
  expect(looked).toEqual(["a", "b", "c", "a"]);
});

test("a large one is not kept", () => {
  const { read, looked } = aRecent({ mayKeep: () => false });
  read("a");
  read("a");
  expect(looked).toEqual(["a", "a"]);
});
