import { randomUUID } from "node:crypto";
import { systemCode, systemReason } from "../../../errors.ts";
import type { FetchInit, HttpResponse, Io } from "../../../io.ts";
import type { Outbound } from "../../outbound/outbound.ts";
import { detectKind } from "./detect.ts";
import type { encodeBody } from "./encode.ts";
import type { Kind } from "./kinds.ts";
import { clean, type Reply, readReply } from "./reply.ts";

export type ServerOptions = {
  /** The server's address, without `/v1/videos`. */
  url: string;
  /** What it calls the model, where it has to be told. */
  upstreamModel: string | undefined;
  /** Its kind, where the owner named it. */
  kind: Kind | undefined;
  /** Its Bearer key. */
  key: string | undefined;
  /** How long it may show no progress with a job, or answer nothing of use. */
  timeoutMs: number;
  /** Called with a line for the owner. */
  onNote(text: string): void;
};

export type ServerIo = Pick<Io, "fetch" | "now" | "sleep" | "limit"> & Pick<Outbound, "open">;

export type EncodedBody = Awaited<ReturnType<typeof encodeBody>>;

/** A server of `/v1/videos`, as the parts of its engine use it. */
export type Server = ServerOptions & {
  io: ServerIo;
  /** The headers that carry its key. */
  headers: Readonly<Record<string, string>>;
  /** When one of its jobs changed last, in milliseconds of the clock. */
  newsAt: number;
  /** Returns its kind, which is asked for until it is known. Rejects when that cannot be told now. */
  findKind(signal: AbortSignal): Promise<Kind>;
  /** Sends a create. Rejects as `fetch` does: a `RequestError` says whether the server may have it. */
  create(body: EncodedBody, signals: Pick<FetchInit, "signal" | "unsentSignal">): Promise<HttpResponse>;
  /** GETs an address, with the server's key if it is of the same origin. */
  get(address: string, signal: AbortSignal): Promise<HttpResponse>;
  /** Reads a reply to its end, without the key if the server repeats it. Rejects when that breaks off, or is longer than `maxBytes`. */
  read(reply: HttpResponse, maxBytes?: number): Promise<Reply>;
  /** Tells the owner about a problem, unless an earlier one lasts; `undefined` when the server works. */
  report(problem: string | undefined): void;
};

export function createServer(options: ServerOptions, io: ServerIo): Server {
  const { url, key } = options;
  const headers: Record<string, string> = key === undefined ? {} : { Authorization: `Bearer ${key}` };
  const { origin } = new URL(url);
  let { kind } = options;
  let isReported = false;
  return {
    ...options,
    io,
    headers,
    newsAt: io.now(),
    async findKind(signal) {
      kind ??= await detectKind({ url, headers }, io, signal);
      if (!kind) throw new Error(`what kind of server it is cannot be told; --engine kind:${url} names it`);
      return kind;
    },
    create(encoded, signals) {
      // By this header `fetch` knows whether the request was sent.
      const own = { "Idempotency-Key": randomUUID(), ...encoded.headers };
      const init = { method: "POST", headers: { ...headers, ...own }, body: encoded.body, ...signals };
      return io.fetch(`${url}/v1/videos`, init);
    },
    get(address, signal) {
      // A balancer of connections would send every request of one that is kept to the same replica, which may not have the job.
      const own = { "Accept-Encoding": "identity", Connection: "close" };
      const isOwn = new URL(address).origin === origin;
      return io.fetch(address, { headers: { ...own, ...(isOwn && headers) }, signal });
    },
    read: (reply, maxBytes) => readReply(reply, { maxBytes, secret: key }),
    report(problem) {
      if (problem !== undefined && !isReported) options.onNote(problem);
      isReported = problem !== undefined;
    },
  };
}

/** Why a request, or the file of its reply, failed: in a few words, or by the code of a connection, such as ECONNREFUSED. */
export function describe(error: unknown): string {
  const reason = systemReason(error);
  const code = systemCode(error) ?? "";
  const hasWords = !(error instanceof Error) || reason !== error.message;
  return /^E[A-Z_]+$/.test(code) && !hasWords ? code : clean(reason);
}

/** Returns the milliseconds to wait after so many failures in a row. */
export function backOffMs(failures: number): number {
  return Math.min(1_000 * 2 ** failures, 30_000);
}

/** Names a time limit in messages. */
export function minutes(ms: number): string {
  return `${Math.round(ms / 6_000) / 10} min`;
}
