/** What a tab keeps through its pages and reloads, under a name; whoever signs out takes it away. */
export function keep(name: string, value: unknown): void {
  sessionStorage.setItem(name, JSON.stringify(value));
}

/** Returns what is kept under a name, or else `none`. */
export function kept<T>(name: string, none: T): T {
  return JSON.parse(sessionStorage.getItem(name) ?? "null") ?? none;
}
