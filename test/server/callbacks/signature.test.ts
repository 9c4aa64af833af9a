import { randomBytes } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { createSecret, createSigner, secretOf as ownSecretOf } from "../../../src/server/callbacks/signature.ts";

const message = { id: "msg_0123456789abcdef", account: "local", body: '{"status":"completed","prompt":"füchse 🦊"}' };
const secretOf = (bytes: number) => `whsec_${randomBytes(bytes).toString("base64")}`;

test.each([24, 32, 63, 64])("the standardwebhooks package accepts a signature made with %i bytes", (bytes) => {
  const secret = secretOf(bytes);
  const headers = createSigner(secret)(message, new Date());
  expect(new Webhook(secret).verify(message.body, headers)).toEqual(JSON.parse(message.body));
});

test("the headers equal those of the package, with whole seconds", () => {
  const secret = createSecret();
  const date = new Date("2026-01-01T00:00:07.999Z");
  expect(createSigner(secret)(message, date)).toStrictEqual({
    "webhook-id": message.id,
    "webhook-timestamp": "1767225607",
    "webhook-signature": new Webhook(secret).sign(message.id, date, message.body),
  });
});

test.each([
  { what: "another body", body: '{"status":"failed"}', headers: {} },
  { what: "another id", body: message.body, headers: { "webhook-id": "msg_other" } },
  {
    what: "another second",
    body: message.body,
    headers: { "webhook-timestamp": String(Math.floor(Date.now() / 1000) - 1) },
  },
])("$what does not go with the signature", ({ body, headers }) => {
  const secret = createSecret();
  const signed = createSigner(secret)(message, new Date());
  expect(() => new Webhook(secret).verify(body, { ...signed, ...headers })).toThrow("No matching signature");
});

test("each account has its own secret, which does not change", () => {
  const secret = createSecret();
  const own = ownSecretOf(secret, "ci");
  expect(own).toMatch(/^whsec_/);
  expect([ownSecretOf(secret, "ci"), ownSecretOf(secret, "local")]).toEqual([own, secret]);
  const headers = createSigner(secret)({ ...message, account: "ci" }, new Date());
  expect(new Webhook(own).verify(message.body, headers)).toEqual(JSON.parse(message.body));
  for (const other of [secret, ownSecretOf(secret, "other")])
    expect(() => new Webhook(other).verify(message.body, headers)).toThrow("No matching signature");
});

test("another secret does not accept the signature", () => {
  const headers = createSigner(createSecret())(message, new Date());
  expect(() => new Webhook(createSecret()).verify(message.body, headers)).toThrow("No matching signature");
});

test("each new secret is different and has 32 bytes", () => {
  const secrets = [createSecret(), createSecret()];
  expect(new Set(secrets).size).toBe(2);
  for (const secret of secrets) expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
});

test.each([
  "",
  "whsec_",
  randomBytes(32).toString("base64"),
  secretOf(23),
  secretOf(65),
  `${secretOf(32)} `,
  `whsec_${"-_".repeat(20)}`,
  `whsec_*${secretOf(30).slice(6)}`,
])("%j is no secret, and the error does not repeat it", (secret) => {
  let said = "";
  try {
    createSigner(secret);
  } catch (error) {
    said = String(error);
  }
  expect(said).toContain("24 to 64 bytes");
  if (secret.length > 6) expect(said).not.toContain(secret);
});
