import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inspect } from "node:util";
import { expect, onTestFinished, test, vi } from "vitest";
import { VidgenError } from "../../../src/errors.ts";
import { openMedia } from "../../../src/server/media/open.ts";
import { readBucket } from "../../../src/server/media/s3-settings.ts";
import { makeFolder } from "../../folder.ts";
import { realIo } from "../../real-io.ts";
import { accessKeyId, openFakeS3, secretAccessKey } from "./fake-s3.ts";

const io = realIo();
const keys = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "secret" };

async function errorOf(place: string, env: Record<string, string>): Promise<VidgenError> {
  const opened = await openMedia(place, "aa", { ...io, env }).catch((error) => error);
  if (!(opened instanceof VidgenError)) throw new Error("it did not reject as it should", { cause: opened });
  return opened;
}

test.each([
  ["s3://videos", {}, "https://videos.s3.us-east-1.amazonaws.com", "us-east-1"],
  ["s3://videos/", { AWS_REGION: "eu-west-1" }, "https://videos.s3.eu-west-1.amazonaws.com", "eu-west-1"],
  [
    "s3://videos/a/b_c/",
    { AWS_DEFAULT_REGION: "eu-west-2" },
    "https://videos.s3.eu-west-2.amazonaws.com/a/b_c",
    "eu-west-2",
  ],
  [
    "s3://my.videos/a",
    { AWS_REGION: "r-1", AWS_DEFAULT_REGION: "r-2" },
    "https://s3.r-1.amazonaws.com/my.videos/a",
    "r-1",
  ],
  ["s3://videos", { AWS_ENDPOINT_URL: "http://minio:9000/" }, "http://minio:9000/videos", "us-east-1"],
  [
    "s3://videos/a",
    { AWS_ENDPOINT_URL: "https://x.example/storage/s3" },
    "https://x.example/storage/s3/videos/a",
    "us-east-1",
  ],
  ["s3://v1", { AWS_ENDPOINT_URL: "http://a", AWS_ENDPOINT_URL_S3: "http://b" }, "http://b/v1", "us-east-1"],
])("%s with %j is %s", (place, env, url, region) => {
  const credentials = { accessKeyId: "id", secretAccessKey: "secret" };
  const bucket = readBucket(place, { ...keys, ...env });
  expect(bucket).toStrictEqual({ place: place.replace(/\/$/, ""), url, region, credentials });
});

test.each([
  ...[
    "s3://",
    "s3:///a",
    "s3:/videos",
    "S3://videos",
    "s3://Videos",
    "s3://videos//a",
    "s3://videos/../a",
    "s3://videos/.a",
  ],
  ...[
    "s3://videos/a b",
    "s3://videos/a?b",
    "s3://id:secret@videos",
    "https://s3.example/videos",
    "gs://videos",
    "file:/videos",
  ],
])("%s is neither a folder nor a bucket", async (place) => {
  const error = await errorOf(place, keys);
  expect(error).toMatchObject({ code: "usage", message: `Cannot store videos at ${place}.` });
  expect(error.hint).toContain("s3://bucket/prefix");
});

const notAscii = "contains a space, a line break or a character that is not ASCII";
const badEndpoint = "AWS_ENDPOINT_URL must be an http(s) URL without a user name or a query.";

test.each<[Record<string, string>, string]>([
  [{}, "To store videos at s3://videos, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set."],
  [{ ...keys, AWS_SECRET_ACCESS_KEY: "" }, "To store videos at s3://videos, AWS_SECRET_ACCESS_KEY must be set."],
  [{ ...keys, AWS_SECRET_ACCESS_KEY: "canary\n" }, `AWS_SECRET_ACCESS_KEY ${notAscii}.`],
  [{ ...keys, AWS_SESSION_TOKEN: "canary…" }, `AWS_SESSION_TOKEN ${notAscii}.`],
  [{ ...keys, AWS_REGION: "eu/1" }, 'AWS_REGION is not the name of a region: "eu/1".'],
  [{ ...keys, AWS_ENDPOINT_URL: "minio:9000" }, badEndpoint],
  [{ ...keys, AWS_ENDPOINT_URL: "nowhere" }, badEndpoint],
  [{ ...keys, AWS_ENDPOINT_URL: "http://id:canary@minio" }, badEndpoint],
  [{ ...keys, AWS_ENDPOINT_URL_S3: "http://minio/?a" }, badEndpoint],
])("with %j: usage", async (env, message) => {
  const error = await errorOf("s3://videos", env);
  expect(error).toMatchObject({ code: "usage", message });
  expect(inspect(error)).not.toContain("canary");
});

test("an unusable bucket is an error that says why, and leaves no folder", async () => {
  const temporary = makeFolder();
  vi.stubEnv("TMPDIR", temporary);
  onTestFinished(() => void vi.unstubAllEnvs());
  const s3 = await openFakeS3();
  for (const [env, reason] of [
    [s3.env, "s3://another/a responded to a PUT with HTTP 404 (NoSuchBucket)"],
    [
      { ...s3.env, AWS_SECRET_ACCESS_KEY: "another" },
      "s3://another/a responded to a PUT with HTTP 403 (SignatureDoesNotMatch)",
    ],
    [{ ...s3.env, AWS_ENDPOINT_URL: "http://127.0.0.1:1" }, "the connection to 127.0.0.1:1 failed: ECONNREFUSED"],
  ] as const) {
    const error = await errorOf("s3://another/a", env);
    const message = `Cannot store videos at s3://another/a: ${reason}.`;
    expect(error).toMatchObject({ code: "output", message, hint: expect.stringContaining("The bucket must exist.") });
    for (const secret of [accessKeyId, secretAccessKey]) expect(inspect(error, { depth: 9 })).not.toContain(secret);
  }
  expect(await readdir(temporary)).toEqual([]);
});

test("an unusable folder is an error that says why", async () => {
  const file = join(makeFolder(), "file");
  await writeFile(file, "");
  const place = join(file, "videos");
  const message = `Cannot store videos at ${place}: part of the path is not a folder.`;
  expect(await errorOf(place, {})).toMatchObject({ code: "output", message });
  expect(await errorOf("", {})).toMatchObject({ code: "usage" });
});

test("Ctrl-C during the check of S3 is reported as that", async () => {
  const s3 = await openFakeS3();
  const stop = new AbortController();
  const interrupted = new VidgenError("interrupted", "Interrupted.");
  s3.failNext(() => stop.abort(interrupted));
  const opened = openMedia("s3://videos", "aa", { ...io, env: s3.env, signal: stop.signal });
  await expect(opened).rejects.toBe(interrupted);
});
