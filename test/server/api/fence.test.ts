import { expect, test } from "vitest";
import type { Handler } from "../../../src/server/http/message.ts";
import { requestLine } from "../../../src/server/observe/log.ts";
import { errorCode, open, say } from "./wire.ts";

const hello: Handler = async () => new Response("hello");

/** One GET with these header lines and nothing else; %p is the server's port. */
async function get(
  lines: string[],
  { target = "/", ...at }: { target?: string; names?: string[]; publicOrigin?: string; host?: string } = {},
) {
  let calls = 0;
  const { port } = await open(async (request) => {
    calls++;
    return hello(request);
  }, at);
  const head = [`GET ${target} HTTP/1.1`, ...lines, "Connection: close"].join("\r\n").replaceAll("%p", String(port));
  return { reply: await say(port, `${head}\r\n\r\n`), calls: () => calls };
}

test.each([
  { lines: ["Host: localhost:%p"] },
  { lines: ["Host: LOCALHOST:%p"] },
  { lines: ["Host: 127.0.0.1:%p"] },
  { lines: ["hOsT:   127.0.0.1:%p  "] },
  { lines: ["Host: video.example:%p"], names: ["video.example"] },
  { lines: ["Host: Video.Example"], names: ["video.example:80"] },
  { lines: ["Host: video.example:9000"], names: ["video.example:9000"] },
  { lines: ["Host: [::1]:%p"], names: ["::1"] },
  { lines: ["Host: 127.0.0.1:%p", "Origin: http://127.0.0.1:%p"] },
  { lines: ["Host: 127.0.0.1:%p", "Origin: http://localhost:%p"] },
  { lines: ["Host: 127.0.0.1:%p"], host: "0.0.0.0" },
  { lines: ["Host: 127.0.0.1:%p", "Origin: https://video.example"], publicOrigin: "https://video.example" },
  { lines: ["Host: evil.example"], target: "/healthz" },
  { lines: ["Host: evil.example"], target: "/readyz?a=b" },
  { lines: [], target: "/readyz" },
])("$lines is let in (names: $names)", async ({ lines, ...at }) => {
  const { reply, calls } = await get(lines, at);
  expect(reply).toMatch(/^HTTP\/1\.1 200 .*hello/s);
  expect(reply).not.toMatch(/access-control/i);
  expect(calls()).toBe(1);
});

test.each([
  { lines: ["Host: evil.example"], status: 403, code: "forbidden_host" },
  { lines: ["Host: evil.example:%p"], status: 403, code: "forbidden_host" },
  { lines: ["Host: 127.0.0.1"], status: 403, code: "forbidden_host" },
  { lines: ["Host: localhost"], status: 403, code: "forbidden_host" },
  { lines: ["Host: localhost:1"], status: 403, code: "forbidden_host" },
  { lines: ["Host: localhost:%p0"], status: 403, code: "forbidden_host" },
  { lines: ["Host: localhost.:%p"], status: 403, code: "forbidden_host" },
  { lines: ["Host: a.localhost:%p"], status: 403, code: "forbidden_host" },
  { lines: ["Host: localhost.evil.example:%p"], status: 403, code: "forbidden_host" },
  { lines: ["Host: 127.0.0.1.evil.example:%p"], status: 403, code: "forbidden_host" },
  { lines: ["Host: 127.0.0.2:%p"], status: 403, code: "forbidden_host" },
  { lines: ["Host: 127.1:%p"], status: 403, code: "forbidden_host" },
  { lines: ["Host: 2130706433:%p"], status: 403, code: "forbidden_host" },
  { lines: ["Host: [::1]:%p"], status: 403, code: "forbidden_host" },
  { lines: ["Host: [::ffff:127.0.0.1]:%p"], status: 403, code: "forbidden_host" },
  { lines: ["Host: 0.0.0.0:%p"], status: 403, code: "forbidden_host" },
  { lines: ["Host: localhost:%p@evil.example"], status: 403, code: "forbidden_host" },
  { lines: ["Host: evil.example, localhost:%p"], status: 403, code: "forbidden_host" },
  { lines: ["Host: http://localhost:%p"], status: 403, code: "forbidden_host" },
  { lines: ["Host: "], status: 403, code: "forbidden_host" },
  { lines: [], status: 400, code: "invalid_host" },
  { lines: ["Host: localhost:%p", "Host: localhost:%p"], status: 400, code: "invalid_host" },
  { lines: ["Host: localhost:%p", "host: evil.example"], status: 400, code: "invalid_host" },
  { lines: ["Host: evil.example", "X-Forwarded-Host: localhost:%p"], status: 403, code: "forbidden_host" },
  ...[
    ...["http://evil.example", "http://localhost:1", "http://localhost", "https://localhost:%p", "null", "", "*"],
    ...["http://localhost:%p.evil.example", "http://evil.example:%p", "http://localhost:%p/", "file://"],
    ...[
      "http://a.localhost:%p",
      "http://127.0.0.2:%p",
      "chrome-extension://abcdef",
      "http://localhost:%p, http://b.example",
    ],
  ].map((origin) => ({ lines: ["Host: localhost:%p", `Origin: ${origin}`], status: 403, code: "forbidden_origin" })),
])("$lines: $status, and no handler sees it", async ({ lines, status, code }) => {
  const { reply, calls } = await get(lines);
  expect(errorCode(reply, status)).toBe(code);
  expect(reply).not.toMatch(/access-control/i);
  expect(calls()).toBe(0);
});

test.each([
  { target: "/healthz/../api/generate", lines: ["Host: evil.example"], code: "forbidden_host" },
  { target: "/readyzz", lines: ["Host: evil.example"], code: "forbidden_host" },
  { target: "//healthz", lines: ["Host: evil.example"], code: "forbidden_host" },
  { target: "/readyz", lines: ["Host: evil.example", "Origin: http://evil.example"], code: "forbidden_origin" },
  { target: "/", lines: ["Host: %h", "Origin: http://video.example"], code: "forbidden_origin" },
  { target: "/", lines: ["Host: %h", "Origin: https://video.example:8443"], code: "forbidden_origin" },
  { target: "/", lines: ["Host: %h", "Origin: https://video.example, https://b.example"], code: "forbidden_origin" },
])("$target with $lines: no other path and no other origin is let in", async ({ code, ...request }) => {
  const { reply, calls } = await get(request.lines, { ...request, publicOrigin: "https://video.example" });
  expect(errorCode(reply, 403)).toBe(code);
  expect(calls()).toBe(0);
});

test.each([
  "http://evil.example/",
  "http://127.0.0.1:%p/",
  "https://localhost/",
  "*",
  "evil.example:80",
  "/\\evil.example",
])("the request target %s is refused", async (target) => {
  const { reply, calls } = await get(["Host: 127.0.0.1:%p"], { target });
  expect(reply).toMatch(/^HTTP\/1\.1 400 /);
  expect(errorCode(reply, 400)).toMatch(/^(invalid_target|malformed_request)$/);
  expect(calls()).toBe(0);
});

test("the refusal of a host name says how to allow it; only the log has the allowed ones", async () => {
  let log = (_line: string) => {};
  const logged = new Promise<string>((resolve) => {
    log = resolve;
  });
  const { port } = await open(hello, { names: ["video.example"], onRequest: (event) => log(requestLine(event)) });
  const reply = await say(port, "GET / HTTP/1.1\r\nHost: localhost:9000\r\nConnection: close\r\n\r\n");
  expect(errorCode(reply, 403)).toBe("forbidden_host");
  expect(reply).toContain("whoever runs the service allows a name with --name or --public-url");
  expect(reply).not.toContain("video.example");
  expect(await logged).toContain(`403 allowed hosts: localhost:${port}, video.example:${port}, 127.0.0.1:${port} `);
});

test("an OPTIONS request, with which a browser asks for permission for another site, gets no CORS headers", async () => {
  const { port } = await open(hello);
  const lines = ["Host: %h", "Origin: http://evil.example", "Access-Control-Request-Method: POST", "Connection: close"];
  const reply = await say(port, `OPTIONS / HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
  expect(errorCode(reply, 403)).toBe("forbidden_origin");
  expect(reply).not.toMatch(/access-control/i);
});

const studio = "https://studio.example";
const cors = { origins: [studio], paths: /^\/(api|v1)\// };

/** Asks a server that is open to the studio's pages. */
async function askAs(origin: string, target: string, { method = "GET", lines = [] as string[] } = {}) {
  const { port } = await open(async () => new Response("hello"), { cors });
  const head = [`${method} ${target} HTTP/1.1`, "Host: %h", `Origin: ${origin}`, ...lines, "Connection: close"];
  return say(port, `${head.join("\r\n")}\r\n\r\n`);
}

test("a page of a site that --cors names may read a reply, and no cookie counts", async () => {
  const reply = await askAs(studio, "/v1/models");
  expect(reply).toMatch(/^HTTP\/1\.1 200 .*hello/s);
  expect(reply).toContain(`\r\nAccess-Control-Allow-Origin: ${studio}\r\n`);
  expect(reply).toMatch(/\r\nVary: Origin\r\n/);
  expect(reply).not.toMatch(/Allow-Credentials/i);
});

test("a preflight request is answered without a key, with what the page may send", async () => {
  const lines = [
    "Access-Control-Request-Method: DELETE",
    "Access-Control-Request-Headers: authorization,idempotency-key",
  ];
  const reply = await askAs(studio, "/api/generate", { method: "OPTIONS", lines });
  expect(reply).toMatch(/^HTTP\/1\.1 204 /);
  expect(reply).toMatch(/\r\nAccess-Control-Allow-Methods: GET, HEAD, POST, DELETE\r\n/);
  expect(reply).toMatch(/\r\nAccess-Control-Allow-Headers: authorization,idempotency-key\r\n/);
  expect(reply).not.toMatch(/Allow-Credentials|hello|content-length/i);
});

test.each([
  [studio, "/"],
  [studio, "/sign-out"],
  [studio, "/accounts"],
  [studio, "/api/../accounts"],
  [studio, "/v1/%2e%2e/sign-out"],
  ["https://evil.example", "/v1/models"],
  ["https://studio.example.evil.example", "/v1/models"],
  ["http://studio.example", "/v1/models"],
  ["null", "/v1/models"],
])("with --cors, %s at %s is refused as without it", async (origin, target) => {
  const reply = await askAs(origin, target);
  expect(errorCode(reply, 403)).toBe("forbidden_origin");
  expect(reply).not.toMatch(/access-control/i);
});
