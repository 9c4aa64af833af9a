import { randomBytes } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod/mini";
import { systemCode, systemReason, VidgenError } from "../errors.ts";
import { type Acquired, acquireLease, type HolderIo, type LeaseIo, readHolder } from "../lease.ts";

/** The account of the user who runs the service; its key is in the announcement. */
export const localAccount = "local";

/** The content of `service.json`: the service's API key and webhook secret, and its addresses while it listens. */
const schema = z.object({
  api_key: z.string(),
  webhook_secret: z.optional(z.string()),
  /** The number in the database: one with a lower number is a restored copy. */
  runs: z.optional(z.number()),
  base_url: z.optional(z.string()),
  media_url: z.optional(z.string()),
  /** Whether the process has engines besides the preview, which no other process can stand in for. */
  has_real_models: z.optional(z.boolean()),
  /** What makes the videos, so that nobody takes it for something else. */
  engines: z.optional(
    z.array(z.object({ name: z.string(), upstream_model: z.optional(z.string()), models: z.array(z.string()) })),
  ),
  /** The models of which the local account gets previews at no cost. */
  free_models: z.optional(z.array(z.string())),
  /** Whether it has a page for a browser. */
  has_page: z.optional(z.boolean()),
  /** Whether it runs inside a command, for that command's own engines. */
  is_command: z.optional(z.boolean()),
});

export type Announcement = z.infer<typeof schema>;

/** The announcement of a service that listens. */
export type Address = { api_key: string; webhook_secret: string; base_url: string; media_url: string };

/** Reads the announcement of the service of a folder; `undefined` when there is none. Throws `output` when it cannot be read. */
export async function readAnnouncement(folder: string): Promise<Announcement | undefined> {
  const path = join(folder, "service.json");
  try {
    return schema.parse(JSON.parse(await readFile(path, "utf8")));
  } catch (cause) {
    const code = systemCode(cause);
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    const reason = code === undefined ? "it is damaged" : systemReason(cause);
    throw new VidgenError("output", `Cannot read ${path}: ${reason}. The file was not changed.`, {
      hint: "It contains the local service's API key. Fix or move the file: without it, the service creates a new API key and webhook secret.",
      cause,
    });
  }
}

/** Whether a process runs the service of a folder. One that was killed leaves its addresses behind, where other programs may listen now. */
export async function isRunning(folder: string, io: HolderIo): Promise<boolean> {
  return (await readHolder(leaseOf(folder), io)) !== undefined;
}

/** Replaces the announcement, so that a crash leaves the old one or the new one; only this user can read it. */
export async function writeAnnouncement(folder: string, announcement: Announcement): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const temporary = join(folder, `service.json.${randomBytes(4).toString("hex")}`);
  try {
    await writeFile(temporary, JSON.stringify(announcement), { mode: 0o600, flush: true });
    await rename(temporary, join(folder, "service.json"));
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/**
 * Makes this process the only one that uses a service folder, which is made where there is none, until it releases the lease or ends. Rejects
 * with the system's error.
 */
export async function acquireFolder(folder: string, io: LeaseIo): Promise<Acquired> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return acquireLease(leaseOf(folder), io);
}

const leaseOf = (folder: string) => join(folder, "lease");
