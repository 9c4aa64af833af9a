import type { Change } from "../change.ts";
import type { Rule } from "../rules/rule.ts";
import { notify } from "./changes.ts";
import type { Query } from "./database.ts";
import { numberPlaceholders } from "./reader.ts";

/** Runs a rule. All processes are notified of its changes once the transaction of `query` is committed. */
export async function runRule<Result>(query: Query, rule: Rule<Result>): Promise<Result> {
  const changes: Change[] = [];
  let step = rule.next([]);
  while (!step.done) {
    const { value } = step;
    if ("changes" in value) changes.push(...value.changes);
    step = rule.next("changes" in value ? [] : await query(numberPlaceholders(value.text), ...value.values));
  }
  if (changes.length > 0) await notify(query, ...changes);
  return step.value;
}
