import { endChanges } from "../change.ts";
import type { Delivery } from "../deliveries.ts";
import type { Cancellation, GenerationEnd } from "../generations.ts";
import { searchText } from "../search.ts";
import { toJson } from "../values.ts";
import { addDelivery } from "./callback.ts";
import { refund } from "./credits.ts";
import { isHeldHere, lockOwner } from "./generation.ts";
import { type Context, publish, type Rule, type SqlValue, sql } from "./rule.ts";

type Ending = { end: GenerationEnd; delivery: Delivery | undefined };

/** Ends a generation that this process makes. Returns whether it did. See `Generations`. */
export function* finish(id: string, ending: Ending, context: Context): Rule<boolean> {
  return yield* endIf([isHeldHere, context.process], { id, ...ending }, context);
}

/** Ends a generation, whichever process makes it, unless it is being submitted, or was submitted to an engine other than `engine`. */
export function* cancel(id: string, { engine, ...ending }: Cancellation, context: Context): Rule<boolean> {
  const condition = "NOT is_submitting AND engine IS NOT DISTINCT FROM ?";
  return yield* endIf([condition, engine], { id, ...ending, isCancelled: true }, context);
}

/** Ends a generation that has not ended and meets the condition, adds its callback, and returns its credits if `isRefunded`. */
function* endIf(
  [condition, value]: [condition: string, value: SqlValue],
  { id, end, delivery, isCancelled = false }: Ending & { id: string; isCancelled?: boolean },
  context: Context,
): Rule<boolean> {
  const account = yield* lockOwner(id);
  const { status, completed_at, error, error_code, failure, engine_code, media, cost, isRefunded } = end;
  // Once a generation has ended, `state` equals `status`. Until then, `status` is processing, and `state` is queued or running.
  const [ended] = yield* sql(
    `UPDATE generations SET status = ?, state = ?, completed_at = ?, result = ?, secrets = NULL
     WHERE id = ? AND status = 'processing' AND ${condition} RETURNING number`,
    ...[status, status, completed_at, toJson({ error, error_code, failure, engine_code, media, cost }), id, value],
  );
  if (!ended) return false;
  const number = Number(ended.number);
  if (error !== null) yield* sql(context.addToSearch, searchText("", error), number);
  if (isRefunded) yield* refund(account, number, completed_at ?? context.now());
  if (delivery) yield* addDelivery(delivery, context);
  yield* publish(...endChanges({ id, account: account.name }, { isRefunded, isCancelled }, delivery));
  return true;
}
