import { createHash, randomUUID } from "node:crypto";
import { readFile, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { unavailable } from "../observe/problem.ts";
import { imagesFolder, keptName, type MediaStore, newImageName } from "./media-store.ts";
import { presign, type S3Options, type S3Request, sendS3Request } from "./s3-request.ts";
import type { Scratch } from "./scratch.ts";

type Upload = { type: string; size: number; sha256: string };

/** An image in the XML of a list: its random name, which needs no escapes, and when it was stored. */
const listedImage = new RegExp(`/?${imagesFolder}/([\\w-]+)</Key>.*?<LastModified>([^<]+)</LastModified>`, "gs");

/**
 * Keeps videos in a bucket of an S3-compatible store. Each is stored by one PUT, which a HEAD confirms. Needs permission to put, get and delete
 * objects, and to list them.
 */
export function openS3({ scratch, mark, ...options }: S3Options & { scratch: Scratch; mark: string }): MediaStore {
  const send = (request: S3Request) => sendS3Request(request, options);
  const put = async (
    path: string,
    { type, size, sha256 }: Upload,
    signal: AbortSignal,
    name = keptName(path, mark),
  ) => {
    const headers = { "Content-Type": type, "Content-Length": String(size), "X-Amz-Content-Sha256": sha256 };
    const reply = await send({ method: "PUT", name, headers, file: path, signal });
    if (!isSuccess(reply)) throw await toError("PUT", reply, options);
    reply.destroy();
    // A captive portal or a proxy may answer 200 to everything.
    const head = await send({ method: "HEAD", name, signal });
    head.destroy();
    if (!isSuccess(head) || head.headers["content-length"] !== String(size))
      throw unavailable(undefined, `${options.place} confirmed a PUT, but does not have the file`);
    return name;
  };
  const remove = async (name: string) => {
    const reply = await send({ method: "DELETE", name });
    if (!isSuccess(reply) && reply.statusCode !== 404) throw await toError("DELETE", reply, options);
    reply.destroy();
  };
  return {
    scratch: scratch.folder,
    async keep({ file, thumbnail, ...video }, signal) {
      const names = {
        thumbnail: thumbnail === null ? null : await put(thumbnail, await describeFile(thumbnail, "image/png"), signal),
        file: await put(file, { type: "video/mp4", size: video.size, sha256: video.etag.replaceAll('"', "") }, signal),
      };
      // A file that cannot be removed now is removed with the scratch folder when the service closes.
      for (const path of [file, thumbnail]) if (path !== null) await rm(path, { force: true }).catch(() => {});
      return { ...video, ...names };
    },
    async keepImage(bytes, signal) {
      const [name, file] = [newImageName(), join(scratch.folder, randomUUID())];
      try {
        await writeFile(file, bytes);
        return await put(file, await describeFile(file, "application/octet-stream"), signal, name);
      } finally {
        await rm(file, { force: true });
      }
    },
    async imagesBefore(date) {
      const old: string[] = [];
      for (let token: string | undefined; ; ) {
        const reply = await send({ method: "GET", list: `${imagesFolder}/`, token });
        if (!isSuccess(reply)) throw await toError("GET", reply, options);
        const page = await text(reply);
        for (const [, name, at = ""] of page.matchAll(listedImage))
          if (Date.parse(at) < date.getTime()) old.push(`${imagesFolder}/${name}`);
        token = /<NextContinuationToken>([^<]+)</.exec(page)?.[1];
        if (token === undefined) return old;
      }
    },
    async read(name, range) {
      const headers = range && { Range: `bytes=${range.first}-${range.last}` };
      const reply = await send({ method: "GET", name, headers });
      const length = range && String(range.last - range.first + 1);
      if (isSuccess(reply) && (length === undefined || reply.headers["content-length"] === length)) return reply;
      const error = await toError("GET", reply, options);
      if (error.s3Code === "NoSuchKey") return undefined;
      throw error;
    },
    presign: (name) => presign(name, options),
    remove,
    async check(signal) {
      // Of this process alone: a store may answer a HEAD by what another process has put there.
      const name = `.vidgen-${mark}`;
      const file = join(scratch.folder, name);
      await writeFile(file, "A process of vidgen could write here.\n");
      await put(file, await describeFile(file, "text/plain"), signal, name);
      await remove(name);
    },
    close: scratch.close,
  };
}

async function describeFile(path: string, type: string): Promise<Upload> {
  const bytes = await readFile(path);
  return { type, size: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") };
}

function isSuccess({ statusCode = 0 }: IncomingMessage): boolean {
  return statusCode >= 200 && statusCode < 300;
}

type S3Error = Error & { s3Code: string | undefined; isUnavailable: boolean };

/** The message contains only the code of S3's error, because its text may contain the key's id and the signed request. */
async function toError(method: string, reply: IncomingMessage, { place, region }: S3Options): Promise<S3Error> {
  const { statusCode = 0, headers } = reply;
  const s3Code = /<Code>(\w+)<\/Code>/.exec(await readStart(reply))?.[1];
  const bucketRegion = headers["x-amz-bucket-region"] ?? region;
  const reasons = [s3Code, bucketRegion === region ? undefined : `the bucket is in ${bucketRegion}`].filter(Boolean);
  const reason = reasons.length === 0 ? "" : ` (${reasons.join(", ")})`;
  const message = `${place} responded to a ${method} with HTTP ${statusCode}${reason}`;
  return Object.assign(new Error(message), { s3Code, isUnavailable: statusCode >= 500 });
}

const maxErrorBytes = 10_000;

/** Reads the start of a reply, then closes its connection. */
async function readStart(reply: IncomingMessage): Promise<string> {
  let text = "";
  try {
    for await (const chunk of reply) {
      text += chunk;
      if (text.length > maxErrorBytes) break;
    }
  } catch {
    // The status is enough for the message.
  }
  return text;
}
