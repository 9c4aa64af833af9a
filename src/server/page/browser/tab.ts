const accountKey = "vidgen account";

/** Clears the tab's storage if another account wrote it. It survives the end of a session of the same account. */
export function dropOthers(): void {
  const { account } = document.body.dataset;
  if (account === undefined) return;
  if (kept(accountKey, account) !== account) sessionStorage.clear();
  keep(accountKey, account);
}

/** Stores a value in this tab, across pages and reloads, until sign-out. */
export function keep(name: string, value: unknown): void {
  sessionStorage.setItem(name, JSON.stringify(value));
}

/** Returns the stored value of a name, or else `byDefault`. */
export function kept<T>(name: string, byDefault: T): T {
  return JSON.parse(sessionStorage.getItem(name) ?? "null") ?? byDefault;
}
