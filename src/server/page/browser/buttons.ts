/** Copies the text beside a "Copy" button. */
export function listenForCopy(): void {
  onClick("[data-copy]", async (button) => {
    await navigator.clipboard.writeText(button.closest("figure")?.querySelector("pre")?.textContent ?? "");
    tell(button, "Copied");
  });
}

/** "Send again" sends a callback once more; its entry changes when that is done. */
export function listenForSend(): void {
  onClick("[data-send]", async (button) => {
    const reply = await fetch(`/callbacks/${button.dataset.send}/send`, { method: "POST" }).catch(() => undefined);
    tell(button, reply?.ok ? "Sent again" : "That failed");
  });
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
