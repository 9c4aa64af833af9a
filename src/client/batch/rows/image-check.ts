import { asVidgenError } from "../../../errors.ts";
import { findImageFault, type ImageName, type Images, imageFields } from "../../../protocol/fields.ts";
import { recordOf } from "../../ledger/history.ts";
import { readImages } from "../../request/images.ts";

/** The result of reading images: `recorded` is what the journal keeps of them, `isFile` is set if any of them is a file. */
export type CheckedImages = { field: ImageName; fault: string } | { recorded: Images; isFile: boolean };

export type ImageCheck = {
  /** Reads the images of a row. Equal lists of images are read once. */
  check(images: Images): Promise<CheckedImages>;
  /** Notes for the user about local images. */
  notes(): string[];
};

export function createImageCheck(): ImageCheck {
  const checkedByList = new Map<string, CheckedImages>();
  return {
    async check(images) {
      const key = JSON.stringify(images);
      const checkedImages = checkedByList.get(key) ?? (await checkAll(images));
      checkedByList.set(key, checkedImages);
      return checkedImages;
    },
    notes() {
      const isFile = [...checkedByList.values()].some((found) => "recorded" in found && found.isFile);
      return isFile ? ["Local images are sent as data: URLs; not every service accepts that."] : [];
    },
  };
}

async function checkAll(images: Images): Promise<CheckedImages> {
  const recorded: Record<string, readonly string[]> = {};
  let isFile = false;
  for (const { name } of imageFields) {
    const typed = images[name] ?? [];
    const recordedOrFault = await checkList(typed);
    if (typeof recordedOrFault === "string") return { field: name, fault: recordedOrFault };
    recorded[name] = recordedOrFault;
    isFile ||= recordedOrFault !== typed;
  }
  return { recorded, isFile };
}

/**
 * Returns the same list if none of the images is a file, otherwise a list with hashes in place of files.
 * Returns the text of a fault, if there is one.
 */
async function checkList(images: readonly string[]): Promise<readonly string[] | string> {
  try {
    const sent = await readImages(images);
    const fault = sent.map(findImageFault).find((text) => text !== undefined);
    if (fault !== undefined) return fault;
    if (sent.every((image, index) => image === images[index])) return images;
    // `recordOf` hashes images in any field, whatever its name.
    const { recorded } = recordOf({ prompt: "", model: "", recorded: sent }) as { recorded?: unknown };
    return recorded as string[];
  } catch (error) {
    return asVidgenError(error).message.replace(/\.$/, "");
  }
}
