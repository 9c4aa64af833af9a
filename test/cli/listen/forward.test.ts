import { expect, test } from "vitest";
import { createForwarder } from "../../../src/cli/listen/forward.ts";
import type { Callback } from "../../../src/protocol/callback.ts";
import { createWorld } from "../../vidgen.ts";

test("of the callbacks, the latest ten thousand are remembered", async () => {
  const { io } = await createWorld();
  const forward = createForwarder(undefined, io);
  const callback = { id: "x", status: "completed", videoUrl: undefined, headers: {}, body: "{}" };
  const send = (webhookId: string | undefined) =>
    forward({ ...callback, webhookId, isSigned: false, isVerified: false } satisfies Callback);
  for (let i = 0; i < 10_001; i++) await send(`msg_${i}`);
  const again = await Promise.all(["msg_1", "msg_10000", "msg_0", undefined, undefined].map(send));
  expect(again.map(({ isDuplicate }) => isDuplicate)).toEqual([true, true, false, false, false]);
});
