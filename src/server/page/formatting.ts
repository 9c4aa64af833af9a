import type { Progress } from "../store/change.ts";
import type { GenerationState } from "../store/generations.ts";

export const stateWords: Record<GenerationState, string> = {
  queued: "Queued",
  running: "Running",
  completed: "Completed",
  failed: "Failed",
};

/** Such as "now", "4 min ago", "in 12 s" or "3 days ago". */
export function ageText(at: string, now: Date): string {
  const ms = now.getTime() - Date.parse(at);
  if (Math.abs(ms) < 5_000) return "now";
  return ms > 0 ? `${durationText(ms)} ago` : `in ${durationText(-ms)}`;
}

/** When a generation probably ends, and from when on it takes longer than usual (ISO 8601). */
export type ExpectedEnd = { until: string; late: string };

/** The elapsed time to the second, such as "42 s", "3:07" or "1:02:30". */
export function elapsedText(since: string, now: Date): string {
  const seconds = Math.max(0, Math.floor((now.getTime() - Date.parse(since)) / 1_000));
  if (seconds < 60) return `${seconds} s`;
  const parts = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60, seconds % 60];
  const [first, ...rest] = parts[0] === 0 ? parts.slice(1) : parts;
  return [first, ...rest.map((part) => String(part).padStart(2, "0"))].join(":");
}

/** Such as "about 20 s left" or "about 2 min left"; "a few seconds left" below 10 s, and "longer than usual" after `late`. */
export function leftText({ until, late }: ExpectedEnd, now: Date): string {
  if (now.getTime() >= Date.parse(late)) return "longer than usual";
  const ms = Date.parse(until) - now.getTime();
  if (ms < 10_000) return "a few seconds left";
  const unitMs = ms <= 60_000 ? 10_000 : 60_000;
  return `about ${durationText(Math.ceil(ms / unitMs) * unitMs)} left`;
}

/** Such as "1,200". */
export function countText(count: number): string {
  return count.toLocaleString("en");
}

/** Such as "1 credit" or "1,200 credits". */
export function creditsText(credits: number): string {
  return credits === 1 ? "1 credit" : `${countText(credits)} credits`;
}

/** A price in credits; `undefined` for 0, which is not shown. */
export function priceText(credits: number): string | undefined {
  return credits === 0 ? undefined : creditsText(credits);
}

/** Such as "$0.40". */
export function usdText(usd: number): string {
  return `$${usd.toFixed(2)}`;
}

/** Such as "42 %", "42 % of KSampler" or "KSampler". */
export function progressText({ percent, node, fetching }: Progress): string {
  const done = [percent === undefined ? undefined : `${Math.floor(percent)} %`, node]
    .filter((part) => part !== undefined)
    .join(" of ");
  return fetching === undefined ? done : `${done}, completed at its engine; ${fetching}`;
}

const units = [
  { ms: 86_400_000, name: "day" },
  { ms: 3_600_000, name: "h" },
  { ms: 60_000, name: "min" },
];

/** Such as "0.4 s", "12 s", "3 min" or "2 days". */
export function durationText(ms: number): string {
  const unit = units.find((candidate) => ms >= candidate.ms);
  if (!unit) return ms < 1_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.floor(ms / 1_000)} s`;
  const count = Math.floor(ms / unit.ms);
  return `${count} ${unit.name}${unit.name === "day" && count > 1 ? "s" : ""}`;
}

/** Such as "40 ms", "12 s", "3 min 20 s", "2 h 5 min" or "3 days". */
export function spanText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000 || ms >= 86_400_000) return durationText(ms);
  const [unit, smallest] = ms < 3_600_000 ? [60_000, 1_000] : [3_600_000, 60_000];
  const rest = ms % unit;
  return rest < smallest ? durationText(ms) : `${durationText(ms)} ${durationText(rest)}`;
}

const clockFormats = {
  date: { dateStyle: "medium", timeStyle: "medium" },
  time: { timeStyle: "medium" },
} as const;

export type ClockKind = keyof typeof clockFormats;

/** Such as "23 Nov 2026, 17:03:21" or "17:03:21", in the time zone of this machine unless another one is given. */
export function clockText(at: string, kind: ClockKind, timeZone?: string): string {
  return new Intl.DateTimeFormat("en-GB", { ...clockFormats[kind], timeZone }).format(new Date(at));
}

/** A text on one line, cut after this number of characters. */
export function shortText(text: string, characters: number): string {
  const line = text.replace(/\s+/g, " ").trim();
  if (line.length <= characters) return line;
  // Does not cut a surrogate pair in half.
  return `${line
    .slice(0, characters)
    .replace(/[\ud800-\udbff]$/, "")
    .trimEnd()}…`;
}

/** Such as "1.2 MB". */
export function sizeText(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${Math.round(bytes / 1_000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
