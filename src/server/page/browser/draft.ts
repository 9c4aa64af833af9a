import { keep, kept } from "./tab.ts";

/** An image of the form. `field` is where it is sent; without one it is a source image. After a reload, only its name and its field are left. */
export type Image = {
  name: string;
  field?: "lastImageUrl" | "referenceUrls" | undefined;
  /** Its address, as it is sent; without it, nothing is sent. */
  source?: string | undefined;
  /** Why it has no source, if that is not because of a reload. */
  trouble?: string | undefined;
  thumbnail?: HTMLElement | undefined;
};

/** All that the form holds. Its fields show it, and the tab's storage has a copy without the bytes of the images. */
export type Draft = {
  /** What its Idempotency-Keys begin with. */
  key: string;
  /** What the form began with: a generation, or the end of one. */
  from: string | undefined;
  values: Record<string, string>;
  images: Image[];
  /** "open" after a change, "sent" after a press of Generate, "started" once all takes were started and the draft has a new key. */
  state: "new" | "open" | "sent" | "started";
  /** Something was sent with its key, and not all of it is known to be started, or refused. */
  mayBeStarted: boolean;
};

const draftsKey = "vidgen drafts";
const maxKept = 20;

/**
 * Returns the draft to show: after a reload, and after "back", the one of this entry of the browser's history; when the form is opened otherwise, the
 * newest one that has not been started, and of a form that begins with a generation only one that may have been. `undefined` where there is none.
 * Chromium loses the state of an entry whose address changes while it is being reloaded: then the form counts as opened.
 */
export function findDraft(from: string | undefined): Draft | undefined {
  const [navigation] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  const drafts = keptDrafts();
  const own = history.state?.draft;
  if (navigation?.type !== "navigate" && own !== undefined) return drafts.find(({ key }) => key === own);
  const isLeft = ({ state, mayBeStarted }: Draft) => (from === undefined ? state !== "started" : mayBeStarted);
  return drafts.findLast((each) => each.from === from && isLeft(each));
}

/** Stores a draft as the newest one, and as the one of this entry of the browser's history. */
export function keepDraft(draft: Draft): void {
  const images = draft.images.map(({ name, field }) => ({ name, field }));
  const others = keptDrafts().filter(({ key }) => key !== draft.key);
  keep(draftsKey, [...others, { ...draft, images }].slice(-maxKept));
  // Browsers allow a limited number of these per second, and a form that is typed into keeps its draft at each letter.
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
 * The Idempotency-Key of a draft's body, of which several takes are started: the same for the same content, however often it is sent, and another one
 * once something was changed. The service refuses two bodies with one key, so that the hash need not be a strong one.
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
