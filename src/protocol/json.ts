export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Like JSON.parse, but returns `undefined` for invalid JSON, and drops `__proto__`, which could change an object's prototype. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text, (key, value) => (key === "__proto__" ? undefined : value));
  } catch {
    return undefined;
  }
}
