import type { Clock, HttpResponse, Io } from "../../src/io.ts";
import { createSecret } from "../../src/server/callbacks/signature.ts";
import type { Engine } from "../../src/server/engines/engine.ts";
import { kinds } from "../../src/server/engines/videos/kinds.ts";
import type { ServerIo } from "../../src/server/engines/videos/server.ts";
import { createVideosEngine } from "../../src/server/engines/videos/videos.ts";
import type { MediaStore } from "../../src/server/media/media-store.ts";
import { createService, type Service } from "../../src/server/service.ts";
import type { Store } from "../../src/server/store/store.ts";
import { timeoutMs } from "./engines-faults.ts";
import { type KindId, model, readable } from "./engines-network.ts";
import { createSdkEngine, createWorkflowEngine } from "./engines-others.ts";

export const engineUrl = "http://gpu.test";

/** The service as one process runs it. After its kill, nothing that it waits for happens any more. */
export type Process = {
  service: Service;
  /** Resolves when it is killed. */
  killed: Promise<void>;
  /** Kills it if it is not dead already. */
  kill(): void;
};

export type ProcessOptions = {
  kind: KindId;
  /** Whether the owner has named the engine's kind. */
  isKindNamed: boolean;
  concurrency: number;
  /** Where it keeps what the engine needs. */
  folder: string;
  store: Store;
  videos: MediaStore;
  clock: Clock;
  fetch: Io["fetch"];
  /** It is killed before or after so many steps: requests, pieces of replies, and changes in the store. */
  killAt: number;
};

export function startProcess(options: ProcessOptions): Process {
  const { clock, store, videos } = options;
  const { through, killed, kill } = createLife(options.killAt);
  const fetch: Io["fetch"] = through(async (url, init) => {
    const reply = await options.fetch(url, init);
    return { ...readable(reply), body: throughEach(reply, through) };
  });
  const ownClock = { ...clock, sleep: through(clock.sleep, 0) };
  const ownIo = {
    ...ownClock,
    fetch,
    open: (url: string, init: { signal: AbortSignal }) => fetch(url, { signal: init.signal }),
  };
  const engine = createEngine(options, ownIo);
  const ownStore: Store = {
    ...store,
    generation: through(store.generation),
    keepCheckpoint: through(store.keepCheckpoint),
    finish: through(store.finish),
    claim: through(store.claim, 0),
    waiting: through(store.waiting, 0),
    due: through(store.due, 0),
  };
  const nobody = () => Promise.reject(new Error("nobody is there"));
  const service = createService({
    store: ownStore,
    engines: [engine],
    videos,
    clock: ownClock,
    pace: "fast",
    hasDirectives: false,
    hasRefunds: true,
    onNote: () => {},
    creditsPer: new Map(),
    hasPaidPreviews: true,
    outbound: { post: nobody, get: nobody, open: nobody },
    webhookSecret: createSecret(),
    baseUrl: () => "http://api.test",
    mediaUrl: () => "http://media.test",
    onDelivery: () => {},
    reportProblem: () => {},
  });
  return { service, killed, kill };
}

function createEngine({ kind, isKindNamed, concurrency, folder }: ProcessOptions, io: ServerIo): Engine {
  const shared = { url: engineUrl, timeoutMs, onNote: () => {}, models: [model], concurrency };
  if (kind === "ai-sdk") return createSdkEngine({ ...shared, folder }, io);
  if (kind === "comfyui") return createWorkflowEngine({ ...shared, folder }, io);
  const named = isKindNamed ? kinds.find(({ id }) => id === kind) : undefined;
  return createVideosEngine({ ...shared, upstreamModel: undefined, key: undefined, kind: named }, io);
}

type Through = <Args extends unknown[], Result>(
  work: (...args: Args) => Promise<Result>,
  weight?: number,
) => (...args: Args) => Promise<Result>;

/** Counts the steps of a process. At the fatal one, and for ever after it, nothing resolves. */
function createLife(killAt: number) {
  const never = new Promise<never>(() => {});
  let [steps, isDead, kill] = [0, false, () => {}];
  const killed = new Promise<void>((resolve) => {
    kill = () => {
      isDead = true;
      resolve();
    };
  });
  const step = async (weight: number) => {
    if (steps < killAt && steps + weight >= killAt) kill();
    steps += weight;
    if (isDead) await never;
  };
  const through: Through =
    (work, weight = 1) =>
    async (...args) => {
      await step(weight);
      try {
        return await work(...args);
      } finally {
        await step(weight);
      }
    };
  return { through, killed, kill: () => kill() };
}

async function* throughEach({ body }: HttpResponse, through: Through): AsyncGenerator<Uint8Array> {
  if (!body) return;
  const chunks = body[Symbol.asyncIterator]();
  const next = through(() => chunks.next());
  for (let chunk = await next(); !chunk.done; chunk = await next()) yield chunk.value;
}
