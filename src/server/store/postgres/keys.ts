import type { Clock } from "../../../io.ts";
import type { Accounts } from "../accounts.ts";

/** So long a key is accepted without another look: one that another process has revoked is refused after it. */
export const keyMs = 5_000;

type Keys = Pick<Accounts, "account" | "addAccount" | "deleteAccount" | "removeKeys">;

/** Remembers for a short time which account a key belongs to. */
export function rememberKeys(keys: Keys, clock: Pick<Clock, "now">): Keys {
  /** The accounts of keys by the keys' hashes, and until when they hold. */
  const known = new Map<string, { account: string; end: number }>();
  /** Counts the removals of keys: what was read before one may be of a key that is removed. */
  let removals = 0;
  const forget = () => {
    removals++;
    known.clear();
  };
  return {
    async account(keyHash) {
      const found = known.get(keyHash);
      if (found && clock.now() < found.end) return found.account;
      const [end, before] = [clock.now() + keyMs, removals];
      const account = await keys.account(keyHash);
      if (account === undefined) known.delete(keyHash);
      else if (removals === before) known.set(keyHash, { account, end });
      return account;
    },
    addAccount: (account) => (account.isOnlyKey ? keys.addAccount(account).finally(forget) : keys.addAccount(account)),
    deleteAccount: (account, at) => keys.deleteAccount(account, at).finally(forget),
    removeKeys: (removed) => keys.removeKeys(removed).finally(forget),
  };
}
