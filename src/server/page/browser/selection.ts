import { keep, kept } from "./tab.ts";

/** The tab stores the selected ids, so that the selection survives searches, pages and reloads. */
const selectionKey = "vidgen selection";

/** Checkboxes select videos for the buttons of the form below the list. */
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
  // Selected videos that the page does not show are sent too.
  document.addEventListener("formdata", ({ target, formData }) => {
    if (!isForm(target)) return;
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

/** Updates the checkboxes and the count, and disables buttons that take fewer or more videos. */
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

/** Highlights why a button is disabled, after its key was pressed. */
export function explainDisabled(): void {
  const form = document.querySelector("#selection");
  form?.classList.add("refused");
  // A screen reader reads only text that changes.
  form?.querySelector("output")?.replaceChildren();
  showSelection();
}

const boxes = 'input[form="selection"]';

function isForm(target: EventTarget | null): boolean {
  // Not `target.id`, which is the checkboxes with the name "id".
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
