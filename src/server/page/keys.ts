/** An entry of the keyboard shortcuts. */
export type Key = {
  /** The `key` of a KeyboardEvent, with its modifiers; empty for a key that the browser handles by itself. */
  keys: readonly string[];
  /** The keys as the help shows them. */
  shown: readonly string[];
  /** What the key does, for the help and tooltips. */
  does: string;
  /** The key presses the control that has it in `aria-keyshortcuts`. */
  clicks?: true;
  /** The action repeats while the key is held. */
  repeats?: true;
};

/** The keys of every page, by action. */
export const keys = {
  search: { keys: ["/"], shown: ["/"], does: "Search" },
  card: {
    keys: ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"],
    shown: ["←", "→", "↑", "↓"],
    does: "Go from card to card",
    repeats: true,
  },
  next: { keys: ["j"], shown: ["j"], does: "Next card or row, or the generation before this one", repeats: true },
  previous: {
    keys: ["k"],
    shown: ["k"],
    does: "Previous card or row, or the generation after this one",
    repeats: true,
  },
  open: { keys: [], shown: ["Enter"], does: "Open" },
  again: { keys: ["r"], shown: ["r"], does: "Another take: the form with the same request", clicks: true },
  continue: {
    keys: ["e"],
    shown: ["e"],
    does: "Continue from the end: a form that begins with the last frame",
    clicks: true,
  },
  select: { keys: ["x"], shown: ["x"], does: "Select", clicks: true },
  star: { keys: ["s"], shown: ["s"], does: "Star, or remove the star", clicks: true },
  download: { keys: ["d"], shown: ["d"], does: "Download", clicks: true },
  compare: {
    keys: ["c"],
    shown: ["c"],
    does: "Compare the selected videos, or a generation with others of its prompt",
    clicks: true,
  },
  end: {
    keys: ["Delete", "Backspace"],
    shown: ["Delete"],
    does: "Delete, or cancel while it is running; asks first",
    clicks: true,
  },
  play: { keys: ["p", " "], shown: ["p", "Space"], does: "Play or pause the compared videos", clicks: true },
  back: { keys: [","], shown: [","], does: "One frame back, in all compared videos", clicks: true, repeats: true },
  forward: { keys: ["."], shown: ["."], does: "One frame forward", clicks: true, repeats: true },
  generate: { keys: ["Control+Enter", "Meta+Enter"], shown: ["Ctrl", "Enter"], does: "Generate, in the form" },
  leave: { keys: ["Escape"], shown: ["Esc"], does: "Leave a field, or go back to the list" },
  help: { keys: ["?"], shown: ["?"], does: "Show these keys" },
} as const satisfies Record<string, Key>;

export type KeyName = keyof typeof keys;

/** The names of the keys that press a control. */
export type ClickName = { [name in KeyName]: (typeof keys)[name] extends { clicks: true } ? name : never }[KeyName];

/** The keys of a control, for its `aria-keyshortcuts`. */
export function shortcutOf(name: KeyName): string {
  return keys[name].shown.join(" ");
}

/** The attributes of a control that a key presses: for the script, screen readers and the tooltip. */
export function shortcutAttributes(name: ClickName) {
  return { "aria-keyshortcuts": shortcutOf(name), title: `${keys[name].does} (${keys[name].shown.join(" or ")})` };
}

/** Finds an entry by a key with its modifiers, such as "Control+Enter". */
export function findKey(pressed: string): KeyName | undefined {
  const names = Object.keys(keys) as KeyName[];
  return names.find((name) => (keys[name].keys as readonly string[]).includes(pressed));
}
