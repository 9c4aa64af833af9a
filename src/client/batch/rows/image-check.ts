import { asVidgenError } from "../../../errors.ts";
import { recordOf } from "../../ledger/history.ts";
import { findImageFault } from "../../request/fields.ts";
import { readImages } from "../../request/images.ts";

/** Images that were read and forgotten: `recorded` is as the journal keeps them. */
export type Seen = { fault: string } | { recorded: string[]; isLocal: boolean };

export type ImageCheck = {
  /** Reads the images of a row, the same images once. */
  look(images: string[]): Promise<Seen>;
  /** What the user must know of local images. */
  notes(): string[];
};

export function createImageCheck(): ImageCheck {
  const seen = new Map<string, Seen>();
  return {
    async look(images) {
      const key = JSON.stringify(images);
      const known = seen.get(key) ?? (await look(images));
      seen.set(key, known);
      return known;
    },
    notes() {
      const isLocal = [...seen.values()].some((found) => "recorded" in found && found.isLocal);
      return isLocal ? ["Local images are sent as data: URLs; not every service accepts that."] : [];
    },
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
