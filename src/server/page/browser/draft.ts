/** An image, in the field of an earlier request or else to start from. After a reload, only its name and its field are left. */
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
  /** "unclear" from the moment when it is sent until readable replies came for all of its takes; "open" after a change. */
  state: "new" | "open" | "unclear" | "started";
};

const draftsKey = "vidgen drafts";
const maxKept = 20;

/**
 * Returns the draft to show: after a reload, and after "back", the one of this entry of the browser's history; when the form is opened otherwise, the
 * newest one that has not been started, and of a form that begins with a generation only one that may have been. `undefined` where there is none.
 */
export function findDraft(from: string | undefined): Draft | undefined {
  const [navigation] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  const drafts = keptDrafts();
  if (navigation?.type !== "navigate") return drafts.find(({ key }) => key === history.state?.draft);
  const isLeft = ({ state }: Draft) => (from === undefined ? state !== "started" : state === "unclear");
  return drafts.findLast((each) => each.from === from && isLeft(each));
}

/** Stores a draft as the newest one, and as the one of this entry of the browser's history. */
export function keepDraft(draft: Draft): void {
  const images = draft.images.map(({ name, field }) => ({ name, field }));
  const others = keptDrafts().filter(({ key }) => key !== draft.key);
  sessionStorage.setItem(draftsKey, JSON.stringify([...others, { ...draft, images }].slice(-maxKept)));
  history.replaceState({ ...history.state, draft: draft.key }, "");
}

/** What a draft starts from now on is something else than what it has started, also with the same content. */
export function renewDraft(draft: Draft, state: "open" | "started"): void {
  dropDraft(draft);
  draft.key = newKey();
  draft.state = state;
  keepDraft(draft);
}

export function dropDraft({ key }: Draft): void {
  sessionStorage.setItem(draftsKey, JSON.stringify(keptDrafts().filter((each) => each.key !== key)));
}

function keptDrafts(): Draft[] {
  return JSON.parse(sessionStorage.getItem(draftsKey) ?? "[]");
}

/** `randomUUID` is there on this machine and with https alone. */
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
