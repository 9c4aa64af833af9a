/** A reply that says no. Thrown by whatever finds the reason, turned into the reply in one place. */
export type Refusal = { status: number; code: string; message: string; headers: Record<string, string> };

const refusals = new WeakSet<object>();

export function refuse(status: number, code: string, message: string, headers: Record<string, string> = {}): Refusal {
  const refusal = { status, code, message, headers };
  refusals.add(refusal);
  return refusal;
}

export function isRefusal(thrown: unknown): thrown is Refusal {
  return typeof thrown === "object" && thrown !== null && refusals.has(thrown);
}

/** The body that the local service uses where the interface shows none (section 7). */
export function refusalResponse({ status, code, message, headers }: Refusal): Response {
  return Response.json({ error: { code, message } }, { status, headers });
}
