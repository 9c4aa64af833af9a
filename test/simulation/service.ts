import { type FetchInit, type HttpResponse, type Io, RequestError } from "../../src/io.ts";
import type { Random } from "../faults/random.ts";
import {
  type Answer,
  type CancelName,
  cancelBehaviours,
  type DeleteName,
  deleteBehaviours,
  type Generated,
  type StartBehaviour,
  type StartName,
  slowName,
  startBehaviours,
  statusAnswer,
  statusBehaviours,
  urlOf,
} from "./answers.ts";
import type { Process } from "./machine.ts";
import { type MediaAnswer, mediaAnswer } from "./media.ts";
import type { Reach } from "./probes.ts";
import type { Schedule } from "./schedule.ts";

export const serviceUrl = "https://api.video.example";
/** Another base URL of the same host. Nobody but the service knows that it is the same service. */
export const otherPath = "/v2";
export const keys = ["canary-key-0123456789", "canary-other-9876543210"] as const;

/** What becomes of one start request, and of its generation. */
export type StartPlan = {
  does: StartName;
  answersAfterMs: number;
  rendersMs: number;
  /** The credits that somebody buys, or spends, just before. */
  bought: number;
  ends: Generated["ends"];
  lagMs: number;
  /** After so many milliseconds the service loses it. */
  lostAfterMs: number | undefined;
  media: readonly string[];
};

export type Trouble = { does: string; from: number; until: number };

/** What the service saw and said, for the rules. */
export type ServiceEvents = {
  /** A start request arrived, whole. */
  onPost(process: Process, post: Post): void;
  onDelivered(process: Process, post: Post): void;
  onStatusDelivered(process: Process, id: string, answer: Answer): void;
  /** The service has cancelled a generation for a process. */
  onCancelled(process: Process, id: string): void;
  /** A request to delete a generation arrived; `isRunning` where it has not ended. */
  onDelete(process: Process, id: string, isRunning: boolean): void;
  onDeleted(process: Process, id: string): void;
  /** Whether some client has written an id down: then a replay of it can be told. */
  isWritten(process: Process, id: string): boolean;
};

export type Post = {
  attempt: string;
  prompt: string;
  behaviour: StartBehaviour;
  does: StartName;
  /** The generation that was charged for. */
  generated: Generated | undefined;
  /** The generation of an earlier request with its key, which the service keeps: nothing is charged. */
  repeats: Generated | undefined;
  /** Whether the service keeps idempotency keys, and says so. */
  isKeyKept: boolean;
  /** Its answer is that to another request. */
  isForeign: boolean;
  /** The balance that the answer tells, where it can be read. */
  credits: number | undefined;
  /** Its kind, and what that costs as the answer states it, where it does. */
  duration: number | undefined;
  price: number | undefined;
  /** The base URL that it was sent to. */
  service: string;
  at: number;
  /** When its answer is at the machine of the process, where one comes. */
  answersAt: number | undefined;
};

/** What the service does to requests to cancel and to delete. */
export type Does = { cancel: CancelName; delete: DeleteName };

export type Service = ReturnType<typeof createService>;

type ServiceOptions = {
  schedule: Schedule;
  random: Random;
  troubles: readonly Trouble[];
  /** Whether it states what each start costs. */
  statesPrices: boolean;
  /** Whether it keeps idempotency keys, for a day, and says so. */
  keepsKeys: boolean;
  events: ServiceEvents;
  reach: Reach;
};

/** A service with two accounts, and a ledger that tells the truth. */
export function createService({ schedule, random, troubles, statesPrices, keepsKeys, events, reach }: ServiceOptions) {
  const generations = new Map<string, Generated>();
  const credits = new Map<string, number>(keys.map((key) => [key, 1_000]));
  /** Once it is healthy again, all faults are over. */
  let isHealthy = false;

  const charge = (plan: StartPlan, post: Pick<Post, "attempt" | "prompt" | "duration">, model: string, key: string) => {
    const { isNumbered = false }: StartBehaviour = startBehaviours[plan.does];
    const now = schedule.now();
    const cost = costOf(post.duration);
    const generated: Generated = {
      id: isNumbered ? String(random.between(1e9, 9e9)) : random.uuid(),
      key,
      attempt: post.attempt,
      prompt: post.prompt,
      model,
      cost,
      startedAt: now,
      endsAt: now + plan.rendersMs,
      ends: plan.ends,
      lagMs: plan.lagMs,
      isDeleted: false,
      lostAt: plan.lostAfterMs === undefined ? Number.POSITIVE_INFINITY : now + plan.lostAfterMs,
      downloads: 0,
      reader: undefined,
      media: plan.media,
      version: 0,
      reason: "too dark",
    };
    generations.set(generated.id, generated);
    credits.set(key, (credits.get(key) ?? 0) + plan.bought - cost);
    return generated;
  };

  const cancel = (generated: Generated, process: Process, does: CancelName): Answer | undefined =>
    cancelBehaviours[does]({
      generated,
      now: schedule.now(),
      cancel() {
        if (generated.ends === "failed") return;
        Object.assign(generated, { ends: "failed", endsAt: schedule.now(), reason: "cancelled" });
        credits.set(generated.key, (credits.get(generated.key) ?? 0) + generated.cost);
        events.onCancelled(process, generated.id);
      },
    });

  const remove = (generated: Generated, process: Process, does: DeleteName): Answer | undefined => {
    events.onDelete(process, generated.id, schedule.now() < generated.endsAt && generated.ends !== "failed");
    return deleteBehaviours[does]({
      generated,
      delete() {
        generated.isDeleted = true;
        events.onDeleted(process, generated.id);
      },
    });
  };

  const fetchFor = (process: Process, starts: readonly StartPlan[], does: Does): Io["fetch"] => {
    let posts = 0;
    const exchange = (typedUrl: string, init: FetchInit): Promise<() => HttpResponse> =>
      new Promise((resolve, reject) => {
        const service = typedUrl.startsWith(serviceUrl + otherPath) ? serviceUrl + otherPath : serviceUrl;
        const url = typedUrl.replace(service, serviceUrl);
        let isSent = false;
        let isDone = false;
        const { signal, unsentSignal } = init;
        const fail = (cause: unknown, sent: boolean) => {
          isDone = true;
          reject(new RequestError(cause, { sent }));
        };
        const onAbort = () => !isDone && fail(signal?.reason, isSent);
        const onUnsentAbort = () => !isDone && !isSent && fail(unsentSignal?.reason, false);
        signal?.addEventListener("abort", onAbort, { once: true });
        unsentSignal?.addEventListener("abort", onUnsentAbort, { once: true });
        if (signal?.aborted) return onAbort();
        if (unsentSignal?.aborted) return onUnsentAbort();
        /** Comes when the process runs, if it still waits for it. */
        const arrive = (ms: number, work: () => void) =>
          process.after(ms, () => {
            if (isDone) return;
            isDone = true;
            signal?.removeEventListener("abort", onAbort);
            work();
          });
        const answer = (ms: number, found: Answer, onDelivered: () => void) =>
          arrive(ms, () =>
            resolve(() => {
              onDelivered();
              return responseOf(found);
            }),
          );
        const onServer = (ms: number, work: () => void) =>
          schedule.add({ at: schedule.now() + ms, order: process.random.next(), run: work });

        const isCancel = url.startsWith(`${serviceUrl}/api/cancel?`);
        if (init.method === "POST" && !isCancel) {
          const plan = (isHealthy ? undefined : starts[posts++]) ?? finePlan;
          let behaviour: StartBehaviour = startBehaviours[plan.does];
          if (behaviour.means === "unsent") {
            arrive(5, () => reject(new RequestError(systemError(behaviour.fails ?? ""), { sent: false })));
            return;
          }
          process.after(2 + process.random.next() * 20, () => {
            if (isDone) return;
            try {
              init.beforeSend?.();
            } catch (cause) {
              return fail(cause, false);
            }
            isSent = true;
            onServer(1 + process.random.next() * 5, () => {
              const { prompt, model, duration } = JSON.parse(String(init.body));
              const attempt = init.headers?.["Idempotency-Key"] ?? "";
              const key = (init.headers?.Authorization ?? "").slice("Bearer ".length);
              const isSameKey = (each: Generated) => each.attempt === attempt && each.key === key;
              const isKept = (each: Generated) => isSameKey(each) && schedule.now() - each.startedAt < keptMs;
              const repeats = keepsKeys ? [...generations.values()].find(isKept) : undefined;
              // What it knows, it does not refuse.
              if (repeats && (behaviour.means === "refused" || behaviour.means === "later"))
                behaviour = startBehaviours[finePlan.does];
              const isCharged = behaviour.charges && !repeats;
              const generated = isCharged ? charge(plan, { attempt, prompt, duration }, model, key) : undefined;
              const told = behaviour.means === "accepted" ? credits.get(key) : undefined;
              const charged = statesPrices ? costOf(duration) : undefined;
              const isOther = (each: Generated) => each.prompt !== prompt || each.key !== key;
              // What has the same idempotency key may be the same.
              const others = [...generations.values()].filter((each) => isOther(each) && each.attempt !== attempt);
              const other = others.findLast((each) => events.isWritten(process, each.id))?.id;
              const post: Post = {
                attempt,
                prompt,
                behaviour,
                does: plan.does,
                generated,
                repeats,
                isKeyKept: keepsKeys,
                isForeign: other !== undefined && plan.does === "charges, and replays the answer of another request",
                credits: told,
                duration,
                price: behaviour.means === "accepted" && !behaviour.isCut ? charged : undefined,
                service,
                at: schedule.now(),
                answersAt: behaviour.answer && schedule.now() + plan.answersAfterMs,
              };
              events.onPost(process, post);
              process.pass("sent");
              const id = generated?.id ?? repeats?.id ?? random.uuid();
              if (behaviour.fails === "silence") return;
              if (behaviour.fails !== undefined) {
                const error = systemError(behaviour.fails);
                arrive(plan.answersAfterMs, () => reject(new RequestError(error, { sent: true })));
                return;
              }
              const scene = { id, prompt, model, key, other, charged, credits: credits.get(key) };
              const found = behaviour.answer?.(scene);
              if (found) answer(plan.answersAfterMs, found, () => events.onDelivered(process, post));
            });
          });
          return;
        }
        isSent = true;
        onServer(2 + process.random.next() * 20, () => {
          if (url.startsWith(serviceUrl)) {
            const isDelete = init.method === "DELETE";
            const id = decodeURIComponent(url.slice(url.lastIndexOf(isDelete ? "/" : "=") + 1));
            const key = (init.headers?.Authorization ?? "").slice("Bearer ".length);
            const now = schedule.now();
            const trouble = isHealthy ? undefined : troubles.find(({ from, until }) => now >= from && now < until);
            const generated = generations.get(id.toLowerCase());
            const isKnown =
              generated?.key === key && now >= generated.startedAt + generated.lagMs && now < generated.lostAt;
            let said: Answer | undefined | "silence";
            if (isCancel && isKnown) said = cancel(generated, process, does.cancel);
            else if (isDelete && isKnown) said = remove(generated, process, does.delete);
            else if (trouble?.does === slowName) said = { ...statusAnswer(generated, key, now), afterMs: 5_000 };
            else if (trouble) said = statusBehaviours[trouble.does]?.(generated, id);
            else said = statusAnswer(generated, key, now);
            if (said === "silence") return;
            if (said === undefined) {
              arrive(1, () => reject(new RequestError(systemError("ECONNRESET"), { sent: true })));
              return;
            }
            const { afterMs = 1 } = said;
            const headers = { ...said.headers, ...(keepsKeys && (!trouble || afterMs > 1) && lifetime) };
            answer(afterMs, { ...said, headers }, () => events.onStatusDelivered(process, id, said));
            return;
          }
          const [, id = "", version = "0"] = /\/([^/]+)\/(\d+)\.mp4$/.exec(url) ?? [];
          const generated = generations.get(id);
          const range = init.headers?.Range === undefined ? undefined : Number(/\d+/.exec(init.headers.Range)?.[0]);
          const asked = { range, ifRange: init.headers?.["If-Range"], version: Number(version), reader: process.name };
          const found = mediaAnswer(generated, asked, { isHealthy, reach });
          arrive(1, () => resolve(() => mediaResponse(found, process, signal ?? undefined)));
        });
      });
    return async (url, init = {}) => {
      await process.call("request", () => {});
      const arrived = await exchange(url, init);
      return process.call("answer", arrived);
    };
  };

  return {
    generations,
    fetchFor,
    heal() {
      isHealthy = true;
      for (const generated of generations.values()) generated.lagMs = 0;
    },
    urlOf,
  };
}

const keptMs = 24 * 3_600_000;
const lifetime = { "idempotency-key-lifetime": String(keptMs / 1_000) };

/** A start as it should be. */
export const finePlan: StartPlan = {
  does: "accepts it",
  answersAfterMs: 50,
  rendersMs: 1_000,
  bought: 0,
  ends: "completed",
  lagMs: 0,
  lostAfterMs: undefined,
  media: [],
};

/** In credits, by the length in seconds. */
function costOf(duration: number | undefined): number {
  return duration === 10 ? 20 : 10;
}

function responseOf({ status, text, headers = {}, isCut }: Answer): HttpResponse {
  const chunk = Buffer.from(text);
  const body = {
    async *[Symbol.asyncIterator]() {
      yield chunk;
      if (isCut) throw systemError("UND_ERR_SOCKET");
    },
  };
  return { status, headers: { get: (name) => headers[name.toLowerCase()] ?? null }, body, text: async () => text };
}

function mediaResponse(
  { status, headers, chunks, ending }: MediaAnswer,
  process: Process,
  signal: AbortSignal | undefined,
): HttpResponse {
  const body = {
    async *[Symbol.asyncIterator]() {
      for (const chunk of chunks) {
        yield await process.call("answer", () => chunk);
        signal?.throwIfAborted();
      }
      if (ending === "cut") throw systemError("UND_ERR_SOCKET");
      if (ending === "stall")
        await new Promise((_, reject) => {
          if (signal?.aborted) reject(signal.reason);
          signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
        });
    },
  };
  return { status, headers: { get: (name) => headers[name.toLowerCase()] ?? null }, body, text: async () => "" };
}

function systemError(code: string): Error {
  return Object.assign(new Error(`${code.toLowerCase()} on purpose`), { code });
}
