import { readDirectives } from "./directives.ts";
import type { RenderRequest } from "./engines/engine.ts";

/** A generation as the service keeps it: the fields of interface 2.1, whose it is, and what was asked for. */
export type StoredGeneration = {
  id: string;
  account: string;
  status: "processing" | "completed" | "failed";
  created_at: string;
  completed_at: string | null;
  error: string | null;
  callback_url: string | null;
  request: RenderRequest;
  media: Media | null;
};

/** A rendered video on disk. `etag` is strong: it names these very bytes. `thumbnail` is the path of a PNG. */
export type Media = { file: string; size: number; etag: string; thumbnail: string | null };

/** What a start leaves behind; `replayed` when the same Idempotency-Key had been seen before. */
export type StartOutcome =
  | { kind: "started"; generation: StoredGeneration; remaining_credits: number; replayed: boolean }
  | { kind: "no credits" }
  | { kind: "key reused" };

/** The service's state. Its methods are async, so that it may live on disk or elsewhere. */
export type Store = {
  /** The account a key belongs to; looked up by the key's hash. */
  account(keyHash: string): Promise<string | undefined>;
  addAccount(account: { name: string; keyHash: string; credits: number }): Promise<void>;
  /** Takes the credits and adds the generation, both or neither. */
  start(generation: StoredGeneration, cost: number, idempotency: Idempotency | undefined): Promise<StartOutcome>;
  generation(id: string): Promise<StoredGeneration | undefined>;
  /** Moves a generation to the state it ends in and returns it. */
  finish(
    id: string,
    end: Pick<StoredGeneration, "status" | "completed_at" | "error" | "media">,
  ): Promise<StoredGeneration>;
};

/** The client's name for an attempt, and the body it was sent with. */
export type Idempotency = { key: string; body: string };

/** The state in memory: it lives as long as the process. */
export function createMemoryStore(): Store {
  const accounts = new Map<string, { name: string; credits: number }>();
  const generations = new Map<string, StoredGeneration>();
  const attempts = new Map<string, Idempotency & { id: string; remaining: number }>();

  const accountNamed = (name: string) => {
    for (const account of accounts.values()) if (account.name === name) return account;
    throw new Error(`no account ${name}`);
  };

  return {
    async account(keyHash) {
      return accounts.get(keyHash)?.name;
    },
    async addAccount({ keyHash, name, credits }) {
      accounts.set(keyHash, { name, credits });
    },
    async start(generation, cost, idempotency) {
      const attemptKey = JSON.stringify([generation.account, idempotency?.key]);
      const earlier = idempotency && attempts.get(attemptKey);
      const known = earlier && generations.get(earlier.id);
      if (earlier && earlier.body !== idempotency.body) return { kind: "key reused" };
      if (known) return { kind: "started", generation: known, remaining_credits: earlier.remaining, replayed: true };
      const account = accountNamed(generation.account);
      if (account.credits < cost) return { kind: "no credits" };
      account.credits -= cost;
      generations.set(generation.id, generation);
      if (idempotency) attempts.set(attemptKey, { ...idempotency, id: generation.id, remaining: account.credits });
      return { kind: "started", generation, remaining_credits: account.credits, replayed: false };
    },
    async generation(id) {
      return generations.get(id);
    },
    async finish(id, end) {
      const found = generations.get(id);
      if (!found) throw new Error(`no generation ${id}`);
      const finished = { ...found, ...end };
      generations.set(id, finished);
      return finished;
    },
  };
}

/** The status reply (interface 4.2); the callback's body adds `completed_at` (section 6). A failed one has an `error` text. */
export function statusBody(generation: StoredGeneration, mediaUrl: string) {
  const { id, status, media, created_at, error } = generation;
  const isShown = media !== null && !readDirectives(generation.request.prompt).noVideo;
  const video_url = isShown ? `${mediaUrl}/${id}.mp4` : null;
  const thumbnail_url = isShown && media.thumbnail !== null ? `${mediaUrl}/${id}.png` : null;
  return { id, status, video_url, thumbnail_url, created_at, ...(error === null ? {} : { error }) };
}
