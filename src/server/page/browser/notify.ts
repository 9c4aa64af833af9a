import { readFromTab, saveInTab } from "./tab.ts";
import { fetchPage } from "./view.ts";

/** The name of the stored ids of the generations for which this tab shows a notification when they end. */
const awaitedKey = "vidgen awaited";

/** Shows the checkbox for notifications if the browser supports them: it does so only on localhost and over https. */
export function listenForNotify(): void {
  const box = document.querySelector<HTMLInputElement>("#notify");
  const label = box?.closest("label");
  if (!box || !label || !("Notification" in globalThis) || Notification.permission === "denied") return;
  label.hidden = false;
  box.checked = Notification.permission === "granted";
  box.addEventListener("change", async () => {
    if (box.checked) box.checked = (await Notification.requestPermission()) === "granted";
  });
}

/** Makes this tab show a notification when a generation ends, if the user wants that. */
export function awaitEnd(id: string): void {
  const isWanted = document.querySelector<HTMLInputElement>("#notify")?.checked;
  if (isWanted) saveAwaited([...awaitedIds(), id]);
}

/** Whether this tab waits for an end to show a notification, so that a hidden page must stay connected. */
export function isAwaiting(): boolean {
  return awaitedIds().length > 0;
}

/** Shows notifications for awaited generations that have ended: for all, or only for the one whose state has changed. */
export async function notifyOfEnds(changed?: string): Promise<void> {
  for (const id of awaitedIds().filter((each) => changed === undefined || each === changed)) {
    const page = await fetchPage(`/generations/${id}`, { signal: AbortSignal.timeout(10_000) });
    const article = typeof page === "string" ? undefined : page.querySelector<HTMLElement>("[data-generation]");
    const state = article?.dataset.state;
    if ((state !== "completed" && state !== "failed") || !awaitedIds().includes(id)) continue;
    saveAwaited(awaitedIds().filter((each) => each !== id));
    showNotification(id, state, article?.querySelector("#heading")?.textContent ?? "");
  }
}

function showNotification(id: string, state: "completed" | "failed", prompt: string): void {
  const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]")?.href ?? "";
  const title = state === "completed" ? "The video is ready" : "The generation failed";
  const notification = new Notification(title, { body: prompt.slice(0, 200), tag: id, icon });
  notification.onclick = () => {
    focus();
    location.assign(`/generations/${id}`);
  };
}

function awaitedIds(): string[] {
  return readFromTab(awaitedKey, []);
}

function saveAwaited(ids: readonly string[]): void {
  saveInTab(awaitedKey, ids);
}
