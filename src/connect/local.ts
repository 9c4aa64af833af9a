import { join } from "node:path";
import { unlessAborted } from "../abort.ts";
import { checkAddressSpace } from "../address-space.ts";
import { localBaseUrl } from "../client/ledger/same-service.ts";
import { systemReason, usage, VidgenError } from "../errors.ts";
import { type FetchInit, type Io, RequestError } from "../io.ts";
import { defaultModel } from "../protocol/models.ts";
import { readUsdPrice } from "../protocol/price.ts";
import type { Announcement, FoundService } from "../server/announcement.ts";
import type { EngineSettings, PlannedEngine } from "../server/engines/engines.ts";
import { hasFolder, storageFolder } from "./storage.ts";

/** The local service of `--local`. */
export type Local = {
  /** The same for every process that runs the service, so that the journal has one name for the local service. */
  baseUrl: string;
  apiKey: string;
  /** The engines in the options of `openLocal`. */
  engine: readonly string[];
  /** Without these: the engines that another process announces. */
  servedBy: readonly string[] | undefined;
  fetch: Io["fetch"];
  /** Whether a model's videos are previews; `undefined` if another process does not announce it. */
  isPreview(model: string): boolean | undefined;
  /**
   * Whether the service says that a model's videos are free previews. A model that is not served is free too,
   * since its starts are refused.
   */
  isFree(model: string): boolean;
  /** The names of the known engines for a model. */
  enginesFor(model: string): readonly string[];
  /** Whether the service runs inside this process, so that its URLs end with the process. */
  isInProcess(): boolean;
  /** Resolves when each callback had its first attempt. */
  settled(): Promise<void>;
  close(): Promise<void>;
};

/** The connection to one process that runs the service. */
export type LocalConnection = Pick<Local, "apiKey" | "fetch" | "settled" | "close"> & {
  isInProcess: boolean;
  hasRealModels: boolean;
  /** The service's engines; `undefined` if another process does not announce them. */
  engines: readonly { name: string; models: readonly string[] }[] | undefined;
  freeModels: readonly string[];
  /** The addresses that `fetch` takes, on this machine. */
  baseUrl: string;
  mediaUrl: string;
  /** What the URLs of videos in replies begin with. */
  shownMediaUrl: string;
  announcement: Announcement | undefined;
};

export type LocalOptions = {
  /** The value of `--engine`, for a service in this process. */
  engine: readonly string[];
  engineTimeout?: string | undefined;
  isStarting: boolean;
  /** Whether nothing is sent. If so, no service is opened, and nothing on the disk changes. */
  isDryRun?: boolean | undefined;
  onNote(text: string): void;
};

/** The folder of the service's state. Throws `output` without a home folder. */
export function findServiceFolder(io: Io): string {
  return join(storageFolder("data", io), "service");
}

/** The key of a dry run that has none, and the base URL if none is set: then nothing at all is sent. */
export const noKey = "none";
export const unsetUrl = "https://vidgen.invalid";

/** A `fetch` that sends nothing. */
export const sendNothing = () => Promise.reject(new Error("a dry run sends nothing"));

/**
 * Connects to the process that runs the local service on this machine; without one, this process runs the
 * service until the command ends. If the other process ends meanwhile, this process takes over, because the
 * state is on the disk, and a repeated start has the same Idempotency-Key. A `serve` with real models is not
 * replaced, unless `engine` names its engines.
 */
export async function openLocal(options: LocalOptions, io: Io): Promise<Local> {
  const { engine } = options;
  const wantedEngines = engine.length === 0 ? [] : (await import("../server/engines/engines.ts")).readEngines(engine);
  const attach = async () => {
    const found = await connectLocal(options, io);
    if (found.isInProcess) return found;
    checkAnnounced(found, wantedEngines, options);
    if (options.engineTimeout !== undefined)
      options.onNote(
        "The local service is already running: its own --engine-timeout applies, not that of this command.",
      );
    return found;
  };
  let connection = await attach();
  const { apiKey } = connection;
  const shownMediaUrls = new Set([connection.shownMediaUrl]);
  /** The key, and requests for videos, go to the addresses of this machine alone, whatever address the replies name. */
  const send = async (url: string, init?: FetchInit) => {
    const shown = [...shownMediaUrls].find((each) => url.startsWith(`${each}/`));
    const { baseUrl, mediaUrl } = connection;
    return connection.fetch(url.replace(shown ?? new URL(url).origin, shown === undefined ? baseUrl : mediaUrl), init);
  };
  return {
    baseUrl: localBaseUrl,
    apiKey,
    engine,
    servedBy: connection.hasRealModels
      ? connection.announcement?.engines?.map(({ name, upstream_model }) => engineId(name, upstream_model))
      : undefined,
    async fetch(url, init) {
      try {
        return await send(url, init);
      } catch (error) {
        if (connection.isInProcess || init?.signal?.aborted) throw error;
        const found = await findLocal(io);
        const running = found.kind === "running" ? found.connection : undefined;
        if (running?.baseUrl === connection.baseUrl) throw error;
        // A `serve` is not replaced: this process would have only previews, and `serve` could not start again
        // until this command ends.
        const isServe = connection.announcement?.is_command !== true;
        const mustNotReplace = isServe && connection.hasRealModels && engine.length === 0;
        const replacement = mustNotReplace ? running : await attach();
        if (!replacement) throw error;
        connection = replacement;
        shownMediaUrls.add(connection.shownMediaUrl);
        return send(url, init);
      }
    },
    isPreview: (model) => engineNamesFor(model, connection)?.every((name) => name === "preview"),
    isFree: (model) => isFree(model, connection),
    enginesFor: (model) => engineNamesFor(model, connection) ?? [],
    isInProcess: () => connection.isInProcess,
    settled: () => connection.settled(),
    close: () => connection.close(),
  };
}

function isFree(model: string, { engines = [], freeModels }: Pick<LocalConnection, "engines" | "freeModels">): boolean {
  return freeModels.includes(model) || !engines.some(({ models }) => models.includes(model));
}

function engineNamesFor(model: string, { engines }: Pick<LocalConnection, "engines">): string[] | undefined {
  return engines?.filter(({ models }) => models.includes(model)).map(({ name }) => name);
}

/** How long another process may take to start and answer. */
const startLimitMs = 10_000;

async function connectLocal(options: LocalOptions, io: Io): Promise<LocalConnection> {
  const deadline = io.now() + startLimitMs;
  for (let isHeld = options.isDryRun ?? false; ; ) {
    const found = await findLocal(io);
    if (found.kind === "running") return found.connection;
    if (found.kind === "elsewhere" && (found.isSure || isHeld)) throw found.error;
    if (found.kind !== "not answering") {
      const opened = options.isDryRun ? await planHere(options, io) : await runHere(options, io);
      if (opened) return opened;
      isHeld = true;
    } else if (io.now() > deadline) throw found.error;
    await io.sleep(100, io.signal);
  }
}

/** The local service of this machine's folder. */
type FoundLocal =
  | Exclude<FoundService, { kind: "starting" | "here" }>
  | { kind: "running"; connection: LocalConnection }
  | { kind: "not answering"; error: VidgenError };

/** Finds the process that runs the local service, and asks whether it answers, at its address on this machine alone. */
export async function findLocal(io: Io): Promise<FoundLocal> {
  const { findService } = await import("../server/announcement.ts");
  const found = await findService(findServiceFolder(io), io);
  if (found.kind === "none" || found.kind === "elsewhere") return found;
  if (found.kind === "starting") return { kind: "not answering", error: found.error };
  const { announcement } = found;
  const { base_url: baseUrl, media_url: mediaUrl } = announcement.local;
  const fetch: Io["fetch"] = (url, init) => io.fetch(url, { ...init, reach: "this machine" });
  const {
    api_key: apiKey,
    has_real_models: hasRealModels = false,
    engines,
    free_models: freeModels = [],
  } = announcement;
  const failure = await findFailure({ baseUrl, apiKey }, { ...io, fetch });
  if (failure !== undefined) {
    const message = `The local service, process ${found.pid}, cannot be reached at ${baseUrl}: ${failure}. Nothing was sent.`;
    const hint = "It may be busy or suspended. Run the same command again.";
    return { kind: "not answering", error: new VidgenError("network", message, { hint }) };
  }
  const connection = {
    ...{ baseUrl, mediaUrl, shownMediaUrl: announcement.media_url, fetch, apiKey, isInProcess: false },
    ...{ hasRealModels, engines, freeModels, announcement, settled: async () => {}, close: async () => {} },
  };
  return { kind: "running", connection };
}

const answerLimitMs = 1_000;

/** Why the service at an address does not accept its key; `undefined` if it does. Throws if this process cannot ask. */
async function findFailure(service: Pick<LocalConnection, "baseUrl" | "apiKey">, io: Io): Promise<string | undefined> {
  const { tryKey } = await import("./key-check.ts");
  try {
    const { verdict, replyText } = await tryKey({ ...service, limitMs: answerLimitMs }, io);
    return verdict === "accepted" ? undefined : replyText;
  } catch (error) {
    if (error instanceof VidgenError) throw error;
    const { describeFailure } = await import("../client/http/reply.ts");
    return describeFailure(error);
  }
}

/** The error if the folder of the local service cannot be used. */
export function folderError(error: unknown, folder: string): VidgenError {
  if (error instanceof VidgenError) return error;
  return new VidgenError("output", `Cannot use ${folder}: ${systemReason(error)}.`, {
    hint: "Set VIDGEN_HOME to use another folder.",
    cause: error,
  });
}

/**
 * The secret that signs the local service's callbacks; `undefined` until it has run on this machine. Throws
 * `output` if it cannot be read.
 */
export async function findLocalSecret(io: Io): Promise<string | undefined> {
  if (!hasFolder("data", io)) return undefined;
  const { readAnnouncement } = await import("../server/announcement.ts");
  return (await readAnnouncement(findServiceFolder(io)))?.webhook_secret;
}

/** A model of an engine, and the names of the interface's models that it serves. Unknown values are null. */
export type EngineOffer = {
  engine: string;
  id: string;
  models: string[];
  name: string | null;
  prices: Readonly<Record<string, string>> | null;
  /** What a video costs by these prices, in US dollars, by its length in seconds; of several resolutions, the most expensive. */
  costs: Readonly<Record<string, number>>;
  durations: readonly number[] | null;
  resolutions: readonly string[] | null;
  aspect_ratios: readonly string[] | null;
  takes_image: boolean | null;
  takes_last_image: boolean | null;
};

/** Asks engines for their lists of models, which is free. Throws `usage` for an engine without a list, and `network`. */
export async function findOffers(engine: readonly string[], io: Io): Promise<EngineOffer[]> {
  const { listOffers } = await import("../server/engines/engines.ts");
  const { readEngineSettings } = await import("./engines.ts");
  const settings = readEngineSettings({ engine: [...engine] }, io, { minJobs: 1 });
  const listed = await listOffers(settings, io, io.signal);
  const costsOf = ({ prices = {}, durations = [] }: (typeof listed)[number]["offer"]) =>
    durations.flatMap((duration) => {
      const price = readUsdPrice([{ source: "", prices }], { duration });
      return price ? [[duration, price.amount] as const] : [];
    });
  return listed.map(({ engine: name, models, offer }) => ({
    engine: name,
    id: offer.id,
    models,
    name: offer.name ?? null,
    prices: offer.prices ?? null,
    costs: Object.fromEntries(costsOf(offer)),
    durations: offer.durations ?? null,
    resolutions: offer.resolutions ?? null,
    aspect_ratios: offer.aspectRatios ?? null,
    takes_image: offer.takesImage ?? null,
    takes_last_image: offer.takesLastImage ?? null,
  }));
}

/** The models that engines serve, the default model first. Throws `usage` for engines that vidgen does not know. */
export async function findServed(engine: readonly string[]): Promise<string[]> {
  const { readEngines } = await import("../server/engines/engines.ts");
  const served = readEngines(engine).flatMap(({ models }) => models);
  return served.sort((a, b) => Number(b === defaultModel) - Number(a === defaultModel));
}

/** Throws `auth` if a provider refuses a key. Resolves if it cannot be asked now. */
export async function checkEngineKey(engine: string, key: string, io: Io): Promise<void> {
  const { checkEngineKeys } = await import("../server/engines/check.ts");
  const engines = await createEnginesHere({ engine: [engine], onNote: () => {} }, io, { readKey: () => key });
  await checkEngineKeys(engines, io, io.signal);
}

async function createEnginesHere(
  { engine, engineTimeout, onNote }: Pick<LocalOptions, "engine" | "engineTimeout" | "onNote">,
  io: Io,
  keys: Partial<Pick<EngineSettings, "readKey">> = {},
) {
  const { createEngines } = await import("../server/engines/engines.ts");
  const { readEngineSettings } = await import("./engines.ts");
  const flags = { engine: [...engine], engineTimeout };
  const { findEngineSetting } = await import("./settings.ts");
  const setting = await findEngineSetting(io).catch(() => undefined);
  const fromSettings = setting?.join(" ") === engine.join(" ");
  return createEngines({ ...readEngineSettings(flags, io, { minJobs: 1 }), ...keys, fromSettings, onNote }, io);
}

/**
 * Throws `usage` if another process runs the service with other engines than `wanted`, which may be other
 * models, or cost something. Without wanted engines, those of a `vidgen serve` are used, but not the real
 * models of another command.
 */
function checkAnnounced(
  { announcement, baseUrl, hasRealModels }: LocalConnection,
  wantedEngines: readonly PlannedEngine[],
  { engine, isStarting }: LocalOptions,
): void {
  const { engines = [], is_command = false } = announcement ?? {};
  const alreadyRunningText = `The local service is already running${is_command ? " inside another command" : ""}, at ${baseUrl}, with `;
  const names = engines.map(({ name }) => name).join(", ") || "other engines";
  const wantedIds = wantedEngines.map(({ models, name, upstreamModel }) => ({
    models,
    id: engineId(name, upstreamModel),
  }));
  const announcedIds = engines.map(({ name, upstream_model, models }) => ({
    models,
    id: engineId(name, upstream_model),
  }));
  const hasWantedEngines = wantedIds.every(({ models }) =>
    models.every((model) => engineIdsFor(model, wantedIds) === engineIdsFor(model, announcedIds)),
  );
  const advice = is_command
    ? "Wait until that command has ended"
    : `Stop it and start \`vidgen serve ${engine.map((each) => `--engine ${each}`).join(" ")}\`, leave out --engine to use what it has`;
  if (!hasWantedEngines)
    throw usage(
      `${alreadyRunningText}${names}, not with --engine ${engine.join(" ")}. Nothing was sent.`,
      `${advice}, or set VIDGEN_HOME to another folder.`,
    );
  if (isStarting && wantedEngines.length === 0 && is_command && hasRealModels)
    throw usage(
      `${alreadyRunningText}${names}, which may cost money. Nothing was sent.`,
      `${advice}, or name its engine with --engine.`,
    );
}

function engineId(name: string, upstreamModel = ""): string {
  return `${name}#${upstreamModel}`;
}

/**
 * The service as this process would run it, for a dry run, which answers only what its models cost. There is
 * no key before its first run, and a provider lists its prices without one.
 */
async function planHere(options: LocalOptions, io: Io): Promise<LocalConnection> {
  const { listFreeModels } = await import("../server/api/price.ts");
  const { listModels } = await import("../server/api/models.ts");
  const { localAccount, readAnnouncement } = await import("../server/announcement.ts");
  const engines = await createEnginesHere(options, io, { readKey: () => noKey });
  const prices = { engines, creditsPer: new Map(), hasPaidPreviews: false };
  return {
    baseUrl: localBaseUrl,
    mediaUrl: localBaseUrl,
    shownMediaUrl: localBaseUrl,
    apiKey: (await readAnnouncement(findServiceFolder(io)))?.api_key ?? noKey,
    isInProcess: true,
    hasRealModels: engines.some(({ isSimulation }) => !isSimulation),
    engines,
    freeModels: listFreeModels(prices),
    announcement: undefined,
    async fetch(url) {
      if (url !== `${localBaseUrl}/v1/models`) return sendNothing();
      return Response.json({ object: "list", data: await listModels(localAccount, prices) });
    },
    settled: async () => {},
    close: async () => {},
  };
}

/** The ids of the engines for a model. */
function engineIdsFor(model: string, engines: readonly { models: readonly string[]; id: string }[]): string {
  const able = engines.filter(({ models }) => models.includes(model));
  return able
    .map(({ id }) => id)
    .sort()
    .join(" ");
}

/** Runs the service in this process; returns `undefined` if another process already runs it. */
async function runHere(options: LocalOptions, io: Io): Promise<LocalConnection | undefined> {
  const { engine, isStarting, onNote } = options;
  // For SQLite, and for the classes of requests and replies.
  checkAddressSpace(2);
  const engines = engine.length === 0 ? undefined : await createEnginesHere(options, io);
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
      // Real models are paid at their provider, so they need no local credits.
      creditsPer: new Map(engines?.flatMap(({ models }) => models.map((model) => [model, 0] as const))),
      isCommand: true,
      pace: "fast",
      // Unpolled generations of earlier runs must not delay this one.
      resume: "polled",
      host: "127.0.0.1",
      isLoopback: true,
      ports: { api: 0, media: 0 },
      onDelivery: (event) => event.isDelivered || onNote(deliveryLine(event)),
      onNote,
    },
    io,
  ).catch((error) => {
    throw folderError(error, folder);
  });
  if (service.kind === "held") return undefined;
  const { base_url, media_url, api_key } = service.address;
  return {
    baseUrl: base_url,
    mediaUrl: media_url,
    shownMediaUrl: media_url,
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
      // The handler does not see every abort, because Node may collect a request's own signal as garbage.
      return unlessAborted(handler(new Request(url, init)), signal);
    },
    settled: service.settled,
    close: () => service.close(0),
  };
}
