import { keep, kept } from "./tab.ts";

/** The ids of what is chosen. The tab keeps them, so that they stay chosen through searches, pages and reloads. */
const selectionKey = "vidgen selection";

/** Videos are chosen by their checkboxes, for what the form below the list does with them. */
export function listenForSelection(): void {
  document.addEventListener("change", ({ target }) => {
    if (!(target instanceof HTMLInputElement) || !target.matches(boxes)) return;
    const ids = selectedIds();
    if (target.checked) ids.add(target.value);
    else ids.delete(target.value);
    select(ids);
  });
  document.addEventListener("reset", ({ target }) => {
    if (isForm(target)) select(new Set());
  });
  // Those that are not shown now are sent too.
  document.addEventListener("formdata", ({ target, formData }) => {
    if (!isForm(target)) return;
    formData.delete("id");
    for (const id of selectedIds()) formData.append("id", id);
  });
  showSelection();
}

/** Checks the boxes of what is chosen, and says how many they are; a button for fewer or more of them is not offered. */
export function showSelection(): void {
  const form = document.querySelector<HTMLFormElement>("#selection");
  if (!form) return;
  const ids = selectedIds();
  for (const box of document.querySelectorAll<HTMLInputElement>(boxes)) box.checked = ids.has(box.value);
  form.classList.toggle("some", ids.size > 0);
  let text = `${ids.size} selected`;
  for (const button of form.querySelectorAll<HTMLButtonElement>("[data-max]")) {
    const { min, max } = button.dataset;
    button.disabled = ids.size < Number(min) || ids.size > Number(max);
    if (button.disabled) text += `. ${button.textContent} takes ${min} to ${max}`;
  }
  const output = form.querySelector("output");
  if (output && output.textContent !== text) output.textContent = text;
}

/** Makes noticeable what `showSelection` says of the buttons: one that is not offered was asked for. */
export function sayWhyNot(): void {
  const form = document.querySelector("#selection");
  form?.classList.add("refused");
  // A screen reader reads what is new.
  form?.querySelector("output")?.replaceChildren();
  showSelection();
}

const boxes = 'input[form="selection"]';

function isForm(target: EventTarget | null): boolean {
  // Its `id` is the checkboxes of that name.
  return target instanceof HTMLFormElement && target.matches("#selection");
}

function select(ids: ReadonlySet<string>): void {
  document.querySelector("#selection")?.classList.remove("refused");
  keep(selectionKey, [...ids]);
  showSelection();
}

function selectedIds(): Set<string> {
  return new Set(kept<string[]>(selectionKey, []));
}
