import type { Io } from "../../io.ts";
import type { Output } from "./output.ts";
import { advance, type Crowd, describeCrowd, newTask, stateOf, type Task } from "./task.ts";

/** What to tell a follow or a download, so that a person sees what goes on. */
export type Progress = {
  onNote(text: string): void;
  /** The service's own word for the state of a generation that has not ended. */
  onState(status: string): void;
  onProgress(received: number, total: number | undefined): void;
  /** How long one like it took, in milliseconds. */
  expect(typicalMs: number | undefined): void;
  stop(): void;
};

export type Board = {
  /** Shows a generation from now until its `stop`. */
  follow(id: string, model: string | undefined): Progress;
};

const tickMs = 1_000;
const heartbeatMs = 30_000;
/** A download is shown no more often than this. */
const redrawMs = 200;

/**
 * Shows what goes on with the generations of a command: at a terminal one moving line; elsewhere a line for each change, and one every 30 s,
 * so that nobody takes it for dead.
 */
export function createBoard(output: Output, io: Pick<Io, "now" | "sleep">): Board {
  const crowd: Crowd = { tasks: new Set(), done: 0, since: 0 };
  const pen = createPen(crowd, output, io);
  const pulse = createPulse(() => (output.isLive ? tickMs : heartbeatMs), pen.draw, io);
  return {
    follow(id, model) {
      const task = newTask(id, model, io.now());
      if (crowd.tasks.size === 0) crowd.since = io.now();
      crowd.tasks.add(task);
      pen.change(task);
      if (crowd.tasks.size === 1) pulse.start();
      const stop = () => {
        if (!crowd.tasks.delete(task)) return;
        crowd.done++;
        if (crowd.tasks.size > 0) return;
        pulse.stop();
        output.rest();
      };
      return { ...listen(task, pen, output, io), onNote: output.note, stop };
    },
  };
}

type Pen = ReturnType<typeof createPen>;

function createPen(crowd: Crowd, output: Output, io: Pick<Io, "now">) {
  let drawnAt = 0;
  const draw = () => {
    const { state, detail, fraction } = describeCrowd(crowd, io.now(), output.isLive);
    drawnAt = io.now();
    if (output.isLive) output.progress(state, detail, fraction);
    else output.note(`${state}${detail}`);
  };
  return {
    draw,
    /** Something is otherwise than before. */
    change(task: Task) {
      if (output.isLive) draw();
      else output.progress(stateOf(task, task.id));
    },
    /** Something has moved on: shown where that costs nothing, and not too often. */
    move() {
      if (output.isLive && io.now() - drawnAt >= redrawMs) draw();
    },
  };
}

function listen(
  task: Task,
  pen: Pen,
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
      pen.change(task);
    },
    onProgress(received, total) {
      const isFirst = task.download === undefined;
      advance(task, received, { total, now: io.now() });
      if (isFirst) pen.change(task);
      else pen.move();
    },
  };
}

function createPulse(everyMs: () => number, beat: () => void, io: Pick<Io, "sleep">) {
  let end = new AbortController();
  const run = async ({ signal }: AbortController) => {
    for (;;) {
      await io.sleep(everyMs(), signal);
      beat();
    }
  };
  return {
    start() {
      end = new AbortController();
      run(end).catch(() => {});
    },
    stop: () => end.abort(),
  };
}
