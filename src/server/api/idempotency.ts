import { type ApiContext, refuse } from "../http/message.ts";
import { parseKey } from "../store/idempotency.ts";

/** The maximum length of an Idempotency-Key, in characters. */
export const maxKeyLength = 255;

/**
 * Returns the Idempotency-Key of a request as it was sent; `undefined` without one. Throws a refusal if there are several, or if its key is empty or
 * too long.
 */
export function readIdempotencyKey({ req, env }: ApiContext): string | undefined {
  const sent = req.header("Idempotency-Key");
  if (sent === undefined) return undefined;
  const { length } = parseKey(sent);
  // Node joins headers of the same name.
  if ((env?.incoming?.headersDistinct["idempotency-key"]?.length ?? 1) > 1 || length === 0 || length > maxKeyLength)
    throw refuseKey(
      400,
      "invalid_idempotency_key",
      `there must be one Idempotency-Key, of 1 to ${maxKeyLength} characters; nothing was charged`,
    );
  return sent;
}

/** Returns the refusal of a request for its Idempotency-Key, with a link to what describes the header. */
export function refuseKey(status: 400 | 422, code: string, message: string) {
  return refuse(status, code, message, { Link: '</openapi.json>; rel="describedby"; type="application/json"' });
}

/** Says in the headers of the reply that it repeats an earlier one, and that nothing was charged. */
export function setReplayed(c: ApiContext): void {
  c.header("Idempotent-Replayed", "true");
}
