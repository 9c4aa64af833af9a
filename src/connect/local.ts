import { join } from "node:path";
import { unlessAborted } from "../abort.ts";
import { systemReason, usage, VidgenError } from "../errors.ts";
import { type FetchInit, type Io, RequestError } from "../io.ts";
import type { Announcement } from "../server/announcement.ts";
import type { PlannedEngine } from "../server/engines/engines.ts";
import { hasFolder, storageFolder } from "./storage.ts";

/** The local service as `--local` reaches it. */
export type Local = {
  /** The same for every process that runs the service, so that later runs find earlier generations in the journal. */
  baseUrl: string;
  apiKey: string;
  /** The engines that it was opened with. */
  engine: readonly string[];
  fetch: Io["fetch"];
  /** Whether a model's videos are previews; `undefined` where another process does not tell. */
  isPreview(model: string): boolean | undefined;
  /** Whether the service says that a model's videos are previews that cost nothing; a start of a model that it does not serve costs nothing either. */
  isFree(model: string): boolean;
  /** The names of the engines that may make a model's videos, as far as is known. */
  makersOf(model: string): readonly string[];
  /** Whether the service runs inside this process: its URLs end with the process. */
  isInProcess(): boolean;
  /** Resolves when each callback had its first attempt. */
  settled(): Promise<void>;
  close(): Promise<void>;
};

/** The connection to one process that runs the service. */
type Connection = Omit<Local, "isInProcess" | "isPreview" | "isFree" | "makersOf" | "baseUrl" | "engine"> & {
  isInProcess: boolean;
  hasRealModels: boolean;
  /** Those that were named; `undefined` where another process does not tell. */
  engines: readonly { name: string; models: readonly string[] }[] | undefined;
  freeModels: readonly string[];
  baseUrl: string;
  mediaUrl: string;
  announcement: Announcement | undefined;
};

export type LocalOptions = {
  /** What makes the videos when the service runs in this process, as `--engine` has it. */
  engine: readonly string[];
  engineTimeout?: string | undefined;
  isStarting: boolean;
  /** Whether it is only looked at: then no service is opened, nothing can be sent, and nothing on the disk changes. */
  isLooking?: boolean | undefined;
  onNote(text: string): void;
};

/** The folder of the service's state. Throws `output` without a home folder. */
export function findServiceFolder(io: Io): string {
  return join(storageFolder("data", io), "service");
}

/** Stands for a key where none is needed, since nothing is sent. */
export const noKey = "none";

/** How the journal names the local service, whichever process runs it. */
export const localBaseUrl = "http://vidgen.localhost";

/**
 * Connects to the local service: to the process that runs it on this machine, else this process runs it for as long as the command takes.
 * When the other process ends meanwhile, this process takes over: the state is on the disk, and a start that is sent twice has the same
 * Idempotency-Key. A `serve` with real models is waited for instead, unless `engine` can stand in for it.
 */
export async function openLocal(options: LocalOptions, io: Io): Promise<Local> {
  const { engine } = options;
  const wanted = engine.length === 0 ? [] : (await import("../server/engines/engines.ts")).readEngines(engine);
  const attach = async () => {
    const joined = await connect(options, io);
    if (joined.isInProcess) return joined;
    checkAnnounced(joined, wanted, options);
    if (options.engineTimeout !== undefined)
      options.onNote(
        "The local service is already running: its own --engine-timeout counts, not that of this command.",
      );
    return joined;
  };
  let connection = await attach();
  const { apiKey } = connection;
  const mediaUrls = new Set([connection.mediaUrl]);
  const send = async (url: string, init?: FetchInit) => {
    const { origin } = new URL(url);
    const isMedia = mediaUrls.has(origin);
    return connection.fetch(url.replace(origin, isMedia ? connection.mediaUrl : connection.baseUrl), init);
  };
  return {
    baseUrl: localBaseUrl,
    apiKey,
    engine,
    async fetch(url, init) {
      try {
        return await send(url, init);
      } catch (error) {
        if (connection.isInProcess || init?.signal?.aborted || (await answers(connection, io))) throw error;
        // Here there would be previews alone, and the service could not be started again until this command ends.
        const isServe = connection.announcement?.is_command !== true;
        const isTheirs = isServe && connection.hasRealModels && engine.length === 0;
        const next = isTheirs ? await findRunning(io) : await attach();
        if (!next) throw error;
        connection = next;
        mediaUrls.add(connection.mediaUrl);
        return send(url, init);
      }
    },
    isPreview: (model) => makersOf(model, connection)?.every((name) => name === "preview"),
    isFree: (model) => isFree(model, connection),
    makersOf: (model) => makersOf(model, connection) ?? [],
    isInProcess: () => connection.isInProcess,
    settled: () => connection.settled(),
    close: () => connection.close(),
  };
}

function isFree(model: string, { engines = [], freeModels }: Pick<Connection, "engines" | "freeModels">): boolean {
  return freeModels.includes(model) || !engines.some(({ models }) => models.includes(model));
}

function makersOf(model: string, { engines }: Pick<Connection, "engines">): string[] | undefined {
  return engines?.filter(({ models }) => models.includes(model)).map(({ name }) => name);
}

/** How long another process may take from its start to its first answer. */
const startLimitMs = 10_000;

async function connect(options: LocalOptions, io: Io): Promise<Connection> {
  const end = io.now() + startLimitMs;
  for (;;) {
    const found =
      (await findRunning(io)) ?? (options.isLooking ? await lookHere(options, io) : await runHere(options, io));
    if (typeof found !== "number") return found;
    if (io.now() > end)
      throw new VidgenError("network", `The local service, process ${found}, does not respond. Nothing was sent.`, {
        hint: "It may be starting: run the same command again.",
      });
    await io.sleep(100, io.signal);
  }
}

/** The local service when another process runs it on this machine and it answers. */
export async function findRunning(io: Io): Promise<Connection | undefined> {
  const { readAnnouncement } = await import("../server/announcement.ts");
  const announcement = await readAnnouncement(findServiceFolder(io));
  const { base_url, media_url, api_key: apiKey, has_real_models: hasRealModels = false } = announcement ?? {};
  if (base_url === undefined || media_url === undefined || apiKey === undefined) return undefined;
  const urls = { baseUrl: base_url, mediaUrl: media_url };
  const { engines, free_models: freeModels = [] } = announcement ?? {};
  const told = { hasRealModels, engines, freeModels, announcement };
  const connection = { ...urls, ...told, apiKey, fetch: io.fetch, isInProcess: false };
  return (await answers(connection, io))
    ? { ...connection, settled: async () => {}, close: async () => {} }
    : undefined;
}

/** The secret that signs the local service's callbacks; `undefined` until it has run on this machine. Throws `output` when it cannot be read. */
export async function findLocalSecret(io: Io): Promise<string | undefined> {
  if (!hasFolder("data", io)) return undefined;
  const { readAnnouncement } = await import("../server/announcement.ts");
  return (await readAnnouncement(findServiceFolder(io)))?.webhook_secret;
}

const answerLimitMs = 1_000;

/** Whether the service runs and answers. The key is sent to its port only while its process runs. */
async function answers({ baseUrl, apiKey }: Pick<Connection, "baseUrl" | "apiKey">, io: Io): Promise<boolean> {
  const { isRunning } = await import("../server/announcement.ts");
  if (!(await isRunning(findServiceFolder(io), io))) return false;
  const { tryKey } = await import("./key-check.ts");
  // It is on this machine, whatever its name resolves to.
  const fetch: Io["fetch"] = (url, init) => io.fetch(url, { ...init, isPrivateOnly: false });
  const check = await tryKey({ baseUrl, apiKey, limitMs: answerLimitMs }, { ...io, fetch }).catch(() => undefined);
  return check?.verdict === "accepted";
}

/** A model that an engine has, and the names of those of the interface that it stands for. What is null is not told. */
export type EngineOffer = {
  engine: string;
  id: string;
  models: string[];
  name: string | null;
  prices: Readonly<Record<string, string>> | null;
  durations: readonly number[] | null;
  resolutions: readonly string[] | null;
  aspect_ratios: readonly string[] | null;
  takes_image: boolean | null;
  takes_last_image: boolean | null;
};

/** Asks engines for their lists of models, which is free of charge. Throws `usage` for those that have none, and `network`. */
export async function findOffers(engine: readonly string[], io: Io): Promise<EngineOffer[]> {
  const { listOffers } = await import("../server/engines/engines.ts");
  const { readEngineSettings } = await import("./engines.ts");
  const settings = readEngineSettings({ engine: [...engine] }, io, { leastJobs: 1 });
  const listed = await listOffers(settings, io, io.signal);
  return listed.map(({ engine: name, models, offer }) => ({
    engine: name,
    id: offer.id,
    models,
    name: offer.name ?? null,
    prices: offer.prices ?? null,
    durations: offer.durations ?? null,
    resolutions: offer.resolutions ?? null,
    aspect_ratios: offer.aspectRatios ?? null,
    takes_image: offer.takesImage ?? null,
    takes_last_image: offer.takesLastImage ?? null,
  }));
}

/** Throws `usage` for engines that vidgen does not know. */
export async function checkEngine(engine: readonly string[]): Promise<void> {
  (await import("../server/engines/engines.ts")).readEngines(engine);
}

async function createOwnEngines({ engine, engineTimeout, onNote }: LocalOptions, io: Io) {
  const { createEngines } = await import("../server/engines/engines.ts");
  const { readEngineSettings } = await import("./engines.ts");
  const flags = { engine: [...engine], engineTimeout };
  const { findEngineSetting } = await import("./settings.ts");
  const setting = await findEngineSetting(io).catch(() => undefined);
  const isSetting = setting?.join(" ") === engine.join(" ");
  return createEngines({ ...readEngineSettings(flags, io, { leastJobs: 1 }), isSetting, onNote }, io);
}

/**
 * Throws `usage` when another process runs the service with other engines than are wanted: they would make something else, or cost something.
 * Without wanted ones, those of `vidgen serve` are used, and those of another command are not started anything with.
 */
function checkAnnounced(
  { announcement, baseUrl, hasRealModels }: Connection,
  wanted: readonly PlannedEngine[],
  { engine, isStarting }: LocalOptions,
): void {
  const { engines = [], is_command = false } = announcement ?? {};
  const where = `The local service is already running${is_command ? " inside another command" : ""}, at ${baseUrl}, with `;
  const names = engines.map(({ name }) => name).join(", ") || "other engines";
  const own = wanted.map(({ models, name, upstreamModel }) => ({ models, id: idOf(name, upstreamModel) }));
  const theirs = engines.map(({ name, upstream_model, models }) => ({ models, id: idOf(name, upstream_model) }));
  const isSame = own.every(({ models }) => models.every((model) => idsFor(model, own) === idsFor(model, theirs)));
  const way = is_command
    ? "Wait until that command has ended"
    : "Stop that service first, or leave out --engine to use it";
  if (!isSame)
    throw usage(
      `${where}${names}, not with --engine ${engine.join(" ")}. Nothing was sent.`,
      `${way}, or set VIDGEN_HOME to another folder.`,
    );
  if (isStarting && wanted.length === 0 && is_command && hasRealModels)
    throw usage(
      `${where}${names}, which may cost money. Nothing was sent.`,
      `${way}, or name its engine with --engine.`,
    );
}

function idOf(name: string, upstreamModel = ""): string {
  return `${name}#${upstreamModel}`;
}

/** The service as this process would run it. Without one that has ever run here there is no key yet. */
async function lookHere({ engine }: LocalOptions, io: Io): Promise<Connection> {
  const { readEngines } = await import("../server/engines/engines.ts");
  const { listFreeModels } = await import("../server/api/price.ts");
  const { readAnnouncement } = await import("../server/announcement.ts");
  const engines = readEngines(engine.length === 0 ? ["preview"] : engine);
  return {
    baseUrl: localBaseUrl,
    mediaUrl: localBaseUrl,
    apiKey: (await readAnnouncement(findServiceFolder(io)))?.api_key ?? noKey,
    isInProcess: true,
    hasRealModels: engines.some(({ isSimulation }) => !isSimulation),
    engines,
    freeModels: listFreeModels({ engines, creditsPer: new Map(), hasPaidPreviews: false }),
    announcement: undefined,
    fetch: () => Promise.reject(new Error("a look sends nothing")),
    settled: async () => {},
    close: async () => {},
  };
}

/** The engines that may make a video of a model. */
function idsFor(model: string, engines: readonly { models: readonly string[]; id: string }[]): string {
  const able = engines.filter(({ models }) => models.includes(model));
  return able
    .map(({ id }) => id)
    .sort()
    .join(" ");
}

/** Runs the service in this process; returns the process id of another one that runs it already. */
async function runHere(options: LocalOptions, io: Io): Promise<Connection | number> {
  const { engine, isStarting, onNote } = options;
  const engines = engine.length === 0 ? undefined : await createOwnEngines(options, io);
  if (engines && isStarting) {
    const { checkEngineKeys } = await import("../server/engines/check.ts");
    await checkEngineKeys(engines, io, io.signal);
  }
  const { openService } = await import("../server/serve.ts");
  const { deliveryLine } = await import("../server/callbacks/delivery.ts");
  const folder = findServiceFolder(io);
  const service = await openService(
    {
      folder,
      ...(engines && { engines }),
      // What they cost is paid elsewhere; the local account's credits must not end before.
      creditsPer: new Map(engines?.flatMap(({ models }) => models.map((model) => [model, 0] as const))),
      isCommand: true,
      pace: "fast",
      // Generations of earlier runs that nobody polls any more must not delay this one.
      resume: "polled",
      host: "127.0.0.1",
      isLoopback: true,
      ports: { api: 0, media: 0 },
      onDelivery: (event) => event.isDelivered || onNote(deliveryLine(event)),
      onNote,
    },
    io,
  ).catch((error) => {
    if (error instanceof VidgenError) throw error;
    throw new VidgenError("output", `Cannot use ${folder}: ${systemReason(error)}.`, {
      hint: "Set VIDGEN_HOME to use another folder.",
      cause: error,
    });
  });
  if (service.kind === "held") return service.pid;
  const { base_url, media_url, api_key } = service.address;
  return {
    baseUrl: base_url,
    mediaUrl: media_url,
    apiKey: api_key,
    isInProcess: true,
    hasRealModels: engines?.some(({ isSimulation }) => !isSimulation) ?? false,
    engines: engines ?? [],
    freeModels: service.freeModels,
    announcement: undefined,
    async fetch(url, init) {
      const handler = url.startsWith(media_url) ? service.media : service.api;
      const signal = init?.signal ?? new AbortController().signal;
      signal.throwIfAborted();
      try {
        init?.beforeSend?.();
      } catch (cause) {
        throw new RequestError(cause, { sent: false });
      }
      // The handler does not see every abort: Node may collect a request's own signal as garbage.
      return unlessAborted(handler(new Request(url, init)), signal);
    },
    settled: service.settled,
    close: () => service.close(0),
  };
}

/** The owner of the local service gives its accounts their credits: nobody buys them. */
export function explainLocalCredits(error: VidgenError): VidgenError {
  if (error.code !== "credits") return error;
  const hint = "`vidgen accounts credits local 1000 --local` adds credits to your own account; they cost nothing.";
  return new VidgenError(error.code, error.message, { ...error, hint });
}
