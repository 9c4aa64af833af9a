import type { Change } from "../../store/change.ts";
import { isAwaiting, tellEnds } from "./notify.ts";
import { changed, here, pin } from "./place.ts";
import { showProgress } from "./progress.ts";
import { appendPage, fetchPage, showPage, type Trouble } from "./view.ts";

/** How long the page waits before it connects again; meanwhile it polls as often. */
const retryMs = 3_000;
/** The service sends an event every 5 s: without any for this long, something in between holds them back. */
const silenceMs = 10_000;
/** How long changes are collected before the page is fetched. */
const collectMs = 200;
/** The shortest time between two fetches for changes; and how much longer than the last update it is, so that the page stays responsive. */
const restMs = 1_000;
const restFactor = 12;

/** What the page is to show: the address in the browser's bar too, as soon as it is shown. */
let wanted = here();
let request: AbortController | undefined;
let source: EventSource | undefined;
/** Whether something has changed since the request. */
let isStale = false;
let nextAt = 0;
let refreshTimer: ReturnType<typeof setTimeout> | undefined;
let retryTimer: ReturnType<typeof setTimeout> | undefined;
let silenceTimer: ReturnType<typeof setTimeout> | undefined;
/** Whether the last stream was refused, or ended for want of events. */
let isRefused = false;

/**
 * Keeps the page up to date by server-sent events; while they fail, it polls and tries to connect again. A hidden page gives its connection
 * back, unless it awaits an end: a browser opens only six to one server.
 */
export function goLive(): void {
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) connect();
    else if (!isAwaiting()) disconnect();
  });
  // Going back to a page must not show what it was.
  addEventListener("pageshow", (event) => event.persisted && connect());
  addEventListener("pagehide", disconnect);
  if (!document.hidden) connect();
}

/**
 * Shows the page of another address in place of this one. Until the service has sent it, the page that is shown is marked as busy, and the
 * address stays: what is shown is always what the address says. Resolves with whether it is shown.
 */
export async function show(address: string): Promise<boolean> {
  wanted = address;
  document.querySelector("main")?.setAttribute("aria-busy", "true");
  return refresh(wanted);
}

/** Shows a longer list, whose address this is, by adding what it has more. Resolves with whether it is shown. */
export async function showMore(address: string): Promise<boolean> {
  wanted = address;
  document.querySelector("main")?.setAttribute("aria-busy", "true");
  const count = document.querySelector("[data-list]")?.childElementCount ?? 0;
  return refresh(address, { part: `${address}&skip=${count}`, take: appendPage });
}

function connect(): void {
  disconnect();
  source = new EventSource("/events");
  awaitEvent();
  // Changes from before the connection are not sent.
  source.onopen = () => {
    noteEvent();
    void refresh(pin(wanted));
    void tellEnds();
  };
  source.addEventListener("ping", noteEvent);
  source.onmessage = ({ data }) => {
    noteEvent();
    hear(JSON.parse(data));
  };
  source.onerror = () => {
    // After a broken connection, the browser would try to connect again by itself.
    isRefused = source?.readyState === EventSource.CLOSED;
    void poll();
  };
}

function awaitEvent(): void {
  clearTimeout(silenceTimer);
  silenceTimer = setTimeout(() => {
    isRefused = true;
    void poll();
  }, silenceMs);
}

function noteEvent(): void {
  isRefused = false;
  awaitEvent();
}

/** Fetches the page without a connection, and tries to connect again later. */
async function poll(): Promise<void> {
  disconnect();
  connectLater();
  await refresh(pin(wanted));
}

function connectLater(): void {
  disconnect();
  if (!document.hidden || isAwaiting()) retryTimer = setTimeout(connect, retryMs);
}

function disconnect(): void {
  clearTimeout(retryTimer);
  clearTimeout(silenceTimer);
  clearTimeout(refreshTimer);
  refreshTimer = undefined;
  source?.close();
  source = undefined;
}

function hear(change: Change): void {
  if (change.kind === "progress") showProgress(change);
  if (change.kind === "generation") void tellEnds(change.id);
  if (matters(change)) refreshSoon();
}

/** What the page shows decides which changes matter to it. */
function matters(change: Change): boolean {
  if (change.kind === "missed") return true;
  const ownId = document.querySelector<HTMLElement>("[data-generation]")?.dataset.generation;
  if (ownId !== undefined) return change.kind !== "progress" && "id" in change && change.id === ownId;
  return document.querySelector<HTMLElement>("[data-list]")?.dataset.list?.split(" ").includes(change.kind) ?? false;
}

function refreshSoon(): void {
  isStale = true;
  if (refreshTimer !== undefined || request !== undefined) return;
  refreshTimer = setTimeout(() => refresh(pin(wanted)), Math.max(collectMs, nextAt - performance.now()));
}

/** Fetches a page, or a part of it, in place of whatever is being fetched, and shows it. Resolves with whether it is shown. */
async function refresh(address: string, { part = address, take = showPage } = {}): Promise<boolean> {
  clearTimeout(refreshTimer);
  refreshTimer = undefined;
  request?.abort();
  const own = new AbortController();
  request = own;
  isStale = false;
  const next = await fetchPage(part, own.signal);
  if (request !== own) return false;
  request = undefined;
  const startedAt = performance.now();
  const isShown = typeof next !== "string";
  if (isShown) takeOver(next, address, take);
  report(next);
  nextAt = performance.now() + Math.max(restMs, restFactor * (performance.now() - startedAt));
  if (!isShown) connectLater();
  else if (isStale) refreshSoon();
  return isShown;
}

function takeOver(next: Document, address: string, take: (next: Document) => void): void {
  if (isSignedOut()) {
    location.replace(changed((query) => query.delete("token")));
    return;
  }
  // Somebody else has signed in, in another tab.
  if (next.body.dataset.account !== document.body.dataset.account) {
    location.reload();
    return;
  }
  take(next);
  document.querySelector("main")?.removeAttribute("aria-busy");
  wanted = address;
  if (address !== here()) history.replaceState(history.state, "", address);
}

/** Whether this is the page for a visitor without a session, which says by itself what to do. */
function isSignedOut(): boolean {
  return document.querySelector("[data-signed-out]") !== null;
}

const notices: Record<Trouble, string> = {
  "signed out":
    "You are signed out. Sign in again in this browser, with a link or an API key; this page then continues by itself.",
  busy: "vidgen serve has too many requests. No data is lost, and this page continues by itself.",
  database:
    "The database cannot be reached. No data is lost, and this page continues by itself once the database is back.",
  unreachable: "vidgen serve does not respond. This page continues by itself once the service runs again.",
};

function report(result: Document | Trouble): void {
  const notice = document.querySelector<HTMLElement>("#notice");
  const connection = document.querySelector<HTMLElement>("#connection");
  if (!notice || !connection || isSignedOut()) return;
  const isLive = typeof result !== "string" && source !== undefined;
  if (isLive && connection.dataset.live !== "true") document.dispatchEvent(new Event("live"));
  connection.dataset.live = String(isLive);
  write(connection, isLive ? "Live" : notLive());
  notice.hidden = typeof result !== "string";
  if (typeof result === "string") write(notice, notices[result]);
}

function notLive(): string {
  return isRefused ? "No live updates: checking every few seconds" : "Reconnecting";
}

/** A screen reader would read the same text again. */
function write(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
