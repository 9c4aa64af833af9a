import { writeSync } from "node:fs";
import fsPromises from "node:fs/promises";
import { join } from "node:path";
import type { Disk } from "../../../src/io.ts";
import type { LeaseIo } from "../../../src/lease.ts";
import { acquireFolder } from "../../../src/server/announcement.ts";
import { hashKey } from "../../../src/server/api/accounts.ts";
import { beginRun, endRun } from "../../../src/server/backup.ts";
import type { Engine } from "../../../src/server/engines/engine.ts";
import { kinds } from "../../../src/server/engines/videos/kinds.ts";
import { createVideosEngine } from "../../../src/server/engines/videos/videos.ts";
import { openFolder } from "../../../src/server/media/folder.ts";
import type { Outbound } from "../../../src/server/outbound/outbound.ts";
import { openState } from "../../../src/server/serve.ts";
import { createService, type Service } from "../../../src/server/service.ts";
import type { Store } from "../../../src/server/store/store.ts";
import type { DatabaseServer } from "./database.ts";
import type { EnginePlan } from "./plan.ts";
import type { ReachEngine } from "./probes.ts";
import type { Process } from "./process.ts";
import { engineUrls, type Provider } from "./provider.ts";
import type { EngineRules } from "./rules.ts";
import { gate, watch } from "./watch.ts";

/** A process of `vidgen serve` that has opened its state. */
export type Serve = {
  process: Process;
  service: Service;
  store: Store;
  /** What a SIGTERM does. */
  close(): Promise<void>;
  /** Does what a reload of its configuration does. */
  use(engines: readonly number[]): void;
};

export type OpenOptions = {
  plan: EnginePlan;
  process: Process;
  /** The folder that the processes share, by the path of this one. */
  folder: string;
  /** The database, where the processes share one. */
  database: DatabaseServer | undefined;
  /** When a process of this machine and namespace started, by its PID. */
  startOf(pid: number): string | undefined;
  provider: Provider;
  /** The engines that are used when it starts, and whether the key of another one is gone. */
  used: readonly number[];
  isKeyLost(): boolean;
  rules: EngineRules;
  post: Outbound["post"];
  /** Fetches images. */
  get: Outbound["get"];
  reach: ReachEngine;
  /** The number in `service.json`. */
  announced: { runs: number };
  /** Whether it is started with `--restored`. */
  isRestored: boolean;
  /** Called when this process has lost its folder to another one. */
  onLost(): void;
  tell(text: () => string): void;
};

export const accounts = { local: "canary-key-0123456789", other: "canary-key-of-another" };
export const credits = 10_000;
export const model = "wan-2.5";
/** What an engine makes: each story asks for the first. */
export const modelsOf = (engine: number): string[] => [model, `made-by-${engine + 1}`];
export const mediaUrl = "https://media.test";
const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;

/** Does what `openService` and `openSharedService` do, but for sockets. `undefined` while another process has the folder. */
export async function openServe(options: OpenOptions): Promise<Serve | undefined> {
  const { plan, process, folder, database, provider, rules, reach, tell } = options;
  let { clock } = process;
  const reportProblem = (what: string, error: unknown) =>
    tell(() => `${process.name} says: ${what}: ${error instanceof Error ? error.message : error}`);
  const onNote = (text: string) => tell(() => `${process.name} says: ${text}`);
  const steps: (() => Promise<void>)[] = [];
  const close = async () => {
    for (const step of steps.splice(0).reverse()) await step();
  };
  let store: Store;
  if (database) {
    const { store: connected, time } = database.connect(process, { reportProblem, onNote });
    await time.measure();
    store = connected;
    clock = { ...clock, date: time.date };
  } else {
    const acquired = await acquireFolder(folder, leaseIo(options));
    if (acquired.kind === "held") return undefined;
    const { lost, release } = acquired.lease;
    steps.push(release);
    lost.addEventListener(
      "abort",
      () => {
        reach("a folder is taken over from a frozen process");
        tell(() => `${process.name} has lost its folder`);
        void close().then(options.onLost);
      },
      { once: true },
    );
    const state = await openState({ folder, onNote }, acquired.lease);
    const watched = watch(state, rules).of(process);
    store = gate(watched, process);
    steps.push(store.close);
    const { announced, isRestored } = options;
    if (watched.provenance)
      announced.runs = await beginRun(watched.provenance, { announcedRuns: announced.runs, isRestored, onNote }, clock);
  }
  if (database) steps.push(store.close);
  for (const [name, key] of Object.entries(accounts))
    await store.addAccount({ name, keyHash: hashKey(key), creditsOf: (had) => had ?? credits });
  const mark = database ? process.name : undefined;
  const videos = await openFolder({
    folder: join(folder, "videos"),
    ...(mark === undefined ? {} : await scratchOf(folder, mark)),
  });
  const refuse = () => Promise.reject(new Error("nobody is there"));
  const engineOf = (index: number): Engine => {
    const url = engineUrls[index] ?? "";
    const engine = createVideosEngine(
      {
        url,
        upstreamModel: undefined,
        kind: kinds.find(({ id }) => id === plan.kind),
        key: "canary-key-of-the-provider",
        timeoutMs: 30 * 60_000,
        models: modelsOf(index),
        concurrency: plan.engines[index],
        onNote,
      },
      { ...clock, fetch: provider.fetchFor(process), open: provider.openFor(process) },
    );
    const check = async (signal: AbortSignal) => {
      await provider.fetchFor(process)(`${url}/health`, { signal });
      return plan.kind;
    };
    return Object.assign(engine, { origin: { url }, check });
  };
  const creditsPer = new Map([[model, 7]]);
  const service = createService({
    store,
    engines: options.used.map(engineOf),
    reopen({ url }) {
      if (options.isKeyLost()) {
        reach("a job waits for an engine without its key");
        throw new Error("its key is not set");
      }
      reach("an engine is drained by a process that never used it");
      return engineOf(engineUrls.indexOf(String(url)));
    },
    isCommand: plan.isCommand,
    videos,
    clock,
    pace: "fast",
    hasRefunds: plan.hasRefunds,
    creditsPer,
    hasPaidPreviews: true,
    hasDirectives: false,
    webhookSecret: secret,
    outbound: { post: options.post, get: options.get, open: refuse },
    baseUrl: () => "https://api.test",
    mediaUrl: () => mediaUrl,
    onDelivery: () => {},
    onNote,
    reportProblem,
  });
  steps.push(service.close, async () => service.endStreams());
  const { provenance } = store;
  if (provenance)
    steps.push(async () => {
      options.announced.runs = await endRun(provenance, options.announced.runs);
    });
  await service.start(plan.isCommand ? "polled" : "all");
  const use = (used: readonly number[]) => service.updateEngines({ engines: used.map(engineOf), creditsPer });
  return { process, service, store, close, use };
}

/** Unfinished files of processes that share a place are apart. */
async function scratchOf(folder: string, mark: string) {
  const scratch = join(folder, "videos", `.unfinished-${mark}`);
  await fsPromises.mkdir(scratch, { recursive: true });
  return { mark, scratch: { folder: scratch, close: async () => {} } };
}

/** The lease of the folder, on the real files. */
function leaseIo({ process, startOf }: OpenOptions): LeaseIo {
  return {
    ...process.clock,
    uuid: process.random.uuid,
    disk: { ...fsPromises, writeSync } as Disk,
    processes: { self: async () => process.id, startOf: async (pid) => startOf(pid) },
  };
}
