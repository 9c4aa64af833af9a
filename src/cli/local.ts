import { join } from "node:path";
import { systemReason, VidgenError } from "../errors.ts";
import type { FetchInit, Io } from "../io.ts";
import { findStorage, storageNote } from "./storage.ts";

/** The local service as `--local` reaches it. */
export type Local = {
  /** The same whoever runs it, so that a later run finds in the journal what an earlier one has started. */
  baseUrl: string;
  apiKey: string;
  fetch: Io["fetch"];
  /** It runs inside this process: its addresses end with it. */
  isHere(): boolean;
  /** Resolves when callbacks under way are through. */
  settled(): Promise<void>;
  close(): Promise<void>;
};

/** One process that runs the service, and the way to it. */
type Door = Omit<Local, "isHere" | "baseUrl"> & { isHere: boolean; baseUrl: string; mediaUrl: string };

/** The folder of the service's state, and what is to be said when that may not last. */
export async function findServiceFolder(io: Io): Promise<{ folder: string; note: string | undefined }> {
  const storage = await findStorage("data", io);
  return { folder: join(storage.folder, "service"), note: storageNote(storage) };
}

/** Whether the local service runs on this machine, at which address, and where its state is. */
export async function lookLocal(
  io: Io,
): Promise<{ folder: string; note: string | undefined; baseUrl: string | undefined }> {
  return { ...(await findServiceFolder(io)), baseUrl: (await findRunning(io))?.baseUrl };
}

/** How the journal names the local service, whoever runs it. */
export const localBaseUrl = "http://vidgen.localhost";

/**
 * The local service: the process that runs it on this machine, else this one, for as long as the command runs. When the other ends meanwhile,
 * this one takes its place and goes on: the state is on the disk, and a start that comes twice has the same Idempotency-Key.
 */
export async function openLocal(io: Io, onNote: (text: string) => void): Promise<Local> {
  let door = await openDoor(io, onNote);
  const mediaUrls = new Set([door.mediaUrl]);
  const pass = async (url: string, init?: FetchInit) => {
    const { origin } = new URL(url);
    const base = mediaUrls.has(origin) ? door.mediaUrl : door.baseUrl;
    return door.fetch(url.replace(mediaUrls.has(origin) ? origin : localBaseUrl, base), init);
  };
  const { apiKey } = door;
  return {
    baseUrl: localBaseUrl,
    apiKey,
    async fetch(url, init) {
      try {
        return await pass(url, init);
      } catch (error) {
        if (door.isHere || init?.signal?.aborted || (await answers(door, io))) throw error;
        door = await openDoor(io, onNote);
        mediaUrls.add(door.mediaUrl);
        return pass(url, init);
      }
    },
    isHere: () => door.isHere,
    settled: () => door.settled(),
    close: () => door.close(),
  };
}

/** How long another process may take from its start to its first answer. */
const patienceMs = 10_000;

async function openDoor(io: Io, onNote: (text: string) => void): Promise<Door> {
  const end = io.now() + patienceMs;
  for (;;) {
    const door = (await findRunning(io)) ?? (await becomeOwner(io, onNote));
    if (typeof door !== "number") return door;
    if (io.now() > end)
      throw new VidgenError("network", `The local service, process ${door}, does not answer. Nothing was charged.`);
    await io.sleep(100, io.signal);
  }
}

async function findRunning(io: Io): Promise<Door | undefined> {
  const { readAnnouncement } = await import("../server/announcement.ts");
  const { base_url, media_url, api_key: apiKey } = (await readAnnouncement((await findServiceFolder(io)).folder)) ?? {};
  if (base_url === undefined || media_url === undefined || apiKey === undefined) return undefined;
  const door = { baseUrl: base_url, mediaUrl: media_url, apiKey, fetch: io.fetch, isHere: false, ...nothingToDo };
  return (await answers(door, io)) ? door : undefined;
}

const nothingToDo = { settled: async () => {}, close: async () => {} };

const probeLimitMs = 1_000;

/** Whether the service is there; whatever else listens at its address now has no such answer. */
async function answers({ baseUrl, apiKey }: Pick<Door, "baseUrl" | "apiKey">, io: Io): Promise<boolean> {
  const limit = io.limit(probeLimitMs, io.signal, new Error("no answer"));
  try {
    const url = `${baseUrl}/api/generation-status?id=00000000-0000-0000-0000-000000000000`;
    const reply = await io.fetch(url, { headers: { Authorization: `Bearer ${apiKey}` }, signal: limit.signal });
    return reply.status === 404 && (await reply.text()).includes('"code":"not_found"');
  } catch {
    return false;
  } finally {
    limit.clear();
  }
}

/** Runs the service in this process; the number of the process that does already, when there is one. */
async function becomeOwner(io: Io, onNote: (text: string) => void): Promise<Door | number> {
  const { host } = await import("../server/host.ts");
  const { deliveryLine } = await import("../server/callbacks/delivery.ts");
  const { createPreviewEngine } = await import("../server/engines/preview/preview.ts");
  const { folder } = await findServiceFolder(io);
  const hosted = await host(
    {
      // Somebody who has given one up must not wait for it with the next.
      ...{ folder, engine: createPreviewEngine(io), pace: "fast", goesOnWith: "asked for" },
      ...{ host: "127.0.0.1", isLoopback: true, ports: { api: 0, media: 0 } },
      onDelivery: (event) => event.isDelivered || onNote(deliveryLine(event)),
    },
    io,
  ).catch((error) => {
    throw new VidgenError("output", `Cannot use ${folder}: ${systemReason(error)}.`, {
      hint: "VIDGEN_HOME names another folder.",
      cause: error,
    });
  });
  if (hosted.kind === "held") return hosted.pid;
  const { base_url, media_url, api_key } = hosted.address;
  return {
    ...{ baseUrl: base_url, mediaUrl: media_url, apiKey: api_key, isHere: true },
    async fetch(url, init) {
      const handler = url.startsWith(media_url) ? hosted.media : hosted.api;
      return unlessAborted(init?.signal, async () => handler(new Request(url, init)));
    },
    settled: hosted.settled,
    close: () => hosted.close(0),
  };
}

/** A request's own signal is forgotten by Node when its garbage is collected, whoever listens to it: nobody would stop waiting. */
async function unlessAborted<Result>(
  signal: AbortSignal | null | undefined,
  act: () => Promise<Result>,
): Promise<Result> {
  signal?.throwIfAborted();
  const over = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason), { signal: over.signal });
  });
  return Promise.race([act(), aborted]).finally(() => over.abort());
}
