import type { Fault } from "./start.ts";

/**
 * Says what is wrong: under the field that it is about, which is marked and gets the focus, in the words of the form; else under all fields. A field of
 * the interface that the form has no field for is one of the others.
 */
export function showFault(form: HTMLFormElement, { field, text }: Fault): void {
  clearFaults(form);
  const name = field?.replace(/^imageUrl$/, "imageUrls");
  const control = name === undefined ? undefined : (controlOf(form, name) ?? controlOf(form, "extras"));
  if (!control) tell(text);
  else mark(control, text);
}

function mark(control: Control, text: string): void {
  const line = document.createElement("p");
  Object.assign(line, { id: "fault", className: "fault", textContent: inWordsOf(control, text) });
  control.closest(".field")?.append(line);
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-describedby", line.id);
  openAround(control);
  control.focus();
}

/** The service calls a field by its name in the interface. */
function inWordsOf({ name, labels }: Control, text: string): string {
  const label = labels?.[0]?.firstChild?.textContent?.trim();
  return label !== undefined && text.startsWith(`${name} `) ? label + text.slice(name.length) : text;
}

export function clearFaults(form: HTMLFormElement): void {
  tell(undefined);
  for (const line of form.querySelectorAll(".fault")) line.remove();
  for (const control of form.querySelectorAll("[aria-invalid]")) {
    control.removeAttribute("aria-invalid");
    control.removeAttribute("aria-describedby");
  }
}

/** A message under all fields. */
export function tell(text: string | undefined): void {
  const place = document.querySelector<HTMLElement>("#form-error");
  if (!place) return;
  place.hidden = text === undefined;
  place.textContent = text ?? "";
}

/** What was done, for those who do not see it too. */
export function say(text: string): void {
  const place = document.querySelector("#form-status");
  if (place) place.textContent = text;
}

/** Shows a field that is within closed `<details>`: the browser would refuse to send the form, and could not say why. */
export function openAround(control: Element): void {
  const details = control.closest("details");
  if (details) details.open = true;
}

type Control = HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement;

function controlOf(form: HTMLFormElement, name: string): Control | undefined {
  const [own, images] = [`[name=${CSS.escape(name)}]`, `[data-field=${CSS.escape(name)}]`];
  return form.querySelector<Control>(`${own}, ${images}`) ?? undefined;
}
