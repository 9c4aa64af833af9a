import { expect, test } from "vitest";
import { checkApiKey, createRedaction } from "../../../src/client/http/redaction.ts";
import { shorten } from "../../../src/protocol/text.ts";
import { checkBaseUrl, isLoopback, withScheme } from "../../../src/protocol/url.ts";

const key = "canary-key-0123456789";

test.each([
  ["https://x.example", "https://x.example"],
  ["https://x.example/", "https://x.example"],
  ["https://x.example/v1///", "https://x.example/v1"],
  ["https://x.example:8443/a/b", "https://x.example:8443/a/b"],
  ["  https://X.Example\n", "https://x.example"],
  ["http://127.0.0.1:8787", "http://127.0.0.1:8787"],
  ["http://127.1.2.3", "http://127.1.2.3"],
  ["http://localhost:80/", "http://localhost"],
  ["http://[::1]:8787/", "http://[::1]:8787"],
  ["http://api.vidgen.localhost", "http://api.vidgen.localhost"],
])("the base URL %j is used as %s", (text, used) => {
  expect(checkBaseUrl(text, "--base-url")).toBe(used);
});

test.each([
  ["http://10.0.0.1", "must be https"],
  ["http://192.168.1.2:8787", "must be https"],
  ["http://0.0.0.0", "must be https"],
  ["http://127.0.0.1.example", "must be https"],
  ["http://localhost.example", "must be https"],
  ["http://notlocalhost", "must be https"],
  ["http://[::2]", "must be https"],
  ["https://x.example?key=1", "must not contain ? or #"],
  ["https://x.example/?", "must not contain ? or #"],
  ["https://x.example/#top", "must not contain ? or #"],
  ["https://x.example/v1#", "must not contain ? or #"],
  ["ftp://x.example", "is not an http(s) URL"],
  ["file:///etc/passwd", "is not an http(s) URL"],
  ["x.example", "is not an http(s) URL"],
  ["localhost:8787", "is not an http(s) URL"],
  ["https://", "is not an http(s) URL"],
  ["", "is not an http(s) URL"],
])("the base URL %j is refused: it %s", (text, reason) => {
  expect(() => checkBaseUrl(text, "--base-url")).toThrow(`--base-url ${reason}`);
});

test.each(["https://ann:s3cret@x.example", "https://s3cret@x.example", "ftp://ann:s3cret@x.example"])(
  "the password in %s is refused without being shown",
  (text) => {
    expect(() => checkBaseUrl(text, "--base-url")).toThrow(/^(?!.*s3cret).*user name or password/s);
  },
);

test.each(["10.0.0.1", "128.0.0.1", "127.evil.example", "localhost.", "::1", "xlocalhost"])(
  "%s is not this machine",
  (host) => {
    expect(isLoopback(host)).toBe(false);
  },
);

test.each([` ${key}\n`, `\t${key}\r\n`, key])("the key %j is used without the white space around it", (text) => {
  expect(checkApiKey(text)).toBe(key);
});

test.each(["sec ret", "sec\nret", "sec\tret", "sec\u0000ret", "sécret", "秘密", "sec\u007fret", "sec\u200bret"])(
  "the key %j is refused without being shown",
  (text) => {
    expect(() => checkApiKey(text)).toThrow("The API key contains a space or another invalid character.");
  },
);

test.each(["", " ", "\n"])("the key %j is empty", (text) => {
  expect(() => checkApiKey(text)).toThrow("The API key is empty.");
});

test("a secret is removed unencoded, percent-encoded, in base64 and in JSON; a very short one is not", () => {
  const secret = 'a "secret"/é+key';
  const { hide, redact } = createRedaction();
  hide(secret);
  hide("short");
  const forms = [secret, encodeURIComponent(secret), btoa(String.fromCharCode(...Buffer.from(secret)))];
  for (const form of [...forms, JSON.stringify(secret).slice(1, -1)])
    expect(redact(`short: ${form}.`)).toBe("short: [key].");
});

test("a secret is removed in another letter case too, and so is the beginning of a cut one; not after `reveal`", () => {
  const { hide, reveal, redact } = createRedaction();
  hide(key);
  expect(redact(`https://${key.toUpperCase()}.example`)).toBe("https://[key].example");
  expect(redact(shorten(`x=${key}, and on`, 12))).toBe("x=[key]…");
  expect(redact(shorten(`x=${key}, and on`, 9))).toBe("x=canary-…");
  expect(redact(`canary-k… ${key.slice(0, 20)}… canary-key`)).toBe("[key]… [key]… canary-key");
  reveal(key);
  expect(redact(key)).toBe(key);
});

test("a long text is searched in a time in proportion to its length", () => {
  const { hide, redact } = createRedaction();
  hide(key);
  const [before, after] = ["a".repeat(5_000_000), "b".repeat(5_000_000)];
  const start = performance.now();
  expect(redact(`${before}${key}…${after}`) === `${before}[key]…${after}`).toBe(true);
  expect(performance.now() - start).toBeLessThan(2_000);
});

test.each([
  ["video.example", "https://video.example"],
  [" video.example/v2 ", "https://video.example/v2"],
  ["localhost:3000/hooks", "http://localhost:3000/hooks"],
  ["127.0.0.1:8787", "http://127.0.0.1:8787"],
  ["http://video.example", "http://video.example"],
  ["ftp://video.example", "ftp://video.example"],
  ["nothing", "nothing"],
  ["two words.example", "two words.example"],
])("the address %o is read as %s", (text, address) => {
  expect(withScheme(text)).toBe(address);
});

test.each([
  ["video.example", "Did you mean https://video.example?"],
  ["https://video.example/v2/api/generate", "Use https://video.example/v2."],
  ["https://video.example/api/generation-status/", "Use https://video.example."],
  ["nothing", undefined],
])("for the base URL %s it says what to type", (text, hint) => {
  expect(() => checkBaseUrl(text, "--base-url")).toThrow(expect.objectContaining({ code: "usage", hint }));
});
