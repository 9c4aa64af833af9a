import { keep, kept } from "./tab.ts";

/** The address of the current page, without the part after `#`. */
export function here(): string {
  return location.pathname + location.search;
}

/**
 * Returns the address to fetch for an update. While the list is in use or scrolled, the address pins its first entry, so that nothing moves under the
 * pointer; the page then shows the number of newer entries.
 */
export function pin(address: string): string {
  const list = document.querySelector<HTMLElement>("[data-first]");
  if (!list || address !== here()) return address;
  return isInUse(list) ? pinned(list) : changed((query) => query.delete("from"));
}

function pinned(list: HTMLElement): string {
  return changed((query) => query.set("from", list.dataset.first ?? ""));
}

function isInUse(list: HTMLElement): boolean {
  return list.getBoundingClientRect().top < 0 || list.matches(":hover, :focus-within");
}

/** The address of the current page, with a changed query. */
export function changed(change: (query: URLSearchParams) => void): string {
  const query = new URLSearchParams(location.search);
  change(query);
  return query.size === 0 ? location.pathname : `${location.pathname}?${query}`;
}

/** The address of the list that was left, and of the page that was opened from it. */
type Left = { address: string; opened?: string };

const leftKey = "vidgen list";

/** Remembers the list that a generation was opened from, so that Escape returns to the same position. */
export function rememberPlace(): void {
  document.addEventListener("click", ({ target }) => {
    const link = target instanceof Element ? target.closest<HTMLAnchorElement>("a:not([download])") : null;
    const list = link?.closest<HTMLElement>("[data-first]");
    if (!link || !list) return;
    // "Back" in the browser then shows the current list, without later generations.
    history.replaceState(history.state, "", pinned(list));
    keep(leftKey, { address: here(), opened: link.pathname } satisfies Left);
  });
}

/** Returns to the list that this page was opened from, or to the newest generations. */
export function returnToList(): void {
  const left = kept<Left>(leftKey, { address: "/" });
  // Only `history.back` restores the scroll position.
  if (left.opened === location.pathname) history.back();
  else location.assign(left.address);
}
