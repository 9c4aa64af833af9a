import { hash, randomUUID } from "node:crypto";
import { expect } from "vitest";
import type { Attempt, Delivery } from "../../../src/server/store/deliveries.ts";
import type { StoredGeneration } from "../../../src/server/store/generations.ts";
import type { Store } from "../../../src/server/store/store.ts";

export const cost = 10;

export function newGeneration(fields: Partial<StoredGeneration> = {}): StoredGeneration {
  return {
    id: randomUUID(),
    account: "local",
    status: "processing",
    created_at: "2026-01-01T00:00:00.000Z",
    completed_at: null,
    error: null,
    callback_url: null,
    media: null,
    cost: null,
    checkpoint: null,
    request: {
      prompt: "a fox",
      model: "sora-2",
      aspectRatio: "16:9",
      duration: 5,
      resolution: "720p",
      images: [],
      extras: {},
      hasDirectives: true,
      isReal: false,
    },
    ...fields,
  };
}

/** Gives the account another key, and so many credits. */
export async function setCredits(store: Store, name: string, credits: number): Promise<number> {
  return (await store.addAccount({ name, keyHash: `another of ${name}`, creditsOf: () => credits })).credits;
}

export const completed = {
  status: "completed",
  completed_at: "2026-01-01T00:01:00.000Z",
  error: null,
  media: { file: "/videos/fox.mp4", size: 9, etag: '"9"', thumbnail: null },
  cost: 0.4,
} as const;

export const failed = {
  status: "failed",
  completed_at: "2026-01-01T00:02:00.000Z",
  error: "no",
  media: null,
  cost: null,
} as const;

export const newDelivery = (id: string, generation: string, next_at = "2026-01-01T00:01:00.000Z"): Delivery => ({
  id,
  generation,
  account: "local",
  url: "https://hook.example/",
  body: '{"id":"1"}',
  attempts: 0,
  next_at,
});

export const attempt = (outcome: string, fields: Partial<Attempt> = {}): Attempt => ({
  at: "2026-01-01T00:01:00.000Z",
  outcome,
  delivered: false,
  reply: "",
  ms: 12,
  ...fields,
});

/** A text as a client may send it, and as both databases keep it. */
export const odd = "NUL \0, half a pair \ud800, a fox 🦊, 'quotes\", \u202e";
export const kept = (text: string) => text.replace(/[\0\p{Surrogate}]/gu, "\ufffd");
export const keptOdd = kept(odd);

/** The generations that have not ended, oldest first. */
export async function findUnfinished(store: Store): Promise<StoredGeneration[]> {
  const listed = (await store.list({ limit: 1_000 })).filter(({ status }) => status === "processing");
  const found = await Promise.all(listed.reverse().map(({ id }) => store.generation(id)));
  return found.filter((generation) => generation !== undefined);
}

/** The deliveries of a database of one process that have an attempt to come, by the time when it is due. */
export async function findPending(store: Store): Promise<Delivery[]> {
  const query = { now: "9999-12-31T00:00:00.000Z", limit: 1_000, perHost: 1_000, except: [], hosts: {} };
  return (await store.due(query)).deliveries;
}

/** A body that is refused now where a key is sent, and the id of its generation. */
export const doubledId = "00000000-0000-4000-8000-00000000000d";
export const doubledBody = '{"model":"sora-2","prompt":"a fox","prompt":"a fox"}';

/** Keys that a process of version 1 to 5 has stored, each as it was sent, with the body that came with it and the id of its generation. */
const keysBefore = [
  ["bare", '{"a":1,"b":2}', "bare fox"],
  ['"quoted"', '{"a":1,"b":2}', "quoted fox"],
  ["both", "{}", "fox of the bare key"],
  ['"both"', "{}", "fox of the quoted key"],
  ["doubled", doubledBody, doubledId],
] as const;

/** Statements that store `keysBefore`, and credits that were added with the key "credits" in quotes, in tables of version 1 to 5. */
export function insertKeysBefore(schema: "" | "vidgen."): string {
  const generations = keysBefore.map(([key, body, id]) => {
    const search = schema && { search: "" };
    const row = { id, account: "local", status: "processing", created_at: "2026-01-01T00:00:00.000Z", ...search };
    const fields = {
      ...row,
      asked: '{"request":{"prompt":"a fox","model":"sora-2","images":[]}}',
      result: "{}",
      model: "sora-2",
      state: "queued",
    };
    return `INSERT INTO ${schema}generations (${Object.keys(fields)}) VALUES ('${Object.values(fields).join("', '")}');
      INSERT INTO ${schema}idempotency_keys (account, key_hash, body_hash, generation, remaining_credits)
      SELECT 'local', '${hash("sha256", key)}', '${hash("sha256", body)}', number, 90 FROM ${schema}generations WHERE id = '${id}';`;
  });
  return `INSERT INTO ${schema}accounts (name, balance) VALUES ('local', 50);
    INSERT INTO ${schema}ledger (account, amount, reason, at, key_hash) VALUES ('local', 50, '', '', '${hash("sha256", '"credits"')}');
    ${generations.join("\n")}`;
}

/** Expects that the keys of `insertKeysBefore` are found, however they are sent, with the bodies that they came with, and that nothing is charged. */
export async function expectKeysBefore(store: Store): Promise<void> {
  const start = (key: string, body: string) => store.start(newGeneration(), cost, { key, body });
  const replayOf = (id: string) => ({ kind: "started", replayed: true, remaining_credits: 90, generation: { id } });
  for (const [key, id] of [
    ["bare", "bare fox"],
    ['"bare"', "bare fox"],
    ["quoted", "quoted fox"],
    ['"quoted"', "quoted fox"],
  ] as const) {
    expect(await start(key, '{"a":1,"b":2}')).toMatchObject(replayOf(id));
    expect(await start(key, '{"b":2,"a":1}')).toEqual({ kind: "key reused" });
  }
  expect(await start("both", "{}")).toMatchObject(replayOf("fox of the bare key"));
  expect(await start('"both"', "{}")).toMatchObject(replayOf("fox of the quoted key"));
  const added = { kind: "added", credits: 50, replayed: true };
  expect(await store.addCredits({ account: "local", amount: 50, key: "credits" })).toEqual(added);
  expect(await start("new", '{"a":1,"b":2}')).toMatchObject({ replayed: false });
  expect(await start('"new"', '{"b":2,"a":1}')).toMatchObject({ replayed: true });
  expect(await store.balance("local")).toBe(50 - cost);
}
