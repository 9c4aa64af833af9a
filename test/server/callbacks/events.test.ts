import { expect, test } from "vitest";
import type { Change } from "../../../src/server/store/change.ts";
import { createCounted } from "../counted.ts";

test("a due callback wakes the senders of all processes once; attempts are announced only to pages", async () => {
  const { distant, start, rest, clock } = await createCounted();
  const heard: Change["kind"][] = [];
  distant.store.listen(({ kind }) => heard.push(kind));
  await start("a fox", { callback_url: "https://receiver.example/hook" });
  await start("a cat", { callback_url: "https://receiver.example/gone" });
  await rest(2);
  await clock.sleep(60_000);
  const count = (kind: Change["kind"]) => heard.filter((each) => each === kind).length;
  expect([count("callback"), count("attempt")]).toEqual([2, 2]);
});
