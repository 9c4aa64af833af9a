import { countText, sizeText } from "../formatting.ts";
import { askToTell, awaitEnd, canTell } from "./notify.ts";

/**
 * An image as it is sent, in the field of an earlier request or else to start from; of one that was chosen before a reload, only the name and the
 * field are left.
 */
type Image = { name: string; source?: string; field?: "lastImageUrl" | "referenceUrls" | undefined };

/** What a reload and "back" keep of the form: what was typed, the names of the images, and what its Idempotency-Keys begin with. */
type Draft = { key: string; values: Record<string, string>; images: Omit<Image, "source">[] };

const images: Image[] = [];

/** Runs the form for a new generation: nothing that is sent from it twice is paid twice. */
export function listenForComposer(): void {
  const form = document.querySelector<HTMLFormElement>("#composer");
  if (!form) return;
  const kept = draftOf(history.state);
  if (kept) restore(form, kept);
  else void loadImages(form.dataset.from);
  keep(form, kept?.key ?? newKey());
  showCost(form);
  showImages(form);
  form.addEventListener("input", () => {
    keep(form);
    showCost(form);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void send(form);
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  listenForImages(form);
  listenForNotify();
}

function draftOf(state: unknown): Draft | undefined {
  return (state as { draft?: Draft } | null)?.draft;
}

/** Writes the draft into the entry of the browser's history, which has it again after a reload, and after "back". */
function keep(form: HTMLFormElement, key = draftOf(history.state)?.key ?? newKey()): void {
  const values = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));
  const draft: Draft = { key, values, images: images.map(({ source: _, ...image }) => image) };
  history.replaceState({ ...history.state, draft }, "");
}

function restore(form: HTMLFormElement, { values, images: kept }: Draft): void {
  for (const [name, value] of Object.entries(values)) {
    const field = form.elements.namedItem(name);
    if (field !== null && "value" in field) field.value = value;
  }
  images.push(...kept);
}

/** `randomUUID` is there on this machine and with https alone. */
function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * The Idempotency-Key of a body: the same for the same content of this entry of the history, however often it is sent, and another one once
 * something was changed. The service refuses two bodies with one key, so that the hash need not be a strong one.
 */
function keyOf(body: string): string {
  let [a, b] = [0xdeadbeef, 0x41c6ce57];
  for (let index = 0; index < body.length; index++) {
    const code = body.charCodeAt(index);
    a = Math.imul(a ^ code, 2654435761);
    b = Math.imul(b ^ code, 1597334677);
  }
  const hash = [a, b].map((part) => (part >>> 0).toString(16).padStart(8, "0")).join("");
  return `page-${draftOf(history.state)?.key}-${hash}`;
}

async function send(form: HTMLFormElement): Promise<void> {
  const button = form.querySelector<HTMLButtonElement>("button[type=submit]");
  if (!button || button.disabled) return;
  tell(undefined);
  const body = bodyOf(form);
  if (typeof body !== "object") return tell(body);
  keep(form);
  const text = JSON.stringify(body);
  button.disabled = true;
  const outcome = await post(text, keyOf(text));
  button.disabled = false;
  if ("trouble" in outcome) return tell(outcome.trouble);
  awaitEnd(outcome.id);
  location.assign(`/generations/${outcome.id}`);
}

type Outcome = { id: string } | { trouble: string };

const unclear =
  "No response came, so the generation may have been started. Press Generate again: the same request is not charged twice.";

async function post(body: string, key: string): Promise<Outcome> {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
  const reply = await fetch("/generations", { method: "POST", headers, body }).catch(() => undefined);
  const json = await reply?.json().catch(() => undefined);
  if (reply?.ok && typeof json?.id === "string") return json;
  if (reply?.status === 401)
    return {
      trouble:
        "You are signed out, and nothing was started. Open the link of vidgen serve in another tab, then press Generate again.",
    };
  if (reply && reply.status >= 400 && reply.status < 500)
    return { trouble: `Nothing was started: ${json?.error?.message ?? `HTTP ${reply.status}`}.` };
  return { trouble: unclear };
}

/** What is sent, by the names of the interface; or what is wrong, in words. */
function bodyOf(form: HTMLFormElement): object | string {
  const { extras = "", duration = "", ...texts } = draftOf(history.state)?.values ?? {};
  const lost = images.find(({ source }) => source === undefined);
  if (lost) return `The page was reloaded: choose ${lost.name} again, or remove it.`;
  const others = parseExtras(extras);
  if (others === undefined) return 'The other fields are not a JSON object, such as {"seed": 7}.';
  const sourcesOf = (field?: string) => images.filter((image) => image.field === field).map(({ source }) => source);
  const [sources, [lastImageUrl], referenceUrls] = [sourcesOf(), sourcesOf("lastImageUrl"), sourcesOf("referenceUrls")];
  const most = Number(chosenModel(form)?.dataset.images);
  if (sources.length > most) return `${texts.model} takes ${most === 1 ? "one image" : `at most ${most} images`}.`;
  const values = Object.entries({ ...texts, duration }).filter(([, value]) => value.trim() !== "");
  const seconds = /^(\d+(?:\.\d+)?)s?$/.exec(duration.trim())?.[1];
  return {
    ...Object.fromEntries(values),
    ...(seconds !== undefined && { duration: Number(seconds) }),
    ...(sources.length === 1 && { imageUrl: sources[0] }),
    ...(sources.length > 1 && { imageUrls: sources }),
    ...(lastImageUrl !== undefined && { lastImageUrl }),
    ...(referenceUrls.length > 0 && { referenceUrls }),
    ...others,
  };
}

function parseExtras(text: string): object | undefined {
  if (text.trim() === "") return {};
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function tell(trouble: string | undefined): void {
  const place = document.querySelector<HTMLElement>("#trouble");
  if (!place) return;
  place.hidden = trouble === undefined;
  place.textContent = trouble ?? "";
}

function chosenModel(form: HTMLFormElement): HTMLOptionElement | undefined {
  return form.querySelector<HTMLSelectElement>("[name=model]")?.selectedOptions[0];
}

function showCost(form: HTMLFormElement): void {
  const output = form.querySelector("#cost");
  if (output) output.textContent = `It costs ${countText(Number(chosenModel(form)?.dataset.credits))}`;
}

/** Images are dropped anywhere on the form, or chosen. */
function listenForImages(form: HTMLFormElement): void {
  const files = form.querySelector<HTMLInputElement>("#files");
  files?.addEventListener("change", () => {
    void add(form, [...(files.files ?? [])]);
    files.value = "";
  });
  form.addEventListener("dragover", (event) => event.dataTransfer?.types.includes("Files") && event.preventDefault());
  form.addEventListener("drop", (event) => {
    if (!event.dataTransfer?.files.length) return;
    event.preventDefault();
    void add(form, [...event.dataTransfer.files]);
  });
  form.querySelector("#images")?.addEventListener("click", ({ target }) => {
    const index = target instanceof HTMLButtonElement ? Number(target.value) : -1;
    if (index < 0) return;
    images.splice(index, 1);
    keep(form);
    showImages(form);
  });
}

async function add(form: HTMLFormElement, files: readonly File[]): Promise<void> {
  const other = files.find(({ type }) => !/^image\/(png|jpeg|webp)$/.test(type));
  tell(other && `${other.name} is not a PNG, JPEG or WebP image.`);
  for (const file of other ? [] : files) {
    const image = { name: file.name, source: await readAddress(file) };
    const lost = images.findIndex(({ name, source }) => name === file.name && source === undefined);
    if (lost === -1) images.push(image);
    else images[lost] = { ...images[lost], ...image };
  }
  keep(form);
  showImages(form);
}

function readAddress(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

function showImages(form: HTMLFormElement): void {
  const items = images.map(({ name, source }, index) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    Object.assign(button, { type: "button", value: String(index), textContent: "Remove" });
    button.setAttribute("aria-label", `Remove ${name}`);
    const size = source?.startsWith("data:") ? `, ${sizeText(source.length * 0.75)}` : "";
    item.append(source === undefined ? `${name}: choose it again ` : `${name}${size} `, button);
    return item;
  });
  form.querySelector("#images")?.replaceChildren(...items);
}

/** The images of the generation that the form begins with. */
async function loadImages(id: string | undefined): Promise<void> {
  const form = document.querySelector<HTMLFormElement>("#composer");
  if (id === undefined || !form) return;
  const reply = await fetch(`/generations/${id}/request`).catch(() => undefined);
  const request = reply?.ok ? await reply.json().catch(() => undefined) : undefined;
  if (!request)
    return tell("The images of the earlier generation could not be loaded. Reload the page, or continue without them.");
  const nameOf = (source: string, name: string) => (source.startsWith("data:") ? name : source);
  const add = (sources: string[], name: string, field?: Image["field"]) =>
    images.push(...sources.map((source, index) => ({ name: nameOf(source, `${name} ${index + 1}`), source, field })));
  add([request.imageUrls ?? request.imageUrl ?? []].flat(), "image");
  add([request.lastImageUrl ?? []].flat(), "last image", "lastImageUrl");
  add(request.referenceUrls ?? [], "reference", "referenceUrls");
  keep(form);
  showImages(form);
}

function listenForNotify(): void {
  const box = document.querySelector<HTMLInputElement>("#notify");
  const label = box?.closest("label");
  if (!box || !label || !canTell()) return;
  label.hidden = false;
  box.checked = Notification.permission === "granted";
  box.addEventListener("change", async () => {
    if (box.checked) box.checked = await askToTell();
  });
}
