import { type ClickName, findKey, type Key, type KeyName, keys, shortcutOf } from "../keys.ts";
import { showHelp } from "./buttons.ts";
import { returnToList } from "./place.ts";
import { sayWhyNot } from "./selection.ts";

/** What each entry of the table of keys does that presses no control; returns whether it did something, so that the browser does nothing else. */
const actions: Record<Exclude<KeyName, ClickName>, (key: string) => boolean> = {
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
  leave() {
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
    if (document.querySelector("dialog[open]")) return;
    const key = nameOf(event);
    const isCombination = key !== event.key;
    if (hasFocus(typed) && !isCombination) {
      if (key === "Escape") (document.activeElement as HTMLElement).blur();
      return;
    }
    // It presses what has the focus.
    if (key === " " && hasFocus(pressed)) return;
    const name = findKey(key);
    if (name && act(name, event)) event.preventDefault();
  });
}

function act(name: KeyName, { key, repeat }: KeyboardEvent): boolean {
  const { clicks, repeats }: Key = keys[name];
  // A key that is held down must not toggle, or pay, again and again.
  if (repeat && !repeats) return true;
  return clicks ? click(name as ClickName) : actions[name as Exclude<KeyName, ClickName>](key);
}

/** Presses the control with this key in the item that has the focus, or the one that stands in no item: that of the whole page. */
function click(name: ClickName): boolean {
  const controls = [...document.querySelectorAll<HTMLElement>(`[aria-keyshortcuts="${shortcutOf(name)}"]`)];
  const current = document.activeElement?.closest(items) ?? null;
  const control =
    controls.find((each) => each.closest(items) === current) ?? controls.find((each) => each.closest(items) === null);
  if (control?.matches("#selection :disabled")) sayWhyNot();
  control?.click();
  return control !== undefined;
}

/** Each is a generation, with controls of its own. */
const items = ".card, .compared > li";
/** Letters belong to them. */
const typed = "input:not([type=radio], [type=checkbox], [type=range]), select, textarea";
/** Space belongs to them. */
const pressed = "a, button, summary, video, input:not([type=range])";

function hasFocus(selector: string): boolean {
  return document.activeElement?.matches(selector) ?? false;
}

/** Such as "j" or "Control+Enter". */
function nameOf({ key, ctrlKey, metaKey, altKey }: KeyboardEvent): string {
  const held = [ctrlKey && "Control", metaKey && "Meta", altKey && "Alt"].filter((each) => each !== false);
  return [...held, key].join("+");
}

function focus(element: HTMLElement | null | undefined): boolean {
  element?.focus();
  return element != null;
}

function findCards() {
  const cards = [...document.querySelectorAll<HTMLElement>(".card > a, .compared .which > a")];
  const current = document.activeElement?.closest(items);
  return { cards, index: cards.findIndex((card) => card.closest(items) === current) };
}

/** The card in the direction of a key. */
function findCard(key: string): HTMLElement | undefined {
  const { cards, index } = findCards();
  if (index === -1) return undefined;
  const rows = cards.map((card) => card.getBoundingClientRect());
  const columns = rows.filter(({ top }) => top === rows[0]?.top).length;
  const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
  if (key === "Home") return cards[0];
  if (key === "End") return cards.at(-1);
  const by = steps[key];
  return by === undefined ? undefined : cards[index + by];
}

/** Goes on from generation to generation, from row to row of a list, which opens, or from card to card. */
function step(by: 1 | -1): boolean {
  const link = document.querySelector<HTMLAnchorElement>(`.beside a[rel=${by > 0 ? "next" : "prev"}]`);
  if (link) location.assign(link.href);
  if (link || openRow(by)) return true;
  const { cards, index } = findCards();
  return focus(cards[index + by]);
}

function openRow(by: number): boolean {
  const rows = [...document.querySelectorAll<HTMLDetailsElement>(".rows details[name]")];
  const current = rows.findIndex((row) => row.open);
  const row = rows[current === -1 ? 0 : current + by];
  if (row) row.open = true;
  return focus(row?.querySelector("summary"));
}
