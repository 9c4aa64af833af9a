import { usage } from "../errors.ts";
import { readNumber } from "./values.ts";

/** The limits of `--max-credits` and `--max-cost`. Throws `usage`. */
export function readBudget({ maxCredits, maxCost }: { maxCredits?: string; maxCost?: string }) {
  return {
    maxCredits: maxCredits === undefined ? undefined : readNumber(maxCredits, "--max-credits", { min: 1 }),
    maxCost: maxCost === undefined ? undefined : readUsd(maxCost, "--max-cost"),
  };
}

function readUsd(text: string, flag: string): number {
  const value = Number(text.replace(/^\$/, ""));
  if (/^\$?\d+(\.\d+)?$/.test(text) && value > 0) return value;
  throw usage(`${flag} must be an amount of US dollars, such as 5 or 0.75, not "${text}".`);
}
