import { createHash, createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { onTestFinished } from "vitest";

export const accessKeyId = "CANARYKEYID";
export const secretAccessKey = "canary/secret+access=key";

export type FakeS3 = {
  /** The settings of a client that may use it. */
  env: Record<string, string>;
  /** The objects of the one bucket, by "bucket/key". */
  objects: Map<string, Buffer>;
  /** Each request, as "PUT /bucket/key". */
  requests: string[];
  /** Hands the next request to this listener. */
  failNext(listener: RequestListener): void;
};

/** An S3 store with the bucket "videos" that checks the signature and the digest of each request as AWS describes it, and can fail. */
export async function openFakeS3(): Promise<FakeS3> {
  const objects = new Map<string, Buffer>();
  const requests: string[] = [];
  const failures: RequestListener[] = [];
  const storedAt = new Map<string, string>();
  let endpoint = "";
  /** Lists one object a page. */
  const list = (query: URLSearchParams, outgoing: ServerResponse) => {
    const start = `videos/${query.get("prefix")}`;
    const keys = [...objects.keys()].filter((key) => key.startsWith(start)).sort();
    const [key, next] = keys.slice(Number(query.get("continuation-token")?.slice(1) ?? 0));
    const object = `<Contents><Key>${key?.slice("videos/".length)}</Key><LastModified>${storedAt.get(key ?? "")}</LastModified></Contents>`;
    const token = `<NextContinuationToken>+${keys.indexOf(next ?? "")}</NextContinuationToken>`;
    outgoing.end(`<ListBucketResult>${key ? object : ""}${next ? token : ""}</ListBucketResult>`);
  };
  const answer = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const { method = "", url = "" } = incoming;
    requests.push(`${method} ${url}`);
    const failure = failures.shift();
    if (failure) return failure(incoming, outgoing);
    const fault = findFault(incoming);
    if (fault) return refuse(outgoing, 403, fault);
    const { pathname, searchParams: query } = new URL(url, endpoint);
    if (method === "GET" && pathname === "/videos" && query.get("list-type") === "2") return list(query, outgoing);
    const key = url.slice(1);
    if (!key.startsWith("videos/")) return refuse(outgoing, 404, "NoSuchBucket");
    if (method === "PUT") {
      if (incoming.headers["content-length"] === undefined) return refuse(outgoing, 411, "MissingContentLength");
      if (incoming.headers.expect) outgoing.writeContinue();
      const body = await buffer(incoming);
      if (sha256(body) !== incoming.headers["x-amz-content-sha256"]) return refuse(outgoing, 400, "BadDigest");
      objects.set(key, body);
      storedAt.set(key, new Date().toISOString());
      return outgoing.end();
    }
    if (method === "DELETE") {
      objects.delete(key);
      return outgoing.writeHead(204).end();
    }
    const object = objects.get(key);
    if (!object) return refuse(outgoing, 404, "NoSuchKey");
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(incoming.headers.range ?? "") ?? [];
    if (first === undefined) return outgoing.setHeader("Content-Length", object.length).end(object);
    const part = object.subarray(Number(first), Number(last) + 1);
    outgoing.writeHead(206, { "Content-Length": part.length }).end(part);
  };
  const listener: RequestListener = (incoming, outgoing) =>
    void Promise.resolve(answer(incoming, outgoing)).catch(() => incoming.socket.destroy());
  const server = createServer(listener).on("checkContinue", listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close().closeAllConnections());
  endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const env = {
    AWS_ENDPOINT_URL: endpoint,
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
  };
  return { env, objects, requests, failNext: (failure) => void failures.push(failure) };
}

/** What S3 says no with. Its text quotes the key's id, as that of AWS does. */
export function refuse(outgoing: ServerResponse, status: number, code: string, headers = {}): void {
  const text = `<?xml version="1.0"?>\n<Error><Code>${code}</Code><AWSAccessKeyId>${accessKeyId}</AWSAccessKeyId></Error>`;
  outgoing.writeHead(status, { "Content-Type": "application/xml", ...headers }).end(text);
}

/** Checks a signature of version 4, in the words of "Authenticating Requests: Using the Authorization Header". */
function findFault({ method, url = "", headers }: IncomingMessage): string | undefined {
  const pattern =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([\w-]+)\/s3\/aws4_request, SignedHeaders=([\w;-]+), Signature=(\w+)$/;
  const [, id, date = "", region = "", signedHeaders = "", signature] = pattern.exec(headers.authorization ?? "") ?? [];
  if (id !== accessKeyId) return "InvalidAccessKeyId";
  for (const needed of ["host", "x-amz-content-sha256", "x-amz-date"]) {
    if (!signedHeaders.split(";").includes(needed)) return "AccessDenied";
  }
  const time = String(headers["x-amz-date"]);
  const lines = signedHeaders.split(";").map((name) => `${name}:${headers[name]}\n`);
  const [path, query = ""] = url.split("?");
  const canonical = [
    method,
    path,
    query.split("&").sort().join("&"),
    lines.join(""),
    signedHeaders,
    headers["x-amz-content-sha256"],
  ].join("\n");
  const scope = `${date}/${region}/s3/aws4_request`;
  const toSign = ["AWS4-HMAC-SHA256", time, scope, sha256(canonical)].join("\n");
  const key = [date, region, "s3", "aws4_request"].reduce<string | Buffer>(hmac, `AWS4${secretAccessKey}`);
  return hmac(key, toSign).toString("hex") === signature && time.startsWith(date) ? undefined : "SignatureDoesNotMatch";
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}

export function sha256(content: string | Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}
