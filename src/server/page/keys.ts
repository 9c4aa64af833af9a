/** `keys` by their names in a KeyboardEvent; without any, it is the browser's own. `shown` are those of the help. */
type Key = { keys: readonly string[]; shown: readonly string[]; does: string };

/** The keys of every page, by what they do: for the browser's listener, and for the help. */
export const keys = {
  search: { keys: ["/"], shown: ["/"], does: "Search" },
  card: {
    keys: ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"],
    shown: ["←", "→", "↑", "↓"],
    does: "Go from card to card",
  },
  next: { keys: ["j"], shown: ["j"], does: "Next: the one below, or the generation before this one" },
  previous: { keys: ["k"], shown: ["k"], does: "Previous: the one above, or the generation after this one" },
  open: { keys: [], shown: ["Enter"], does: "Open" },
  generate: { keys: ["Control+Enter", "Meta+Enter"], shown: ["Ctrl", "Enter"], does: "Generate, in the form" },
  back: { keys: ["Escape"], shown: ["Esc"], does: "Leave a field, or go back to the list" },
  help: { keys: ["?"], shown: ["?"], does: "Show these keys" },
} as const satisfies Record<string, Key>;

export type KeyName = keyof typeof keys;
