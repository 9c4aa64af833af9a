import type { ExpectedCost } from "../client/generation/cost.ts";
import type { Io } from "../io.ts";
import { countCredits, formatNumber, formatUsd } from "../protocol/text.ts";

/** The age of something, rounded down, such as "40 s", "5 min", "13 h" or "3 d"; `at` is ISO 8601. */
export function formatAge({ at }: { at: string }, { date }: Pick<Io, "date">): string {
  const seconds = Math.max(0, Math.floor((date().getTime() - new Date(at).getTime()) / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} d`;
}

/** Formats a duration, such as "40 s" or "1 min 2 s". */
export function formatTime(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** The stated cost of a video: credits, or US dollars that a provider charged. */
export type StatedCost = { credits?: number | undefined; cost?: number | undefined };

/** Formats a cost, such as "for 10 credits"; `undefined` without a stated cost. */
export function formatCost({ credits, cost }: StatedCost): string | undefined {
  if (cost !== undefined) return `for ${formatUsd(cost)}`;
  return credits === undefined ? undefined : `for ${countCredits(credits)}`;
}

/**
 * Formats an expected cost, such as "free", "about 20 credits", "about $3.20 by OpenRouter's list" or "about
 * 20 credits plus sora-2, whose price is unknown"; `undefined` if unknown.
 */
export function formatExpected(cost: ExpectedCost): string | undefined {
  if (cost.kind === "free") return "free";
  if (cost.kind === "unknown") return undefined;
  const { kind, amount, source, unpriced } = cost;
  const list = source === undefined ? "" : ` by ${source}'s list`;
  const more = unpriced.length === 0 ? "" : ` plus ${unpriced.join(", ")}, whose price is unknown`;
  return `about ${kind === "usd" ? formatUsd(amount) : countCredits(amount)}${list}${more}`;
}

/**
 * The last characters of a key, by which its owner recognizes it: at most four, and at most a fifth of the
 * key; "" for a short one.
 */
export function endOfKey(apiKey: string): string {
  const text = apiKey.trim();
  return text.slice(text.length - Math.min(4, Math.floor(text.length / 5)));
}

export function countRows(count: number): string {
  return count === 1 ? "1 row" : `${formatNumber(count)} rows`;
}

const maxListedLines = 10;

/** Such as "line 3" or "lines 3, 4 and 2 more". */
export function nameLines(lines: readonly number[]): string {
  const more = lines.length > maxListedLines ? ` and ${lines.length - maxListedLines} more` : "";
  return `${lines.length === 1 ? "line" : "lines"} ${lines.slice(0, maxListedLines).join(", ")}${more}`;
}
