import { type FileHandle, open } from "node:fs/promises";
import { type ClientRequest, type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { pipeline } from "node:stream/promises";
import { AwsV4Signer } from "aws4fetch";
import { systemCode } from "../../errors.ts";
import type { Clock } from "../../io.ts";
import { unavailable } from "../observe/problem.ts";

export type S3Options = {
  /** The bucket and the prefix for messages, such as "s3://videos/team". */
  place: string;
  /** The base URL of the objects, without a slash at the end. */
  url: string;
  region: string;
  credentials: { accessKeyId: string; secretAccessKey: string; sessionToken?: string };
  clock: Pick<Clock, "sleep">;
  /** Milliseconds without progress after which a request fails. */
  stalledMs?: number;
};

export type S3Request = {
  method: "GET" | "HEAD" | "PUT" | "DELETE";
  /** The name of the object; without it, the request lists the objects whose names begin with `list`, from `token` on. */
  name?: string;
  list?: string;
  token?: string | undefined;
  headers?: Record<string, string> | undefined;
  /** The path of the file to send. */
  file?: string;
  signal?: AbortSignal;
};

const defaultStalledMs = 60_000;

/** The file is sent after this time to a server that ignores `Expect`. */
const continueMs = 1_000;

/**
 * Signs one request, sends it over a new connection, and resolves once the headers of its reply have arrived. Uses Node's own client, which
 * reads a reply no faster than its consumer (see `unlimitedBytes` in client/http/free.ts). Rejects with the signal's reason, else with an
 * `Error` for people.
 */
export async function sendS3Request(
  { method, name, list = "", token, file, signal, ...request }: S3Request,
  options: S3Options,
) {
  const { credentials, region, stalledMs = defaultStalledMs } = options;
  // With `Expect` a refusal arrives before the file is sent. A server may close the connection during the upload, and its reply would be lost.
  const headers = { ...request.headers, ...(file !== undefined && { Expect: "100-continue" }) };
  const signer = new AwsV4Signer({
    ...credentials,
    region,
    service: "s3",
    method,
    url: name === undefined ? listUrl(list, token, options) : `${options.url}/${name}`,
    headers,
  });
  const signed = await signer.sign();
  const handle = file === undefined ? undefined : await open(file);
  const { protocol, host } = signed.url;
  const openRequest = protocol === "https:" ? requestHttps : requestHttp;
  const outgoing = openRequest(signed.url, {
    method,
    headers: Object.fromEntries(signed.headers),
    agent: false,
    timeout: stalledMs,
    ...(signal && { signal }),
  });
  outgoing.on("timeout", () => outgoing.destroy(new Error(`no progress for ${stalledMs / 1_000} s`)));
  const reply = new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.once("response", resolve);
    outgoing.on("error", (error) => reject(signal?.aborted ? signal.reason : explain(error, host)));
    outgoing.once("close", () => reject(explain(new Error("it was closed without a reply"), host)));
  });
  if (handle) void sendFile(handle, outgoing, options.clock).catch(() => {});
  else outgoing.end();
  return reply;
}

/** Only the URL of the whole bucket lists objects. */
function listUrl(start: string, token: string | undefined, { url, place }: S3Options): string {
  const prefix = place.replace(/^s3:\/\/[^/]+/, "");
  const query = new URLSearchParams({ "list-type": "2", prefix: `${prefix}/${start}`.slice(1) });
  if (token !== undefined) query.set("continuation-token", token);
  return `${url.slice(0, url.length - prefix.length)}?${query}`;
}

/** Returns the URL of an object with a signature in its query, which allows anyone to GET the object for 15 minutes. */
export async function presign(name: string, { url, region, credentials }: S3Options): Promise<string> {
  const urlToSign = `${url}/${name}?X-Amz-Expires=900`;
  const signer = new AwsV4Signer({ ...credentials, region, service: "s3", url: urlToSign, signQuery: true });
  return (await signer.sign()).url.href;
}

/** Sends a file once the server asks for it, and not at all when the server has replied already. A failure is also an event of `outgoing`. */
async function sendFile(handle: FileHandle, outgoing: ClientRequest, { sleep }: Pick<Clock, "sleep">): Promise<void> {
  const responded = new AbortController();
  for (const event of ["continue", "response", "close"]) outgoing.once(event, () => responded.abort(event));
  await sleep(continueMs, responded.signal).catch(() => {});
  const { aborted, reason } = responded.signal;
  if (aborted && reason !== "continue") return handle.close();
  await pipeline(handle.createReadStream(), outgoing);
}

/** Prefers the code of a connection's error, because its message is empty when several addresses of a name refuse the connection. */
function explain(error: unknown, host: string): Error {
  const reason = systemCode(error) ?? (error instanceof Error ? error.message : error);
  return unavailable(error, `the connection to ${host} failed: ${reason}`);
}
