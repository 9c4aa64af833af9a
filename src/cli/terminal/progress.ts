import type { GenerationEvent } from "../../client/generation/events.ts";
import { formatBytes } from "../../client/request/bytes.ts";
import { formatTime } from "../../connect/format.ts";
import type { Io } from "../../io.ts";
import type { Output } from "./output.ts";

/** An event of `--events`, or an event for the progress line only. */
export type ProgressEvent =
  | GenerationEvent
  /** A generation is being followed; `typicalMs` is how long its model typically takes. */
  | { event: "following"; id: string; model?: string | undefined; typicalMs?: number | undefined; isQueued?: boolean }
  /** The percentage of a generation, or of one node in its engine; `undefined` if the service does not state it. */
  | { event: "percent"; id: string; percent: number | undefined; node?: string | undefined }
  /** Why the service has not been reachable for a while; shown until the next state. */
  | { event: "outage"; id: string; reason: string }
  /** The generation is no longer followed. */
  | { event: "left"; id: string };

/** The bytes of a video so far; the speed is measured from the first count and its time. */
type Download = { received: number; total: number | null; firstReceived: number; startedAt: number };

/** A generation that is followed; times in milliseconds. */
type Task = {
  id: string;
  model?: string | undefined;
  typicalMs?: number | undefined;
  startedAt: number;
  status: string;
  percent?: number | undefined;
  node?: string | undefined;
  outage?: string;
  download?: Download;
};

/** The generations that one command follows, and how many it has followed before. */
type Tasks = { running: Map<string, Task>; done: number; startedAt: number };

const redrawMs = 1_000;
const downloadRedrawMs = 200;
/** Without a terminal, a line is printed at this interval, so that the command does not look stuck. */
const heartbeatMs = 30_000;

/**
 * Shows the generations of a command: at a terminal one line that is redrawn; elsewhere a line for each
 * change, and one every 30 s.
 */
export function createProgress(output: Output, io: Pick<Io, "now" | "sleep">): (event: ProgressEvent) => void {
  const tasks: Tasks = { running: new Map(), done: 0, startedAt: 0 };
  let drawnAt = 0;
  let redrawing = new AbortController();
  const draw = () => {
    drawnAt = io.now();
    const text = describeTasks(tasks, drawnAt, output.isLive);
    if (output.isLive) output.progress(text);
    else output.note(text);
  };
  const redraw = async ({ signal }: AbortController) => {
    for (;;) {
      await io.sleep(output.isLive ? redrawMs : heartbeatMs, signal);
      draw();
    }
  };
  const showChange = (task: Task) => {
    if (output.isLive) draw();
    else output.progress(stateOf(task, task.id));
  };
  const shorten = (text: string, length: number) => output.redact(text).replace(/\s+/g, " ").trim().slice(0, length);
  const setStatus = (task: Task, reported: string) => {
    const status = shorten(reported, 40);
    const isSame = status === task.status && task.outage === undefined;
    delete task.outage;
    // After "completed" there is only the download, which has its own line.
    if (isSame || reported === "completed") return;
    task.status = status;
    showChange(task);
  };
  const setPercent = (task: Task, percent: number | undefined, node: string | undefined) =>
    Object.assign(task, { percent, node: node && shorten(node, 40) });
  const setOutage = (task: Task, reason: string) => {
    const isNew = task.outage === undefined;
    task.outage = shorten(reason, 100);
    if (isNew) showChange(task);
  };
  const setDownload = (task: Task, received: number, total: number | null) => {
    const before = task.download;
    // A download that was restarted is measured from its new start.
    const isContinued = before !== undefined && received >= before.received;
    const first = isContinued ? before : { firstReceived: received, startedAt: io.now() };
    task.download = { ...first, received, total };
    if (before === undefined) showChange(task);
    else if (output.isLive && io.now() - drawnAt >= downloadRedrawMs) draw();
  };
  const start = (task: Task) => {
    tasks.running.set(task.id, task);
    if (tasks.running.size === 1) {
      tasks.startedAt = io.now();
      redrawing = new AbortController();
      redraw(redrawing).catch(() => {});
    }
    showChange(task);
  };
  const stop = (task: Task) => {
    tasks.running.delete(task.id);
    tasks.done++;
    if (tasks.running.size > 0) return;
    redrawing.abort();
    output.clearProgress();
  };
  return (event) => {
    if (event.event === "following") {
      const { id, model, typicalMs, isQueued } = event;
      return start({ id, model, typicalMs, startedAt: io.now(), status: isQueued ? "queued" : "processing" });
    }
    const task = "id" in event && event.id !== null ? tasks.running.get(event.id) : undefined;
    if (task === undefined) return;
    if (event.event === "state") setStatus(task, event.status);
    // Shown with the next line: without a terminal, a line per percent would be too many.
    if (event.event === "percent") setPercent(task, event.percent, event.node);
    if (event.event === "outage") setOutage(task, event.reason);
    if (event.event === "progress") setDownload(task, event.received, event.total);
    if (event.event === "left") stop(task);
  };
}

/** After this time the line says why the command still waits. */
const longStartMs = 10_000;

/**
 * Shows that a start request was sent, until the returned function is called: at a terminal with the time,
 * elsewhere a line every 30 s. `--timeout` starts when the id is known, because without the id the video that
 * was paid for could not be found.
 */
export function showStart(
  output: Pick<Output, "isLive" | "note" | "progress" | "clearProgress">,
  io: Pick<Io, "now" | "sleep">,
): () => void {
  const startedAt = io.now();
  const stopped = new AbortController();
  const draw = () => {
    const elapsed = io.now() - startedAt;
    const why = elapsed < longStartMs ? "" : "; waiting for the id, even if --timeout is shorter";
    const text = `Starting...  ${formatTime(elapsed)}${why}`;
    if (output.isLive) output.progress(text);
    else output.note(text);
  };
  const redraw = async () => {
    for (;;) {
      await io.sleep(output.isLive ? redrawMs : heartbeatMs, stopped.signal);
      draw();
    }
  };
  // Without a terminal the first line is the one with the id.
  if (output.isLive) output.progress("Starting...");
  redraw().catch(() => {});
  return () => {
    stopped.abort();
    output.clearProgress();
  };
}

/** All tasks in one line; `isShort` shortens the ids. */
function describeTasks({ running, done, startedAt }: Tasks, now: number, isShort: boolean): string {
  const all = [...running.values()];
  const [only, ...others] = all;
  if (only && others.length === 0 && done === 0) return describeTask(only, now, isShort);
  const saving = all.filter(({ download }) => download);
  const unreachable = all.filter(({ outage, download }) => outage !== undefined && !download);
  const active = all.filter((task) => !saving.includes(task) && !unreachable.includes(task));
  const waiting = active.filter(isWaiting);
  const generating = active.filter((task) => !isWaiting(task));
  const parts = [
    ...(generating.length === 0 ? [] : [`Generating ${listNames(generating)}`]),
    ...(waiting.length === 0 ? [] : [`waiting for the engine: ${listNames(waiting)}`]),
    ...(saving.length === 0 ? [] : [`saving ${listNames(saving)}`]),
    ...(unreachable.length === 0
      ? []
      : [`no usable response for ${listNames(unreachable)} (${unreachable[0]?.outage})`]),
    ...(done === 0 ? [] : [`${done} done`]),
  ];
  const text = parts.join(", ");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}  ${formatTime(now - startedAt)}`;
}

const maxNames = 4;

/** The short ids of a few tasks, and how many more there are. */
function listNames(tasks: Task[]): string {
  const names = tasks.slice(0, maxNames).map(({ id }) => id.slice(0, 8));
  return [...names, ...(tasks.length > maxNames ? [`${tasks.length - maxNames} more`] : [])].join(" ");
}

function describeTask(task: Task, now: number, isShort: boolean): string {
  const state = stateOf(task, isShort ? task.id.slice(0, 8) : task.id);
  if (task.download) return `${state}  ${describeDownload(task.download, now)}`;
  const isTypical = task.typicalMs !== undefined && task.outage === undefined;
  const typically = isTypical ? `, typically ${formatTime(task.typicalMs ?? 0)}` : "";
  return `${state}  ${formatTime(now - task.startedAt)}${typically}`;
}

const isWaiting = ({ status }: Pick<Task, "status">) => /^queued$/i.test(status);

/** The current step of a generation; `id` is its name in the text. */
function stateOf({ status, percent, node, outage, model, download }: Task, id: string): string {
  if (download) return `Saving the video of ${id}`;
  if (outage !== undefined) return `No usable response (${outage}); retrying for ${id}`;
  if (isWaiting({ status })) return `Waiting for the engine: ${id}${model === undefined ? "" : ` (${model})`}`;
  const progress = [percent === undefined ? "" : `${percent} %`, node].filter(Boolean).join(" of ");
  const words = [model, status === "processing" ? "" : status, progress].filter(Boolean);
  return `Generating ${id}${words.length === 0 ? "" : ` (${words.join(", ")})`}`;
}

function describeDownload({ received, total, firstReceived, startedAt }: Download, now: number): string {
  const size = `${formatBytes(received)}${total === null ? "" : ` of ${formatBytes(total)}`}`;
  // The speed of less than a second would be a guess.
  if (now - startedAt < 1_000 || received === firstReceived) return size;
  const perSecond = ((received - firstReceived) / (now - startedAt)) * 1_000;
  const left = total === null ? "" : `, ${formatTime(((total - received) / perSecond) * 1_000)} left`;
  return `${size}, ${formatBytes(perSecond)}/s${left}`;
}

const longWaitMs = 15_000;

/**
 * Runs `wait`; with `isWanted` rings the terminal's bell if it took more than 15 s, also when it failed, but
 * not after Ctrl-C.
 */
export async function ringAfter<Result>(isWanted: boolean, wait: () => Promise<Result>, io: Io): Promise<Result> {
  const start = io.now();
  try {
    return await wait();
  } finally {
    const isLong = io.now() - start > longWaitMs;
    if (isWanted && isLong && io.stderr.isTTY && !io.signal.aborted) io.stderr.write("\u0007");
  }
}
