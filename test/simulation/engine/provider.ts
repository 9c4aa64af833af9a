import { type FetchInit, type HttpResponse, type Io, RequestError } from "../../../src/io.ts";
import type { Open } from "../../../src/server/outbound/outbound.ts";
import type { Random } from "../../faults/random.ts";
import { tinyMp4 } from "../../mp4.ts";
import type { Schedule } from "../schedule.ts";
import type { EnginePlan, Generation, Trouble } from "./plan.ts";
import type { ReachEngine } from "./probes.ts";
import type { CallKind, Process } from "./process.ts";
import {
  type Content,
  type CreateReply,
  type JobEnd,
  madeReplies,
  notTakenReplies,
  type ReadTrouble,
  repeatedReplies,
  unsentReplies,
} from "./replies.ts";

/** A create whose first byte was written. */
export type Create = {
  generation: Generation;
  process: Process;
  /** The engine that it is sent to, as an index of `engineUrls`. */
  engine: number;
  at: number;
  reply: CreateReply | "accepted";
  /** Without one, SGLang makes the same video for the same prompt each time. */
  seed: number | undefined;
  /** Whether the provider makes the video, and charges for it. */
  isTaken: boolean;
  job: Job | undefined;
  /** How many videos it was paid for. */
  paid: number;
  /** When its process had the answer. */
  answeredAt: number | undefined;
};

export type Job = {
  id: string;
  generation: Generation;
  createdAt: number;
  cancelledAt: number | undefined;
  /** How it ends: what is answered with the finished video is not followed. */
  end: JobEnd;
  readyAt: number;
  content: Content;
  engine: number;
};

export type ProviderOptions = {
  schedule: Schedule;
  random: Random;
  plan: Pick<EnginePlan, "kind" | "troubles">;
  generationOf(prompt: string): Generation;
  reach: ReachEngine;
  onCreate(create: Create): void;
  onAnswer(create: Create): void;
};

/** Each engine is a server of its own. */
export const engineUrls = [1, 2, 3].map((number) => `https://provider-${number}.test`);
const cdn = "https://cdn.test/";
/** How long a job that stops slowly goes on. */
const stopMs = 8_000;
/** How long a page stands in place of a video. */
const pageMs = 40_000;

/** An answer: how long it takes, and what comes. */
type Answer = { ms: number; status: number; body: Body } | { ms: number; reset: true } | "silence";
type Body = { text: string | Uint8Array; isCut?: boolean; headers?: Record<string, string> };
type Request = Pick<FetchInit, "method" | "headers"> & { path: string; engine: number };

export type Provider = ReturnType<typeof createProvider>;

/** A provider that counts what it charges for. Nothing of it depends on whether whoever asked is still there. */
export function createProvider(options: ProviderOptions) {
  const { schedule, random, plan, reach, onCreate } = options;
  const creates: Create[] = [];
  const jobs = new Map<string, Job>();
  const asked = new Map<string, number>();
  let isHealed = false;

  const troubleNow = (): Trouble["kind"] | undefined => {
    if (isHealed) return undefined;
    const now = schedule.now();
    const current = plan.troubles.filter(({ from, to }) => from <= now && now < to);
    if (current.some(({ kind }) => kind === "nobody listens")) return "nobody listens";
    // Two of them at once would be an outage.
    const [first] = current;
    return first && random.next() < first.share ? first.kind : undefined;
  };
  const hasEnded = (job: Job) => schedule.now() >= job.readyAt;

  const take = (create: Create) => {
    const { generation, engine, reply } = create;
    const isFinished = reply === "the finished video" || reply === "the video itself";
    const now = schedule.now();
    const job: Job = {
      id: `job-${jobs.size}`,
      generation,
      createdAt: now,
      cancelledAt: undefined,
      end: isFinished ? "completes" : generation.end,
      readyAt: isFinished ? now : now + generation.waitsMs + generation.rendersMs,
      // Without a job, a provider that is paid has no way to say that the time of its video is over.
      content: isFinished && generation.content === "gone" ? "good" : generation.content,
      engine,
    };
    jobs.set(job.id, job);
    create.job = job;
    create.isTaken = true;
    create.paid++;
  };
  const answerCreate = (create: Create, answersAfterMs: number): Answer => {
    const { reply } = create;
    const json = (status: number, value: object, headers = {}): Answer => ({
      ms: answersAfterMs,
      status,
      body: { text: JSON.stringify(value), headers },
    });
    const html = (status: number): Answer => ({ ms: answersAfterMs, status, body: { text: "<html>so sorry</html>" } });
    const error = (code: string) => ({ error: { code, message: code } });
    switch (reply) {
      case "accepted":
        return json(plan.kind === "openrouter" ? 202 : 200, { id: create.job?.id, status: "queued" });
      case "the finished video":
        return json(200, { data: [{ url: `${engineUrls[create.engine]}/finished/${create.job?.id}` }] });
      case "the video itself":
        reach("a create is answered with the video itself");
        return {
          ms: answersAfterMs,
          status: 200,
          body: { text: create.job ? videoOf(create.job) : "", headers: { "Content-Type": "video/mp4" } },
        };
      case "a cut reply":
        return {
          ms: answersAfterMs,
          status: 200,
          body: { text: JSON.stringify({ id: create.job?.id ?? "job", status: "queued" }).slice(0, -3), isCut: true },
        };
      case "200 without a job":
        return json(200, { ok: true });
      case "200 with HTML":
        return html(200);
      case "503 with HTML":
      case "404 with HTML":
        return html(Number.parseInt(reply, 10));
      case "503 with JSON":
        return json(503, error("no room"));
      case "302":
        return { ms: answersAfterMs, status: 302, body: { text: "", headers: { Location: "https://login.test/" } } };
      case "429":
        return json(429, error("too many"), { "Retry-After": "7" });
      case "500":
      case "408":
      case "409":
      case "401":
      case "402":
      case "400":
        return json(Number(reply), error(`status ${reply}`));
      case "silence":
        return "silence";
      default:
        return { ms: answersAfterMs, reset: true };
    }
  };
  const created = (process: Process, body: string, { headers, engine }: Request): Answer => {
    const generation = options.generationOf(JSON.parse(promptIn(body)).prompt);
    const nth = creates.filter((each) => each.generation === generation).length;
    const { reply, isTaken, answersAfterMs } = { ...accepts, ...plannedOf(generation, nth) };
    const create: Create = {
      generation,
      process,
      engine,
      at: schedule.now(),
      reply,
      seed: seedIn(body),
      isTaken: false,
      job: undefined,
      paid: 0,
      answeredAt: undefined,
    };
    if (
      madeReplies.includes(reply) ||
      (isTaken && !notTakenReplies.includes(reply) && reply !== "a reset before it is read")
    )
      take(create);
    if (plan.kind === "litellm" && create.isTaken && repeatedReplies.includes(reply)) {
      reach("an upstream would repeat a create");
      if (headers?.["x-litellm-num-retries"] !== "0") create.paid += 2;
    }
    creates.push(create);
    onCreate(create);
    return answerCreate(create, answersAfterMs);
  };
  /** Connections that are refused, or never come about, do not reach it: how many of them are planned next. */
  const plannedOf = (generation: Generation, nth: number) =>
    generation.replies.filter(({ reply }) => !unsentReplies.includes(reply))[nth];
  const unsentOf = (generation: Generation): CreateReply | undefined => {
    const unsent = generation.replies.filter(({ reply }) => unsentReplies.includes(reply));
    const nth = asked.get(generation.name) ?? 0;
    asked.set(generation.name, nth + 1);
    return isHealed ? undefined : unsent[nth]?.reply;
  };

  /** Whether a job was stopped by now: one that stops slowly goes on for a while. */
  const isStopped = ({ cancelledAt }: Job) => cancelledAt !== undefined && cancelledAt <= schedule.now();
  const statusOf = (job: Job) => {
    const { end } = job;
    if (isStopped(job)) return { status: "cancelled" };
    if (schedule.now() < job.createdAt + job.generation.waitsMs) return { status: "queued", progress: 0 };
    if (!hasEnded(job) || end === "never ends") return { status: "in_progress", progress: 10 };
    if (end === "fails") return { status: "failed", error: { code: "nsfw", message: "the model refuses" } };
    const isElsewhere = job.content === "elsewhere";
    const url = isElsewhere ? { url: `${cdn}${job.id}/${Math.floor(schedule.now() / 60_000)}` } : {};
    // A provider that is paid is asked for a day, unless it says that its time is over.
    const gone = job.content === "gone" ? { expires_at: 1_000_000_000 } : {};
    if (job.content === "no path") reach("a server has no place for its videos");
    const pathless = job.content === "no path" ? { url: null, file_path: null, file_paths: null } : {};
    return { status: "completed", progress: 100, usage: { cost: 0.4 }, ...url, ...gone, ...pathless };
  };
  const isLost = (job: Job) => job.end === "is lost" && hasEnded(job);
  /** What LiteLLM makes of an error of its upstream. */
  const upstreamError = (): Answer => {
    if (plan.kind === "litellm") reach("an upstream has an error for a job");
    const message = "litellm.APIConnectionError: 3 validation errors for VideoObject";
    return { ms: 20, status: 500, body: { text: JSON.stringify({ error: { message, code: "500" } }) } };
  };
  const readTrouble = (kind: ReadTrouble, good: () => Answer): Answer => {
    const html = (status: number): Answer => ({ ms: 20, status, body: { text: "<html>so sorry</html>" } });
    if (kind === "reset") return { ms: 20, reset: true };
    if (kind === "silence") return "silence";
    if (kind === "HTML") return html(200);
    if (kind === "403 with HTML" || kind === "404 with HTML") return html(Number.parseInt(kind, 10));
    if (kind === "an error of the upstream") return upstreamError();
    if (kind !== "cut") return { ms: 20, status: Number(kind), body: { text: '{"error":{"message":"not now"}}' } };
    const answer = good();
    if (answer === "silence" || "reset" in answer || answer.status !== 200) return answer;
    const { text } = answer.body;
    return { ...answer, body: { ...answer.body, text: text.slice(0, Math.floor(text.length / 2)), isCut: true } };
  };
  const video = (job: Job, minutes?: string): Answer => {
    const { content } = job;
    const missing: Answer = { ms: 20, status: content === "gone" ? 410 : 404, body: { text: '{"error":"no file"}' } };
    if (!hasEnded(job) || isLost(job) || content === "no path") return missing;
    if (content === "a page first" && schedule.now() < job.readyAt + pageMs) {
      reach("a video is a page at first");
      return { ms: 20, status: 200, body: { text: "<!doctype html><title>One moment</title>" } };
    }
    const isLate = content === "late" && schedule.now() < job.readyAt + 20_000;
    if (content === "gone" || isLate) {
      reach(isLate ? "a video cannot be fetched at first" : "a video can never be fetched");
      return missing;
    }
    if (content === "garbage") {
      reach("a video can never be fetched");
      return { ms: 20, status: 200, body: { text: "no video at all" } };
    }
    if (minutes !== undefined) {
      reach("a video comes by another address");
      if (Number(minutes) + 1 < Math.floor(schedule.now() / 60_000))
        return { ms: 20, status: 403, body: { text: "<Error>expired</Error>" } };
    }
    return { ms: 50, status: 200, body: { text: videoOf(job) } };
  };
  const unknownJob: Answer = { ms: 20, status: 404, body: { text: '{"error":{"message":"no such job"}}' } };
  /** Whether the server that is asked knows a job. vLLM-Omni forgets one that it has stopped. */
  const knows = ({ engine }: Request, job: Job | undefined): job is Job =>
    job?.engine === engine && !(plan.kind === "vllm-omni" && isStopped(job));
  const answerGet = (request: Request): Answer => {
    const { path } = request;
    const [, id = "", content] = /^\/v1\/videos\/([^/]+)(\/content)?$/.exec(path) ?? [];
    const finished = /^\/finished\/(.*)$/.exec(path)?.[1];
    const job = jobs.get(finished ?? id);
    if (job && finished !== undefined) return video(job);
    if (!knows(request, job)) return unknownJob;
    if (isLost(job)) {
      reach("a job is lost by the provider");
      return plan.kind === "litellm" ? upstreamError() : unknownJob;
    }
    if (content !== undefined) return video(job);
    const status = statusOf(job);
    if (status.status === "failed") reach("a job fails at the provider");
    return { ms: 20, status: 200, body: { text: JSON.stringify({ id: job.id, object: "video", ...status }) } };
  };
  const answerDelete = (request: Request): Answer => {
    const job = jobs.get(request.path.slice("/v1/videos/".length));
    if (plan.kind === "litellm") return { ms: 20, status: 405, body: { text: '{"detail":"Method Not Allowed"}' } };
    if (!knows(request, job) || isLost(job)) return { ms: 20, status: 404, body: { text: "{}" } };
    const now = schedule.now();
    const isDeleted: Answer = { ms: 20, status: 200, body: { text: '{"deleted":true}' } };
    // SGLang goes on with the work.
    if (plan.kind === "sglang") return isDeleted;
    const isRunning = now < job.readyAt || job.end === "never ends";
    if (isRunning && job.generation.stops !== "at once") {
      if (job.generation.stops === "slowly" && job.cancelledAt === undefined && now + stopMs < job.readyAt) {
        job.cancelledAt = now + stopMs;
        job.readyAt = Number.POSITIVE_INFINITY;
      }
      return { ms: 20, status: 409, body: { text: '{"error":{"message":"Cancellation in progress"}}' } };
    }
    // It may just have ended since it was looked at.
    if (now < job.readyAt + 1_000 || job.end === "never ends") job.cancelledAt ??= now;
    return isDeleted;
  };
  const answer = (process: Process, address: string, { method = "GET", headers = {}, body }: FetchInit): Answer => {
    const { pathname, origin } = new URL(address);
    const engine = engineUrls.indexOf(origin);
    const request: Request = { method, headers, path: pathname, engine };
    if (method === "POST")
      return created(process, String(body instanceof Uint8Array ? Buffer.from(body) : body), request);
    const good = () => {
      if (method === "DELETE") return answerDelete(request);
      if (`${origin}/` !== cdn) return answerGet(request);
      const [, id = "", minutes] = pathname.split("/");
      const job = jobs.get(id);
      return job ? video(job, minutes) : ("silence" as const);
    };
    const kind = troubleNow();
    return kind === undefined || kind === "nobody listens" ? good() : readTrouble(kind, good);
  };
  /** The connection of a create that is planned to be refused, or never to come about. */
  const findUnsent = ({ method, body }: FetchInit): CreateReply | undefined =>
    method === "POST"
      ? unsentOf(
          options.generationOf(
            JSON.parse(promptIn(String(body instanceof Uint8Array ? Buffer.from(body) : body))).prompt,
          ),
        )
      : undefined;

  const fetchFor =
    (process: Process): Io["fetch"] =>
    (address, init = {}) =>
      new Promise((resolve, reject) => {
        const { signal, unsentSignal, beforeSend, method } = init;
        const kind = kindOf(method, address);
        let [isSent, isOver] = [false, false];
        // A cancel sends many requests with one signal, which must not keep the listeners of those that are over.
        const end = () => {
          isOver = true;
          signal?.removeEventListener("abort", onAbort);
          unsentSignal?.removeEventListener("abort", onUnsentAbort);
        };
        const fail = (cause: unknown) => {
          if (isOver) return;
          end();
          reject(new RequestError(cause, { sent: isSent }));
        };
        const onAbort = () => fail(signal?.reason);
        const onUnsentAbort = () => void (isSent || fail(unsentSignal?.reason));
        if (signal?.aborted) return fail(signal.reason);
        signal?.addEventListener("abort", onAbort, { once: true });
        unsentSignal?.addEventListener("abort", onUnsentAbort, { once: true });
        process.strike(kind, false);
        process.after(3, () => {
          if (isOver) return;
          const unsent = findUnsent(init);
          if (unsent === "connection refused" || troubleNow() === "nobody listens") {
            if (method === "POST") reach("a create is refused by nobody listening");
            return fail(systemError("ECONNREFUSED"));
          }
          if (unsent === "no connection") return;
          try {
            beforeSend?.();
          } catch (error) {
            return fail(error);
          }
          isSent = true;
          const before = creates.length;
          const given = answer(process, address, init);
          const create = creates.length > before ? creates.at(-1) : undefined;
          process.strike(kind, true);
          if (given === "silence") return;
          process.after(given.ms, () => {
            if (isOver) return;
            if (kind === "create") process.strike("answer", false);
            if (process.isOver() || process.isFrozen()) {
              process.after(0, deliver);
              return;
            }
            deliver();
          });
          function deliver() {
            if (isOver || given === "silence") return;
            if ("reset" in given) return fail(systemError("ECONNRESET"));
            if (create) {
              create.answeredAt = schedule.now();
              if (create.reply === "a cut reply") reach("an answer is cut after the id");
              options.onAnswer(create);
            }
            end();
            resolve(responseOf(given, signal ?? undefined));
          }
        });
      });

  return {
    creates: creates as readonly Create[],
    jobs: jobs as ReadonlyMap<string, Job>,
    videoOf,
    hasEnded,
    isLost,
    isStopped,
    heal() {
      isHealed = true;
    },
    fetchFor,
    openFor:
      (process: Process): Open =>
      (address, { signal }) =>
        fetchFor(process)(address, { signal }),
  };
}

const accepts = { reply: "accepted" as const, isTaken: true, answersAfterMs: 200 };

/** What makes the video of each job its own. */
export function videoOf(job: Job): Uint8Array {
  return tinyMp4(`the video of ${job.id}, which is ${job.generation.name}`);
}

function kindOf(method: FetchInit["method"], address: string): CallKind {
  if (method === "POST") return "create";
  return /content$|finished|cdn/.test(address) ? "video" : "poll";
}

/** A create is JSON or multipart. */
function promptIn(body: string): string {
  if (body.startsWith("{")) return body;
  const [, prompt = ""] = /name="prompt"\r\n\r\n(.*?)\r\n/.exec(body) ?? [];
  return JSON.stringify({ prompt });
}

function seedIn(body: string): number | undefined {
  const [, digits] = /(?:"seed":|name="seed"\r\n\r\n)(\d+)/.exec(body) ?? [];
  return digits === undefined ? undefined : Number(digits);
}

function systemError(code: string): Error {
  return Object.assign(new Error(`connect ${code}`), { code, syscall: "connect" });
}

function responseOf(
  { status, body }: Exclude<Answer, "silence" | { reset: true }>,
  signal: AbortSignal | undefined,
): HttpResponse {
  const bytes = Buffer.from(body.text);
  const headers = new Map(
    Object.entries({ ...(!body.isCut && { "Content-Length": String(bytes.length) }), ...body.headers }),
  );
  const chunks = async function* () {
    signal?.throwIfAborted();
    yield bytes;
    if (body.isCut) throw systemError("ECONNRESET");
  };
  return {
    status,
    headers: { get: (name) => headers.get(name) ?? null },
    body: chunks(),
    async text() {
      if (body.isCut) throw systemError("ECONNRESET");
      return bytes.toString();
    },
  };
}
