import { expect, test } from "vitest";

import { createKey, findAccount, hashKey, prepareLocalAccount } from "../../../src/server/api/accounts.ts";
import { secretOf } from "../../../src/server/callbacks/signature.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import {
  apiKey,
  baseUrl,
  bearer,
  createTestService,
  otherKey,
  readError,
  readStart,
  startRequest,
} from "../service.ts";

function ask(body: unknown, key = apiKey): Request {
  const headers = { ...bearer(key), "Content-Type": "application/json" };
  return new Request(`${baseUrl}/accounts`, { method: "POST", headers, body: JSON.stringify(body) });
}

type Account = { account: string; api_key: string; webhook_secret: string; credits: number };

const made = async (reply: Promise<Response>) => (await (await reply).json()) as Account;

test("the owner creates another account, with 1000 credits and its own key", async () => {
  const { api } = await createTestService();
  const account = await made(api(ask({ name: "ci" })));
  expect(account).toMatchObject({ account: "ci", api_key: expect.stringMatching(/^vgs_[0-9a-f]{48}$/), credits: 1000 });
  const started = await api(startRequest({ prompt: "x", model: "sora-2" }, bearer(account.api_key)));
  expect((await readStart(started)).remaining_credits).toBe(990);
});

test("another key for an existing account leaves its credits as they are", async () => {
  const { api, secret } = await createTestService();
  const first = await made(api(ask({ name: "ci", credits: 30 })));
  expect(first.webhook_secret).toBe(secretOf(secret, "ci"));
  await api(startRequest({ prompt: "x", model: "sora-2" }, bearer(first.api_key)));
  const second = await made(api(ask({ name: "ci" })));
  expect(second.credits).toBe(20);
  expect((await api(ask({ name: "ci", credits: 0 }))).status).toBe(409);
  const started = await api(startRequest({ prompt: "x", model: "sora-2" }, bearer(second.api_key)));
  expect(await started.json()).toMatchObject({ remaining_credits: 10 });
});

test("another key never changes credits that could not be read", async () => {
  const store = await openStore(":memory:");
  const { api } = await createTestService({
    store: { ...store, balance: () => Promise.reject(new Error("the connection broke")) },
  });
  await made(api(ask({ name: "ci", credits: 99_997_870 })));
  expect((await made(api(ask({ name: "ci" })))).credits).toBe(99_997_870);
  expect(await store.balance("ci")).toBe(99_997_870);
});

test("only the owner creates accounts", async () => {
  const { api } = await createTestService();
  const reply = await api(ask({ name: "ci" }, otherKey));
  expect([reply.status, (await readError(reply)).code]).toEqual([403, "forbidden"]);
});

test.each([
  { name: "" },
  { name: "local" },
  { name: "a b" },
  { name: "x".repeat(65) },
  { name: 5 },
  {},
  null,
  { name: "ci", credits: -1 },
  { name: "ci", credits: 1.5 },
  { name: "ci", credits: "9" },
  { name: "ci", new: "true" },
])("%j is no account", async (body) => {
  const { api } = await createTestService();
  const reply = await api(ask(body));
  expect([reply.status, (await readError(reply)).code]).toEqual([400, "invalid_account"]);
});

test("at each start of the service, the owner's account has at least 1000 credits, or exactly the number of --credits", async () => {
  const store = await openStore(":memory:");
  const balanceAfter = async (credits?: number) => {
    await prepareLocalAccount(store, apiKey, credits);
    return store.balance("local");
  };
  expect(await balanceAfter()).toBe(1000);
  expect(await balanceAfter(5000)).toBe(5000);
  expect(await balanceAfter()).toBe(5000);
  expect(await balanceAfter(0)).toBe(0);
  expect(await balanceAfter()).toBe(1000);
});

test("a replaced key of the local account is refused", async () => {
  const store = await openStore(":memory:");
  await prepareLocalAccount(store, apiKey, undefined);
  await prepareLocalAccount(store, otherKey, undefined);
  expect([await store.account(hashKey(apiKey)), await store.account(hashKey(otherKey))]).toEqual([undefined, "local"]);
  expect(await store.balance("local")).toBe(1000);
});

test("the owner revokes a key, or all keys of an account, but not those of its own account", async () => {
  const { api } = await createTestService();
  const revoke = (text: string, key = apiKey) => {
    const headers = { ...bearer(key), "Content-Type": "application/json" };
    return api(
      new Request(`${baseUrl}/accounts/revoke`, { method: "POST", headers, body: JSON.stringify({ revoke: text }) }),
    );
  };
  const keys: string[] = [];
  for (let i = 0; i < 3; i++) keys.push((await made(api(ask({ name: "ci" })))).api_key);
  const statuses = () =>
    Promise.all(
      keys.map(async (key) => (await api(startRequest({ prompt: "x", model: "sora-2" }, bearer(key)))).status),
    );
  expect(await (await revoke(keys[1] ?? "")).json()).toEqual({ revoked: 1 });
  expect(await statuses()).toEqual([200, 401, 200]);
  expect(await (await revoke("ci")).json()).toEqual({ revoked: 2 });
  expect(await statuses()).toEqual([401, 401, 401]);
  expect(await (await revoke("ci")).json()).toEqual({ revoked: 0 });
  for (const own of ["local", apiKey]) expect((await revoke(own)).status).toBe(409);
  expect((await revoke("local", otherKey)).status).toBe(403);
});

test("a key of the service that was cut or mistyped is refused without asking the database", async () => {
  const asked: string[] = [];
  const store = {
    async account(hash: string) {
      asked.push(hash);
      return "ci";
    },
  };
  const key = createKey();
  expect(await findAccount(store, key)).toBe("ci");
  for (const wrong of [key.slice(0, -1), `${key}0`, key.toUpperCase().replace("VGS", "vgs"), "vgs_", "vgs_ü"])
    expect(await findAccount(store, wrong)).toBeUndefined();
  expect(asked).toEqual([hashKey(key)]);
  // One that its owner wrote into service.json has any form.
  expect(await findAccount(store, "a key")).toBe("ci");
});
