/** The HTML of each replaceable element as the server sent it: since then, the browser may have opened, filled or played it. */
const sources = new WeakMap<Element, string>();

/** Remembers what the server sent of the elements that it may send again, and shows the buttons that need this script. */
export function remember(root: ParentNode & Node): void {
  const inside = [...root.querySelectorAll("[data-part], [data-key]")];
  for (const element of root instanceof Element ? [root, ...inside] : inside) sources.set(element, sourceOf(element));
  for (const button of root.querySelectorAll<HTMLElement>("[data-send]")) button.hidden = false;
  if ("clipboard" in navigator)
    for (const button of root.querySelectorAll<HTMLElement>("[data-copy]")) button.hidden = false;
}

/** Without the texts of times, which change by themselves. */
function sourceOf(element: Element): string {
  return element.outerHTML.replace(/(<time[^>]*>)[^<]*/g, "$1");
}

/** Fetches a page of this site as a document, in which no script runs. Resolves with a word when there is none. */
export async function fetchView(address: string): Promise<Document | "signed out" | "unreachable"> {
  const reply = await fetch(address).catch(() => undefined);
  if (reply?.status === 401) return "signed out";
  // A page that says there is no such generation is an answer too.
  if (!reply?.ok && reply?.status !== 404) return "unreachable";
  const text = await reply.text().catch(() => undefined);
  return text === undefined ? "unreachable" : new DOMParser().parseFromString(text, "text/html");
}

/**
 * Replaces what has changed, and adds the entries of the list that are new, by their order. Entries whose keys were `asked` for, and which the
 * server no longer lists, are removed.
 */
export function showChanges(next: Document, asked: readonly string[] = []): void {
  for (const part of document.querySelectorAll<HTMLElement>("[data-part]")) {
    const other = next.querySelector(`[data-part="${part.dataset.part}"]`);
    if (other) swap(part, other);
  }
  const list = document.querySelector("[data-list]");
  const nextList = next.querySelector("[data-list]");
  if (!list || !nextList) return;
  const known = entriesOf(list);
  const found = entriesOf(nextList);
  for (const [key, entry] of found) {
    const old = known.get(key);
    if (old) swap(old, entry);
    else insert(list, entry);
  }
  for (const key of asked) if (!found.has(key)) known.get(key)?.remove();
}

/** Shows another list, such as that of another filter. */
export function showList(next: Document): void {
  const list = document.querySelector("[data-list]");
  const nextList = next.querySelector("[data-list]");
  list?.replaceChildren(...(nextList?.children ?? []));
  if (list) remember(list);
  showChanges(next);
  showOlder(next);
}

/** Takes over the link to the next page. */
export function showOlder(next: Document): void {
  document.querySelector("#older")?.remove();
  const older = next.querySelector("#older");
  if (older) document.querySelector("main")?.append(older);
}

export function entriesOf(list: ParentNode): Map<string, HTMLElement> {
  const entries = [...list.querySelectorAll<HTMLElement>("[data-key]")];
  return new Map(entries.map((entry) => [entry.dataset.key ?? "", entry]));
}

function swap(old: Element, next: Element): void {
  if (sources.get(old) === sourceOf(next)) return;
  const hadFocus = old.contains(document.activeElement);
  old.replaceWith(next);
  remember(next);
  if (!hadFocus) return;
  const focusable = next instanceof HTMLSelectElement ? next : next.querySelector<HTMLElement>("a, button");
  focusable?.focus();
}

/** Newest first: before the first entry that is older. */
function insert(list: Element, entry: HTMLElement): void {
  const order = entry.dataset.order ?? "";
  const after = [...entriesOf(list).values()].find((other) => (other.dataset.order ?? "") < order);
  list.insertBefore(entry, after ?? null);
  remember(entry);
}
