/** A map with a maximum size. */
export type BoundedMap<Value> = Pick<Map<string, Value>, "get" | "has" | "delete" | "keys"> & {
  set(key: string, value: Value): void;
};

/** Creates a map that drops the key that was set first once it has more than `max` keys. */
export function createBoundedMap<Value>(max: number): BoundedMap<Value> {
  const entries = new Map<string, Value>();
  return {
    get: (key) => entries.get(key),
    has: (key) => entries.has(key),
    keys: () => entries.keys(),
    delete: (key) => entries.delete(key),
    set(key, value) {
      entries.delete(key);
      entries.set(key, value);
      const [oldest] = entries.keys();
      if (oldest !== undefined && entries.size > max) entries.delete(oldest);
    },
  };
}
