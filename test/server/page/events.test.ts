import { Hono } from "hono";
import { expect, test } from "vitest";
import { systemClock } from "../../../src/io.ts";
import { type ApiEnv, errorResponse } from "../../../src/server/http/message.ts";
import { createChanges } from "../../../src/server/page/events.ts";
import type { Change } from "../../../src/server/store/change.ts";

function open(...limits: Parameters<typeof createChanges>) {
  const changes = createChanges(...limits);
  const sleeping = new Set<AbortSignal | undefined>();
  const clock: Pick<typeof systemClock, "sleep"> = {
    async sleep(ms, signal) {
      sleeping.add(signal);
      await systemClock.sleep(ms, signal).finally(() => sleeping.delete(signal));
    },
  };
  const isShown = (change: Change) => change.account === "mine";
  const app = new Hono<ApiEnv>().get("/events", (c) =>
    changes.stream(c, { account: c.req.query("account") ?? "mine", clock, isShown }),
  );
  app.onError((error) => errorResponse(error));
  const refusal = async (account: string) => {
    const { status, headers } = await app.request(`/events?account=${account}`, {}, {});
    return [status, headers.get("Retry-After")];
  };
  const connect = async (account = "mine") => {
    const { body, headers } = await app.request(`/events?account=${account}`, {}, {});
    expect(headers.get("X-Accel-Buffering")).toBe("no");
    const reader = (body as ReadableStream<Uint8Array>).getReader();
    const first = new TextDecoder().decode((await reader.read()).value);
    expect(first, "sent at once, so that a proxy passes the reply on").toBe(":\n\n");
    const read = async () => new TextDecoder().decode((await reader.read()).value);
    return { read, cancel: () => reader.cancel() };
  };
  return { changes, sleeping, connect, refusal };
}

test("of what a slow client has not read yet, only the last progress is sent", async () => {
  const { changes, connect } = open();
  const { read } = await connect();
  for (let percent = 0; percent <= 100; percent++)
    changes.publish({ kind: "progress", id: "a", percent, account: "mine" });
  changes.publish({ kind: "credits", account: "mine" });
  let text = "";
  while (!text.includes("credits")) text += await read();
  expect(text).toContain('data: {"kind":"progress","id":"a","percent":100,"account":"mine"}\n\n');
  expect(text.match(/^data/gm)?.length).toBeLessThan(5);
  changes.close();
});

test("what a client may not know of is not told", async () => {
  const { changes, connect } = open();
  const { read } = await connect();
  changes.publish({ kind: "credits", account: "mine" });
  changes.publish({ kind: "credits", account: "another" });
  changes.publish({ kind: "credits", account: null });
  expect(await read()).toBe('data: {"kind":"credits","account":"mine"}\n\n');
  changes.publish({ kind: "generation", id: "a", account: "another" });
  changes.publish({ kind: "generation", id: "b", account: "mine" });
  expect(await read()).toBe('data: {"kind":"generation","id":"b","account":"mine"}\n\n');
  changes.close();
});

test("a client that has gone leaves nothing behind, and a service that ends lets its clients go", async () => {
  const { changes, connect, sleeping } = open();
  const gone = await connect();
  const other = await connect();
  await expect.poll(() => sleeping.size).toBe(2);
  await gone.cancel();
  await expect.poll(() => sleeping.size).toBe(1);
  changes.publish({ kind: "credits", account: "mine" });
  expect(await other.read()).toContain("credits");
  changes.close();
  await expect.poll(() => sleeping.size).toBe(0);
});

test("an account has so many streams, and all of them together; what ends makes room", async () => {
  const { changes, connect, refusal } = open({ perAccount: 2, inAll: 3 });
  const first = await connect("one");
  await connect("one");
  expect(await refusal("one")).toEqual([429, "5"]);
  await connect("two");
  expect(await refusal("two")).toEqual([429, "5"]);
  await first.cancel();
  await connect("two");
  expect(await refusal("one")).toEqual([429, "5"]);
  changes.close();
});
