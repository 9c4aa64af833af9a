import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Store } from "../../../../src/server/store/store.ts";
import { postgresPrograms } from "../../../needs.ts";
import { query } from "../../../postgres.ts";
import { attempt, completed, cost, failed, newDelivery, newGeneration } from "../records.ts";
import { open, useServer } from "./open.ts";

const waiting =
  "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'vidgen' AND datname = current_database()";
const localAccount = "SELECT FROM vidgen.accounts WHERE name = 'local' FOR UPDATE";

// What is alone in SQLite is a race here. A third session holds the row that the rule locks or changes first, until both have come to it.
describe("a rule that two connections run at once", { skip: postgresPrograms === undefined }, () => {
  const server = useServer();

  /** Two processes, whose account "local" has 100 credits, and what runs two changes that meet at the row of `lock`. */
  async function openTwo() {
    const url = await server().createDatabase();
    const [one, other] = [(await open(url)).store, (await open(url)).store];
    await one.addAccount({ name: "local", keyHash: "hash", creditsOf: () => 100 });
    const holder = new pg.Client(url);
    await holder.connect();
    onTestFinished(() => holder.end());
    const meet = async <A, B>(
      first: (store: Store) => Promise<A>,
      second: (store: Store) => Promise<B>,
      lock = localAccount,
    ) => {
      await holder.query(`BEGIN; ${lock}`);
      const outcomes = Promise.allSettled([first(one), second(other)]);
      await expect.poll(() => query(url, waiting)).toHaveLength(2);
      await holder.query("COMMIT");
      return (await outcomes).map((each) => (each.status === "fulfilled" ? each.value : String(each.reason)));
    };
    const start = async () => {
      const generation = newGeneration();
      await one.start(generation, cost, undefined);
      return generation.id;
    };
    const amounts = async () => (await one.ledger({ limit: 99 })).map(({ amount }) => amount);
    return { url, one, other, meet, start, amounts };
  }

  const end = { ...failed, isRefunded: true };

  test("refund: the price is returned once", async () => {
    const { one, meet, start, amounts } = await openTwo();
    const id = await start();
    expect(
      (
        await meet(
          (a) => a.finish(id, end),
          (b) => b.finish(id, end),
        )
      ).sort(),
    ).toEqual([false, true]);
    expect([await amounts(), await one.balance("local")]).toEqual([[cost, -cost, 100], 100]);
  });

  test("refunds of two generations are both added to the balance", async () => {
    const { one, meet, start } = await openTwo();
    const [a, b] = [await start(), await start()];
    expect(
      await meet(
        (store) => store.finish(a, end),
        (store) => store.finish(b, end),
      ),
    ).toEqual([true, true]);
    expect(await one.balance("local")).toBe(100);
  });

  test("cancel and finish: one of them ends the generation, with one callback", async () => {
    const { one, meet, start, amounts } = await openTwo();
    const id = await start();
    const cancellation = { end, engine: null, delivery: newDelivery("of the cancellation", id) };
    const [cancelled, finished] = await meet(
      (a) => a.cancel(id, cancellation),
      (b) => b.finish(id, completed, newDelivery("of the end", id)),
    );
    expect(finished).toBe(!cancelled);
    expect(await one.deliveries({ limit: 9 })).toMatchObject([
      { id: cancelled ? "of the cancellation" : "of the end", generation: id },
    ]);
    expect(await amounts()).toEqual(cancelled ? [cost, -cost, 100] : [-cost, 100]);
  });

  test("cancel and checkpoint: a generation that is being submitted is not cancelled, and a cancelled one is not submitted", async () => {
    const { one, meet, start } = await openTwo();
    const id = await start();
    const at = "2026-01-01T00:00:30.000Z";
    const [cancelled, kept] = await meet(
      (a) => a.cancel(id, { end, engine: null, delivery: undefined }),
      (b) => b.keepCheckpoint(id, { state: "submitting", engine: "http://gpu-1", at }),
    );
    expect(kept).toEqual(cancelled ? expect.stringContaining(`no generation ${id}`) : undefined);
    expect((await one.generation(id))?.status).toBe(cancelled ? "failed" : "processing");
  });

  test("credits: of two changes that together take more than the balance, one is refused", async () => {
    const { one, meet } = await openTwo();
    const take = (key: string) => (store: Store) => store.addCredits({ account: "local", amount: -80, key });
    expect((await meet(take("a"), take("b"))).map((each) => Object(each).kind).sort()).toEqual([
      "added",
      "out of range",
    ]);
    expect(await one.balance("local")).toBe(20);
  });

  test("credits with one key are added once", async () => {
    const { one, meet } = await openTwo();
    const add = (store: Store) => store.addCredits({ account: "local", amount: 50, key: "a" });
    const outcomes = await meet(add, add);
    expect(outcomes.map((each) => Object(each).replayed).sort()).toEqual([false, true]);
    expect(await one.balance("local")).toBe(150);
  });

  test("a start and a removal of credits: the second one finds the balance that the first has left", async () => {
    const { one, meet } = await openTwo();
    const [started, taken] = await meet(
      (a) => a.start(newGeneration(), 60, undefined),
      (b) => b.addCredits({ account: "local", amount: -60, key: "a" }),
    );
    const kinds = [Object(started).kind, Object(taken).kind];
    expect([
      ["started", "out of range"],
      ["no credits", "added"],
    ]).toContainEqual(kinds);
    expect(await one.balance("local")).toBe(40);
  });

  test("limits: both of two changes stay", async () => {
    const { one, meet } = await openTwo();
    await meet(
      (a) => a.setLimits("local", { max_running: 1 }),
      (b) => b.setLimits("local", { max_per_hour: 2 }),
    );
    expect(await one.accounts()).toMatchObject([{ max_running: 1, max_per_hour: 2 }]);
  });

  test("keys: of two keys that replace all others, one is left", async () => {
    const { one, meet } = await openTwo();
    const replace = (keyHash: string) => (store: Store) =>
      store.addAccount({ name: "local", keyHash, replacesKeys: true });
    expect(await meet(replace("a"), replace("b"))).toMatchObject([{ removed: 1 }, { removed: 1 }]);
    expect(await one.accounts()).toMatchObject([{ keys: 1, credits: 100 }]);
  });

  test("a deleted account has no key, even if one is added at that moment", async () => {
    const { url, meet } = await openTwo();
    const at = "2026-01-01T00:00:00.000Z";
    const [removed, added] = await meet(
      (a) => a.deleteAccount("local", at),
      (b) => b.addAccount({ name: "local", keyHash: "second" }),
    );
    expect([
      [1, "Error: the account local was deleted"],
      [2, { credits: 100, removed: 0 }],
    ]).toContainEqual([removed, added]);
    expect(await query(url, "SELECT FROM vidgen.keys")).toEqual([]);
  });

  test("forget: each generation is removed once, and the ledger stays", async () => {
    const { one, other, start, amounts } = await openTwo();
    for (let count = 0; count < 9; count++) await one.finish(await start(), failed);
    const ended = { before: "2026-02-01T00:00:00.000Z", limit: 6 };
    const counts = await Promise.all([one.forget(ended), other.forget(ended)]);
    const rest = await one.forget({ ...ended, limit: 9 });
    expect([...counts, rest].reduce((sum, each) => sum + each)).toBe(9);
    expect(Math.max(...counts)).toBeLessThanOrEqual(6);
    expect([await one.list({ limit: 9 }), await amounts()]).toEqual([[], [...Array(9).fill(-cost), 100]]);
  });

  test("resend and attempts: a resent callback keeps all its attempts, in order", async () => {
    const { one, meet, start } = await openTwo();
    const id = await start();
    await one.finish(id, completed, newDelivery("1", id));
    const lock = "SELECT FROM vidgen.deliveries FOR UPDATE";
    const record = (reply: string) => (store: Store) => store.recordAttempt("1", attempt("HTTP 500", { reply }), null);
    expect(await meet(record("a"), record("b"), lock)).toEqual([undefined, undefined]);
    const at = "2026-01-01T00:09:00.000Z";
    const resent = await meet(
      (a) => a.resend(id, at),
      (b) => b.resendGivenUp({}, at),
      lock,
    );
    expect(resent[0]).toMatchObject({ id: "1", attempts: 2, next_at: at });
    const [delivery] = await one.deliveries({ limit: 9 });
    expect(delivery?.attempts.map(({ reply }) => reply).sort()).toEqual(["a", "b"]);
    expect(delivery?.next_at).toBe(at);
  });
});
