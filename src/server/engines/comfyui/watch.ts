import type { Upstream } from "../upstream/upstream.ts";
import type { WorkflowResult } from "./job.ts";
import type { ComfyUi } from "./server.ts";

/** The minimum time between two polls of the queue, whose reply contains the graphs of all jobs. */
const queuePollMs = 20_000;

/**
 * Returns a server for following one job, and the job's result once that is known. While the job waits, the jobs before it count as its progress:
 * another job runs than before, fewer jobs wait before it, or a running job is within its time limit.
 */
export function watch(server: ComfyUi): { upstream: Upstream; result(): WorkflowResult | undefined } {
  const { io } = server;
  let result: WorkflowResult | undefined;
  let polledAt = Number.NEGATIVE_INFINITY;
  let [lastRunning, lowestPosition, queueMovedAt] = ["", Number.POSITIVE_INFINITY, io.now()];

  const checkQueue = async (job: string, signal: AbortSignal) => {
    if (io.now() - polledAt < queuePollMs) return;
    polledAt = io.now();
    const { running, waiting } = await server.findQueue(signal);
    const position = waiting.indexOf(job);
    const hasMoved = running.join() !== lastRunning || (position !== -1 && position < lowestPosition);
    if (hasMoved) queueMovedAt = io.now();
    if (position !== -1) lowestPosition = Math.min(lowestPosition, position);
    lastRunning = running.join();
    const isBusy = running.length > 0 && io.now() - queueMovedAt <= (server.runningPatienceMs ?? server.patienceMs);
    if (hasMoved || isBusy) server.lastChangeAt = io.now();
  };

  const upstream: Upstream = {
    ...server,
    // All jobs of the server share this time.
    get lastChangeAt() {
      return server.lastChangeAt;
    },
    set lastChangeAt(at) {
      server.lastChangeAt = at;
    },
    async poll(job, signal, options) {
      const polled = await server.poll(job, signal, options);
      if ("reason" in polled) return polled;
      result = polled.result;
      // Without the queue, the job is still followed.
      if (polled.status === "pending") await checkQueue(job, signal).catch(() => {});
      return polled;
    },
  };
  return { upstream, result: () => result };
}
