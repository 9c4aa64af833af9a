import { sizeText } from "../formatting.ts";
import type { Draft, Image } from "./draft.ts";
import { takeLastFrame } from "./video-end.ts";

type ImagesOptions = {
  draft: Draft;
  /** Called after images were added or removed. */
  onChange(): void;
  /** Called with what is wrong with one of the files. */
  onFault(text: string): void;
};

/**
 * Adds images that are chosen, pasted, or dropped anywhere on the page, and removes them. By default, a browser opens a dropped image in place of the
 * page.
 */
export function listenForImages(form: HTMLFormElement, { draft, onChange, onFault }: ImagesOptions): void {
  const files = form.querySelector<HTMLInputElement>("#files");
  const change = () => {
    showImages(form, draft);
    onChange();
  };
  const add = async (chosen: readonly File[]) => {
    const other = chosen.find(({ type }) => !/^image\/(png|jpeg|webp)$/.test(type));
    if (other) return onFault(`${other.name} is not a PNG, JPEG or WebP image.`);
    const loading = chosen.map((file) => addImage(draft, file));
    change();
    const areLoaded = await Promise.all(loading);
    change();
    const bad = chosen[areLoaded.indexOf(false)];
    if (bad) onFault(`${bad.name} cannot be read as an image: it is damaged, or of another type than its name says.`);
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
  document.addEventListener("paste", ({ target, clipboardData }) => {
    // Word processors and spreadsheets copy text as a picture too.
    const isText = target instanceof Element && target.matches("input, textarea") && clipboardData?.getData("text");
    if (clipboardData?.files.length && !isText) void add([...clipboardData.files]);
  });
  form.querySelector("#images")?.addEventListener("click", ({ target }) => {
    if (!(target instanceof HTMLButtonElement)) return;
    draft.images.splice(Number(target.value), 1);
    change();
  });
}

/** Adds an image, and its source once the file is read. An image with the same name that lost its source by a reload gets it again. */
async function addImage(draft: Draft, file: File): Promise<boolean> {
  const lost = draft.images.find(({ name, source, problem }) => name === file.name && !source && !problem);
  const image: Image = lost ?? { name: file.name };
  if (!lost) draft.images.push(image);
  const isLoaded = await loadSource(image, file);
  if (!isLoaded && !lost) draft.images = draft.images.filter((each) => each !== image);
  return isLoaded;
}

/** Reads the source and the thumbnail of an image. Resolves with whether the file could be read. */
async function loadSource(image: Image, file: Blob): Promise<boolean> {
  image.problem = "still loading";
  try {
    image.thumbnail = await drawThumbnail(file);
    image.source = await readDataUrl(file);
    return true;
  } catch {
    image.problem = undefined;
    return false;
  }
}

/** In pixels: twice the height in the style sheet, for dense screens. */
const thumbnailHeight = 192;

/** Decodes an image off the main thread, and keeps only its thumbnail. Rejects if it cannot be decoded. */
async function drawThumbnail(file: Blob): Promise<HTMLElement> {
  const bitmap = await createImageBitmap(file, { resizeHeight: thumbnailHeight, resizeQuality: "medium" });
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { className: "thumbnail", width: bitmap.width, height: bitmap.height });
  canvas.getContext("bitmaprenderer")?.transferFromImageBitmap(bitmap);
  return canvas;
}

/**
 * A file is read in parts, since 15 MB at once would block the page for most of a second. A multiple of three, so that the base64 of the parts can be
 * joined.
 */
const partBytes = 3 * 2 ** 17;

async function readDataUrl(file: Blob): Promise<string> {
  const parts = [`data:${file.type};base64,`];
  for (let at = 0; at < file.size; at += partBytes) {
    const part = await readPart(file.slice(at, at + partBytes));
    parts.push(part.slice(part.indexOf(",") + 1));
  }
  return parts.join("");
}

function readPart(file: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/** The images of the generation that the form repeats or continues. Until they are loaded, the draft has one image with this name in their place. */
export type InitialImages = {
  name: string;
  load(): Promise<Image[]>;
  /** Why they are missing if they could not be loaded. */
  problem: string;
};

const lastFrame = "Last frame";

/** The last frame of the video that the form continues. */
export function lastFrameImages(id: string): InitialImages {
  return {
    name: lastFrame,
    async load() {
      const frame = await takeLastFrame(id).catch(() => takeLastFrame(id));
      return [{ name: lastFrame, source: await readDataUrl(frame), thumbnail: await drawThumbnail(frame) }];
    },
    problem: "the browser could not take it from the video. Reload the page to try again, or remove it",
  };
}

/** The `data:` URL of the last frame of the video that the form continues. */
export function lastFrameOf({ images }: Draft): string | undefined {
  return images.find(({ name }) => name === lastFrame)?.source;
}

/** The images of the generation that the form repeats. */
export function earlierImages(id: string): InitialImages {
  return {
    name: "Images of the earlier generation",
    async load() {
      const reply = await fetch(`/generations/${id}/request`);
      if (!reply.ok) throw new Error(`HTTP ${reply.status}`);
      return listImages(await reply.json(), id);
    },
    problem: "could not be loaded. Reload the page to try again, or remove them",
  };
}

function listImages(request: Record<string, string | string[]>, id: string): Image[] {
  const byRole: [role: string, sources: string[], field?: Image["field"]][] = [
    ["Image", [request.imageUrls ?? request.imageUrl ?? []].flat()],
    ["Last image", [request.lastImageUrl ?? []].flat(), "lastImageUrl"],
    ["Reference", [request.referenceUrls ?? []].flat(), "referenceUrls"],
  ];
  return byRole
    .flatMap(([role, sources, field]) => sources.map((source, index) => ({ role, source, field, number: index + 1 })))
    .map(({ role, source, field, number }, index): Image => {
      if (!source.startsWith("data:")) return { name: field ? `${role} ${source}` : source, source, field };
      const thumbnail = document.createElement("img");
      Object.assign(thumbnail, { className: "thumbnail", alt: "", src: `/generations/${id}/images/${index}` });
      return { name: `${role} ${number}`, source, field, thumbnail };
    });
}

/** Loads the initial images, except those that were removed before a reload. */
export async function loadInitialImages(form: HTMLFormElement, draft: Draft, first: InitialImages): Promise<void> {
  if (draft.state === "new") draft.images.unshift({ name: first.name });
  if (draft.images.every(({ source }) => source !== undefined)) return;
  const placeholder = draft.images.find(({ name }) => name === first.name);
  if (placeholder) placeholder.problem = "still loading";
  showImages(form, draft);
  const loaded = await first.load().catch(() => undefined);
  if (loaded === undefined) {
    if (placeholder) placeholder.problem = first.problem;
    return;
  }
  draft.images = draft.images.flatMap((image) =>
    image === placeholder
      ? loaded
      : (loaded.find(({ name, field }) => name === image.name && field === image.field) ?? image),
  );
}

export function showImages(form: HTMLFormElement, { images }: Draft): void {
  const items = images.map((image, index) => {
    const item = document.createElement("li");
    const text = document.createElement("span");
    const button = document.createElement("button");
    text.textContent = imageText(image);
    Object.assign(button, { type: "button", value: String(index), textContent: "Remove" });
    button.setAttribute("aria-label", `Remove ${image.name}`);
    item.append(...(image.thumbnail ? [image.thumbnail] : []), text, button);
    return item;
  });
  form.querySelector("#images")?.replaceChildren(...items);
}

/** The name and size of an image, or why its source is missing. */
export function imageText({ name, source, problem = "choose it again, or remove it" }: Image): string {
  if (source === undefined) return `${name}: ${problem}.`;
  return source.startsWith("data:") ? `${name}, ${sizeText(Math.round(source.length * 0.75))}` : name;
}
