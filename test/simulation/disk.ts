import { constants } from "node:fs";
import { posix } from "node:path";
import type { Random } from "../faults/random.ts";

/** A file, a folder or a symbolic link. */
type Inode = {
  ino: number;
  kind: "file" | "folder" | "link";
  mtimeMs: number;
  birthtimeMs: number;
  /** Of a file: its bytes, with room at the end. */
  bytes: Buffer;
  size: number;
  entries: Map<string, Inode>;
  target: string;
  /** What a crash leaves of a file whatever happens; `undefined` when nothing was written since. */
  durable: Buffer | undefined;
  /** Of a folder: the changes that a crash may undo, the oldest first. */
  changes: { name: string; before: Inode | undefined; after: Inode | undefined }[][];
  /** Whose unsynced bytes a file holds. */
  dirtyBy: string | undefined;
};

export type Stat = {
  ino: number | bigint;
  size: number | bigint;
  /** How many names it has. */
  nlink: number | bigint;
  mtimeMs: number;
  birthtimeMs: number;
  isFile(): boolean;
  isDirectory(): boolean;
  isSymbolicLink(): boolean;
};

export type StatOptions = { bigint?: boolean };

export type Handle = {
  fd: number;
  inode: Inode;
  path: string;
  appends: boolean;
  isOpen: boolean;
  isForReading: boolean;
  /** Where the next reading without a position begins. */
  at: number;
};

/** Who writes: a process on a machine. */
export type Writer = { name: string; computer: { name: string } };

/** What one process has written to the disk, or could not do there, for whoever watches. */
export type Change =
  | { kind: "write"; path: string; bytes: Buffer; at: number }
  /** `before` is what had the name until then. */
  | { kind: "name"; path: string; bytes: Buffer; before: Buffer | undefined }
  | Failed;

/** A call that has failed; `bytes` are those that it was to write. */
type Failed = { kind: "failed"; code: string; call: DiskCall; path: string; bytes: Buffer };

/** The calls of a disk, by why they may fail. */
export type DiskCall =
  | "look"
  | "open"
  | "create"
  | "read"
  | "write"
  | "sync"
  | "close"
  | "truncate"
  | "touch"
  | "mkdir"
  | "link"
  | "rename"
  | "remove";

const allCalls: readonly DiskCall[] = [
  "look",
  "open",
  "create",
  "read",
  "write",
  "sync",
  "close",
  "truncate",
  "touch",
  "mkdir",
  "link",
  "rename",
  "remove",
];

type DiskFailure = { code: string; calls: readonly DiskCall[] };

/** How a disk may fail, and which of its calls then do. The keys are the words of the story: "the disk ...". */
const diskFailures: Readonly<Record<string, DiskFailure>> = {
  "is full (ENOSPC)": { code: "ENOSPC", calls: ["create", "write", "sync", "mkdir", "link", "rename"] },
  "has errors (EIO)": { code: "EIO", calls: allCalls },
  "keeps nothing (EDQUOT)": { code: "EDQUOT", calls: ["sync"] },
  "gives no permission (EACCES)": {
    code: "EACCES",
    calls: ["look", "open", "create", "touch", "mkdir", "link", "rename", "remove"],
  },
  "opens no more files (EMFILE)": { code: "EMFILE", calls: ["open", "create"] },
  "writes half": { code: "short", calls: ["write"] },
  "is several devices (EXDEV)": { code: "EXDEV", calls: ["link", "rename"] },
  "removes nothing (EPERM)": { code: "EPERM", calls: ["remove"] },
  "removes nothing (EBUSY)": { code: "EBUSY", calls: ["remove", "rename"] },
};

export const diskFailureNames = Object.keys(diskFailures);

/** The part of the disk that fails. */
const diskParts: Readonly<Record<string, RegExp>> = {
  everywhere: /^/,
  "in the home folder": /^\/home\//,
  "in the work folder": /^\/films(\/|$)/,
  "at the journal": /\/journal\.jsonl$/,
  "at the results files": /\.results\.jsonl$/,
  "at locks and leases": /\.(lock|leases)(\/|\.|$)/,
  "at partial files": /\.part$/,
};

export const diskPartNames = Object.keys(diskParts);

export type DiskFault = { does: string; where: string };

/**
 * The calls of `Disk` in `src/io.ts`, but synchronous: `machine.ts` decides when each takes effect. As on Linux: names stand for inodes, an open
 * file keeps its inode, and a folder is renamed only over an empty one.
 *
 * Not memfs 4.80, whose inodes are right: it renames a folder over a full one and a file over a folder, which is how two processes get one
 * lease, and links over a file that exists, which is how a video is replaced. Its times are those of the real clock, and nothing that was not
 * synced is ever lost.
 */
export type SimulatedDisk = ReturnType<typeof createDisk>;

export function createDisk(now: () => number) {
  let inodes = 0;
  let fds = 10;
  const handles = new Map<number, Handle>();
  const create = (kind: Inode["kind"]): Inode => ({
    ino: ++inodes,
    kind,
    mtimeMs: now(),
    birthtimeMs: now(),
    bytes: noBytes,
    size: 0,
    entries: kind === "folder" ? new Map() : noEntries,
    target: "",
    durable: kind === "file" ? noBytes : undefined,
    changes: [],
    dirtyBy: undefined,
  });
  const root = create("folder");
  let faults: { failure: DiskFailure; part: RegExp; until: number; only: string | undefined }[] = [];
  const watchers: ((change: Change, who: Writer) => void)[] = [];
  const tell = (change: Change, who: Writer) => {
    for (const watch of watchers) watch(change, who);
  };

  /** The folder and the name that a path stands for, all links but the last one followed. */
  const locate = (path: string, depth = 0): { folder: Inode; name: string } => {
    if (depth > 8) throw failure("ELOOP", path);
    const { names, last } = partsOf(path);
    let folder = root;
    for (let index = 0; index < names.length; index++) {
      const found = folder.entries.get(names[index] ?? "");
      if (found === undefined) throw failure("ENOENT", path);
      if (found.kind === "link") return locate(posix.join(found.target, ...names.slice(index + 1), last), depth + 1);
      if (found.kind !== "folder") throw failure("ENOTDIR", path);
      folder = found;
    }
    return { folder, name: last };
  };
  const find = (path: string, follows = true, depth = 0): Inode | undefined => {
    const { folder, name } = locate(path);
    const found = name === "" ? folder : folder.entries.get(name);
    if (found?.kind !== "link" || !follows) return found;
    if (depth > 8) throw failure("ELOOP", path);
    return find(found.target, true, depth + 1);
  };
  const need = (path: string, follows = true): Inode => {
    const found = find(path, follows);
    if (found === undefined) throw failure("ENOENT", path);
    return found;
  };
  /** One change of a folder, of one or two names: a crash keeps all of it or nothing. */
  const change = (folder: Inode, ...names: [string, Inode | undefined][]) => {
    const changed = names.map(([name, after]) => ({ name, before: folder.entries.get(name), after }));
    for (const [name, after] of names) {
      if (after) folder.entries.set(name, after);
      else folder.entries.delete(name);
    }
    folder.changes.push(changed);
  };
  const countNames = (inode: Inode, folder = root): number =>
    [...folder.entries.values()].reduce((sum, each) => sum + (each === inode ? 1 : countNames(inode, each)), 0);
  const statOf = (inode: Inode, { bigint = false } = {}): Stat => ({
    ...(bigint
      ? { ino: BigInt(inode.ino), size: BigInt(inode.size), nlink: BigInt(countNames(inode)) }
      : { ino: inode.ino, size: inode.size, nlink: countNames(inode) }),
    mtimeMs: inode.mtimeMs,
    birthtimeMs: inode.birthtimeMs,
    isFile: () => inode.kind === "file",
    isDirectory: () => inode.kind === "folder",
    isSymbolicLink: () => inode.kind === "link",
  });
  const contentOf = (inode: Inode) => inode.bytes.subarray(0, inode.size);
  const write = (handle: Handle, bytes: Buffer, position: number | null, who: Writer): number => {
    const { inode } = handle;
    if (!handle.isOpen) throw failure("EBADF", handle.path);
    keepDurable(inode, who);
    const start = handle.appends || position === null ? inode.size : position;
    const end = start + bytes.length;
    if (end > inode.bytes.length) {
      const grown = Buffer.alloc(Math.max(2 * inode.bytes.length, end, 256));
      inode.bytes.copy(grown, 0, 0, inode.size);
      inode.bytes = grown;
    }
    bytes.copy(inode.bytes, start);
    inode.size = Math.max(inode.size, end);
    inode.mtimeMs = now();
    tell({ kind: "write", path: handle.path, bytes, at: start }, who);
    return bytes.length;
  };
  const keepDurable = (inode: Inode, who: Writer) => {
    if (inode.dirtyBy === undefined) inode.durable = Buffer.from(contentOf(inode));
    const { name } = who.computer;
    inode.dirtyBy = inode.dirtyBy === undefined || inode.dirtyBy === name ? name : "several";
  };
  const named = (path: string, { inode, old }: { inode: Inode; old?: Inode | undefined }, who: Writer) => {
    if (inode.kind !== "file") return;
    tell({ kind: "name", path, bytes: contentOf(inode), before: old && contentOf(old) }, who);
  };

  /** Whether a call of a process fails: the code of its error, or "short" for a write of half of the bytes. */
  const findFault = (call: DiskCall, paths: readonly string[], who: Writer): string | undefined => {
    faults = faults.filter(({ until }) => until > now());
    const found = faults.find(
      ({ failure, part, only }) =>
        failure.calls.includes(call) &&
        paths.some((path) => part.test(path)) &&
        (only === undefined || only === who.name),
    );
    if (found === undefined) return undefined;
    if (found.only !== undefined) faults = faults.filter((each) => each !== found);
    return found.failure.code;
  };

  return {
    constants,
    /** From now on the disk fails for so long, for everybody; for 0 ms: once, for one process. */
    fail({ does, where }: DiskFault, ms: number, who: Writer) {
      const [failure, part] = [diskFailures[does], diskParts[where]];
      if (failure === undefined || part === undefined) throw new Error(`no such failure: ${does} ${where}`);
      const isOnce = ms === 0;
      const until = isOnce ? Number.POSITIVE_INFINITY : now() + ms;
      faults.push({ failure, part, until, only: isOnce ? who.name : undefined });
    },
    heal() {
      faults = [];
    },
    /** Throws where a call fails. Returns how many of the bytes it may write. */
    check(call: DiskCall, paths: readonly string[], who: Writer, bytes: Buffer = noBytes): number {
      const code = faults.length === 0 ? undefined : findFault(call, paths, who);
      if (code === undefined) return bytes.length;
      const [path = ""] = paths;
      tell({ kind: "failed", code, call, path, bytes }, who);
      if (code === "short") return Math.ceil(bytes.length / 2);
      throw failure(code, path);
    },
    exists: (path: string): boolean => {
      try {
        return find(path) !== undefined;
      } catch {
        return false;
      }
    },
    watch: (watcher: (change: Change, who: Writer) => void) => void watchers.push(watcher),
    access(path: string) {
      need(path);
    },
    mkdir(path: string, options?: { recursive?: boolean }) {
      if (!options?.recursive) {
        const { folder, name } = locate(path);
        if (folder.entries.has(name)) throw failure("EEXIST", path);
        change(folder, [name, create("folder")]);
        return;
      }
      let folder = root;
      for (const name of path.split("/")) {
        if (name === "" || name === ".") continue;
        let found = folder.entries.get(name);
        if (found?.kind === "link") found = need(found.target);
        if (found === undefined) {
          found = create("folder");
          change(folder, [name, found]);
        }
        if (found.kind !== "folder") throw failure("ENOTDIR", path);
        folder = found;
      }
    },
    readdir(path: string): string[] {
      const found = need(path);
      if (found.kind !== "folder") throw failure("ENOTDIR", path);
      return [...found.entries.keys()];
    },
    realpath(path: string): string {
      const { folder, name } = locate(path);
      const found = folder.entries.get(name);
      if (found === undefined && name !== "") throw failure("ENOENT", path);
      if (found?.kind === "link") return this.realpath(found.target);
      return posix.normalize(path);
    },
    symlink(target: string, path: string) {
      const { folder, name } = locate(path);
      if (folder.entries.has(name)) throw failure("EEXIST", path);
      change(folder, [name, Object.assign(create("link"), { target })]);
    },
    stat: (path: string, options?: StatOptions): Stat => statOf(need(path), options),
    lstat: (path: string, options?: StatOptions): Stat => statOf(need(path, false), options),
    utimes(path: string, _: Date, mtime: Date) {
      need(path).mtimeMs = mtime.getTime();
    },
    link(from: string, to: string, who: Writer) {
      const found = need(from, false);
      const { folder, name } = locate(to);
      if (folder.entries.has(name)) throw failure("EEXIST", to);
      change(folder, [name, found]);
      named(to, { inode: found }, who);
    },
    rename(from: string, to: string, who: Writer) {
      const [source, target] = [locate(from), locate(to)];
      const found = source.folder.entries.get(source.name);
      if (found === undefined) throw failure("ENOENT", from);
      const old = target.folder.entries.get(target.name);
      if (old === found) return;
      if (old && found.kind === "folder" && old.kind !== "folder") throw failure("ENOTDIR", to);
      if (old && found.kind !== "folder" && old.kind === "folder") throw failure("EISDIR", to);
      if (old?.kind === "folder" && old.entries.size > 0) throw failure("ENOTEMPTY", to);
      if (source.folder === target.folder) {
        change(source.folder, [source.name, undefined], [target.name, found]);
      } else {
        change(target.folder, [target.name, found]);
        change(source.folder, [source.name, undefined]);
      }
      if (found.kind === "folder") tell({ kind: "name", path: to, bytes: noBytes, before: undefined }, who);
      else named(to, { inode: found, old }, who);
    },
    rm(path: string, options?: { recursive?: boolean; force?: boolean }) {
      let found: Inode | undefined;
      try {
        found = need(path, false);
      } catch (error) {
        if (options?.force) return;
        throw error;
      }
      if (found.kind === "folder" && !options?.recursive) throw failure("ERR_FS_EISDIR", path);
      const { folder, name } = locate(path);
      change(folder, [name, undefined]);
    },
    rmdir(path: string) {
      const found = need(path, false);
      if (found.kind !== "folder") throw failure("ENOTDIR", path);
      if (found.entries.size > 0) throw failure("ENOTEMPTY", path);
      const { folder, name } = locate(path);
      change(folder, [name, undefined]);
    },
    open(path: string, flags: string): Handle {
      let inode = find(path);
      if (inode && flags.includes("x")) throw failure("EEXIST", path);
      if (!inode && flags.startsWith("r")) throw failure("ENOENT", path);
      if (inode?.kind === "folder" && flags !== "r") throw failure("EISDIR", path);
      if (inode === undefined) {
        const { folder, name } = locate(path);
        inode = create("file");
        change(folder, [name, inode]);
      }
      const handle = {
        fd: ++fds,
        inode,
        path: posix.resolve("/", path),
        appends: flags.startsWith("a"),
        isOpen: true,
        isForReading: flags === "r",
        at: 0,
      };
      handles.set(handle.fd, handle);
      return handle;
    },
    close(handle: Handle) {
      if (!handle.isOpen) throw failure("EBADF", handle.path);
      handle.isOpen = false;
      handles.delete(handle.fd);
    },
    fstat: ({ inode }: Handle, options?: StatOptions): Stat => statOf(inode, options),
    read({ inode, isOpen, path }: Handle, length: number, position: number): Buffer {
      if (!isOpen) throw failure("EBADF", path);
      if (inode.kind === "folder") throw failure("EISDIR", path);
      return inode.bytes.subarray(Math.min(position, inode.size), Math.min(position + length, inode.size));
    },
    write,
    pathOf: (fd: number): string => handles.get(fd)?.path ?? "",
    writeTo(fd: number, bytes: Buffer, position: number, who: Writer): number {
      const handle = handles.get(fd);
      if (handle === undefined) throw failure("EBADF", String(fd));
      return write(handle, bytes, position, who);
    },
    truncate(handle: Handle, length: number, who: Writer) {
      if (!handle.isOpen) throw failure("EBADF", handle.path);
      keepDurable(handle.inode, who);
      handle.inode.bytes.fill(0, length);
      handle.inode.size = length;
    },
    /** A file with its name, or a folder with its names, outlasts a crash from now on. */
    sync({ inode, path }: Handle) {
      if (inode.kind === "folder") {
        inode.changes = [];
        return;
      }
      inode.dirtyBy = undefined;
      inode.durable = undefined;
      for (let at = inode, from = path; at !== root; from = posix.dirname(from)) {
        const { folder } = locate(from);
        const child = at;
        const last = folder.changes.findLastIndex((names) => names.some(({ after }) => after === child));
        folder.changes.splice(0, last + 1);
        at = folder;
      }
    },
    /** Everything that is there now outlasts a crash. */
    settle() {
      const visit = (inode: Inode) => {
        inode.changes = [];
        for (const each of inode.entries.values()) visit(each);
      };
      visit(root);
    },
    /** Power is lost: of what was not synced something, or nothing, is left. With `who`, of what that machine alone has written. */
    crash(random: Random, who?: string): { isLineTorn: boolean } {
      let isLineTorn = false;
      const seen = new Set<Inode>();
      const visit = (inode: Inode) => {
        if (seen.has(inode)) return;
        seen.add(inode);
        if (inode.kind === "folder") {
          if (who === undefined) undo(inode, random);
          for (const each of [...inode.entries.values()]) visit(each);
        } else if (inode.dirtyBy !== undefined && (who === undefined || inode.dirtyBy === who)) {
          tear(inode, random);
          const bytes = contentOf(inode);
          isLineTorn ||= bytes[0] === 0x7b && bytes.at(-1) !== 0x0a;
        }
      };
      visit(root);
      return { isLineTorn };
    },
    /** Another program replaces a file, at once and for good. */
    replace(path: string, bytes: Buffer) {
      const { folder, name } = locate(path);
      folder.entries.set(name, Object.assign(create("file"), { bytes, size: bytes.length, durable: undefined }));
      folder.changes = folder.changes.filter((names) => names.every((each) => each.name !== name));
    },
    /** All files by their paths, for whoever checks them. */
    files(): Map<string, Buffer> {
      const found = new Map<string, Buffer>();
      const visit = (inode: Inode, path: string) => {
        if (inode.kind === "file") found.set(path, contentOf(inode));
        for (const [name, each] of inode.entries) visit(each, `${path}/${name}`);
      };
      visit(root, "");
      return found;
    },
    content(path: string): Buffer | undefined {
      try {
        const found = find(path);
        return found?.kind === "file" ? contentOf(found) : undefined;
      } catch {
        return undefined;
      }
    },
  };
}

const noBytes = Buffer.alloc(0);
const noEntries: Map<string, Inode> = new Map();

/** Keeps the oldest of the changes that were not synced, as a file system with a journal does. */
function undo(folder: Inode, random: Random): void {
  const kept = random.between(0, folder.changes.length);
  for (const names of folder.changes.slice(kept).reverse())
    for (const { name, before } of names.toReversed()) {
      if (before) folder.entries.set(name, before);
      else folder.entries.delete(name);
    }
  folder.changes = [];
}

/** Keeps the beginning of what was written since the last sync: all, nothing, or half of a line. */
function tear(inode: Inode, random: Random): void {
  const { durable = noBytes } = inode;
  const how = random.between(0, 2);
  if (how === 1) {
    inode.bytes = Buffer.from(durable);
    inode.size = durable.length;
  } else if (how === 2 && inode.size > durable.length) {
    inode.size = random.between(durable.length, inode.size);
  }
  inode.dirtyBy = undefined;
  inode.durable = undefined;
}

type Parts = { names: string[]; last: string };

/** A story asks for the same few paths thousands of times. */
const parts = new Map<string, Parts>();

function partsOf(path: string): Parts {
  const known = parts.get(path);
  if (known) return known;
  const names = path.split("/").filter((name) => name !== "" && name !== ".");
  const found = { last: names.pop() ?? "", names };
  if (parts.size > 10_000) parts.clear();
  parts.set(path, found);
  return found;
}

function failure(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code, path });
}
