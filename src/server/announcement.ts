import { randomBytes } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod/mini";
import { systemCode, systemReason, VidgenError } from "../errors.ts";
import { systemMachine } from "../io.ts";
import { type Acquired, acquireLease, type HolderIo, type LeaseIo, readHolder } from "../lease.ts";

/** The account of the user who runs the service; its key is in the announcement. */
export const localAccount = "local";

/** The content of `service.json`: the service's API key and webhook secret, and its addresses while it listens. */
const schema = z.object({
  api_key: z.string(),
  webhook_secret: z.optional(z.string()),
  /** The number of runs that the database has counted. A database with a lower number is a restored copy. */
  runs: z.optional(z.number()),
  base_url: z.optional(z.string()),
  media_url: z.optional(z.string()),
  /** Whether the process has engines besides the preview, so that no other process can replace it. */
  has_real_models: z.optional(z.boolean()),
  /** The engines that make the videos, so that other commands can name them. */
  engines: z.optional(
    z.array(z.object({ name: z.string(), upstream_model: z.optional(z.string()), models: z.array(z.string()) })),
  ),
  /** The models whose previews cost the local account nothing. */
  free_models: z.optional(z.array(z.string())),
  /** Whether the service has a page for a browser. */
  has_page: z.optional(z.boolean()),
  /** Whether the service runs inside a command, for the engines of that command. */
  is_command: z.optional(z.boolean()),
});

export type Announcement = z.infer<typeof schema>;

/** The announcement of a service that is listening. */
export type ServiceAddress = { api_key: string; webhook_secret: string; base_url: string; media_url: string };

/** Reads the announcement in a service folder; `undefined` if the file does not exist. Throws `output` if it cannot be read. */
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

/** Whether a process runs the service of a folder. A killed process leaves its addresses in the announcement, where other programs may listen now. */
export async function isRunning(folder: string, io: HolderIo): Promise<boolean> {
  return (await readHolder(leaseOf(folder), io)) !== undefined;
}

/** Replaces the announcement atomically. Only this user can read the file. */
export async function writeAnnouncement(folder: string, announcement: Announcement): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const temporary = join(folder, `service.json.${randomBytes(4).toString("hex")}`);
  try {
    await writeFile(temporary, JSON.stringify(announcement), { mode: 0o600, flush: true });
    await systemMachine.disk.rename(temporary, join(folder, "service.json"));
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/**
 * Makes this process the only user of a service folder until it releases the lease or ends. Creates the folder if needed. Rejects with the system's
 * error.
 */
export async function acquireFolder(folder: string, io: LeaseIo): Promise<Acquired> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return acquireLease(leaseOf(folder), io);
}

const leaseOf = (folder: string) => join(folder, "lease");
