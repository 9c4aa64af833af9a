import { randomBytes } from "node:crypto";
import { chmod, link, mkdir, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Io } from "../io.ts";

/** Who owns a folder: this process from now on, or another one that runs. */
export type Ownership = { kind: "taken"; release(): Promise<void> } | { kind: "held"; pid: number };

export type OwnerOptions = Pick<Io, "pid" | "isRunning"> & {
  /**
   * What tells a process from a later one with its number; `undefined` where that cannot be told, so that a number in use counts as the owner.
   */
  birthOf?(pid: number): Promise<string | undefined>;
};

/** What an owner's file says; the file of one that has released the folder is empty. */
type Owner = { pid: number; birth?: string | undefined };

/**
 * Makes this process the one owner of a folder until it releases it or ends, however it ends. The folder is made where there is none.
 * Rejects with the system's error.
 *
 * The owner is named by the file `owner.<n>` with the highest number. A file appears whole, by `link`, and only when its number is free, so
 * that one process at the most follows an owner that is gone; and numbers never go back, so that one which comes late sees that it is late.
 */
export async function takeOwnership(folder: string, options: OwnerOptions): Promise<Ownership> {
  const processes = { birthOf: readBirth, ...options };
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await chmod(folder, 0o700);
  const me: Owner = { pid: options.pid, birth: await processes.birthOf(options.pid) };
  for (;;) {
    const highest = (await numbersIn(folder)).at(-1) ?? 0;
    const owner = highest === 0 ? undefined : await readOwner(fileOf(folder, highest));
    if (owner === "gone") continue;
    if (owner && (await isAlive(owner, processes))) return { kind: "held", pid: owner.pid };
    if (await claim(folder, highest + 1, me)) return owned(folder, highest + 1);
  }
}

/** Where others may be looking still, a number that was used must not look free. */
const keptNumbers = 8;

function owned(folder: string, number: number): Ownership {
  return { kind: "taken", release: () => truncate(fileOf(folder, number)) };
}

/** Says whether the number is this process's, and the highest: it may have been free because later owners had cleared it away. */
async function claim(folder: string, number: number, me: Owner): Promise<boolean> {
  const file = fileOf(folder, number);
  if (!(await createWhole(file, JSON.stringify(me)))) return false;
  const numbers = await numbersIn(folder);
  if (numbers.at(-1) !== number) {
    await rm(file, { force: true });
    return false;
  }
  const old = (await readdir(folder)).filter((name) => numberOf(name) <= number - keptNumbers);
  await Promise.all(old.map((name) => rm(join(folder, name), { force: true })));
  return true;
}

/** Says whether there was no such file; whoever reads it sees all of its content. */
async function createWhole(file: string, content: string): Promise<boolean> {
  const temporary = `${file}.${randomBytes(8).toString("hex")}`;
  try {
    await writeFile(temporary, content, { mode: 0o600, flag: "wx" });
    await link(temporary, file);
    return true;
  } catch (error) {
    // ENOENT: so late that the temporary file was cleared away as well.
    if (codeOf(error) === "EEXIST" || codeOf(error) === "ENOENT") return false;
    throw error;
  } finally {
    await rm(temporary, { force: true });
  }
}

function fileOf(folder: string, number: number): string {
  return join(folder, `owner.${number}`);
}

async function numbersIn(folder: string): Promise<number[]> {
  const names = (await readdir(folder)).filter((name) => /^owner\.\d{1,15}$/.test(name));
  return names.map(numberOf).sort((a, b) => a - b);
}

/** Also of a temporary file, which a killed process may have left; of any other file, one that is never too old. */
function numberOf(name: string): number {
  return Number(/^owner\.(\d{1,15})(\.|$)/.exec(name)?.[1] ?? Number.POSITIVE_INFINITY);
}

/** `undefined` for one that has released the folder; a power cut may leave anything, and no owner survives that. */
async function readOwner(file: string): Promise<Owner | "gone" | undefined> {
  try {
    const { pid, birth } = JSON.parse(await readFile(file, "utf8"));
    return Number.isSafeInteger(pid) && pid > 0 ? { pid, birth } : undefined;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return "gone";
    if (error instanceof SyntaxError || error instanceof TypeError) return undefined;
    throw error;
  }
}

async function isAlive(owner: Owner, processes: Required<OwnerOptions>): Promise<boolean> {
  if (!processes.isRunning(owner.pid)) return false;
  const birth = await processes.birthOf(owner.pid);
  return owner.birth === undefined || birth === undefined || birth === owner.birth;
}

/** On Linux: which start of the machine, and when after it. One that has ended, and waits for its parent to see it, has none of its own. */
async function readBirth(pid: number): Promise<string | undefined> {
  try {
    const machine = await readFile("/proc/sys/kernel/random/boot_id", "utf8");
    // The name, in brackets, may hold spaces and brackets; field 3 comes after it.
    const [, rest = ""] = /.*\) (.*)/s.exec(await readFile(`/proc/${pid}/stat`, "utf8")) ?? [];
    const fields = rest.split(" ");
    return /^[ZXx]$/.test(fields[0] ?? "") ? "ended" : `${machine.trim()} ${fields[19]}`;
  } catch {
    return undefined;
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}
