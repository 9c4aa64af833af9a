import { access, mkdir, open, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { systemCode } from "../../errors.ts";
import { unavailable } from "../observe/problem.ts";
import { syncFile, syncFolder } from "../store/sync.ts";
import { imagesFolder, keptName, type MediaStore, newImageName } from "./media-store.ts";
import type { Scratch } from "./scratch.ts";

/** The name of a file in the folder that is missing when its disk is not mounted, or another disk is mounted there. */
const markerName = ".vidgen";

/** The size of the test file, for which a full disk has no room. */
const checkBytes = 65_536;

export type FolderOptions = {
  folder: string;
  /** Where engines write: on the same disk, and by default in the folder itself. */
  scratch?: Scratch;
  /** Becomes part of the names of kept files, see `keptName`. */
  mark?: string;
};

/** Keeps videos in a folder, which is created if it does not exist. */
export async function openFolder({ folder, scratch, mark }: FolderOptions): Promise<MediaStore> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const marker = join(folder, markerName);
  await writeFile(marker, "vidgen uses this file to check that this folder is available.\n");
  const checkMarker = () =>
    access(marker).catch((cause) => Promise.reject(unavailable(cause, `${folder} is not available`)));
  const keepFile = async (path: string) => {
    const kept = join(folder, keptName(path, mark));
    try {
      await syncFile(path);
      if (kept !== path) await rename(path, kept);
    } catch (error) {
      // An earlier call may have failed after this file.
      if (systemCode(error) !== "ENOENT" || !(await exists(kept))) throw error;
    }
    return basename(kept);
  };
  return {
    scratch: scratch?.folder ?? folder,
    async keep({ file, thumbnail, ...video }) {
      const names = { thumbnail: thumbnail === null ? null : await keepFile(thumbnail), file: await keepFile(file) };
      await syncFolder(folder);
      return { ...video, ...names };
    },
    async keepImage(bytes) {
      await checkMarker();
      await mkdir(join(folder, imagesFolder), { recursive: true, mode: 0o700 });
      const name = newImageName();
      await writeFile(join(folder, name), bytes, { flush: true, mode: 0o600 });
      await syncFolder(join(folder, imagesFolder));
      return name;
    },
    async imagesBefore(date) {
      const names = await readdir(join(folder, imagesFolder)).catch((error) => {
        if (systemCode(error) === "ENOENT") return [];
        throw error;
      });
      const old: string[] = [];
      for (const name of names.map((each) => `${imagesFolder}/${each}`)) {
        // Another process may have removed it.
        const stats = await stat(join(folder, name)).catch(() => undefined);
        if (stats && stats.mtimeMs < date.getTime()) old.push(name);
      }
      return old;
    },
    async read(name, range) {
      const handle = await open(join(folder, name)).catch(async (error) => {
        if (systemCode(error) !== "ENOENT") throw unavailable(error);
        await checkMarker();
        return undefined;
      });
      return handle?.createReadStream(range && { start: range.first, end: range.last });
    },
    async remove(name) {
      await checkMarker();
      await rm(join(folder, name), { force: true });
    },
    async check() {
      await access(marker);
      const file = join(scratch?.folder ?? folder, ".check");
      await writeFile(file, Buffer.alloc(checkBytes), { flush: true }).finally(() => rm(file, { force: true }));
    },
    close: async () => scratch?.close(),
  };
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
