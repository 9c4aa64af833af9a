import type { Change } from "../change.ts";
import type { Rule } from "../rules/rule.ts";
import type { Database } from "./database.ts";

/** A file has only one transaction at a time, so nothing needs a lock. */
const locks = / FOR (NO KEY )?UPDATE( SKIP LOCKED)?/;

/** Runs a rule, and adds what to publish once it is durable to `changes`. The caller has begun a transaction. */
export function runRule<Result>(database: Pick<Database, "all">, rule: Rule<Result>, changes: Change[] = []): Result {
  let step = rule.next([]);
  while (!step.done) {
    const { value } = step;
    if ("changes" in value) changes.push(...value.changes);
    step = rule.next("changes" in value ? [] : database.all(value.text.replace(locks, ""), ...value.values));
  }
  return step.value;
}
