import { dirname, resolve } from "node:path";
import { usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { hasContent } from "./content.ts";
import type { DatedLine, Entry, PartLine } from "./history.ts";
import type { Hold, Journal } from "./journal.ts";
import type { StartedEntry } from "./ledger/policy.ts";
import { syncFolder } from "./lines.ts";
import { fillWords, type Words } from "./naming.ts";
import { claimOutputPath, findOutputPath, type OutputPathOptions } from "./output-path.ts";
import { wordsOf } from "./save.ts";
import type { Owned, Target } from "./target.ts";
import { type Version, validatorOf } from "./version.ts";

export type ClaimOptions = {
  overwrite?: boolean | undefined;
  /** The generation, where it exists already: then the name of the file is known too. */
  id?: string | undefined;
  /** What the file is named after when the journal does not know the generation. */
  words?: Words | undefined;
  /** The first number to try for `{n}`. */
  first?: number | undefined;
  /** Ends the wait for the lock, and for a process elsewhere that may still write the `.part`. */
  signal?: AbortSignal | undefined;
  /** Takes over a `.part` that an earlier process left, and leaves an unfinished one for a later process. */
  resume?: boolean | undefined;
};

type Claiming = ClaimOptions & {
  /** What the journal knows of the generation. */
  entry: Entry | undefined;
  /** The lease under which the journal has the claim; without one a partial file that exists is left alone. */
  hold: Hold | undefined;
};

/** A claimed place, and the lease under which the journal has the claim. */
export type Claim = Target & {
  hold: Hold | undefined;
  /** The version of its video that the partial file holds the beginning of; `undefined` when it is empty. */
  version: Version | undefined;
};

export type Claims = {
  /**
   * Claims the place for a video. Only inside of the journal's lock. `undefined` while a process elsewhere may still write the partial file:
   * further looks tell, within a minute.
   */
  claim(outputPath: string, claiming: Claiming): Promise<Claim | undefined>;
  /** Claims the place for a video that is paid for already: also where neither the lock nor a lease can be had. */
  claimUnderLock(outputPath: string, claiming: Omit<Claiming, "hold">): Promise<Claim>;
  /** The video of a generation where `outputPath` would save it; `undefined` unless the file there has the content that the journal knows. */
  findSaved(entry: StartedEntry, outputPath: string): Promise<string | undefined>;
};

/** How often a claim looks again at a process elsewhere that may write the same file. */
const lookMs = 1_000;

/** Claims partial files in a way that no other claim writes them too. */
export function createClaims(journal: Omit<Journal, "path">, io: Pick<Io, "date" | "disk" | "sleep" | "uuid">): Claims {
  const { disk } = io;

  /**
   * Writes down whose a partial file is from now on, and what it holds; returns that, or `undefined` for one that must be left alone, and
   * "unsure" where another look will tell.
   */
  async function own(file: string, { exists, id }: { exists: boolean; id?: string | undefined }, claiming: Claiming) {
    const { hold, resume } = claiming;
    const left: Version & Owned = {};
    if (exists) {
      const before = hold && resume ? await journal.findLast((line) => isPart(line, file)) : undefined;
      if (before === undefined) return undefined;
      const lease = before.holder === hold?.name ? "dead" : await journal.leaseOf(before.holder);
      if (lease !== "dead") return lease === "unsure" ? lease : undefined;
      const { ino, size, nlink } = await disk.lstat(file);
      // Another program's file: this one was empty as long as its inode was not written down.
      if (before.inode === undefined ? size > 0 : before.inode !== ino) return undefined;
      const { inode, etag, last_modified, total } = before;
      // A file of two names may be a saved video.
      if (
        nlink < 2 &&
        inode !== undefined &&
        before.id !== undefined &&
        before.id === id &&
        validatorOf(before) !== undefined
      )
        Object.assign(left, { inode, etag, last_modified, total });
      // A new file, because other names may stand for the old one, and a process that was suspended may still write into it.
      else await disk.rm(file);
    }
    // Without this line no later process can take the file over; the video itself does not need it.
    if (hold) await journal.append({ kind: "part", file, id, holder: hold.name, ...left }).catch(() => {});
    return left;
  }

  async function claim(outputPath: string, claiming: Claiming): Promise<Claim | undefined> {
    if (outputPath === "") throw usage("The output path is empty.");
    const { overwrite = false, id, entry, hold, first = 1, resume = false } = claiming;
    const words = entry ? wordsOf(entry) : (claiming.words ?? {});
    const naming = id === undefined ? undefined : { id, ...words };
    /** What was last taken over. */
    let owned: (Version & Owned) | undefined;
    let isUnsure = false;
    const options: OutputPathOptions = {
      overwrite,
      unique: io.uuid(),
      naming,
      words,
      first,
      date: dayOf(entry, io),
      async own(file, found) {
        const taken = await own(file, found, claiming);
        isUnsure = taken === "unsure";
        owned = taken === "unsure" ? undefined : taken;
        return owned;
      },
    };
    const target = await claimOutputPath(outputPath, options, disk).catch((error) => {
      if (isUnsure) return undefined;
      throw error;
    });
    if (!target) return undefined;
    /** Rejects when another process has taken over the file, because this one had stopped for a minute. */
    const confirm = async () => {
      await hold?.confirm().catch((cause) => {
        throw new VidgenError("output", `Another process is now writing ${target.partPath()}.`, { cause });
      });
    };
    return {
      ...target,
      hold,
      version: owned?.inode === undefined ? undefined : owned,
      keep: resume ? target.keep : () => {},
      async settle(settled) {
        // Without the lock the video keeps the temporary name until it is whole.
        await (hold ? journal.lock(() => target.settle(settled)).catch(() => {}) : target.settle(settled));
      },
      commit: async (naming, content) => confirm().then(() => target.commit(naming, content)),
      async release() {
        await confirm().catch(target.keep);
        await target.release();
      },
    };
  }

  return {
    claim,
    async claimUnderLock(outputPath, claiming) {
      const hold = await journal.hold().catch(() => undefined);
      let isLocked = false;
      const claimLocked = () => {
        isLocked = true;
        return claim(outputPath, { ...claiming, hold });
      };
      const claimUnlocked = (error: unknown) => {
        if (isLocked || claiming.signal?.aborted) throw error;
        return claim(outputPath, { ...claiming, hold: undefined });
      };
      try {
        for (;;) {
          const target = await journal.lock(claimLocked, claiming.signal).catch(claimUnlocked);
          if (target) return { ...target, release: () => target.release().finally(() => hold?.release()) };
          await io.sleep(lookMs, claiming.signal);
        }
      } catch (error) {
        await hold?.release();
        throw error;
      }
    },
    async findSaved({ id, ...entry }, outputPath) {
      const { content } = entry;
      // With `{n}` each download gets a new file.
      if (content === undefined || outputPath === "-" || outputPath.includes("{n}")) return undefined;
      const words = wordsOf(entry);
      const file = await findOutputPath(fillWords(outputPath, words, dayOf(entry, io)), { id, ...words }, disk);
      if (!(await hasContent(file, content, disk))) return undefined;
      // A process may have died between the rename of its partial file and this line.
      if (entry.file === undefined) {
        await syncFolder(dirname(file), disk);
        await journal.append({ kind: "delivered", id, file: resolve(file), ...content }).catch(() => {});
      }
      return file;
    },
  };
}

function isPart(line: DatedLine, file: string): line is DatedLine & PartLine {
  return line.kind === "part" && line.file === file;
}

/** The UTC day when the generation was started, today without one: `{date}` is the same in each process that saves it. */
function dayOf(entry: Pick<Entry, "at"> | undefined, io: Pick<Io, "date">): string {
  return (entry?.at ?? io.date().toISOString()).slice(0, 10);
}
