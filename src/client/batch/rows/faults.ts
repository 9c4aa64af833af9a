import { usage } from "../../../errors.ts";

/** Where a fault is: `where` comes from `Table.columns`. */
type Position = { line: number; where?: string | undefined };

/** Collects what is wrong with a file. A fault with the same text and position is shown once. */
export type Faults = {
  add(text: string, at?: Position): void;
  isEmpty(): boolean;
  /** Throws `usage` with all faults, sorted by line; `notes` may explain them. */
  throwIfAny(notes?: readonly string[]): void;
};

const maxShown = 50;

/** Further faults are only counted. */
const maxKept = 10_000;

export function createFaults(name: string): Faults {
  const lines = new Map<string, number>();
  let dropped = 0;
  return {
    add(text, at) {
      const position = at ? `line ${at.line}${at.where ?? ""}: ` : "";
      // A cell may hold line ends.
      const whole = `${position}${text}`.replace(/\s+/g, " ");
      if (lines.has(whole)) return;
      if (lines.size < maxKept) lines.set(whole, at?.line ?? 0);
      else dropped++;
    },
    isEmpty: () => lines.size === 0,
    throwIfAny(notes = []) {
      if (lines.size === 0) return;
      const sorted = [...lines].sort(([, a], [, b]) => a - b).map(([text]) => text);
      const count = sorted.length + dropped;
      const rest = count > maxShown ? [`... and ${count - maxShown} more`] : [];
      const shown = [
        `${name}: ${count} ${count === 1 ? "fault" : "faults"}; nothing was sent.`,
        ...sorted.slice(0, maxShown),
      ];
      throw usage([...shown, ...rest].join("\n"), notes.join("\n") || undefined);
    },
  };
}
