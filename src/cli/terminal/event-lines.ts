import { createCounts } from "../../client/generation/counts.ts";
import type {
  BatchCounts,
  EventCounts,
  FilmEvent,
  GenerationEvent,
  SummaryEvent,
} from "../../client/generation/events.ts";
import type { Io } from "../../io.ts";

/** A printed event; `at` is ISO 8601, UTC. */
type PrintedEvent = (GenerationEvent | FilmEvent | SummaryEvent) & { at: string };

/** Adds the time to the events of a command, writes them, and counts the outcomes for the summary. */
export function createEventLines(write: (event: PrintedEvent) => void, { date }: Pick<Io, "date">) {
  const { counts, take } = createCounts();
  let batchCounts: BatchCounts | undefined;
  let hasEnded = false;
  const writeDated = (event: GenerationEvent | FilmEvent | SummaryEvent) => {
    const { event: name, ...fields } = event;
    // Nothing is written after the summary, not even events of a generation in the background.
    if (!hasEnded) write({ event: name, at: date().toISOString(), ...fields } as PrintedEvent);
  };
  return {
    print(event: GenerationEvent | FilmEvent): void {
      if (event.event !== "joining" && event.event !== "joined") take(event);
      writeDated(event);
    },
    /** For a batch, which also counts rows that have no events. */
    setCounts(counts: BatchCounts): void {
      batchCounts = counts;
    },
    end(exitCode: number): void {
      writeDated({ event: "summary", exit_code: exitCode, ...(batchCounts ?? withoutPlan(counts)) });
      hasEnded = true;
    },
  };
}

function withoutPlan({ to_start: _, remaining_credits: __, cost: ___, ...counts }: BatchCounts): EventCounts {
  return counts;
}
