import { createHmac, randomBytes } from "node:crypto";

/** Makes the headers that let a receiver check who sent a message, and when. `date` is the time of this attempt. */
export type Signer = (message: { id: string; body: string }, date: Date) => SignedHeaders;

export type SignedHeaders = Record<"webhook-id" | "webhook-timestamp" | "webhook-signature", string>;

const prefix = "whsec_";
const secretBytes = { fewest: 24, most: 64, ours: 32 };

/** A new secret as Standard Webhooks writes them: `whsec_` and the base64 of random bytes. */
export function createSecret(): string {
  return prefix + randomBytes(secretBytes.ours).toString("base64");
}

/** Signs by the rules of Standard Webhooks 1.0.0 (symmetric, `v1`). Throws when the secret is not one of 24 to 64 bytes. */
export function createSigner(secret: string): Signer {
  const key = readSecret(secret);
  return ({ id, body }, date) => {
    const timestamp = Math.floor(date.getTime() / 1_000);
    const signature = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
    return { "webhook-id": id, "webhook-timestamp": String(timestamp), "webhook-signature": `v1,${signature}` };
  };
}

function readSecret(secret: string): Buffer {
  const text = secret.startsWith(prefix) ? secret.slice(prefix.length) : "";
  const key = Buffer.from(text, "base64");
  // Node skips over what is no base64: such a secret would sign with other bytes than the receiver's.
  const isWhole = key.toString("base64") === text;
  if (isWhole && key.length >= secretBytes.fewest && key.length <= secretBytes.most) return key;
  throw new Error(
    `a callback secret is ${prefix} and the base64 of ${secretBytes.fewest} to ${secretBytes.most} bytes`,
  );
}
