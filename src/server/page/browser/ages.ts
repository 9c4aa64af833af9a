import { ageText, type ClockKind, clockText, elapsedText, leftText } from "../formatting.ts";

const updateMs = 1_000;

/** Keeps all times up to date, such as "4 min ago" and the time that a generation has been running. */
export function updateTimes(): void {
  showTimes();
  setInterval(() => document.hidden || showTimes(), updateMs);
}

/** Updates the text of all times; clock times are in the time zone of this machine. */
export function showTimes(): void {
  const now = new Date();
  for (const time of document.querySelectorAll("time")) {
    const text = timeText(time, now);
    if (time.textContent !== text) time.textContent = text;
  }
}

function timeText({ dateTime, dataset }: HTMLTimeElement, now: Date): string {
  if (dataset.clock !== undefined) return clockText(dateTime, dataset.clock as ClockKind);
  if (dataset.late !== undefined) return leftText({ until: dateTime, late: dataset.late }, now);
  return dataset.elapsed === undefined ? ageText(dateTime, now) : elapsedText(dateTime, now);
}
