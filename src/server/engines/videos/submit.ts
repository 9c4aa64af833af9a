import { RequestError } from "../../../io.ts";
import { extraNames, type RenderOptions, type RenderOutcome, type RenderTask } from "../engine.ts";
import { encodeBody } from "./encode.ts";
import type { Kind } from "./kinds.ts";
import { findCreated, findFinished, findJob, type Reply, readComplaints, wordsOf } from "./reply.ts";
import { describe, type EncodedBody, minutes, type Server } from "./server.ts";

/** What a create gave: a job, or the address of a video that is finished already. */
export type Submitted = { job: string } | { finished: string };

/** A create that was not taken by the server was not begun there, and may be taken later or by another one. */
export type Outcome = { kind: "submitted"; submitted: Submitted } | Exclude<RenderOutcome, { kind: "made" }>;

/**
 * Has a server start a task, at most once. "submitting" is kept before the request goes out. It is taken back only when the server certainly
 * did not take the create: it could not be reached, it says that it cannot take it now, or it refused. A create that was refused for fields
 * that the server does not have is sent once more without them.
 */
export async function submit(task: RenderTask, server: Server, options: Options): Promise<Outcome> {
  const { url, onNote } = server;
  const outcome = await tryOnce(task, server, { ...options, dropped: [] });
  if (outcome.kind !== "refused" || outcome.fields.length === 0) return outcome;
  const { fields, reason } = outcome;
  onNote(`${url} refuses ${fields.join(", ")} (${reason}). Submitting without.`);
  return tryOnce(task, server, { ...options, dropped: fields });
}

type Options = Pick<RenderOptions, "checkpoint" | "signal">;

/** "no credits": the owner's account there has none. `fields` are those that a refused create may be sent without. */
type Judged =
  | Exclude<Outcome, { kind: "refused" }>
  | { kind: "refused"; error: string; reason: string; fields: string[] };

type Verdict = Judged | { kind: "no credits"; reason: string };

async function tryOnce(
  task: RenderTask,
  server: Server,
  { checkpoint, signal, dropped }: Options & { dropped: string[] },
): Promise<Judged> {
  let kind: Kind;
  try {
    kind = await server.findKind(signal);
  } catch (error) {
    signal.throwIfAborted();
    return { kind: "not taken", reason: describe(error) };
  }
  const { fields, ...body } = kind.createBody(task, server.upstreamModel);
  const left = Object.fromEntries(Object.entries(fields).filter(([name]) => !dropped.includes(name)));
  const encoded = await encodeBody({ ...body, fields: left });
  signal.throwIfAborted();
  await checkpoint({ state: "submitting" });
  const sent = Object.keys(left);
  const outcome = await send(encoded, server, signal).then((reply) => judge(reply, server, sent), unanswered);
  if (outcome.kind === "no credits") {
    await checkpoint(null);
    // Whoever asked for the video gets back what it cost here.
    throw new Error(`${server.url} has no credits left for this video: ${outcome.reason}; nothing was submitted`);
  }
  // The checkpoint says that the create is unclear.
  if (outcome.kind === "unclear") signal.throwIfAborted();
  if (outcome.kind === "not taken" || outcome.kind === "refused") await checkpoint(null);
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

function unanswered(error: unknown): Judged {
  const isUnsent = error instanceof RequestError && !error.sent;
  return { kind: isUnsent ? "not taken" : "unclear", reason: describe(error) };
}

/** Statuses by which a server says that it did not take a request, and may take the same one later. */
const notNow = [401, 403, 425, 429];
/** Words of proxies, such as Envoy and HAProxy, for a 503 because there was no server to send the request to. */
const noServer = /connection failure|overflow|no healthy upstream|no server is available/i;

/** A proxy answers 503 also when a server that has the request does not reply: only the server's own JSON, or such words, are certain. */
function isNotNow({ status, json, text }: Reply): boolean {
  return status === 503 ? json !== undefined || noServer.test(text) : notNow.includes(status);
}

function judge(reply: Reply, { url }: Server, sent: string[]): Verdict {
  const { status } = reply;
  const isSuccess = status >= 200 && status < 300;
  const finished = isSuccess ? findFinished(reply) : undefined;
  if (finished !== undefined) return { kind: "submitted", submitted: { finished } };
  const job = isSuccess ? findCreated(reply) : findJob(reply)?.id;
  if (job !== undefined) return { kind: "submitted", submitted: { job } };
  const reason = wordsOf(reply);
  if (isSuccess) return { kind: "unclear", reason: `no job in its reply, ${reason}` };
  if (isNotNow(reply)) return { kind: "not taken", reason };
  if (status === 402) return { kind: "no credits", reason };
  if (status < 400 || status === 408 || status >= 500) return { kind: "unclear", reason };
  return { kind: "refused", error: `${url} refused the request: ${reason}`, reason, fields: findRefused(reply, sent) };
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
