import { resolve } from "node:path";
import { usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import type { Started } from "./attempts.ts";
import type { DatedLine, Entry, PartLine, SavedLine } from "./history.ts";
import type { Hold, Journal } from "./journal.ts";
import { fillWords, type Words } from "./naming.ts";
import { claimPlace, findPlace, type PlaceOptions } from "./place.ts";
import { wordsOf } from "./save.ts";
import type { Target } from "./target.ts";
import { type Version, validatorOf } from "./version.ts";

export type ClaimOptions = {
  overwrite?: boolean | undefined;
  /** The generation, where it exists already: then the name of the file is known too. */
  id?: string | undefined;
  /** What the file is named after when the journal does not know the generation. */
  words?: Words | undefined;
  /** The first number to try for `{n}`. */
  first?: number | undefined;
  /** Takes over a `.part` that an earlier process left, and leaves an unfinished one for a later process. */
  resume?: boolean | undefined;
};

type Claiming = ClaimOptions & {
  /** What the journal knows of the generation. */
  entry: Entry | undefined;
  /** The lease under which the journal has the claim; without one a partial file that exists is left alone. */
  hold: Hold | undefined;
};

export type Claims = {
  /** The client's lease: one for all that it holds at a time, since a command may follow a thousand generations. */
  hold(): Promise<Hold>;
  /** Claims the place for a video. Only inside of the journal's lock. */
  claim(place: string, claiming: Claiming): Promise<Target>;
  /** Claims the place for a video that is paid for already: also where neither the lock nor a lease can be had. */
  claimUnderLock(place: string, claiming: Omit<Claiming, "hold">): Promise<Target>;
  /** The video of a generation where `place` would save it; `undefined` unless the journal says that the file there is this one's. */
  findSaved(entry: Started, place: string): Promise<string | undefined>;
  /** The version of its video that a claimed partial file holds the beginning of; `undefined` when it holds nothing that can be gone on with. */
  versionIn(target: Target): Promise<Version | undefined>;
};

/** The claims of one client: which partial files it writes, in a way that no other process writes them too. */
export function createClaims(journal: Omit<Journal, "path">, io: Pick<Io, "date" | "disk" | "uuid">): Claims {
  const { disk } = io;
  /** The partial files of this client, and what each one held when it was claimed. */
  const parts = new Map<string, Version & { inode?: number | undefined }>();

  /** Whether this client may write a partial file; if so, writes down whose it is from now on. */
  async function own(file: string, found: { exists: boolean; id?: string | undefined }, { hold, resume }: Claiming) {
    if (parts.has(file)) return false;
    const before = found.exists && hold ? await journal.findLast((line) => isPart(line, file)) : undefined;
    const isFree = async (holder: string) => holder === hold?.holder || !(await journal.isHeld(holder));
    if (found.exists && !(resume && before && (await isFree(before.holder)))) return false;
    const isIts = before?.id !== undefined && before.id === found.id && before.inode === (await disk.lstat(file)).ino;
    const isResumable = isIts && validatorOf(before) !== undefined;
    // A new file, because other names may stand for the old one, and a process that was suspended may still write into it.
    if (found.exists && !isResumable) await disk.rm(file);
    const { etag, last_modified, total, inode } = isResumable ? before : {};
    const version = { etag, last_modified, total, inode };
    // Without this line no later process can take the file over; the video itself does not need it.
    if (hold)
      await journal.append({ kind: "part", file, id: found.id, holder: hold.holder, ...version }).catch(() => {});
    parts.set(file, version);
    return true;
  }

  async function claim(place: string, claiming: Claiming): Promise<Target> {
    if (place === "") throw usage("The output path is empty.");
    const { overwrite = false, id, entry, hold, first = 1, resume = false } = claiming;
    const words = entry ? wordsOf(entry) : (claiming.words ?? {});
    const naming = id === undefined ? undefined : { id, ...words };
    /** Every partial file of this claim, also one that could not be opened then. */
    const owned = new Set<string>();
    const disown = (except?: string) => {
      for (const file of owned) if (file !== except && owned.delete(file)) parts.delete(file);
    };
    const options: PlaceOptions = {
      overwrite,
      unique: io.uuid(),
      naming,
      words,
      first,
      date: dayOf(entry, io),
      async own(file, found) {
        const isOwn = await own(file, found, claiming);
        if (isOwn) owned.add(file);
        return isOwn;
      },
    };
    const target = await claimPlace(place, options, disk).catch((error) => {
      disown();
      throw error;
    });
    disown(target.partPath());
    /** Rejects when another process has taken over the file, because this one had stopped for a minute. */
    const confirm = async () => {
      await hold?.confirm().catch((cause) => {
        throw new VidgenError("output", `Another process is now writing ${target.partPath()}.`, { cause });
      });
    };
    return {
      ...target,
      keep: resume ? target.keep : () => {},
      async settle(settled) {
        // Without the lock the video keeps the temporary name until it is whole.
        await (hold ? journal.lock(() => target.settle(settled)).catch(() => {}) : target.settle(settled));
        disown(target.partPath());
      },
      commit: async (naming) => confirm().then(() => target.commit(naming)),
      async release() {
        await confirm().catch(target.keep);
        await target.release().finally(disown);
      },
    };
  }

  const acquireHold = shareHold(journal);

  return {
    hold: acquireHold,
    claim,
    async claimUnderLock(place, claiming) {
      const hold = await acquireHold().catch(() => undefined);
      let isLocked = false;
      const claimLocked = () => {
        isLocked = true;
        return claim(place, { ...claiming, hold });
      };
      const claimUnlocked = (error: unknown) => {
        if (isLocked) throw error;
        return claim(place, { ...claiming, hold: undefined });
      };
      try {
        const target = await journal.lock(claimLocked).catch(claimUnlocked);
        return { ...target, release: () => target.release().finally(() => hold?.release()) };
      } catch (error) {
        await hold?.release();
        throw error;
      }
    },
    async findSaved({ id, ...entry }, place) {
      // With `{n}` each download gets a new file.
      if (place === "-" || place.includes("{n}")) return undefined;
      const words = wordsOf(entry);
      const file = await findPlace(fillWords(place, words, dayOf(entry, io)), { id, ...words }, disk);
      const found = await disk.stat(file).catch(() => undefined);
      if (!found?.isFile()) return undefined;
      const path = resolve(file);
      // The newest line about the file tells whose it is. A process may have died between the rename of its partial file and that line.
      const isAbout = (line: DatedLine): line is DatedLine & (PartLine | SavedLine) =>
        isPart(line, `${path}.part`) ? line.inode === found.ino : line.kind === "saved" && line.file === path;
      const last = await journal.findLast(isAbout);
      const size = last?.kind === "part" ? last.total : last?.size;
      if (last?.id !== id || (size ?? found.size) !== found.size) return undefined;
      if (last.kind === "part")
        await journal.append({ kind: "saved", id, file: path, size: found.size }).catch(() => {});
      return file;
    },
    async versionIn(target) {
      const version = parts.get(target.partPath());
      return version?.inode === (await target.part.stat()).ino ? version : undefined;
    },
  };
}

function isPart(line: DatedLine, file: string): line is DatedLine & PartLine {
  return line.kind === "part" && line.file === file;
}

/** Acquires one lease for all that is held at the same time. */
function shareHold(journal: Pick<Journal, "hold">): () => Promise<Hold> {
  let shared: Promise<Hold> | undefined;
  let users = 0;
  const leave = async () => {
    users--;
    if (users > 0) return;
    const last = await shared?.catch(() => undefined);
    shared = undefined;
    await last?.release();
  };
  return async () => {
    users++;
    shared ??= journal.hold();
    let isReleased = false;
    const release = async () => {
      if (isReleased) return;
      isReleased = true;
      await leave();
    };
    try {
      return { ...(await shared), release };
    } catch (error) {
      await release();
      throw error;
    }
  };
}

/** The UTC day when the generation was started, today without one: `{date}` is the same in each process that saves it. */
function dayOf(entry: Pick<Entry, "at"> | undefined, io: Pick<Io, "date">): string {
  return (entry?.at ?? io.date().toISOString()).slice(0, 10);
}
