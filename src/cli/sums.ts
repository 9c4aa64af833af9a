import { basename } from "node:path";
import { type Entry, groupBy } from "../client/ledger/history.ts";
import { distinctStarts, statedPrice } from "../client/ledger/price.ts";
import { isLocal } from "../client/ledger/same-service.ts";

/** The cost of a start: "?" if its service has not stated it, "-" if nothing can have been charged. */
export type ListedPrice = { credits?: number; usd?: number } | "free" | "?" | "-";

/**
 * The cost of a failed generation is "?", because its credits may have been returned. A provider of the local
 * service is paid in USD.
 */
export function findListedPrice(entry: Entry): ListedPrice {
  const { status, id } = entry;
  const { credits, usd } = statedPrice(entry);
  if (usd !== undefined) return { usd };
  if (status === "unsent" || (status === "refused" && id === undefined) || isNotSubmitted(entry)) return "-";
  if (isLocal(entry) && credits === 0) return "free";
  if (credits === undefined || status === "failed") return "?";
  return { credits };
}

/**
 * Whether a generation of the local service failed before it was submitted to an engine: then it has a code,
 * and nothing was charged.
 */
export function isNotSubmitted({ status, code, cost, base_url }: Entry): boolean {
  return status === "failed" && code !== undefined && cost === undefined && isLocal({ base_url });
}

/** The stated costs of some generations; a unit is `null` if no service has stated a cost in it. */
export type Spent = {
  generations: number;
  credits: number | null;
  /** In US dollars. */
  cost: number | null;
  /** The number of generations that may have been charged and whose cost no service has stated. */
  unknown: number;
};

export function sumSpent(entries: readonly Entry[]): Spent {
  const prices = entries.map(findListedPrice).filter((price) => price !== "-");
  const sumOf = (unit: "credits" | "usd") => {
    const stated = prices.flatMap((price) => {
      if (price === "free") return unit === "credits" ? 0 : [];
      return typeof price === "string" ? [] : (price[unit] ?? []);
    });
    // Without the rounding, 0.1 + 0.2 dollars would be 0.30000000000000004.
    return stated.length === 0 ? null : Math.round(stated.reduce((sum, price) => sum + price, 0) * 1e6) / 1e6;
  };
  const unknown = prices.filter((price) => price === "?").length;
  return { generations: prices.length, credits: sumOf("credits"), cost: sumOf("usd"), unknown };
}

/** What `list --sum` can group by. The label of a row of a batch is the name of its rows file, as at the service. */
const keyFunctions = {
  model: ({ request }) => request.model,
  day: ({ at }) => at.slice(0, 10),
  label: ({ rows_file, batch }) => basename(rows_file?.path ?? batch ?? "") || null,
  service: (entry) => (isLocal(entry) ? "local" : entry.base_url),
} satisfies Record<string, (entry: Entry) => string | null>;

export type SumKey = keyof typeof keyFunctions;

export const sumKeys = Object.keys(keyFunctions) as SumKey[];

/**
 * The sums of each day, newest first, or of each model, label or service, the most expensive first; `key` is
 * `null` for starts without one.
 */
export function sumBy(entries: readonly Entry[], by: SumKey): (Spent & { key: string | null })[] {
  const sums = [...groupBy(distinctStarts(entries), keyFunctions[by])]
    .map(([key, group]) => ({ key, ...sumSpent(group) }))
    .filter(({ generations }) => generations > 0);
  if (by === "day") return sums.sort((a, b) => (b.key ?? "").localeCompare(a.key ?? ""));
  return sums.sort((a, b) => (b.credits ?? 0) - (a.credits ?? 0) || (b.cost ?? 0) - (a.cost ?? 0));
}
