import type { BatchPlan } from "../../client/batch/batch.ts";
import { countsOf } from "../../client/batch/plan-counts.ts";
import { createCounts } from "../../client/generation/counts.ts";
import type { BatchCounts, GenerationEvent } from "../../client/generation/events.ts";
import { isSignal } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { countCredits, formatUsd } from "../../protocol/text.ts";
import type { Output } from "./output.ts";

/** Shows the progress of a batch: at a terminal one line that is redrawn, elsewhere a line for each row that ends. */
export function createBatchProgress(
  plan: BatchPlan,
  { output, hasCredits }: { output: Output; hasCredits: boolean },
  io: Pick<Io, "now">,
) {
  const { counts, take } = createCounts(countsOf(plan));
  const start = io.now();
  let ended = 0;
  const draw = () =>
    output.progress(describeCounts(counts, { hasCredits, leftMs: findLeftMs(counts, ended, io.now() - start) }));
  return {
    counts,
    show(event: GenerationEvent): void {
      take(event);
      if (event.event === "ended") {
        const { id, error } = event;
        // Nothing is printed after Ctrl-C: the next run resumes the rows.
        if (error && isSignal(error)) return;
        // A refused row took no time worth counting.
        if (id !== null) ended++;
        if ((!output.isLive && !output.hasLines) || error !== null) output.note(rowLine(event, counts));
      }
      if (output.isLive && (event.event === "ended" || event.event === "started")) draw();
    },
    /**
     * The line on stdout for a row that is done: its file or URL, or the line about the row if stderr is
     * shown in the same place.
     */
    lineOf: (event: EndedEvent) =>
      output.hasLines && !output.quiet ? rowLine(event, counts) : (event.file ?? event.video_url ?? ""),
  };
}

export type EndedEvent = GenerationEvent & { event: "ended" };

/** The line about a row that has ended, such as "[37/200] line 12, fox: clips/fox.mp4". */
function rowLine({ row, line, id, status, file, video_url, error }: EndedEvent, { done, total }: BatchCounts): string {
  const name = row === undefined || /^[0-9a-f]{16}-\d+$/.test(row) ? "" : `, ${row}`;
  const outcome = error === null ? (file ?? video_url ?? status) : `${error.message}${id === null ? "" : ` (${id})`}`;
  return `[${done}/${total}] line ${line}${name}: ${outcome}`;
}

/**
 * The expected time left, by the rows of this run so far; running rows count as half done. `undefined` before
 * the first row has ended.
 */
function findLeftMs({ to_start, running }: BatchCounts, ended: number, elapsedMs: number): number | undefined {
  return ended === 0 ? undefined : ((to_start + running / 2) * elapsedMs) / (ended + running / 2);
}

/** Describes the counts, such as "37 of 200 done, 4 running, 1 failed, 1,630 credits left, about 12 min". */
export function describeCounts(
  counts: BatchCounts,
  { hasCredits, leftMs }: { hasCredits: boolean; leftMs?: number | undefined },
): string {
  const { total, done, running, failed, refused, unknown, lost, remaining_credits, cost } = counts;
  const parts = [
    `${done} of ${total} done`,
    ...(running === 0 ? [] : [`${running} running`]),
    ...(failed + refused === 0 ? [] : [`${failed + refused} failed`]),
    ...(unknown === 0 ? [] : [`${unknown} unknown`]),
    ...(lost === 0 ? [] : [`${lost} lost`]),
    ...(!hasCredits || remaining_credits === null ? [] : [`${countCredits(remaining_credits)} left`]),
    ...(cost === null ? [] : [formatUsd(cost)]),
    ...(leftMs === undefined || leftMs === 0 ? [] : [`about ${formatMinutes(leftMs)}`]),
  ];
  return parts.join(", ");
}

function formatMinutes(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  if (minutes < 1) return "1 min";
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}
