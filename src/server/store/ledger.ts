import type { Database } from "./sqlite.ts";

/** Accounts, their keys' hashes and their credits. Synchronous: changes belong into a transaction. */
export type Ledger = {
  accountOf(keyHash: string): string | undefined;
  addAccount(account: { name: string; keyHash: string }): void;
  /** Throws where there is no such account. */
  balance(account: string): number;
  credit(account: string, amount: number, reason: string): void;
  /** Pays for a generation, by its number: at most once. */
  debit(account: string, cost: number, generation: number): void;
};

export function createLedger(database: Database): Ledger {
  const findKey = database.statement("SELECT account FROM keys WHERE hash = ?");
  const findBalance = database.statement("SELECT balance FROM accounts WHERE name = ?");
  const addAccount = database.statement("INSERT INTO accounts (name) VALUES (?) ON CONFLICT DO NOTHING");
  const addKey = database.statement("INSERT INTO keys (hash, account) VALUES (?, ?)");
  const addRow = database.statement("INSERT INTO ledger (account, amount, reason, generation) VALUES (?, ?, ?, ?)");

  const accountOf = (keyHash: string) => findKey.get(keyHash)?.account as string | undefined;
  const balance = (account: string) => {
    const found = findBalance.get(account);
    if (!found) throw new Error(`no account ${account}`);
    return Number(found.balance);
  };
  return {
    accountOf,
    balance,
    addAccount({ name, keyHash }) {
      const owner = accountOf(keyHash);
      if (owner === name) return;
      if (owner !== undefined) throw new Error(`this key belongs to the account ${owner}`);
      addAccount.run(name);
      addKey.run(keyHash, name);
    },
    credit(account, amount, reason) {
      checkSum(account, balance(account), amount);
      addRow.run(account, amount, reason, null);
    },
    debit(account, cost, generation) {
      addRow.run(account, -cost, "start", generation);
    },
  };
}

/** The database would refuse it as well, in words of its own. */
function checkSum(account: string, balance: number, amount: number): void {
  if (!Number.isSafeInteger(amount)) throw new Error(`${amount} is not a whole number of credits`);
  const sum = balance + amount;
  if (sum < 0) throw new Error(`${account} has ${balance} credits, ${-amount} cannot be taken`);
  if (!Number.isSafeInteger(sum))
    throw new Error(`${account} cannot have more than ${Number.MAX_SAFE_INTEGER} credits`);
}
