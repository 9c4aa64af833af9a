import { type Disk, type DiskFile, systemMachine } from "../src/io.ts";

/** A process that is killed before it changes a file, and where that is. */
export type Killing = {
  /** How many changes of files it makes before. */
  changes: number;
  /** How much later the same line is typed: at once, or 40 days. */
  laterMs: number;
  /** Runs a process on a disk on which it dies; `kill` must stop the rest of it. Resolves when it has ended or was killed. */
  run(start: (disk: Disk) => Promise<unknown>, kill: () => void): Promise<void>;
  /** A process of its own was killed there. */
  onKilled(): void;
};

/** Calls `walk` for a kill before each `step`-th change of a file, until the process ends without being killed. */
export async function walkKills(step: number, walk: (killing: Killing) => Promise<void>): Promise<void> {
  let wasKilled = true;
  for (let walks = 0; wasKilled; walks++) {
    wasKilled = false;
    const changes = walks * step;
    const laterMs = walks % 2 === 0 ? 0 : 40 * 24 * 3600_000;
    const run: Killing["run"] = (start, kill) =>
      new Promise((resolve, reject) => {
        const disk = createDyingDisk(changes, () => {
          wasKilled = true;
          kill();
          resolve();
        });
        start(disk).then(() => resolve(), reject);
      });
    const onKilled = () => {
      wasKilled = true;
    };
    await walk({ changes, laterMs, run, onKilled });
  }
}

/** A disk whose process dies when it has changed a file `last` times and would do so again. */
function createDyingDisk(last: number, die: () => void): Disk {
  let calls = 0;
  const files = new Set<DiskFile>();
  const isDead = () => calls > last;
  const count = () => {
    calls++;
    if (calls !== last + 1) return;
    for (const file of files) void file.close().catch(() => {});
    die();
  };
  const dying =
    <Args extends unknown[], Result>(work: (...args: Args) => Promise<Result>, changes = (..._: Args) => true) =>
    (...args: Args): Promise<Result> => {
      if (changes(...args)) count();
      return isDead() ? new Promise<never>(() => {}) : work(...args);
    };
  const { disk } = systemMachine;
  const wrapFile = (file: DiskFile): DiskFile => {
    files.add(file);
    return new Proxy(file, {
      get(target, name) {
        const value = Reflect.get(target, name);
        if (typeof value !== "function") return value;
        // The system closes the files of a dead process.
        if (name === "close") return value.bind(target);
        const changes = ["write", "sync", "datasync", "truncate", "utimes"].includes(String(name));
        return dying(value.bind(target), () => changes);
      },
    });
  };
  const calling = (name: "link" | "mkdir" | "rename" | "rm" | "rmdir" | "utimes") =>
    dying(disk[name] as (...args: unknown[]) => Promise<unknown>);
  return {
    ...disk,
    link: calling("link"),
    mkdir: calling("mkdir"),
    rename: calling("rename"),
    rm: calling("rm"),
    rmdir: calling("rmdir"),
    utimes: calling("utimes"),
    open: dying(
      async (path: string, flags: string, mode?: number) => wrapFile(await disk.open(path, flags, mode)),
      (_, flags) => flags !== "r",
    ),
    writeSync(...args: Parameters<Disk["writeSync"]>) {
      count();
      if (isDead()) throw new Error("killed");
      return disk.writeSync(...args);
    },
  } as Disk;
}
