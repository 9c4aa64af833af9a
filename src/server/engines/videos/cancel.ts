import { VidgenError } from "../../../errors.ts";
import { isCancelled, isCompleted, isFailed, missingWaitMs } from "../upstream/follow.ts";
import { minuteMs } from "../upstream/patience.ts";
import { describeReply } from "../upstream/reply.ts";
import { createAbsence } from "../upstream/upstream.ts";
import type { Server } from "./server.ts";

const retryMs = 1_000;

/**
 * Stops a job by deleting it, where its server then stops the work; resolves with whether it is stopped. A video that is made already is never
 * deleted. A server proves that it stopped a job by its JSON reply to the DELETE, by the job's own status, or by knowing no such job for a minute
 * after it was told to stop: one 404 may be that of another replica. Rejects when the server does not answer, or not in time; with `pending` when it was told to stop by then.
 */
export async function cancel(job: string, server: Server, signal: AbortSignal): Promise<boolean> {
  if (!(await server.findKind(signal)).stopsDeleted) return false;
  let isTold = false;
  try {
    return await stop(job, server, {
      signal,
      onTold() {
        isTold = true;
      },
    });
  } catch (error) {
    if (!isTold || !signal.aborted) throw error;
    throw new VidgenError("pending", "it was told to stop; not confirmed yet");
  }
}

async function stop(job: string, server: Server, { signal, onTold }: { signal: AbortSignal; onTold(): void }) {
  const [absence, refusal] = [createAbsence(server.io), createAbsence(server.io)];
  let isTold = false;
  /** How many DELETEs have met a replica that does not know the job. */
  let strays = 0;
  for (;;) {
    let polled = await server.poll(job, signal);
    const isMissing = "reason" in polled && polled.isMissing;
    const absentMs = absence(isMissing);
    // What was never told to stop has not been stopped here, whoever forgot it.
    if (isMissing && absentMs >= minuteMs) return isTold;
    // It may be completed: a DELETE would remove a video that was paid for.
    if ("reason" in polled && !isMissing && !isTold) throw new Error(polled.reason);
    let isUnknown = isMissing;
    if (!("reason" in polled)) {
      // A balancer that goes round sends a DELETE right after a look to another replica: looks in between bring it round to the same one.
      for (let turn = 0; turn < strays % maxReplicas && isRunning(polled); turn++)
        polled = await server.poll(job, signal);
      if (!("reason" in polled)) {
        if (isCompleted(polled)) return false;
        if (isCancelled(polled)) return true;
        // What has failed by itself was not stopped, and may have cost something.
        if (isFailed(polled)) return isTold;
      }
      const reply = await server.remove(job, signal);
      // A page of a proxy with HTTP 200 is no answer of the server: the job may go on, and be paid for.
      const isPage = reply.json === undefined && reply.text.trim() !== "";
      if (reply.status < 300 && !isPage) return true;
      const isStopping = reply.status === 409;
      isUnknown = reply.status === 404;
      if (!isStopping && !isUnknown) throw new Error(describeReply(reply));
      if (isUnknown) strays++;
      if (isStopping) {
        isTold = true;
        onTold();
      }
      if (refusal(isUnknown) >= minuteMs && !isTold) return false;
    }
    await server.io.sleep(isUnknown ? missingWaitMs() : retryMs, signal);
  }
}

const maxReplicas = 16;

/** Whether a look shows nothing else: one that meets another replica shows nothing. */
function isRunning(polled: Awaited<ReturnType<Server["poll"]>>): boolean {
  return "reason" in polled || !(isCompleted(polled) || isCancelled(polled) || isFailed(polled));
}
