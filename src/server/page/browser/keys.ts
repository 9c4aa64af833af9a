import { returnToList } from "./place.ts";

/** `/` goes to the search, arrows go from card to card, and Escape goes back to the list. */
export function listenForKeys(): void {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { activeElement } = document;
    const isTyping = activeElement?.matches("input, select, textarea, video, pre") ?? false;
    if (event.key === "Escape" && activeElement instanceof HTMLElement && isTyping) return activeElement.blur();
    if (isTyping) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && document.querySelector("[data-generation]")) return returnToList();
    const search = document.querySelector<HTMLInputElement>('input[type="search"]');
    const target = event.key === "/" ? search : findCard(event.key, activeElement);
    if (!target) return;
    event.preventDefault();
    target.focus();
  });
}

/** The card in the direction of a key. */
function findCard(key: string, from: Element | null): HTMLElement | undefined {
  const cards = [...document.querySelectorAll<HTMLElement>(".card > a")];
  const index = cards.findIndex((card) => card.isSameNode(from));
  if (index === -1) return undefined;
  const rows = cards.map((card) => card.getBoundingClientRect());
  const columns = rows.filter(({ top }) => top === rows[0]?.top).length;
  const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
  if (key === "Home") return cards[0];
  if (key === "End") return cards.at(-1);
  const step = steps[key];
  return step === undefined ? undefined : cards[index + step];
}
