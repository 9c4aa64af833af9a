import fc, { type Arbitrary } from "fast-check";

/** A request that is no right one. `<%h>` in it stands for the right Host, `<%k>` for the key, `<%i>` for the id of a generation. */
export type Malformed = {
  kind: string;
  text: string;
  /** It breaks off: nothing more comes. */
  isCut?: boolean;
  /** How many right requests for a generation's status come before it, on the same connection. */
  before?: number;
};

const key = "Authorization: Bearer <%k>";
const json = "Content-Type: application/json";
const look = "GET /api/generation-status?id=<%i> HTTP/1.1";
const start = "POST /api/generate HTTP/1.1";
const fox = { prompt: "a fox [fail]", model: "sora-2" };
const foxText = JSON.stringify(fox);

const lines = (...all: string[]) => `${all.join("\r\n")}\r\n\r\n`;
/** What would be a start if anybody took it for one. */
const smuggled = lines(start, "Host: <%h>", key, json, `Content-Length: ${foxText.length}`) + foxText;

const token = fc.stringMatching(/^[a-z]{1,12}$/);
const control = fc.constantFrom(..."\0\x01\x07\x08\x0b\x0c\x0e\x1b\x7f");
const word = fc.stringMatching(/^[ -~]{0,40}$/);

/** Bytes of any kind: no HTTP. */
const bytes = fc
  .uint8Array({ minLength: 1, maxLength: 400 })
  .map((all) =>
    Buffer.from(all)
      .toString("latin1")
      .replace(/^[\r\n]+/, "\0"),
  )
  .map((text) => ({ text, isCut: true }));

const texts = fc
  .string({ unit: "binary", minLength: 1, maxLength: 80 })
  .map((text) => ({ text: `${utf8(text).replace(/^[\r\n]+/, "?")}\r\n\r\n`, isCut: true }));

const requestLines = fc
  .oneof(
    token.map((method) => `${method} / HTTP/1.1`),
    token.map((method) => `${method.toUpperCase()}ZQ / HTTP/1.1`),
    control.map((one) => `G${one}T / HTTP/1.1`),
    fc
      .constantFrom("get", "Post", "GET\t", " GET", "GE T", "ＧＥＴ", "PRI", "CONNECT")
      .map((all) => `${all} / HTTP/1.1`),
    fc.constantFrom(
      "GET",
      "GET /",
      "GET / ",
      "GET /\tHTTP/1.1",
      "GET  HTTP/1.1",
      "GET / HTTP/1.1 x",
      "GET / HTTP/1.1x",
    ),
    fc
      .constantFrom(
        "HTTP/0.9",
        "HTTP/1.2",
        "HTTP/2",
        "HTTP/2.0",
        "HTTP/3.7",
        "http/1.1",
        "HTTP/11",
        "HTTP/1",
        "HTTP/1.",
      )
      .map((version) => `GET / ${version}`),
    fc
      .constantFrom("HTTPS/1.1", "ICY/1.0x", "HTTP 1.1", "HTTP/1,1", "HTTP/ 1.1", "HTTP/-1.1")
      .map((all) => `GET / ${all}`),
  )
  .map((line) => ({ text: lines(line, "Host: <%h>", key), isCut: true }));

/** Methods that there are, where they have no business. */
const methods = fc
  .tuple(
    fc.constantFrom("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "SEARCH", "PURGE", "QUERY", "M-SEARCH"),
    fc.constantFrom(
      "/api/generate",
      "/api/generation-status?id=<%i>",
      "/accounts",
      "/accounts/credits",
      "/accounts/limits",
      "/accounts/rotate",
      "/accounts/revoke",
      "/metrics",
      "/",
      "/v1/videos",
      "/v1/models",
    ),
    fc.boolean(),
  )
  .map(([method, path, hasBody]) => {
    const head = [`${method} ${path} HTTP/1.1`, "Host: <%h>", key];
    return { text: hasBody ? `${lines(...head, json, "Content-Length: 2")}{}` : lines(...head) };
  });

const targets = fc
  .oneof(
    fc.constantFrom(
      "http://<%h>/api/generation-status?id=<%i>",
      "https://<%h>/",
      "http://evil.example/",
      "*",
      "<%h>",
      "//",
    ),
    fc.constantFrom(
      "api/generate",
      "?id=<%i>",
      "#",
      "\\",
      "..",
      "%2fapi",
      "/api/generate\\..",
      "/..;/accounts/x",
      "/%00",
    ),
    word.map((text) => `/${encodeURI(text.replaceAll("%", ""))}/x`),
    control.map((one) => `/api/generation-status?id=<%i>${one}`),
    fc.tuple(token, control, token).map((parts) => `/${parts.join("")}`),
    token.map((text) => `/api/generation-status?${text}=<%i>`),
    fc.stringMatching(/^[0-9a-f%.~/-]{1,60}$/).map((text) => `/api/generation-status?id=${text}`),
    fc
      .constantFrom("%00", "<%i>%00", "%ff", "%", "%zz", "<%i><%i>", "%20<%i>", "[object]", "💥")
      .map((text) => `/api/generation-status?id=${utf8(text)}`),
    fc.integer({ min: 16_400, max: 70_000 }).map((length) => `/${"x".repeat(length)}`),
    fc.constantFrom("/a b", "/ /", "/ü ", "/\t").map((text) => utf8(text)),
  )
  .map((target) => ({ text: lines(`GET ${target} HTTP/1.1`, "Host: <%h>", key), isCut: true }));

/** One header that spoils a request which would be answered with 200. */
const headers = fc
  .oneof(
    fc.tuple(token, control, token).map(([a, one, b]) => `${a}${one}${b}: x`),
    fc.constantFrom(...'()<>@,;\\"/[]?={} \t').map((one) => `X${one}Y: z`),
    token.map((name) => utf8(`${name}ü: x`)),
    token.map((name) => name),
    token.map((name) => `: ${name}`),
    token.map((name) => `${name} : x`),
    fc.constantFrom("\0", "\r", "\n\0", "a\rb", "a\r\rb").map((value) => `X: ${value}`),
    control.map((one) => `X: a${one}b`),
    control.map((one) => `Host${one}: <%h>`),
    fc.integer({ min: 16_400, max: 60_000 }).map((length) => `X: ${"y".repeat(length)}`),

    fc.constantFrom("Host: <%h>", "host: evil.example", "Host:", "HOST: localhost"),
    fc.constantFrom("tea", "200-ok", "").map((value) => `Expect: ${value}x`),
    fc.constantFrom("null", "http://evil.example", "*", "http://localhost").map((origin) => `Origin: ${origin}`),
  )
  .map((line) => ({ text: lines(look, "Host: <%h>", key, line), isCut: true }));

const hosts = fc
  .oneof(
    fc.constantFrom(
      "",
      "evil.example",
      "<%h>.evil.example",
      "evil.example, <%h>",
      "http://<%h>",
      "<%h>/",
      "<%h>@evil.example",
      "127.1:1",
    ),
    word.filter((text) => text.trim() !== ""),
    fc.ipV4(),
    fc.ipV6().map((address) => `[${address}]`),
    fc.domain(),
  )
  .map((host) => ({ text: lines(look, `Host: ${host}`, key), isCut: true }));

const credentials = fc
  .oneof(
    fc.constantFrom(
      "",
      "Basic <%k>",
      "Bearer",
      "Bearer ",
      "Bearer<%k>",
      "<%k>",
      "Bearer <%k> <%k>",
      "Bearer <%k>x",
      "Bearer, <%k>",
      "Token <%k>",
    ),
    word.map((text) => `Bearer ${text}`),
    fc.integer({ min: 1, max: 8_000 }).map((length) => `Bearer ${"a".repeat(length)}`),
  )
  .map((value) => ({ text: lines(look, "Host: <%h>", `Authorization: ${value}`) }));

/** The head of a start whose framing is wrong, and what follows it. */
const framing = fc
  .oneof(
    fc
      .constantFrom(
        "-1",
        "+51",
        "1e1",
        "0x33",
        "51.0",
        "51,51",
        "51, 52",
        "5 1",
        "",
        " ",
        "a",
        "9".repeat(30),
        "51;",
        "٥١",
      )
      .map((length) => [`Content-Length: ${utf8(length)}`, foxText]),
    fc.tuple(fc.nat(40), fc.nat(60)).map(([a, b]) => [`Content-Length: ${a}\r\nContent-Length: ${b + 41}`, foxText]),
    fc
      .constantFrom(
        "gzip",
        "xchunked",
        "chunked, gzip",
        "chunked;q=1",
        "\x0bchunked",
        "chunked\0",
        "identity",
        "chunked, identity",
        "[]",
      )
      .map((coding) => [`Transfer-Encoding: ${coding}`, chunks(foxText)]),
    fc
      .constantFrom("Transfer-Encoding : chunked", "Transfer-Encoding\t: chunked", "Transfer\0-Encoding: chunked")
      .map((line) => [line, chunks(foxText)]),
    fc.nat(80).map((length) => [`Content-Length: ${length}\r\nTransfer-Encoding: chunked`, chunks(foxText)]),
    fc
      .constantFrom("zz", "-1", "0x5", " 5", "5 5", "fffffffffffffffff", "5\x0b", "+5", "5;\0", "")
      .map((size) => ["Transfer-Encoding: chunked", `${size}\r\nhello\r\n0\r\n\r\n`]),
    fc
      .constantFrom(
        "5\r\nhelloX\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "4\r\nhello\r\n0\r\n\r\n",
      )
      .map((body) => ["Transfer-Encoding: chunked", body]),
    fc
      .constantFrom("0\r\nA B: c\r\n\r\n", "0\r\n: c\r\n\r\n", "0\r\n\0: c\r\n\r\n")
      .map((body) => ["Transfer-Encoding: chunked", body]),
    fc.integer({ min: 1, max: 400 }).map((missing) => [`Content-Length: ${foxText.length + missing}`, foxText]),
    fc.nat(foxText.length + 3).map((length) => ["Transfer-Encoding: chunked", chunks(foxText).slice(0, length)]),
  )
  .map(([line = "", body = ""]) => ({ text: lines(start, "Host: <%h>", key, json, line) + body, isCut: true }));

/** Two who read it differently would see a start in it. */
const smuggling = fc
  .oneof(
    fc.constant(["Content-Length: <%n>\r\nTransfer-Encoding: chunked", `0\r\n\r\n${smuggled}`]),
    fc.constant(["Transfer-Encoding: chunked\r\nContent-Length: 4", `5c\r\n${smuggled}\r\n0\r\n\r\n`]),
    fc
      .constantFrom(
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
        "X: y\rTransfer-Encoding: chunked",
      )
      .map((line) => [`Content-Length: 4\r\n${line}`, `5c\r\n${smuggled}`]),
    fc.constant(["Content-Length: 0\r\nContent-Length: <%n>", smuggled]),
    fc
      .constantFrom("Content-Length\0: <%n>", "Content Length: <%n>", "\x0bContent-Length: <%n>")
      .map((line) => [line, smuggled]),
    // Right in its form and refused for its body, which is no request.
    fc.constant(["Content-Length: <%n>", smuggled]),
  )
  .map(([line = "", body = ""]) => ({ text: lines(start, "Host: <%h>", key, json, line) + body, isCut: true }));

const wrongs: Record<string, Arbitrary<unknown>> = {
  prompt: fc.oneof(fc.constantFrom("", " \n\t", null, 1, true, [], {}), fc.array(fc.string())),
  model: fc.oneof(fc.constantFrom("", null, 1, [], {}, "sora", "SORA-2 ", "__proto__", "toString"), token),
  aspectRatio: fc.oneof(
    fc.constantFrom("", null, 1, "16x9", "16:", ":9", "0:0", "1:5", "NaN:1", "16:9:1", "-1:1"),
    token,
  ),
  duration: fc.oneof(
    fc.constantFrom(null, 0, -1, 61, "", "5s", "-5", "1e1", true, [], {}),
    fc.integer({ min: 61 }),
    token,
  ),
  resolution: fc.oneof(fc.constantFrom(null, 720, "", "4k", [], {}), token),
  imageUrl: fc.oneof(
    fc.constantFrom("", null, 1, "ftp://a.example/", "file:///etc/passwd", "javascript:1", "data:text/html,x"),
    token,
  ),
  imageUrls: fc.oneof(
    fc.constantFrom(null, "", {}, [1], [null], [""], ["ftp://a.example/"]),
    fc.array(token, { minLength: 1 }),
  ),
  callback_url: fc.oneof(fc.constantFrom("", 1, [], {}, "ftp://a.example/", "//a.example", "data:,x"), token),
};

const fields = fc
  .constantFrom(...Object.keys(wrongs))
  .chain((field) => (wrongs[field] as Arbitrary<unknown>).map((value) => JSON.stringify({ ...fox, [field]: value })));

const spoilt = fc
  .tuple(fc.nat(foxText.length - 1), fc.constantFrom("", "\0", "}", '"', "\n", "\\", "'", "//", "\xff"))
  .map(([at, what]) => (what === "" ? foxText.slice(0, at) : `${foxText.slice(0, at)}${what}`));

const bodies = fc.oneof(
  ...[fields, fields, spoilt],
  fc
    .json()
    .filter((text) => !/"prompt"/.test(text))
    .map(utf8),
  fc.string({ unit: "binary" }).map(utf8),
  fc.constantFrom(
    "",
    "null",
    "NaN",
    "undefined",
    "{'prompt':1}",
    "{}",
    "[]",
    `[${foxText}]`,
    `${foxText}${foxText}`,
    `${foxText},`,
  ),
  fc.constantFrom(
    `{"__proto__":${foxText}}`,
    '{"constructor":{"prompt":"a"}}',
    '{"prompt":"a f\xf6x","model":"sora-2"}',
  ),
  fc.integer({ min: 1, max: 200_000 }).map((depth) => "[".repeat(depth)),
  fc.integer({ min: 1, max: 100_000 }).map((depth) => `${'{"prompt":'.repeat(depth / 10)}1${"}".repeat(depth / 10)}`),
);

const create = "POST /v1/videos HTTP/1.1";
const jsons = fc.tuple(fc.constantFrom(start, create), bodies).map(([line, body]) => ({
  text: lines(line, "Host: <%h>", key, json, `Content-Length: ${body.length}`) + body,
}));

const boundary = "x".repeat(30);
const part = (name: string, value: string) =>
  `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
const foxForm = `${part("prompt", fox.prompt)}${part("model", fox.model)}--${boundary}--\r\n`;
const file = 'input_reference"; filename="a.png';

const formBodies = fc.oneof(
  fc.nat(foxForm.length - 5).map((length) => foxForm.slice(0, length)),
  fc.string({ unit: "binary" }).map(utf8),
  fc
    .constantFrom(
      ...["prompt", "model", file, 'seed"; filename="a', "size", "seconds", "input_reference", "callback_url"],
    )
    .chain((name) => token.map((value) => `${part(name, value)}${foxForm}`)),
);

const forms = fc.tuple(formBodies, fc.constantFrom(boundary, boundary, `${boundary}y`, "")).map(([body, named]) => ({
  text:
    lines(
      ...[create, "Host: <%h>", key, `Content-Type: multipart/form-data; boundary=${named}`],
      `Content-Length: ${body.length}`,
    ) + body,
}));

const nobody = fc.oneof(token, fc.string({ unit: "binary" }), fc.constantFrom("local ", "../local", "__proto__"));
const noName = fc.constantFrom("", " ", "a b", "local", "x".repeat(65), null, 1, [], {}, undefined);
const noNumber = fc.constantFrom(-1, 0.5, 1e300, "5", true, [], {}, ["5"]);

/** What the owner may not ask for, by the end of the path. */
const accountChanges: Record<string, Arbitrary<unknown>> = {
  "": fc.oneof(
    noName.map((name) => ({ name, credits: 5 })),
    noNumber.map((credits) => ({ name: "ci", credits })),
  ),
  "/credits": fc.oneof(
    nobody.map((account) => ({ account, amount: 5 })),
    fc.constantFrom(0, null, undefined, 0.5, 1e300, "5", true).map((amount) => ({ account: "local", amount })),
    fc.constantFrom(-1e12, Number.MAX_SAFE_INTEGER).map((amount) => ({ account: "local", amount })),
  ),
  "/limits": fc.oneof(
    nobody.map((account) => ({ account, max_running: 1 })),
    noNumber.map((max_running) => ({ account: "local", max_running })),
    fc.constantFrom(0, 1_000_001).map((max_per_hour) => ({ account: "local", max_per_hour })),
  ),
  "/rotate": fc.oneof(nobody, noName).map((account) => ({ account })),
  "/revoke": fc.constantFrom("local", 1, null, [], {}, undefined).map((revoke) => ({ revoke })),
};

const accounts = fc
  .constantFrom(...Object.keys(accountChanges))
  .chain((path) =>
    fc.tuple(
      fc.constant(path),
      fc.oneof((accountChanges[path] as Arbitrary<unknown>).map((body) => JSON.stringify(body)).map(utf8), bodies),
      fc.constantFrom("", "Idempotency-Key: 1", `Idempotency-Key: ${"x".repeat(256)}`),
    ),
  )
  .map(([path, body, line]) => {
    const head = ["Host: <%h>", key, json, `Content-Length: ${body.length}`, ...(line === "" ? [] : [line])];
    return { text: lines(`POST /accounts${path} HTTP/1.1`, ...head) + body };
  });

const types = fc
  .oneof(
    fc.constantFrom("", "text/plain", "application/jsonx", "application/x-www-form-urlencoded", "json", "*/*"),
    word,
  )
  .filter((type) => !/^application\/json\s*(;|$)/i.test(type.trim()))
  .map((type) => ({
    text: lines(start, "Host: <%h>", key, `Content-Type: ${type}`, `Content-Length: ${foxText.length}`) + foxText,
  }));

const sizes = fc.integer({ min: 1_000_001, max: 3_000_000 }).map((length) => ({
  text: lines("POST /accounts HTTP/1.1", "Host: <%h>", key, json, `Content-Length: ${length}`) + foxText.padEnd(length),
}));

const pipelined = fc
  .tuple(fc.integer({ min: 1, max: 20 }), fc.oneof(bytes, requestLines, framing, smuggling))
  .map(([before, { text }]) => ({ text, isCut: true, before }));

const broken = fc
  .nat(smuggled.length - 1)
  .map((length) => ({ text: smuggled.slice(0, Math.max(1, length)), isCut: true }));

/** How often each kind comes, and what it is. */
const kinds: [name: string, weight: number, arbitrary: Arbitrary<Omit<Malformed, "kind">>][] = [
  ["bytes", 8, bytes],
  ["texts", 6, texts],
  ["request lines", 12, requestLines],
  ["methods", 8, methods],
  ["targets", 12, targets],
  ["headers", 14, headers],
  ["hosts", 8, hosts],
  ["credentials", 8, credentials],
  ["framing", 16, framing],
  ["smuggling", 8, smuggling],
  ["JSON", 24, jsons],
  ["forms", 10, forms],
  ["accounts", 10, accounts],
  ["types", 6, types],
  ["sizes", 1, sizes],
  ["pipelined", 10, pipelined],
  ["broken off", 8, broken],
];

/** So many of all kinds; the same ones for the same seed. */
export function sampleMalformed(count: number, seed: number): Malformed[] {
  const one = fc.oneof(
    ...kinds.map(([kind, weight, arbitrary]) => ({ weight, arbitrary: arbitrary.map((all) => ({ kind, ...all })) })),
  );
  return fc.sample(one, { numRuns: count, seed });
}

/** The bytes of a text's UTF-8, each as a character: a request goes out as latin1. */
function utf8(text: string): string {
  return Buffer.from(text).toString("latin1");
}

function chunks(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`;
}
