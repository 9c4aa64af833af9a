import type { EventCounts, FilmEvent, GenerationEvent, SummaryEvent } from "../../client/generation/events.ts";
import type { Io } from "../../io.ts";

/** An event as it is printed; `at` is ISO 8601, UTC. */
export type PrintedEvent = (GenerationEvent | FilmEvent | SummaryEvent) & { at: string };

/** Dates the events of a command, prints each, and counts for the summary how the generations have ended. */
export function createEventLines(print: (event: PrintedEvent) => void, { date }: Pick<Io, "date">) {
  const counts: EventCounts = { total: 0, done: 0, running: 0, failed: 0, refused: 0, unsent: 0, unknown: 0, lost: 0 };
  const running = new Set<string>();
  let given: EventCounts | undefined;
  let isOver = false;
  const write = (event: GenerationEvent | FilmEvent | SummaryEvent) => {
    const { event: name, ...fields } = event;
    // Nothing comes after the summary, not even what a generation in the background reports.
    if (!isOver) print({ event: name, at: date().toISOString(), ...fields } as PrintedEvent);
  };
  return {
    tell(event: GenerationEvent | FilmEvent): void {
      if (event.event === "started") running.add(event.id);
      if (event.event === "ended") {
        running.delete(event.id ?? "");
        counts[countOf(event)]++;
        counts.total++;
      }
      write(event);
    },
    /** A batch knows more of its rows than their events tell. */
    setCounts(counts: EventCounts): void {
      given = counts;
    },
    end(exitCode: number): void {
      const open = { total: counts.total + running.size, running: counts.running + running.size };
      write({ event: "summary", exit_code: exitCode, ...(given ?? { ...counts, ...open }) });
      isOver = true;
    },
  };
}

function countOf({ status, error }: GenerationEvent & { event: "ended" }): keyof EventCounts {
  if (status === "completed") return error === null ? "done" : "running";
  return status === "processing" ? "running" : status;
}
