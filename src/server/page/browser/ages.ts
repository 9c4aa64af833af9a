import { ageText } from "../formatting.ts";

const everyMs = 5_000;

/** Keeps the texts of all times, such as "4 min ago", up to date. */
export function updateAges(): void {
  setInterval(() => {
    const now = new Date();
    for (const time of document.querySelectorAll("time")) time.textContent = ageText(time.dateTime, now);
  }, everyMs);
}
