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

/** Adds the time to the events of a command, prints them, and counts the outcomes for the summary. */
export function createEventLines(print: (event: PrintedEvent) => void, { date }: Pick<Io, "date">) {
  const { counts, take } = createCounts();
  let given: BatchCounts | undefined;
  let isOver = false;
  const write = (event: GenerationEvent | FilmEvent | SummaryEvent) => {
    const { event: name, ...fields } = event;
    // Nothing is printed after the summary, not even events of a generation in the background.
    if (!isOver) print({ event: name, at: date().toISOString(), ...fields } as PrintedEvent);
  };
  return {
    tell(event: GenerationEvent | FilmEvent): void {
      if (event.event !== "joining" && event.event !== "joined") take(event);
      write(event);
    },
    /** Set by a batch, which counts rows that have no events. */
    setCounts(counts: BatchCounts): void {
      given = counts;
    },
    end(exitCode: number): void {
      write({ event: "summary", exit_code: exitCode, ...(given ?? withoutPlan(counts)) });
      isOver = true;
    },
  };
}

function withoutPlan({ to_start: _, remaining_credits: __, cost: ___, ...counts }: BatchCounts): EventCounts {
  return counts;
}
