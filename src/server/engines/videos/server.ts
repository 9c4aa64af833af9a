import type { HttpResponse, Io } from "../../../io.ts";
import { isDataUrl } from "../../../protocol/url.ts";
import type { Outbound } from "../../outbound/outbound.ts";
import { failed } from "../engine.ts";
import { isCompleted } from "../upstream/follow.ts";
import {
  describeReply,
  findJob,
  isAboutJob,
  isUpstreamFault,
  type ServerReply,
  statesNoFile,
} from "../upstream/reply.ts";
import type { SubmitSignals } from "../upstream/submit.ts";
import {
  type ConnectionUse,
  createConsistency,
  createUpstreamParts,
  headersOfGet,
  paidPatienceMs,
  type Upstream,
} from "../upstream/upstream.ts";
import { detectKind } from "./detect.ts";
import type { encodeBody } from "./encode.ts";
import type { Kind } from "./kinds.ts";

export type ServerOptions = {
  /** The server's address, without `/v1/videos`. */
  url: string;
  /** The model's name at the server, where a create must contain it. */
  upstreamModel: string | undefined;
  /** Its kind, where the owner set one. */
  kind: Kind | undefined;
  /** Its Bearer key. */
  key: string | undefined;
  /** The time limit for a job without progress or without a usable reply. */
  timeoutMs: number;
  /** Whether finished videos stay on the server after they were saved here. */
  keepUpstream?: boolean | undefined;
  /** Called with a message for the owner. */
  onNote(text: string): void;
};

export type ServerIo = Pick<Io, "fetch" | "readSocket" | "now" | "date" | "sleep" | "limit"> & Pick<Outbound, "open">;

export type EncodedBody = Awaited<ReturnType<typeof encodeBody>>;

/** A server of `/v1/videos`, as the parts of its engine use it. */
export type Server = ServerOptions &
  Upstream & {
    /** The headers that carry its key. */
    headers: Readonly<Record<string, string>>;
    isInconsistent(): boolean;
    /** Returns the server's kind, which is detected while unknown. Rejects when it cannot be detected now. */
    findKind(signal: AbortSignal): Promise<Kind>;
    fetch: Io["fetch"];
    /** Returns the server's kind if it is already known. */
    knownKind(): Kind | undefined;
    /** Sends a create. Rejects as `fetch` does: a `RequestError` says whether the server may have received it. */
    create(body: EncodedBody, signals: SubmitSignals): Promise<HttpResponse>;
    /** Sends a DELETE of a job. Rejects as `fetch` does. */
    remove(job: string, signal: AbortSignal): Promise<ServerReply>;
    /** Deletes a finished job and its video, if the kind can and the owner does not keep them. Never rejects. */
    discard(job: string, signal: AbortSignal): Promise<void>;
  };

const noFileReason = "it keeps no files: start it with --output-path";
const upstreamFault = "LiteLLM's upstream gives an error for this job, and may have lost it";

const discardLimitMs = 10_000;

export function createServer(options: ServerOptions, io: ServerIo): Server {
  const { url, key } = options;
  const headers: Record<string, string> = key === undefined ? {} : { Authorization: `Bearer ${key}` };
  const { origin, hostname } = new URL(url);
  const parts = createUpstreamParts({ ...options, name: url }, io);
  const { read } = parts;
  /** An id may contain any character, such as "/". */
  const jobUrl = (job: string) => `${url}/v1/videos/${encodeURIComponent(job)}`;
  const get = (address: string, signal: AbortSignal, use?: ConnectionUse) => {
    const isSameOrigin = new URL(address).origin === origin;
    return io.fetch(address, { headers: { ...headersOfGet(use), ...(isSameOrigin && headers) }, signal });
  };
  const remove: Server["remove"] = async (job, signal) =>
    read(await io.fetch(jobUrl(job), { method: "DELETE", headers: { ...headersOfGet(), ...headers }, signal }));
  let { kind } = options;
  const isPaid = kind?.provider !== undefined;
  const findKind = async (signal: AbortSignal) => {
    kind ??= await detectKind({ url, headers }, io, signal);
    if (!kind)
      throw failed(new Error(`its kind of server cannot be detected; name it with --engine kind:${url}`), {
        failure: "address",
      });
    return kind;
  };
  return {
    ...options,
    ...parts,
    ...(isPaid && { patienceMs: paidPatienceMs(options.timeoutMs) }),
    headers,
    findKind,
    knownKind: () => kind,
    fetch: io.fetch,
    create(encoded, signals) {
      // LiteLLM sends a create to its upstream up to three times, and each may cost money. It may be in front of any server; other servers ignore
      // this header.
      const noRetries = { "x-litellm-num-retries": "0" };
      const allHeaders = { ...headers, ...noRetries, ...encoded.headers };
      const init = { method: "POST", headers: allHeaders, body: encoded.body, ...signals };
      return io.fetch(`${url}/v1/videos`, init);
    },
    async poll(job, signal, options) {
      const reply = await read(await get(jobUrl(job), signal, options), options);
      const found = findJob(reply);
      if (found) {
        const isFileless = isCompleted(found) && statesNoFile(reply) && (await findKind(signal)).id === "sglang";
        return { ...found, url: toAbsolute(found.url, url), ...(isFileless && { noFileReason }) };
      }
      const reason = describeReply(reply);
      // A proxy in front of the server may answer 403 for a while, but not in JSON.
      const isForbidden =
        reply.status === 403 && reply.json !== undefined && (await findKind(signal)).hidesJobsFromOtherKeys;
      return {
        reason: isForbidden ? `it shows this video's job, ${job}, only to the key that created it (${reason})` : reason,
        replied: reply.status,
        isMissing: reply.status === 404 && isAboutJob(reply),
        isUnreadable: isPaid && reply.status >= 200 && reply.status < 300,
        fault: isUpstreamFault(reply) ? upstreamFault : undefined,
        retryAfterMs: reply.retryAfterMs,
      };
    },
    remove,
    async discard(job, signal) {
      if (options.keepUpstream) return;
      const limit = io.limit(discardLimitMs, signal, new Error("no response"));
      try {
        if ((await findKind(limit.signal)).hasDelete) await remove(job, limit.signal);
      } catch {
        // The server's owner can remove a video that stays.
      } finally {
        limit.clear();
      }
    },
    contentOf: (job) => `${jobUrl(job)}/content`,
    // An address on the server's own host is trusted like the server.
    open: (address, signal) => (new URL(address).hostname === hostname ? get : parts.open)(address, signal),
    ...createConsistency(url, options.onNote),
  };
}

/** Returns the address that a job states as an absolute URL: a relative one is resolved against the server's URL. */
function toAbsolute(stated: string | undefined, url: string): string | undefined {
  if (stated !== undefined && isDataUrl(stated)) return stated;
  const address = stated === undefined ? undefined : new URL(stated, `${url}/`);
  return address && /^https?:$/.test(address.protocol) ? address.href : undefined;
}
