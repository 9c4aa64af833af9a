import { type FileHandle, open } from "node:fs/promises";
import { type ClientRequest, type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { pipeline } from "node:stream/promises";
import { AwsV4Signer } from "aws4fetch";
import { systemCode } from "../../errors.ts";
import type { Clock } from "../../io.ts";
import { unavailable } from "../observe/trouble.ts";

export type S3Options = {
  /** The bucket and the prefix as an error names them, such as "s3://videos/team". */
  place: string;
  /** The URL under which the objects are, without a slash at the end. */
  url: string;
  region: string;
  credentials: { accessKeyId: string; secretAccessKey: string; sessionToken?: string };
  clock: Pick<Clock, "sleep">;
  /** Milliseconds without any progress after which a request is given up. */
  stalledMs?: number;
};

export type S3Request = {
  method: "GET" | "HEAD" | "PUT" | "DELETE";
  name: string;
  headers?: Record<string, string> | undefined;
  /** The path of the file that is sent. */
  file?: string;
  signal?: AbortSignal;
};

const usualStalledMs = 60_000;

/** A server that does not know `Expect` is sent the file after this time. */
const continueMs = 1_000;

/**
 * Signs one request, sends it over a connection of its own, and resolves with the head of its reply. Uses Node's own client, which reads a
 * reply no faster than its reader (see `unlimitedBytes` in client/http/http.ts). Rejects with the signal's reason, else with an `Error` made for
 * people.
 */
export async function sendS3Request({ method, name, file, signal, ...request }: S3Request, options: S3Options) {
  const { credentials, region, stalledMs = usualStalledMs } = options;
  // A refusal comes before the file is sent: a server may close the connection while it is sent, and its reply would be lost.
  const headers = { ...request.headers, ...(file !== undefined && { Expect: "100-continue" }) };
  const signer = new AwsV4Signer({
    ...credentials,
    region,
    service: "s3",
    method,
    url: `${options.url}/${name}`,
    headers,
  });
  const signed = await signer.sign();
  const handle = file === undefined ? undefined : await open(file);
  const { protocol, host } = signed.url;
  const start = protocol === "https:" ? requestHttps : requestHttp;
  const outgoing = start(signed.url, {
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

/** Returns the address of an object with a signature in its query, which lets anyone GET it for 15 minutes. */
export async function presign(name: string, { url, region, credentials }: S3Options): Promise<string> {
  const expiring = `${url}/${name}?X-Amz-Expires=900`;
  const signer = new AwsV4Signer({ ...credentials, region, service: "s3", url: expiring, signQuery: true });
  return (await signer.sign()).url.href;
}

/** Sends a file as soon as the server wants it, and not at all when it has replied before. A failure is an event of `outgoing`, too. */
async function sendFile(handle: FileHandle, outgoing: ClientRequest, { sleep }: Pick<Clock, "sleep">): Promise<void> {
  const answered = new AbortController();
  for (const event of ["continue", "response", "close"]) outgoing.once(event, () => answered.abort(event));
  await sleep(continueMs, answered.signal).catch(() => {});
  const { aborted, reason } = answered.signal;
  if (aborted && reason !== "continue") return handle.close();
  await pipeline(handle.createReadStream(), outgoing);
}

/** An error of a connection tells no more than its code, and none when several addresses of a name refuse it. */
function explain(error: unknown, host: string): Error {
  const reason = systemCode(error) ?? (error instanceof Error ? error.message : error);
  return unavailable(error, `the connection to ${host} failed: ${reason}`);
}
