import type { Fault } from "./start.ts";

/** Shows a fault below its field, and focuses the field; without a field, below the form. A field that the form lacks is shown at "Others". */
export function showFault(form: HTMLFormElement, { field, text }: Fault): void {
  clearFaults(form);
  const name = field?.replace(/^imageUrl$/, "imageUrls");
  const control = name === undefined ? undefined : (controlOf(form, name) ?? controlOf(form, "extras"));
  if (!control) showError(text);
  else markInvalid(control, text);
}

function markInvalid(control: Control, text: string): void {
  const line = document.createElement("p");
  Object.assign(line, { id: "fault", className: "fault", textContent: withLabel(control, text) });
  control.closest(".field")?.append(line);
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-describedby", line.id);
  openDetailsOf(control);
  control.focus();
}

/** Replaces the API's name of the field at the beginning of a text with the label. */
function withLabel({ name, labels }: Control, text: string): string {
  const label = labels?.[0]?.firstChild?.textContent?.trim();
  return label !== undefined && text.startsWith(`${name} `) ? label + text.slice(name.length) : text;
}

export function clearFaults(form: HTMLFormElement): void {
  showError(undefined);
  for (const line of form.querySelectorAll(".fault")) line.remove();
  for (const control of form.querySelectorAll("[aria-invalid]")) {
    control.removeAttribute("aria-invalid");
    control.removeAttribute("aria-describedby");
  }
}

/** Shows an error below the form; `undefined` hides it. */
export function showError(text: string | undefined): void {
  const element = document.querySelector<HTMLElement>("#form-error");
  if (!element) return;
  element.hidden = text === undefined;
  element.textContent = text ?? "";
}

/** Shows a result, which a screen reader announces. */
export function showStatus(text: string): void {
  const element = document.querySelector("#form-status");
  if (element) element.textContent = text;
}

/** Opens the `<details>` around a field: the browser does not send a form with an invalid field, and cannot say why if the field is hidden. */
export function openDetailsOf(control: Element): void {
  const details = control.closest("details");
  if (details) details.open = true;
}

type Control = HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement;

function controlOf(form: HTMLFormElement, name: string): Control | undefined {
  const [own, images] = [`[name=${CSS.escape(name)}]`, `[data-field=${CSS.escape(name)}]`];
  return form.querySelector<Control>(`${own}, ${images}`) ?? undefined;
}
