/** A video on its way: bytes, and what there was when they were counted first, so that there is a speed. */
type Download = { received: number; total: number | undefined; from: number; since: number };

/** A generation that is followed; times in milliseconds. */
export type Task = {
  id: string;
  model: string | undefined;
  since: number;
  /** The service's own word. */
  status: string;
  typicalMs: number | undefined;
  download: Download | undefined;
};

/** All that one command follows. */
export type Crowd = { tasks: Set<Task>; done: number; since: number };

/** What goes on, how far it is, and that as a fraction where somebody knows. */
export type Described = { state: string; detail: string; fraction: number | undefined };

export function newTask(id: string, model: string | undefined, now: number): Task {
  return { id, model, since: now, status: "processing", typicalMs: undefined, download: undefined };
}

/** Counts what has come of a video; one that begins anew is counted anew. */
export function advance(
  task: Task,
  received: number,
  { total, now }: { total: number | undefined; now: number },
): void {
  const before = task.download;
  const isGoingOn = before !== undefined && received >= before.received;
  const { from, since } = isGoingOn ? before : { from: received, since: now };
  task.download = { received, total, from, since };
}

/** The crowd in one line; `isShort` where the id stands elsewhere in full. */
export function describeCrowd({ tasks, done, since }: Crowd, now: number, isShort: boolean): Described {
  const [only, ...others] = tasks;
  if (only && others.length === 0 && done === 0) return describeTask(only, now, isShort);
  const saving = [...tasks].filter(({ download }) => download).length;
  const state = `Generating ${tasks.size - saving}, saving ${saving}, ${done} done`;
  return { state, detail: `  ${formatTime(now - since)}`, fraction: done / Math.max(1, done + tasks.size) };
}

function describeTask(task: Task, now: number, isShort: boolean): Described {
  const { download, typicalMs } = task;
  const state = stateOf(task, isShort ? task.id.slice(0, 8) : task.id);
  if (download) return { state, detail: `  ${downloadText(download, now)}`, fraction: fractionOf(download) };
  const elapsedMs = now - task.since;
  if (typicalMs === undefined) return { state, detail: `  ${formatTime(elapsedMs)}`, fraction: undefined };
  const detail = `  ${formatTime(elapsedMs)}, typically ${formatTime(typicalMs)}`;
  // Nobody knows that it is done until the service says so.
  return { state, detail, fraction: Math.min(0.95, elapsedMs / Math.max(1, typicalMs)) };
}

/** What goes on with one generation, under the name `id`. */
export function stateOf({ status, model, download }: Task, id: string): string {
  if (download) return `Saving the video of ${id}`;
  const words = [model, status === "processing" ? "" : status].filter(Boolean);
  return `Generating ${id}${words.length === 0 ? "" : ` (${words.join(", ")})`}`;
}

function downloadText({ received, total, from, since }: Download, now: number): string {
  const size = `${formatBytes(received)}${total === undefined ? "" : ` of ${formatBytes(total)}`}`;
  // A speed out of less than a second is a guess.
  if (now - since < 1_000 || received === from) return size;
  const perSecond = ((received - from) / (now - since)) * 1_000;
  const left = total === undefined ? "" : `, ${formatTime(((total - received) / perSecond) * 1_000)} left`;
  return `${size}, ${formatBytes(perSecond)}/s${left}`;
}

function fractionOf({ received, total }: Download): number | undefined {
  return total === undefined ? undefined : received / Math.max(1, total);
}

function formatTime(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

function formatBytes(bytes: number): string {
  return bytes < 1_000_000 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
