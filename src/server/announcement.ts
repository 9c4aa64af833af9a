import { randomBytes } from "node:crypto";
import { readFile, readlink, rm, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import * as z from "zod/mini";
import { systemCode, systemReason, VidgenError } from "../errors.ts";
import { type Processes, type ProcessId, systemMachine } from "../io.ts";
import { type Acquired, acquireLease, type HolderIo, type LeaseIo, readHolder } from "../lease.ts";
import { isLoopback, sshCommand } from "../protocol/url.ts";

/** The account of the user who runs the service; its key is in the announcement. */
export const localAccount = "local";

/** The addresses for commands on the machine of the process that listens. `host` is for people, since machines may have the same name. */
const local = z.object({
  base_url: z.string(),
  media_url: z.string(),
  host: z.string(),
  machine: z.string(),
  network: z.string(),
  pid: z.number(),
  start: z.string(),
});

/** The content of `service.json`: the service's API key and webhook secret, and its addresses while it listens. */
const schema = z.object({
  api_key: z.string(),
  webhook_secret: z.optional(z.string()),
  /** The number of runs that the database has counted. A database with a lower number is a restored copy. */
  runs: z.optional(z.number()),
  /** For clients, and shown to people. */
  base_url: z.optional(z.string()),
  media_url: z.optional(z.string()),
  local: z.optional(local),
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

/**
 * Reads the announcement in a service folder; `undefined` if the file does not exist. Throws `output` if it is damaged or the disk fails, and
 * `network` if it belongs to another user.
 */
export async function readAnnouncement(folder: string): Promise<Announcement | undefined> {
  const path = join(folder, "service.json");
  try {
    return schema.parse(JSON.parse(await readFile(path, "utf8")));
  } catch (cause) {
    const code = systemCode(cause);
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    if (code === "EACCES")
      throw new VidgenError(
        "network",
        `The service in ${folder} belongs to another user: ${path} cannot be read. Nothing was sent.`,
        {
          hint: "Run the command as that user, or set VIDGEN_BASE_URL to the service's address and VIDGEN_API_KEY to a key of `vidgen accounts`, and leave out --local.",
          cause,
        },
      );
    const reason = code === undefined ? "it is damaged" : systemReason(cause);
    throw new VidgenError("output", `Cannot read ${path}: ${reason}. The file was not changed.`, {
      hint: "It contains the local service's API key. Fix or move the file: without it, the service creates a new API key and webhook secret.",
      cause,
    });
  }
}

/** What `service.json` says about this process while it listens. A local address reaches it only where `machine` and `network` are the same. */
export async function describeListener({ self }: Pick<Processes, "self">) {
  const { machine, pid, start } = await self();
  // The network namespace; other systems than Linux have none.
  const network = (await readlink("/proc/self/ns/net").catch(() => "")).replace(/\D/g, "");
  return { machine, network, host: hostname(), pid, start };
}

/** The service of a folder; `isSure` is false if its process may have ended on another machine. */
export type FoundService =
  | { kind: "none" }
  | { kind: "starting"; error: VidgenError }
  | { kind: "elsewhere"; error: VidgenError; isSure: boolean }
  | { kind: "here"; pid: number; announcement: Listening };

/** The announcement of a process that listens. */
type Listening = Announcement & { base_url: string; media_url: string; local: z.infer<typeof local> };

/**
 * Finds the service that runs from a folder. A killed process leaves its addresses in the announcement, where other programs may listen now, so they
 * count only while the announced process has the folder's lease. Throws `output` if the announcement cannot be read.
 */
export async function findService(folder: string, io: HolderIo): Promise<FoundService> {
  const announcement = await readAnnouncement(folder);
  const holder = announcement && (await readHolder(leaseOf(folder), io));
  if (!holder) return { kind: "none" };
  if (!isListening(announcement) || !isSameProcess(announcement.local, holder))
    return { kind: "starting", error: startingError(announcement, holder) };
  const here = await describeListener(io.processes);
  const isSameMachine = announcement.local.machine === here.machine;
  if (isSameMachine && announcement.local.network === here.network)
    return { kind: "here", pid: holder.pid, announcement };
  const { isSure } = holder;
  return { kind: "elsewhere", isSure, error: elsewhereError(announcement, { folder, isSure, isSameMachine }) };
}

function isListening(announcement: Announcement): announcement is Listening {
  const { base_url, media_url, local } = announcement;
  return base_url !== undefined && media_url !== undefined && local !== undefined;
}

function isSameProcess(one: Pick<ProcessId, "machine" | "pid" | "start">, other: ProcessId): boolean {
  return one.machine === other.machine && one.pid === other.pid && one.start === other.start;
}

function startingError({ base_url, local }: Announcement, { pid }: ProcessId): VidgenError {
  const service = `The local service, process ${pid},`;
  if (base_url === undefined || local !== undefined)
    return new VidgenError("network", `${service} is starting. Nothing was sent.`, {
      hint: "Run the same command again.",
    });
  const message = `${service} is of an earlier version of vidgen, which does not state its address on this machine. Nothing was sent.`;
  return new VidgenError("network", message, { hint: "Stop it, and start it again with this version." });
}

function elsewhereError(
  { base_url, media_url, local }: Listening,
  { folder, isSure, isSameMachine }: { folder: string; isSure: boolean; isSameMachine: boolean },
): VidgenError {
  const where = isSameMachine ? "in another network namespace of this machine" : `on ${local.host}`;
  const message = `The service of this folder runs ${where}: process ${local.pid}, in ${folder}. Nothing was sent.`;
  const ways = [
    `Run the command there, or set VIDGEN_BASE_URL=${base_url} and VIDGEN_API_KEY to a key of \`vidgen accounts\`, and leave out --local.`,
  ];
  if (!isSameMachine && isLoopback(new URL(base_url).hostname))
    ways.push(`To reach that address from here, run: ${sshCommand(base_url, media_url, local.host)}`);
  if (!isSure) ways.push("If that process was killed, `vidgen serve` here takes over from it within a minute.");
  return new VidgenError("network", message, { hint: ways.join("\n") });
}

/** Replaces the announcement atomically. Only this user can read the file. */
export async function writeAnnouncement(folder: string, announcement: Announcement): Promise<void> {
  await systemMachine.disk.mkdir(folder, { recursive: true, mode: 0o700 });
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
  await systemMachine.disk.mkdir(folder, { recursive: true, mode: 0o700 });
  return acquireLease(leaseOf(folder), io);
}

const leaseOf = (folder: string) => join(folder, "lease");
