import { sizeText } from "../formatting.ts";
import type { Draft, Image } from "./draft.ts";

type ImagesOptions = {
  draft: Draft;
  /** Called once images were added or removed. */
  onChange(): void;
  /** Called with why nothing was added. */
  onFault(text: string): void;
};

/** Images are chosen, or dropped anywhere on the page: a browser would show the dropped one in place of the page. */
export function listenForImages(form: HTMLFormElement, { draft, onChange, onFault }: ImagesOptions): void {
  const files = form.querySelector<HTMLInputElement>("#files");
  const change = () => {
    showImages(form, draft);
    onChange();
  };
  const add = async (chosen: readonly File[]) => {
    const other = chosen.find(({ type }) => !/^image\/(png|jpeg|webp)$/.test(type));
    if (other) return onFault(`${other.name} is not a PNG, JPEG or WebP image.`);
    for (const file of chosen) await addImage(draft, file);
    change();
  };
  files?.addEventListener("change", () => {
    void add([...(files.files ?? [])]);
    files.value = "";
  });
  document.addEventListener("dragover", (event) => {
    if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
  });
  document.addEventListener("drop", (event) => {
    if (!event.dataTransfer?.files.length) return;
    event.preventDefault();
    void add([...event.dataTransfer.files]);
  });
  form.querySelector("#images")?.addEventListener("click", ({ target }) => {
    if (!(target instanceof HTMLButtonElement)) return;
    draft.images.splice(Number(target.value), 1);
    change();
  });
}

/** An image that was chosen before a reload gets its bytes again. */
async function addImage({ images }: Draft, file: File): Promise<void> {
  const image = { name: file.name, source: await readAddress(file) };
  const lost = images.findIndex(({ name, source }) => name === file.name && source === undefined);
  if (lost === -1) images.push(image);
  else images[lost] = { ...images[lost], ...image };
}

function readAddress(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/**
 * Adds the images of the generation that the form begins with; after a reload, only the bytes of those that are still wanted. Resolves with whether
 * they could be loaded.
 */
export async function loadImages(draft: Draft, id: string): Promise<boolean> {
  const reply = await fetch(`/generations/${id}/request`).catch(() => undefined);
  const request = reply?.ok ? await reply.json().catch(() => undefined) : undefined;
  if (!request) return false;
  const listOf = (sources: string[], name: string, field?: Image["field"]): Image[] =>
    sources.map((source, index) => ({
      name: source.startsWith("data:") ? `${name} ${index + 1}` : source,
      source,
      field,
    }));
  const loaded = [
    ...listOf([request.imageUrls ?? request.imageUrl ?? []].flat(), "image"),
    ...listOf([request.lastImageUrl ?? []].flat(), "last image", "lastImageUrl"),
    ...listOf(request.referenceUrls ?? [], "reference", "referenceUrls"),
  ];
  if (draft.state === "new") draft.images.push(...loaded);
  else
    draft.images = draft.images.map(
      (image) => loaded.find(({ name, field }) => name === image.name && field === image.field) ?? image,
    );
  return true;
}

export function showImages(form: HTMLFormElement, { images }: Draft): void {
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
