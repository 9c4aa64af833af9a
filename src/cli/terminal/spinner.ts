import type { Ora } from "ora";
import type { Io } from "../../io.ts";

/** The one line of a terminal that is redrawn. */
type Spinner = { show(text: string): void; stop(): void };

/** Loads ora with the first text. ora keeps other writes above its line, and shows the cursor again when the process exits. */
export function createSpinner(stderr: Io["stderr"], hasColor: boolean): Spinner {
  let ora: Ora | undefined;
  let isLoading = false;
  let text: string | undefined;
  const load = async () => {
    const { default: createOra } = await import("ora");
    const stream = stderr as NodeJS.WriteStream;
    // With `discardStdin` ora would read stdin raw, and swallow Ctrl-C.
    ora = createOra({ stream, discardStdin: false, isEnabled: true, color: hasColor ? "cyan" : false });
    draw();
  };
  const draw = () => {
    if (!ora || text === undefined) return;
    ora.text = cut(text, (stderr.columns ?? 80) - 3);
    if (!ora.isSpinning) ora.start();
  };
  return {
    show(next) {
      text = next;
      // A command does not fail because its spinner cannot be loaded.
      if (!isLoading) load().catch(() => {});
      isLoading = true;
      draw();
    },
    stop() {
      text = undefined;
      if (ora?.isSpinning) ora.stop();
    },
  };
}

/** Cuts the text to one row: a wrapped line cannot be cleared after the terminal's width has changed. */
function cut(text: string, width: number): string {
  const letters = [...text];
  return letters.length <= width ? text : `${letters.slice(0, Math.max(0, width - 1)).join("")}…`;
}
