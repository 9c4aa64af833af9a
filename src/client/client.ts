import { randomUUID } from "node:crypto";
import { resolve } from "node:path";
import { checkApiKey, checkBaseUrl, isLoopback } from "../cli/settings.ts";
import { formsOf, plain } from "../cli/terminal/output.ts";
import { asVidgenError, systemCode, usage, VidgenError } from "../errors.ts";
import { type Clock, type Io, systemClock } from "../io.ts";
import { createClient as createWire } from "./api.ts";
import { collect } from "./collect.ts";
import { type Completed, localPace, remotePace } from "./follow.ts";
import { createFetch } from "./http.ts";
import { type Journal, type Line, openJournal } from "./journal.ts";
import { lookPatiently } from "./look.ts";
import { checkModel } from "./models.ts";
import { checkPrompt } from "./request.ts";
import { type Generation, isRecord, parseJson, type Started, type StartRequest } from "./schema.ts";
import { start } from "./start.ts";
import { claimTarget, type Target } from "./target.ts";

export type ClientOptions = {
  /** The service's address; https, except on this machine. */
  baseUrl: string;
  apiKey: string;
  /** A file in which each start is written down before it is sent, as the CLI does; without one nothing is written down. */
  journal?: string;
  /** Told what a person may want to know on the way, such as that the service is hard to reach. */
  onNote?(text: string): void;
};

/** What every call takes: its promise rejects with `interrupted` once `signal` aborts. */
export type CallOptions = { signal?: AbortSignal };

export type FollowOptions = CallOptions & {
  /** How long to wait for the end; in milliseconds, 15 minutes by default. */
  timeoutMs?: number;
  /** Between two looks, in milliseconds; by default what the interface recommends. */
  intervalMs?: number;
};

export type DownloadOptions = FollowOptions & {
  /** Replaces a file that exists. */
  overwrite?: boolean;
  /** Both in bytes; `total` is `undefined` where the media address does not say. */
  onProgress?(received: number, total: number | undefined): void;
};

export type Client = {
  /**
   * Starts a generation (interface 4.1). It costs credits, so the request is sent once: again only when not a byte of the first was
   * written, or when the service put it off. Rejects with `unknown` where it may have been charged, and with nothing else then: the error's
   * `attempt` is the Idempotency-Key that was sent. A `signal` that aborts while the request is out waits 10 s for its id.
   */
  start(request: StartRequest, options?: CallOptions): Promise<Started & { attempt: string }>;
  /** One look at a generation (interface 4.2); trouble on the way is survived for 30 s. */
  status(id: string, options?: CallOptions): Promise<Generation>;
  /** Follows a generation until it has completed. Rejects with `failed`, with `pending` when the time is over. */
  follow(id: string, options?: FollowOptions): Promise<Completed>;
  /**
   * Follows a generation and saves its video as a file, or into a folder (one that exists, or a name that ends in a slash). The file gets its
   * name only when it is whole. Rejects with `output` where it cannot be saved, or exists.
   */
  download(id: string, place: string, options?: DownloadOptions): Promise<Completed & { file: string }>;
};

type World = Clock & Pick<Io, "fetch" | "pid" | "isRunning">;

/** What a library may have of the real world: it leaves signals, streams and the process's end to whoever uses it. */
function libraryIo(): World {
  return { pid: process.pid, isRunning, fetch: createFetch(process.env, { isOwnProcess: false }), ...systemClock };
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return systemCode(error) === "EPERM";
  }
}

/** A client of the service, made of the same functions as the CLI. What it rejects with is a `VidgenError`; throws `usage` itself. */
export function createClient(options: ClientOptions): Client {
  const io = libraryIo();
  const baseUrl = checkBaseUrl(String(options.baseUrl), "baseUrl");
  const apiKey = checkApiKey(String(options.apiKey));
  const wire = createWire({ baseUrl, apiKey, fetch: io.fetch });
  const redact = createRedact(apiKey);
  const journal = chooseJournal(options.journal, redact, io);
  const onNote = unharmed((text: string) => options.onNote?.(plain(redact(text))));
  const run = createRun((error) => restate(error, options.journal, redact));
  /** The service may not know everywhere yet what was started a moment ago. */
  const fresh = new Set<string>();
  const collectTo = async (target: Target | undefined, id: string, how: DownloadOptions, signal: AbortSignal) => {
    const follow = { ...readTimes(how, baseUrl), isNew: fresh.delete(id), signal, onNote };
    const onProgress = unharmed(how.onProgress ?? (() => {}));
    return collect(wire, id, { ...follow, target, naming: {}, journal, etag: undefined, onProgress }, io);
  };

  return {
    start: (request, how = {}) =>
      run(how, async (signal) => {
        const attempt = randomUUID();
        const { signal: leave } = new AbortController();
        const manner = { attempt, place: undefined, journal, signal, leave, onNote };
        const started = await start(wire, copyRequest(request), manner, io);
        fresh.add(started.generation.id);
        return { ...started, attempt };
      }),
    status: (id, how = {}) => run({ ...how, id }, (signal) => lookPatiently(wire, id, io, signal)),
    follow: (id, how = {}) =>
      run({ ...how, id }, async (signal) => {
        const { generation, videoUrl } = await collectTo(undefined, id, how, signal);
        return { generation, videoUrl };
      }),
    download: (id, place, how = {}) =>
      run({ ...how, id }, async (signal) => {
        const target = await claim(id, place, { overwrite: how.overwrite ?? false, journal, io });
        try {
          const { file, ...completed } = await collectTo(target, id, how, signal);
          return { ...completed, file: file ?? place };
        } finally {
          await target.release();
        }
      }),
  };
}

type Call = CallOptions & { id?: string };

/** Runs one call: what it is given by the caller is turned into what the CLI's functions know, and so is what it throws. */
function createRun(restate: (error: VidgenError) => VidgenError) {
  return async <Result>(call: Call, work: (signal: AbortSignal) => Promise<Result>): Promise<Result> => {
    const controller = new AbortController();
    const onAbort = () =>
      controller.abort(new VidgenError("interrupted", "Interrupted.", { cause: call.signal?.reason }));
    call.signal?.addEventListener("abort", onAbort, { once: true });
    try {
      if (call.signal?.aborted) onAbort();
      if ("id" in call && (typeof call.id !== "string" || call.id === "")) throw usage("The id is empty.");
      return await work(controller.signal);
    } catch (thrown) {
      throw restate(asVidgenError(thrown).with({ id: call.id }));
    } finally {
      call.signal?.removeEventListener("abort", onAbort);
    }
  };
}

/** An error of the CLI's functions in the library's words: their hints name commands. */
function restate(error: VidgenError, journal: string | undefined, redact: Redact): VidgenError {
  const { id, httpStatus, attempt, cause } = error;
  const message = plain(redact(error.message));
  if (attempt === undefined) return new VidgenError(error.code, message, { id, httpStatus, cause });
  const written = journal === undefined ? "" : `, and is written down in ${journal}`;
  const hint = `It was not sent again${written}. Look at the account for a new generation before you start another.`;
  return new VidgenError("unknown", message, { id, httpStatus, attempt, cause, hint });
}

type Redact = (text: string) => string;

function createRedact(apiKey: string): Redact {
  const forms = apiKey.length < 8 ? [] : formsOf(apiKey);
  return (text) => forms.reduce((shown, form) => shown.replaceAll(form, "[key]"), text);
}

type OwnJournal = Pick<Journal, "append" | "claimants">;

function chooseJournal(path: string | undefined, redact: Redact, io: World): OwnJournal {
  if (path === undefined) return { append: async () => {}, claimants: async () => [] };
  const journal = openJournal(resolve(path), io);
  const redacted = (line: Line): Line => ("reason" in line ? { ...line, reason: redact(line.reason) } : line);
  return { append: (line) => journal.append(redacted(line)), claimants: journal.claimants };
}

type ClaimOptions = { overwrite: boolean; journal: OwnJournal; io: World };

/** As the CLI claims it; but a process that lives on may save the same video twice at once, so nothing of its own is taken over or kept. */
async function claim(id: string, place: string, { overwrite, journal, io }: ClaimOptions): Promise<Target> {
  if (place === "") throw usage("The place for the video is empty.");
  const onPart = (file: string) => journal.append({ kind: "claim", file, pid: io.pid }).catch(() => {});
  const mayTakeOver = async (file: string) => {
    const pids = await journal.claimants(file);
    return pids.length > 0 && pids.every((pid) => pid !== io.pid && !io.isRunning(pid));
  };
  const options = { overwrite, unique: randomUUID(), naming: { id }, onPart, mayTakeOver };
  const target = await claimTarget(place === "-" ? "./-" : place, options);
  return { ...target, keep() {} };
}

/** What is sent is what was written down, whatever becomes of the caller's object meanwhile. */
function copyRequest(request: StartRequest): StartRequest {
  const copy = parseJson(toJson(request));
  if (!isRecord(copy) || typeof copy.prompt !== "string" || typeof copy.model !== "string")
    throw usage("A request is an object with a prompt and a model.");
  checkPrompt(copy.prompt);
  return { ...copy, prompt: copy.prompt, model: checkModel(copy.model) };
}

function toJson(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "";
  } catch (cause) {
    throw new VidgenError("usage", "The request cannot be written as JSON.", { cause });
  }
}

function readTimes({ timeoutMs = 15 * 60_000, intervalMs }: FollowOptions, baseUrl: string) {
  if (!(timeoutMs > 0)) throw usage("timeoutMs is a number above 0.");
  if (intervalMs !== undefined && !(intervalMs >= 1000)) throw usage("intervalMs is 1000 at the least.");
  const pace = isLoopback(new URL(baseUrl).hostname) ? localPace : remotePace;
  return { timeoutMs, intervalMs: intervalMs === undefined ? pace : () => intervalMs };
}

/** Nothing that is paid for is lost because somebody who is only told of it throws. */
function unharmed<Args extends unknown[]>(tell: (...args: Args) => void): (...args: Args) => void {
  return (...args) => {
    try {
      tell(...args);
    } catch {}
  };
}
