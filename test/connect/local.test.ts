import { expect, onTestFinished, test } from "vitest";
import { openLocal } from "../../src/connect/local.ts";
import { createWorld } from "../vidgen.ts";

test("the service inside this process gets nothing where `beforeSend` throws, and the request was not sent", async () => {
  const { io } = await createWorld();
  const local = await openLocal({ engine: [], isStarting: true, onNote: () => {} }, io);
  onTestFinished(() => local.close());
  const cause = new Error("another process has the attempt");
  const headers = { Authorization: `Bearer ${local.apiKey}`, "Content-Type": "application/json" };
  const post = (beforeSend: () => void) =>
    local.fetch(`${local.baseUrl}/api/generate`, { method: "POST", headers, body: "{}", beforeSend });
  const failure = await post(() => {
    throw cause;
  }).catch((error) => error);
  expect(failure).toMatchObject({ sent: false, cause });
  let calls = 0;
  expect((await post(() => calls++)).status).toBe(400);
  expect(calls).toBe(1);
});
