const accountKey = "vidgen account";

/** Clears the tab's storage if another account wrote it. What the same account wrote survives the end of its session. */
export function clearOtherAccount(): void {
  const { account } = document.body.dataset;
  if (account === undefined) return;
  if (readFromTab(accountKey, account) !== account) sessionStorage.clear();
  saveInTab(accountKey, account);
}

/** Stores a value in this tab, across pages and reloads, until sign-out. */
export function saveInTab(name: string, value: unknown): void {
  sessionStorage.setItem(name, JSON.stringify(value));
}

/** Returns a value that is stored in this tab, or else `fallback`. */
export function readFromTab<T>(name: string, fallback: T): T {
  return JSON.parse(sessionStorage.getItem(name) ?? "null") ?? fallback;
}
