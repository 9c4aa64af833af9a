import type { Clock } from "../../io.ts";
import { readDirectives } from "../directives.ts";
import type { RenderRequest } from "../engines/engine.ts";
import { createCommits } from "./commits.ts";
import { createDeliveries } from "./deliveries.ts";
import { createGenerations, type End } from "./generations.ts";
import { createLedger } from "./ledger.ts";
import { checkDatabase, migrate } from "./migrations.ts";
import { createRecent } from "./recent.ts";
import { type Database, openDatabase, useWriteAheadLog } from "./sqlite.ts";
import { createStart } from "./starts.ts";

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

/**
 * A rendered video on disk. `etag` is strong: it names these very bytes. `thumbnail` is the path of a PNG of the middle frame, `null` where
 * none was made.
 */
export type Media = { file: string; size: number; etag: string; thumbnail: string | null };

/** What a start leaves behind; `replayed` when the same Idempotency-Key had been seen before. */
export type StartOutcome =
  | { kind: "started"; generation: StoredGeneration; remaining_credits: number; replayed: boolean }
  | { kind: "no credits" }
  | { kind: "key reused" };

/** The client's name for an attempt, and the body it was sent with. */
export type Idempotency = { key: string; body: string };

/**
 * A callback to be sent. `id` is its webhook-id; `body` is kept once, so that every attempt signs the same bytes; `next_at` is when it is
 * due (ISO 8601).
 */
export type NewDelivery = { id: string; url: string; body: string; next_at: string };

/** A callback that is not through, the generation it tells of, and how often it was tried. */
export type Delivery = NewDelivery & { generation: string; attempts: number };

/** One try to deliver a callback: when (ISO 8601), and what came of it, for people. */
export type Attempt = { at: string; outcome: string; delivered: boolean };

/**
 * The service's state. Its methods are async, so that it may live on disk or elsewhere; one that changes something resolves when the change
 * is durable, and has changed nothing when it rejects.
 */
export type Store = {
  /** The account a key belongs to; looked up by the key's hash. */
  account(keyHash: string): Promise<string | undefined>;
  /**
   * Makes the account, or gives one that exists this key too. Its balance is the sum of its rows in the ledger: 0 for a new one. Rejects
   * when the key is another account's.
   */
  addAccount(account: { name: string; keyHash: string }): Promise<void>;
  /** Credits. Rejects where there is no such account. */
  balance(account: string): Promise<number>;
  /** Adds credits (or takes them, when negative) by a row of the ledger with this reason. Rejects what would leave less than none. */
  credit(account: string, amount: number, reason: string): Promise<void>;
  /** Takes the credits and adds the generation and the idempotency key, all or nothing. */
  start(generation: StoredGeneration, cost: number, idempotency: Idempotency | undefined): Promise<StartOutcome>;
  generation(id: string): Promise<StoredGeneration | undefined>;
  /** What has not ended, oldest first: the queue goes on with it after a restart. */
  unfinished(): Promise<StoredGeneration[]>;
  /**
   * Moves a generation to the state it ends in and adds the delivery of its callback, both or neither. One that has ended already stays as
   * it is, and gets no second delivery; returned is what is kept.
   */
  finish(id: string, end: End, delivery?: NewDelivery): Promise<StoredGeneration>;
  /** Deliveries that are not through, by the time they are due. */
  pendingDeliveries(): Promise<Delivery[]>;
  /** Writes an attempt down, and when the next is due; `null` when there is none to come, because it was delivered or given up. */
  recordAttempt(deliveryId: string, attempt: Attempt, next_at: string | null): Promise<void>;
  /** Resolves when what is under way is written and the file is closed. */
  close(): Promise<void>;
};

/** Every change that is asked for in one go shares a commit; a real clock's `turn` lets what comes in meanwhile share it too. */
const atOnce: Pick<Clock, "turn"> = { turn: async () => {} };

/**
 * Opens the state that a file holds, or a fresh one in memory. The caller owns the file's folder: there is no other lock. Rejects, and leaves
 * the file as it is, when that is damaged, not ours or of a newer version.
 */
export async function openStore(file: string | ":memory:", clock: Pick<Clock, "turn"> = atOnce): Promise<Store> {
  const database = await openChecked(file);
  const commits = createCommits(database, clock);
  const generations = createGenerations(database);
  const ledger = createLedger(database);
  const deliveries = createDeliveries(database);
  const start = createStart(database, generations, ledger);
  // A client that polls asks for the same two each time; a key stays its account's.
  const accounts = createRecent({ find: ledger.accountOf, most: mostKept });
  const recent = createRecent({ find: (id) => generations.find(id)?.generation, most: mostKept, mayKeep: isShort });
  const found = (id: string) => {
    const known = generations.find(id);
    if (!known) throw new Error(`no generation ${id}`);
    return known;
  };
  return {
    account: async (keyHash) => accounts.read(keyHash),
    addAccount: (account) => commits.write(() => ledger.addAccount(account)),
    balance: async (account) => ledger.balance(account),
    credit: (account, amount, reason) => commits.write(() => ledger.credit(account, amount, reason)),
    start: (generation, cost, idempotency) => commits.write(() => start(generation, cost, idempotency)),
    generation: async (id) => recent.read(id),
    unfinished: async () => generations.unfinished(),
    finish: (id, end, delivery) =>
      commits.write(() => {
        const { number } = found(id);
        recent.forget(id);
        if (generations.end(number, end) && delivery) deliveries.add(delivery, number);
        return generations.at(number);
      }),
    pendingDeliveries: async () => deliveries.pending(),
    recordAttempt: (id, attempt, next_at) => commits.write(() => deliveries.record(id, attempt, next_at)),
    async close() {
      await commits.close();
      database.close();
    },
  };
}

const mostKept = 1_000;

/** An image may be part of its request. */
function isShort({ request }: StoredGeneration): boolean {
  return JSON.stringify(request).length < 4_000;
}

async function openChecked(file: string): Promise<Database> {
  let database: Database | undefined;
  try {
    database = await openDatabase(file);
    checkDatabase(database);
    await useWriteAheadLog(database, file);
    migrate(database);
    return database;
  } catch (error) {
    database?.close();
    throw new Error(`${file} cannot be used: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
}

/** The status reply (interface 4.2); the callback's body adds `completed_at` (section 6). A failed one has an `error` text. */
export function statusBody(generation: StoredGeneration, mediaUrl: string) {
  const { id, status, media, created_at, error } = generation;
  const isShown = media !== null && !readDirectives(generation.request.prompt).noVideo;
  const video_url = isShown ? `${mediaUrl}/${id}.mp4` : null;
  const thumbnail_url = isShown && media.thumbnail !== null ? `${mediaUrl}/${id}.png` : null;
  return { id, status, video_url, thumbnail_url, created_at, ...(error === null ? {} : { error }) };
}
