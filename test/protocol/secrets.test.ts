import { expect, test } from "vitest";
import { hashText, hideSecrets, holdsHash } from "../../src/protocol/secrets.ts";

const hash = hashText("s3cret");
const address = "https://cdn.example/a.png?signature=1";

test.each<[string, unknown, unknown]>([
  ["token", "s3cret", hash],
  ["api_key", "s3cret", hash],
  ["apiKey", "s3cret", hash],
  ["x-auth", "s3cret", hash],
  ["password", 12345, hashText("12345")],
  ["credentials", { user: "s3cret", isNew: true }, { user: hash, isNew: true }],
  ["elements", [{ secret: "s3cret", name: "fox" }], [{ secret: hash, name: "fox" }]],
  ["elements", '[{"secret": "s3cret", "name": "fox"}]', `[{"secret":"${hash}","name":"fox"}]`],
  ["elements", [{ url: address }], [{ url: hashText(address) }]],
  ["mask", "data:image/png;base64,AAAA", hashText("data:image/png;base64,AAAA")],
  ["mask", "https://user:pw@cdn.example/a.png", hashText("https://user:pw@cdn.example/a.png")],
])("%s=%j is kept as %j, and again so", (name, value, hidden) => {
  expect(hideSecrets(name, value)).toEqual(hidden);
  expect(hideSecrets(name, hidden)).toEqual(hidden);
  expect([holdsHash(value), holdsHash(hidden)]).toEqual([false, true]);
});

test.each<[string, unknown]>([
  ["key_frame", "s3cret"],
  ["monkey", "s3cret"],
  ["max_tokens", 5],
  ["token", ""],
  ["use_auth", true],
  ["mask", "https://cdn.example/a.png"],
  ["style", "a fox at https://cdn.example/?x=1"],
  ["elements", '[{"name":  "fox"}]'],
  ["elements", "[not json"],
])("%s=%j is kept as it is", (name, value) => expect(hideSecrets(name, value)).toBe(value));
