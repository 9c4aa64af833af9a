import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { systemReason } from "../errors.ts";
import type { Clock, Io } from "../io.ts";
import type { Lease } from "../lease.ts";
import { type Address, type Announcement, acquireFolder, readAnnouncement, writeAnnouncement } from "./announcement.ts";
import { createKey, prepareLocalAccount } from "./api/accounts.ts";
import { createApp } from "./api/app.ts";
import { type Listening, type ListenOptions, listen } from "./api/listen.ts";
import type { RequestEvent } from "./api/log.ts";
import type { Handler, OnTrouble } from "./api/message.ts";
import type { DeliveryEvent } from "./callbacks/delivery.ts";
import { createCallbackScheduler } from "./callbacks/scheduler.ts";
import { createSecret, createSigner } from "./callbacks/signature.ts";
import type { Engine } from "./engines/engine.ts";
import { createPreviewEngine } from "./engines/preview/preview.ts";
import { createQueue, type Pace } from "./jobs/queue.ts";
import { createMedia } from "./media/media.ts";
import { createOutbound, type Outbound } from "./outbound/outbound.ts";
import { createChanges, watchStore } from "./page/events.ts";
import { createPage } from "./page/page.tsx";
import { createSessions, type Sessions } from "./page/session.ts";
import { openStore } from "./store/sqlite/sqlite-store.ts";
import type { Store } from "./store/store.ts";

export type ServiceOptions = {
  store: Store;
  engines: readonly Engine[];
  creditsPer: ReadonlyMap<string, number>;
  hasDirectives: boolean;
  /** Where the videos are kept. */
  folder: string;
  pace: Pace;
  /** Sends callbacks and fetches images. */
  outbound: Outbound;
  /** Signs the callbacks. */
  webhookSecret: string;
  /** Who may look at the page; without it, there is no page. */
  sessions?: Sessions | undefined;
  /** The folder of the page's script, style and icon; by default, beside the program. */
  assets?: URL;
  clock: Clock;
  mediaUrl(): string;
  onDelivery(event: DeliveryEvent): void;
  onTrouble: OnTrouble;
};

/** The local service without sockets. */
export type Service = {
  /** Answers at {base_url}. */
  api: Handler;
  /** Answers at {media_url}. */
  media: Handler;
  /** Sends callbacks that are due, and resumes generations that have not ended: all, or each once it is polled. */
  start(resume: "all" | "polled"): Promise<void>;
  /** Resolves when every callback that is due now was attempted; a retry that is due later does not count. */
  settled(): Promise<void>;
  /** Ends the replies that last as long as a page is open. */
  endStreams(): void;
  /** Stops rendering and sending; the next process that opens the store resumes both. */
  close(): Promise<void>;
};

export function createService(options: ServiceOptions): Service {
  const { folder, clock, outbound, sessions, onTrouble } = options;
  const changes = createChanges();
  const store = sessions ? watchStore(options.store, changes.publish) : options.store;
  const callbacks = createCallbackScheduler({
    ...{ store, clock, post: outbound.post, random: Math.random },
    secret: options.webhookSecret,
    onDelivery(event) {
      changes.publish({ kind: "callback", id: event.generation });
      options.onDelivery(event);
    },
  });
  const queue = createQueue({
    ...{ ...options, store, get: outbound.get },
    onEnd: (_id, delivery) => delivery && callbacks.add(delivery),
    onProgress: (id, percent) => changes.publish({ kind: "progress", id, percent }),
  });
  const sign = createSigner(options.webhookSecret);
  const page = sessions && createPage({ ...options, store, queue, callbacks, sign, changes, sessions });
  return {
    api: createApp({ ...options, store, queue, page }),
    media: createMedia({ store, folder, onTrouble }),
    async start(resume) {
      if (resume === "all") for (const generation of await store.unfinished()) queue.add(generation);
      callbacks.start();
    },
    settled: callbacks.settled,
    endStreams: changes.close,
    async close() {
      await Promise.all([queue.close(), callbacks.close()]);
    },
  };
}

export type OpenOptions = {
  /** Where the service keeps its state. */
  folder: string;
  /** What makes the videos: the preview unless given. */
  engines?: readonly Engine[];
  /** The credits that a start costs, by model, where it is not the usual price. */
  creditsPer?: ReadonlyMap<string, number>;
  /** Whether directives in prompts apply to real models too. */
  hasDirectives?: boolean;
  /** The address to listen on, and whether only this machine reaches it. */
  host: string;
  isLoopback: boolean;
  ports: { api: number; media: number };
  /** The host name or IP address under which other machines reach the service. */
  name?: string | undefined;
  /** The balance to set for the local account; without it, it has at least the default. */
  credits?: number | undefined;
  pace: Pace;
  /** Whether there is a page for a browser. */
  hasPage?: boolean;
  /** Which unfinished generations of an earlier process are resumed. */
  resume: "all" | "polled";
  onDelivery(event: DeliveryEvent): void;
  /** Called with a line for the operator about a problem that no response shows. */
  onNote(text: string): void;
  onRequest?: ListenOptions["onRequest"];
  withReplies?: ListenOptions["withReplies"];
};

/** The local service, listening. */
export type RunningService = Pick<Service, "api" | "media" | "settled"> & {
  kind: "running";
  address: Address;
  /** The link that opens the page signed in; valid until the service closes. */
  pageUrl: string | undefined;
  /** Aborts when another process has taken over the folder; the service closes by itself then. */
  lost: AbortSignal;
  /** Waits up to `graceMs` for unfinished replies, stops rendering, and releases the folder. */
  close(graceMs: number): Promise<void>;
};

/** Another process runs the service of this folder; its announcement has an address once it listens. */
export type HeldService = { kind: "held"; pid: number; announcement: Announcement | undefined };

type CloseStep = (graceMs: number) => Promise<void>;

/**
 * Acquires a service folder, opens its state, listens and resumes unfinished work. Rejects with the system's error when it cannot
 * listen (its `address` and `port` say where), and with an error made for people when the state cannot be used.
 */
export async function openService(options: OpenOptions, io: Io): Promise<RunningService | HeldService> {
  const { folder } = options;
  const acquired = await acquireFolder(folder, io);
  if (acquired.kind === "held")
    return { kind: "held", pid: acquired.holder.pid, announcement: await readAnnouncement(folder) };
  const { lost, confirm, release } = acquired.lease;
  const steps: CloseStep[] = [release];
  const close = async (graceMs: number) => {
    for (const step of steps.splice(0).reverse()) await step(graceMs);
  };
  // Another process writes to the folder now.
  lost.addEventListener("abort", () => void close(0), { once: true });
  try {
    return { ...(await openParts(options, { steps, lost, confirm }, io)), lost, close };
  } catch (error) {
    await close(0);
    throw error;
  }
}

type Opening = { steps: CloseStep[] } & Pick<Lease, "lost" | "confirm">;

/** Opens the parts of the service, and adds to `steps` how to close each of them. */
async function openParts(options: OpenOptions, { steps, lost, confirm }: Opening, io: Io) {
  const { folder, host, name, ports } = options;
  const credentials = await prepareCredentials(folder);
  const opened = await openStore(join(folder, "service.db"));
  steps.push(opened.close);
  const store: Store = {
    ...opened,
    // A process that was suspended for over a minute would otherwise submit a video that the next process has submitted.
    keepCheckpoint: (id, checkpoint) => confirm().then(() => opened.keepCheckpoint(id, checkpoint)),
  };
  await prepareLocalAccount(store, credentials.api_key, options.credits);
  const videos = join(folder, "videos");
  await mkdir(videos, { recursive: true, mode: 0o700 });
  const sessions = options.hasPage ? createSessions(credentials.api_key) : undefined;
  let mediaUrl = "";
  const service = createService({
    ...{ store, folder: videos, pace: options.pace, engines: options.engines ?? [createPreviewEngine()] },
    ...{ creditsPer: options.creditsPer ?? new Map(), hasDirectives: options.hasDirectives ?? false },
    outbound: createOutbound({ allowLoopback: () => options.isLoopback, clock: io }),
    ...{ webhookSecret: credentials.webhook_secret, sessions, clock: io, mediaUrl: () => mediaUrl },
    onDelivery: options.onDelivery,
    onTrouble: (what, error) => options.onNote(`${what}: ${systemReason(error)}.`),
  });
  steps.push(service.close);
  const open: Listening[] = [];
  steps.push(async (graceMs) => void (await Promise.all(open.map((listening) => listening.close(graceMs)))));
  steps.push(async () => service.endStreams());
  const listenAt = async (handler: Handler, port: number) => {
    const { withReplies } = options;
    const onRequest = (event: RequestEvent) => event.isOfPage || options.onRequest?.(event);
    const names = name === undefined ? [] : [name];
    const listening = await listen(handler, { host, port, names, onRequest, withReplies }, io);
    open.push(listening);
    return publicUrl(listening, name);
  };
  mediaUrl = await listenAt(service.media, ports.media);
  const address: Address = { ...credentials, media_url: mediaUrl, base_url: await listenAt(service.api, ports.api) };
  const has_real_models = options.engines?.some(({ isSimulation }) => !isSimulation) ?? false;
  await writeAnnouncement(folder, { ...address, has_real_models });
  // Another process that has taken over the folder has announced itself there.
  steps.push(async () => void (lost.aborted || (await writeAnnouncement(folder, credentials))));
  await service.start(options.resume);
  const { api, media, settled } = service;
  const pageUrl = sessions && `${address.base_url}/?token=${sessions.token}`;
  return { kind: "running", api, media, settled, address, pageUrl } as const;
}

/** Keeps the key and the secret of an earlier process, and removes its addresses. */
async function prepareCredentials(folder: string) {
  const known = await readAnnouncement(folder);
  const credentials = {
    api_key: known?.api_key ?? createKey(),
    webhook_secret: known?.webhook_secret ?? createSecret(),
  };
  await writeAnnouncement(folder, credentials);
  return credentials;
}

function publicUrl({ url }: Listening, name: string | undefined): string {
  return name === undefined ? url : `http://${name.includes(":") ? `[${name}]` : name}:${new URL(url).port || 80}`;
}
