import { mkdir } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { Io } from "../io.ts";
import { createKey, prepareOwnAccount } from "./accounts.ts";
import { type Address, type Announcement, readAnnouncement, writeAnnouncement } from "./announcement.ts";
import type { DeliveryEvent } from "./callbacks/delivery.ts";
import { createSecret } from "./callbacks/signature.ts";
import type { Engine } from "./engines/engine.ts";
import { type Listening, listen } from "./http/listen.ts";
import type { Pace } from "./jobs/queue.ts";
import { createOutbound } from "./outbound/outbound.ts";
import { takeOwnership } from "./owner.ts";
import { createService, type Service } from "./service.ts";
import { openStore } from "./store/sqlite/sqlite-store.ts";
import type { Store } from "./store/store.ts";

export type HostOptions = {
  /** Where the service keeps its state. */
  folder: string;
  engine: Engine;
  /** The address to listen on, and whether only this machine reaches it. */
  host: string;
  isLoopback: boolean;
  ports: { api: number; media: number };
  /** The name that others reach it by. */
  name?: string | undefined;
  /** What the owner's account has; at least the usual number when left out. */
  credits?: number | undefined;
  pace: Pace;
  /** What of the generations that an earlier owner has left. */
  goesOnWith: "all" | "asked for";
  onDelivery(event: DeliveryEvent): void;
};

/** The local service, listening. */
export type Hosted = Pick<Service, "api" | "media" | "settled"> & {
  kind: "hosted";
  address: Address;
  /** Lets replies under way finish for so long, parks what is being made, and lets go of the folder. */
  close(graceMs: number): Promise<void>;
};

/** Another process runs the service of this folder; it has an address once it listens. */
export type Held = { kind: "held"; pid: number; announcement: Announcement | undefined };

/**
 * Becomes the owner of a service folder, opens its state, listens, and goes on with what was left. Rejects with the system's error when it
 * cannot listen (its `address` and `port` say where), and with one made for people when the state cannot be used.
 */
export async function host(options: HostOptions, io: Io): Promise<Hosted | Held> {
  const { folder } = options;
  const owner = await takeOwnership(folder, io);
  if (owner.kind === "held") return { ...owner, announcement: await readAnnouncement(folder) };
  const closing: ((graceMs: number) => Promise<void>)[] = [owner.release];
  const close = async (graceMs: number) => {
    for (const each of closing.splice(0).reverse()) await each(graceMs);
  };
  try {
    return { ...(await openAll(options, closing, io)), close };
  } catch (error) {
    await close(0);
    throw error;
  }
}

/** What it opens is added to `closing`. */
async function openAll(options: HostOptions, closing: ((graceMs: number) => Promise<void>)[], io: Io) {
  const { folder, ports } = options;
  const credentials = await prepareCredentials(folder);
  const store = await openStore(join(folder, "service.db"), io);
  closing.push(store.close);
  await prepareOwnAccount(store, credentials.api_key, options.credits);
  let mediaUrl = "";
  const service = await openService(store, { ...options, ...credentials, mediaUrl: () => mediaUrl }, io);
  closing.push(service.close);
  const open: Listening[] = [];
  closing.push(async (graceMs) => void (await Promise.all(open.map((listening) => listening.close(graceMs)))));
  const listenAt = async (handler: Service["api"], port: number) => {
    const listening = await listen(handler, { ...at(options), port }, io);
    open.push(listening);
    return addressOf(listening, options.name);
  };
  mediaUrl = await listenAt(service.media, ports.media);
  const address: Address = { ...credentials, media_url: mediaUrl, base_url: await listenAt(service.api, ports.api) };
  await writeAnnouncement(folder, address);
  closing.push(() => writeAnnouncement(folder, credentials));
  await service.start(options.goesOnWith);
  const { api, media, settled } = service;
  return { kind: "hosted", api, media, settled, address } as const;
}

/** The key and the secret stay from one owner to the next; the addresses of an earlier one go. */
async function prepareCredentials(folder: string) {
  const known = await readAnnouncement(folder);
  const credentials = {
    api_key: known?.api_key ?? createKey(),
    webhook_secret: known?.webhook_secret ?? createSecret(),
  };
  await writeAnnouncement(folder, credentials);
  return credentials;
}

type Opening = HostOptions & { webhook_secret: string; mediaUrl(): string };

async function openService(store: Store, options: Opening, io: Io): Promise<Service> {
  const folder = join(options.folder, "videos");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const outbound = createOutbound({ allowLoopback: () => options.isLoopback, clock: io });
  const atOnce = availableParallelism();
  return createService({
    ...options,
    store,
    folder,
    atOnce,
    outbound,
    webhookSecret: options.webhook_secret,
    clock: io,
  });
}

function at({ host, name }: HostOptions) {
  return { host, names: name === undefined ? [] : [name] };
}

function addressOf({ url }: Listening, name: string | undefined): string {
  return name === undefined ? url : `http://${name.includes(":") ? `[${name}]` : name}:${new URL(url).port || 80}`;
}
