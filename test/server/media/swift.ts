import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { AwsClient } from "aws4fetch";

/** Debian's packages are for Debian's own Python. */
const python = "/usr/bin/python3";

let opening: Promise<Record<string, string>> | undefined;

/** Starts OpenStack Swift, once for the process, with which it ends: its S3 API checks signatures and digests. Returns the settings of a client. */
export async function openSwift(): Promise<Record<string, string>> {
  opening ??= startSwift();
  return opening;
}

async function startSwift() {
  const script = fileURLToPath(new URL("swift-server.py", import.meta.url));
  const folder = await mkdtemp(join(tmpdir(), "vidgen-swift-"));
  const child = spawn(python, [script, folder], { stdio: ["pipe", "pipe", "ignore"] });
  const [url] = await once(createInterface(child.stdout), "line");
  const [accessKeyId, secretAccessKey] = ["test:owner", "secret"];
  const client = new AwsClient({ accessKeyId, secretAccessKey, service: "s3", region: "us-east-1", retries: 0 });
  const made = await client.fetch(`${url}/videos`, { method: "PUT" });
  if (!made.ok) throw new Error(`Swift answered HTTP ${made.status}: ${await made.text()}`);
  return { AWS_ENDPOINT_URL: url, AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey };
}
