import type { Change } from "../../store/change.ts";
import { progressText } from "../formatting.ts";

/** Shows the progress of a change without fetching the page. */
export function showProgress({ id, ...progress }: Change & { kind: "progress" }): void {
  const { percent } = progress;
  const bar = document.querySelector<HTMLProgressElement>(`#progress-${CSS.escape(id)}`);
  if (bar && percent !== undefined) bar.value = percent;
  if (percent === undefined) bar?.removeAttribute("value");
  const text = document.querySelector(`#percent-${CSS.escape(id)}`);
  if (text) text.textContent = progressText(progress);
}
