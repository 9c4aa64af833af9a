/** The trace of which a request is a part (W3C Trace Context), as the `traceparent` header has it. */
export type Traced = { traceparent?: string | undefined };

/** Returns a `traceparent` header that is valid; `undefined` for any other, which is left out. */
export function readTraceparent(header: string | string[] | undefined): string | undefined {
  const text = String(header).trim();
  const isValid = /^(?!ff)[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/.test(text);
  return isValid ? text : undefined;
}

/** The header by which another service joins the trace. */
export function traceHeaders({ traceparent }: Traced): Record<string, string> {
  return traceparent === undefined ? {} : { traceparent };
}
