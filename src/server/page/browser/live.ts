import type { Change } from "../../store/change.ts";
import { entriesOf, fetchView, showChanges, showList } from "./view.ts";

/** How long the page waits before it connects again; meanwhile it polls as often. */
const retryMs = 3_000;
/** How long changes are collected before what they are about is fetched. */
const collectMs = 200;
/** So many entries are fetched at a time. */
const maxEntries = 50;

/** What the page shows decides which changes matter to it. */
const list = document.querySelector<HTMLElement>("[data-list]")?.dataset.list;
const ownId = document.querySelector<HTMLElement>("[data-generation]")?.dataset.generation;

const stale = new Set<string>();
let isStale = false;
let isFetching = false;
let source: EventSource | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;

/**
 * Keeps the page up to date by server-sent events; while they fail, it polls and tries to connect again. A hidden page gives its connection
 * back: a browser opens only six to one server.
 */
export function goLive(): void {
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  // Going back to a page must not show what it was.
  addEventListener("pageshow", (event) => event.persisted && connect());
  addEventListener("pagehide", disconnect);
  if (!document.hidden) connect();
}

function connect(): void {
  disconnect();
  source = new EventSource("/events");
  // What has changed before is not told.
  source.onopen = () => void refreshAll();
  source.onmessage = ({ data }) => take(JSON.parse(data));
  source.onerror = async () => {
    disconnect();
    await refreshAll();
    connectLater();
  };
}

function connectLater(): void {
  disconnect();
  if (!document.hidden) timer = setTimeout(connect, retryMs);
}

function disconnect(): void {
  clearTimeout(timer);
  source?.close();
  source = undefined;
}

function take(change: Change): void {
  if (change.kind === "progress") showProgress(change);
  if (!matters(change)) return;
  if (ownId === undefined && "id" in change) stale.add(change.id);
  else isStale = true;
  void refresh();
}

function matters(change: Change): boolean {
  if (ownId === undefined || change.kind === "progress") return change.kind === list;
  return "id" in change && change.id === ownId;
}

function showProgress({ id, percent }: Change & { kind: "progress" }): void {
  const bar = document.querySelector<HTMLProgressElement>(`[data-progress="${id}"]`);
  if (bar) bar.value = percent;
}

/** Fetches what is stale, until nothing is. */
async function refresh(): Promise<void> {
  if (isFetching) return;
  isFetching = true;
  while (isStale || stale.size > 0) {
    await new Promise((resolve) => setTimeout(resolve, collectMs));
    const ids = isStale ? [] : [...stale].slice(0, maxEntries);
    if (isStale) isStale = false;
    else for (const id of ids) stale.delete(id);
    const address = location.href;
    const next = await fetchView(addressOf(ids));
    report(next);
    if (typeof next === "string") {
      // A session can expire while the events still come.
      connectLater();
      break;
    }
    // Another filter was chosen meanwhile: this is not what it shows.
    if (location.href !== address) isStale = true;
    else if (ids.length === 0 && isGap(next)) showList(next);
    else showChanges(next, ids);
  }
  isFetching = false;
}

/** Whether so much is new that entries are missing between the newest ones and those shown: then the newest replace them. */
function isGap(next: Document): boolean {
  const shown = entriesOf(document.querySelector("[data-list]") ?? document.body);
  return next.querySelector("#older") !== null && ![...entriesOf(next).keys()].some((key) => shown.has(key));
}

/** Fetches the page, and the running entries that it may not have any more. */
async function refreshAll(): Promise<void> {
  isStale = true;
  const shown = document.querySelector("[data-list]");
  for (const [key, entry] of shown ? entriesOf(shown) : [])
    if (ownId === undefined && entry.dataset.status === "processing") stale.add(key);
  await refresh();
}

function addressOf(ids: readonly string[]): string {
  const url = new URL(location.href);
  if (ids.length > 0) url.searchParams.set("ids", ids.join(","));
  return url.href;
}

const notices = {
  "signed out": "You are signed out. Open the link that vidgen serve has printed; this page then goes on by itself.",
  unreachable: "vidgen serve does not answer. This page goes on by itself once it runs again.",
};

function report(result: Document | keyof typeof notices): void {
  const notice = document.querySelector<HTMLElement>("#notice");
  const connection = document.querySelector<HTMLElement>("#connection");
  if (!notice || !connection) return;
  const isLive = typeof result !== "string" && source !== undefined;
  connection.dataset.live = String(isLive);
  write(connection, isLive ? "Live" : "Reconnecting");
  notice.hidden = typeof result !== "string";
  if (typeof result === "string") write(notice, notices[result]);
}

/** A screen reader would read the same text again. */
function write(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
