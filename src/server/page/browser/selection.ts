import { readFromTab, saveInTab } from "./tab.ts";

/** The name of the stored ids. The tab stores them, so that the selection survives searches, other pages and reloads. */
const selectionKey = "vidgen selection";

/** Keeps the selection of videos for the form below the list. */
export function listenForSelection(): void {
  document.addEventListener("change", ({ target }) => {
    if (!(target instanceof HTMLInputElement) || !target.matches(boxes)) return;
    const ids = selectedIds();
    if (target.checked) ids.add(target.value);
    else ids.delete(target.value);
    select(ids);
  });
  document.addEventListener("reset", ({ target }) => {
    if (isSelectionForm(target)) select(new Set());
  });
  // Selected videos that the page does not show are sent too.
  document.addEventListener("formdata", ({ target, formData }) => {
    if (!isSelectionForm(target)) return;
    formData.delete("id");
    for (const id of selectedIds()) formData.append("id", id);
  });
  // A visitor may have checked boxes before the script had loaded.
  const checked = [...document.querySelectorAll<HTMLInputElement>(`${boxes}:checked`)].map(({ value }) => value);
  select(new Set([...selectedIds(), ...checked]));
}

/** Removes generations from the selection. */
export function deselect(ids: readonly string[]): void {
  select(new Set([...selectedIds()].filter((id) => !ids.includes(id))));
}

/** Updates the checkboxes and the count, and disables the buttons for which too few or too many videos are selected. */
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

/** Highlights why a button is disabled whose key was pressed. */
export function explainDisabled(): void {
  const form = document.querySelector("#selection");
  form?.classList.add("refused");
  // A screen reader reads only text that changes.
  form?.querySelector("output")?.replaceChildren();
  showSelection();
}

const boxes = 'input[form="selection"]';

function isSelectionForm(target: EventTarget | null): boolean {
  // Does not use `target.id`, because a form's `id` is a checkbox with that name, if there is one.
  return target instanceof HTMLFormElement && target.matches("#selection");
}

function select(ids: ReadonlySet<string>): void {
  document.querySelector("#selection")?.classList.remove("refused");
  saveInTab(selectionKey, [...ids]);
  showSelection();
}

function selectedIds(): Set<string> {
  return new Set(readFromTab<string[]>(selectionKey, []));
}
