import { sep } from "node:path";
import { VidgenError } from "../../errors.ts";
import type { Disk } from "../../io.ts";
import { findRealPath } from "../ledger/identity.ts";

/**
 * Refuses a place for a video, its info file or a film that is a file which must not be lost, or in a folder of such: by its path, and by the file itself, whatever links
 * lead to it. It is no question of --overwrite.
 */
export type Kept = (path: string) => Promise<void>;

/** The files and folders are looked up once, at the first call. */
export function createKept(kept: readonly string[], disk: Disk): Kept {
  const find = async () => {
    const paths = await Promise.all(kept.map((each) => findRealPath(each, disk)));
    const files = await Promise.all(paths.map((path) => identityOf(path, disk)));
    return { paths: new Set(paths), files: new Set(files.filter((file) => file !== undefined)) };
  };
  let found: ReturnType<typeof find> | undefined;
  return async (path) => {
    if (kept.length === 0) return;
    found ??= find();
    const { paths, files } = await found;
    const real = await findRealPath(path, disk);
    const folders = real.split(sep).map((_, index, parts) => parts.slice(0, index + 1).join(sep));
    const file = await identityOf(real, disk);
    if (!folders.some((folder) => paths.has(folder)) && !(file !== undefined && files.has(file))) return;
    throw new VidgenError("output", `${path} is a file that vidgen needs: it is never replaced.`, {
      hint: "Choose another name.",
    });
  };
}

/** What a file is known by under any name; `undefined` for what is no file. */
async function identityOf(path: string, disk: Disk): Promise<string | undefined> {
  const found = await disk.stat(path).catch(() => undefined);
  return found?.isFile() ? `${found.dev} ${found.ino}` : undefined;
}
