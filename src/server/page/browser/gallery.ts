import { showAddress, showMore } from "./live.ts";

/** How long a pause in typing must be before the list is fetched. */
const typingMs = 200;

/** Filters the list without a reload. The address contains the filter, so that the filter can be shared and survives a reload. */
export function listenForFilter(): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const apply = (form: HTMLFormElement) => {
    clearTimeout(timer);
    const filled = [...new FormData(form)].filter(([, value]) => value !== "") as [string, string][];
    void showAddress(filled.length === 0 ? "/" : `/?${new URLSearchParams(filled)}`);
  };
  document.addEventListener("input", ({ target }) => {
    const field = target instanceof Element ? target.closest<HTMLInputElement>("#filter [name]") : null;
    const form = field?.form;
    if (!form) return;
    clearTimeout(timer);
    timer = setTimeout(() => apply(form), field.type === "search" ? typingMs : 0);
  });
  document.addEventListener("submit", (event) => {
    if (!(event.target instanceof HTMLFormElement) || event.target.id !== "filter") return;
    event.preventDefault();
    apply(event.target);
  });
}

/** "Show older" extends the list and "3 new" shows its beginning, both without a reload. */
export function listenForMore(): void {
  document.addEventListener("click", async (event) => {
    const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>("a#older, a#newer") : null;
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const last = link.id === "older" ? document.querySelector("[data-list]")?.lastElementChild : undefined;
    const isLonger = new URLSearchParams(link.search).has("shown");
    const isShown = await (isLonger ? showMore : showAddress)(link.pathname + link.search);
    if (!isShown) return;
    if (last) last.nextElementSibling?.querySelector<HTMLElement>("a")?.focus();
    else scrollTo({ top: 0 });
  });
}
