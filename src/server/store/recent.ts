/** What was read lately, so that it need not be read again while it stays as it is. */
export type Recent<Value> = {
  read(key: string): Value | undefined;
  /** To be called when what is kept under a key changes. */
  forget(key: string): void;
};

export type RecentOptions<Value> = {
  find(key: string): Value | undefined;
  /** How many are kept; the one that came first goes. */
  most: number;
  /** A large one is read each time. */
  mayKeep?(value: Value): boolean;
};

/** Keeps what `find` has found. What it has not found is looked for again. */
export function createRecent<Value>({ find, most, mayKeep = () => true }: RecentOptions<Value>): Recent<Value> {
  const kept = new Map<string, Value>();
  const keep = (key: string, value: Value) => {
    const [oldest] = kept.size < most ? [] : kept.keys();
    if (oldest !== undefined) kept.delete(oldest);
    kept.set(key, value);
  };
  return {
    read(key) {
      const known = kept.get(key);
      if (known !== undefined) return known;
      const found = find(key);
      if (found !== undefined && mayKeep(found)) keep(key, found);
      return found;
    },
    forget: (key) => void kept.delete(key),
  };
}
