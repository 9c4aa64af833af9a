import { isTyping } from "./buttons.ts";

/** `j` goes to the next one and `k` to the previous one: from row to row of a list, which opens, or from generation to generation. */
export function listenForSteps(): void {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping()) return;
    if (document.querySelector("dialog[open]")) return;
    const step = { j: 1, k: -1 }[event.key];
    if (step === undefined) return;
    const link = document.querySelector<HTMLAnchorElement>(`.beside a[rel=${step > 0 ? "next" : "prev"}]`);
    if (link) return location.assign(link.href);
    openRow(step);
  });
}

function openRow(step: number): void {
  const rows = [...document.querySelectorAll<HTMLDetailsElement>(".rows details[name]")];
  const current = rows.findIndex((row) => row.open);
  const row = rows[current === -1 ? 0 : current + step];
  if (!row) return;
  row.open = true;
  row.querySelector("summary")?.focus();
}
