/** Copies the text of the element that a "Copy" button names. The buttons are shown where the browser can copy. */
export function listenForCopy(): void {
  onClick("[data-copy]", async (button) => {
    const text = document.getElementById(button.dataset.copy ?? "")?.textContent ?? "";
    const word = await navigator.clipboard.writeText(text).then(
      () => "Copied",
      () => "Failed",
    );
    tell(button, word);
  });
}

/** "Send again" sends callbacks once more; their entries change when that is done. */
export function listenForSend(): void {
  onClick("[data-post]", async (button) => {
    const reply = await fetch(button.dataset.post ?? "", { method: "POST" }).catch(() => undefined);
    tell(button, reply?.ok ? "Sent again" : "Failed");
  });
}

/** A star marks a generation as one of the best, or no longer; the page changes once that is kept. */
export function listenForStar(): void {
  onClick("[data-star]", async (button) => {
    const method = button.getAttribute("aria-pressed") === "true" ? "DELETE" : "PUT";
    const reply = await fetch(button.dataset.star ?? "", { method }).catch(() => undefined);
    if (!reply?.ok) return tell(button, "Failed");
    button.setAttribute("aria-pressed", String(method === "PUT"));
    button.textContent = method === "PUT" ? "★" : "☆";
  });
}

/** Whoever signs in next in this tab is not to find what was typed and chosen. */
export function listenForSignOut(): void {
  document.addEventListener("submit", ({ target }) => {
    if (target instanceof Element && target.matches("#sign-out")) sessionStorage.clear();
  });
}

/** A choice in a form with `data-submit` takes effect at once. */
export function listenForChoice(): void {
  document.addEventListener("change", ({ target }) => {
    if (target instanceof HTMLSelectElement) target.closest<HTMLFormElement>("form[data-submit]")?.requestSubmit();
  });
}

/** "?" shows the keys, as a button too. */
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

const tellMs = 1_500;

/** Shows a word in place of a button's own for a moment. */
function tell(button: HTMLButtonElement, word: string): void {
  const own = [...button.childNodes];
  button.textContent = word;
  button.disabled = true;
  setTimeout(() => {
    button.replaceChildren(...own);
    button.disabled = false;
  }, tellMs);
}
