import type { Io } from "../../io.ts";
import type { Output } from "./output.ts";

/** What a person is told of one generation while it is followed and downloaded. */
export type Progress = {
  onNote(text: string): void;
  /** The service's own word for the state of a generation that has not ended. */
  onState(status: string): void;
  /** The bytes of its video. */
  onProgress(received: number, total: number | undefined): void;
  /** How long a generation like this one took, in milliseconds. */
  expect(typicalMs: number | undefined): void;
  stop(): void;
};

export type Board = {
  /** Shows a generation from now until its `stop`. */
  follow(id: string, model: string | undefined): Progress;
};

/** The bytes of a video so far, and the first count with its time, from which the speed follows. */
type Download = { received: number; total: number | undefined; firstReceived: number; startedAt: number };

/** A generation that is followed; times in milliseconds. */
type Task = {
  id: string;
  model: string | undefined;
  startedAt: number;
  status: string;
  typicalMs: number | undefined;
  download: Download | undefined;
};

/** All generations that one command follows now, and how many it has followed before. */
type Tasks = { running: Set<Task>; done: number; startedAt: number };

const redrawMs = 1_000;
const downloadRedrawMs = 200;
/** Without a terminal, a line this often shows that the command is alive. */
const heartbeatMs = 30_000;

/** Shows the generations of a command: at a terminal one line that is redrawn; elsewhere a line for each change, and one every 30 s. */
export function createBoard(output: Output, io: Pick<Io, "now" | "sleep">): Board {
  const tasks: Tasks = { running: new Set(), done: 0, startedAt: 0 };
  const renderer = createRenderer(tasks, output, io);
  let redrawing = new AbortController();
  return {
    follow(id, model) {
      const task: Task = {
        ...{ id, model, startedAt: io.now(), status: "processing" },
        ...{ typicalMs: undefined, download: undefined },
      };
      const isFirst = tasks.running.size === 0;
      if (isFirst) tasks.startedAt = io.now();
      tasks.running.add(task);
      renderer.showChange(task);
      if (isFirst) {
        redrawing = new AbortController();
        renderer.redrawUntil(redrawing.signal);
      }
      const stop = () => {
        if (!tasks.running.delete(task)) return;
        tasks.done++;
        if (tasks.running.size > 0) return;
        redrawing.abort();
        output.rest();
      };
      return { ...updatesOf(task, renderer, output, io), onNote: output.note, stop };
    },
  };
}

type Renderer = ReturnType<typeof createRenderer>;

function createRenderer(tasks: Tasks, output: Output, io: Pick<Io, "now" | "sleep">) {
  let drawnAt = 0;
  const draw = () => {
    drawnAt = io.now();
    const text = describeTasks(tasks, io.now(), output.isLive);
    if (output.isLive) output.progress(text);
    else output.note(text);
  };
  const redraw = async (signal: AbortSignal) => {
    for (;;) {
      await io.sleep(output.isLive ? redrawMs : heartbeatMs, signal);
      draw();
    }
  };
  return {
    redrawUntil: (signal: AbortSignal) => void redraw(signal).catch(() => {}),
    showChange(task: Task) {
      if (output.isLive) draw();
      else output.progress(stateOf(task, task.id));
    },
    showBytes() {
      if (output.isLive && io.now() - drawnAt >= downloadRedrawMs) draw();
    },
  };
}

function updatesOf(
  task: Task,
  renderer: Renderer,
  output: Pick<Output, "redact">,
  io: Pick<Io, "now">,
): Pick<Progress, "onState" | "onProgress" | "expect"> {
  return {
    expect(typicalMs) {
      task.typicalMs = typicalMs;
    },
    onState(said) {
      const status = output.redact(said).replace(/\s+/g, " ").trim().slice(0, 40);
      if (status === task.status) return;
      task.status = status;
      renderer.showChange(task);
    },
    onProgress(received, total) {
      const before = task.download;
      // A download that starts over is counted from its new start.
      const isContinued = before !== undefined && received >= before.received;
      const first = isContinued ? before : { firstReceived: received, startedAt: io.now() };
      task.download = { ...first, received, total };
      if (before === undefined) renderer.showChange(task);
      else renderer.showBytes();
    },
  };
}

/** All tasks in one line; `isShort` where the full id is shown elsewhere. */
function describeTasks({ running, done, startedAt }: Tasks, now: number, isShort: boolean): string {
  const [only, ...others] = running;
  if (only && others.length === 0 && done === 0) return describeTask(only, now, isShort);
  const saving = [...running].filter(({ download }) => download).length;
  return `Generating ${running.size - saving}, saving ${saving}, ${done} done  ${formatTime(now - startedAt)}`;
}

function describeTask(task: Task, now: number, isShort: boolean): string {
  const state = stateOf(task, isShort ? task.id.slice(0, 8) : task.id);
  if (task.download) return `${state}  ${describeDownload(task.download, now)}`;
  const typically = task.typicalMs === undefined ? "" : `, typically ${formatTime(task.typicalMs)}`;
  return `${state}  ${formatTime(now - task.startedAt)}${typically}`;
}

/** What happens to one generation, under the name `id`. */
function stateOf({ status, model, download }: Task, id: string): string {
  if (download) return `Saving the video of ${id}`;
  const words = [model, status === "processing" ? "" : status].filter(Boolean);
  return `Generating ${id}${words.length === 0 ? "" : ` (${words.join(", ")})`}`;
}

function describeDownload({ received, total, firstReceived, startedAt }: Download, now: number): string {
  const size = `${formatBytes(received)}${total === undefined ? "" : ` of ${formatBytes(total)}`}`;
  // The speed of less than a second would be a guess.
  if (now - startedAt < 1_000 || received === firstReceived) return size;
  const perSecond = ((received - firstReceived) / (now - startedAt)) * 1_000;
  const left = total === undefined ? "" : `, ${formatTime(((total - received) / perSecond) * 1_000)} left`;
  return `${size}, ${formatBytes(perSecond)}/s${left}`;
}

function formatTime(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

function formatBytes(bytes: number): string {
  return bytes < 1_000_000 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

const longWaitMs = 15_000;

/** Waits; with `isWanted` the terminal rings after a wait of more than 15 s, however it ended. A person's own Ctrl-C needs no bell. */
export async function ringAfter<Result>(isWanted: boolean, wait: () => Promise<Result>, io: Io): Promise<Result> {
  const start = io.now();
  try {
    return await wait();
  } finally {
    const isLong = io.now() - start > longWaitMs;
    if (isWanted && isLong && io.stderr.isTTY && !io.signal.aborted) io.stderr.write("\u0007");
  }
}
