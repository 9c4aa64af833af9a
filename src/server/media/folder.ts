import { access, constants, mkdir, open, rename } from "node:fs/promises";
import { basename, join } from "node:path";
import { systemCode } from "../../errors.ts";
import { syncFile, syncFolder } from "../store/sync.ts";
import type { MediaStore } from "./media-store.ts";

export type FolderOptions = {
  folder: string;
  /** Where engines write, on the same disk as the folder; by default, the folder itself. */
  scratch?: string;
  /** Is put into the names of kept files, so that two processes that make the same video never write the same file. */
  mark?: string;
};

/** Keeps videos in a folder, which is made where there is none. */
export async function openFolder({ folder, scratch = folder, mark }: FolderOptions): Promise<MediaStore> {
  await mkdir(scratch, { recursive: true, mode: 0o700 });
  const keepFile = async (path: string) => {
    await syncFile(path);
    const name = basename(path);
    const kept = mark === undefined ? name : name.replace(/\.\w+$/, `.${mark}$&`);
    if (join(folder, kept) !== path) await rename(path, join(folder, kept));
    return kept;
  };
  return {
    scratch,
    async keep({ file, thumbnail, ...video }) {
      const names = { thumbnail: thumbnail === null ? null : await keepFile(thumbnail), file: await keepFile(file) };
      await syncFolder(folder);
      return { ...video, ...names };
    },
    async read(name, range) {
      // Earlier versions stored whole paths, which are wrong once the folder was moved or copied.
      const handle = await open(join(folder, basename(name))).catch((error) => {
        if (systemCode(error) === "ENOENT") return undefined;
        throw error;
      });
      return handle?.createReadStream(range && { start: range.first, end: range.last });
    },
    check: () => access(folder, constants.W_OK),
  };
}
