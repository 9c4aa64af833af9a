import { keep, kept } from "./tab.ts";
import { fetchPage } from "./view.ts";

/** The ids of the generations that this tab must notify of. */
const awaitedKey = "vidgen awaited";

/** Shows the checkbox if the browser supports notifications: only on localhost and over https. */
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

export function awaitEnd(id: string): void {
  const isWanted = document.querySelector<HTMLInputElement>("#notify")?.checked;
  if (isWanted) save([...awaited(), id]);
}

/** Whether a generation is awaited, so that a hidden page must stay connected. */
export function isAwaiting(): boolean {
  return awaited().length > 0;
}

/** Notifies of ended generations that were started in this tab: all, or the one whose state has changed. */
export async function notifyOfEnds(changed?: string): Promise<void> {
  for (const id of awaited().filter((each) => changed === undefined || each === changed)) {
    const page = await fetchPage(`/generations/${id}`, { signal: AbortSignal.timeout(10_000) });
    const article = typeof page === "string" ? undefined : page.querySelector<HTMLElement>("[data-generation]");
    const state = article?.dataset.state;
    if ((state !== "completed" && state !== "failed") || !awaited().includes(id)) continue;
    save(awaited().filter((each) => each !== id));
    show(id, state, article?.querySelector("#heading")?.textContent ?? "");
  }
}

function show(id: string, state: "completed" | "failed", prompt: string): void {
  const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]")?.href ?? "";
  const title = state === "completed" ? "The video is ready" : "The generation failed";
  const notification = new Notification(title, { body: prompt.slice(0, 200), tag: id, icon });
  notification.onclick = () => {
    focus();
    location.assign(`/generations/${id}`);
  };
}

function awaited(): string[] {
  return kept(awaitedKey, []);
}

function save(ids: readonly string[]): void {
  keep(awaitedKey, ids);
}
