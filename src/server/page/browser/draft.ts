import { keep, kept } from "./tab.ts";

/** An image of the form. `field` is the field that it is sent in; without one, it is a source image. Only name and field survive a reload. */
export type Image = {
  name: string;
  field?: "lastImageUrl" | "referenceUrls" | undefined;
  /** The URL to send. The form cannot be sent without it. */
  source?: string | undefined;
  /** Why the image has no source. Without a problem, a reload has lost the source. */
  problem?: string | undefined;
  thumbnail?: HTMLElement | undefined;
};

/** The content of the form. The tab stores a copy without the bytes of the images. */
export type Draft = {
  /** The beginning of its Idempotency-Keys. */
  key: string;
  /** The generation, or the end of one, that the form began with. */
  from: string | undefined;
  values: Record<string, string>;
  images: Image[];
  /** "open" after a change, "sent" after a press of Generate, "started" once all takes were started and the draft has a new key. */
  state: "new" | "open" | "sent" | "started";
  /** A start was sent with this key, and it is not known to be started or refused. */
  mayBeStarted: boolean;
};

const draftsKey = "vidgen drafts";
const maxKept = 20;

/**
 * Returns the draft to show, if there is one. After a reload or "back", it is the draft of this entry of the browser's history. Otherwise, it is the newest
 * draft that was not started; for a form that begins with a generation, the newest draft that may have been started. Chromium loses the state of an
 * entry whose address changes during a reload, so the form then counts as newly opened.
 */
export function findDraft(from: string | undefined): Draft | undefined {
  const [navigation] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  const drafts = keptDrafts();
  const own = history.state?.draft;
  if (navigation?.type !== "navigate" && own !== undefined) return drafts.find(({ key }) => key === own);
  const isLeft = ({ state, mayBeStarted }: Draft) => (from === undefined ? state !== "started" : mayBeStarted);
  return drafts.findLast((each) => each.from === from && isLeft(each));
}

/** Stores a draft as the newest one, and links it to this entry of the browser's history. */
export function keepDraft(draft: Draft): void {
  const images = draft.images.map(({ name, field }) => ({ name, field }));
  const others = keptDrafts().filter(({ key }) => key !== draft.key);
  keep(draftsKey, [...others, { ...draft, images }].slice(-maxKept));
  // Browsers limit these calls per second, and the draft is stored at each keystroke.
  if (history.state?.draft !== draft.key) history.replaceState({ ...history.state, draft: draft.key }, "");
}

/** Gives a draft a new key: its next start is charged, even if its content is unchanged. */
export function renewDraft(draft: Draft, state: "open" | "started"): void {
  dropDraft(draft);
  draft.key = newKey();
  draft.state = state;
  draft.mayBeStarted = false;
  keepDraft(draft);
}

export function dropDraft({ key }: Draft): void {
  keep(
    draftsKey,
    keptDrafts().filter((each) => each.key !== key),
  );
}

function keptDrafts(): Draft[] {
  return kept(draftsKey, []);
}

/** `randomUUID` exists only on localhost and over https. */
export function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * The Idempotency-Key of a take: the same each time the same content is sent, and another one after a change. The hash need not be strong, because the
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
