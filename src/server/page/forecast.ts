import type { GenerationSummary } from "../store/reports.ts";
import type { Store } from "../store/store.ts";
import type { ExpectedEnd } from "./formatting.ts";

/** How many of a model's newest videos are read. */
const maxRead = 50;

type RunningGeneration = Pick<GenerationSummary, "state" | "model" | "duration" | "engine" | "begun_at">;

/**
 * Returns a function that resolves with the expected end of a running generation: its start plus the median time that its engine took for recent
 * videos of the same model and length. It is late after twice the time of the slowest tenth of them. `undefined` if the generation is not running,
 * or if there are no such videos. The videos of a model are read once.
 */
export function createForecast(
  store: Pick<Store, "list">,
): (running: RunningGeneration) => Promise<ExpectedEnd | undefined> {
  const lists = new Map<string, Promise<GenerationSummary[]>>();
  const newestOf = (model: string) => {
    const list = lists.get(model) ?? store.list({ model, state: "completed", limit: maxRead });
    lists.set(model, list);
    return list;
  };
  return async ({ state, model, duration, engine, begun_at }) => {
    if (state !== "running" || begun_at === null) return undefined;
    const comparable = (await newestOf(model)).filter((each) => each.duration === duration && each.engine === engine);
    const times = comparable.flatMap(renderMs).sort((a, b) => a - b);
    const [median, slow] = [0.5, 0.9].map((share) => times[Math.floor(share * times.length)]);
    const after = (ms: number) => new Date(Date.parse(begun_at) + ms).toISOString();
    return median === undefined || slow === undefined ? undefined : { until: after(median), late: after(2 * slow) };
  };
}

function renderMs({ begun_at, completed_at }: GenerationSummary): number[] {
  return begun_at && completed_at ? [Math.max(0, Date.parse(completed_at) - Date.parse(begun_at))] : [];
}
