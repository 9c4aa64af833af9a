/** "Copy" copies the text of the element that the button names. */
export function listenForCopy(): void {
  onClick("[data-copy]", async (button) => {
    const text = document.getElementById(button.dataset.copy ?? "")?.textContent ?? "";
    const word = await navigator.clipboard.writeText(text).then(
      () => "Copied",
      () => "Failed",
    );
    showResult(button, word);
  });
}

/** "Send again" sends callbacks again. Their new attempts appear by a live update. */
export function listenForSend(): void {
  onClick("[data-post]", async (button) => {
    const reply = await fetch(button.dataset.post ?? "", { method: "POST" }).catch(() => undefined);
    showResult(button, reply?.ok ? "Sent again" : "Failed");
  });
}

/** Adds or removes a star. The button changes once the service has stored it. */
export function listenForStar(): void {
  onClick("[data-star]", async (button) => {
    const method = button.getAttribute("aria-pressed") === "true" ? "DELETE" : "PUT";
    const reply = await fetch(button.dataset.star ?? "", { method }).catch(() => undefined);
    if (!reply?.ok) return showResult(button, "Failed");
    button.setAttribute("aria-pressed", String(method === "PUT"));
  });
}

/** Clears the tab's storage at sign-out: the next user of the tab must not see drafts and selections. */
export function listenForSignOut(): void {
  document.addEventListener("submit", ({ target }) => {
    if (target instanceof Element && target.matches("#sign-out")) sessionStorage.clear();
  });
}

/** Sends a form with `data-submit` when one of its `<select>` changes. */
export function listenForChoice(): void {
  document.addEventListener("change", ({ target }) => {
    if (target instanceof HTMLSelectElement) target.closest<HTMLFormElement>("form[data-submit]")?.requestSubmit();
  });
}

/** The "?" button shows the keyboard shortcuts. */
export function listenForHelp(): void {
  onClick("[data-keys]", async () => showHelp());
}

export function showHelp(): void {
  document.querySelector<HTMLDialogElement>("#keys:not([open])")?.showModal();
}

function onClick(selector: string, run: (button: HTMLButtonElement) => Promise<void>): void {
  document.addEventListener("click", ({ target }) => {
    const button = target instanceof Element ? target.closest<HTMLButtonElement>(selector) : null;
    if (button) void run(button);
  });
}

const resultMs = 1_500;

/** Briefly shows a result as the text of a button. */
function showResult(button: HTMLButtonElement, word: string): void {
  const content = [...button.childNodes];
  button.textContent = word;
  button.disabled = true;
  setTimeout(() => {
    button.replaceChildren(...content);
    button.disabled = false;
  }, resultMs);
}
