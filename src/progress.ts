import type { Io } from "./io.ts";
import type { ColorLevel, Output } from "./output.ts";

/** What to tell a follow or a download, so that a person sees what goes on. */
export type Progress = {
  onNote(text: string): void;
  onProgress(received: number, total: number | undefined): void;
  stop(): void;
};

/** Shows that a generation is being waited for, with the time since; then the download, with its size. */
export function createProgress(id: string, output: Output, io: Pick<Io, "now" | "sleep">): Progress {
  const start = io.now();
  const stop = new AbortController();
  let isDownloading = false;
  const tick = async () => {
    while (!stop.signal.aborted && !isDownloading) {
      output.progress(`Generating ${id}`, `  ${formatTime(io.now() - start)}`);
      await io.sleep(1_000, stop.signal);
    }
  };
  if (output.isLive) tick().catch(() => {});
  else output.progress(`Generating ${id}`);
  return {
    onNote: output.note,
    onProgress(received, total) {
      isDownloading = true;
      output.progress(
        `Saving the video of ${id}`,
        `  ${formatBytes(received)}${total === undefined ? "" : ` of ${formatBytes(total)}`}`,
      );
    },
    stop() {
      stop.abort();
      output.rest();
    },
  };
}

function formatTime(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

function formatBytes(bytes: number): string {
  return bytes < 1_000_000 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** ora, loaded when there is something to show. */
export function createSpinner(stream: Io["stderr"], level: ColorLevel) {
  let ora: import("ora").Ora | undefined;
  let isLoading = false;
  let text = "";
  const start = async () => {
    isLoading = true;
    const { default: create } = await import("ora");
    const color = level === 0 ? false : "cyan";
    ora = create({ stream: stream as NodeJS.WriteStream, discardStdin: false, isEnabled: true, color });
    if (text !== "") ora.start(text);
  };
  return {
    show(next: string) {
      text = next;
      if (ora?.isSpinning) ora.text = next;
      else if (ora) ora.start(next);
      else if (!isLoading) start().catch(() => {});
    },
    around(print: () => void) {
      if (ora?.isSpinning) ora.stop();
      print();
      if (text !== "") ora?.start(text);
    },
    stop() {
      text = "";
      if (ora?.isSpinning) ora.stop();
    },
  };
}
