import { join } from "node:path";
import type { Io } from "../io.ts";
import { addAccount, type NewAccount } from "./accounts.ts";
import { readAnnouncement } from "./announcement.ts";
import { takeOwnership } from "./owner.ts";
import { openStore } from "./store/sqlite/sqlite-store.ts";

/**
 * Makes a further account at the service of a folder: through the process that runs it, else in its state directly. Rejects with an error made
 * for people.
 */
export async function makeKey(
  folder: string,
  account: { name: string; credits: number | undefined },
  io: Io,
): Promise<NewAccount> {
  const owner = await takeOwnership(folder, io);
  if (owner.kind === "held") return askOwner(folder, account, io);
  try {
    const store = await openStore(join(folder, "service.db"), io);
    try {
      return await addAccount(store, account.name, account.credits);
    } finally {
      await store.close();
    }
  } finally {
    await owner.release();
  }
}

async function askOwner(folder: string, account: object, { fetch }: Io): Promise<NewAccount> {
  const { base_url, api_key } = (await readAnnouncement(folder)) ?? {};
  if (base_url === undefined) throw new Error("the service that runs here does not answer yet; try again");
  const headers = { Authorization: `Bearer ${api_key}`, "Content-Type": "application/json" };
  const reply = await fetch(`${base_url}/accounts`, { method: "POST", headers, body: JSON.stringify(account) });
  if (reply.status >= 300) throw new Error(`the service that runs here refused: HTTP ${reply.status}`);
  return JSON.parse(await reply.text()) as NewAccount;
}
