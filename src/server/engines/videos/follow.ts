import type { RenderOptions } from "../engine.ts";
import { findJob, type Job, readReply, wordsOf } from "./reply.ts";
import { backOffMs, describe, type Server } from "./server.ts";

const pollMs = 2_000;
const pollLimitMs = 30_000;
/** A server of several replicas may answer 404 for a job of another one, so that only a 404 which repeats for this long counts. */
export const missingMs = 30_000;

/**
 * Polls a job until it is completed, and returns it. Rejects with the server's words when the job failed; when the server says for 30 s that
 * it does not know the job, as it does after a restart; and when, for as long as its time limit, it answered nothing of use or the job did
 * not go on. A job that waits in the server's queue goes on as long as any job of that server does.
 */
export async function follow(
  id: string,
  server: Server,
  { progress, signal }: Pick<RenderOptions, "progress" | "signal">,
): Promise<Job> {
  const { io, url, timeoutMs, onNote } = server;
  let [answeredAt, newsAt, missingAt] = [io.now(), io.now(), Number.POSITIVE_INFINITY];
  let last = "";
  for (let failures = 0; ; ) {
    const look = await lookOnce(id, server, signal);
    if ("trouble" in look) {
      failures++;
      missingAt = look.isMissing ? Math.min(missingAt, io.now()) : missingAt;
      if (io.now() - missingAt >= missingMs)
        throw new Error(`${url} no longer has this video's job (${look.trouble}): it may have been restarted`);
      if (io.now() - answeredAt > timeoutMs)
        throw new Error(`${url}, which makes this video, does not answer: ${look.trouble}`);
      if (failures === 3) onNote(`${url} does not answer: ${look.trouble}. Asking on.`);
      await io.sleep(look.isMissing ? pollMs : backOffMs(failures), signal);
      continue;
    }
    const { status, error, progress: percent } = look;
    [failures, answeredAt, missingAt] = [0, io.now(), Number.POSITIVE_INFINITY];
    if (`${status} ${percent}` !== last) {
      last = `${status} ${percent}`;
      server.newsAt = newsAt = io.now();
    }
    if (status === "completed") return look;
    if (isFailed(status)) throw new Error(error ?? `the model run did not succeed (${status})`);
    if (percent !== undefined) progress(percent);
    if (io.now() - (status === "queued" ? Math.max(newsAt, server.newsAt) : newsAt) > timeoutMs)
      throw new Error(`${url} made no progress with this video within ${timeoutMs / 60_000} min (${status})`);
    await io.sleep(pollMs, signal);
  }
}

function isFailed(status: string): boolean {
  return ["failed", "deleted", "cancelled", "canceled", "expired"].includes(status);
}

type Trouble = { trouble: string; isMissing: boolean };

/** Looks at a job once. Whatever does not tell about the job is trouble. Rejects only when the signal aborts. */
export async function lookOnce(id: string, server: Server, signal: AbortSignal): Promise<Job | Trouble> {
  const limit = server.io.limit(pollLimitMs, signal, new Error("no reply in time"));
  try {
    const reply = await readReply(await server.get(jobPath(id), limit.signal));
    return findJob(reply) ?? { trouble: wordsOf(reply), isMissing: reply.status === 404 };
  } catch (error) {
    signal.throwIfAborted();
    return { trouble: describe(error), isMissing: false };
  } finally {
    limit.clear();
  }
}

/** An id may contain any character, such as "/". */
export function jobPath(id: string): string {
  return `/v1/videos/${encodeURIComponent(id)}`;
}
