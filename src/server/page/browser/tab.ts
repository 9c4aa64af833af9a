const accountKey = "vidgen account";

/** Removes what another account has stored in this tab. What the same account stored stays when its session ends. */
export function dropOthers(): void {
  const { account } = document.body.dataset;
  if (account === undefined) return;
  if (kept(accountKey, account) !== account) sessionStorage.clear();
  keep(accountKey, account);
}

/** Stores a value in this tab, for its next pages and reloads, until somebody signs out. */
export function keep(name: string, value: unknown): void {
  sessionStorage.setItem(name, JSON.stringify(value));
}

/** Returns the value that is stored under a name, or else `none`. */
export function kept<T>(name: string, none: T): T {
  return JSON.parse(sessionStorage.getItem(name) ?? "null") ?? none;
}
