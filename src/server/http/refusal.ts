import { jsonReply } from "./reply.ts";

/** A reply that says no. Thrown by whatever finds the reason, turned into the reply in one place. */
export type Refusal = { status: number; code: string; message: string; headers: Record<string, string> };

const refusals = new WeakSet<object>();

export function refuse(status: number, code: string, message: string, headers: Record<string, string> = {}): Refusal {
  const refusal = { status, code, message, headers };
  refusals.add(refusal);
  return refusal;
}

function isRefusal(thrown: unknown): thrown is Refusal {
  return typeof thrown === "object" && thrown !== null && refusals.has(thrown);
}

/** The reply for what was thrown, a refusal or a defect, with the local service's own body: the interface shows none (section 7). */
export function refusalResponse(thrown: unknown): Response {
  const defect = refuse(500, "internal", "the local service met a defect of its own");
  const { status, code, message, headers } = isRefusal(thrown) ? thrown : defect;
  return jsonReply({ error: { code, message } }, { status, headers });
}
