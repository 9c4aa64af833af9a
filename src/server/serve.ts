import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { systemReason } from "../errors.ts";
import type { Io } from "../io.ts";
import type { Lease } from "../lease.ts";
import {
  type Announcement,
  acquireFolder,
  describeListener,
  localAccount,
  readAnnouncement,
  type ServiceAddress,
  writeAnnouncement,
} from "./announcement.ts";
import { createKey, defaultCredits, hashKey, prepareLocalAccount } from "./api/accounts.ts";
import { type Listening, type ListenOptions, listen } from "./api/listen.ts";
import { listFreeModels } from "./api/price.ts";
import { beginRun, endRun } from "./backup.ts";
import { createSecret } from "./callbacks/signature.ts";
import type { Engine } from "./engines/engine.ts";
import { createPreviewEngine } from "./engines/preview/preview.ts";
import type { Handler } from "./http/message.ts";
import { openFolder } from "./media/folder.ts";
import type { MediaStore } from "./media/media-store.ts";
import type { RequestEvent } from "./observe/log.ts";
import { createOutbound } from "./outbound/outbound.ts";
import { linkOf } from "./page/link.ts";
import { createSessions } from "./page/session.ts";
import { createService, type Service } from "./service.ts";
import type { ServiceParts } from "./service-parts.ts";
import { openStore } from "./store/sqlite/sqlite-store.ts";
import type { Store } from "./store/store.ts";
import { watchStore } from "./store/watch.ts";

/** The first four are optional here; the defaults are the preview, its default prices, and refunds. */
type CommonOptions = Partial<Pick<ServiceParts, "engines" | "creditsPer" | "hasDirectives" | "hasRefunds">> &
  Pick<ServiceParts, "hasPassthrough" | "hasRedirects" | "keep" | "pace" | "program" | "isCommand"> &
  Pick<ServiceParts, "reload" | "reopen" | "onDelivery" | "onEnd" | "onNote"> &
  Pick<ListenOptions, "isTrusted" | "onRequest" | "withReplies"> & {
    /** The balance of the local account, whose previews then cost credits. In a shared database, only set when this process creates the account. */
    credits?: number | undefined;
    /** The address to listen on, and whether only this machine can reach it. */
    host: string;
    isLoopback: boolean;
    /** Whether an account may use a non-public IP address in callback and image URLs. */
    isAllowed?(ip: string, account: string | undefined): boolean;
    ports: { api: number; media: number };
    /** The host name or IP address by which other machines reach the service. */
    name?: string | undefined;
    /** The URLs for other machines behind a proxy, without a slash at the end. */
    publicUrls?: { api?: string | undefined; media?: string | undefined };
    /** Whether a new key replaces the keys of the local account. */
    rotate?: boolean;
    /** Whether there is a page for a browser. */
    hasPage?: boolean;
    /** Whether the owner can read /metrics, and the address at which it can be read without a key. */
    hasMetrics?: boolean;
    metricsAt?: { host: string; port: number } | undefined;
    /** The origins of other sites whose pages may use the API and the videos with a key. */
    corsOrigins?: readonly string[];
  };

export type ServiceFolderOptions = CommonOptions & {
  /** The folder of the service's state. */
  folder: string;
  /** Which unfinished generations of an earlier process are resumed. */
  resume: "all" | "polled";
  /** Confirms that the database was restored from a copy, which is otherwise refused. */
  isRestored?: boolean;
};

export type SharedOptions = CommonOptions & {
  /** The address of a PostgreSQL database. */
  database: string;
  /** Opens the storage of the videos. The names of this process's files must contain `mark`. */
  openVideos(mark: string): Promise<MediaStore>;
};

/** The local service, listening. */
export type RunningService = Pick<Service, "api" | "media" | "settled"> & {
  /** Replaces the engines and prices. */
  updateEngines(given: Pick<ServiceParts, "engines" | "creditsPer">): Promise<void>;
  kind: "running";
  address: ServiceAddress;
  /** The models whose previews cost the local account nothing. */
  freeModels: readonly string[];
  /** A link that signs in to the page, once and within ten minutes. */
  pageUrl: string | undefined;
  /** The URL of the metrics that needs no key. */
  metricsUrl: string | undefined;
  /** Aborts when another process takes over the folder. The service then closes itself. */
  lost: AbortSignal;
  /** Waits up to `graceMs` for unfinished replies, stops rendering, and releases all resources. */
  close(graceMs: number): Promise<void>;
};

/** A process of a shared service, listening. The API key is shown only once, by the process that creates it. */
export type SharedService = Omit<RunningService, "address" | "freeModels"> & {
  address: Omit<ServiceAddress, "api_key"> & { api_key: string | null };
};

/** Another process runs the service of this folder. Its announcement has an address once it listens. */
export type HeldService = { kind: "held"; pid: number; announcement: Announcement | undefined };

type CloseStep = (graceMs: number) => Promise<void>;

/** Collects the steps that close what was opened, and runs them in reverse order. */
function createCloser(...steps: CloseStep[]) {
  const close: CloseStep = async (graceMs) => {
    for (const step of steps.splice(0).reverse()) await step(graceMs);
  };
  return { steps, close };
}

/**
 * Acquires a service folder, opens its state, listens and resumes unfinished work. Rejects with the system's error if it cannot
 * listen (with the `address` and `port`), and with an error for people if the state cannot be used.
 */
export async function openService(options: ServiceFolderOptions, io: Io): Promise<RunningService | HeldService> {
  const { folder } = options;
  const acquired = await acquireFolder(folder, io);
  if (acquired.kind === "held")
    return { kind: "held", pid: acquired.holder.pid, announcement: await readAnnouncement(folder) };
  const { lost, release } = acquired.lease;
  const { steps, close } = createCloser(release);
  // Another process owns the folder now.
  lost.addEventListener("abort", () => void close(0), { once: true });
  try {
    const { announcedRuns, ...credentials } = await prepareCredentials(options);
    const { api_key, webhook_secret } = credentials;
    const store = await openState(options, acquired.lease);
    steps.push(store.close);
    const { provenance } = store;
    const { isRestored = false, onNote } = options;
    const runs = provenance && (await beginRun(provenance, { announcedRuns, isRestored, onNote }, io));
    await prepareLocalAccount(store, api_key, options.credits);
    const videos = await openFolder({ folder: join(folder, "videos") });
    const secrets = { webhookSecret: webhook_secret, pageSecret: async () => api_key };
    const { service, ...opened } = await openParts(options, { steps, store, videos, ...secrets }, io);
    const address = { ...credentials, ...opened.urls };
    const local = { ...opened.localUrls, ...(await describeListener(io.processes)) };
    const announce = (engines: readonly Engine[] | undefined, free_models: string[]) =>
      writeAnnouncement(folder, {
        ...address,
        local,
        runs,
        has_real_models: engines?.some(({ isSimulation }) => !isSimulation) ?? false,
        engines: engines?.map(announceEngine),
        free_models,
        has_page: options.hasPage,
        is_command: options.isCommand,
      });
    await announce(options.engines, opened.freeModels);
    steps.push(async () => {
      // The announcement belongs to the process that took over the folder.
      if (lost.aborted) return;
      const ended = provenance && runs !== undefined ? await endRun(provenance, runs) : undefined;
      await writeAnnouncement(folder, { ...credentials, runs: ended });
    });
    await service.start(options.resume);
    const { pageUrl, metricsUrl, freeModels } = opened;
    const updateEngines: RunningService["updateEngines"] = async (given) => {
      service.updateEngines(given);
      await announce(given.engines, listFreeModels({ ...given, hasPaidPreviews: options.credits !== undefined }));
    };
    return { ...service, kind: "running", updateEngines, address, freeModels, pageUrl, metricsUrl, lost, close };
  } catch (error) {
    await close(0);
    throw error;
  }
}

/** Opens the service of a database that other processes use as well, and listens. Rejects as `openService` does. */
export async function openSharedService(options: SharedOptions, io: Io): Promise<SharedService> {
  const { steps, close } = createCloser();
  try {
    const reportProblem = reporter(options);
    const process = randomUUID();
    // Opened before the database, because if opening the storage failed afterwards, the key of a new database would never be shown.
    const videos = await options.openVideos(process.slice(0, 8));
    steps.push(videos.close);
    const { openPostgres } = await import("./store/postgres/postgres.ts");
    const { onNote } = options;
    const opening = { process, clock: io, reportProblem, onNote, signal: io.signal };
    const { store, date, initialize, announce, pageSecret } = await openPostgres(options.database, opening);
    steps.push(store.close);
    const api_key = createKey();
    const account = { name: localAccount, keyHash: hashKey(api_key), credits: options.credits ?? defaultCredits };
    const first = { account, webhookSecret: createSecret(), pageSecret: createKey() };
    const { isFirst, webhookSecret } = await initialize(first, { rotate: options.rotate ?? false });
    const state = { store, videos, webhookSecret, pageSecret };
    const { service, urls, pageUrl, metricsUrl } = await openParts(options, { steps, ...state }, { ...io, date });
    await announce({ ...urls, has_page: options.hasPage ?? false });
    await service.start("all");
    const address = {
      ...urls,
      api_key: isFirst || options.rotate ? api_key : null,
      webhook_secret: webhookSecret,
    };
    const updateEngines: SharedService["updateEngines"] = async (given) => service.updateEngines(given);
    const lost = new AbortController().signal;
    return { ...service, kind: "running", updateEngines, address, pageUrl, metricsUrl, lost, close };
  } catch (error) {
    await close(0);
    throw error;
  }
}

type Opening = {
  store: Store;
  steps: CloseStep[];
  videos: MediaStore;
  webhookSecret: string;
  /** Signs the page's links and sessions. Processes that share a database share the secret, and each may replace it. */
  pageSecret(): Promise<string>;
};

/** Opens the parts of the service and listens. Adds the step that closes them to `steps`. */
async function openParts(options: CommonOptions, { steps, pageSecret, ...state }: Opening, io: Io) {
  const { host, ports, metricsAt, publicUrls = {} } = options;
  const reportProblem = reporter(options);
  const sessions = options.hasPage ? async () => createSessions(await pageSecret()) : undefined;
  const prices = {
    engines: options.engines ?? [createPreviewEngine()],
    creditsPer: options.creditsPer ?? new Map(),
    hasPaidPreviews: options.credits !== undefined,
  };
  // A port may be any free one, so the URLs are known once the service listens.
  const urls = { base_url: "", media_url: "" };
  const service = createService({
    hasDirectives: false,
    hasRefunds: true,
    ...options,
    ...state,
    ...prices,
    store: watchStore(state.store, { clock: io, reportProblem }),
    outbound: createOutbound({
      // Behind a proxy, a service on loopback has accounts of other people too.
      allowLoopback: (account) => options.isLoopback && account === localAccount,
      isAllowed: options.isAllowed,
      clock: io,
    }),
    sessions,
    clock: io,
    publicUrl: publicUrls.api,
    baseUrl: () => urls.base_url,
    mediaUrl: () => urls.media_url,
    createMetrics: options.hasMetrics ? (await import("./metrics.ts")).createMetrics : undefined,
    reportProblem,
  });
  const servers: Listening[] = [];
  steps.push(async (graceMs) => {
    service.endStreams();
    await Promise.all(servers.map((server) => server.close(graceMs)));
    await service.close();
  });
  const serving = { options, service, servers, noteProxy: createProxyNote(options, urls), io };
  const media = await listenAt(
    service.media,
    { host, port: ports.media, publicUrl: publicUrls.media, route: "video", open: /^/ },
    serving,
  );
  urls.media_url = media.url;
  const api = await listenAt(
    service.api,
    { host, port: ports.api, publicUrl: publicUrls.api, open: /^\/(api|v1)\// },
    serving,
  );
  urls.base_url = api.url;
  const metrics = service.metrics && metricsAt && (await listenAt(service.metrics, metricsAt, serving));
  return {
    service,
    urls,
    localUrls: { base_url: api.localUrl, media_url: media.localUrl },
    pageUrl: sessions && linkOf(api.url, await sessions(), { now: io.date() }),
    metricsUrl: metrics && `${metrics.url}/metrics`,
    freeModels: listFreeModels(prices),
  };
}

/** `route` is for the log; `open` are the paths that `corsOrigins` may use. */
type ListenAt = { host: string; port: number; publicUrl?: string | undefined; route?: string; open?: RegExp };

type Serving = { options: CommonOptions; service: Service; servers: Listening[]; noteProxy(): void; io: Io };

async function listenAt(handler: Handler, at: ListenAt, { options, service, servers, noteProxy, io }: Serving) {
  const { host, port, publicUrl, route, open } = at;
  const { name, isTrusted, withReplies, corsOrigins: origins = [] } = options;
  const onRequest = (event: RequestEvent) => {
    service.onRequest(route === undefined ? event : { ...event, route });
    if (event.isForwarded) noteProxy();
    if (!event.isRoutine) options.onRequest?.(event);
  };
  const names = [...(name === undefined ? [] : [name]), ...(publicUrl === undefined ? [] : authoritiesOf(publicUrl))];
  const publicOrigin = publicUrl && new URL(publicUrl).origin;
  const cors = open && { origins, paths: open };
  const listening = await listen(
    handler,
    { host, port, names, publicOrigin, cors, isTrusted, onRequest, withReplies },
    io,
  );
  servers.push(listening);
  return { url: publicUrl ?? namedUrl(listening, name), localUrl: localUrlOf(listening) };
}

/** Returns a function that notes, once, that a proxy is in front of a service without a public URL. */
function createProxyNote({ publicUrls = {}, onNote }: CommonOptions, urls: { media_url: string }): () => void {
  let isNoted = publicUrls.api !== undefined;
  return () => {
    if (isNoted) return;
    isNoted = true;
    onNote(
      `A proxy forwards requests to this service, whose replies name videos at ${urls.media_url}, where its clients may not reach them. Start it with --public-url and --public-media-url.`,
    );
  };
}

function announceEngine({ name, upstreamModel, models }: Engine) {
  return { name, upstream_model: upstreamModel, models: [...models] };
}

function reporter({ onNote }: Pick<CommonOptions, "onNote">) {
  return (what: string, error: unknown) => onNote(`${what}: ${systemReason(error)}.`);
}

/** Opens the state of a folder whose lease this process holds. */
export function openState(options: Pick<ServiceFolderOptions, "folder" | "onNote">, lease: Lease): Promise<Store> {
  return openStore(join(options.folder, "service.db"), { reportProblem: reporter(options), lease });
}

/** Keeps the key and the secret in the announcement of an earlier process, and removes its addresses. */
async function prepareCredentials({ folder, rotate }: ServiceFolderOptions) {
  const known = await readAnnouncement(folder);
  const credentials = {
    api_key: (rotate ? undefined : known?.api_key) ?? createKey(),
    webhook_secret: known?.webhook_secret ?? createSecret(),
  };
  await writeAnnouncement(folder, { ...credentials, runs: known?.runs });
  return { ...credentials, announcedRuns: known?.runs ?? 0 };
}

function namedUrl({ url }: Listening, name: string | undefined): string {
  return name === undefined ? url : `http://${name.includes(":") ? `[${name}]` : name}:${new URL(url).port || 80}`;
}

/** The address for commands on this machine: the one that the service is bound to, or loopback if it is bound to all. */
function localUrlOf({ url }: Listening): string {
  return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
}

/** How a Host header may name a URL: without the port of its scheme, which is compared as port 80, or with it (RFC 9110, section 4.2.3). */
function authoritiesOf(url: string): string[] {
  const { host, port, protocol } = new URL(url);
  if (port !== "") return [host];
  return protocol === "https:" ? [`${host}:80`, `${host}:443`] : [`${host}:80`];
}
