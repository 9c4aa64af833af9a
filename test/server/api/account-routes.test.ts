import { writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { hashKey } from "../../../src/server/api/accounts.ts";
import type { Engine } from "../../../src/server/engines/engine.ts";
import { tinyMp4 } from "../../mp4.ts";
import { apiKey, baseUrl, bearer, createTestService, otherKey, readError, renderMs, startRequest } from "../service.ts";

type Fields = Record<string, unknown>;

async function createOwner(options: Parameters<typeof createTestService>[0] = {}) {
  const service = await createTestService(options);
  const send = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    service.api(
      new Request(`${baseUrl}/accounts${path}`, {
        method: "POST",
        headers: { ...bearer(apiKey), "Content-Type": "application/json", ...headers },
        body: typeof body === "string" ? body : JSON.stringify(body),
      }),
    );
  const read = async (reply: Promise<Response>) => (await (await reply).json()) as Fields;
  const list = async () => read(service.api(new Request(`${baseUrl}/accounts`, { headers: bearer(apiKey) })));
  const startAs = (key: string) => service.api(startRequest({ prompt: "x", model: "sora-2" }, bearer(key)));
  return { ...service, send, read, list, startAs };
}

test("the owner lists the accounts, without their keys or hashes", async () => {
  const { list } = await createOwner();
  const limits = { max_running: null, max_per_hour: null };
  expect(await list()).toEqual({
    accounts: [
      { account: "local", credits: 1000, keys: 1, disabled_at: null, ...limits },
      { account: "other", credits: 1000, keys: 1, disabled_at: null, ...limits },
    ],
  });
});

test("each change of an account is a line in the log, with who made it and without a key; a request that changes nothing is not", async () => {
  const { send, read, notes } = await createOwner();
  const { api_key } = await read(send("", { name: "ci", credits: 50 }));
  for (const _ of ["first", "repeated"])
    await send("/credits", { account: "ci", amount: -20 }, { "Idempotency-Key": "a" });
  await send("/limits", { account: "ci", max_running: 2 });
  await send("/revoke", { revoke: api_key });
  await send("/revoke", { revoke: "no-such-key" });
  await send("/rotate", { account: "ci" });
  for (const path of ["/disable", "/disable", "/enable", "/enable"]) await send(path, { account: "ci" });
  await send("/delete", { account: "ci" });
  const who = expect.stringMatching(/; by local with the key [0-9a-f]{8}\.$/);
  expect(notes).toEqual(notes.map(() => who));
  expect(notes.map((text) => text.replace(/; by .*/, ""))).toEqual([
    "Accounts: a key was created for ci, with 50 credits",
    "Accounts: -20 credits were added to ci, with 30 now",
    "Accounts: the limits of ci are max_running 2 and max_per_hour null",
    "Accounts: 1 of the keys of ci was revoked",
    "Accounts: a new key of ci replaced 0",
    "Accounts: the account ci was disabled",
    "Accounts: the account ci was enabled",
    "Accounts: the account ci was deleted, with 1 of its keys",
  ]);
  expect(notes.join()).not.toContain(String(api_key).slice(4));
});

test("creating an account that must be new does not change an existing one", async () => {
  const { send, list } = await createOwner();
  const reply = await send("", { name: "other", credits: 5, new: true });
  expect([reply.status, (await readError(reply)).code]).toEqual([409, "account_exists"]);
  expect(await list()).toMatchObject({ accounts: [{}, { account: "other", credits: 1000, keys: 1 }] });
  expect((await send("", { name: "ci", credits: 5, new: true })).status).toBe(200);
});

test("a new name that differs from another one only in its case is refused; two that exist stay two", async () => {
  const { send, store } = await createOwner();
  expect((await send("", { name: "Ada" })).status).toBe(200);
  for (const name of ["ada", "ADA", "Local"]) {
    const refused = await send("", { name });
    expect([refused.status, await readError(refused)]).toMatchObject([409, { code: "account_exists" }]);
  }
  expect((await store.accounts()).map(({ account }) => account)).toEqual(["Ada", "local", "other"]);
  await store.addAccount({ name: "ada", keyHash: "of an earlier version" });
  for (const name of ["Ada", "ada"]) expect((await send("", { name })).status).toBe(200);
});

test("creating another key for an account does not set its credits again", async () => {
  const { send, list, read } = await createOwner();
  const reply = await send("", { name: "other", credits: 5 });
  expect([reply.status, (await readError(reply)).code]).toEqual([409, "account_exists"]);
  expect(await list()).toMatchObject({ accounts: [{}, { account: "other", credits: 1000, keys: 1 }] });
  expect(await read(send("", { name: "other" }))).toMatchObject({ account: "other", credits: 1000 });
  expect(await list()).toMatchObject({ accounts: [{}, { credits: 1000, keys: 2 }] });
});

test("credits are added to the balance, once even if the request is repeated", async () => {
  const { send, read, list } = await createOwner();
  const add = (amount: unknown, key: string) =>
    send("/credits", { account: "other", amount }, { "Idempotency-Key": key });
  const added = { account: "other", amount: 500, credits: 1500 };
  expect(await read(add(500, "a"))).toEqual({ ...added, replayed: false });
  expect(await read(add(500, '"a"'))).toEqual({ ...added, replayed: true });
  expect((await add(500, "a")).headers.get("Idempotent-Replayed")).toBe("true");
  expect(await read(add(-100, "b"))).toMatchObject({ credits: 1400 });
  for (const [reply, code] of [
    [await add(501, "a"), "422 idempotency_key_reused"],
    [await add(-1401, "c"), "409 credits_out_of_range"],
    [await add(0, "c"), "400 invalid_amount"],
    [await add("5", "c"), "400 invalid_amount"],
    [await add(5, ""), "400 invalid_idempotency_key"],
    [await add(5, "x".repeat(256)), "400 invalid_idempotency_key"],
    [await send("/credits", { account: "other", amount: 5 }), "400 idempotency_key_required"],
    [await send("/credits", { account: "nobody", amount: 5 }, { "Idempotency-Key": "c" }), "404 no_account"],
    [await send("/credits", { amount: 5 }, { "Idempotency-Key": "c" }), "400 invalid_account"],
    [await send("/credits", "{", { "Idempotency-Key": "c" }), "400 invalid_json"],
  ] as const)
    expect(`${reply.status} ${(await readError(reply)).code}`).toBe(code);
  expect(await list()).toMatchObject({ accounts: [{}, { credits: 1400 }] });
});

test("a start above a limit is refused with 429, and nothing is charged", async () => {
  const { send, read, startAs, list, rest } = await createOwner();
  expect(await read(send("/limits", { account: "other", max_running: 1 }))).toEqual({
    ...{ account: "other", max_running: 1, max_per_hour: null },
  });
  expect((await startAs(otherKey)).status).toBe(200);
  const running = await startAs(otherKey);
  expect([running.status, running.headers.get("Retry-After"), await readError(running)]).toMatchObject([
    429,
    "5",
    {
      code: "too_many_running",
      message: "this account may have 1 unfinished generations at once; nothing was charged",
    },
  ]);
  expect((await startAs(apiKey)).status).toBe(200);
  await rest(2);
  await send("/limits", { account: "other", max_running: null, max_per_hour: 1 });
  const hourly = await startAs(otherKey);
  expect([hourly.status, (await readError(hourly)).code]).toEqual([429, "too_many_starts"]);
  expect(Number(hourly.headers.get("Retry-After"))).toBeGreaterThan(3_000);
  expect(await list()).toMatchObject({ accounts: [{}, { credits: 990, max_per_hour: 1 }] });
});

test.each([0, -1, 1.5, "5", 1_000_001, true])("%j is no limit", async (max_running) => {
  const { send, list } = await createOwner();
  const reply = await send("/limits", { account: "other", max_running });
  expect([reply.status, (await readError(reply)).code]).toEqual([400, "invalid_limit"]);
  expect((await send("/limits", { account: "nobody", max_running: 1 })).status).toBe(404);
  expect(await list()).toMatchObject({ accounts: [{}, { max_running: null }] });
});

test("a rotated account has only its new key, which the reply shows once", async () => {
  const { send, read, startAs, list } = await createOwner();
  const rotated = await read(send("/rotate", { account: "other" }));
  expect(rotated).toMatchObject({ account: "other", revoked: 1, credits: 1000 });
  expect((await startAs(otherKey)).status).toBe(401);
  expect((await startAs(String(rotated.api_key))).status).toBe(200);
  expect(JSON.stringify(await list())).not.toContain(String(rotated.api_key).slice(4));
  expect((await send("/rotate", { account: "local" })).status).toBe(409);
  expect((await send("/rotate", { account: "nobody" })).status).toBe(404);
});

test("two rotations at the same time leave the account with one of the two keys", async () => {
  const { send, read, startAs, list } = await createOwner();
  const rotate = async () => String((await read(send("/rotate", { account: "other" }))).api_key);
  const keys = await Promise.all([rotate(), rotate()]);
  const statuses = await Promise.all(keys.map(async (key) => (await startAs(key)).status));
  expect(statuses.sort()).toEqual([200, 401]);
  expect(await list()).toMatchObject({ accounts: [{}, { account: "other", keys: 1 }] });
});

test.each(["/credits", "/limits", "/rotate", "/disable", "/enable"])(
  "nobody but the owner may use %s",
  async (path) => {
    const { send } = await createOwner();
    const reply = await send(path, { account: "other" }, bearer(otherKey));
    expect([reply.status, (await readError(reply)).code]).toEqual([403, "forbidden"]);
  },
);

test.each(["local\0", "other\0x", "\0other", "other\n", "o/ther", "", "x".repeat(65), 5, null, ["other"]])(
  "no route takes %j for the name of an account, and nothing is changed",
  async (name) => {
    const { send, list, startAs } = await createOwner();
    const before = await list();
    const refused = async (path: string, body: unknown) => {
      const reply = await send(path, body, { "Idempotency-Key": "a" });
      return `${reply.status} ${(await readError(reply)).code}`;
    };
    expect(await refused("", { name, credits: 5 })).toBe("400 invalid_account");
    expect(await refused("", { name })).toBe("400 invalid_account");
    expect(await refused("/credits", { account: name, amount: 5 })).toBe("400 invalid_account");
    expect(await refused("/limits", { account: name, max_running: 1 })).toBe("400 invalid_account");
    expect(await refused("/rotate", { account: name })).toBe("400 invalid_account");
    expect(await refused("/revoke", { revoke: name })).toBe("400 invalid_revoke");
    expect(await list()).toEqual(before);
    for (const key of [apiKey, otherKey]) expect((await startAs(key)).status).toBe(200);
  },
);

test("a deleted account cannot start generations, its queued ones are not submitted, its running ones complete, and its name cannot be used again", async () => {
  const render: Engine["render"] = async ({ file, thumbnail }, { checkpoint, signal }) => {
    await checkpoint({ state: "rendering", tries: 1 });
    await service.clock.sleep(renderMs, signal);
    await writeFile(file, tinyMp4());
    await writeFile(thumbnail, "a picture");
    return { kind: "made", hasThumbnail: true };
  };
  const service = await createOwner({ render });
  const { send, read, startAs, list, rest, store } = service;
  const idOf = async (reply: Promise<Response>) => (await read(reply)).data as { id: string };
  const running = await idOf(startAs(otherKey));
  await service.clock.sleep(renderMs / 2);
  const waiting = [await idOf(startAs(otherKey)), await idOf(startAs(otherKey))];
  expect(await read(send("/delete", { account: "other" }))).toEqual({ account: "other", revoked: 1, not_submitted: 2 });
  expect((await startAs(otherKey)).status).toBe(401);
  expect((await list()).accounts).toMatchObject([{ account: "local" }]);
  await rest(1);
  expect(await store.generation(running.id)).toMatchObject({ status: "completed" });
  for (const { id } of waiting)
    expect(await store.generation(id)).toMatchObject({ status: "failed", error_code: "not_submitted" });
  expect((await store.ledger({ account: "other", limit: 9 })).map(({ reason }) => reason)).toEqual([
    ...["refund", "refund", "start", "start", "start", "set by the service's owner"],
  ]);
  for (const [reply, code] of [
    [await send("", { name: "other" }), "409 account_deleted"],
    [await send("/rotate", { account: "other" }), "404 no_account"],
    [await send("/limits", { account: "other", max_running: 1 }), "404 no_account"],
    [await send("/credits", { account: "other", amount: 5 }, { "Idempotency-Key": "c" }), "404 no_account"],
    [await send("/delete", { account: "nobody" }), "404 no_account"],
    [await send("/delete", { account: "local" }), "409 own_account"],
  ] as const)
    expect(`${reply.status} ${(await readError(reply)).code}`).toBe(code);
  expect(await read(send("/delete", { account: "other" }))).toEqual({ account: "other", revoked: 0, not_submitted: 0 });
});

test("the keys of an account are listed with their last use, and one can be revoked by the beginning of its hash", async () => {
  const { api, send, read, startAs, notes, clock } = await createOwner();
  const { api_key } = await read(send("", { name: "other" }));
  const keysOf = (account: string, key = apiKey) =>
    api(new Request(`${baseUrl}/accounts/keys?account=${account}`, { headers: bearer(key) }));
  const [old, young] = [otherKey, String(api_key)].map((key) => hashKey(key).slice(0, 8));
  const used_at = clock.date().toISOString();
  await startAs(otherKey);
  await expect
    .poll(async () => ((await (await keysOf("other")).json()) as { keys: Fields[] }).keys)
    .toEqual(
      expect.arrayContaining([
        { key: old, name: null, created_at: expect.stringMatching(/Z$/), used_at },
        { key: young, name: null, created_at: expect.stringMatching(/Z$/), used_at: null },
      ]),
    );
  expect([
    (await keysOf("nobody")).status,
    (await keysOf("")).status,
    (await keysOf("other", otherKey)).status,
  ]).toEqual([404, 400, 403]);
  for (const key of ["x y", `vgs_${"0".repeat(48)}`, `${old}0`, 5, ""])
    expect((await send("/revoke", { revoke: "other", key })).status).toBe(400);
  expect(await read(send("/revoke", { revoke: "other", key: "00000000" }))).toEqual({ revoked: 0 });
  expect((await send("/revoke", { revoke: "local", key: hashKey(apiKey).slice(0, 8) })).status).toBe(409);
  expect(await read(send("/revoke", { revoke: "other", key: old }))).toEqual({ revoked: 1 });
  expect([(await startAs(otherKey)).status, (await startAs(String(api_key))).status]).toEqual([401, 200]);
  expect(notes.at(-1)).toMatch(
    new RegExp(`the key ${old} of other was revoked; by local with the key [0-9a-f]{8}\\.$`),
  );
});

test("a disabled account is refused until it is enabled; its generations continue, and their callbacks are sent", async () => {
  const { send, read, startAs, rest, store, deliveries, api } = await createOwner();
  const started = await api(
    startRequest({ prompt: "x", model: "sora-2", callback_url: "https://hook.example/" }, bearer(otherKey)),
  );
  const running = ((await started.json()) as Fields).data as { id: string };
  const waiting = (await read(startAs(otherKey))).data as { id: string };
  const disabled = await read(send("/disable", { account: "other" }));
  expect(disabled).toEqual({ account: "other", disabled_at: expect.stringMatching(/^\d{4}-.*Z$/) });
  expect(await read(send("/disable", { account: "other" }))).toEqual(disabled);
  const message = "the account other is disabled and nothing was charged; the owner of this service can enable it";
  for (const path of [`/api/generation-status?id=${running.id}`, "/v1/videos", "/v1/models"]) {
    const reply = await api(new Request(baseUrl + path, { headers: bearer(otherKey) }));
    expect([reply.status, await readError(reply)]).toMatchObject([403, { code: "account_disabled", message }]);
  }
  expect([(await startAs(otherKey)).status, (await startAs(apiKey)).status]).toEqual([403, 200]);
  await rest(3);
  for (const { id } of [running, waiting]) expect(await store.generation(id)).toMatchObject({ status: "completed" });
  expect(deliveries).toEqual([expect.stringContaining(running.id)]);
  for (const [reply, code] of [
    [await send("/disable", { account: "nobody" }), "404 no_account"],
    [await send("/enable", { account: "nobody" }), "404 no_account"],
    [await send("/disable", { account: "local" }), "409 own_account"],
  ] as const)
    expect(`${reply.status} ${(await readError(reply)).code}`).toBe(code);
  expect(await read(send("/enable", { account: "other" }))).toEqual({ account: "other", disabled_at: null });
  expect((await startAs(otherKey)).status).toBe(200);
});
