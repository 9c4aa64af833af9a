/**
 * What the fakes share: a server of `/v1/videos` that renders nothing. A job ends by itself `completeAfterMs` after its create, or when the
 * test says so. It is a function from Request to Response:
 *
 * - In one process, `ioFetch(fake)` is the `io.fetch` of what is tested.
 * - On a socket, `serve({ fetch: fake.fetch, port: 0 })` of @hono/node-server. A script of its own process is compiled by test/compiled.ts.
 *
 * Faults are built on `fault(call)`, which is asked before each request. `undefined` serves the request, "drop" closes its connection. What a
 * server did before it broke depends on whether `call.serve()` was awaited before:
 *
 * - a create that never arrived: return "drop". One that was accepted, and the reply lost: `await call.serve()`, then return "drop", or a 500.
 * - a reply cut short: return `{ reply: await call.serve(), bytes: 10 }`. A page in its place: return a Response with HTML.
 * - a server that is not there: throw `refusedConnection()`. On a socket: close the server.
 * - silence: return `new Promise(() => {})`. A slow reply: sleep first.
 * - a restart: `fake.forget()`. Another replica: `missesPoll`. A failed job: `fake.fail(id)`.
 *
 * `fake.creates` holds every create that was read, so that a second one for the same prompt is seen.
 */
import type { HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { unlessAborted } from "../../../../../src/abort.ts";
import { type Io, RequestError } from "../../../../../src/io.ts";
import { tinyMp4 } from "../../../../mp4.ts";

/** A create as the server read it. `fields` are as JSON had them, or texts. */
export type Create = {
  encoding: "json" | "multipart";
  fields: Record<string, unknown>;
  files: { field: string; name: string; type: string; bytes: Uint8Array }[];
  isAccepted: boolean;
};

export type Job = {
  /** As its create answered it. */
  id: string;
  create: Create;
  /** The Authorization of its create. */
  authorization: string | null;
  createdAtMs: number;
  polls: number;
  /** What became of it; `undefined` while it runs. */
  end?: { atMs: number; failure?: Failure };
};

export type Failure = { message: string; httpStatus: number };

export type Call = { route: "create" | "poll" | "content" | "other"; request: Request; serve(): Promise<Response> };

/** A reply that breaks off after so many bytes of its body. */
export type Cut = { reply: Response; bytes: number };

export type Fault = Response | Cut | "drop" | undefined;

export type FakeOptions = {
  /** Milliseconds since 1970; the system's clock by default. */
  now?: () => number;
  completeAfterMs?: number;
  /** Bearer key that the server asks for, if its kind has keys. */
  key?: string;
  /** Names of fields that this server's model refuses. */
  refuses?: readonly string[];
  /** Whether a job's poll, counted from 1, reaches a replica that does not know the job. */
  missesPoll?: (poll: number) => boolean;
  video?: (job: Job) => Uint8Array;
  fault?: (call: Call) => Fault | Promise<Fault>;
};

/** What one kind of server does in its own way. */
export type Server = {
  /** What other free GETs answer, by path. */
  pages: Record<string, unknown>;
  /** Those that need no key. */
  publicPages?: Record<string, unknown>;
  /** Refuses what it would refuse, by the kind's own rules. */
  check(create: Create): Response | undefined;
  refuseField(field: string, create: Create): Response;
  /** The images that are in JSON. */
  filesIn?(fields: Create["fields"]): Create["files"];
  /** The refusal of a request without the right key; not given where there are no keys. */
  unauthorized?: Response;
  /** That of one with another key, where that is another one. */
  wrongKey?: Response;
  /** The statuses of a job that runs; the first is its create's, and each poll shows the next. */
  running: readonly string[];
  createdStatus: number;
  newId(count: number): string;
  /** Tells whether an id that was asked for is the job's; only its own one by default. */
  isId?(asked: string, job: Job): boolean;
  /** A job as replies show it. */
  toBody(job: Job, status: string): Record<string, unknown>;
  /** The HTTP status of a poll of a job that has failed; 200 by default. */
  failedStatus?(failure: Failure): number;
  /** What `/content` answers for a job whose video it does not have. */
  noContent(job: Job, status: string): Response | undefined;
  /** Whether a DELETE of a job that runs is answered with 409 while it stops, and deletes it then. */
  stopsSlowly?: boolean;
  /** The reply to a DELETE, where there is one. */
  deleted?(job: Job): Record<string, unknown>;
  /** Whether a request may see a job; each may by default. */
  shows?(job: Job, request: Request): boolean;
  /** Answers what is at another address than `/v1`. */
  elsewhere?(request: Request, jobs: Iterable<Job>): Response | undefined;
  error(httpStatus: number, message: string): Response;
  notFound(id: string): string;
  /** 404 by default. */
  notFoundStatus?: number;
};

export type Fake = {
  fetch(request: Request, bindings?: unknown): Promise<Response>;
  creates: Create[];
  /** Those of `creates` that were accepted, by the id that was answered. */
  jobs: Map<string, Job>;
  /** The ids of those that were deleted: the server does not know them any more. */
  deleted: string[];
  complete(id: string): void;
  fail(id: string, failure?: Partial<Failure>): void;
  /** A restart: all jobs are gone. */
  forget(): void;
};

export function createFake(server: Server, options: FakeOptions): Fake {
  const { now = Date.now, completeAfterMs = Number.POSITIVE_INFINITY, refuses = [], fault } = options;
  const creates: Create[] = [];
  const jobs = new Map<string, Job>();
  const deleted: string[] = [];
  const isIdOf = server.isId ?? ((asked: string, job: Job) => asked === job.id);

  const findJob = (asked: string) => {
    const job = [...jobs.values()].find((candidate) => !deleted.includes(candidate.id) && isIdOf(asked, candidate));
    const endsAtMs = (job?.createdAtMs ?? 0) + completeAfterMs;
    if (job && now() >= endsAtMs) job.end ??= { atMs: endsAtMs };
    return job;
  };
  const statusOf = ({ end, polls }: Job) => {
    if (end) return end.failure ? "failed" : "completed";
    return server.running[Math.min(polls, server.running.length - 1)] ?? "queued";
  };

  async function create(request: Request): Promise<Response> {
    const read = await readCreate(request);
    creates.push(read);
    read.files.push(...(server.filesIn?.(read.fields) ?? []));
    const refused = refuses.find((field) => field in read.fields);
    const refusal = server.check(read) ?? (refused && server.refuseField(refused, read));
    if (refusal) return refusal;
    read.isAccepted = true;
    const authorization = request.headers.get("Authorization");
    const job: Job = { id: server.newId(creates.length), create: read, authorization, createdAtMs: now(), polls: 0 };
    jobs.set(job.id, job);
    return json(server.createdStatus, server.toBody(job, statusOf(job)));
  }

  function poll(job: Job): Response {
    job.polls++;
    if (options.missesPoll?.(job.polls)) return server.error(404, server.notFound(job.id));
    const failure = job.end?.failure;
    return json((failure && server.failedStatus?.(failure)) ?? 200, server.toBody(job, statusOf(job)));
  }

  function content(job: Job): Response {
    return server.noContent(job, statusOf(job)) ?? videoReply(job, options);
  }

  async function serve(request: Request, [route, id = ""]: ReturnType<typeof readRoute>): Promise<Response> {
    const { pathname } = new URL(request.url);
    const { publicPages = {} } = server;
    if (request.method === "GET" && pathname in publicPages) return json(200, publicPages[pathname]);
    const isKeyWrong = options.key !== undefined && request.headers.get("Authorization") !== `Bearer ${options.key}`;
    if (isKeyWrong && server.unauthorized && pathname.startsWith("/v1/")) {
      const isMissing = request.headers.get("Authorization") === null;
      return (isMissing ? server.unauthorized : (server.wrongKey ?? server.unauthorized)).clone();
    }
    if (request.method === "GET" && pathname in server.pages) return json(200, server.pages[pathname]);
    if (route === "create") return create(request);
    if (id === "") return server.elsewhere?.(request, jobs.values()) ?? server.error(404, "Not Found");
    const job = findJob(id);
    if (!job) return server.error(server.notFoundStatus ?? 404, server.notFound(id));
    if (server.shows?.(job, request) === false) return server.error(403, "Forbidden");
    if (route === "content") return content(job);
    if (request.method !== "DELETE") return poll(job);
    if (!server.deleted) return server.error(405, "Method Not Allowed");
    deleted.push(job.id);
    if (server.stopsSlowly && !job.end) return server.error(409, "Cancellation in progress. Please try again later.");
    return json(200, server.deleted(job));
  }

  const end = (id: string, failure?: Failure) => {
    const job = jobs.get(id);
    if (!job) throw new Error(`the fake has no job ${id}`);
    job.end = { atMs: now(), ...(failure && { failure }) };
  };

  return {
    async fetch(request, bindings) {
      const route = readRoute(request);
      const call: Call = { route: route[0], request: request.clone(), serve: () => serve(request, route) };
      const reply = (await fault?.(call)) ?? (await call.serve());
      if (reply !== "drop" && !("reply" in reply)) return reply;
      return hangUp(reply === "drop" ? undefined : reply, (bindings ?? {}) as Partial<HttpBindings>);
    },
    creates,
    jobs,
    deleted,
    complete: (id) => end(id),
    fail: (id, failure) => end(id, { message: "CUDA out of memory", httpStatus: 500, ...failure }),
    forget: () => jobs.clear(),
  };
}

function readRoute({ method, url }: Request): [route: Call["route"], id?: string] {
  const [, isVideos, id, isContent] = /^\/v1\/(videos)(?:\/([^/]+))?(\/content)?$/.exec(new URL(url).pathname) ?? [];
  if (isVideos && id === undefined && method === "POST") return ["create"];
  if (id === undefined) return ["other"];
  const route = method === "GET" ? "poll" : "other";
  return [isContent ? "content" : route, decodeURIComponent(id)];
}

async function readCreate(request: Request): Promise<Create> {
  const isMultipart = request.headers.get("Content-Type")?.startsWith("multipart/form-data") ?? false;
  if (!isMultipart) {
    const fields = (await request.json().catch(() => ({}))) as Create["fields"];
    return { encoding: "json", fields, files: [], isAccepted: false };
  }
  const read: Create = { encoding: "multipart", fields: {}, files: [], isAccepted: false };
  for (const [field, value] of await request.formData()) {
    if (typeof value === "string") read.fields[field] = value;
    else {
      const bytes = new Uint8Array(await value.arrayBuffer());
      read.files.push({ field, name: value.name, type: value.type, bytes });
    }
  }
  return read;
}

/** Replies as the FastAPI servers do. */
export function json(status: number, body: unknown): Response {
  return new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });
}

/** The job's video; its prompt is in it. */
export function videoReply(job: Job, { video = ({ create }) => tinyMp4(String(create.fields.prompt)) }: FakeOptions) {
  const bytes = video(job);
  const headers = { "Content-Type": "video/mp4", "Content-Length": String(bytes.length), "Accept-Ranges": "bytes" };
  return new Response(Buffer.from(bytes), { headers });
}

/** Closes the connection, after the beginning of a reply if there is one. Without a socket, what waits for the reply gets the error. */
export async function hangUp(cut: Cut | undefined, { outgoing }: Partial<HttpBindings>): Promise<Response> {
  const closed = Object.assign(new Error("the connection was closed"), { code: "ECONNRESET" });
  const start = new Uint8Array((await cut?.reply.arrayBuffer()) ?? []).subarray(0, cut?.bytes);
  if (outgoing) {
    if (cut) outgoing.writeHead(cut.reply.status, Object.fromEntries(cut.reply.headers));
    if (cut) await new Promise((resolve) => outgoing.write(start, resolve));
    outgoing.destroy();
    return RESPONSE_ALREADY_SENT;
  }
  if (!cut) throw new RequestError(closed, { sent: true });
  const body = new ReadableStream({
    start: (controller) => controller.enqueue(start),
    pull: (controller) => controller.error(closed),
  });
  return new Response(body, cut.reply);
}

/** What `io.fetch` rejects with where no server listens. */
export function refusedConnection(): RequestError {
  return new RequestError(Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" }), { sent: false });
}

/** What is tested gets this as its `io.fetch`. */
export function ioFetch(fake: Pick<Fake, "fetch">): Io["fetch"] {
  return async (url, { method = "GET", headers = {}, body, signal, beforeSend } = {}) => {
    try {
      beforeSend?.();
    } catch (error) {
      throw new RequestError(error, { sent: false });
    }
    const reply = fake.fetch(new Request(url, { method, headers, ...(body !== undefined && { body }) }));
    return signal ? unlessAborted(reply, signal) : reply;
  };
}

/** The image of a `data:` address. */
export function dataFile(field: string, address: unknown): Create["files"] {
  const [, type = "", data = ""] = /^data:(image\/\w+);base64,(.+)$/.exec(String(address)) ?? [];
  const name = `image.${type.slice("image/".length)}`;
  return data === "" ? [] : [{ field, name, type, bytes: new Uint8Array(Buffer.from(data, "base64")) }];
}

export const unixSeconds = (ms: number) => Math.floor(ms / 1_000);

/** 32 hexadecimal digits, the same in each run. */
export const hexId = (count: number) => count.toString(16).padStart(32, "0");
