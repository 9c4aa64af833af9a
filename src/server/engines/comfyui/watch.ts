import type { Upstream } from "../upstream/upstream.ts";
import type { WorkflowResult } from "./job.ts";
import type { ComfyUi, JobQueue } from "./server.ts";

/** For how long at most a reply about the queue is used. It contains the graphs of all jobs. */
const maxCacheMs = 20_000;

/** The queue of a server, for all jobs of this process that wait there. */
export type QueueCache = {
  /** The jobs of this process that wait. */
  jobs: Set<string>;
  /** Returns the queue, which is requested again if the last reply is older than `maxCacheMs` or than `since`. Rejects as `findQueue` does. */
  read(signal: AbortSignal, since: number): Promise<JobQueue>;
  /** Makes the next `read` request the queue again. */
  expire(): void;
};

export function createQueueCache({ io, findQueue, patienceMs }: ComfyUi): QueueCache {
  // Within a short time limit, the queue is read often enough to see that it moves.
  const cacheMs = Math.min(maxCacheMs, patienceMs / 3);
  let last: { at: number; queue: Promise<JobQueue> } | undefined;
  return {
    jobs: new Set(),
    read(signal, since) {
      if (last && last.at >= since && io.now() - last.at < cacheMs) return last.queue;
      const request = { at: io.now(), queue: findQueue(signal, { keepsConnection: true }) };
      last = request;
      // The signal is that of one job, and the others still need the queue.
      request.queue.catch(() => {
        if (signal.aborted && last === request) last = undefined;
      });
      return request.queue;
    },
    expire() {
      last = undefined;
    },
  };
}

/**
 * Returns a server for following one job, and the job's result once that is known. While the job waits, the jobs before it count as its progress:
 * another job runs than before, fewer jobs wait before it, or a running job is within its time limit. Of the jobs that wait, only the first is
 * polled; the others follow from the queue. Call `end` when the job is no longer followed.
 * `describeLoss` says why the server may no longer know the job.
 */
export function watch(
  server: ComfyUi,
  { queueCache, describeLoss }: { queueCache: QueueCache; describeLoss(): string },
): { upstream: Upstream; result(): WorkflowResult | undefined; end(): void } {
  const { io } = server;
  let result: WorkflowResult | undefined;
  let waiting: { job: string; since: number; polled: Awaited<ReturnType<ComfyUi["poll"]>> } | undefined;
  let lastQueue: JobQueue | undefined;
  let [lastRunning, lowestPosition, queueMovedAt] = ["", Number.POSITIVE_INFINITY, io.now()];

  const checkQueue = async (job: string, since: number, signal: AbortSignal) => {
    const queue = await queueCache.read(signal, since);
    if (queue === lastQueue) return queue;
    lastQueue = queue;
    const running = queue.running.join();
    const position = queue.waiting.indexOf(job);
    const hasMoved = running !== lastRunning || (position !== -1 && position < lowestPosition);
    if (hasMoved) queueMovedAt = io.now();
    if (position !== -1) lowestPosition = Math.min(lowestPosition, position);
    lastRunning = running;
    const isBusy = running !== "" && io.now() - queueMovedAt <= (server.runningPatienceMs ?? server.patienceMs);
    if (hasMoved || isBusy) server.lastChangeAt = io.now();
    return queue;
  };
  /** Whether another job of this process waits before this one. Without the queue, the job is still followed. */
  const waitsBehind = async ({ job, since }: { job: string; since: number }, signal: AbortSignal) => {
    const queue = await checkQueue(job, since, signal).catch(() => undefined);
    const first = queue?.waiting.find((each) => queueCache.jobs.has(each)) ?? job;
    return first !== job && queue?.waiting.includes(job) === true;
  };
  const end = () => {
    if (waiting && queueCache.jobs.delete(waiting.job)) queueCache.expire();
    waiting = undefined;
  };

  const upstream: Upstream = {
    ...server,
    get lostReason() {
      return describeLoss();
    },
    // All jobs of the server share this time.
    get lastChangeAt() {
      return server.lastChangeAt;
    },
    set lastChangeAt(at) {
      server.lastChangeAt = at;
    },
    async poll(job, signal, options) {
      if (waiting && (await waitsBehind(waiting, signal))) return waiting.polled;
      const polled = await server.poll(job, signal, options);
      if ("reason" in polled || polled.status !== "pending") end();
      if ("reason" in polled) return polled;
      result = polled.result;
      if (polled.status !== "pending") return polled;
      queueCache.jobs.add(job);
      waiting = { job, since: waiting?.since ?? io.now(), polled };
      await waitsBehind(waiting, signal);
      return polled;
    },
  };
  return { upstream, result: () => result, end };
}
