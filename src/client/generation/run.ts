import { asVidgenError, beforePaying, VidgenError } from "../../errors.ts";
import type { AcceptedStart, StartRequest, WireGeneration } from "../../protocol/schema.ts";
import type { Content } from "../ledger/content.ts";
import type { Earlier, StartedEntry } from "../ledger/policy.ts";
import type { ClaimOptions, Target } from "../save/target.ts";
import type { BeginOptions } from "./begin.ts";
import { createChannel } from "./channel.ts";
import type { ClientDownloadOptions, ReadyStart, SendOptions, ServiceClient } from "./client.ts";
import type { EndStatus } from "./events.ts";
import type { End } from "./start.ts";

/** What happens to one generation, from the choice of its attempt to its end. */
export type RunEvent =
  /** The intent is written, and the request goes out next: who stops here has sent nothing. */
  | { event: "sending"; attempt: string; at: string; outputPath: string | undefined }
  /** The service has accepted it. */
  | { event: "accepted"; id: string; attempt: string; at: string; started: AcceptedStart }
  /** An earlier attempt is resumed: nothing is sent. */
  | { event: "resumed"; id: string; attempt: string; at: string; earlier: StartedEntry; isSaved: boolean }
  /** It is asked for until it has ended. */
  | { event: "following"; id: string }
  | { event: "state"; id: string; status: string; percent: number | undefined; node: string | undefined }
  /** The service could not be reached for a while. */
  | { event: "trouble"; id: string; reason: string }
  /** The bytes of its video so far; `total` is `undefined` where the media address does not say. */
  | { event: "progress"; id: string; received: number; total: number | undefined }
  | Ended;

/** The last event: who takes the next one has handed the result over. */
export type Ended = {
  event: "ended";
  /** `undefined` for a start without an id. */
  id: string | undefined;
  status: EndStatus;
  /** As the service told it last; `undefined` for a video that was saved before. */
  generation?: WireGeneration | undefined;
  videoUrl?: string | undefined;
  /** Where it is saved, and what it is known by where this run has saved it. */
  file?: string | undefined;
  content?: Content | undefined;
  /** The place that was claimed, with its number for `{n}`. */
  outputPath: string | undefined;
  /** Why there is no video. */
  error?: VidgenError | undefined;
  /** What Retry-After asks for, of a start that the service does not accept now. */
  notNow?: { waitMs: number | undefined } | undefined;
};

export type CollectOptions = Omit<ClientDownloadOptions, "onState" | "onTrouble" | "onProgress"> &
  Pick<ClaimOptions, "attempt" | "words" | "first"> & {
    /** Where its video is saved; without it the address is the result. */
    outputPath?: string | undefined;
  };

export type RunOptions = CollectOptions &
  Omit<BeginOptions, "timeoutMs"> &
  Omit<SendOptions, "signal" | "balance"> & {
    /** Returns the credits that the account has, right before the request: with them a start tells by how much they have fallen. */
    balance?: (() => number | undefined | Promise<number | undefined>) | undefined;
    /** What to do about earlier attempts; without it none is looked at. */
    earlier?: Earlier | undefined;
    /** Aborts the request that is out; by default `signal` does. A call of an agent that is cancelled must not lose the id. */
    sendSignal?: AbortSignal | undefined;
  };

type Runner = Pick<
  ServiceClient,
  "begin" | "beginNew" | "claim" | "delivered" | "download" | "follow" | "streamed" | "told" | "unsent"
>;

/**
 * Makes one generation: chooses between an earlier attempt and a new one, sends the request that costs money, follows the generation and saves
 * its video. Yields what happens; the end of a start, or of a generation, is an event also where it failed. Taking one more event hands over
 * what the last one had: the result of `ended`, and with `noWait` the id of `accepted`. A consumer that stops before that detaches: before the
 * request nothing is sent, and after it the attempt stays open for a later run. Throws, before anything is sent, as `begin` does.
 */
export async function* run(
  request: StartRequest,
  options: RunOptions,
  client: Runner,
): AsyncGenerator<RunEvent, undefined> {
  const { earlier, noWait = false } = options;
  const choosing =
    earlier === undefined ? client.beginNew(request, options) : client.begin(request, { ...options, earlier });
  const begun = await choosing.catch((error) => {
    throw beforePaying(error);
  });
  const { attempt, at, target } = begun;
  const outputPath = target?.outputPath ?? options.outputPath;
  try {
    let id: string;
    if (begun.kind === "new") {
      const end = yield* send(begun, { ...options, outputPath }, client);
      if (end.kind !== "accepted") return void (yield endOfStart(end, outputPath));
      id = end.started.generation.id;
      yield { event: "accepted", id, attempt, at, started: end.started };
    } else {
      id = begun.earlier.id;
      yield { event: "resumed", id, attempt, at, earlier: begun.earlier, isSaved: begun.file !== undefined };
    }
    if (noWait) await client.told(attempt);
    else if (begun.kind === "resumed" && begun.file !== undefined)
      yield { event: "ended", id, status: "completed", file: begun.file, outputPath };
    else yield* collectInto(id, target, { ...options, outputPath }, client);
    return undefined;
  } finally {
    await begun.release();
  }
}

/** Follows a generation that exists, and saves its video. Yields and detaches as `run` does, and throws nothing. */
export async function* collect(
  id: string,
  options: CollectOptions,
  client: Runner,
): AsyncGenerator<RunEvent, undefined> {
  const { outputPath } = options;
  if (outputPath === undefined) return yield* collectInto(id, undefined, options, client);
  const claimed = await client.claim(id, outputPath, options).catch(asVidgenError);
  if (claimed instanceof VidgenError)
    return void (yield { event: "ended", id, status: "processing", outputPath, error: claimed.with({ id }) });
  const { target, file } = claimed;
  if (target === undefined) return void (yield { event: "ended", id, status: "completed", file, outputPath });
  try {
    return yield* collectInto(id, target, { ...options, outputPath: target.outputPath }, client);
  } finally {
    await target.release();
  }
}

/** Sends the request, unless the consumer stops, or something fails, before it is out. */
async function* send(begun: ReadyStart, options: RunOptions, client: Runner): AsyncGenerator<RunEvent, End> {
  const { attempt, at } = begun;
  const { outputPath, signal, sendSignal = signal, balance, ...how } = options;
  let reason: unknown = new VidgenError("interrupted", "It was stopped before the request.");
  let isReady = false;
  let credits: number | undefined;
  try {
    yield { event: "sending", attempt, at, outputPath };
    credits = await balance?.();
    isReady = true;
  } catch (error) {
    reason = error;
    throw error;
  } finally {
    if (!isReady) await client.unsent(attempt, asVidgenError(reason));
  }
  return begun.sendUntilKnown({ ...how, signal: sendSignal, balance: credits });
}

function endOfStart(end: Exclude<End, { kind: "accepted" }>, outputPath: string | undefined): Ended {
  const { kind: status, error } = end;
  const notNow = "notNow" in end ? end.notNow : undefined;
  return { event: "ended", id: error.id, status, outputPath, error, notNow };
}

/** Follows a generation, and saves its video at a place that the caller has claimed, and releases. */
async function* collectInto(
  id: string,
  target: Target | undefined,
  options: CollectOptions,
  client: Runner,
): AsyncGenerator<RunEvent, undefined> {
  const { outputPath } = options;
  const events = createChannel<RunEvent>();
  const left = new AbortController();
  let status: string = "processing";
  const how = {
    ...options,
    signal: AbortSignal.any([options.signal, left.signal]),
    onState(seen: string, percent?: number, node?: string) {
      status = seen;
      events.push({ event: "state", id, status, percent, node });
    },
    onTrouble: (reason: string) => events.push({ event: "trouble", id, reason }),
    onProgress: (received: number, total: number | undefined) =>
      events.push({ event: "progress", id, received, total }),
  };
  const collecting: Promise<Ended> = (target ? client.download(id, target, how) : client.follow(id, how)).then(
    (done) => ({ event: "ended", id, status: "completed", outputPath, ...done }),
    (thrown) => {
      const error = asVidgenError(thrown).with({ id });
      return { event: "ended", id, status: endStatusOf(error, status), outputPath, error };
    },
  );
  void collecting.finally(events.end);
  try {
    yield { event: "following", id };
    yield* events;
    const ended = await collecting;
    yield ended;
    // Who takes the next event has printed the address or returned it, or has streamed the video.
    if (ended.error === undefined && outputPath === undefined) await client.delivered(id);
    if (ended.error === undefined && outputPath === "-") await client.streamed(id);
    return undefined;
  } finally {
    left.abort(new VidgenError("interrupted", "The caller has stopped."));
    await collecting;
  }
}

/** How far a generation is that could not be collected; `status` is what the service said last. */
export function endStatusOf(error: VidgenError, status: string | undefined): EndStatus {
  if (error.code === "not_found") return "lost";
  return error.ended ?? (status === "completed" ? "completed" : "processing");
}
