import { type ClockKind, clockText } from "./formatting.ts";

/** When something was, by the clock; the browser writes it in its own time zone. */
export function ClockTime({ at, kind = "time" }: { at: string; kind?: ClockKind }) {
  return (
    <time datetime={at} title={at} data-clock={kind}>
      {clockText(at, kind, "UTC")} UTC
    </time>
  );
}
