import type { Upstream } from "../upstream/upstream.ts";
import type { WorkflowResult } from "./job.ts";
import type { ComfyUi } from "./server.ts";

/** The queue of a server has the graphs of everybody's jobs: it is asked for no more often. */
const queuePollMs = 20_000;

/**
 * Returns a server as one job is followed there, and what the job has made once that is known. While the job waits, the jobs before it count as its
 * progress: another one runs than before, fewer wait before it, or one that runs may still take its time.
 */
export function watch(server: ComfyUi): { upstream: Upstream; made(): WorkflowResult | undefined } {
  const { io } = server;
  let made: WorkflowResult | undefined;
  let askedAt = Number.NEGATIVE_INFINITY;
  let [runs, before, movedAt] = ["", Number.POSITIVE_INFINITY, io.now()];

  const checkQueue = async (job: string, signal: AbortSignal) => {
    if (io.now() - askedAt < queuePollMs) return;
    askedAt = io.now();
    const { running, waiting } = await server.findQueue(signal);
    const place = waiting.indexOf(job);
    const isMoved = running.join() !== runs || (place !== -1 && place < before);
    if (isMoved) movedAt = io.now();
    if (place !== -1) before = Math.min(before, place);
    runs = running.join();
    const isBusy = running.length > 0 && io.now() - movedAt <= (server.runningPatienceMs ?? server.patienceMs);
    if (isMoved || isBusy) server.newsAt = io.now();
  };

  const upstream: Upstream = {
    ...server,
    get newsAt() {
      return server.newsAt;
    },
    set newsAt(at) {
      server.newsAt = at;
    },
    async poll(job, signal) {
      const polled = await server.poll(job, signal);
      if ("reason" in polled) return polled;
      made = polled.made;
      // Without the queue the job is followed all the same.
      if (polled.status === "pending") await checkQueue(job, signal).catch(() => {});
      return polled;
    },
  };
  return { upstream, made: () => made };
}
