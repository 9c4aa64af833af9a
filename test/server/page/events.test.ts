import { Hono } from "hono";
import { expect, test } from "vitest";
import { systemClock } from "../../../src/io.ts";
import { type ApiEnv, errorResponse } from "../../../src/server/http/message.ts";
import { createChanges } from "../../../src/server/page/events.ts";
import type { Change } from "../../../src/server/store/change.ts";

function open(...limits: Parameters<typeof createChanges>) {
  const changes = createChanges(...limits);
  const sleeping = new Set<AbortSignal | undefined>();
  const pings = { now: 0, isAllowed: true, checks: 0 };
  const clock: Pick<typeof systemClock, "now" | "sleep"> = {
    now: () => pings.now,
    async sleep(ms, signal) {
      sleeping.add(signal);
      await systemClock.sleep(ms, signal).finally(() => sleeping.delete(signal));
    },
  };
  const isShown = ({ account, kind }: Change) => account === "mine" || kind === "missed";
  const isAllowed = async () => {
    pings.checks++;
    return pings.isAllowed;
  };
  const app = new Hono<ApiEnv>().get("/events", (c) =>
    changes.stream(c, {
      account: c.req.query("account") ?? "mine",
      since: c.req.query("since"),
      clock,
      isShown,
      isAllowed,
    }),
  );
  app.onError((error) => errorResponse(error));
  const refusal = async (account: string) => {
    const { status, headers } = await app.request(`/events?account=${account}`, {}, {});
    return [status, headers.get("Retry-After")];
  };
  const connect = async (account = "mine", since?: string) => {
    const query = new URLSearchParams({ account, ...(since !== undefined && { since }) });
    const { body, headers } = await app.request(`/events?${query}`, {}, {});
    expect(headers.get("X-Accel-Buffering")).toBe("no");
    const reader = (body as ReadableStream<Uint8Array>).getReader();
    const first = new TextDecoder().decode((await reader.read()).value);
    expect(first, "sent at once, so that a proxy passes the reply on").toBe(":\n\n");
    /** "" at the end of the stream. */
    const read = async () => new TextDecoder().decode((await reader.read()).value);
    return { read, cancel: () => reader.cancel() };
  };
  return { changes, sleeping, pings, connect, refusal };
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

test("a stream since another version begins with what was missed, one since the current version with what comes", async () => {
  const { changes, connect } = open();
  const version = changes.version();
  changes.publish({ kind: "progress", id: "a", percent: 1, account: "mine" });
  expect(changes.version()).toBe(version);
  const upToDate = await connect("mine", version);
  changes.publish({ kind: "credits", account: "mine" });
  expect(await upToDate.read()).toBe('data: {"kind":"credits","account":"mine"}\n\n');
  for (const since of [version, open().changes.version(), ""])
    expect(await (await connect("mine", since)).read()).toBe('data: {"kind":"missed","account":null}\n\n');
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

test("a stream whose session has ended delivers nothing after the next ping, however much happens", async () => {
  const { changes, connect, pings, sleeping } = open();
  const { read } = await connect();
  const change = (id: string) => changes.publish({ kind: "generation", id, account: "mine" });
  await expect.poll(() => sleeping.size).toBe(1);
  pings.now = 5_000;
  change("a");
  expect(await read()).toBe("event: ping\ndata: \n\n");
  expect(await read()).toContain('"id":"a"');
  pings.isAllowed = false;
  pings.now = 9_999;
  change("b");
  expect(await read(), "the session is checked every 5 s").toContain('"id":"b"');
  pings.now = 10_000;
  change("c");
  expect([await read(), pings.checks]).toEqual(["", 2]);
  changes.close();
});
