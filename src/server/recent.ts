/** What is known of the keys that were set last. */
export type Recent<Value> = Pick<Map<string, Value>, "get" | "has" | "delete"> & {
  set(key: string, value: Value): void;
};

/** Creates a map that forgets the oldest of its keys once it has more than `max`. */
export function createRecent<Value>(max: number): Recent<Value> {
  const entries = new Map<string, Value>();
  return {
    get: (key) => entries.get(key),
    has: (key) => entries.has(key),
    delete: (key) => entries.delete(key),
    set(key, value) {
      entries.delete(key);
      entries.set(key, value);
      const [oldest] = entries.keys();
      if (oldest !== undefined && entries.size > max) entries.delete(oldest);
    },
  };
}
