import { constants } from "node:fs";
import { access, type FileHandle, link, lstat, mkdir, mkdtemp, open, rename, rm, stat, unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { systemCode, VidgenError } from "../errors.ts";
import { faultOfMp4 } from "./mp4.ts";

/** What a file name is made of: the person's own words, and the first part of the id. */
export type Naming = { id: string; prompt?: string | undefined; model?: string | undefined };

/** A place for a video, claimed before anything is paid: the `.part` file exists and can be written. */
export type Target = {
  part: FileHandle;
  /** Where the `.part` is, as an absolute path. */
  partPath(): string;
  /** Gives the `.part` in a folder its lasting name, once the generation is known, so that another run finds it. */
  settle(naming: Naming): Promise<void>;
  /** From now on `release` leaves the `.part` where it is: it can be gone on with. */
  keep(): void;
  /** Gives the finished `.part` its name and returns that. Throws `output` when a file of this name has come into being meanwhile. */
  commit(naming: Naming): Promise<string>;
  /** Lets go of what was claimed; after `commit` there is nothing left to do. */
  release(): Promise<void>;
};

export type ClaimOptions = {
  overwrite: boolean;
  /** A word that no other claim has. */
  unique: string;
  /** Set when the generation is known already: then a folder's file name is too. */
  naming?: Naming | undefined;
  /** Told of the absolute path of a `.part` before it comes into being, so that no crash leaves one whose owner nobody knows. */
  onPart?(partPath: string): Promise<void>;
  /** Whether a `.part` that is there has been left by a process that is gone. */
  mayTakeOver?(partPath: string): Promise<boolean>;
};

/**
 * Claims the place that `-o` names: a file, a folder (one that exists, or a name that ends in a slash), or "-" for a file of its own that
 * is streamed to stdout later. Throws `output` when it cannot be written, or exists and `overwrite` is not set.
 */
export async function claimTarget(output: string, options: ClaimOptions): Promise<Target> {
  try {
    if (output === "-") return await claimTemporary();
    const folder = await folderOf(output);
    if (folder === undefined) return await claimFile(output, () => output, options);
    const nameOf = (naming: Naming) => join(folder, fileName(naming));
    if (options.naming) return await claimFile(nameOf(options.naming), nameOf, options);
    return await claim(join(folder, `.vidgen-${options.unique}.part`), nameOf, options);
  } catch (error) {
    throw outputError(error, output);
  }
}

async function claimFile(path: string, nameOf: (naming: Naming) => string, options: ClaimOptions): Promise<Target> {
  await checkFree(path, options.overwrite);
  await access(dirname(path), constants.W_OK);
  return claim(`${path}.part`, nameOf, options);
}

async function claim(firstPath: string, nameOf: (naming: Naming) => string, options: ClaimOptions): Promise<Target> {
  let partPath = firstPath;
  const part = await openPart(partPath, options);
  let isHeld = true;
  let isKept = false;
  return {
    part,
    partPath: () => resolve(partPath),
    async settle(naming) {
      const lasting = `${nameOf(naming)}.part`;
      if (lasting === partPath) return;
      await options.onPart?.(resolve(lasting));
      try {
        await rename(partPath, lasting);
      } catch (error) {
        throw outputError(error, nameOf(naming));
      }
      partPath = lasting;
    },
    keep() {
      isKept = true;
    },
    async commit(naming) {
      const path = nameOf(naming);
      try {
        await part.sync();
        if (options.overwrite) await rename(partPath, path);
        else await renameNew(partPath, path);
      } catch (error) {
        throw outputError(error, path);
      }
      isHeld = false;
      await part.close();
      return path;
    },
    async release() {
      if (!isHeld) return;
      isHeld = false;
      await part.close();
      if (!isKept) await rm(partPath, { force: true });
    },
  };
}

async function openPart(path: string, { unique, onPart, mayTakeOver }: ClaimOptions): Promise<FileHandle> {
  const isThere = (await kindOf(path)) !== "none";
  const checkOwner = async () => {
    if (!isThere || (await mayTakeOver?.(resolve(path)))) return;
    throw Object.assign(new Error("claimed"), { code: "EEXIST", path });
  };
  await checkOwner();
  await onPart?.(resolve(path));
  // Another may have come to the same end meanwhile: each sees what the other has written down.
  await checkOwner();
  return isThere ? takeOver(path, `${path}.${unique}`) : open(path, "wx+", 0o666);
}

/** Of several that try at once, one alone can move the file aside. */
async function takeOver(path: string, aside: string): Promise<FileHandle> {
  await rename(path, aside);
  try {
    await link(aside, path);
  } finally {
    await unlink(aside);
  }
  return open(path, "r+");
}

async function claimTemporary(): Promise<Target> {
  const folder = await mkdtemp(join(tmpdir(), "vidgen-"));
  const target = await claim(join(folder, "video.part"), () => join(folder, "video.mp4"), {
    overwrite: true,
    unique: "",
  });
  return {
    ...target,
    async release() {
      await target.release();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** The folder that `output` stands for, made if it has to be; `undefined` when it names a file. */
async function folderOf(output: string): Promise<string | undefined> {
  if (/[/\\]$/.test(output)) {
    await mkdir(output, { recursive: true });
    return output;
  }
  return (await kindOf(output)) === "folder" ? output : undefined;
}

/** Whether several videos have room there: a folder that exists, or a name that ends in a slash. */
export async function isFolder(output: string): Promise<boolean> {
  return /[/\\]$/.test(output) || (await kindOf(output)) === "folder";
}

async function checkFree(path: string, overwrite: boolean): Promise<void> {
  const kind = await kindOf(path);
  if (kind === "none" || (kind === "file" && overwrite)) return;
  if (kind === "file") throw existsError(path);
  throw new VidgenError("output", `${path} is neither a file nor a folder.`);
}

/** A link counts as what it leads to, one that leads nowhere as a file: it must not be written over either. */
async function kindOf(path: string): Promise<"none" | "file" | "folder" | "other"> {
  const found = (await unlessMissing(stat(path))) ?? (await unlessMissing(lstat(path)));
  if (!found) return "none";
  if (found.isDirectory()) return "folder";
  return found.isFile() || found.isSymbolicLink() ? "file" : "other";
}

async function unlessMissing<Found>(looking: Promise<Found>): Promise<Found | undefined> {
  return looking.catch((error) => {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  });
}

/** Renames, but never over a file that has come into being since the check. */
async function renameNew(from: string, to: string): Promise<void> {
  try {
    await link(from, to);
  } catch (error) {
    if (systemCode(error) === "EEXIST") throw existsError(to);
    // Some file systems have no hard links: the check is all there is.
    await checkFree(to, false);
    return rename(from, to);
  }
  await unlink(from);
}

function existsError(path: string): VidgenError {
  return new VidgenError("output", `${path} exists.`, { hint: "--overwrite replaces it; -o names another place." });
}

/** A failed system call while saving, in words. */
export function outputError(error: unknown, path: string): VidgenError {
  if (error instanceof VidgenError) return error;
  const code = systemCode(error);
  const hint =
    code === "EEXIST" ? "Another vidgen may be saving there. If none is, delete that .part file." : undefined;
  const file = error instanceof Error && "path" in error ? String(error.path) : `${path}.part`;
  const reasons: Record<string, string> = {
    EEXIST: `${basename(file)} exists`,
    ENOENT: "the folder does not exist",
    ENOTDIR: "a part of the path is not a folder",
    EACCES: "no permission to write there",
    EROFS: "the file system is read-only",
    ENOSPC: "the disk is full",
    EDQUOT: "the disk quota is used up",
  };
  const reason = (code && reasons[code]) ?? (error instanceof Error ? error.message : String(error));
  return new VidgenError("output", `Cannot save ${path}: ${reason}.`, { hint, cause: error });
}

/** The whole video that an earlier run has saved into a folder for this generation; `undefined` when there is none. */
export async function findSaved(folder: string, naming: Naming): Promise<string | undefined> {
  const path = join(folder, fileName(naming));
  const file = await open(path, "r").catch(() => undefined);
  if (!file) return undefined;
  const fault = await faultOfMp4(file).finally(() => file.close());
  return fault === undefined ? path : undefined;
}

/** Such as "a-red-fox-runs-wan-2.5-1b4e28ba.mp4". Nothing in it can be a path, whatever the service sends as an id. */
export function fileName({ id, prompt, model }: Naming): string {
  const first = firstPart(id);
  const parts = [slug(prompt ?? "", 48), slug(model ?? "", 24), first].filter((part) => part !== "");
  return `${parts.length > 1 ? parts.join("-") : `vidgen-${first}`}.mp4`;
}

/** The first eight digits of a UUID; of any other id as much as is needed to tell it from others. */
function firstPart(id: string): string {
  if (/^[0-9a-f]{8}-[0-9a-f]{4}-/i.test(id)) return id.slice(0, 8);
  return id.replace(/[^A-Za-z0-9]+/g, "").slice(0, 40) || "video";
}

function slug(text: string, longest: number): string {
  const words = text
    .normalize("NFC")
    .toLowerCase()
    // What is left of an emoji without it: invisible.
    .replace(/(?<![\p{L}\p{N}\p{M}])\p{M}+/gu, "")
    .replace(/[^\p{L}\p{N}\p{M}.]+/gu, "-");
  const whole = words
    .replace(/\.+(?=-|$)|(?<=-|^)\.+/g, "")
    .replace(/-+/g, "-")
    .replace(/^-|-$/g, "");
  if (byteLength(whole) <= longest) return whole;
  let cut = "";
  for (const letter of whole) {
    if (byteLength(cut + letter) > longest) break;
    cut += letter;
  }
  return cut.replace(/-[^-]*$/, "");
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).byteLength;
}
