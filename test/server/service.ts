import { readdirSync, writeFileSync } from "node:fs";
import { onTestFinished } from "vitest";
import type { Clock } from "../../src/io.ts";
import { models } from "../../src/protocol/models.ts";
import { hashKey } from "../../src/server/api/accounts.ts";
import { createApp, createRoutes } from "../../src/server/api/app.ts";
import { createHealth } from "../../src/server/api/health.ts";
import { createRehearsedMedia, rehearseStarts } from "../../src/server/api/rehearsal.ts";
import { createStartRoutes } from "../../src/server/api/start.ts";
import { deliveryLine } from "../../src/server/callbacks/delivery.ts";
import { type CallbackSender, createCallbackSender } from "../../src/server/callbacks/sender.ts";
import { createSecret, createSigner } from "../../src/server/callbacks/signature.ts";
import type { Engine, RenderTask } from "../../src/server/engines/engine.ts";
import type { Handler } from "../../src/server/http/message.ts";
import { openFolder } from "../../src/server/media/folder.ts";
import { createOutbound, type Get, type Post } from "../../src/server/outbound/outbound.ts";
import { createQueue, type Queue } from "../../src/server/queue/queue.ts";
import type { ServiceParts } from "../../src/server/service-parts.ts";
import { openStore } from "../../src/server/store/sqlite/sqlite-store.ts";
import type { Store } from "../../src/server/store/store.ts";
import { createVirtualClock } from "../clock.ts";
import { makeFolder } from "../folder.ts";
import { tinyMp4 } from "../mp4.ts";
import { createDescribed } from "./api/described.ts";
import { aPng } from "./queue/pictures.ts";

export const baseUrl = "https://api.video.example";
export const mediaUrl = "https://media.video.example";
export const apiKey = "canary-key-0123456789";
/** The key of a second account, which has credits of its own. */
export const otherKey = "canary-key-of-another";

/** How long the fake engine takes for one video. */
export const renderMs = 30_000;

export type ServiceOptions = {
  credits?: number;
  /** Of the file that the fake engine writes. */
  content?: string;
  /** What the fake engine does in place of writing its files. */
  render?: Engine["render"];
  concurrency?: number;
  /** They take the place of the fake engine. */
  engines?: Engine[] | ((clock: Clock) => Engine[]);
  reopen?: ServiceParts["reopen"];
  reload?: ServiceParts["reload"];
  creditsPer?: Record<string, number>;
  /** Whether previews cost the owner credits too; they do unless told otherwise. */
  hasPaidPreviews?: boolean;
  hasDirectives?: boolean;
  hasPassthrough?: boolean;
  store?: Store;
  /** Where the videos are: a new folder unless it is that of an earlier service. */
  folder?: string;
  /** Whoever has the images. */
  get?: Get;
  pace?: ServiceParts["pace"];
  hasRefunds?: boolean;
  isCommand?: boolean;
  /** The address behind a proxy. */
  publicUrl?: string;
  /** What an earlier process has left: all of it goes on, or what is polled. */
  resume?: "all" | "polled";
  /** Whoever listens at the callback addresses. */
  receive?: Post;
};

export type TestService = {
  /** Every reply of it is compared with its own description. */
  api: Handler;
  /** The paths that it answers. */
  routes: string[];
  media: Handler;
  clock: Clock;
  /** The price of each model that is not the usual one; a test may change it. */
  creditsPer: Map<string, number>;
  store: Store;
  queue: Queue;
  callbacks: CallbackSender;
  /** The secret that callbacks are signed with. */
  secret: string;
  /** Where the videos are. */
  folder: string;
  /** What the engine was handed. */
  rendered: RenderTask[];
  /** The ids of what has ended, in order. */
  ended: string[];
  /** What the service says went wrong. */
  troubles: string[];
  /** What it says besides. */
  notes: string[];
  /** Kills the process: nothing that it waits for happens any more. */
  kill(): void;
  /** What the service says of its callbacks. */
  deliveries: string[];
  /** POSTs a start request; its fields add to a good one, and `undefined` takes one away. */
  start(fields?: object, headers?: Record<string, string>): Promise<Response>;
  /** Starts one and returns its id. */
  startId(fields?: object): Promise<string>;
  /** GETs the status of one. */
  status(id: string, key?: string): Promise<Response>;
  /** Cancels one. */
  cancel(id: string, key?: string): Promise<Response>;
  /** Lets as many generations end as the fake engine makes in that time; a bit more for the last one. */
  rest(generations?: number): Promise<void>;
};

/** The parts of the local service as `createService` puts them together, with two accounts and a fake engine on a virtual clock. */
export async function createTestService(options: ServiceOptions = {}): Promise<TestService> {
  const { credits = 1000, content, receive = accept, hasRefunds = true } = options;
  const { store, kill, isKilled } = createMortal(options.store ?? (await openStore(":memory:")));
  const clock = createVirtualClock();
  const creditsPer = new Map(Object.entries(options.creditsPer ?? {}));
  const folder = options.folder ?? makeFolder();
  const videos = await openFolder({ folder });
  const rendered: RenderTask[] = [];
  const ended: string[] = [];
  const deliveries: string[] = [];
  const troubles: string[] = [];
  const notes: string[] = [];
  const reportProblem = (what: string, error: unknown) => void troubles.push(`${what}: ${error}`);
  const render: Engine["render"] = async (task, { signal }) => {
    rendered.push(task);
    await clock.sleep(renderMs, signal);
    writeFileSync(task.file, content ?? tinyMp4(task.request.prompt));
    writeFileSync(task.thumbnail, "a picture");
    return { kind: "made", hasThumbnail: true };
  };
  const engine = fakeEngine({ concurrency: options.concurrency ?? 1, render: options.render ?? render });
  const engines = typeof options.engines === "function" ? options.engines(clock) : (options.engines ?? [engine]);
  for (const [name, key] of Object.entries({ local: apiKey, other: otherKey })) {
    await store.addAccount({ name, keyHash: hashKey(key), creditsOf: () => credits });
  }
  const secret = createSecret();
  // What the service waits for must not move the time on.
  const ownClock = { ...clock, sleep: clock.doze };
  const callbacks = createCallbackSender({
    store,
    sign: createSigner(secret),
    post: receive,
    random: () => 0.5,
    clock: ownClock,
    reportProblem,
    onDelivery: (event) => deliveries.push(deliveryLine(event)),
  });
  const queue = createQueue({
    store,
    videos,
    mediaUrl: () => mediaUrl,
    engines,
    clock: ownClock,
    reportProblem,
    hasRefunds,
    isCommand: options.isCommand,
    reopen: options.reopen,
    get: options.get ?? anyImage,
    pace: options.pace ?? "fast",
    onNote: (text) => notes.push(text),
  });
  const { finish } = store;
  store.finish = async (id, ...end) => {
    const isEnded = await finish(id, ...end);
    if (isEnded) ended.push(id);
    return isEnded;
  };
  store.listen((change) => {
    queue.onChange(change);
    if (change.kind === "callback") void callbacks.wake();
  });
  queue.start(options.resume ?? "polled");
  void callbacks.wake();
  onTestFinished(async () => {
    if (!isKilled()) await Promise.all([queue.close(), callbacks.close()]);
    if (!options.store) await store.close();
  });
  const startOptions = {
    ...{ store, engines, clock, creditsPer, missing: queue.missingEngines },
    hasPaidPreviews: options.hasPaidPreviews ?? true,
    hasDirectives: options.hasDirectives ?? false,
    hasPassthrough: options.hasPassthrough,
    findImageFault: createOutbound({ allowLoopback: (account) => account === "local", clock }).findImageFault,
  };
  const media = createRehearsedMedia({ store, videos, reportProblem });
  const appOptions = {
    startBy: createStartRoutes(rehearseStarts(startOptions)),
    media,
    store,
    videos,
    queue,
    reload: options.reload,
    onNote: (text: string) => void notes.push(text),
    readMetrics: async () => ({ text: "", contentType: "text/plain" }),
    clock,
    engines,
    baseUrl: () => baseUrl,
    mediaUrl: () => mediaUrl,
    reportProblem,
    hasRefunds,
    creditsPer,
    hasPaidPreviews: options.hasPaidPreviews ?? true,
    webhookSecret: secret,
    publicUrl: options.publicUrl,
    health: createHealth({ store, videos, engines, clock }).paths,
  };
  const api = createDescribed(createApp(appOptions), baseUrl);

  const service: TestService = {
    api,
    routes: createRoutes(appOptions).routes.map(({ path }) => path),
    clock,
    folder,
    creditsPer,
    store,
    queue,
    callbacks,
    secret,
    rendered,
    ended,
    deliveries,
    troubles,
    notes,
    kill,
    media,
    start: (fields, headers) => api(startRequest({ prompt: "a fox", model: "sora-2", ...fields }, headers)),
    startId: async (fields) => (await readStart(await service.start(fields))).data.id,
    status: (id, key = apiKey) =>
      api(new Request(`${baseUrl}/api/generation-status?id=${id}`, { headers: bearer(key) })),
    cancel: (id, key = apiKey) =>
      api(new Request(`${baseUrl}/api/cancel?id=${id}`, { method: "POST", headers: bearer(key) })),
    rest: (generations = 1) => clock.sleep(renderMs * generations + 1_000),
  };
  return service;
}

/** An engine that stands in for a real model, serves every model and makes one video at a time, but for what is given. */
export function fakeEngine(changes: Partial<Engine> = {}): Engine {
  return {
    name: "fake",
    isSimulation: true,
    models: models.map(({ id }) => id),
    maxImages: 4,
    concurrency: 1,
    timeoutMs: 30 * 60_000,
    render: () => Promise.reject(new Error("nothing is rendered here")),
    check: async () => "a fake",
    ...changes,
  };
}

/** A start request with this body, as JSON unless it is a text. */
export function startRequest(body: unknown, headers: Record<string, string> = {}): Request {
  return new Request(`${baseUrl}/api/generate`, {
    method: "POST",
    headers: { ...bearer(apiKey), "Content-Type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
}

export function bearer(key: string): { Authorization: string } {
  return { Authorization: `Bearer ${key}` };
}

type StartReply = {
  success: boolean;
  data: { id: string; created_at: string };
  credits_charged: number;
  remaining_credits: number;
};

export async function readStart(response: Response): Promise<StartReply> {
  return (await response.json()) as StartReply;
}

/** The service's way to say no, without its `type`: `{"error":{"code","message","type"}}`. */
export async function readError(response: Response): Promise<{ code: string; message: string }> {
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  return { code: error.code, message: error.message };
}

/** The store as that of another machine, which cannot be reached while `isAway`. */
export function createDistant(store: Store): { store: Store; isAway: boolean } {
  const away = () => Promise.reject(Object.assign(new Error("canary: 10.0.0.1 is away"), { isUnavailable: true }));
  const distant = { store, isAway: false };
  distant.store = through(store, (method, name) => (distant.isAway && name !== "close" ? away() : method()));
  return distant;
}

/** The store as one process has it: after its kill, nothing happens any more. */
function createMortal(store: Store): { store: Store; kill(): void; isKilled(): boolean } {
  let isKilled = false;
  const listen: Store["listen"] = (onChange) => store.listen((change) => isKilled || onChange(change));
  const dead = new Promise<never>(() => {});
  return {
    store: { ...through(store, (method, name) => (isKilled && name !== "close" ? dead : method())), listen },
    isKilled: () => isKilled,
    kill() {
      isKilled = true;
    },
  };
}

/** A store whose methods that ask the database go through `call`. */
function through(store: Store, call: (method: () => unknown, name: string) => unknown): Store {
  const wrap = ([name, value]: [string, unknown]) =>
    typeof value !== "function" || name === "listen" || name === "publish"
      ? [name, value]
      : [name, (...args: unknown[]) => call(() => value(...args), name)];
  return Object.fromEntries(Object.entries(store).map(wrap));
}

/** The names of the files in a folder of videos, with those of fetched images, but for the sign that it is there. */
export function filesIn(folder: string): string[] {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return names.filter((name) => name !== ".vidgen" && name !== "images");
}

const anyImage: Get = async () => ({ status: 200, body: aPng(1, 1) });

const accept: Post = async () => ({ status: 204 });
