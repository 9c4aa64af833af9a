import { spanText } from "./formatting.ts";
import type { TimelineProps } from "./timeline.tsx";

/** A part of the time that a generation took; `isOpen` while it lasts. */
type Phase = { name: "Queue" | "Render" | "Queue and render" | "Callback"; kind: string; ms: number; isOpen: boolean };

type PhasesProps = Omit<TimelineProps, "progress">;

/** A bar of the times for the queue, the rendering and the callback. */
export function Phases(props: PhasesProps) {
  const phases = phasesOf(props);
  const total = phases.reduce((sum, { ms }) => sum + ms, 0);
  let x = 0;
  return (
    <div class="phases">
      <svg width="100%" height="10" aria-hidden="true">
        {phases.map(({ kind, ms }) => {
          const width = total === 0 ? 100 / phases.length : (ms / total) * 100;
          x += width;
          return <rect class={kind} x={`${x - width}%`} width={`${width}%`} height="100%" />;
        })}
      </svg>
      <dl>
        {phases.map(({ name, kind, ms, isOpen }) => (
          <div class={kind}>
            <dt>{name}</dt>
            <dd>{`${spanText(ms)}${isOpen ? " so far" : ""}`}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

/** The phases so far. Without a checkpoint it is unknown when rendering started, so queue and rendering are one phase. */
function phasesOf({ generation, delivery, now }: PhasesProps): Phase[] {
  const { created_at, completed_at, checkpoint, status } = generation;
  const isOpen = status === "processing";
  const begunAt = checkpoint?.at;
  const endedAt = completed_at ?? now.toISOString();
  const phases: Phase[] =
    begunAt === undefined
      ? [{ name: isOpen ? "Queue" : "Queue and render", kind: "queue", ms: msBetween(created_at, endedAt), isOpen }]
      : [
          { name: "Queue", kind: "queue", ms: msBetween(created_at, begunAt), isOpen: false },
          { name: "Render", kind: "render", ms: msBetween(begunAt, endedAt), isOpen },
        ];
  if (!delivery) return phases;
  const last = delivery.attempts.at(-1);
  const isWaiting = delivery.next_at !== null;
  const sentMs =
    isWaiting || !last ? msBetween(endedAt, now.toISOString()) : msBetween(endedAt, last.at) + (last.ms ?? 0);
  const kind = isWaiting || last?.delivered ? "callback" : "callback failed";
  return [...phases, { name: "Callback", kind, ms: sentMs, isOpen: isWaiting }];
}

/** Not negative, even if the clock was set back. */
function msBetween(from: string, to: string): number {
  return Math.max(0, Date.parse(to) - Date.parse(from));
}
