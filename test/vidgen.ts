import { writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough, Readable, Writable } from "node:stream";
import { stripVTControlCharacters } from "node:util";
import { onTestFinished } from "vitest";
import { main } from "../src/cli/main.ts";
import { VidgenError } from "../src/errors.ts";
import { type Disk, type DiskFile, type FetchInit, type Io, RequestError, systemMachine } from "../src/io.ts";
import { prepareLocalAccount } from "../src/server/api/accounts.ts";
import { createSecret } from "../src/server/callbacks/signature.ts";
import { openFolder } from "../src/server/media/folder.ts";
import type { Outbound } from "../src/server/outbound/outbound.ts";
import { createService } from "../src/server/service.ts";
import { openStore } from "../src/server/store/sqlite/sqlite-store.ts";
import { createVirtualClock } from "./clock.ts";
import { makeFolder } from "./folder.ts";
import { tinyMp4 } from "./mp4.ts";
import { fakeEngine } from "./server/service.ts";

export const baseUrl = "https://api.video.example";
export const mediaUrl = "https://media.video.example";
export const apiKey = "canary-key-0123456789";

export type Run = { code: number; stdout: string; stderr: string };

/** Stands between the client and the service: answers itself, or returns `undefined` to let the request through. */
export type Fault = (request: Request, world: World) => Promise<Response | undefined> | Response | undefined;

export type World = {
  /** Runs one command line in this process, on the virtual clock, against the local service. */
  vidgen(...argv: string[]): Promise<Run>;
  io: Io;
  env: Record<string, string | undefined>;
  /** An empty folder of its own. */
  folder: string;
  /** Where vidgen keeps its things. */
  home: string;
  stdin: string | Buffer | Readable | undefined;
  /** Whether a person sits there; then `answers` are typed, each when its question shows on stderr. */
  isTerminal: boolean;
  /** How wide the terminal is. */
  columns: number;
  /** Whether stdout and stderr go to the same place, as with `2>&1`. */
  isOneStream: boolean;
  /** Whether nothing more can be written to stdout. */
  isStdoutFull: boolean;
  answers: [question: string, keys: string][];
  faults: Fault[];
  /** What was sent, in order. */
  requests: { method: string; url: string; at: number; headers: Headers; body: string }[];
  /** Bodies that reached a callback address. */
  callbacks: unknown[];
  /** What has been printed by the run under way. */
  printed: Run;
  /** The programs that were started, each with its arguments. */
  launched: [command: string, args: string[]][];
  /** Has the service carry out a start request, and returns its reply. */
  start(request: Request): Promise<object>;
  press(key: "Ctrl-C"): void;
  /** The same machine and service for a new process; those before it are gone. */
  reboot(): World;
  /** The same where those before it are only suspended: their files stay open, and they can still write. */
  freeze(): World;
};

/** `keepsKeys` is whether the service says that it keeps idempotency keys, which the interface does not have. */
export type WorldOptions = { renderMs?: number; credits?: number; keepsKeys?: boolean };

/** A machine with a service on it; everything that `Io` holds is made for the test. */
export async function createWorld(options: WorldOptions = {}): Promise<World> {
  const { renderMs = 30_000, credits = 1000, keepsKeys = false } = options;
  const clock = createVirtualClock();
  const root = makeFolder();
  const [folder, home] = [join(root, "work"), join(root, "home")];
  await mkdir(folder);
  const engine = fakeEngine({
    takesLastImage: true,
    maxReferences: 12,
    async render({ request, file, thumbnail }, { signal }) {
      await clock.doze(renderMs, signal);
      writeFileSync(file, tinyMp4(request.prompt));
      writeFileSync(thumbnail, "a picture");
      return { kind: "made", hasThumbnail: true };
    },
  });
  const callbacks: unknown[] = [];
  const post: Outbound["post"] = async (_url, { body }) => {
    callbacks.push(JSON.parse(body));
    return { status: 204 };
  };
  const get: Outbound["get"] = async () => ({ status: 404, body: new Uint8Array() });
  const store = await openStore(":memory:");
  await prepareLocalAccount(store, apiKey, credits);
  const service = createService({
    store,
    engines: [engine],
    creditsPer: new Map(),
    hasPaidPreviews: true,
    hasDirectives: false,
    videos: await openFolder({ folder: root }),
    pace: "fast",
    hasRefunds: true,
    outbound: { post, get, open: () => Promise.reject(new Error("there is no server elsewhere")) },
    webhookSecret: createSecret(),
    // What the service waits for must not move the time on.
    clock: { ...clock, sleep: clock.doze },
    baseUrl: () => baseUrl,
    mediaUrl: () => mediaUrl,
    onDelivery: () => {},
    reportProblem: () => {},
    onNote: () => {},
  });
  await service.start("all");
  onTestFinished(async () => {
    await service.close();
    await store.close();
  });

  let pid = 1;
  /** The processes up to this one have ended. */
  let ended = 0;
  let controllers = newControllers();
  const opened = new Set<DiskFile>();
  let closed: Promise<unknown> = Promise.resolve();
  /** The system closes the files of a process that has ended; Windows replaces no file that is open. */
  const closeFiles = () => {
    closed = Promise.all([closed, ...[...opened].map((file) => file.close().catch(() => {}))]);
    opened.clear();
    return closed;
  };
  onTestFinished(async () => {
    world.reboot();
    await closed;
  });
  const fetch = async (url: string, init: FetchInit = {}): Promise<Response> => {
    const body = typeof init.body === "string" ? init.body : "";
    world.requests.push({
      method: init.method ?? "GET",
      url,
      at: clock.now(),
      headers: new Headers(init.headers),
      body,
    });
    init.signal?.throwIfAborted();
    const request = new Request(url, init);
    const answer = async () => {
      for (const fault of world.faults) {
        const response = await fault(withSignal(request.clone(), init.signal), world);
        if (response) return response;
      }
      if (url.startsWith(baseUrl)) {
        const response = await service.api(request);
        if (!keepsKeys) response.headers.delete("Idempotency-Key-Lifetime");
        return response;
      }
      if (url.startsWith(mediaUrl)) return service.media(request);
      throw failure("ENOTFOUND", false);
    };
    const end = endOnAbort(init.signal);
    return Promise.race([end.aborted, answer()]).finally(end.clear);
  };
  /** What a process gets of the world: nothing happens in it any more after a reboot. */
  const oneProcess = (): Io => {
    const self = pid;
    const only =
      (isRunning: () => boolean) =>
      <Args extends unknown[], Result>(work: (...args: Args) => Promise<Result>) =>
      (...args: Args) =>
        new Promise<Result>((resolve, reject) => {
          if (!isRunning()) return;
          work(...args).then(
            (result) => isRunning() && resolve(result),
            (error) => isRunning() && reject(error),
          );
        });
    const whileAlive = only(() => pid === self);
    const untilEnd = only(() => self > ended);
    const diskUntilEnd = <T extends Disk | DiskFile>(object: T): T =>
      new Proxy(object, {
        get(target, name) {
          const value: unknown = Reflect.get(target, name);
          return typeof value === "function" && name !== "writeSync" ? untilEnd(value.bind(target)) : value;
        },
      });
    const open: Disk["open"] = async (...call) => {
      const file = await io.disk.open(...call);
      opened.add(file);
      if (self <= ended) await closeFiles();
      return diskUntilEnd(file);
    };
    const disk = diskUntilEnd<Disk>({ ...io.disk, open });
    const processes = {
      ...io.processes,
      self: async () => ({ ...(await io.processes.self()), pid: self, start: String(self) }),
    };
    const limit: Io["limit"] = (ms, parent, reason) => {
      const limited = io.limit(ms, parent, reason);
      const controller = new AbortController();
      const onAbort = () => pid === self && controller.abort(limited.signal.reason);
      if (limited.signal.aborted) onAbort();
      limited.signal.addEventListener("abort", onAbort, { once: true });
      return { ...limited, signal: controller.signal };
    };
    return { ...io, pid: self, disk, processes, limit, fetch: whileAlive(io.fetch), sleep: whileAlive(io.sleep) };
  };
  const io: Io = {
    ...systemMachine,
    ...clock,
    stdin: Readable.from([]),
    stdout: new PassThrough(),
    stderr: new PassThrough(),
    isOneStream: false,
    env: { VIDGEN_HOME: home, VIDGEN_BASE_URL: baseUrl, VIDGEN_API_KEY: apiKey },
    platform: "linux",
    nodeVersion: "20.19.0",
    get pid() {
      return pid;
    },
    unsettled: new Set(),
    processes: {
      self: async () => ({ machine: "boot", namespace: "1", pid, start: String(pid) }),
      startOf: async (other) => (other === pid ? String(other) : undefined),
    },
    home: folder,
    cwd: folder,
    uid: process.geteuid?.(),
    fetch,
    // No program is installed.
    run: () => Promise.reject(Object.assign(new Error("spawn ENOENT"), { code: "ENOENT" })),
    launch: async (...launched) => void world.launched.push(launched),
    optimizeForSize: () => {},
    onHangUp: () => {},
    get signal() {
      return controllers.signal.signal;
    },
    get abandon() {
      return controllers.abandon.signal;
    },
  };
  const world: World = {
    io,
    env: { ...io.env },
    folder,
    home,
    stdin: undefined,
    isTerminal: false,
    columns: 80,
    isOneStream: false,
    isStdoutFull: false,
    answers: [],
    faults: [],
    requests: [],
    callbacks,
    launched: [],
    printed: { code: -1, stdout: "", stderr: "" },
    start: async (request) => (await service.api(request)).json() as Promise<object>,
    press() {
      const { signal, abandon } = controllers;
      (signal.signal.aborted ? abandon : signal).abort(new VidgenError("interrupted", "Interrupted."));
    },
    reboot() {
      ended = pid;
      void closeFiles();
      return world.freeze();
    },
    freeze() {
      pid++;
      controllers = newControllers();
      return world;
    },
    async vidgen(...argv) {
      const run = { code: -1, stdout: "", stderr: "" };
      world.printed = run;
      const isTTY = world.isTerminal;
      const terminal = isTTY ? { isTTY, columns: world.columns } : {};
      const { stdin = [] } = world;
      const piped =
        stdin instanceof Readable ? stdin : Readable.from(stdin.length === 0 ? [] : [Buffer.from(stdin as Buffer)]);
      const keyboard = new PassThrough();
      const type = () => {
        const [question, keys] = world.answers[0] ?? [];
        if (question === undefined || !stripVTControlCharacters(run.stderr).includes(question)) return;
        world.answers.shift();
        setImmediate(() => keyboard.write(keys));
      };
      const onStderr = (text: string) => {
        run.stderr += text;
        type();
      };
      await closed;
      const code = await main(argv, {
        ...oneProcess(),
        env: world.env,
        isOneStream: world.isOneStream,
        stdin: Object.assign(isTTY ? keyboard : piped, { isTTY }),
        stdout: Object.assign(world.isStdoutFull ? fullStream() : collect((text) => (run.stdout += text)), terminal),
        stderr: Object.assign(collect(onStderr), terminal),
      });
      return Object.assign(run, { code });
    },
  };
  return world;
}

function collect(add: (text: string) => void): PassThrough {
  const stream = new PassThrough();
  stream.on("data", (chunk) => add(String(chunk)));
  // As with the real stdout and stderr, nobody who pipes into it can end it.
  const terminal = { cursorTo: () => true, clearLine: () => true, moveCursor: () => true };
  return Object.assign(stream, terminal, { end: () => stream });
}

function fullStream(): Writable {
  const error = Object.assign(new Error("no space"), { code: "ENOSPC" });
  return new Writable({ write: (_, __, done) => done(error) }).on("error", () => {});
}

function newControllers() {
  return { signal: new AbortController(), abandon: new AbortController() };
}

/** The request with the caller's own signal: Node may collect a request's own controller as garbage, and then its signal never aborts. */
function withSignal(request: Request, signal: AbortSignal | null | undefined): Request {
  return signal ? Object.defineProperty(request, "signal", { value: signal }) : request;
}

function endOnAbort(signal: AbortSignal | null | undefined): { aborted: Promise<never>; clear(): void } {
  let onAbort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal?.reason);
    signal?.addEventListener("abort", onAbort);
  });
  return { aborted, clear: () => signal?.removeEventListener("abort", onAbort) };
}

/** The service's own word that it does not know an id. */
export function goneReply(): Response {
  return Response.json({ error: "no such generation" }, { status: 404 });
}

/** A network failure as `io.fetch` reports it. */
export function failure(code: string, sent: boolean): RequestError {
  return new RequestError(Object.assign(new Error(`${code.toLowerCase()} on purpose`), { code }), { sent });
}

export function isStart(request: { method: string; url: string }): boolean {
  return request.method === "POST" && request.url.endsWith("/api/generate");
}

/** Runs a command until `isThere`, then kills it: nothing of it runs any more, and nothing is tidied up. */
export async function kill(world: World, isThere: (request: Request) => boolean, ...argv: string[]): Promise<void> {
  const never = new Promise<never>(() => {});
  await new Promise<void>((resolve) => {
    world.faults.unshift((request) => {
      if (!isThere(request)) return undefined;
      resolve();
      return never;
    });
    void world.vidgen(...argv);
  });
  world.faults.shift();
  world.reboot();
}

/** Runs a command until it has written such a line into the journal, then kills it. */
export async function killAtLine(world: World, kind: string, ...argv: string[]): Promise<void> {
  const { disk } = world.io;
  await new Promise<void>((resolve) => {
    const open = (async (...call: Parameters<typeof disk.open>) => {
      const file = await disk.open(...call);
      const { write } = file;
      const writeThenStop = async (bytes: never, ...rest: never[]) => {
        const written = await write.call(file, bytes, ...rest);
        if (!Buffer.from(bytes).includes(`"kind":"${kind}"`)) return written;
        resolve();
        return new Promise<never>(() => {});
      };
      return Object.assign(file, { write: writeThenStop });
    }) as typeof disk.open;
    Object.assign(world.io, { disk: { ...disk, open } });
    void world.vidgen(...argv);
  });
  world.reboot();
}

/** Answers the first `times` start requests itself. */
export function onStart(answer: () => Response, times = Number.POSITIVE_INFINITY): Fault {
  let left = times;
  return (request) => (isStart(request) && left-- > 0 ? answer() : undefined);
}
