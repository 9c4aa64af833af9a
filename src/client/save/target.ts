import { basename, dirname, join, resolve } from "node:path";
import { systemCode, VidgenError } from "../../errors.ts";
import type { Disk, DiskFile, Io } from "../../io.ts";
import { type Acquired, type Lease, type LeaseIo, readHolder, tryLease, type Watch } from "../../lease.ts";
import type { WireGeneration } from "../../protocol/schema.ts";
import { makeFolderLine } from "../../shell.ts";
import { fillIn, fillWords, type NameParts, type Naming } from "../../video/naming.ts";
import { type Content, hasContent } from "../ledger/content.ts";
import type { DatedLine, Entry, PartLine } from "../ledger/history.ts";
import { type FileId, fileIdOf, findRealPath } from "../ledger/identity.ts";
import type { Journal } from "../ledger/journal.ts";
import { syncFolder } from "../ledger/lines.ts";
import type { StartedEntry } from "../ledger/policy.ts";
import { findLine, wordOf } from "../ledger/search.ts";
import { type Version, validatorOf } from "../ledger/version.ts";
import {
  cannotCreateError,
  checkFree,
  checkReplaceable,
  existsError,
  isExistsError,
  kindOf,
  linkNew,
  outputError,
} from "./files.ts";
import {
  findOutputPath,
  infoPath,
  inspectOutput,
  isPartOf,
  leaseOfPart,
  outputOfPart,
  partPathOf,
  type ResolvedOutput,
  resolveOutput,
} from "./output-path.ts";
import { createProtectedCheck } from "./protected.ts";

/** A claimed file for a video: no other process writes to it until it is released. */
export type Target = {
  /** The value of -o for the command that resumes this one. */
  outputPath: string;
  /** The partial file; `undefined` for "-". */
  partPath: string | undefined;
  /** Whether a later process can resume the download of its partial file. */
  isResumable(): boolean;
  /** Aborts when another process has taken over the file because this one was suspended for a minute. */
  lost: AbortSignal;
  /**
   * Opens the partial file, once: that of an earlier process of the attempt if its download can be resumed, else a new one.
   * Throws `output`.
   */
  open(): Promise<PartialFile>;
  /**
   * Renames the finished partial file, which has this content, to the path of the video, and returns that
   * path. Throws `output` if that file has appeared meanwhile, or if another program has replaced the partial
   * file.
   */
  commit(naming: Naming, content: Content): Promise<string>;
  /**
   * Releases the file for other processes. Keeps the partial file if its download can be resumed. Does
   * nothing the second time.
   */
  release(): Promise<void>;
};

export type PartialFile = {
  file: DiskFile;
  /** The version of the video in the file; `undefined` if the file is empty. */
  version: Version | undefined;
  /** Records the version that will be written to the file; called while the file is empty. */
  begin(version: Version): Promise<void>;
};

export type ClaimOptions = {
  overwrite?: boolean | undefined;
  /** The generation, if it exists; its id may be part of the file's name. */
  id?: string | undefined;
  /** The attempt of the video; by default that of the entry. */
  attempt?: string | undefined;
  /** The parts of the file's name if the journal does not know the generation. */
  nameParts?: NameParts | undefined;
  /** The first number to try for `{n}`, unless an earlier process has claimed one. */
  first?: number | undefined;
  /** Partial files of other videos: `{n}` does not use their numbers, even if the files are gone. */
  takenParts?: readonly string[] | undefined;
  /** Files that the video must not replace, such as the images of its request. */
  protectedPaths?: readonly string[] | undefined;
  /** Whether an info file will be written beside the video, which must not replace a protected file either. */
  infoJson?: boolean | undefined;
};

type Claiming = ClaimOptions & {
  /** The journal's entry of the generation. */
  entry?: Entry | undefined;
};

/** The claimed file, or the file in which the video was already saved. */
export type Claimed = { target: Target; file?: undefined } | { target?: undefined; file: string };

export type Targets = {
  /**
   * Claims a file for a video, with `{n}` the file with the first free number. Returns `undefined` while
   * another process has, or may have, the file, so that the caller tries again. Throws `usage`, and `output`
   * if the file exists or cannot be written.
   */
  claim(outputPath: string, claiming: Claiming): Promise<Target | undefined>;
  /**
   * Whether another process has, or may have, a file. This check is cheaper than a claim. Changes nothing.
   * Throws as `claim` does.
   */
  isHeld(outputPath: string, nameParts: NameParts): Promise<boolean>;
  /**
   * The file where `outputPath` would save the video of a generation; `undefined` unless the file has the
   * recorded content. With `{n}`, returns only a file that was saved but not recorded, because each further
   * download gets a new file. `first` means the same as for a claim.
   */
  findSaved(entry: StartedEntry, outputPath: string, first?: number): Promise<string | undefined>;
  /** Records where the video of a generation was found, unless the journal names a file. Never rejects. */
  recordSaved(entry: StartedEntry, file: string): Promise<void>;
  /** Whether another process is, or may be, saving the video of an attempt. Changes nothing. */
  isBeingSaved(attempt: Pick<Entry, "parts">): Promise<boolean>;
  /** Removes the partial files of an attempt that no process writes to. Never rejects. */
  clear(attempt: Pick<Entry, "parts">): Promise<void>;
};

type TargetIo = LeaseIo & Pick<Io, "platform">;

/**
 * `journal` records which version of a video each partial file has; without a journal, downloads cannot be
 * resumed. `protectedPaths` are files and folders that no video may replace.
 */
export function createTargets(
  journal: Pick<Journal, "append" | "scan"> | undefined,
  io: TargetIo,
  protectedPaths: readonly string[] = [],
): Targets {
  const { disk } = io;
  const checkProtected = createProtectedCheck(protectedPaths, disk);
  const watch: Watch = new Map();

  const findPartLine = async (part: string): Promise<PartState | undefined> =>
    journal && findLine(journal, (line) => isPartLineOf(line, part), [wordOf(part)]).catch(() => undefined);

  /** The error for an existing file. A paid video that vidgen saved there must not be replaced by mistake. */
  async function explainExisting(error: unknown, path: string): Promise<unknown> {
    const file = resolve(path);
    const isSaved = (line: DatedLine): line is DatedLine & { kind: "delivered" } =>
      line.kind === "delivered" && line.file === file;
    const saved = await (journal && findLine(journal, isSaved, [wordOf(file)]).catch(() => undefined));
    return saved ? existsError(path, "vidgen has saved a video there. Choose another name with -o.") : error;
  }

  /** Removes the partial file of a dead process, under its lease. Never rejects. */
  async function removeAbandoned(part: string): Promise<void> {
    const found = await statPart(part, disk);
    const line = found && (await findPartLine(part));
    if (found && line && isOwnPart(found, line)) await disk.rm(part).catch(() => {});
  }

  /** Removes the partial files of other attempts at the same video file. */
  async function removeOtherParts(file: string, partPath: string): Promise<void> {
    const folder = dirname(partPath);
    for (const name of await disk.readdir(folder).catch(() => []))
      if (isPartOf(name, file) && name !== basename(partPath)) await removeAbandoned(join(folder, name));
  }

  async function claimResolved(
    resolved: ResolvedOutput,
    claiming: Claiming & { nameParts: NameParts },
  ): Promise<Target | undefined> {
    const { overwrite = false, id, nameParts, entry, attempt = entry?.attempt } = claiming;
    const { folder } = resolved;
    const path = resolved.file ?? (id === undefined ? undefined : resolved.fileOf({ id, ...nameParts }));
    const checkOfRequest = createProtectedCheck(claiming.protectedPaths ?? [], disk);
    const check = async (file: string) => {
      for (const path of claiming.infoJson ? [file, infoPath(file)] : [file]) {
        await checkProtected(path);
        await checkOfRequest(path);
        if (overwrite) await checkReplaceable(path, io);
      }
    };
    if (path !== undefined) await check(path);
    // The journal records the path of the partial file without links.
    const real = await findRealPath(folder, disk);
    const partPath = partPathOf({ ...resolved, folder: real }, attempt ?? id ?? "");
    if (path !== undefined) await checkFree(path, overwrite, disk);
    await disk.access(folder, disk.constants.W_OK).catch((error) => {
      throw withFolderHint(error, path ?? folder, io.platform);
    });
    const acquired = await tryLease(leaseOfPart(partPath), io, watch).catch((error) => {
      throw systemCode(error) === "ENOENT" ? cannotCreateError(path ?? folder, error) : error;
    });
    if (acquired.kind === "held") return undefined;
    const { lease, from } = acquired;
    try {
      // The previous holder may have saved the video since the first check.
      if (path !== undefined) await checkFree(path, overwrite, disk);
      if (from !== "nobody" && resolved.file !== undefined) await removeOtherParts(resolved.file, partPath);
    } catch (error) {
      await lease.release();
      throw error;
    }
    const owner = attempt === undefined ? { id: id ?? "" } : { attempt };
    const record = async (found: PartState) => {
      if (resolved.isTemporary || journal === undefined) return false;
      return journal.append({ kind: "part", file: partPath, ...owner, ...found }).then(
        () => true,
        () => false,
      );
    };
    // With this line, a later process finds the partial file if this one is killed. A new attempt has the path in its intent.
    if (entry && !entry.parts?.includes(partPath)) await record({});
    const findOwnLine = () => findPartLine(partPath);
    return createTarget(
      resolved,
      { partPath, lease, previousHolder: from, overwrite, check, findLine: findOwnLine, record },
      disk,
    );
  }

  /**
   * The number that an earlier process of the attempt claimed for the video; `undefined` without one, for a
   * delivered video, and if the name also depends on the id, because then the name of the partial file has no
   * number.
   */
  async function findNumber(outputPath: string, { parts = [], file }: Omit<Entry, "id">): Promise<number | undefined> {
    if (!outputPath.includes("{n}") || file !== undefined) return undefined;
    const pattern = await findRealPath(outputPath, disk);
    const [before = ""] = pattern.split("{n}");
    for (const part of parts) {
      const claimed = outputOfPart(part);
      const [n = ""] = /^\d+/.exec(claimed.slice(before.length)) ?? [];
      if (fillNumber(pattern, Number(n)) === claimed) return Number(n);
    }
    return undefined;
  }

  /** The paths where the video of an attempt may be, saved by a process that ended before it recorded that. */
  async function* listPaths(
    outputPath: string,
    entry: Omit<Entry, "id">,
    first: number,
  ): AsyncGenerator<string, undefined> {
    if (!outputPath.includes("{n}")) return void (yield outputPath);
    if (entry.file !== undefined) return undefined;
    const claimedNumber = await findNumber(outputPath, entry);
    if (claimedNumber !== undefined) yield fillNumber(outputPath, claimedNumber);
    // With `{id}` all numbers belong to this generation.
    if (outputPath.includes("{id}")) for (const n of numbersFrom(first)) yield fillNumber(outputPath, n);
    return undefined;
  }

  return {
    async claim(outputPath, claiming) {
      const { entry, first = 1 } = claiming;
      const nameParts = entry ? namePartsOf(entry) : (claiming.nameParts ?? {});
      const resolving = { nameParts, date: dayOf(entry, io), uniqueName: io.uuid() };
      const claimedNumber = entry && (await findNumber(fillWords(outputPath, nameParts, resolving.date), entry));
      const takenFiles = new Set(claiming.takenParts?.map(outputOfPart));
      for (const n of numbersFrom(first, claimedNumber)) {
        const place = await resolveOutput(outputPath, { ...resolving, n }, io);
        if (place === undefined) continue;
        const isNumbered = place.outputPath !== outputPath;
        if (isNumbered && place.file !== undefined && takenFiles.has(await findRealPath(place.file, disk))) continue;
        try {
          const target = await claimResolved(place, { ...claiming, nameParts });
          if (target || !isNumbered) return target;
        } catch (error) {
          // Each number gets a new file.
          if (isExistsError(error) && !isNumbered) throw await explainExisting(error, place.file ?? outputPath);
          if (!isExistsError(error)) throw outputError(error, place.file ?? outputPath);
        }
      }
      throw new Error("there is always another number");
    },
    async isHeld(outputPath, nameParts) {
      // With `{n}` there is always a free number, and "-" is never shared.
      if (outputPath === "-" || outputPath.includes("{n}")) return false;
      const place = await inspectOutput(
        outputPath,
        { nameParts, date: dayOf(undefined, io), n: 1, uniqueName: "" },
        io,
      );
      if (place?.file === undefined) return false;
      const holder = await readHolder(leaseOfPart(partPathOf(place, "")), io, watch).catch((error) => {
        throw outputError(error, outputPath);
      });
      return holder !== undefined;
    },
    async findSaved({ id, ...entry }, outputPath, first = 1) {
      const { content } = entry;
      if (content === undefined || outputPath === "-") return undefined;
      const nameParts = namePartsOf(entry);
      for await (const name of listPaths(fillWords(outputPath, nameParts, dayOf(entry, io)), entry, first)) {
        const file = await findOutputPath(name, { id, ...nameParts }, disk).catch((error) => {
          throw outputError(error, name);
        });
        if (await hasContent(file, content, disk)) return file;
        if ((await kindOf(file, disk)) === "none") return undefined;
      }
      return undefined;
    },
    async recordSaved({ id, content, file: known }, file) {
      // The process may have died between the rename and this record.
      if (known !== undefined || content === undefined) return;
      await syncFolder(dirname(file), disk);
      await journal?.append({ kind: "delivered", id, file: resolve(file), ...content }).catch(() => {});
    },
    async isBeingSaved({ parts = [] }) {
      const holders = await Promise.all(parts.map((part) => readHolder(leaseOfPart(part), io, watch).catch(() => {})));
      return holders.some((holder) => holder !== undefined);
    },
    async clear({ parts = [] }) {
      for (const part of parts) {
        const lease = leaseOfPart(part);
        // The process may have died before it created the partial file.
        const leftover = await disk.lstat(part).catch(() => disk.lstat(lease).catch(() => undefined));
        const acquired = leftover && (await tryLease(lease, io, watch).catch(() => undefined));
        if (acquired?.kind !== "acquired") continue;
        await removeAbandoned(part);
        await acquired.lease.release();
      }
    },
  };
}

function fillNumber(template: string, n: number): string {
  return fillIn(template, new Map([["n", String(n)]]));
}

/** The number that a video has claimed, then all numbers from `first` on. */
function* numbersFrom(first: number, claimedNumber?: number): Generator<number, undefined> {
  if (claimedNumber !== undefined) yield claimedNumber;
  for (let n = first; ; n++) if (n !== claimedNumber) yield n;
}

function isPartLineOf(line: DatedLine, file: string): line is DatedLine & PartLine {
  return line.kind === "part" && line.file === file;
}

/** The UTC day of the start, so that `{date}` is the same in each process that saves the video; today without an entry. */
function dayOf(entry: Pick<Entry, "at"> | undefined, io: Pick<Io, "date">): string {
  return (entry?.at ?? io.date().toISOString()).slice(0, 10);
}

/** The prompt and the model for the file's name: from the journal, else from the service. */
export function namePartsOf(entry: Pick<Entry, "request"> | undefined, generation?: WireGeneration): NameParts {
  const prompt = entry?.request.prompt ?? generation?.prompt ?? undefined;
  return { prompt, model: entry?.request.model ?? generation?.model ?? undefined };
}

type PreviousHolder = (Acquired & { kind: "acquired" })["from"];

/** With exact ids; `undefined` if the file cannot be found. */
function statPart(path: string, disk: Disk) {
  return disk.lstat(path, { bigint: true }).catch(() => undefined);
}

/** Whether vidgen created the file, and not another program. */
function isOwnPart(found: { ino: bigint; size: bigint }, line: PartState): boolean {
  return line.inode === undefined ? found.size === 0n : line.inode === fileIdOf(found);
}

/** The journal's record of a partial file; without an inode the file is empty. */
type PartState = Version & { inode?: FileId | undefined };

type TargetOptions = {
  partPath: string;
  lease: Lease;
  /** Which process held the lease before and did not release it. */
  previousHolder: PreviousHolder;
  overwrite: boolean;
  /** Throws `output` for a protected path. */
  check(path: string): Promise<void>;
  /** The record of the partial file; `undefined` without a record, or if the journal cannot be read. */
  findLine(): Promise<PartState | undefined>;
  /** Writes the record; returns false if it cannot be written. Never rejects. */
  record(found: PartState): Promise<boolean>;
};

function createTarget(resolved: ResolvedOutput, options: TargetOptions, disk: Disk): Target {
  const { partPath, lease, previousHolder, overwrite, check, findLine, record } = options;
  let opened: Promise<PartialFile> | undefined;
  /** Whether `release` keeps the partial file: its download can be resumed, or it was renamed. */
  let isKept = false;
  let isReleased = false;

  function openOnce(): Promise<PartialFile> {
    opened ??= open();
    return opened;
  }

  async function open(): Promise<PartialFile> {
    const { file, version } = await openPart().catch((error) => {
      throw outputError(error, resolved.file ?? resolved.outputPath);
    });
    isKept = version !== undefined;
    const begin = async (found: Version) => {
      isKept = false;
      const inode = fileIdOf(await file.stat({ bigint: true }));
      // Without a record the download cannot be resumed, and a later process starts again.
      isKept = (await record({ ...found, inode })) && validatorOf(found) !== undefined;
    };
    return { file, version, begin };
  }

  async function openPart(): Promise<Pick<PartialFile, "file" | "version">> {
    const line = (await statPart(partPath, disk)) && (await findLine());
    // The path is checked again, because another program may have created a file there meanwhile.
    const found = await statPart(partPath, disk);
    if (found) {
      if (line === undefined || !isOwnPart(found, line))
        throw Object.assign(new Error("exists"), { code: "EEXIST", path: partPath });
      // A file with two links may be a saved video, and a suspended process on another machine may still write for some seconds.
      const isResumed = found.nlink === 1n && previousHolder !== "elsewhere" && validatorOf(line) !== undefined;
      if (isResumed) return { file: await disk.open(partPath, "r+"), version: line };
      await disk.rm(partPath);
    }
    // The path is recorded before the file is created, so that a later process recognizes the file.
    await record({});
    return { file: await disk.open(partPath, "wx+", 0o666), version: undefined };
  }

  /** Whether the path of the partial file still leads to this open file. */
  async function isStillPart(file: DiskFile): Promise<boolean> {
    const openFile = await file.stat({ bigint: true }).catch(() => undefined);
    return openFile !== undefined && openFile.ino === (await statPart(partPath, disk))?.ino;
  }

  /** Removes an empty partial file of an earlier process. */
  async function removeEmpty(): Promise<void> {
    const found = await statPart(partPath, disk);
    const line = found?.size === 0n ? await findLine() : undefined;
    if (found && line && isOwnPart(found, line)) await disk.rm(partPath).catch(() => {});
  }

  return {
    outputPath: resolved.outputPath,
    partPath: resolved.isTemporary ? undefined : partPath,
    lost: lease.lost,
    isResumable: () => isKept && !resolved.isTemporary,
    open: openOnce,
    async commit(naming, content) {
      const path = resolved.fileOf(naming);
      const { file } = await openOnce();
      try {
        await check(path);
        await file.sync();
        if (!(await hasContent(partPath, content, disk))) throw replacedError(partPath);
        await lease.confirm().catch((cause) => {
          throw new VidgenError("output", `Another process is now writing ${partPath}.`, { cause });
        });
        const isLinked = !overwrite && (await linkVideo(partPath, path, content, disk));
        if (!isLinked) await disk.rename(partPath, path);
        if (!(await hasContent(path, content, disk))) throw replacedError(path);
        // Removes the partial file only if it still belongs to this process. The video is saved even if the partial file stays.
        if (isLinked && (await isStillPart(file))) await disk.rm(partPath).catch(() => {});
        await syncFolder(dirname(path), disk);
      } catch (error) {
        throw outputError(error, path);
      }
      isKept = true;
      return path;
    },
    async release() {
      if (isReleased) return;
      isReleased = true;
      const part = await opened?.catch(() => undefined);
      const hasLease = await lease.confirm().then(
        () => true,
        () => false,
      );
      // If the partial file cannot be removed, a later process of the attempt takes it over.
      if (part && hasLease && !isKept && (await isStillPart(part.file))) await disk.rm(partPath).catch(() => {});
      if (opened === undefined && hasLease) await removeEmpty();
      // The file is closed after the checks, so that its inode is not reused before them.
      await part?.file.close().catch(() => {});
      await lease.release();
      if (resolved.isTemporary) await disk.rm(resolved.folder, { recursive: true, force: true }).catch(() => {});
    },
  };
}

/** As `linkNew`, but accepts an existing file that is this video, saved by another process. */
async function linkVideo(part: string, path: string, content: Content, disk: Disk): Promise<boolean> {
  return linkNew(part, path, disk).catch(async (error) => {
    if (!isExistsError(error) || !(await hasContent(path, content, disk))) throw error;
    return true;
  });
}

function replacedError(path: string): VidgenError {
  const hint = `Move ${path} away, or choose another name with -o.`;
  return new VidgenError("output", `Cannot save the video: another program has replaced ${path}.`, { hint });
}

/** Adds a hint if the folder does not exist. */
function withFolderHint(error: unknown, path: string, platform: string): unknown {
  const folder = dirname(path);
  if (systemCode(error) !== "ENOENT" || folder === ".") return error;
  const line = makeFolderLine(folder, platform === "win32" ? "cmd" : "posix");
  return outputError(error, path).with({
    hint: `Create it first${line === undefined ? "" : ` (${line})`}, or end -o with / to have it created.`,
  });
}
