import { randomUUID } from "node:crypto";
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
