import { type KeyName, keys } from "../keys.ts";
import { showHelp } from "./buttons.ts";
import { returnToList } from "./place.ts";

/** What each entry of the table of keys does; returns whether it did something, so that the browser does nothing else. */
const actions: Record<KeyName, (key: string) => boolean> = {
  search: () => focus(document.querySelector<HTMLElement>('input[type="search"]')),
  card: (key) => focus(findCard(key)),
  next: () => step(1),
  previous: () => step(-1),
  // The browser's own.
  open: () => false,
  generate() {
    const form = document.activeElement?.closest<HTMLFormElement>("#composer");
    form?.requestSubmit();
    return form != null;
  },
  back() {
    if (document.querySelector("[data-generation]")) returnToList();
    return false;
  },
  help() {
    showHelp();
    return true;
  },
};

/** The one listener for the keys of the page. In a field, only Escape and keys with Ctrl or ⌘ are the page's own; in a dialog, none. */
export function listenForKeys(): void {
  document.addEventListener("keydown", (event) => {
    const { activeElement } = document;
    if (document.querySelector("dialog[open]")) return;
    const key = nameOf(event);
    const isCombination = key !== event.key;
    if (isTyping() && !isCombination) {
      if (key === "Escape") (activeElement as HTMLElement).blur();
      return;
    }
    const names = Object.keys(keys) as KeyName[];
    const name = names.find((each) => (keys[each].keys as readonly string[]).includes(key));
    if (name && actions[name](event.key)) event.preventDefault();
  });
}

/** Such as "j" or "Control+Enter". */
function nameOf({ key, ctrlKey, metaKey, altKey }: KeyboardEvent): string {
  const held = [ctrlKey && "Control", metaKey && "Meta", altKey && "Alt"].filter((each) => each !== false);
  return [...held, key].join("+");
}

/** Whether a key belongs to what has the focus. */
function isTyping(): boolean {
  const fields = "input:not([type=radio], [type=checkbox]), select, textarea, video";
  return document.activeElement?.matches(fields) ?? false;
}

function focus(element: HTMLElement | null | undefined): boolean {
  element?.focus();
  return element != null;
}

/** The card in the direction of a key. */
function findCard(key: string): HTMLElement | undefined {
  const cards = [...document.querySelectorAll<HTMLElement>(".card > a")];
  const index = cards.findIndex((card) => card.isSameNode(document.activeElement));
  if (index === -1) return undefined;
  const rows = cards.map((card) => card.getBoundingClientRect());
  const columns = rows.filter(({ top }) => top === rows[0]?.top).length;
  const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
  if (key === "Home") return cards[0];
  if (key === "End") return cards.at(-1);
  const by = steps[key];
  return by === undefined ? undefined : cards[index + by];
}

/** Goes on from generation to generation, or from row to row of a list, which opens. */
function step(by: 1 | -1): boolean {
  const link = document.querySelector<HTMLAnchorElement>(`.beside a[rel=${by > 0 ? "next" : "prev"}]`);
  if (link) location.assign(link.href);
  return link !== null || openRow(by);
}

function openRow(by: number): boolean {
  const rows = [...document.querySelectorAll<HTMLDetailsElement>(".rows details[name]")];
  const current = rows.findIndex((row) => row.open);
  const row = rows[current === -1 ? 0 : current + by];
  if (row) row.open = true;
  return focus(row?.querySelector("summary"));
}
