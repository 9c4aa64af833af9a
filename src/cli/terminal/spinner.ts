import type { Ora } from "ora";
import type { Io } from "../../io.ts";

/** The line of a terminal that is redrawn. */
type Spinner = { show(text: string): void; stop(): void };

/** Loads ora with the first text. ora keeps other writes above its line, and shows the cursor again when the process exits. */
export function createSpinner(
  stderr: Io["stderr"],
  { hasColor, isAscii }: { hasColor: boolean; isAscii: boolean },
): Spinner {
  let ora: Ora | undefined;
  let isLoading = false;
  let text: string | undefined;
  let cut: typeof import("./table.ts").cut | undefined;
  const load = async () => {
    const { default: createOra } = await import("ora");
    ({ cut } = await import("./table.ts"));
    const stream = stderr as NodeJS.WriteStream;
    // With `discardStdin` ora would read stdin in raw mode, which disables Ctrl-C.
    ora = createOra({
      stream,
      discardStdin: false,
      isEnabled: true,
      color: hasColor ? "cyan" : false,
      ...(isAscii ? { spinner: "line" } : {}),
    });
    draw();
  };
  const draw = () => {
    if (!ora || !cut || text === undefined) return;
    // Only one row, because a wrapped line cannot be cleared after the terminal's width has changed.
    ora.text = cut(text, (stderr.columns ?? 80) - 3, { ellipsis: isAscii ? "..." : "\u2026" });
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
