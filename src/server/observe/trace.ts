/** The trace that a request belongs to: the value of its `traceparent` header (W3C Trace Context). */
export type Traced = { traceparent?: string | undefined };

/** Returns a valid `traceparent` header; `undefined` for an invalid one. */
export function readTraceparent(header: string | string[] | undefined): string | undefined {
  const text = String(header).trim();
  const isValid = /^(?!ff)[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/.test(text);
  return isValid ? text : undefined;
}

/** The header that lets another service join the trace. */
export function traceHeaders({ traceparent }: Traced): Record<string, string> {
  return traceparent === undefined ? {} : { traceparent };
}
