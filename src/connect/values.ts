import { usage } from "../errors.ts";

/** A year of 365 days, a day, an hour, a minute and a second. */
const unitSeconds = [31_536_000, 86_400, 3_600, 60, 1];

/** Each unit as a letter or a word, such as "5 minutes". */
const timePattern =
  /^(?:(\d+) ?(?:y|years?) ?)?(?:(\d+) ?(?:d|days?) ?)?(?:(\d+) ?(?:h|hours?) ?)?(?:(\d+) ?(?:m|min|minutes?) ?)?(?:(\d+(?:\.\d+)?) ?(?:s|sec|seconds?)?)?$/;

/** A time such as "90s", "5m", "1h30m", "30d", "1y" (365 days) or plain seconds, in milliseconds. Throws `usage`. */
export function readTime(text: string, flag: string): number {
  const [whole, ...counts] = timePattern.exec(text) ?? [];
  const total = counts.reduce((sum, count, place) => sum + Number(count ?? 0) * (unitSeconds[place] ?? 0), 0);
  if (whole && total > 0 && total < 1e9) return total * 1000;
  throw usage(`${flag} must be a time such as 90s, 5m, 1h30m or plain seconds, not "${text}".`);
}

/** A whole number; without `most` there is no maximum. Throws `usage`. */
export function readNumber(text: string, flag: string, { least = 0, most }: { least?: number; most?: number }): number {
  const number = Number(text);
  if (/^\d+$/.test(text) && number >= least && number <= (most ?? Number.MAX_SAFE_INTEGER)) return number;
  const range = most === undefined ? `, at least ${least}` : ` from ${least} to ${most}`;
  throw usage(`${flag} must be a whole number${range}, not "${text}".`);
}
