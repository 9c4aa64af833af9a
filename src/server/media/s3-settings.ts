import { usage } from "../../errors.ts";
import type { Io } from "../../io.ts";
import type { S3Options } from "./s3-request.ts";

export type Bucket = Pick<S3Options, "place" | "url" | "region" | "credentials">;

const keyNames = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] as const;

/** Reads "s3://bucket/prefix", and the other settings from the variables that AWS's own tools use. Throws `usage` when a setting is invalid. */
export function readBucket(place: string, env: Io["env"]): Bucket {
  // Other characters would have to be escaped, and S3-compatible stores differ in how they sign escaped names.
  const [, name, prefix = ""] = /^s3:\/\/([a-z0-9][a-z0-9.-]+)((?:\/[\w-][\w.-]*)*)\/?$/.exec(place) ?? [];
  if (name === undefined)
    throw usage(
      `Cannot store videos at ${place}.`,
      "It must be a folder, or s3://bucket/prefix with letters, digits, dots, hyphens and underscores.",
    );
  const missing = keyNames.filter((key) => !env[key]);
  if (missing.length > 0) throw usage(`To store videos at ${place}, ${missing.join(" and ")} must be set.`);
  // Node's error about an invalid header would contain the key.
  const invalid = [...keyNames, "AWS_SESSION_TOKEN"].find((key) => !/^[\x21-\x7e]*$/.test(env[key] ?? ""));
  if (invalid !== undefined) throw usage(`${invalid} contains a space, a line break or a character that is not ASCII.`);
  const { AWS_ACCESS_KEY_ID: accessKeyId = "", AWS_SECRET_ACCESS_KEY: secretAccessKey = "" } = env;
  const sessionToken = env.AWS_SESSION_TOKEN;
  const region = env.AWS_REGION || env.AWS_DEFAULT_REGION || "us-east-1";
  if (!/^[\w-]+$/.test(region)) throw usage(`AWS_REGION is not the name of a region: "${region}".`);
  return {
    place: `s3://${name}${prefix}`,
    url: urlOf(name, region, readEndpoint(env)) + prefix,
    region,
    credentials: { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) },
  };
}

function urlOf(bucket: string, region: string, endpoint: string | undefined): string {
  if (endpoint !== undefined) return `${endpoint}/${bucket}`;
  const host = `s3.${region}.amazonaws.com`;
  // AWS's certificate covers only one label in front of the host.
  return bucket.includes(".") ? `https://${host}/${bucket}` : `https://${bucket}.${host}`;
}

/** Returns the URL of an S3-compatible store that is not AWS, without a slash at the end. */
function readEndpoint(env: Io["env"]): string | undefined {
  const text = env.AWS_ENDPOINT_URL_S3 || env.AWS_ENDPOINT_URL;
  if (!text) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash)
    throw usage("AWS_ENDPOINT_URL must be an http(s) URL without a user name or a query.");
  return url.origin + url.pathname.replace(/\/+$/, "");
}
