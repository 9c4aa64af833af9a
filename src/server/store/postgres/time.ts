import type { Clock } from "../../../io.ts";
import type { Query } from "./database.ts";

/** The owner is notified if the clock of this machine differs from the database's by more. */
const maxDifferenceMs = 5_000;

export type DatabaseTime = {
  /** The current date by the database's clock, as of the last measurement. */
  date(): Date;
  /** By how many milliseconds the database's clock is ahead of this machine's. */
  differenceMs(): number;
  /** Asks the database for its time. */
  measure(): Promise<void>;
};

/**
 * Creates a clock that all processes of a database share. By their own clocks, which may differ by minutes, a video could be completed before it was
 * started.
 */
export function createDatabaseTime(
  query: Query,
  { clock, onNote }: { clock: Pick<Clock, "date">; onNote(text: string): void },
): DatabaseTime {
  let differenceMs = 0;
  let isNoted = false;
  return {
    date: () => new Date(clock.date().getTime() + differenceMs),
    differenceMs: () => differenceMs,
    async measure() {
      const sentAt = clock.date().getTime();
      const [row] = await query("SELECT extract(epoch FROM clock_timestamp()) * 1000 AS ms");
      const repliedAt = clock.date().getTime();
      const measuredMs = Math.round(Number(row?.ms) - (sentAt + repliedAt) / 2);
      // A smaller change may come from the time of the request itself.
      if (Math.abs(measuredMs - differenceMs) > Math.abs(repliedAt - sentAt)) differenceMs = measuredMs;
      const isFar = Math.abs(differenceMs) > maxDifferenceMs;
      if (isFar && !isNoted)
        onNote(
          `The clock of this machine is ${Math.abs(differenceMs / 1_000).toFixed(1)} s ${differenceMs > 0 ? "behind" : "ahead of"} the database's, whose time is used. Set it, because links and signatures depend on it elsewhere.`,
        );
      isNoted = isFar;
    },
  };
}
