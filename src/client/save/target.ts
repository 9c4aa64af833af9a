import { basename, dirname, join, resolve } from "node:path";
import { systemCode, VidgenError } from "../../errors.ts";
import type { Disk, DiskFile, Io } from "../../io.ts";
import { type Acquired, type Lease, type LeaseIo, readHolder, tryLease, type Watch } from "../../lease.ts";
import type { WireGeneration } from "../../protocol/schema.ts";
import { fillIn, fillWords, type Naming, type Words } from "../../video/naming.ts";
import { type Content, hasContent } from "../ledger/content.ts";
import type { DatedLine, Entry, PartLine } from "../ledger/history.ts";
import { findRealPath } from "../ledger/identity.ts";
import type { Journal } from "../ledger/journal.ts";
import { syncFolder } from "../ledger/lines.ts";
import type { StartedEntry } from "../ledger/policy.ts";
import { findLine } from "../ledger/search.ts";
import { type Version, validatorOf } from "../ledger/version.ts";
import { checkFree, isExistsError, kindOf, linkNew, outputError, unmakeableError } from "./files.ts";
import { createKept } from "./kept.ts";
import {
  findOutputPath,
  findPlace,
  infoPath,
  isPartOf,
  leaseOfPart,
  lookForPlace,
  type Place,
  partOf,
  placeOfPart,
} from "./output-path.ts";

/** A place for a video that no other process writes to until it is released. */
export type Target = {
  /** `-o` for the command that resumes this one. */
  outputPath: string;
  /** The partial file, which is opened later; `undefined` for "-". */
  partPath: string | undefined;
  /** Aborts when another process has taken over the place, because this one was suspended for a minute. */
  lost: AbortSignal;
  /**
   * Opens the partial file, once: the one that an earlier process of the attempt has left, where its download can be resumed, else a new one.
   * Throws `output`.
   */
  open(): Promise<PartialFile>;
  /**
   * Gives the finished partial file, which has this content, the path of the video, and returns that. Throws `output` when such a file has
   * appeared meanwhile, or when another program has replaced the partial file.
   */
  commit(naming: Naming, content: Content): Promise<string>;
  /** Lets others have the place. Leaves the partial file where its download can be resumed. Does nothing the second time. */
  release(): Promise<void>;
};

export type PartialFile = {
  file: DiskFile;
  /** The version of the video that it holds the beginning of; `undefined` when it is empty. */
  version: Version | undefined;
  /** Writes down which version it holds from here on; called while it is empty. */
  begin(version: Version): Promise<void>;
};

export type ClaimOptions = {
  overwrite?: boolean | undefined;
  /** The generation, where it exists already: then the name of the file is known too. */
  id?: string | undefined;
  /** The attempt that the video is of; by default the one that the journal knows. */
  attempt?: string | undefined;
  /** What the file is named after when the journal does not know the generation. */
  words?: Words | undefined;
  /** The first number to try for `{n}`, unless an earlier process has claimed one for the video. */
  first?: number | undefined;
  /** The partial files of other videos whose names `{n}` does not give again, even where such a file is gone by now. */
  taken?: readonly string[] | undefined;
  /** Files of the start itself that its video must not replace, such as its images. */
  kept?: readonly string[] | undefined;
  /** Whether an info file is to be written beside the video: it replaces no more than that. */
  infoJson?: boolean | undefined;
};

type Claiming = ClaimOptions & {
  /** What the journal knows of the generation. */
  entry?: Entry | undefined;
};

/** Where a video of an earlier process or attempt is, or this one's place for it. */
export type Claimed = { target: Target; file?: undefined } | { target?: undefined; file: string };

export type Targets = {
  /**
   * Claims a place for a video: with `{n}` the first number that is free. `undefined` while another process has it, or may have it: further
   * looks tell. Throws `usage`, and `output` where nothing can be written or such a file exists.
   */
  claim(outputPath: string, claiming: Claiming): Promise<Target | undefined>;
  /** Whether another process has a file, or may have it: cheaper to ask than a claim. Changes nothing. Throws as `claim` does. */
  isHeld(outputPath: string, words: Words): Promise<boolean>;
  /**
   * The video of a generation where `outputPath` would save it; `undefined` unless the file there has the content that the journal knows. With
   * `{n}` only one that was saved and not written down: each further download gets a new file. `first` as for a claim.
   */
  findSaved(entry: StartedEntry, outputPath: string, first?: number): Promise<string | undefined>;
  /** Writes down where the video of a generation was found, unless the journal knows of a place. Never rejects. */
  recordSaved(entry: StartedEntry, file: string): Promise<void>;
  /** Whether another process saves the video of an attempt, or may do so. Changes nothing. */
  isWritten(attempt: Pick<Entry, "parts">): Promise<boolean>;
  /** Removes the partial files of an attempt that nobody writes any more. Never rejects. */
  clear(attempt: Pick<Entry, "parts">): Promise<void>;
};

type TargetIo = LeaseIo & Pick<Io, "disk">;

/**
 * `journal` has which version a partial file holds: without one no later process resumes a download. `kept` are files and folders that no video
 * replaces.
 */
export function createTargets(
  journal: Pick<Journal, "append" | "scan"> | undefined,
  io: TargetIo,
  kept: readonly string[] = [],
): Targets {
  const { disk } = io;
  const checkKept = createKept(kept, disk);
  const watch: Watch = new Map();

  const findPartLine = async (part: string): Promise<Found | undefined> =>
    journal && findLine(journal, (line) => isPart(line, part)).catch(() => undefined);

  /** Removes a partial file that a dead process has left, under its lease. Never rejects. */
  async function removeLeft(part: string): Promise<void> {
    const found = await disk.lstat(part).catch(() => undefined);
    const line = found && (await findPartLine(part));
    if (found && line && isOurs(found, line)) await disk.rm(part).catch(() => {});
  }

  /** The same for those of other attempts at a file. */
  async function removeOthers(file: string, own: string): Promise<void> {
    const folder = dirname(own);
    for (const name of await disk.readdir(folder).catch(() => []))
      if (isPartOf(name, file) && name !== basename(own)) await removeLeft(join(folder, name));
  }

  async function claimPlace(place: Place, claiming: Claiming & { words: Words }): Promise<Target | undefined> {
    const { overwrite = false, id, words, entry, attempt = entry?.attempt } = claiming;
    const { folder } = place;
    const path = place.file ?? (id === undefined ? undefined : place.fileOf({ id, ...words }));
    const checkOwn = createKept(claiming.kept ?? [], disk);
    const check = async (file: string) => {
      for (const path of claiming.infoJson ? [file, infoPath(file)] : [file]) {
        await checkKept(path);
        await checkOwn(path);
      }
    };
    if (path !== undefined) await check(path);
    // By the real folder: the journal knows the partial file by this path, whatever links `-o` goes through.
    const real = await findRealPath(folder, disk);
    const partPath = partOf({ ...place, folder: real }, attempt ?? id ?? "");
    if (path !== undefined) await checkFree(path, overwrite, disk);
    await disk.access(folder, disk.constants.W_OK).catch((error) => {
      throw withFolderHint(error, path ?? folder);
    });
    const acquired = await tryLease(leaseOfPart(partPath), io, watch).catch((error) => {
      throw systemCode(error) === "ENOENT" ? unmakeableError(path ?? folder, error) : error;
    });
    if (acquired.kind === "held") return undefined;
    const { lease, from } = acquired;
    try {
      // The process that had the place may have saved the video since the first check.
      if (path !== undefined) await checkFree(path, overwrite, disk);
      if (from !== "nobody" && place.file !== undefined) await removeOthers(place.file, partPath);
    } catch (error) {
      await lease.release();
      throw error;
    }
    const owner = attempt === undefined ? { id: id ?? "" } : { attempt };
    const record = async (found: Found) => {
      if (place.isTemporary || journal === undefined) return false;
      return journal.append({ kind: "part", file: partPath, ...owner, ...found }).then(
        () => true,
        () => false,
      );
    };
    // By this line whoever ends the attempt finds what this process leaves when it is killed. A new one has it in its intent.
    if (entry && !entry.parts?.includes(partPath)) await record({});
    const findOwnLine = () => findPartLine(partPath);
    return createTarget(place, { partPath, lease, from, overwrite, check, findLine: findOwnLine, record }, disk);
  }

  /**
   * The number that an earlier process of the attempt claimed for the video; `undefined` where there is none, where it is delivered, and where the
   * name depends on the id too: then the name of a partial file does not tell.
   */
  async function findNumber(place: string, { parts = [], file }: Omit<Entry, "id">): Promise<number | undefined> {
    if (!place.includes("{n}") || file !== undefined) return undefined;
    const pattern = await findRealPath(place, disk);
    const [before = ""] = pattern.split("{n}");
    for (const part of parts) {
      const claimed = placeOfPart(part);
      const [n = ""] = /^\d+/.exec(claimed.slice(before.length)) ?? [];
      if (fillNumber(pattern, Number(n)) === claimed) return Number(n);
    }
    return undefined;
  }

  /** The places where the video of an attempt may be saved and not written down. */
  async function* listNames(place: string, entry: Omit<Entry, "id">, first: number): AsyncGenerator<string, undefined> {
    if (!place.includes("{n}")) return void (yield place);
    if (entry.file !== undefined) return undefined;
    const own = await findNumber(place, entry);
    if (own !== undefined) yield fillNumber(place, own);
    // Those with a lower number are of this generation too.
    if (place.includes("{id}")) for (const n of numbersFrom(first)) yield fillNumber(place, n);
    return undefined;
  }

  return {
    async claim(outputPath, claiming) {
      const { entry, first = 1 } = claiming;
      const words = entry ? wordsOf(entry) : (claiming.words ?? {});
      const how = { words, date: dayOf(entry, io), unique: io.uuid() };
      const own = entry && (await findNumber(fillWords(outputPath, words, how.date), entry));
      const taken = new Set(claiming.taken?.map(placeOfPart));
      for (const n of numbersFrom(first, own)) {
        const place = await findPlace(outputPath, { ...how, n }, disk);
        if (place === undefined) continue;
        const isNumbered = place.outputPath !== outputPath;
        if (isNumbered && place.file !== undefined && taken.has(await findRealPath(place.file, disk))) continue;
        try {
          const target = await claimPlace(place, { ...claiming, words });
          if (target || !isNumbered) return target;
        } catch (error) {
          // Each number gets a new file.
          if (!isNumbered || !isExistsError(error)) throw outputError(error, place.file ?? outputPath);
        }
      }
      throw new Error("there is always another number");
    },
    async isHeld(outputPath, words) {
      // With `{n}` another number is free, and "-" is nobody else's.
      if (outputPath === "-" || outputPath.includes("{n}")) return false;
      const place = await lookForPlace(outputPath, { words, date: dayOf(undefined, io), n: 1, unique: "" }, disk);
      if (place?.file === undefined) return false;
      const holder = await readHolder(leaseOfPart(partOf(place, "")), io, watch).catch((error) => {
        throw outputError(error, outputPath);
      });
      return holder !== undefined;
    },
    async findSaved({ id, ...entry }, outputPath, first = 1) {
      const { content } = entry;
      if (content === undefined || outputPath === "-") return undefined;
      const words = wordsOf(entry);
      for await (const name of listNames(fillWords(outputPath, words, dayOf(entry, io)), entry, first)) {
        const file = await findOutputPath(name, { id, ...words }, disk).catch((error) => {
          throw outputError(error, name);
        });
        if (await hasContent(file, content, disk)) return file;
        if ((await kindOf(file, disk)) === "none") return undefined;
      }
      return undefined;
    },
    async recordSaved({ id, content, file: known }, file) {
      // A process may have died between the rename of its partial file and this line.
      if (known !== undefined || content === undefined) return;
      await syncFolder(dirname(file), disk);
      await journal?.append({ kind: "delivered", id, file: resolve(file), ...content }).catch(() => {});
    },
    async isWritten({ parts = [] }) {
      const holders = await Promise.all(parts.map((part) => readHolder(leaseOfPart(part), io, watch).catch(() => {})));
      return holders.some((holder) => holder !== undefined);
    },
    async clear({ parts = [] }) {
      for (const part of parts) {
        const lease = leaseOfPart(part);
        // A process may have died before it made the partial file.
        const left = await disk.lstat(part).catch(() => disk.lstat(lease).catch(() => undefined));
        const acquired = left && (await tryLease(lease, io, watch).catch(() => undefined));
        if (acquired?.kind !== "acquired") continue;
        await removeLeft(part);
        await acquired.lease.release();
      }
    },
  };
}

function fillNumber(template: string, n: number): string {
  return fillIn(template, new Map([["n", String(n)]]));
}

/** The numbers from the first one on, after the one that a video has claimed. */
function* numbersFrom(first: number, own?: number): Generator<number, undefined> {
  if (own !== undefined) yield own;
  for (let n = first; ; n++) if (n !== own) yield n;
}

function isPart(line: DatedLine, file: string): line is DatedLine & PartLine {
  return line.kind === "part" && line.file === file;
}

/** The UTC day when the generation was started, today without one: `{date}` is the same in each process that saves it. */
function dayOf(entry: Pick<Entry, "at"> | undefined, io: Pick<Io, "date">): string {
  return (entry?.at ?? io.date().toISOString()).slice(0, 10);
}

/** The prompt and the model that a file is named after: from the journal, else as the service reports them. */
export function wordsOf(entry: Pick<Entry, "request"> | undefined, generation?: WireGeneration): Words {
  const prompt = entry?.request.prompt ?? generation?.prompt ?? undefined;
  return { prompt, model: entry?.request.model ?? generation?.model ?? undefined };
}

type From = (Acquired & { kind: "acquired" })["from"];

/** Whether a process of vidgen has made the file, and not another program. */
function isOurs({ ino, size }: { ino: number; size: number }, line: Found): boolean {
  return line.inode === undefined ? size === 0 : line.inode === ino;
}

/** What the journal has of a partial file; without an inode it is empty. */
type Found = Version & { inode?: number | undefined };

type Held = {
  partPath: string;
  lease: Lease;
  /** Who has left the place without a release. */
  from: From;
  overwrite: boolean;
  /** Throws `output` for a path at which a file must stay. */
  check(path: string): Promise<void>;
  /** What the journal has of the partial file; `undefined` when it was never written down, or cannot be read. */
  findLine(): Promise<Found | undefined>;
  /** Writes that down; false where it cannot be written. Never rejects. */
  record(found: Found): Promise<boolean>;
};

function createTarget(place: Place, held: Held, disk: Disk): Target {
  const { partPath, lease, from, overwrite, check, findLine, record } = held;
  let opened: Promise<PartialFile> | undefined;
  /** Whether a release leaves the partial file: its download can be resumed, or it has the name of the video now. */
  let isKept = false;
  let isOver = false;

  function openOnce(): Promise<PartialFile> {
    opened ??= open();
    return opened;
  }

  async function open(): Promise<PartialFile> {
    const { file, version } = await openPart().catch((error) => {
      throw outputError(error, place.file ?? place.outputPath);
    });
    isKept = version !== undefined;
    const begin = async (found: Version) => {
      isKept = false;
      const { ino: inode } = await file.stat();
      // What is not written down cannot be resumed: then a later process starts again.
      isKept = (await record({ ...found, inode })) && validatorOf(found) !== undefined;
    };
    return { file, version, begin };
  }

  async function openPart(): Promise<Pick<PartialFile, "file" | "version">> {
    const look = () => disk.lstat(partPath).catch(() => undefined);
    const line = (await look()) && (await findLine());
    // Looked at again: another program may have put a file of its own there meanwhile.
    const found = await look();
    if (found) {
      if (line === undefined || !isOurs(found, line))
        throw Object.assign(new Error("exists"), { code: "EEXIST", path: partPath });
      // A file of two names may be a saved video, and a process elsewhere that was suspended may still write for some seconds.
      const isResumed = found.nlink === 1 && from !== "elsewhere" && validatorOf(line) !== undefined;
      if (isResumed) return { file: await disk.open(partPath, "r+"), version: line };
      await disk.rm(partPath);
    }
    // Before the file, so that a later process knows whose it is.
    await record({});
    return { file: await disk.open(partPath, "wx+", 0o666), version: undefined };
  }

  /** Whether the name of the partial file still stands for this open file. */
  async function isThere(file: DiskFile): Promise<boolean> {
    const [found, own] = await Promise.all([disk.lstat(partPath), file.stat()]).catch(() => []);
    return found !== undefined && found.ino === own?.ino;
  }

  /** Removes the partial file that a process before this one made and wrote nothing to. */
  async function removeEmpty(): Promise<void> {
    const found = await disk.lstat(partPath).catch(() => undefined);
    const line = found?.size === 0 ? await findLine() : undefined;
    if (found && line && isOurs(found, line)) await disk.rm(partPath).catch(() => {});
  }

  return {
    outputPath: place.outputPath,
    partPath: place.isTemporary ? undefined : partPath,
    lost: lease.lost,
    open: openOnce,
    async commit(naming, content) {
      const path = place.fileOf(naming);
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
        // Another program may have put a file of its own there since. The video is saved, also where its first name stays.
        if (isLinked && (await isThere(file))) await disk.rm(partPath).catch(() => {});
        await syncFolder(dirname(path), disk);
      } catch (error) {
        throw outputError(error, path);
      }
      isKept = true;
      return path;
    },
    async release() {
      if (isOver) return;
      isOver = true;
      const part = await opened?.catch(() => undefined);
      const isHeld = await lease.confirm().then(
        () => true,
        () => false,
      );
      // Left where the system refuses to remove it: nothing is lost by that, and a later process of the attempt takes it over.
      if (part && isHeld && !isKept && (await isThere(part.file))) await disk.rm(partPath).catch(() => {});
      if (opened === undefined && isHeld) await removeEmpty();
      // Closed last: until then no other file can have its inode.
      await part?.file.close().catch(() => {});
      await lease.release();
      if (place.isTemporary) await disk.rm(place.folder, { recursive: true, force: true }).catch(() => {});
    },
  };
}

/** As `linkNew`. A file there that is this very video, which another process has saved, is as good. */
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

/** Adds a hint for a file whose folder does not exist. */
function withFolderHint(error: unknown, path: string): unknown {
  const folder = dirname(path);
  if (systemCode(error) !== "ENOENT" || folder === ".") return error;
  // The command is left out when a shell would not read the name literally.
  const command = /^[\w./][\w@%+=:,./-]*$/.test(folder) ? ` (mkdir -p ${folder})` : "";
  return outputError(error, path).with({
    hint: `Create it first${command}, or end -o with / to have it created.`,
  });
}
