import { usage } from "../errors.ts";

/** A year of 365 days, a day, an hour, a minute and a second. */
const unitSeconds = [31_536_000, 86_400, 3_600, 60, 1];

/** Each unit as a letter or a word, such as "5 minutes". */
const timePattern =
  /^(?:(\d+) ?(?:y|years?) ?)?(?:(\d+) ?(?:d|days?) ?)?(?:(\d+) ?(?:h|hours?) ?)?(?:(\d+) ?(?:m|min|minutes?) ?)?(?:(\d+(?:\.\d+)?) ?(?:s|sec|seconds?)?)?$/;

/** A time such as "90s", "5m", "1h30m", "30d", "1y" (365 days) or plain seconds, in milliseconds. Throws `usage`. */
export function readTime(text: string, flag: string): number {
  const [match, ...counts] = timePattern.exec(text) ?? [];
  const total = counts.reduce((sum, count, index) => sum + Number(count ?? 0) * (unitSeconds[index] ?? 0), 0);
  if (match && total > 0 && total < 1e9) return total * 1000;
  throw usage(`${flag} must be a time such as 90s, 5m, 1h30m or plain seconds, not "${text}".`);
}

/** A whole number; without `most` there is no maximum. Throws `usage`. */
export function readNumber(text: string, flag: string, { min = 0, max }: { min?: number; max?: number }): number {
  const number = Number(text);
  if (/^\d+$/.test(text) && number >= min && number <= (max ?? Number.MAX_SAFE_INTEGER)) return number;
  const range = max === undefined ? `, at least ${min}` : ` from ${min} to ${max}`;
  throw usage(`${flag} must be a whole number${range}, not "${text}".`);
}
