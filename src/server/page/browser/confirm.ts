import { deselect } from "./selection.ts";
import { fetchPage } from "./view.ts";

/** "Cancel" and "Delete" show the service's question, and then what was done, in a dialog. */
export function listenForConfirm(): void {
  document.addEventListener("submit", (event) => {
    const { target: form, submitter } = event;
    if (!(form instanceof HTMLFormElement) || !(submitter instanceof HTMLButtonElement)) return;
    if (submitter.formMethod === "dialog" || !(form.matches("[data-ask]") || submitter.matches("[data-ask]"))) return;
    event.preventDefault();
    submitter.disabled = true;
    void send(form, submitter.getAttribute("formaction") ?? form.action).finally(() => {
      submitter.disabled = false;
    });
  });
}

/** Sends the ids of a form, and shows the reply. If all was done, the dialog closes: the page shows the change as a live update. */
async function send(form: HTMLFormElement, address: string): Promise<void> {
  const body = new URLSearchParams([...new FormData(form)] as [string, string][]);
  const page = await fetchPage(address, { body });
  const section = typeof page === "string" ? undefined : page.querySelector("main > section");
  const { done = "", faults } = section instanceof HTMLElement ? section.dataset : {};
  deselect(done.split(" "));
  if (done !== "" && faults === undefined) openDialog().close();
  else showDialog(section ? [...section.children] : [unanswered()]);
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

function unanswered(): Element {
  const text = document.createElement("p");
  text.textContent =
    "The service did not answer, so it is not known whether this was done. Close this with Escape, and look at the list.";
  return text;
}
