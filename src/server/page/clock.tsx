import { type ClockKind, clockText } from "./formatting.ts";

/** A clock time. The script converts it to the browser's time zone. */
export function ClockTime({ at, kind = "time" }: { at: string; kind?: ClockKind }) {
  return (
    <time datetime={at} title={at} data-clock={kind}>
      {clockText(at, kind, "UTC")} UTC
    </time>
  );
}
