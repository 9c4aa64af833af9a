import { readFromTab, saveInTab } from "./tab.ts";

/** An image of the form. It is sent in `field`, or else as a source image. Only its name and field survive a reload. */
export type Image = {
  name: string;
  field?: "lastImageUrl" | "referenceUrls" | undefined;
  /** The URL to send. The form cannot be sent without it. */
  source?: string | undefined;
  /** Why the image has no source. Without a problem, the source was lost by a reload. */
  problem?: string | undefined;
  thumbnail?: HTMLElement | undefined;
};

/** The content of the form. The tab stores a copy without the bytes of the images. */
export type Draft = {
  /** The beginning of its Idempotency-Keys. */
  key: string;
  /** The id of the generation that the form repeats, or "end of <id>" for one that it continues. */
  from: string | undefined;
  values: Record<string, string>;
  images: Image[];
  /** "open" after a change, "sent" after a press of Generate, "started" once all takes were started and the draft has a new key. */
  state: "new" | "open" | "sent" | "started";
  /** Whether a start was sent with this key whose outcome is unknown. */
  mayBeStarted: boolean;
};

const draftsKey = "vidgen drafts";
const maxSaved = 20;

/**
 * Returns the saved draft to show, if any. After a reload or "back", it is the draft of this entry of the browser's history. In a form that was newly
 * opened, it is the newest draft that was not started; in one that repeats or continues a generation, the newest one that may have been started.
 * Chromium loses the state of an entry whose address changes during a reload, so the form then counts as newly opened.
 */
export function findDraft(from: string | undefined): Draft | undefined {
  const [navigation] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  const drafts = savedDrafts();
  const linkedKey = history.state?.draft;
  if (navigation?.type !== "navigate" && linkedKey !== undefined) return drafts.find(({ key }) => key === linkedKey);
  const isUnfinished = ({ state, mayBeStarted }: Draft) => (from === undefined ? state !== "started" : mayBeStarted);
  return drafts.findLast((each) => each.from === from && isUnfinished(each));
}

/** Saves a draft as the newest one, and links it to this entry of the browser's history. */
export function saveDraft(draft: Draft): void {
  const images = draft.images.map(({ name, field }) => ({ name, field }));
  const others = savedDrafts().filter(({ key }) => key !== draft.key);
  saveInTab(draftsKey, [...others, { ...draft, images }].slice(-maxSaved));
  // Browsers limit the calls of `replaceState` per second, and the draft is saved at each keystroke.
  if (history.state?.draft !== draft.key) history.replaceState({ ...history.state, draft: draft.key }, "");
}

/** Gives a draft a new key, so that its next start is a new generation, even if the content is unchanged. */
export function renewDraft(draft: Draft, state: "open" | "started"): void {
  deleteDraft(draft);
  draft.key = newKey();
  draft.state = state;
  draft.mayBeStarted = false;
  saveDraft(draft);
}

export function deleteDraft({ key }: Draft): void {
  saveInTab(
    draftsKey,
    savedDrafts().filter((each) => each.key !== key),
  );
}

function savedDrafts(): Draft[] {
  return readFromTab(draftsKey, []);
}

/** `randomUUID` exists only on localhost and over https. */
export function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * The Idempotency-Key of a take: the same whenever the same content is sent, and another one after a change. A weak hash is enough, because the
 * service refuses a second body with the same key.
 */
export function idempotencyKey({ key }: Draft, { body, take }: { body: string; take: number }): string {
  let [a, b] = [0xdeadbeef, 0x41c6ce57];
  for (let index = 0; index < body.length; index++) {
    const code = body.charCodeAt(index);
    a = Math.imul(a ^ code, 2654435761);
    b = Math.imul(b ^ code, 1597334677);
  }
  const hash = [a, b].map((part) => (part >>> 0).toString(16).padStart(8, "0")).join("");
  return `page-${key}-${hash}-${take}`;
}
