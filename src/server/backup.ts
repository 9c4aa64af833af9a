import { randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { access, type FileHandle, link, open, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { systemReason, usage, VidgenError } from "../errors.ts";
import type { HttpResponse, Io } from "../io.ts";
import { errorText } from "../protocol/schema.ts";
import { acquireFolder, findService } from "./announcement.ts";
import { endRestored } from "./queue/end.ts";
import { openStore } from "./store/sqlite/sqlite-store.ts";
import type { Provenance } from "./store/store.ts";
import { syncFolder } from "./store/sync.ts";

/**
 * Saves a copy of the database of a service folder as a new file that only this user can read: through the process that runs the service, or else
 * directly. Resolves with the size in bytes. Rejects with the system's error, such as EEXIST if the file exists, or with an error for people.
 */
export async function saveBackup(folder: string, file: string, io: Io): Promise<{ size: number }> {
  await access(join(folder, "service.db"));
  const temporary = join(dirname(file), `.vidgen-${randomBytes(4).toString("hex")}.part`);
  try {
    const saved = await open(temporary, "wx", 0o600).catch((cause) => Promise.reject(writeError(file, cause)));
    const size = await copyDatabase(folder, { saved, file }, io).finally(() => saved.close());
    // Unlike rename, link never replaces an existing file.
    await link(temporary, file);
    await syncFolder(dirname(file));
    return { size };
  } finally {
    await rm(temporary, { force: true });
  }
}

export type BeginRunOptions = {
  /** The number of runs in `service.json`. */
  announcedRuns: number;
  /** Whether the owner confirms that the database was restored from a copy. */
  isRestored: boolean;
  onNote(text: string): void;
};

/**
 * Counts a start of the service on a database. Resolves with the number for `service.json`. Rejects with `usage` for a restored copy that the owner
 * has not confirmed: generations that wait in the copy may have been submitted since, and would be paid for again. In a confirmed copy, they end as
 * unclear.
 */
export async function beginRun(
  { read, count, restore }: Provenance,
  { announcedRuns, isRestored, onNote }: BeginRunOptions,
  { date }: Pick<Io, "date">,
): Promise<number> {
  const { runs: storedRuns, copiedAt } = await read();
  const runs = Math.max(storedRuns, announcedRuns) + 1;
  const isCopy = copiedAt !== null || storedRuns < announcedRuns;
  if (!isCopy) {
    if (isRestored) onNote("This database was not restored from a copy: --restored changed nothing.");
    await count(runs);
    return runs;
  }
  if (!isRestored)
    throw usage(
      `The database of the local service is a copy${copiedAt === null ? "" : `, made at ${copiedAt}`}. Generations that were submitted after it was made would be submitted and paid for again, so the service was not started.`,
      "`vidgen serve --restored` starts it: generations that the copy has as not submitted to a real engine end as unclear, and are not submitted.",
    );
  const now = date();
  const ended = await restore({
    runs,
    at: now.toISOString(),
    endOf: (generation) => endRestored(generation, now),
  });
  onNote(
    `The database was restored from a copy. Generations that ended as unclear, because they may have been submitted since: ${ended}. Nothing is submitted for them, and no credits were returned.`,
  );
  return runs;
}

/**
 * Counts the end of a service's run. Resolves with the number for `service.json`; never rejects. A copy made during the run then has a lower number.
 */
export function endRun({ count }: Provenance, runs: number): Promise<number> {
  const next = runs + 1;
  return count(next).then(
    () => next,
    () => runs,
  );
}

/** The partial file of a copy, and the name of the complete file. */
type Target = { saved: FileHandle; file: string };

/** Resolves with the number of bytes once they are on disk. */
async function copyDatabase(folder: string, target: Target, io: Io): Promise<number> {
  const acquired = await acquireFolder(folder, io);
  if (acquired.kind === "held") return copyRunning(folder, target, io);
  try {
    const store = await openStore(join(folder, "service.db"));
    try {
      const copy = await store.backup?.();
      return await write(target, copy ? createReadStream("", { fd: copy.fd }) : []);
    } finally {
      await store.close();
    }
  } finally {
    await acquired.lease.release();
  }
}

async function copyRunning(folder: string, target: Target, io: Io): Promise<number> {
  const found = await findService(folder, io);
  if (found.kind === "elsewhere" || found.kind === "starting") throw found.error;
  if (found.kind === "none") throw new Error("the service has just ended; try again");
  const { api_key, local } = found.announcement;
  const headers = { Authorization: `Bearer ${api_key}` };
  const { signal } = io;
  const reply = await io.fetch(`${local.base_url}/backup`, { method: "POST", headers, signal, reach: "this machine" });
  if (reply.status !== 200 || !reply.body) throw new Error(await refusalOf(reply));
  const size = await write(target, reply.body);
  if (String(size) !== reply.headers.get("Content-Length"))
    throw new Error("the running service closed the connection before the copy was complete");
  return size;
}

/** Returns the service's own message, such as that its disk is full. */
async function refusalOf(reply: HttpResponse): Promise<string> {
  const message = await reply
    .text()
    .then(JSON.parse)
    .then(errorText)
    .catch(() => undefined);
  return message ?? `the running service refused: HTTP ${reply.status}`;
}

async function write(
  { saved, file }: Target,
  bytes: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): Promise<number> {
  const rethrow = (cause: unknown) => Promise.reject(writeError(file, cause));
  for await (const chunk of bytes) await saved.writeFile(chunk).catch(rethrow);
  await saved.sync().catch(rethrow);
  return (await saved.stat()).size;
}

function writeError(file: string, cause: unknown): VidgenError {
  const reason = systemReason(cause, { ENOENT: "the folder does not exist" });
  return new VidgenError("output", `Cannot write ${file}: ${reason}. Nothing was copied.`, {
    hint: "Free up disk space, or choose another file.",
    cause,
  });
}
