import { join } from "node:path";
import type { Io } from "./io.ts";
import { folders } from "./settings.ts";

/** The local service as `--local` reaches it. */
export type Local = {
  baseUrl: string;
  apiKey: string;
  fetch: Io["fetch"];
  /** It runs inside this process: its generations and addresses end with it. */
  isHere: boolean;
  /** Resolves when callbacks under way are through. */
  settled(): Promise<void>;
  close(): Promise<void>;
};

/** The folder where `serve` says that it runs. */
export function serviceFolder(io: Pick<Io, "env" | "home" | "platform">): string {
  return join(folders(io).data, "service");
}

/** The `serve` that runs on this machine, or else a service inside this process. */
export async function openLocal(io: Io, onNote: (text: string) => void): Promise<Local> {
  return (await findRunning(io)) ?? (await createHere(io, onNote));
}

const probeLimitMs = 1_000;

async function findRunning(io: Io): Promise<Local | undefined> {
  const { readAnnouncement } = await import("./server/announcement.ts");
  const announced = await readAnnouncement(serviceFolder(io));
  if (announced?.base_url === undefined) return undefined;
  const { base_url: baseUrl, api_key: apiKey } = announced;
  const limit = io.limit(probeLimitMs, io.signal, new Error("no answer"));
  try {
    const url = `${baseUrl}/api/generation-status?id=00000000-0000-0000-0000-000000000000`;
    const reply = await io.fetch(url, { headers: { Authorization: `Bearer ${apiKey}` }, signal: limit.signal });
    // Whatever else listens there now has no such answer.
    if (reply.status !== 404 || !(await reply.text()).includes('"code":"not_found"')) return undefined;
    return { baseUrl, apiKey, fetch: io.fetch, isHere: false, settled: async () => {}, close: async () => {} };
  } catch {
    return undefined;
  } finally {
    limit.clear();
  }
}

async function createHere(io: Io, onNote: (text: string) => void): Promise<Local> {
  const { createService } = await import("./server/service.ts");
  const { createKey } = await import("./server/announcement.ts");
  const { createPreviewEngine } = await import("./server/engines/preview/preview.ts");
  const apiKey = createKey();
  const mediaUrl = "http://media.vidgen.localhost";
  const baseUrl = "http://api.vidgen.localhost";
  const service = await createService({
    engine: createPreviewEngine(),
    apiKey,
    credits: 1000,
    clock: io,
    fetch: io.fetch,
    mediaUrl: () => mediaUrl,
    onDelivery: onNote,
  });
  const fetch: Io["fetch"] = async (url, init) => {
    init?.signal?.throwIfAborted();
    const handler = url.startsWith(mediaUrl) ? service.media : service.api;
    return handler(new Request(url, init));
  };
  return { baseUrl, apiKey, fetch, isHere: true, settled: service.settled, close: service.close };
}
