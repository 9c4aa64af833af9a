import { VidgenError } from "../../../errors.ts";
import { isCancelled, isCompleted, isFailed, missingWaitMs, pollJob } from "../upstream/follow.ts";
import { minuteMs } from "../upstream/patience.ts";
import { describeReply } from "../upstream/reply.ts";
import { createAbsence } from "../upstream/upstream.ts";
import type { Server } from "./server.ts";

const retryMs = 1_000;

/**
 * Stops a job by deleting it, if its server then stops the work; resolves with whether the job is stopped. A finished video is never deleted. A
 * server proves that it stopped a job by its JSON reply to the DELETE, by the job's own status, or by not knowing the job for a minute after it
 * accepted the DELETE, because a single 404 proves nothing. Rejects when the server does not reply in time, with `pending` when it had already
 * accepted the DELETE.
 */
export async function cancel(job: string, server: Server, signal: AbortSignal): Promise<boolean> {
  if (!(await server.findKind(signal)).deleteStopsJob) return false;
  let isAccepted = false;
  try {
    return await stop(job, server, {
      signal,
      onAccepted() {
        isAccepted = true;
      },
    });
  } catch (error) {
    if (!isAccepted || !signal.aborted) throw error;
    throw new VidgenError("pending", "it has accepted the request to stop, but has not confirmed it yet");
  }
}

async function stop(job: string, server: Server, { signal, onAccepted }: { signal: AbortSignal; onAccepted(): void }) {
  const [pollAbsence, deleteAbsence] = [createAbsence(server.io), createAbsence(server.io)];
  let isAccepted = false;
  for (;;) {
    const polled = await pollJob(job, server, signal);
    const isMissing = "reason" in polled && polled.isMissing;
    const absentMs = pollAbsence(isMissing);
    // Without an accepted DELETE the job was not stopped by this call, even if the server no longer knows it.
    if (isMissing && absentMs >= minuteMs) return isAccepted;
    // The job may be completed, and a DELETE would then remove a video that was paid for.
    if ("reason" in polled && !isMissing && !isAccepted) throw new Error(polled.reason);
    let isUnknown = isMissing;
    if (!("reason" in polled)) {
      if (isCompleted(polled)) return false;
      if (isCancelled(polled)) return true;
      // A job that failed by itself was not stopped, and may have cost money.
      if (isFailed(polled)) return isAccepted;
      const reply = await server.remove(job, signal);
      // A proxy's page with HTTP 200 is not the server's reply, and the job may continue and cost money.
      const isPage = reply.json === undefined && reply.text.trim() !== "";
      if (reply.status < 300 && !isPage) return true;
      const isStopping = reply.status === 409;
      isUnknown = reply.status === 404;
      if (!isStopping && !isUnknown) throw new Error(describeReply(reply));
      if (isStopping) {
        isAccepted = true;
        onAccepted();
      }
      if (deleteAbsence(isUnknown) >= minuteMs && !isAccepted) return false;
    }
    await server.io.sleep(isUnknown ? missingWaitMs() : retryMs, signal);
  }
}
