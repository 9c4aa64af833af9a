import { isRefusal } from "../../../protocol/status.ts";
import type { Draft } from "./draft.ts";
import { imageText } from "./images.ts";

/** What is wrong, as a sentence; `field` is the API's name of the field that is wrong, if any. */
export type Fault = { field?: string | undefined; text: string };

/** The outcome of a start; `isKnown` if the service had already started it. The id is then not always known. */
export type PostedStart =
  | { kind: "started"; id?: string; isKnown: boolean }
  | { kind: "refused"; fault: Fault }
  | { kind: "unclear" };

/** Sends a start once. */
export async function postStart(body: string, key: string): Promise<PostedStart> {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
  const reply = await fetch("/generations", { method: "POST", headers, body }).catch(() => undefined);
  const json = await reply?.json().catch(() => undefined);
  if (reply?.ok && typeof json?.id === "string")
    return { kind: "started", id: json.id, isKnown: json.isKnown === true };
  // The draft was already started, with another copy of the last frame.
  if (json?.error?.code === "idempotency_key_reused") return { kind: "started", isKnown: true };
  if (reply && isRefusal(reply.status)) return { kind: "refused", fault: faultOf(reply.status, json?.error) };
  return { kind: "unclear" };
}

type Refusal = { code?: string; message?: string };

function faultOf(status: number, { code = "", message = `HTTP ${status}` }: Refusal = {}): Fault {
  if (status === 401)
    return {
      text: "You are signed out: sign in again in another tab, then press Generate again.",
    };
  return { field: /^invalid_(\w+)$/.exec(code)?.[1], text: `${message}.` };
}

/** Returns the body of each take, with the field names of the API, or what is wrong with the form. */
export function bodiesOf({ values, images }: Draft, maxImages: number): { bodies: object[] } | { fault: Fault } {
  const { extras = "", seed = "", takes = "1", ...texts } = values;
  const lost = images.find(({ source }) => source === undefined);
  if (lost) return imageFault(imageText(lost));
  const sourcesOf = (field?: string) => images.filter((image) => image.field === field).map(({ source }) => source);
  const [sources, [lastImageUrl], referenceUrls] = [sourcesOf(), sourcesOf("lastImageUrl"), sourcesOf("referenceUrls")];
  if (sources.length > maxImages)
    return imageFault(`${texts.model} takes ${imageCountTexts[maxImages] ?? `at most ${maxImages} images`}.`);
  const others = parseExtras(extras);
  if (others === undefined)
    return { fault: { field: "extras", text: 'The other fields are not a JSON object, such as {"fps": 24}.' } };
  const repeated = Object.keys(others).find(
    (name) => name in values || (images.length > 0 && /^imageUrls?$/.test(name)),
  );
  if (repeated !== undefined)
    return { fault: { field: "extras", text: `${repeated} has its own field in the form: enter it there.` } };
  const given = Object.entries({ ...texts, seed }).filter(([, value]) => value.trim() !== "");
  const body = {
    ...Object.fromEntries(given),
    ...(sources.length === 1 && { imageUrl: sources[0] }),
    ...(sources.length > 1 && { imageUrls: sources }),
    ...(lastImageUrl !== undefined && { lastImageUrl }),
    ...(referenceUrls.length > 0 && { referenceUrls }),
  };
  const seedOf = (index: number) => /^\d+$/.test(seed.trim()) && { seed: Number(seed) + index };
  return { bodies: Array.from({ length: Number(takes) }, (_, index) => ({ ...body, ...seedOf(index), ...others })) };
}

const imageCountTexts = ["no image", "one image"];

function imageFault(text: string): { fault: Fault } {
  return { fault: { field: "imageUrls", text } };
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
