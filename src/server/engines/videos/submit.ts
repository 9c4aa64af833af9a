import { RequestError } from "../../../io.ts";
import { extraNames, type RenderOptions, type RenderTask } from "../engine.ts";
import { encodeBody } from "./encode.ts";
import type { Kind } from "./kinds.ts";
import { findCreated, findFinished, findJob, type Reply, readComplaints, wordsOf } from "./reply.ts";
import { backOffMs, describe, type EncodedBody, minutes, type Server } from "./server.ts";

/** What a create gave: a job, or the address of a video that is finished already. */
export type Submitted = { job: string } | { finished: string };

type Options = Pick<RenderOptions, "checkpoint" | "signal">;

/**
 * Has a server start a task, exactly once. "submitting" is kept before the request goes out. It is taken back, and the create sent again
 * later, only when the server certainly did not take it: it could not be reached, or it says that it cannot take it now. A create that was
 * refused for fields that the server does not have is sent once more without them. Rejects when the server refused the request, when it took
 * none for as long as its time limit, and when it is unclear whether it started the job.
 */
export async function submit(task: RenderTask, server: Server, options: Options): Promise<Submitted> {
  const { io, url, timeoutMs, onNote } = server;
  const { checkpoint, signal } = options;
  const end = io.now() + timeoutMs;
  let dropped: string[] = [];
  for (let failures = 0; ; ) {
    const outcome = await tryOnce(task, server, { ...options, dropped });
    const { kind } = outcome;
    if (kind !== "not now") server.report(undefined);
    if (kind === "submitted") return outcome.submitted;
    const { reason } = outcome;
    if (kind === "unclear")
      throw new Error(`it is unclear whether ${url} makes this video (${reason}); it was not submitted again`);
    await checkpoint(null);
    if (kind === "refused") {
      if (dropped.length > 0 || outcome.fields.length === 0) throw new Error(`${url} refused the request: ${reason}`);
      dropped = outcome.fields;
      onNote(`${url} refuses ${dropped.join(", ")} (${reason}). Submitting without.`);
      continue;
    }
    if (io.now() > end)
      throw new Error(`${url} accepted no request for ${minutes(timeoutMs)}: ${reason}; nothing was submitted`);
    if (failures === 0) server.report(`${url} accepts no requests: ${reason}. Trying again until it does.`);
    await io.sleep(backOffMs(failures++), signal);
  }
}

/** "not now": nothing was started, and another try may succeed. */
type Outcome =
  | { kind: "submitted"; submitted: Submitted }
  | { kind: "not now"; reason: string }
  | { kind: "refused"; reason: string; fields: string[] }
  | { kind: "unclear"; reason: string };

async function tryOnce(
  task: RenderTask,
  server: Server,
  { checkpoint, signal, dropped }: Options & { dropped: string[] },
): Promise<Outcome> {
  let kind: Kind;
  try {
    kind = await server.findKind(signal);
  } catch (error) {
    signal.throwIfAborted();
    return { kind: "not now", reason: describe(error) };
  }
  const { fields, ...body } = kind.createBody(task, server.upstreamModel);
  const left = Object.fromEntries(Object.entries(fields).filter(([name]) => !dropped.includes(name)));
  const encoded = await encodeBody({ ...body, fields: left });
  signal.throwIfAborted();
  await checkpoint({ state: "submitting" });
  const outcome = await send(encoded, server, signal).then((reply) => judge(reply, Object.keys(left)), unanswered);
  // The checkpoint says that the create is unclear.
  if (outcome.kind === "unclear") signal.throwIfAborted();
  if (outcome.kind === "submitted" && "job" in outcome.submitted)
    await checkpoint({ state: "submitted", job: outcome.submitted.job });
  return outcome;
}

/** How long a service that is being stopped waits for the reply to a create. */
const graceMs = 10_000;

/** Some servers answer with the video itself, in base64. */
const maxReplyBytes = 64_000_000;

/** Sends a create. It is not aborted at once when the service stops: without its reply, the video would be lost. */
async function send(body: EncodedBody, server: Server, signal: AbortSignal): Promise<Reply> {
  const { io, timeoutMs } = server;
  const [late, done] = [new AbortController(), new AbortController()];
  const limit = io.limit(timeoutMs, late.signal, new Error(`no response within ${minutes(timeoutMs)}`));
  const onStop = () =>
    void io.sleep(graceMs, done.signal).then(
      () => late.abort(signal.reason),
      () => {},
    );
  signal.addEventListener("abort", onStop, { once: true });
  try {
    const reply = await server.create(body, { signal: limit.signal, unsentSignal: signal });
    return await server.read(reply, maxReplyBytes);
  } finally {
    signal.removeEventListener("abort", onStop);
    done.abort();
    limit.clear();
  }
}

function unanswered(error: unknown): Outcome {
  const isUnsent = error instanceof RequestError && !error.sent;
  return { kind: isUnsent ? "not now" : "unclear", reason: describe(error) };
}

/** Statuses by which a server says that it did not take a request, and may take the same one later. */
const notNow = [401, 403, 425, 429];
/** Words of proxies, such as Envoy and HAProxy, for a 503 because there was no server to send the request to. */
const noServer = /connection failure|overflow|no healthy upstream|no server is available/i;

/** A proxy answers 503 also when a server that has the request does not reply: only the server's own JSON, or such words, are certain. */
function isNotNow({ status, json, text }: Reply): boolean {
  return status === 503 ? json !== undefined || noServer.test(text) : notNow.includes(status);
}

function judge(reply: Reply, fields: string[]): Outcome {
  const { status } = reply;
  const isSuccess = status >= 200 && status < 300;
  const finished = isSuccess ? findFinished(reply) : undefined;
  if (finished !== undefined) return { kind: "submitted", submitted: { finished } };
  const job = isSuccess ? findCreated(reply) : findJob(reply)?.id;
  if (job !== undefined) return { kind: "submitted", submitted: { job } };
  const reason = wordsOf(reply);
  if (isSuccess) return { kind: "unclear", reason: `no job in its reply, ${reason}` };
  if (isNotNow(reply)) return { kind: "not now", reason };
  if (status < 400 || status === 408 || status >= 500) return { kind: "unclear", reason };
  return { kind: "refused", reason, fields: findRefused(reply, fields) };
}

/** Without these the video is of the server's own length or size: they are left out only for a server that does not have the field. */
const shaping = ["seconds", "size", "width", "height"];
const unknownField =
  /extra_forbidden|UnsupportedParams|(extra|unknown|unexpected|unrecogni[sz]ed) (\w+ )?(field|input|param|arg|key)/i;

/** Finds the fields of a create that its refusal complains of, and that can be left out. */
function findRefused(reply: Reply, sent: string[]): string[] {
  const refused = readComplaints(reply).flatMap((words) => {
    const optional = unknownField.test(words) ? [...extraNames, ...shaping] : extraNames;
    return (words.match(/\w+/g) ?? []).filter((word) => optional.includes(word));
  });
  // A server takes both or none.
  if (refused.some((name) => name === "width" || name === "height")) refused.push("width", "height");
  return sent.filter((name) => refused.includes(name));
}
