import { createMachine, createService } from "../client/batch/machine.ts";
import { type Goal, portion } from "./goal.ts";
import { inFolder } from "./work.ts";

const rowCount = 200;
const capacity = 3;

/** Goal 20: a batch finds out how many a service takes at a time, and does not ask over and over. */
export const batchBusy: Goal = {
  number: 20,
  title: "a service that takes 3 at a time, 429 above",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const faults: string[] = [];
      const jobs = [4, 8, 64].slice(0, portion(3, share));
      const figures: string[] = [];
      for (const each of jobs) {
        const renderMs = () => random.between(30_000, 180_000);
        const service = createService({ capacity, renderMs });
        const machine = createMachine(service, { parent: folder });
        const rows = machine.rows(...Array.from({ length: portion(rowCount, share, 50) }, (_, i) => `fox ${i}`));
        const { statuses } = await machine.run(rows, { jobs: each });
        const done = Object.values(statuses).filter((status) => status === "completed").length;
        const refused = service.refused.filter((at) => at > 60_000).length;
        const minutes = Math.round(service.clock.now() / 60_000);
        // With 3 of them under way all the time, each taking 105 s on average.
        const ideal = Math.round((rows.length * 105) / 60 / capacity);
        figures.push(`--jobs ${each}: ${done} done in ${minutes} min (${ideal} at best), ${refused} refused`);
        if (done < rows.length) faults.push(`--jobs ${each}: ${rows.length - done} rows are not done`);
        if (service.generations.length > rows.length) faults.push(`--jobs ${each}: charged twice`);
        if (refused >= 20) faults.push(`--jobs ${each}: ${refused} refused starts`);
        if (minutes > ideal * 1.3) faults.push(`--jobs ${each}: it took ${minutes} min`);
      }
      return { figures: figures.join("; "), target: "all done, under 20 refused after the first minute", faults };
    }),
};
