import { expect, test } from "vitest";
import { systemClock } from "../../../../src/io.ts";
import { rememberKeys } from "../../../../src/server/store/postgres/keys.ts";

test("a key that is removed while it is looked up is not remembered", async () => {
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
    },
    systemClock,
  );
  const looked = keys.account("hash");
  expect(await keys.removeKeys({ keyHash: "hash" })).toBe(1);
  answer("local");
  expect(await looked).toBe("local");
  expect(await keys.account("hash")).toBeUndefined();
});
