import { keep, kept } from "./tab.ts";

/** The address of what is shown, without the part after `#`. */
export function here(): string {
  return location.pathname + location.search;
}

/**
 * Returns the address of what is shown as it is to be fetched again. While somebody is within the list, or has scrolled down, it begins with
 * the entry that is first now, so that nothing moves away under the pointer; the page then says how many are newer.
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

/** The address of what is shown, with another query. */
export function changed(change: (query: URLSearchParams) => void): string {
  const query = new URLSearchParams(location.search);
  change(query);
  return query.size === 0 ? location.pathname : `${location.pathname}?${query}`;
}

/** The address of the list that was left, and of the page that was opened from it. */
type Left = { address: string; opened?: string };

const leftKey = "vidgen list";

/** Lets a generation that is opened from a list lead back to the same place of the same list. */
export function rememberPlace(): void {
  document.addEventListener("click", ({ target }) => {
    const link = target instanceof Element ? target.closest<HTMLAnchorElement>("a:not([download])") : null;
    const list = link?.closest<HTMLElement>("[data-first]");
    if (!link || !list) return;
    // The browser's own "back" then leads to what is shown now, and not to what the same address shows by then.
    history.replaceState(history.state, "", pinned(list));
    keep(leftKey, { address: here(), opened: link.pathname } satisfies Left);
  });
}

/** Goes back to the list that this page was opened from, or to the newest generations. */
export function returnToList(): void {
  const left = kept<Left>(leftKey, { address: "/" });
  // The browser scrolls to where it was only when it goes back.
  if (left.opened === location.pathname) history.back();
  else location.assign(left.address);
}
