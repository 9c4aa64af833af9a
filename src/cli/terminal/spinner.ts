import type { Io } from "../../io.ts";
import {
  hasProgress,
  hasTitle,
  keepTitleMark,
  noProgressMark,
  oldTitleMark,
  progressMark,
  titleMark,
} from "./terminal.ts";

export type Shown = {
  text: string;
  /** For the window's title. */
  title: string;
  /** From 0 to 1; `undefined` when nobody knows. */
  fraction: number | undefined;
};

export type Spinner = {
  show(next: Shown): void;
  /** Has something printed above the moving line. */
  around(print: () => void): void;
  stop(): void;
};

type World = Pick<Io, "stderr" | "env" | "holdTerminal">;

/**
 * A moving line at a terminal, by ora, which is loaded when there is something to show; with it the terminal's own progress and title, where it
 * is known to have them. Whatever stops or ends the process, the terminal is given back as it was.
 */
export function createSpinner(io: World, hasColor: () => boolean): Spinner {
  const { holdTerminal } = io;
  const marks = createMarks(io);
  let ora: import("ora").Ora | undefined;
  let isLoading = false;
  let shown: Shown | undefined;
  const lineOf = ({ text }: Shown) => cut(text, (io.stderr.columns ?? 80) - 3);
  const load = async () => {
    isLoading = true;
    const { default: create } = await import("ora");
    const stream = io.stderr as NodeJS.WriteStream;
    ora = create({ stream, discardStdin: false, isEnabled: true, color: hasColor() ? "cyan" : false });
    begin();
  };
  const begin = () => {
    if (!shown) return;
    marks.set(shown);
    if (ora && !ora.isSpinning) ora.start(lineOf(shown));
  };
  const pause = () => {
    if (ora?.isSpinning) ora.stop();
    marks.clear();
  };
  return {
    show(next) {
      shown = next;
      if (!ora && !isLoading) {
        holdTerminal({ leave: pause, back: begin });
        load().catch(() => {});
      }
      if (ora?.isSpinning) ora.text = lineOf(next);
      begin();
    },
    around(print) {
      if (ora?.isSpinning) ora.stop();
      print();
      begin();
    },
    stop() {
      shown = undefined;
      pause();
    },
  };
}

/** The terminal's own progress and title: written when they change, and taken back. */
function createMarks(io: Pick<World, "stderr" | "env">) {
  const [showsProgress, showsTitle] = [hasProgress(io.env), hasTitle(io.env)];
  const now = { progress: "", title: "" };
  const write = (text: string) => void (text !== "" && io.stderr.write(text));
  return {
    set({ fraction, title }: Shown) {
      const [progress, named] = [progressMark(fraction), titleMark(title)];
      if (showsProgress && progress !== now.progress) write(progress);
      if (showsTitle && named !== now.title) write(now.title === "" ? keepTitleMark + named : named);
      Object.assign(now, { progress: showsProgress ? progress : "", title: showsTitle ? named : "" });
    },
    clear() {
      write((now.progress && noProgressMark) + (now.title && oldTitleMark));
      Object.assign(now, { progress: "", title: "" });
    },
  };
}

function cut(text: string, width: number): string {
  const letters = [...text];
  return letters.length <= width ? text : `${letters.slice(0, Math.max(0, width - 1)).join("")}…`;
}
