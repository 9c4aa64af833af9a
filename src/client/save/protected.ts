import { sep } from "node:path";
import { VidgenError } from "../../errors.ts";
import type { Disk } from "../../io.ts";
import { findRealPath } from "../ledger/identity.ts";

/**
 * Throws `output` for a path of a video, an info file or a film that is a protected file or in a protected folder. Compares
 * the real paths and the inodes, so links make no difference. --overwrite does not override it.
 */
export type ProtectedCheck = (path: string) => Promise<void>;

/** The files and folders are looked up once, at the first call. */
export function createProtectedCheck(protectedPaths: readonly string[], disk: Disk): ProtectedCheck {
  const find = async () => {
    const paths = await Promise.all(protectedPaths.map((each) => findRealPath(each, disk)));
    const files = await Promise.all(paths.map((path) => identityOf(path, disk)));
    return { paths: new Set(paths), files: new Set(files.filter((file) => file !== undefined)) };
  };
  let lookup: ReturnType<typeof find> | undefined;
  return async (path) => {
    if (protectedPaths.length === 0) return;
    lookup ??= find();
    const { paths, files } = await lookup;
    const real = await findRealPath(path, disk);
    const folders = real.split(sep).map((_, index, parts) => parts.slice(0, index + 1).join(sep));
    const file = await identityOf(real, disk);
    if (!folders.some((folder) => paths.has(folder)) && !(file !== undefined && files.has(file))) return;
    throw new VidgenError("output", `${path} is a file that vidgen needs, and is never replaced.`, {
      hint: "Choose another name.",
    });
  };
}

/**
 * Identifies a file under any name; `undefined` if it is not a file. The 64-bit file ids of NTFS need bigint:
 * rounded to a number, two could be equal.
 */
async function identityOf(path: string, disk: Disk): Promise<string | undefined> {
  const found = await disk.stat(path, { bigint: true }).catch(() => undefined);
  return found?.isFile() ? `${found.dev} ${found.ino}` : undefined;
}
