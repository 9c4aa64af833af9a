/** Words for the page, on the server and in the browser. */

export type Status = "processing" | "completed" | "failed";

export const statusWords: Record<Status, string> = {
  processing: "Running",
  completed: "Completed",
  failed: "Failed",
};

/** Such as "now", "4 min ago", "in 12 s" or "3 days ago". */
export function ageText(at: string, now: Date): string {
  const ms = now.getTime() - Date.parse(at);
  if (Math.abs(ms) < 5_000) return "now";
  return ms > 0 ? `${durationText(ms)} ago` : `in ${durationText(-ms)}`;
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

/** Such as "1.2 MB". */
export function sizeText(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${Math.round(bytes / 1_000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
