import { exits, VidgenError } from "../../src/errors.ts";
import type { Clock, Disk, DiskFile, Io, Machine, ProcessId } from "../../src/io.ts";
import type { Random } from "../faults/random.ts";
import type { DiskCall, DiskFault, Handle, SimulatedDisk, StatOptions } from "./disk.ts";
import type { Schedule, Step } from "./schedule.ts";

/** A machine, with a wall clock that may be wrong. Processes of several namespaces (containers) do not see each other. */
export type Computer = {
  name: string;
  boot: number;
  disk: SimulatedDisk;
  /** How far its wall clock is ahead, in milliseconds; it may be changed at any time. */
  aheadMs: number;
  /** Whether the system tells when a process has started. */
  hasStartTimes: boolean;
  processes: Set<Process>;
  nextPid: number;
};

/** What happens to a process at one of its calls: before the call has its effect, or after, when its answer is on its way. */
export type Mishap = {
  /** The call: the `nth` of this kind. */
  on: CallKind;
  nth: number;
  isAfter: boolean;
  what: "killed" | "frozen" | "Ctrl-C" | "edit" | "disk";
  ms: number;
  /** What somebody then does to the files: see `edits.ts`. */
  edit?: string;
  /** How the disk fails from then on: see `SimulatedDisk.fail`. */
  fault?: DiskFault;
};

/** "intent" to "delivered" are the writing of such a line into the journal: a write too. "sent": the service has a start request. */
export const callKinds = [
  "any",
  "read",
  "write",
  "sync",
  "name",
  "look",
  "request",
  "answer",
  "print",
  "intent",
  "accepted",
  "downloaded",
  "delivered",
  "sent",
] as const;
const lineKinds: readonly CallKind[] = ["intent", "accepted", "downloaded", "delivered"];
export type CallKind = (typeof callKinds)[number];

/** A process of somebody's: everything that it does goes through `call`, so that it can be stopped between any two of its steps. */
export type Process = {
  name: string;
  computer: Computer;
  id: ProcessId;
  /** When it began and ended, by the true clock. */
  startedAt: number;
  endedAt: number | undefined;
  wasKilled: boolean;
  machine: Machine;
  signal: AbortSignal;
  abandon: AbortSignal;
  unsettled: Set<string>;
  random: Random;
  /** Runs `effect` later, and resolves with what it returns, unless the process is dead by then. */
  call<Result>(kind: CallKind, effect: () => Result): Promise<Result>;
  /**
   * Runs `work` in the process: later, when it is frozen; never, when it is dead. After the timers of the same time, as Node reads sockets after it has
   * run timers.
   */
  after(ms: number, work: () => void): Step;
  /** A mishap that waits for this moment happens. */
  pass(kind: CallKind): void;
  press(): void;
  end(wasKilled: boolean): void;
  /** Calls back when it ends, at once when it has. */
  onEnd(work: () => void): void;
};

export type ProcessOptions = {
  name: string;
  computer: Computer;
  namespace: string;
  random: Random;
  mishaps: readonly Mishap[];
  /** How long a call takes on average, in milliseconds. */
  callMs: number;
  /** The share of calls that take no time at all. */
  instant: number;
  onMishap(mishap: Mishap): void;
  onSecondPress(): void;
};

/** When every story begins, by a clock that is right. */
export const epoch = Date.UTC(2026, 5, 1);

export function createProcess(options: ProcessOptions, schedule: Schedule): Process {
  const { computer, random, callMs, instant } = options;
  const { disk } = computer;
  const first = new AbortController();
  const second = new AbortController();
  const pid = computer.nextPid++;
  const counts = new Map<CallKind, number>();
  let mishaps = [...options.mishaps];
  const onEnds: (() => void)[] = [];
  let frozenUntil = 0;

  const isOver = () => process.endedAt !== undefined;
  const strike = (kind: CallKind, isAfter: boolean) => {
    if (mishaps.length === 0) return;
    const kinds: CallKind[] = lineKinds.includes(kind) ? [kind, "write", "any"] : [kind, "any"];
    if (!isAfter) for (const each of kinds) counts.set(each, (counts.get(each) ?? 0) + 1);
    const due = mishaps.filter(
      (each) => each.isAfter === isAfter && kinds.includes(each.on) && counts.get(each.on) === each.nth,
    );
    for (const mishap of due) {
      mishaps = mishaps.filter((each) => each !== mishap);
      options.onMishap(mishap);
      if (mishap.what === "killed") process.end(true);
      if (mishap.what === "frozen") frozenUntil = Math.max(frozenUntil, schedule.now() + mishap.ms);
      if (mishap.what === "Ctrl-C") process.after(mishap.ms, process.press);
      if (mishap.what === "disk" && mishap.fault) disk.fail(mishap.fault, mishap.ms, process);
    }
  };
  /** Adds a step of this process, which waits while it is frozen. */
  const add = (ms: number, work: () => void, later = 0): Step => {
    const step: Step = {
      at: schedule.now() + ms,
      order: random.next() + later,
      run() {
        if (isOver()) return;
        if (frozenUntil > schedule.now()) {
          step.at = frozenUntil;
          schedule.add(step);
          return;
        }
        work();
      },
    };
    return schedule.add(step);
  };
  const call = <Result>(kind: CallKind, effect: () => Result): Promise<Result> => {
    if (isOver()) return never();
    strike(kind, false);
    if (isOver()) return never();
    const attempt = () => {
      try {
        return { value: effect() };
      } catch (error) {
        return { error };
      }
    };
    if (frozenUntil <= schedule.now() && random.next() < instant) {
      const done = attempt();
      strike(kind, true);
      if (isOver()) return never();
      if (frozenUntil <= schedule.now())
        return "value" in done ? Promise.resolve(done.value as Result) : Promise.reject(done.error);
      return new Promise((resolve, reject) => {
        add(0, () => ("value" in done ? resolve(done.value as Result) : reject(done.error)));
      });
    }
    return new Promise((resolve, reject) => {
      add(callMs * 2 * random.next(), () => {
        const done = attempt();
        strike(kind, true);
        if (isOver()) return;
        const answer = () => ("value" in done ? resolve(done.value as Result) : reject(done.error));
        if (frozenUntil > schedule.now()) add(0, answer);
        else answer();
      });
    });
  };

  const now = () => schedule.now() + computer.boot * 1e6;
  const clock: Clock = {
    now,
    date: () => new Date(epoch + schedule.now() + computer.aheadMs),
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(signal.reason);
        const step = add(ms, () => {
          signal?.removeEventListener("abort", onAbort);
          resolve();
        });
        const onAbort = () => {
          schedule.cancel(step);
          reject(signal?.reason);
        };
        signal?.addEventListener("abort", onAbort, { once: true });
      }),
    limit(ms, parent, reason) {
      const controller = new AbortController();
      let step = add(ms, () => fire());
      let isPending = true;
      const fire = () => {
        isPending = false;
        controller.abort(reason);
      };
      const onParent = () => controller.abort(parent.reason);
      parent.addEventListener("abort", onParent, { once: true });
      if (parent.aborted) onParent();
      const stop = () => {
        if (isPending) schedule.cancel(step);
        isPending = false;
      };
      return {
        signal: controller.signal,
        restart() {
          if (!isPending) return;
          schedule.cancel(step);
          step = add(ms, () => fire());
        },
        clear() {
          stop();
          parent.removeEventListener("abort", onParent);
        },
      };
    },
  };

  const process: Process = {
    name: options.name,
    computer,
    id: {
      machine: `boot-${computer.name}-${computer.boot}`,
      namespace: options.namespace,
      pid,
      start: computer.hasStartTimes ? String(1000 + Math.floor(schedule.now())) : "-",
    },
    startedAt: schedule.now(),
    endedAt: undefined,
    wasKilled: false,
    signal: first.signal,
    abandon: second.signal,
    unsettled: new Set(),
    random,
    machine: {
      ...clock,
      platform: "linux",
      random: random.next,
      uuid: () => uuidOf(random),
      disk: diskOf(disk, () => process, call),
      processes: {
        self: async () => process.id,
        async startOf(other) {
          const found = [...computer.processes].find(
            ({ id, endedAt }) => id.pid === other && id.namespace === options.namespace && endedAt === undefined,
          );
          return found?.id.start;
        },
      },
      run: () => Promise.reject(Object.assign(new Error("no programs here"), { code: "ENOENT" })),
    },
    call,
    after: (ms, work) => add(ms, work, 1),
    pass(kind) {
      strike(kind, false);
      strike(kind, true);
    },
    press() {
      if (!first.signal.aborted) return first.abort(new VidgenError("interrupted", "Interrupted."));
      if (second.signal.aborted) return;
      second.abort(new VidgenError("interrupted", "Interrupted."));
      add(3_000, options.onSecondPress);
    },
    end(wasKilled) {
      if (isOver()) return;
      process.endedAt = schedule.now();
      process.wasKilled = wasKilled;
      computer.processes.delete(process);
      for (const work of onEnds) work();
    },
    onEnd(work) {
      if (isOver()) work();
      else onEnds.push(work);
    },
  };
  computer.processes.add(process);
  return process;
}

/** What a process writes, when that is a line of a journal that a mishap may wait for. */
export function kindOfWrite(bytes: Buffer): CallKind {
  const word = /"kind":"(\w+)"/.exec(bytes.toString("latin1", 0, 80))?.[1];
  return lineKinds.find((kind) => kind === word) ?? "write";
}

/** As quick as it can be: each lease has two. */
function uuidOf(random: Random): string {
  const word = () =>
    Math.floor(random.next() * 2 ** 32)
      .toString(16)
      .padStart(8, "0");
  const [a, b, c, d] = [word(), word(), word(), word()];
  return `${a}-${b.slice(0, 4)}-4${b.slice(5)}-a${c.slice(1, 4)}-${c.slice(4)}${d}`;
}

/** The exit code of a process that its second Ctrl-C ends: see `abort` in `src/cli/system.ts`. */
export function codeOfLeaving(process: Process): number {
  return process.unsettled.size > 0 ? exits.unknown.exit : exits.interrupted.exit;
}

/** Of its own for each call: one for all would keep every story in memory. */
const never = () => new Promise<never>(() => {});

function diskOf(disk: SimulatedDisk, writer: () => Process, call: Process["call"]): Disk {
  /** A call that may fail. */
  const attempt = <Result>(kind: CallKind, what: DiskCall, paths: string[], effect: () => Result) =>
    call(kind, () => {
      // Of what is there already nothing is made, and of what is not nothing is removed.
      const isIdle = (what === "mkdir" || what === "remove") && disk.exists(paths[0] ?? "") === (what === "mkdir");
      disk.check(isIdle ? "look" : what, paths, writer());
      return effect();
    });
  const open = async (path: string, flags: string): Promise<DiskFile> => {
    const handle = await call(flags === "r" ? "read" : "write", () => {
      disk.check(flags.startsWith("r") || disk.exists(path) ? "open" : "create", [path], writer());
      return disk.open(path, flags);
    });
    return fileOf(handle, { disk, writer, call });
  };
  const real = {
    constants: disk.constants,
    access: (path: string) => attempt("look", "look", [path], () => disk.access(path)),
    link: (from: string, to: string) => attempt("name", "link", [to, from], () => disk.link(from, to, writer())),
    lstat: (path: string, options?: StatOptions) => attempt("look", "look", [path], () => disk.lstat(path, options)),
    stat: (path: string, options?: StatOptions) => attempt("look", "look", [path], () => disk.stat(path, options)),
    mkdir: (path: string, options?: { recursive?: boolean }) =>
      attempt("name", "mkdir", [path], () => disk.mkdir(path, options)),
    readdir: (path: string) => attempt("look", "open", [path], () => disk.readdir(path)),
    realpath: (path: string) => attempt("look", "look", [path], () => disk.realpath(path)),
    rename: (from: string, to: string) => attempt("name", "rename", [to, from], () => disk.rename(from, to, writer())),
    rm: (path: string, options?: { recursive?: boolean; force?: boolean }) =>
      attempt("name", "remove", [path], () => disk.rm(path, options)),
    rmdir: (path: string) => attempt("name", "remove", [path], () => disk.rmdir(path)),
    utimes: (path: string, _: Date, mtime: Date) =>
      attempt("write", "touch", [path], () => disk.utimes(path, _, mtime)),
    open,
    writeSync(fd: number, bytes: Uint8Array, offset: number, length: number, position: number): number {
      const who = writer();
      if (who.endedAt !== undefined) throw new Error("a dead process writes");
      const part = Buffer.from(bytes.subarray(offset, offset + length));
      const most = disk.check("write", [disk.pathOf(fd)], who, part);
      return disk.writeTo(fd, part.subarray(0, most), position, who);
    },
  };
  return real as unknown as Disk;
}

type Opened = { disk: SimulatedDisk; writer: () => Process; call: Process["call"] };

function fileOf(handle: Handle, { disk, writer, call }: Opened): DiskFile {
  const { path } = handle;
  const file = {
    fd: handle.fd,
    stat: (options?: StatOptions) =>
      call("look", () => {
        disk.check("look", [path], writer());
        return disk.fstat(handle, options);
      }),
    read: (buffer: ArrayBufferView, offset: number, length: number, position: number | null) =>
      call("read", () => {
        disk.check("read", [path], writer());
        const bytes = disk.read(handle, length, position ?? handle.at);
        if (position === null) handle.at += bytes.length;
        new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength).set(bytes, offset);
        return { buffer, bytesRead: bytes.length };
      }),
    write: (bytes: Uint8Array, offset = 0, length = bytes.length - offset, position: number | null = null) => {
      const part = Buffer.from(bytes.buffer, bytes.byteOffset + offset, length);
      const write = () => {
        const most = disk.check("write", [path], writer(), part);
        return { buffer: bytes, bytesWritten: disk.write(handle, part.subarray(0, most), position, writer()) };
      };
      return call(kindOfWrite(part), write);
    },
    truncate: (length = 0) =>
      call("write", () => {
        disk.check("truncate", [path], writer());
        disk.truncate(handle, length, writer());
      }),
    sync: () => call("sync", sync),
    datasync: () => call("sync", sync),
    close: () =>
      call("look", () => {
        // As the system does it: the file is closed, also where that tells of an earlier write that has failed.
        disk.close(handle);
        if (!handle.isForReading) disk.check("close", [path], writer());
      }),
  };
  const sync = () => {
    disk.check("sync", [path], writer());
    disk.sync(handle);
  };
  return file as unknown as DiskFile;
}

/** What a client gets of its process. */
export function ioOf(process: Process, fetch: Io["fetch"]) {
  return { ...process.machine, fetch, unsettled: process.unsettled };
}
