import type { RequestListener } from "node:http";
import { text } from "node:stream/consumers";
import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import type { S3Options } from "../../../src/server/media/s3-request.ts";
import { accessKeyId, type FakeS3, openFakeS3, refuse, secretAccessKey, sha256 } from "./fake-s3.ts";
import { content, errorOf, openVideos } from "./videos.ts";

const { signal } = new AbortController();

async function openBroken(options: Partial<S3Options> = {}) {
  const s3 = await openFakeS3();
  return { s3, ...(await openVideos(s3.env, options)) };
}

const key = "videos/team/fox.aa.mp4";

test("one PUT is sent with the length, the type and the digest of the content", async () => {
  const { s3, keep } = await openBroken();
  const heads: unknown[] = [];
  s3.failNext((incoming, outgoing) => {
    heads.push(incoming.headers);
    outgoing.writeContinue();
    incoming.resume().on("end", () => outgoing.end());
    s3.objects.set(key, Buffer.from(content));
  });
  await keep();
  expect(s3.requests).toEqual([`PUT /${key}`, `HEAD /${key}`]);
  expect(heads).toMatchObject([
    { "content-length": "10", "content-type": "video/mp4", "x-amz-content-sha256": sha256(content) },
  ]);
  expect(heads).not.toMatchObject([{ "transfer-encoding": expect.anything() }]);
});

test.each([
  ["nothing there", (s3: FakeS3) => s3.objects.delete(key)],
  ["another file there", (s3: FakeS3) => s3.objects.set(key, Buffer.from("<h1>Sign in</h1>"))],
])("a portal that answers 200 to a PUT has kept no video: %s", async (_, leave) => {
  const { s3, keep, readText } = await openBroken();
  s3.failNext((incoming, outgoing) => {
    leave(s3);
    outgoing.writeContinue();
    incoming.resume().on("end", () => outgoing.writeHead(200, { "Content-Type": "text/html" }).end("<h1>Sign in</h1>"));
  });
  const message = "s3://videos/team confirmed a PUT, but does not have the file";
  expect(await errorOf(keep())).toMatchObject({ message, isUnavailable: true });
  expect(await readText((await keep()).file)).toBe(content);
});

test("a session token is sent, and signed", async () => {
  const s3 = await openFakeS3();
  const { keep } = await openVideos({ ...s3.env, AWS_SESSION_TOKEN: "canary-token" });
  const heads: unknown[] = [];
  s3.failNext((incoming, outgoing) => {
    heads.push(incoming.headers);
    refuse(outgoing, 403, "AccessDenied");
  });
  await errorOf(keep());
  const authorization = expect.stringContaining("x-amz-security-token");
  expect(heads).toMatchObject([{ "x-amz-security-token": "canary-token", authorization }]);
  await keep();
  expect(s3.objects.has(key)).toBe(true);
});

/** Reads the first bytes of a body, and does something then. */
const amidBody =
  (act: RequestListener): RequestListener =>
  (incoming, outgoing) => {
    outgoing.writeContinue();
    incoming.once("data", () => act(incoming, outgoing));
  };

test("a connection that is cut during a PUT leaves nothing, and the next PUT stores the video", async () => {
  const { s3, videos, keep, readText } = await openBroken();
  s3.failNext(amidBody((incoming) => incoming.socket.destroy()));
  const error = await errorOf(keep());
  expect(error.message).toMatch(/^the connection to 127\.0\.0\.1:\d+ failed: (ECONNRESET|EPIPE)$/);
  expect(error).toMatchObject({ isUnavailable: true });
  expect(await videos.read("fox.aa.mp4")).toBeUndefined();
  const kept = await keep();
  expect(await readText(kept.file)).toBe(content);
});

test("a PUT stops with its signal, and leaves nothing", async () => {
  const { s3, videos, made } = await openBroken();
  const stop = new AbortController();
  const aborted = new Promise<void>((resolve) => {
    s3.failNext((incoming, outgoing) => {
      outgoing.writeContinue();
      incoming.once("data", () => stop.abort(new Error("stop"))).once("close", resolve);
    });
  });
  // The rest of the file never comes.
  const error = await errorOf(videos.keep({ ...made, size: 20 }, stop.signal));
  expect(error.message).toBe("stop");
  await aborted;
  expect(await videos.read("fox.aa.mp4")).toBeUndefined();
});

test("the error of a refused PUT says why, and the file is not sent", async () => {
  const { s3, keep } = await openBroken({ stalledMs: 500 });
  let received = 0;
  // The reply never ends, so that there would be time to send the file.
  s3.failNext((incoming, outgoing) => {
    incoming.on("data", ({ length }) => {
      received += length;
    });
    outgoing.writeHead(403).write("<Error><Code>SignatureDoesNotMatch</Code>");
  });
  const error = await errorOf(keep());
  expect(error.message).toBe("s3://videos/team responded to a PUT with HTTP 403 (SignatureDoesNotMatch)");
  expect(error).toMatchObject({ isUnavailable: false });
  expect(received).toBe(0);
});

test("a server that does not support 100-continue gets the file after a second", async () => {
  const waits: number[] = [];
  const sleep = async (ms: number) => void waits.push(ms);
  const { s3, keep } = await openBroken({ clock: { sleep } });
  const bodies: Promise<string>[] = [];
  s3.failNext((incoming, outgoing) => {
    bodies.push(text(incoming).finally(() => outgoing.end()));
    s3.objects.set(key, Buffer.from(content));
  });
  await keep();
  expect([await Promise.all(bodies), waits]).toEqual([[content], [1_000]]);
});

test.each([500, 503])("a PUT that is answered with HTTP %i is tried again", async (status) => {
  const { s3, keep } = await openBroken();
  s3.failNext((_, outgoing) => refuse(outgoing, status, "SlowDown"));
  const error = await errorOf(keep());
  expect(error.message).toBe(`s3://videos/team responded to a PUT with HTTP ${status} (SlowDown)`);
  expect(error).toMatchObject({ isUnavailable: true });
  await keep();
  expect(s3.objects.has(key)).toBe(true);
});

test("a redirect is not followed, and the error has the bucket's region", async () => {
  const { s3, videos, keep } = await openBroken();
  const headers = { Location: s3.env.AWS_ENDPOINT_URL, "x-amz-bucket-region": "eu-west-1" };
  for (const _ of ["PUT", "GET"]) s3.failNext((_, outgoing) => refuse(outgoing, 301, "PermanentRedirect", headers));
  const reason = "HTTP 301 (PermanentRedirect, the bucket is in eu-west-1)";
  expect((await errorOf(keep())).message).toBe(`s3://videos/team responded to a PUT with ${reason}`);
  expect((await errorOf(videos.read("fox.aa.mp4"))).message).toBe(`s3://videos/team responded to a GET with ${reason}`);
  expect(s3.requests.length).toBe(2);
});

test("no error shows a key, its id or a signature", async () => {
  const { s3, videos, keep } = await openBroken({ stalledMs: 500 });
  const failures: RequestListener[] = [
    (_, outgoing) => refuse(outgoing, 403, "InvalidAccessKeyId"),
    (incoming) => incoming.socket.destroy(),
    (incoming, outgoing) => outgoing.writeHead(500).end(incoming.headers.authorization),
    () => {},
  ];
  for (const failure of failures) {
    for (const act of [keep, () => videos.read("fox.aa.mp4"), () => videos.check(signal)]) {
      s3.failNext(failure);
      const shown = inspect(await errorOf(act()), { depth: 9 });
      for (const secret of [accessKeyId, secretAccessKey, "Signature="]) expect(shown).not.toContain(secret);
    }
  }
});

test("a server that does not answer, or stops during a reply, is given up", async () => {
  const { s3, videos, keep, readText } = await openBroken({ stalledMs: 500 });
  for (const act of [keep, () => videos.read("fox.aa.mp4")]) {
    s3.failNext(() => {});
    expect((await errorOf(act())).message).toMatch(/ failed: no progress for 0\.5 s$/);
  }
  s3.failNext((_, outgoing) => outgoing.writeHead(200, { "Content-Length": 10 }).write("01234"));
  await expect(readText("fox.aa.mp4")).rejects.toThrow("aborted");
});

test("a reply that ends early is an error, not a short video", async () => {
  const { s3, readText } = await openBroken();
  s3.failNext((incoming, outgoing) => {
    outgoing.writeHead(200, { "Content-Length": 10 }).write("01234", () => incoming.socket.destroy());
  });
  await expect(readText("fox.aa.mp4")).rejects.toThrow("aborted");
});

test.each([
  ["the whole object", 200, "10"],
  ["a shorter part", 206, "2"],
])("refuses %s in place of the range", async (_, status, length) => {
  const { s3, videos } = await openBroken();
  s3.failNext((_, outgoing) =>
    outgoing.writeHead(status, { "Content-Length": length }).end("0".repeat(Number(length))),
  );
  const error = await errorOf(videos.read("fox.aa.mp4", { first: 2, last: 4 }));
  expect(error.message).toBe(`s3://videos/team responded to a GET with HTTP ${status}`);
});

test("the video is read no faster than its reader takes it", async () => {
  const { s3, videos } = await openBroken();
  const chunk = Buffer.alloc(1_000_000);
  let sent = 0;
  s3.failNext(async (_, outgoing) => {
    outgoing.writeHead(200, { "Content-Length": 200 * chunk.length });
    for (; sent < 200; sent++)
      if (!outgoing.write(chunk)) await new Promise((resolve) => outgoing.once("drain", resolve));
  });
  const body = await videos.read("fox.aa.mp4");
  let before = -1;
  // Until the buffers of the sockets are full.
  const hasStopped = () => {
    const last = before;
    before = sent;
    return sent === last;
  };
  await expect.poll(hasStopped, { interval: 200 }).toBe(true);
  expect(sent).toBeLessThan(50);
  body?.destroy();
});

test("a reader that disconnects closes the connection", async () => {
  const { s3, videos } = await openBroken();
  const closed = new Promise<void>((resolve) => {
    s3.failNext((_, outgoing) => {
      outgoing.writeHead(200, { "Content-Length": 10 }).write("01234");
      outgoing.once("close", resolve);
    });
  });
  (await videos.read("fox.aa.mp4"))?.destroy();
  await closed;
});

describe("check", () => {
  test("writes an object of its own process, and removes it", async () => {
    const { s3, videos } = await openBroken();
    await videos.check(signal);
    const object = "/videos/team/.vidgen-aa";
    expect(s3.requests).toEqual([`PUT ${object}`, `HEAD ${object}`, `DELETE ${object}`]);
    expect([...s3.objects.keys()]).toEqual([]);
  });

  test.each([
    [404, "NoSuchBucket"],
    [403, "AccessDenied"],
    [403, "InvalidAccessKeyId"],
    [403, "RequestTimeTooSkewed"],
    [503, "SlowDown"],
  ])("HTTP %i, %s: it cannot be used", async (status, code) => {
    const { s3, videos } = await openBroken();
    s3.failNext((_, outgoing) => refuse(outgoing, status, code));
    const error = await errorOf(videos.check(signal));
    expect(error.message).toBe(`s3://videos/team responded to a PUT with HTTP ${status} (${code})`);
  });

  test("refuses a web server that is not an S3 store", async () => {
    const { s3, videos } = await openBroken();
    s3.failNext((_, outgoing) => outgoing.writeHead(404, { "Content-Type": "text/html" }).end("<h1>Not found</h1>"));
    expect((await errorOf(videos.check(signal))).message).toBe("s3://videos/team responded to a PUT with HTTP 404");
  });

  test("refuses an address where nothing listens", async () => {
    const { videos } = await openVideos({ ...(await openFakeS3()).env, AWS_ENDPOINT_URL: "http://127.0.0.1:1" });
    const error = await errorOf(videos.check(signal));
    expect(error.message).toBe("the connection to 127.0.0.1:1 failed: ECONNREFUSED");
  });

  test("stops with its signal", async () => {
    const { s3, videos } = await openBroken();
    const stop = new AbortController();
    s3.failNext(() => stop.abort(new Error("stop")));
    expect((await errorOf(videos.check(stop.signal))).message).toBe("stop");
  });
});
