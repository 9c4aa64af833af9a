import { recordOf } from "../../client/history.ts";
import { readImages } from "../../client/images.ts";
import { asVidgenError } from "../../errors.ts";
import { findImageFault } from "../commands/request.ts";

/** Images that were read and forgotten: `recorded` is as the journal keeps them. */
export type Seen = { fault: string } | { recorded: string[]; isLocal: boolean };

/** Reads the images of a row to check them, the same images once. */
export function createImageCheck(): (images: string[]) => Promise<Seen> {
  const seen = new Map<string, Seen>();
  return async (images) => {
    const key = JSON.stringify(images);
    const known = seen.get(key) ?? (await look(images));
    seen.set(key, known);
    return known;
  };
}

async function look(images: string[]): Promise<Seen> {
  try {
    const sent = await readImages(images);
    const fault = sent.map(findImageFault).find((text) => text !== undefined);
    if (fault !== undefined) return { fault };
    const isLocal = sent.some((image, index) => image !== images[index]);
    const { recorded } = recordOf({ prompt: "", model: "", recorded: sent }) as { recorded?: unknown };
    return { isLocal, recorded: isLocal ? (recorded as string[]) : images };
  } catch (error) {
    return { fault: asVidgenError(error).message.replace(/\.$/, "") };
  }
}
