import { expect, test } from "vitest";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { apiKey, bearer, createDistant, createTestService, readError, readStart } from "../service.ts";

test("while the database is unavailable, starts, status requests and videos get a 503 with Retry-After", async () => {
  const distant = createDistant(await openStore(":memory:"));
  const { start, startId, status, media, rest, troubles, store } = await createTestService({ store: distant.store });
  const id = await startId();
  await rest();
  distant.isAway = true;
  const video = () => media(new Request(`https://media.video.example/${id}.mp4`));
  for (const ask of [() => start(), () => status(id), video]) {
    const reply = await ask();
    expect([reply.status, reply.headers.get("Retry-After")]).toEqual([503, "5"]);
    expect(await readError(reply)).toEqual({
      code: "unavailable",
      message: "the service cannot do this now; try again, with the same Idempotency-Key if you start a generation",
    });
  }
  // The database's own code has told the operator, once.
  expect(troubles).toEqual([]);

  distant.isAway = false;
  expect(await store.balance("local")).toBe(990);
  expect([(await status(id)).status, (await video()).status]).toEqual([200, 200]);
});

test("a start that failed with the database can be sent again with its key and is charged once", async () => {
  const distant = createDistant(await openStore(":memory:"));
  const { start, store } = await createTestService({
    store: {
      ...distant.store,
      async start(...args) {
        const outcome = await distant.store.start(...args);
        // The answer is lost once.
        if (outcome.kind === "started" && !outcome.replayed)
          throw Object.assign(new Error("connection lost"), { isUnavailable: true });
        return outcome;
      },
    },
  });
  const headers = { ...bearer(apiKey), "Idempotency-Key": "one" };
  expect((await start({}, headers)).status).toBe(503);
  const again = await start({}, headers);
  expect([again.status, (await readStart(again)).remaining_credits]).toEqual([200, 990]);
  expect(await store.balance("local")).toBe(990);
});
