import { deselect } from "./selection.ts";
import { fetchPage } from "./view.ts";

/** Shows the confirmation for "Cancel" and "Delete", and then the result, in a dialog. */
export function listenForConfirm(): void {
  document.addEventListener("submit", (event) => {
    const { target: form, submitter } = event;
    if (!(form instanceof HTMLFormElement) || !(submitter instanceof HTMLButtonElement)) return;
    if (submitter.formMethod === "dialog" || !(form.matches("[data-ask]") || submitter.matches("[data-ask]"))) return;
    event.preventDefault();
    submitter.disabled = true;
    void sendIds(form, submitter.getAttribute("formaction") ?? form.action).finally(() => {
      submitter.disabled = false;
    });
  });
}

/** Sends the ids of a form and shows the reply. The dialog closes if all were cancelled or deleted: the list shows that by a live update. */
async function sendIds(form: HTMLFormElement, address: string): Promise<void> {
  const body = new URLSearchParams([...new FormData(form)] as [string, string][]);
  const page = await fetchPage(address, { body });
  const section = typeof page === "string" ? undefined : page.querySelector("main > section");
  const { done = "", faults } = section instanceof HTMLElement ? section.dataset : {};
  deselect(done.split(" "));
  if (done !== "" && faults === undefined) openDialog().close();
  else showDialog(section ? [...section.children] : [noAnswerText()]);
}

function showDialog(content: readonly Element[]): void {
  const dialog = openDialog();
  dialog.replaceChildren(...content);
  if (!dialog.open) dialog.showModal();
  dialog.querySelector<HTMLElement>("[autofocus]")?.focus();
}

/** The dialog of the page, which is removed when it closes. */
function openDialog(): HTMLDialogElement {
  const shown = document.querySelector<HTMLDialogElement>("#confirm");
  if (shown) return shown;
  const dialog = document.createElement("dialog");
  dialog.id = "confirm";
  dialog.setAttribute("aria-labelledby", "question");
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  return dialog;
}

function noAnswerText(): Element {
  const text = document.createElement("p");
  text.textContent =
    "The service did not respond, so this may or may not have been done. Press Escape, and check the list.";
  return text;
}
