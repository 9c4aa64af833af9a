import { fetchView, showChanges, showList, showOlder } from "./view.ts";

/** Waits for the end of a word before it asks for the list. */
const typingMs = 200;

/** Filters without a reload; the address keeps the filter, so that it can be shared, and survives a reload. */
export function listenForFilter(): void {
  const form = document.querySelector<HTMLFormElement>("#filter");
  if (!form) return;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const apply = async () => {
    const filled = [...new FormData(form)].filter(([, value]) => value !== "") as [string, string][];
    const address = filled.length === 0 ? "/" : `/?${new URLSearchParams(filled)}`;
    history.replaceState(null, "", address);
    const next = await fetchView(address);
    // Another filter may have been chosen meanwhile.
    if (typeof next !== "string" && location.href === new URL(address, location.href).href) showList(next);
  };
  form.addEventListener("input", ({ target }) => {
    clearTimeout(timer);
    timer = setTimeout(apply, target instanceof HTMLInputElement && target.type === "search" ? typingMs : 0);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void apply();
  });
}

/** "Show older" adds to the list. */
export function listenForOlder(): void {
  document.addEventListener("click", async (event) => {
    const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>("#older") : null;
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const last = document.querySelector("[data-list]")?.lastElementChild;
    const next = await fetchView(link.href);
    // A filter that was chosen meanwhile has removed the link.
    if (typeof next === "string" || !link.isConnected) return;
    showChanges(next);
    showOlder(next);
    last?.nextElementSibling?.querySelector<HTMLElement>("a")?.focus();
  });
}
