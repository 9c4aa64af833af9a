import type { Clock } from "../../../io.ts";
import type { OnTrouble } from "../../api/message.ts";
import type { Store, Work } from "../store.ts";

/** What the first process writes into an empty database. */
export type FirstValues = {
  account: { name: string; keyHash: string; credits: number };
  webhookSecret: string;
  pageSecret: string;
};

export type Postgres = {
  store: Store;
  work: Work;
  /** Writes these values unless an earlier process has written its own; resolves with those that count, and whether the account is new. */
  initialize(values: FirstValues): Promise<{ isFirst: boolean } & Omit<FirstValues, "account">>;
};

export type PostgresOptions = {
  /** Identifies this process as the holder of what it makes: a UUID. */
  process: string;
  clock: Pick<Clock, "sleep">;
  onTrouble: OnTrouble;
};

/** Opens a PostgreSQL database and brings it to this program's version. Rejects with an error made for people, which has no password. */
export async function openPostgres(_url: string, _options: PostgresOptions): Promise<Postgres> {
  throw new Error("not yet");
}
