import { type ClickName, findKey, type Key, type KeyName, keys, shortcutOf } from "../keys.ts";
import { returnToList } from "./address.ts";
import { showHelp } from "./buttons.ts";
import { explainDisabled } from "./selection.ts";

/** The actions of keys that press no control. Each returns whether it handled the key; if not, the browser does. */
const actions: Record<Exclude<KeyName, ClickName>, (key: string) => boolean> = {
  search: () => focus(document.querySelector<HTMLElement>('input[type="search"]')),
  card: (key) => focus(findCard(key)),
  next: () => step(1),
  previous: () => step(-1),
  // The browser handles Enter.
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

/** Handles the keyboard shortcuts: in a field only Escape and those with Ctrl or ⌘, in a dialog or menu none. */
export function listenForKeys(): void {
  document.addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open], :popover-open")) return;
    const key = nameOf(event);
    const isCombination = key !== event.key;
    if (hasFocus(typable) && !isCombination) {
      if (key === "Escape") (document.activeElement as HTMLElement).blur();
      return;
    }
    // Space presses the focused element.
    if (key === " " && hasFocus(pressable)) return;
    const name = findKey(key);
    if (name && act(name, event)) event.preventDefault();
  });
}

function act(name: KeyName, { key, repeat }: KeyboardEvent): boolean {
  const { clicks, repeats }: Key = keys[name];
  // A held key must not toggle or start anything repeatedly.
  if (repeat && !repeats) return true;
  return clicks ? click(name as ClickName) : actions[name as Exclude<KeyName, ClickName>](key);
}

/** Presses the control with this shortcut in the focused item, or else the one outside of all items. */
function click(name: ClickName): boolean {
  const controls = [...document.querySelectorAll<HTMLElement>(`[aria-keyshortcuts="${shortcutOf(name)}"]`)];
  const current = document.activeElement?.closest(items) ?? null;
  const control =
    controls.find((each) => each.closest(items) === current) ?? controls.find((each) => each.closest(items) === null);
  if (control?.matches("#selection :disabled")) explainDisabled();
  control?.click();
  return control !== undefined;
}

/** Generations that have controls of their own. */
const items = ".card, .compared > li";
/** Elements that take letters. */
const typable = "input:not([type=radio], [type=checkbox], [type=range]), select, textarea";
/** Elements that take Space. */
const pressable = "a, button, summary, video, input:not([type=range])";

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

/** The card to which an arrow key, Home or End moves the focus. */
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

/** Moves to the next generation, opens the next row, or focuses the next card. */
function step(by: 1 | -1): boolean {
  const link = document.querySelector<HTMLAnchorElement>(`.neighbours a[rel=${by > 0 ? "next" : "prev"}]`);
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
