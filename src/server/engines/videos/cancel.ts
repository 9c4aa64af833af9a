import { isCompleted } from "../upstream/follow.ts";
import { wordsOf } from "../upstream/reply.ts";
import type { Server } from "./server.ts";

const retryMs = 1_000;

/**
 * Stops a job by deleting it, where its server then stops the work; resolves with whether it is stopped. A video that is made already is never
 * deleted. Rejects when the server does not answer, or not in time.
 */
export async function cancel(job: string, server: Server, signal: AbortSignal): Promise<boolean> {
  if (!(await server.findKind(signal)).stopsDeleted) return false;
  for (let isStopping = false; ; isStopping = true) {
    const look = await server.look(job, signal);
    // What has been told to stop is forgotten once it has stopped.
    if ("trouble" in look && look.isMissing) return isStopping;
    // It may be completed: a DELETE would remove a video that was paid for.
    if ("trouble" in look) throw new Error(look.trouble);
    if (isCompleted(look)) return false;
    const reply = await server.remove(job, signal);
    // A page of a proxy with HTTP 200 is no answer of the server: the job may go on, and be paid for.
    const isPage = reply.json === undefined && reply.text.trim() !== "";
    if (reply.status < 300 && !isPage) return true;
    if (reply.status === 404) return isStopping;
    if (reply.status !== 409) throw new Error(wordsOf(reply));
    await server.io.sleep(retryMs, signal);
  }
}
