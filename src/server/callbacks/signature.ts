import { createHmac, randomBytes } from "node:crypto";
import { localAccount } from "../announcement.ts";

/** Returns the headers by which a receiver verifies the sender and the time of a message. `date` is the time of the attempt. */
export type Signer = (message: { id: string; account: string; body: string }, date: Date) => SignedHeaders;

export type SignedHeaders = Record<"webhook-id" | "webhook-timestamp" | "webhook-signature", string>;

const prefix = "whsec_";
const secretBytes = { min: 24, max: 64, created: 32 };

/** Returns a new secret in the format of Standard Webhooks: `whsec_` and the base64 of random bytes. */
export function createSecret(): string {
  return prefix + randomBytes(secretBytes.created).toString("base64");
}

/** Signs as Standard Webhooks 1.0.0 specifies (symmetric, `v1`). Throws when the secret does not have 24 to 64 bytes. */
export function createSigner(secret: string): Signer {
  readSecret(secret);
  return ({ id, account, body }, date) => {
    const key = readSecret(secretOf(secret, account));
    const timestamp = Math.floor(date.getTime() / 1_000);
    const signature = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
    return { "webhook-id": id, "webhook-timestamp": String(timestamp), "webhook-signature": `v1,${signature}` };
  };
}

/**
 * Returns the secret of an account, derived from the service's secret; the local account uses that secret itself. Each account has its own,
 * because with a shared secret one account could forge the callbacks of another.
 */
export function secretOf(secret: string, account: string): string {
  if (account === localAccount) return secret;
  return prefix + createHmac("sha256", readSecret(secret)).update(`callbacks of ${account}`).digest("base64");
}

function readSecret(secret: string): Buffer {
  const text = secret.startsWith(prefix) ? secret.slice(prefix.length) : "";
  const key = Buffer.from(text, "base64");
  // Node ignores characters that are not base64, so its signatures would not match the receiver's.
  const isBase64 = key.toString("base64") === text;
  if (isBase64 && key.length >= secretBytes.min && key.length <= secretBytes.max) return key;
  throw new Error(`a callback secret is ${prefix} and the base64 of ${secretBytes.min} to ${secretBytes.max} bytes`);
}
