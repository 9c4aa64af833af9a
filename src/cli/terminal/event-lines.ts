import { createCounts } from "../../client/generation/counts.ts";
import type {
  BatchCounts,
  EventCounts,
  FilmEvent,
  GenerationEvent,
  SummaryEvent,
} from "../../client/generation/events.ts";
import type { Io } from "../../io.ts";

/** An event as it is printed; `at` is ISO 8601, UTC. */
type PrintedEvent = (GenerationEvent | FilmEvent | SummaryEvent) & { at: string };

/** Dates the events of a command, prints each, and counts for the summary how the generations have ended. */
export function createEventLines(print: (event: PrintedEvent) => void, { date }: Pick<Io, "date">) {
  const { counts, take } = createCounts();
  let given: BatchCounts | undefined;
  let isOver = false;
  const write = (event: GenerationEvent | FilmEvent | SummaryEvent) => {
    const { event: name, ...fields } = event;
    // Nothing comes after the summary, not even what a generation in the background reports.
    if (!isOver) print({ event: name, at: date().toISOString(), ...fields } as PrintedEvent);
  };
  return {
    tell(event: GenerationEvent | FilmEvent): void {
      if (event.event !== "joining" && event.event !== "joined") take(event);
      write(event);
    },
    /** A batch knows more of its rows than their events tell. */
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
