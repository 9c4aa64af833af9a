import { dirname, join } from "node:path";
import { systemCode, VidgenError } from "./errors.ts";
import { type Disk, type Io, type ProcessId, unknownStart } from "./io.ts";
import { untilLimit } from "./reply-limit.ts";

/** A lease on something that one process uses at a time, such as a folder. It ends when the process releases it or exits. */
export type Lease = {
  /** Aborts when another process has taken over the lease, after which this process must stop writing. */
  lost: AbortSignal;
  /** Rejects when another process has taken over the lease. */
  confirm(): Promise<void>;
  /**
   * Throws if this process was suspended and has not refreshed the lease in time, so that another process may
   * have taken over. Unlike `confirm`, does not read the lease.
   */
  assertFresh(): void;
  release(): Promise<void>;
};

/**
 * The process that has a lease. `isSure` is false for a process on another machine or in another container
 * that may have ended, because it has not refreshed its lease yet while this process watched.
 */
export type Holder = ProcessId & { isSure: boolean };

/**
 * The result of trying to acquire a lease. `from` is where the previous holder ran, if it did not release the
 * lease. A holder "elsewhere" may only be suspended, and still write for some seconds.
 */
export type Acquired =
  | { kind: "acquired"; lease: Lease; from: "nobody" | "here" | "elsewhere" }
  | { kind: "held"; holder: Holder };

export type HolderIo = Pick<Io, "now" | "disk" | "processes">;

export type LeaseIo = HolderIo & Pick<Io, "date" | "sleep" | "limit" | "uuid">;

const refreshMs = 10_000;
/** How long a lease must stay unchanged before its holder on another machine is assumed to be gone. */
const staleMs = 60_000;
/** How long after a refresh no other process can consider the lease stale, even if this process's clock runs slightly slower. */
const safeMs = 50_000;

/**
 * The observed leases of processes elsewhere: on another machine, or in another container. Only their
 * refreshes show whether they still run, and only by this process's own monotonic clock, because the clocks
 * of two machines may differ by minutes.
 */
export type Watch = Map<string, WatchedLease>;

/** `isAlive` is set once a refresh was seen. */
type WatchedLease = { mtimeMs: number; lookedAt: number; unchangedMs: number; isAlive: boolean };

/**
 * Tries to acquire the lease at a path, once. Rejects with the system's error when it cannot be written.
 *
 * A lease is a folder with one empty file, whose name identifies the holder. The holder changes by a single
 * rename, which is atomic: a new lease is renamed to `path` together with its file, which fails when `path`
 * exists; a stale lease is taken over by renaming its file, which succeeds for one process only. Hard links
 * are not used because many mounted folders do not support them.
 */
export async function tryLease(path: string, io: LeaseIo, watch: Watch): Promise<Acquired> {
  const name = formatName(await io.processes.self(), io.uuid());
  for (;;) {
    const { holder, stale } = await findHolder(path, io, watch);
    if (holder) return { kind: "held", holder };
    const hasLease =
      stale === undefined
        ? await createLease(path, name, io)
        : await replaceHolder(path, { from: stale, to: name }, io);
    if (!hasLease) continue;
    return { kind: "acquired", lease: refreshUntilReleased(name, path, io), from: await originOf(stale, io) };
  }
}

async function originOf(stale: string | undefined, io: HolderIo): Promise<"nobody" | "here" | "elsewhere"> {
  if (stale === undefined) return "nobody";
  const previousHolder = parseName(stale);
  return (await isHere(previousHolder, io)) && previousHolder?.start !== unknownStart ? "here" : "elsewhere";
}

/** How often a lease that may be stale is checked. */
const watchMs = 1_000;
/** After this time a note says what the command waits for. */
const quietWaitMs = 2_000;

type WaitOptions = { signal?: AbortSignal | undefined; onNote?: ((text: string) => void) | undefined };

/**
 * Acquires the lease at a path, or returns the process that certainly holds it: a process elsewhere is
 * watched for up to 60 s until it refreshes its lease or is considered dead. Rejects with the system's error
 * if the lease cannot be written, or with the signal's reason.
 */
export async function acquireLease(path: string, io: LeaseIo, { signal, onNote }: WaitOptions = {}): Promise<Acquired> {
  const watch: Watch = new Map();
  const start = io.now();
  for (let isNoted = false; ; ) {
    const acquired = await tryLease(path, io, watch);
    if (acquired.kind === "acquired" || acquired.holder.isSure) return acquired;
    if (!isNoted && io.now() - start > quietWaitMs) {
      onNote?.(
        `Process ${acquired.holder.pid} on another machine may still hold ${path}: waiting up to 60 s to find out.`,
      );
      isNoted = true;
    }
    await io.sleep(watchMs, signal);
  }
}

/** The process that holds, or may hold, the lease at a path; `undefined` if none does. Changes nothing. */
export async function readHolder(path: string, io: HolderIo, watch: Watch = new Map()): Promise<Holder | undefined> {
  return (await findHolder(path, io, watch)).holder;
}

/** Longer than the time until the lock of a killed holder elsewhere is stale. */
const lockLimitMs = staleMs + 30_000;

export type LockIo = LeaseIo & Pick<Io, "random">;

type Work<Result> = (lock: Lease) => Promise<Result>;

/** Runs `work` while holding the lease at a path. Waits for other holders until `signal` aborts. */
export async function withLock<Result>(
  path: string,
  { io, signal, onNote }: WaitOptions & { io: LockIo },
  work: Work<Result>,
): Promise<Result> {
  const watch: Watch = new Map();
  const start = io.now();
  let noteMs = quietWaitMs;
  for (let waitMs = 5; ; waitMs = Math.min(waitMs * 2, 100)) {
    const acquired = await tryLease(path, io, watch);
    if (acquired.kind === "acquired") return await work(acquired.lease).finally(acquired.lease.release);
    const { pid } = acquired.holder;
    const waitedMs = io.now() - start;
    if (waitedMs > lockLimitMs) {
      const hint = "If that process is not vidgen or has ended, delete the lock folder.";
      throw new VidgenError("output", `Timed out waiting for process ${pid} to release the lock ${path}.`, { hint });
    }
    if (waitedMs > noteMs) {
      onNote?.(
        `Waiting for process ${pid} to release the lock ${path}; the lock of a process that was killed elsewhere expires after 60 s.`,
      );
      noteMs = Number.POSITIVE_INFINITY;
    }
    await io.sleep(waitMs * (0.5 + io.random()), signal);
  }
}

/** Leases that this process released but could not delete. They count as dead although this process is running. */
const releasedNames = new WeakMap<HolderIo["processes"], Set<string>>();

function rememberReleased(name: string, { processes }: Pick<HolderIo, "processes">): void {
  const names = releasedNames.get(processes) ?? new Set();
  releasedNames.set(processes, names.add(name));
}

/** Renames a new lease to `path`; returns false if there already is one. */
async function createLease(path: string, name: string, io: LeaseIo): Promise<boolean> {
  const { disk } = io;
  // A short name, since the name of a lease may already have the maximum length.
  const temporary = join(dirname(path), `.${io.uuid()}`);
  await disk.mkdir(temporary, { recursive: true, mode: 0o700 });
  try {
    await (await disk.open(join(temporary, name), "wx", 0o600)).close();
    await refresh(join(temporary, name), io);
    // A release leaves an empty folder for a moment, and other programs leave files there, such as .DS_Store.
    for (const other of await namesIn(path, io.disk))
      if (!parseName(other)) await disk.rm(join(path, other), { recursive: true, force: true });
    await disk.rmdir(path).catch(() => {});
    await disk.rename(temporary, path);
    return true;
  } catch (error) {
    await disk.rm(temporary, { recursive: true, force: true });
    const code = systemCode(error);
    if (code === "ENOTEMPTY" || code === "EEXIST") return false;
    // Windows answers EPERM when the folder exists.
    if (code === "EPERM" && (await exists(path, io.disk))) return false;
    throw error;
  }
}

/** Takes over from a stale holder; returns false if another process did so first. */
async function replaceHolder(path: string, { from, to }: { from: string; to: string }, io: LeaseIo): Promise<boolean> {
  try {
    await io.disk.rename(join(path, from), join(path, to));
    return true;
  } catch (error) {
    if (systemCode(error) === "ENOENT") return false;
    throw error;
  }
}

function refreshUntilReleased(name: string, path: string, io: LeaseIo): Lease {
  const file = join(path, name);
  const lost = new AbortController();
  const lostError = () =>
    new VidgenError("output", `This process no longer holds ${path}: another process may have taken over.`);
  const releasing = new AbortController();
  /**
   * The time of the last refresh by both clocks, because the monotonic one may stop while a virtual machine
   * is suspended, and the other may be set.
   */
  let lastRefresh = { ms: io.now(), dateMs: io.date().getTime() };
  const refreshNow = async () => {
    const now = { ms: io.now(), dateMs: io.date().getTime() };
    await refresh(file, io);
    lastRefresh = now;
  };
  const run = async () => {
    while (!releasing.signal.aborted && !lost.signal.aborted) {
      await untilLimit(refreshMs, releasing.signal, io);
      if (releasing.signal.aborted) return;
      await refreshNow().catch((error) => {
        // Other errors are ignored, because the next refresh may succeed before the lease is stale.
        if (systemCode(error) === "ENOENT") lost.abort(lostError());
      });
    }
  };
  void run();
  return {
    lost: lost.signal,
    async confirm() {
      await refreshNow().catch((error) => {
        throw systemCode(error) === "ENOENT" ? lostError() : error;
      });
    },
    assertFresh() {
      const unrefreshedMs = Math.max(io.now() - lastRefresh.ms, io.date().getTime() - lastRefresh.dateMs);
      if (lost.signal.aborted || unrefreshedMs >= safeMs) throw lostError();
    },
    async release() {
      releasing.abort();
      await io.disk.rm(file).catch(() => rememberReleased(name, io));
      await io.disk.rmdir(path).catch(() => {});
    },
  };
}

async function refresh(file: string, { date, disk }: Pick<LeaseIo, "date" | "disk">): Promise<void> {
  await disk.utimes(file, date(), date());
}

/** Returns the holder of the lease at a path, else the file of an ended holder, which the next holder renames. */
async function findHolder(path: string, io: HolderIo, watch: Watch): Promise<{ holder?: Holder; stale?: string }> {
  const names = (await namesIn(path, io.disk)).filter(parseName).sort();
  for (const name of names) {
    const holder = await findLivingHolder(path, name, { io, watch });
    if (holder) return { holder };
  }
  // Always the first, so that only one of several processes can rename it.
  return names[0] === undefined ? {} : { stale: names[0] };
}

type FindOptions = { io: HolderIo; watch: Watch };

/** The process named by a file; `undefined` if it has ended or the lease is stale. */
async function findLivingHolder(path: string, name: string, { io, watch }: FindOptions): Promise<Holder | undefined> {
  const holder = parseName(name);
  if (!holder || releasedNames.get(io.processes)?.has(name)) return undefined;
  if (await isHere(holder, io)) {
    if ((await io.processes.startOf(holder.pid)) !== holder.start) return undefined;
    // Without a start time, the PID may belong to another process, which does not refresh the lease.
    if (holder.start !== unknownStart) return { ...holder, isSure: true };
  }
  const file = join(path, name);
  const found = await io.disk.stat(file).catch(() => undefined);
  if (found === undefined) {
    watch.delete(file);
    return undefined;
  }
  const watched = updateWatched(watch.get(file), found.mtimeMs, io.now());
  // Kept even when the lease is stale, because otherwise the next check would watch it for another minute.
  watch.set(file, watched);
  return watched.unchangedMs < staleMs ? { ...holder, isSure: watched.isAlive } : undefined;
}

/** Whether the other process runs on this machine and in the same namespace. */
async function isHere(holder: ProcessId | undefined, { processes }: Pick<HolderIo, "processes">): Promise<boolean> {
  const { machine, namespace } = await processes.self();
  return holder?.machine === machine && holder.namespace === namespace;
}

function updateWatched(before: WatchedLease | undefined, mtimeMs: number, now: number): WatchedLease {
  if (before === undefined) return { mtimeMs, lookedAt: now, unchangedMs: 0, isAlive: false };
  if (before.mtimeMs !== mtimeMs) return { mtimeMs, lookedAt: now, unchangedMs: 0, isAlive: true };
  // If two checks are far apart, this process may have been suspended in between, and the holder with it.
  const unchangedMs = before.unchangedMs + Math.min(now - before.lookedAt, refreshMs);
  return { ...before, lookedAt: now, unchangedMs };
}

async function namesIn(path: string, disk: Disk): Promise<string[]> {
  try {
    return await disk.readdir(path);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return [];
    throw error;
  }
}

async function exists(path: string, disk: Disk): Promise<boolean> {
  return disk.stat(path).then(
    () => true,
    () => false,
  );
}

/** The token at the end distinguishes two leases of one process. */
function formatName({ machine, namespace, pid, start }: ProcessId, token: string): string {
  return [machine, namespace, pid, start, token].join("_");
}

function parseName(name: string): ProcessId | undefined {
  const [machine, namespace, pid, start, token] = name.split("_");
  if (!machine || !namespace || !start || !token || !/^\d+$/.test(pid ?? "")) return undefined;
  return { machine, namespace, pid: Number(pid), start };
}
