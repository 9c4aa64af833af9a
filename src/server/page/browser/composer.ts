import { countText } from "../formatting.ts";
import { type Draft, dropDraft, findDraft, idempotencyKey, keepDraft, newKey } from "./draft.ts";
import { clearFaults, openAround, showFault, tell } from "./faults.ts";
import { listenForImages, loadImages, loadLastFrame, showImages } from "./images.ts";
import { awaitEnd, listenForNotify } from "./notify.ts";
import { bodyOf, postStart } from "./start.ts";

/** Runs the form for a new generation: nothing that is sent from it twice is paid twice. */
export function listenForComposer(): void {
  const form = document.querySelector<HTMLFormElement>("#composer");
  if (!form) return;
  const draft = openDraft(form);
  const change = () => {
    draft.values = valuesOf(form);
    draft.state = "open";
    keepDraft(draft);
    showCost(form);
    document.querySelector<HTMLElement>("#known")?.toggleAttribute("hidden", true);
  };
  form.addEventListener("input", () => {
    clearFaults(form);
    change();
  });
  form.addEventListener("reset", () => {
    dropDraft(draft);
    location.assign(location.pathname + location.search);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void send(form, draft);
  });
  form.addEventListener("invalid", ({ target }) => target instanceof Element && openAround(target), true);
  listenForImages(form, {
    draft,
    onChange() {
      clearFaults(form);
      change();
    },
    onFault: (text) => showFault(form, { field: "imageUrls", text }),
  });
  document.querySelector("#again")?.addEventListener("click", () => void send(form, draft, { isAnotherTake: true }));
  document.addEventListener("live", () => {
    if (draft.state === "unclear") tell(unclear.after);
  });
  listenForNotify();
}

/** The draft that the form shows from now on: one of before, or a new one. */
function openDraft(form: HTMLFormElement): Draft {
  const { from } = form.dataset;
  const kept = findDraft(from);
  const draft = kept ?? ({ key: newKey(), from, values: valuesOf(form), images: [], state: "new" } satisfies Draft);
  if (kept) showValues(form, kept);
  if (from !== undefined) void addImagesOf(form, draft, from);
  showCost(form);
  showImages(form, draft);
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
    if (value !== "" && field instanceof Element) openAround(field);
  }
}

/** Without its images, the same prompt would be another video: nothing is sent until they are there. */
async function addImagesOf(form: HTMLFormElement, draft: Draft, id: string): Promise<void> {
  const { images } = form.dataset;
  if (images === undefined) return;
  const button = submitButton(form);
  if (button) button.disabled = true;
  if (images === "last frame") await loadLastFrame(form, draft, id);
  else if (!(await loadImages(draft, id)))
    tell("The images of the earlier generation could not be loaded. Reload the page, or continue without them.");
  if (button) button.disabled = false;
  showImages(form, draft);
}

const unclear = {
  before:
    "No response came, so the generation may have been started. Press Generate again: the same request is not charged twice.",
  after:
    "The service responds again. The generation may have been started: press Generate again, and the same request is not charged twice.",
};

/** With `isAnotherTake`, the same is started once more: under another key. */
async function send(form: HTMLFormElement, draft: Draft, { isAnotherTake = false } = {}): Promise<void> {
  const button = submitButton(form);
  if (!button || button.disabled) return;
  if (isAnotherTake) draft.key = newKey();
  clearFaults(form);
  const made = bodyOf(draft, Number(chosenModel(form)?.dataset.images));
  if ("fault" in made) return showFault(form, made.fault);
  const body = JSON.stringify(made.body);
  const wasUnclear = draft.state === "unclear";
  draft.state = "unclear";
  keepDraft(draft);
  button.disabled = true;
  const outcome = await postStart(body, idempotencyKey(draft, body));
  button.disabled = false;
  if (outcome.kind === "unclear") return tell(unclear.before);
  if (outcome.kind === "refused") {
    draft.state = wasUnclear ? "unclear" : "open";
    keepDraft(draft);
    return showFault(form, outcome.fault);
  }
  draft.state = "started";
  keepDraft(draft);
  const address = `/generations/${outcome.id}`;
  if (outcome.isKnown && !wasUnclear) return tellKnown(address);
  awaitEnd(outcome.id);
  location.assign(address);
}

/** The same was started from here before: another one is started only if that is meant. */
function tellKnown(address: string): void {
  const place = document.querySelector<HTMLElement>("#known");
  const link = place?.querySelector("a");
  if (!place || !link) return;
  link.href = address;
  place.hidden = false;
  place.scrollIntoView({ block: "nearest" });
}

function submitButton(form: HTMLFormElement): HTMLButtonElement | undefined {
  return form.querySelector<HTMLButtonElement>("button[type=submit]") ?? undefined;
}

function chosenModel(form: HTMLFormElement): HTMLOptionElement | undefined {
  return form.querySelector<HTMLSelectElement>("[name=model]")?.selectedOptions[0];
}

function showCost(form: HTMLFormElement): void {
  const output = form.querySelector("#cost");
  if (output) output.textContent = `It costs ${countText(Number(chosenModel(form)?.dataset.credits))}`;
}
