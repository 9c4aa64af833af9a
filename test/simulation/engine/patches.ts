import crypto from "node:crypto";
import fs from "node:fs";
import fsPromises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { sep } from "node:path";
import { Readable } from "node:stream";
import timers from "node:timers/promises";
import type { Random } from "../../faults/random.ts";
import type { DiskFault, Process } from "./process.ts";

export type World = {
  random: Random;
  /** Everything of the processes is in here, each by a path of its own: `root/<process>/...`. */
  root: string;
  processOf(name: string): Process | undefined;
  /** A call fails, because of the disk of its process. */
  onRefused(fault: DiskFault, path: string): void;
};

export type Patched = {
  /** Whether something goes on that takes no time of the story. */
  isBusy(): boolean;
  restore(): void;
};

type Functions = Record<string, (...args: never[]) => unknown>;

/**
 * While a story is played, Node's own modules do what follows from its seed: random numbers are drawn from it, and the asynchronous calls to
 * the file system become synchronous ones on the same real files, each as a call of its process, which may be dead, frozen or have a full disk.
 * The path tells the process, since each has a link of its own to the folder that they share.
 */
export function patchNode({ random, root, processOf, onRefused }: World): Patched {
  const undo: (() => void)[] = [];
  const replace = (module: object, changes: Record<string, unknown>) => {
    for (const [name, value] of Object.entries(changes)) {
      const before = (module as Record<string, unknown>)[name];
      undo.push(() => void Object.assign(module, { [name]: before }));
      Object.assign(module, { [name]: value });
    }
  };
  const start = root + sep;
  const ownerOf = (path: unknown): Process | undefined => {
    if (typeof path !== "string" || !path.startsWith(start)) return undefined;
    const end = path.indexOf(sep, start.length);
    return processOf(path.slice(start.length, end === -1 ? undefined : end));
  };
  const isOurs = (path: unknown) => typeof path === "string" && path.startsWith(root);

  let busy = 0;
  const { setImmediate: laterOf } = globalThis;
  replace(timers, {
    setImmediate: <Value>(value?: Value) =>
      new Promise<Value | undefined>((resolve) => {
        busy++;
        laterOf(() => {
          busy--;
          resolve(value);
        });
      }),
  });
  replace(crypto, {
    randomUUID: () => random.uuid(),
    randomBytes: (size: number) => Buffer.from(Array.from({ length: size }, () => random.between(0, 255))),
  });
  replace(Math, { random: random.next });

  const originals = { ...fs };
  /** The open files of the story, and whose each is; the database of several is nobody's. */
  const files: Files = new Map();
  const asked = (path: unknown, effect: () => unknown, needs?: DiskFault): unknown => {
    const owner = ownerOf(path);
    if (!owner) return new Promise((resolve) => resolve(effect()));
    return owner.call("file", () => {
      refuse(owner, needs, String(path));
      return effect();
    });
  };
  /** Throws when the process's disk cannot do what this needs. */
  const refuse = (owner: Process, needs: DiskFault | undefined, path: string) => {
    const fault = owner.diskFault();
    if (fault === undefined || needs === undefined || (fault !== needs && needs === "no descriptors")) return;
    if (fault === "no descriptors" && needs !== fault) return;
    onRefused(fault, path);
    throw Object.assign(new Error(`${codes[fault]}: ${fault}`), { code: codes[fault], errno: -1, syscall: "write" });
  };
  const plain = (name: string, needs?: DiskFault) => {
    const before = (fsPromises as unknown as Functions)[name] as (...args: unknown[]) => unknown;
    const sync = (originals as unknown as Functions)[`${name}Sync`] as (...args: unknown[]) => unknown;
    return (...args: unknown[]) => (isOurs(args[0]) ? asked(args[0], () => sync(...args), needs) : before(...args));
  };
  const openBefore = fsPromises.open;
  const streamBefore = fs.createReadStream;
  const readdirBefore = fsPromises.readdir as unknown as (...args: unknown[]) => unknown;
  replace(fsPromises, {
    access: plain("access"),
    copyFile: plain("copyFile", "full"),
    link: plain("link"),
    lstat: plain("lstat"),
    readFile: plain("readFile", "no descriptors"),
    mkdir: plain("mkdir", "full"),
    readdir: (path: string, ...rest: unknown[]) =>
      isOurs(path) ? asked(path, () => originals.readdirSync(path).sort()) : readdirBefore(path, ...rest),
    realpath: plain("realpath"),
    rename: plain("rename"),
    rm: plain("rm"),
    rmdir: plain("rmdir"),
    stat: plain("stat"),
    utimes: plain("utimes"),
    writeFile: plain("writeFile", "full"),
    open: (path: string, flags?: string, mode?: number) => {
      if (!isOurs(path)) return openBefore(path, flags, mode);
      const owner = ownerOf(path);
      const opened = () => handleOf(originals.openSync(path, flags ?? "r", mode), { path, owner, files, refuse });
      return asked(path, opened, "no descriptors");
    },
  });
  replace(fs, {
    openSync: (path: string, ...rest: [string, number]) => {
      const owner = ownerOf(path);
      if (owner) refuse(owner, "no descriptors", path);
      const fd = originals.openSync(path, ...rest);
      if (isOurs(path)) files.set(fd, { owner, path });
      return fd;
    },
    closeSync: (fd: number) => {
      files.delete(fd);
      originals.closeSync(fd);
    },
    writeSync: (fd: number, ...rest: [Uint8Array]) => {
      const { owner, path = "" } = files.get(fd) ?? {};
      if (owner) refuse(owner, "full", path);
      return originals.writeSync(fd, ...rest);
    },
    // Nobody loses power in these stories.
    fsyncSync: (fd: number) => (files.has(fd) ? undefined : originals.fsyncSync(fd)),
    openAsBlob: async (path: string) =>
      new Blob([(await asked(path, () => originals.readFileSync(path), "no descriptors")) as Buffer<ArrayBuffer>]),
    createReadStream: (path: string, ...rest: []) => {
      if (!isOurs(path)) return streamBefore(path, ...rest);
      return Readable.from(
        (async function* () {
          yield (await asked(path, () => originals.readFileSync(path), "no descriptors")) as Buffer;
        })(),
      );
    },
  });
  syncBuiltinESMExports();
  return {
    isBusy: () => busy > 0,
    restore() {
      for (const work of undo.reverse()) work();
      syncBuiltinESMExports();
    },
  };
}

const codes: Record<DiskFault, string> = { full: "ENOSPC", "no descriptors": "EMFILE", "I/O errors": "EIO" };

/** Open files, by their descriptors. */
type Files = Map<number, { owner: Process | undefined; path: string }>;

type HandleOptions = {
  path: string;
  owner: Process | undefined;
  files: Files;
  refuse(owner: Process, needs: DiskFault, path: string): void;
};

/** What `open` resolves with, of what is used here. */
function handleOf(fd: number, { path, owner, files, refuse }: HandleOptions) {
  files.set(fd, { owner, path });
  const call = async <Result>(effect: () => Result): Promise<Result> => (owner ? owner.call("file", effect) : effect());
  return {
    fd,
    stat: () => call(() => fs.fstatSync(fd)),
    read: (buffer: Uint8Array, offset: number, length: number, position: number) =>
      call(() => ({ buffer, bytesRead: fs.readSync(fd, buffer, offset, length, position) })),
    sync: () =>
      call(() => {
        if (owner) refuse(owner, "I/O errors", path);
      }),
    createReadStream: () =>
      Readable.from(
        (async function* () {
          yield await call(() => fs.readFileSync(fd));
          fs.closeSync(fd);
        })(),
      ),
    close: () => call(() => fs.closeSync(fd)),
  };
}
