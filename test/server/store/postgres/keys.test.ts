import { expect, test } from "vitest";
import { systemClock } from "../../../../src/io.ts";
import { rememberKeys } from "../../../../src/server/store/postgres/keys.ts";

test("a key that is removed during its look-up is not cached", async () => {
  let answer = (_: string) => {};
  const late = new Promise<string | undefined>((resolve) => {
    answer = resolve;
  });
  const looks = [late];
  const keys = rememberKeys(
    {
      account: async () => looks.shift(),
      removeKeys: async () => 1,
      addAccount: () => Promise.reject(new Error("not here")),
      deleteAccount: () => Promise.reject(new Error("not here")),
      setDisabled: () => Promise.reject(new Error("not here")),
    },
    systemClock,
  );
  const looked = keys.account("hash");
  expect(await keys.removeKeys({ keyHash: "hash" })).toBe(1);
  answer("local");
  expect(await looked).toBe("local");
  expect(await keys.account("hash")).toBeUndefined();
});

test("a key is looked up again when its account is disabled or enabled", async () => {
  const looks = ["ci", undefined, "ci"];
  const refuse = () => Promise.reject(new Error("not here"));
  const keys = rememberKeys(
    {
      account: async () => looks.shift(),
      setDisabled: async () => undefined,
      removeKeys: refuse,
      addAccount: refuse,
      deleteAccount: refuse,
    },
    systemClock,
  );
  expect([await keys.account("hash"), await keys.account("hash")]).toEqual(["ci", "ci"]);
  await keys.setDisabled("ci", "2026-01-01T00:00:00.000Z");
  expect(await keys.account("hash")).toBeUndefined();
  await keys.setDisabled("ci", null);
  expect(await keys.account("hash")).toBe("ci");
});
