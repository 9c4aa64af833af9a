import { Idiomorph } from "idiomorph";
import { showTimes } from "./ages.ts";
import { showSelection } from "./selection.ts";

/** Why there is no page to show. */
export type Trouble = "signed out" | "busy" | "database" | "unreachable";

/**
 * Fetches a page of this site as a document, in which no script runs. Resolves with what is wrong when there is none, also when the signal
 * aborts.
 */
export async function fetchPage(address: string, signal: AbortSignal): Promise<Document | Trouble> {
  const reply = await fetch(address, { signal }).catch(() => undefined);
  if (reply?.status === 401) return "signed out";
  if (reply?.status === 429) return "busy";
  if (reply?.status === 503) return "database";
  // A page that says there is no such generation is an answer too.
  if (!reply?.ok && reply?.status !== 404) return "unreachable";
  const text = await reply.text().catch(() => undefined);
  return text === undefined ? "unreachable" : new DOMParser().parseFromString(text, "text/html");
}

/** Makes the page what the server has sent. Whatever is unchanged is left alone: focus, an open `<details>` and a playing video stay. */
export function showPage(next: Document): void {
  const main = document.querySelector("main");
  const nextMain = next.querySelector("main");
  if (!main || !nextMain) return;
  document.title = next.title;
  Idiomorph.morph(main, nextMain, {
    ignoreActiveValue: true,
    callbacks: {
      // Opened or closed here.
      beforeAttributeUpdated: (name) => name !== "open",
      // Typed or chosen here.
      beforeNodeMorphed: (node) => !(node instanceof HTMLElement && node.dataset.own !== undefined),
      // Added here, such as the video of a card under the pointer.
      beforeNodeRemoved: (node) => !(node instanceof HTMLElement && node.dataset.added !== undefined),
    },
  });
  showTimes();
  showSelection();
}

/** Adds the entries of a list that this page does not have yet; whatever is there stays as it is. */
export function appendPage(next: Document): void {
  const list = document.querySelector("[data-list]");
  for (const entry of [...(next.querySelector("[data-list]")?.children ?? [])])
    if (!document.getElementById(entry.id)) list?.append(entry);
  document.querySelector("#older")?.replaceWith(...next.querySelectorAll("#older"));
  showTimes();
  showSelection();
}
