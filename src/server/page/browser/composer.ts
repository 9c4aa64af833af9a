import { readUsdPrice } from "../../../protocol/price.ts";
import { priceText, usdText } from "../formatting.ts";
import { type Draft, deleteDraft, findDraft, idempotencyKey, newKey, renewDraft, saveDraft } from "./draft.ts";
import { clearFaults, openDetailsOf, showError, showFault, showStatus } from "./faults.ts";
import {
  earlierImages,
  lastFrameImages,
  lastFrameOf,
  listenForImages,
  loadInitialImages,
  showImages,
} from "./images.ts";
import { awaitEnd, listenForNotify } from "./notify.ts";
import { listenForOffers, showOffers } from "./offers.ts";
import { bodiesOf, type PostedStart, postStart } from "./start.ts";
import { addStarted, showStarted } from "./started.ts";

/** Runs the form for new generations. A request that is sent twice is charged once. */
export function listenForComposer(): void {
  const form = document.querySelector<HTMLFormElement>("#composer");
  if (!form) return;
  const draft = openDraft(form);
  const change = () => {
    draft.values = valuesOf(form);
    draft.state = "open";
    saveDraft(draft);
    showChoice(form, draft);
    showStatus("");
  };
  form.addEventListener("input", () => {
    clearFaults(form);
    change();
  });
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    if (isSending || (draft.mayBeStarted && !confirm(unclear.clear))) return;
    deleteDraft(draft);
    location.assign(location.pathname + location.search);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void sendForm(form, draft);
  });
  form.addEventListener("invalid", ({ target }) => target instanceof Element && openDetailsOf(target), true);
  listenForImages(form, {
    draft,
    onChange() {
      clearFaults(form);
      change();
    },
    onFault: (text) => showFault(form, { field: "imageUrls", text }),
  });
  listenForOffers(form);
  // live.ts dispatches it when the page is connected to the service again.
  document.addEventListener("live", () => {
    if (draft.state === "sent" && !isSending) showError(unclear.after);
  });
  listenForNotify();
  showStarted();
  const button = submitButton(form);
  // Generate has the focus, and the Enter that opened the form may be held, or be pressed twice.
  if (button?.autofocus) pauseButton(button);
}

/** Shows an earlier draft in the form, or a new one. */
function openDraft(form: HTMLFormElement): Draft {
  const { from: earlier, continued } = form.dataset;
  // The drafts of another take and of a continuation of one generation have different names.
  const from = continued === undefined ? earlier : `end of ${continued}`;
  const saved = findDraft(from);
  const draft =
    saved ??
    ({ key: newKey(), from, values: valuesOf(form), images: [], state: "new", mayBeStarted: false } satisfies Draft);
  if (saved) showValues(form, saved);
  showChoice(form, draft);
  void addInitialImages(form, draft);
  return draft;
}

function valuesOf(form: HTMLFormElement): Draft["values"] {
  return Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));
}

function showValues(form: HTMLFormElement, { values }: Draft): void {
  for (const [name, value] of Object.entries(values)) {
    const field = form.elements.namedItem(name);
    if (field === null || !("value" in field)) continue;
    field.value = value;
    if (value !== "" && field instanceof Element) openDetailsOf(field);
  }
}

/**
 * Adds the images of the generation that the form repeats or continues. Each must be loaded or removed before the form can be sent: without them, the
 * request would be a different one.
 */
async function addInitialImages(form: HTMLFormElement, draft: Draft): Promise<void> {
  const { from, continued, images } = form.dataset;
  if (continued !== undefined) await loadInitialImages(form, draft, lastFrameImages(continued));
  else if (from !== undefined && images !== undefined) await loadInitialImages(form, draft, earlierImages(from));
  showImages(form, draft);
}

const unanswered = "No usable response arrived, so the generation may have been started.";

const unclear = {
  before: `${unanswered} Press Generate again: the same request is not charged twice.`,
  after:
    "The service responds. The generation may have been started: press Generate again, and the same request is not charged twice.",
  changed: `${unanswered} The form has changed since then: Generate starts what it contains now, which is charged too.`,
  clear: "The generation may have been started. Clear the form anyway? The same request would then be charged again.",
};

let isSending = false;

/** Starts each take of the form once. The form keeps its values for the next start. */
async function sendForm(form: HTMLFormElement, draft: Draft): Promise<void> {
  const button = submitButton(form);
  if (!button || isSending) return;
  if (button.ariaDisabled === "true") return pauseButton(button);
  clearFaults(form);
  const request = bodiesOf(draft, Number(chosenModel(form)?.dataset.images));
  if ("fault" in request) return showFault(form, request.fault);
  const { bodies } = request;
  const wasUnclear = draft.mayBeStarted;
  Object.assign(draft, { state: "sent", mayBeStarted: true });
  saveDraft(draft);
  isSending = true;
  showStatus("");
  button.ariaDisabled = "true";
  const outcomes = await startAll(draft, bodies).finally(() => {
    isSending = false;
    pauseButton(button);
  });
  showOutcomes(form, draft, { outcomes, count: bodies.length, wasUnclear });
}

/** Shows what was started. The draft gets a new key once all takes are started, and keeps its key until then. */
function showOutcomes(
  form: HTMLFormElement,
  draft: Draft,
  { outcomes, count, wasUnclear }: { outcomes: readonly PostedStart[]; count: number; wasUnclear: boolean },
): void {
  const started = outcomes.filter((outcome) => outcome.kind === "started");
  const startedText = started.length === 0 ? "" : `${started.length} of ${count} were started. `;
  const last = outcomes.at(-1);
  // The form may have changed in the meantime.
  const isChanged = draft.state !== "sent";
  if (last?.kind === "unclear") {
    showError(startedText + (isChanged ? unclear.changed : unclear.before));
  } else if (last?.kind === "refused") {
    Object.assign(draft, { state: "open", mayBeStarted: wasUnclear || started.length > 0 });
    saveDraft(draft);
    const { field, text } = last.fault;
    const nothingText = wasUnclear ? "Nothing more was started." : "Nothing was started.";
    showFault(form, { field, text: `${text} ${startedText || nothingText}` });
  } else {
    renewDraft(draft, isChanged ? "open" : "started");
    const wasStartedBefore = !wasUnclear && started.every((outcome) => outcome.isKnown);
    showStatus(
      wasStartedBefore
        ? alreadyStarted
        : `${started.length === 1 ? "Started" : `${started.length} takes were started`}.`,
    );
  }
}

const alreadyStarted =
  "This was already started, and nothing was charged now. Press Generate again to start another take.";

/** Starts the takes one after the other, and stops at the first one that is not started. */
async function startAll(draft: Draft, bodies: readonly object[]): Promise<PostedStart[]> {
  const outcomes: PostedStart[] = [];
  const frame = lastFrameOf(draft);
  for (const [index, each] of bodies.entries()) {
    const body = JSON.stringify(each);
    // The key does not depend on the last frame: some browsers add noise to a canvas, so after a reload the frame has other bytes.
    const stable = frame === undefined ? body : body.replace(frame, "");
    const outcome = await postStart(body, idempotencyKey(draft, { body: stable, take: index + 1 }));
    outcomes.push(outcome);
    if (outcome.kind !== "started") break;
    if (outcome.id === undefined) continue;
    addStarted(outcome.id);
    awaitEnd(outcome.id);
  }
  return outcomes;
}

const pauseMs = 1_000;
let pauseTimer: ReturnType<typeof setTimeout> | undefined;

/** Disables the button until it has not been pressed for a second, so that a double click or a held key starts nothing more. */
function pauseButton(button: HTMLButtonElement): void {
  clearTimeout(pauseTimer);
  button.ariaDisabled = "true";
  pauseTimer = setTimeout(() => {
    button.ariaDisabled = null;
  }, pauseMs);
}

function submitButton(form: HTMLFormElement): HTMLButtonElement | undefined {
  return form.querySelector<HTMLButtonElement>("button[type=submit]") ?? undefined;
}

function chosenModel(form: HTMLFormElement): HTMLOptionElement | undefined {
  return form.querySelector<HTMLSelectElement>("[name=model]")?.selectedOptions[0];
}

/** Updates the buttons that suggest values, such as lengths, and the price, for the chosen model and number of takes. */
function showChoice(form: HTMLFormElement, draft: Draft): void {
  const model = chosenModel(form);
  showOffers(form, model);
  const takes = Number(new FormData(form).get("takes"));
  const price = priceText(Number(model?.dataset.credits) * takes);
  const action = takes === 1 ? "Generate" : `Generate ${takes}`;
  const button = submitButton(form);
  const parts = [action, price, providerText(model, draft)];
  if (button) button.textContent = parts.filter((part) => part !== undefined).join(", ");
}

/** What the provider charges for all takes; `undefined` if its list does not say. */
function providerText(model: HTMLOptionElement | undefined, draft: Draft): string | undefined {
  const built = bodiesOf(draft, Number.POSITIVE_INFINITY);
  const [body] = "bodies" in built ? built.bodies : [];
  const price = body && readUsdPrice(JSON.parse(model?.dataset.usdPrices ?? "[]"), { ...body });
  if (price === undefined || !("bodies" in built)) return undefined;
  return `about ${usdText(price.amount * built.bodies.length)} by ${price.source}'s list`;
}
