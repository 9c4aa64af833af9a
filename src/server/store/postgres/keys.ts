import type { Clock } from "../../../io.ts";
import type { Accounts } from "../accounts.ts";

/**
 * How long a key is accepted before it is read again. A key that another process has revoked, or whose account another process has disabled, is
 * refused after this time.
 */
export const keyMs = 5_000;

type Keys = Pick<Accounts, "account" | "addAccount" | "deleteAccount" | "removeKeys" | "setDisabled">;

/** Remembers for a short time which account a key belongs to. */
export function rememberKeys(keys: Keys, clock: Pick<Clock, "now">): Keys {
  /** The accounts of keys by the keys' hashes, and until when each is valid. */
  const known = new Map<string, { account: string; end: number }>();
  /** Counts the removals of keys, because a read that began before a removal may return a removed key. */
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
    addAccount: (account) =>
      account.replacesKeys ? keys.addAccount(account).finally(forget) : keys.addAccount(account),
    deleteAccount: (account, at) => keys.deleteAccount(account, at).finally(forget),
    setDisabled: (account, at) => keys.setDisabled(account, at).finally(forget),
    removeKeys: (removed) => keys.removeKeys(removed).finally(forget),
  };
}
