import type { Change } from "../../store/change.ts";
import { currentAddress, updateAddress, withQuery } from "./address.ts";
import { isAwaiting, notifyOfEnds } from "./notify.ts";
import { showProgress } from "./progress.ts";
import { readFromTab, saveInTab } from "./tab.ts";
import { appendEntries, type FetchFailure, fetchPage, showPage } from "./view.ts";

/** How long the page waits before it connects or polls again. */
const retryMs = 3_000;
/** The service sends an event every 5 s. After this time without one, the page polls: a proxy may be buffering the events. */
const silenceMs = 10_000;
/** How long changes are collected before a fetch. */
const collectMs = 200;
/** The minimum time between two fetches for changes: 1 s, and 12 times as long as the last update took, so that the page stays responsive. */
const minPauseMs = 1_000;
const pauseFactor = 12;
/** The minimum time between two reloads. */
const minReloadMs = 60_000;
const reloadedKey = "vidgen reloaded";

/** The address of the page to show. The address bar changes once the page is shown. */
let wantedAddress = currentAddress();
/** The version of the data that the page was loaded with; `undefined` once a stream was opened for it. */
let loadedVersion = document.body.dataset.version;
let request: AbortController | undefined;
let source: EventSource | undefined;
/** Whether a change arrived after the request was sent. */
let isStale = false;
let nextAt = 0;
let refreshTimer: ReturnType<typeof setTimeout> | undefined;
let retryTimer: ReturnType<typeof setTimeout> | undefined;
let silenceTimer: ReturnType<typeof setTimeout> | undefined;
/** Whether the last stream was refused, or was silent for too long. */
let hasStreamFailed = false;

/**
 * Keeps the page up to date by server-sent events. While there is no stream, the page polls and tries to connect again. A hidden page disconnects,
 * because a browser opens only six connections to a server, unless it has to notify of the end of a generation.
 */
export function goLive(): void {
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) connect();
    else if (!isAwaiting()) disconnect();
  });
  // The browser may restore an outdated page from its cache.
  addEventListener("pageshow", (event) => event.persisted && connect());
  addEventListener("pagehide", disconnect);
  if (!document.hidden) connect();
}

/**
 * Shows the page of another address. Until it has loaded, the current page is marked as busy and the address bar is unchanged, so that it always
 * names the page that is shown. Resolves with whether the new page is shown.
 */
export async function showAddress(address: string): Promise<boolean> {
  wantedAddress = address;
  document.querySelector("main")?.setAttribute("aria-busy", "true");
  return refresh(wantedAddress);
}

/** Shows the longer list of an address by fetching only the missing entries. Resolves with whether it is shown. */
export async function showMore(address: string): Promise<boolean> {
  wantedAddress = address;
  document.querySelector("main")?.setAttribute("aria-busy", "true");
  const count = document.querySelector("[data-list]")?.childElementCount ?? 0;
  return refresh(address, { part: `${address}&skip=${count}`, update: appendEntries });
}

function connect(): void {
  disconnect();
  const version = loadedVersion;
  loadedVersion = undefined;
  source = new EventSource(version === undefined ? "/events" : `/events?since=${version}`);
  awaitEvent();
  source.onopen = () => {
    noteEvent();
    const address = updateAddress(wantedAddress);
    // Without a version, changes from before the connection are not sent.
    if (version === undefined || address !== wantedAddress) void refresh(address);
    else showConnection(document);
    void notifyOfEnds();
  };
  source.addEventListener("ping", noteEvent);
  source.onmessage = ({ data }) => {
    noteEvent();
    onChange(JSON.parse(data));
  };
  source.onerror = () => {
    // CLOSED: the service refused the stream. After a broken connection, the browser would reconnect by itself.
    hasStreamFailed = source?.readyState === EventSource.CLOSED;
    void poll();
  };
}

function awaitEvent(): void {
  clearTimeout(silenceTimer);
  silenceTimer = setTimeout(() => {
    hasStreamFailed = true;
    void poll();
  }, silenceMs);
}

function noteEvent(): void {
  hasStreamFailed = false;
  awaitEvent();
}

/** Fetches the page once, and tries to connect again later. */
async function poll(): Promise<void> {
  disconnect();
  connectLater();
  await refresh(updateAddress(wantedAddress));
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

function onChange(change: Change): void {
  if (change.kind === "progress") showProgress(change);
  if (change.kind === "generation") void notifyOfEnds(change.id);
  if (affectsPage(change)) refreshSoon();
}

/** Whether the page shows something that a change affects. */
function affectsPage(change: Change): boolean {
  if (change.kind === "missed") return true;
  const ownId = document.querySelector<HTMLElement>("[data-generation]")?.dataset.generation;
  if (ownId !== undefined) return change.kind !== "progress" && "id" in change && change.id === ownId;
  return document.querySelector<HTMLElement>("[data-list]")?.dataset.list?.split(" ").includes(change.kind) ?? false;
}

function refreshSoon(): void {
  isStale = true;
  if (refreshTimer !== undefined || request !== undefined) return;
  refreshTimer = setTimeout(
    () => refresh(updateAddress(wantedAddress)),
    Math.max(collectMs, nextAt - performance.now()),
  );
}

/** Fetches a page and shows it by `update`; `part` is the address of a part of it. Aborts the previous fetch. Resolves with whether it is shown. */
async function refresh(address: string, { part = address, update = showPage } = {}): Promise<boolean> {
  clearTimeout(refreshTimer);
  refreshTimer = undefined;
  request?.abort();
  const current = new AbortController();
  request = current;
  isStale = false;
  const next = await fetchPage(part, current);
  if (request !== current) return false;
  request = undefined;
  const startedAt = performance.now();
  const isShown = typeof next !== "string";
  if (isShown) showFetched(next, address, update);
  showConnection(next);
  nextAt = performance.now() + Math.max(minPauseMs, pauseFactor * (performance.now() - startedAt));
  if (!isShown) connectLater();
  else if (isStale) refreshSoon();
  return isShown;
}

function showFetched(next: Document, address: string, update: (next: Document) => void): void {
  if (isSignedOut()) {
    location.replace(withQuery((query) => query.delete("token")));
    return;
  }
  // Another account has signed in, in another tab.
  if (next.body.dataset.account !== document.body.dataset.account) {
    if (Date.now() - readFromTab(reloadedKey, 0) < minReloadMs) return;
    saveInTab(reloadedKey, Date.now());
    location.reload();
    return;
  }
  update(next);
  document.querySelector("main")?.removeAttribute("aria-busy");
  wantedAddress = address;
  if (address !== currentAddress()) history.replaceState(history.state, "", address);
}

/** Whether the sign-in page is shown, which needs no notice. */
function isSignedOut(): boolean {
  return document.querySelector("[data-signed-out]") !== null;
}

const notices: Record<FetchFailure, string> = {
  "signed out":
    "You are signed out. Sign in again in this browser, with a link or an API key; this page then continues by itself.",
  busy: "There are too many requests. No data is lost, and this page continues by itself.",
  database:
    "The database cannot be reached. No data is lost, and this page continues by itself once the database is back.",
  unreachable:
    "vidgen serve does not respond, or a proxy answers in its place. This page continues by itself once the service responds.",
};

function showConnection(result: Document | FetchFailure): void {
  const notice = document.querySelector<HTMLElement>("#notice");
  const connection = document.querySelector<HTMLElement>("#connection");
  if (!notice || !connection || isSignedOut()) return;
  const isLive = typeof result !== "string" && source !== undefined;
  if (isLive && connection.dataset.live !== "true") document.dispatchEvent(new Event("live"));
  connection.dataset.live = String(isLive);
  setText(connection, isLive ? "Live" : notLiveText());
  notice.hidden = typeof result !== "string";
  if (typeof result === "string") setText(notice, notices[result]);
}

function notLiveText(): string {
  return hasStreamFailed ? "No live updates: checking every few seconds" : "Reconnecting";
}

/** Does not set an unchanged text: a screen reader would read it again. */
function setText(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
