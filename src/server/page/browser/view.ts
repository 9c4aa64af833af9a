import { Idiomorph } from "idiomorph";
import { pageHeader } from "../headers.ts";
import { showTimes } from "./ages.ts";
import { showSelection } from "./selection.ts";

/** Why a page could not be fetched; "unreachable" also if anything but the page answers, such as a proxy. */
export type FetchFailure = "signed out" | "busy" | "database" | "unreachable";

/**
 * Fetches a page of this site as a document, in which no script runs; with a `body`, by POST. Never rejects: if the fetch fails or is aborted,
 * resolves with the reason.
 */
export async function fetchPage(
  address: string,
  init: { signal?: AbortSignal; body?: URLSearchParams },
): Promise<Document | FetchFailure> {
  const reply = await fetch(address, { ...init, method: init.body ? "POST" : "GET" }).catch(() => undefined);
  if (reply?.status === 429) return "busy";
  if (!reply?.headers.has(pageHeader)) return "unreachable";
  if (reply.status === 401) return "signed out";
  if (reply.status === 503) return "database";
  // The page of a missing generation has the status 404.
  if (!reply.ok && reply.status !== 404) return "unreachable";
  const text = await reply.text().catch(() => undefined);
  return text === undefined ? "unreachable" : new DOMParser().parseFromString(text, "text/html");
}

/** Changes the page into a fetched one. Unchanged elements are kept, and with them the focus, an open `<details>` and a playing video. */
export function showPage(next: Document): void {
  const main = document.querySelector("main");
  const nextMain = next.querySelector("main");
  if (!main || !nextMain) return;
  document.title = next.title;
  Idiomorph.morph(main, nextMain, {
    ignoreActiveValue: true,
    callbacks: {
      // The user opens and closes `<details>`.
      beforeAttributeUpdated: (name) => name !== "open",
      // The user types and selects here.
      beforeNodeMorphed: (node) => !(node instanceof HTMLElement && node.dataset.own !== undefined),
      // The script added it to a card that has a video: the video that plays under the pointer, or the copy behind it.
      beforeNodeRemoved: (node) =>
        !(node instanceof HTMLElement && node.dataset.added !== undefined && node.closest("[data-video]")),
    },
  });
  showTimes();
  showSelection();
}

/** Adds the entries of a fetched list that the page does not have. */
export function appendEntries(next: Document): void {
  const list = document.querySelector("[data-list]");
  for (const entry of [...(next.querySelector("[data-list]")?.children ?? [])])
    if (!document.getElementById(entry.id)) list?.append(entry);
  document.querySelector("#older")?.replaceWith(...next.querySelectorAll("#older"));
  showTimes();
  showSelection();
}
