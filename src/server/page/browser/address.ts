import { readFromTab, saveInTab } from "./tab.ts";

/** The address of the current page, without the part after `#`. */
export function currentAddress(): string {
  return location.pathname + location.search;
}

/**
 * Returns the address to fetch for an update. While the list is scrolled, or has the pointer or the focus, its first entry is in the address: the
 * list then starts at the same entry, so that nothing moves under the pointer, and the page shows the number of newer entries.
 */
export function updateAddress(address: string): string {
  const list = document.querySelector<HTMLElement>("[data-first]");
  if (!list || address !== currentAddress()) return address;
  return isInUse(list) ? pinnedAddress(list) : withQuery((query) => query.delete("from"));
}

function pinnedAddress(list: HTMLElement): string {
  return withQuery((query) => query.set("from", list.dataset.first ?? ""));
}

function isInUse(list: HTMLElement): boolean {
  return list.getBoundingClientRect().top < 0 || list.matches(":hover, :focus-within");
}

/** The address of the current page, with a changed query. */
export function withQuery(change: (query: URLSearchParams) => void): string {
  const query = new URLSearchParams(location.search);
  change(query);
  return query.size === 0 ? location.pathname : `${location.pathname}?${query}`;
}

/** The address of a list, and of the page that was opened from it. */
type OpenedList = { address: string; opened?: string };

const listKey = "vidgen list";

/** Stores the address of a list when a generation is opened from it, so that Escape returns to the same position. */
export function rememberList(): void {
  document.addEventListener("click", ({ target }) => {
    const link = target instanceof Element ? target.closest<HTMLAnchorElement>("a:not([download])") : null;
    const list = link?.closest<HTMLElement>("[data-first]");
    if (!link || !list) return;
    // The browser's "back" then shows the same list, without newer generations.
    history.replaceState(history.state, "", pinnedAddress(list));
    saveInTab(listKey, { address: currentAddress(), opened: link.pathname } satisfies OpenedList);
  });
}

/** Returns to the list that this page was opened from, or to the newest generations. */
export function returnToList(): void {
  const list = readFromTab<OpenedList>(listKey, { address: "/" });
  // Only `history.back` restores the scroll position.
  if (list.opened === location.pathname) history.back();
  else location.assign(list.address);
}
