import type { Change } from "../../store/change.ts";
import { percentText } from "../formatting.ts";

/** Shows how much of a video is made, without a fetch. */
export function showProgress({ id, percent }: Change & { kind: "progress" }): void {
  const bar = document.querySelector<HTMLProgressElement>(`#progress-${CSS.escape(id)}`);
  if (bar) bar.value = percent;
  const text = document.querySelector(`#percent-${CSS.escape(id)}`);
  if (text) text.textContent = percentText(percent);
}
