import { open, readFile } from "node:fs/promises";
import { devNull } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { download, type MediaOptions } from "../../../src/client/save/download.ts";
import { VidgenError } from "../../../src/errors.ts";
import { type Clock, type FetchInit, type HttpResponse, systemMachine } from "../../../src/io.ts";
import { createVirtualClock } from "../../clock.ts";
import { makeFolder } from "../../folder.ts";
import { tinyMp4 } from "../../mp4.ts";

const url = "https://media.video.example/fox.mp4";
const fresh = "https://media.video.example/fox.mp4?fresh";
const video = tinyMp4("a red fox runs through snow");

/** Its last box has size 0: it extends to the end of the file. */
const openEnded = video.slice().fill(0, 28, 32);

/** What the media address does at one request. */
type Answer = (signal: AbortSignal, clock: Clock) => HttpResponse | Promise<HttpResponse>;

function whole(headers: Record<string, string> = { "Content-Length": String(video.length) }): Answer {
  return () => new Response(video.slice(), { headers });
}

function announced(bytes: number[]): Answer {
  return () => new Response(Uint8Array.from(bytes), { headers: { "Content-Length": String(bytes.length) } });
}

function status(code: number, headers: Record<string, string> = {}): Answer {
  return () => new Response([204, 304].includes(code) ? null : "<html>no video</html>", { status: code, headers });
}

function redirect(location: string, code = 302): Answer {
  return status(code, { Location: location });
}

/** The first `length` bytes, and then the connection breaks. */
function cutAfter(length: number, bytes = video): Answer {
  const parts = [bytes.slice(0, length)];
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    const next = parts.shift();
    if (next) controller.enqueue(next);
    else controller.error(Object.assign(new Error("terminated"), { code: "UND_ERR_SOCKET" }));
  };
  return () => new Response(new ReadableStream({ pull }), { headers: { "Content-Length": String(bytes.length) } });
}

/** The first `length` bytes, and then nothing for an hour. */
function stalledAfter(length: number): Answer {
  return (signal, clock) => {
    const parts = [video.slice(0, length)];
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
      const next = parts.shift();
      if (next) return controller.enqueue(next);
      await clock.sleep(3_600_000, signal).catch((error) => controller.error(error));
    };
    return new Response(new ReadableStream({ pull }));
  };
}

type Scene = Partial<MediaOptions> & { from?: string };

/** Downloads while the media address answers like this, one answer after the other, the last one for ever. */
async function run(answers: Answer[], { from = url, ...options }: Scene = {}) {
  const folder = makeFolder();
  const file = await open(join(folder, "fox.part"), "wx+");
  onTestFinished(() => file.close());
  const clock = createVirtualClock();
  const seen = { requests: [] as { url: string; at: number; init: FetchInit }[], notes: [] as string[], freshUrls: 0 };
  const fetch = async (url: string, init: FetchInit = {}) => {
    const answer = answers[Math.min(seen.requests.length, answers.length - 1)];
    seen.requests.push({ url, at: clock.now(), init });
    if (!answer || !init.signal) return expect.fail("there is no answer to that");
    return answer(init.signal, clock);
  };
  const outcome = await download(
    from,
    file,
    {
      signal: new AbortController().signal,
      version: undefined,
      onVersion: async () => {},
      renewUrl: async () => {
        seen.freshUrls++;
        return fresh;
      },
      onProgress: () => {},
      onNote: (text) => seen.notes.push(text),
      ...options,
    },
    { ...systemMachine, ...clock, fetch },
  ).then(
    () => "saved",
    (error) => error,
  );
  return { ...seen, outcome, clock, content: new Uint8Array(await readFile(join(folder, "fox.part"))) };
}

test("a whole video is saved, byte for byte, with one request", async () => {
  const { outcome, content, requests, notes } = await run([whole()]);
  expect(outcome).toBe("saved");
  expect(content).toEqual(video);
  expect(requests).toHaveLength(1);
  expect(notes).toEqual([]);
});

test("the media URL gets no API key, and redirects are followed by the client itself", async () => {
  const { requests } = await run([redirect("https://cdn.example/fox.mp4"), whole()]);
  for (const { init } of requests) {
    expect([...new Headers(init.headers).keys()]).toEqual(["accept-encoding"]);
  }
});

test("progress has the bytes so far and the total", async () => {
  const told: unknown[] = [];
  await run([whole()], { onProgress: (...amounts) => told.push(amounts) });
  expect(told.at(-1)).toEqual([video.length, video.length]);
});

test("a video without Content-Length is saved, and progress knows no total", async () => {
  const told: unknown[] = [];
  const { outcome, content } = await run([whole({})], { onProgress: (...amounts) => told.push(amounts) });
  expect(outcome).toBe("saved");
  expect(content).toEqual(video);
  expect(told.at(-1)).toEqual([video.length, undefined]);
});

test.each([
  ["cut within its first byte", cutAfter(1)],
  ["cut within its index", cutAfter(20)],
  ["cut before its last byte", cutAfter(video.length - 1)],
  ["broken off after its last byte", cutAfter(video.length)],
  ["longer than it should be", whole({ "Content-Length": String(video.length - 1) })],
  ["shorter than it should be", whole({ "Content-Length": String(video.length + 1) })],
  ["cut, and nobody said how long it is", () => new Response(video.slice(0, -1))],
  ["an HTML page", () => new Response("<!doctype html><title>Please wait</title>")],
  ["empty", () => new Response("")],
  ["a video and junk, once", announced([...video, 0, 0, 0])],
  ["two videos in one", announced([...video, ...video])],
  ["unreachable", () => Promise.reject(Object.assign(new Error("refused"), { code: "ECONNREFUSED" }))],
  ["500", status(500)],
  ["503", status(503)],
  ["429", status(429)],
  ["408", status(408)],
] satisfies [string, Answer][])("what is %s is fetched again from the start", async (_, answer) => {
  const { outcome, content, requests } = await run([answer, whole()]);
  expect(outcome).toBe("saved");
  expect(content).toEqual(video);
  expect(requests).toHaveLength(2);
  expect(new Headers(requests[1]?.init.headers).has("Range")).toBe(false);
});

test("a last box that extends to the end of the file is normal if the length is known", async () => {
  const { outcome, requests } = await run([announced([...openEnded])]);
  expect([outcome, requests.length]).toEqual(["saved", 1]);
});

test("the rest of an earlier, longer reply is removed", async () => {
  const page = () => new Response("<!doctype html>".repeat(100));
  const { content } = await run([page, whole()]);
  expect(content).toEqual(video);
});

test.each([
  [429, "7", 7_000],
  [503, "40", 40_000],
  [503, "Thu, 01 Jan 2026 00:00:09 GMT", 9_000],
])("%i with Retry-After: %s is waited for", async (code, retryAfter, ms) => {
  const { outcome, requests } = await run([status(code, { "Retry-After": retryAfter }), whole()]);
  expect(outcome).toBe("saved");
  expect(requests.map(({ at }) => at)).toEqual([0, ms]);
});

test("an HTML page instead of the video is never saved: the download fails after ten attempts", async () => {
  const { outcome, requests, notes } = await run([() => new Response("<html>")]);
  expect(outcome).toMatchObject({
    code: "output",
    exit: 9,
    message: "Could not download the video: not a complete video: it is text.",
  });
  expect(requests).toHaveLength(10);
  expect(notes).toEqual(["Could not download the video yet (not a complete video: it is text); retrying."]);
});

test.each<[string, number[], string]>([
  ["bytes behind the last box", [...video, 0, 0, 0], "it is incomplete or damaged"],
  ["less than its boxes say", [...video.slice(0, -1)], "it is incomplete or damaged"],
])("all that was announced is kept when it comes a second time, with a warning: %s", async (_, bytes, odd) => {
  const { outcome, content, requests, notes } = await run([announced(bytes)]);
  expect(outcome).toBe("saved");
  expect([...content]).toEqual(bytes);
  expect(requests).toHaveLength(2);
  expect(notes).toEqual([
    `The downloaded file looks damaged (${odd}), and a second download was identical. It was saved anyway: check whether it plays.`,
  ]);
});

const webm = Uint8Array.from([0x1a, 0x45, 0xdf, 0xa3, ...new TextEncoder().encode("\x42\x82\x84webm"), 1, 2, 3]);
test.each<[string, Answer, string]>([
  ["a WebM", () => new Response(webm.slice()), "it is a WebM"],
  ["a WebM of known length", announced([...webm]), "it is a WebM"],
  ["a GIF", () => new Response(Uint8Array.from([...new TextEncoder().encode("GIF89a"), 1, 2, 0])), "it is a GIF"],
  ["a last box without a size", () => new Response(openEnded.slice()), "its last box extends to the end of the file"],
])("what has no length of its own is saved when a second download is identical: %s", async (_, answer, kind) => {
  const { outcome, requests, notes } = await run([answer]);
  expect([outcome, requests.length]).toEqual(["saved", 2]);
  expect(notes).toEqual([expect.stringContaining(kind)]);
});

test.each([
  ["a .mov", Uint8Array.from([0, 0, 0, 20, ...new TextEncoder().encode("ftypqt  \0\0\x02\0qt  "), ...video.slice(16)])],
  ["an old .mov", Uint8Array.from([0, 0, 0, 8, ...new TextEncoder().encode("wide"), ...video.slice(16)])],
])("%s is saved at once, with a note that it is no .mp4", async (_, movie) => {
  const { outcome, content, requests, notes } = await run([announced([...movie])]);
  expect([outcome, content, requests.length]).toEqual(["saved", movie, 1]);
  expect(notes).toEqual(["The downloaded file is not an .mp4: it is a QuickTime movie."]);
});

/** Its mdat goes on to the end, and there is no moov yet. */
const growing = [...video.slice(0, 16), 0, 0, 0, 0, ...new TextEncoder().encode("mdat")];
test("a file that still grows is waited for, and is saved when it is whole", async () => {
  const answers = [announced(growing), announced([...growing, 1]), announced([...growing, 1, 2]), whole()];
  const { outcome, content } = await run(answers);
  expect([outcome, content]).toEqual(["saved", video]);
});

test.each([
  ["of one length", announced(growing)],
  ["of no length", () => new Response(Uint8Array.from(growing))],
])("a file without its index, %s, is never saved: after a minute it is an error", async (_, answer) => {
  const { outcome, clock } = await run([answer]);
  expect(outcome).toMatchObject({ code: "output", exit: 9, message: expect.stringContaining("is not finished") });
  expect(clock.now()).toBeGreaterThanOrEqual(60_000);
});

test("another kind of video that differs at each download is not finished", async () => {
  let length = 10;
  const { outcome } = await run([() => new Response(new Uint8Array([...webm, ...new Uint8Array(length++)]))]);
  expect(outcome).toMatchObject({ code: "output", exit: 9, message: expect.stringContaining("differ") });
});

test.each<[string, Answer]>([
  ["an HTML page", announced([...new TextEncoder().encode("<!doctype html>")])],
  ["a JSON error", announced([...new TextEncoder().encode('{"error":"expired"}')])],
  ["an empty body", announced([])],
  ["two videos in one", announced([...video, ...video])],
  ["what is cut, and nobody said how long it is", () => new Response(video.slice(0, -1))],
  ["less than was announced", cutAfter(20)],
])("never kept is %s", async (_, answer) => {
  const { outcome, requests } = await run([answer]);
  expect(outcome).toMatchObject({ code: "output", exit: 9 });
  expect(requests).toHaveLength(10);
});

test("a fragmented .mp4 of unknown length is saved when a second download is identical", async () => {
  const moof = [0, 0, 0, 8, ...new TextEncoder().encode("moof")];
  const bytes = Uint8Array.from([...video, ...moof]);
  const chunked: Answer = () => new Response(bytes.slice());
  const { outcome, content, requests, notes } = await run([chunked]);
  expect([outcome, requests.length]).toEqual(["saved", 2]);
  expect(content).toEqual(bytes);
  expect(notes.at(-1)).toBe(
    "The downloaded file does not say how long it is: it is a fragmented .mp4. It was saved, because a second download was identical.",
  );
});

test("a proxy that refuses is asked once: it may lock the account after several attempts", async () => {
  const reason = "the proxy requires a user name and password: HTTPS_PROXY=http://user:password@host:port (HTTP 407)";
  const { outcome, requests } = await run([
    () => Promise.reject(Object.assign(new Error(reason), { code: "ERR_PROXY_REFUSED" })),
  ]);
  expect(outcome).toMatchObject({ exit: 9, message: `Could not download the video: ${reason}.` });
  expect(requests).toHaveLength(1);
});

test("an outage ends the download after ten attempts and at most two minutes of waiting", async () => {
  const { outcome, requests, clock } = await run([status(502)]);
  expect(outcome).toMatchObject({ exit: 9, message: "Could not download the video: HTTP 502." });
  expect(requests).toHaveLength(10);
  expect(clock.now()).toBeLessThan(120_000);
});

test.each([0, 20])("a body that stalls after %i bytes is given up after 30 s and fetched again", async (length) => {
  const { outcome, content, requests } = await run([stalledAfter(length), whole()]);
  expect(outcome).toBe("saved");
  expect(content).toEqual(video);
  expect(requests[1]?.at).toSatisfy((at: number) => at >= 30_000 && at <= 31_000);
});

test("an address that does not answer is given up after 30 s and asked again", async () => {
  const silent: Answer = async (signal, clock) => {
    await clock.sleep(3_600_000, signal);
    return new Response(null);
  };
  const { outcome, requests } = await run([silent, whole()]);
  expect(outcome).toBe("saved");
  expect(requests[1]?.at).toSatisfy((at: number) => at >= 30_000 && at <= 31_000);
});

test("a slow body does not count as stalled", async () => {
  const slow: Answer = (signal, clock) => {
    const left = [...video].map((byte) => Uint8Array.of(byte));
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
      const next = left.shift();
      if (!next) return controller.close();
      await clock.sleep(20_000, signal).catch((error) => controller.error(error));
      controller.enqueue(next);
    };
    return new Response(new ReadableStream({ pull }, { highWaterMark: 0 }));
  };
  const { outcome, content, requests, clock } = await run([slow]);
  expect(outcome).toBe("saved");
  expect(content).toEqual(video);
  expect(requests).toHaveLength(1);
  expect(clock.now()).toBe(video.length * 20_000);
});

test.each([401, 403, 404, 410])("after %i the address is asked for again", async (code) => {
  const { outcome, requests, freshUrls } = await run([status(code), whole()]);
  expect(outcome).toBe("saved");
  expect(freshUrls).toBe(1);
  expect(requests.map(({ url }) => url)).toEqual([url, fresh]);
});

test.each([
  ["404 for 5 s", 404, 5_000],
  ["403 for 30 s", 403, 30_000],
  ["404 for 59 s", 404, 59_000],
])("an address that lags is waited for: %s", async (_, code, ms) => {
  const lagging: Answer = (signal, clock) => (clock.now() < ms ? status(code) : whole())(signal, clock);
  const { outcome, content, requests, freshUrls, notes } = await run([lagging]);
  expect(outcome).toBe("saved");
  expect(content).toEqual(video);
  expect(freshUrls).toBe(requests.length - 1);
  expect(requests.length).toBeLessThan(40);
  expect(notes).toEqual([`The video URL does not work yet (HTTP ${code}); retrying.`]);
});

const key = "it may need the API key, which vidgen sends only to the service.";
test.each<[number, string, string, string | undefined]>([
  [404, "<html>no video</html>", "The video URL gives no video: HTTP 404.", undefined],
  [403, "<title>Expired</title>", "The video URL gives no video: Expired (HTTP 403).", undefined],
  [401, "", `The video URL returned HTTP 401: ${key}`, `The video is at ${fresh}`],
  [403, '{"detail":"No token"}', `The video URL returned No token (HTTP 403): ${key}`, `The video is at ${fresh}`],
])("an address that answers with %i %j for a minute is an error, which says so", async (code, body, message, hint) => {
  const { outcome, clock } = await run([() => new Response(body, { status: code })]);
  expect(outcome).toMatchObject({ code: "output", message, httpStatus: code, hint });
  expect(clock.now()).toSatisfy((ms: number) => ms >= 60_000 && ms < 80_000);
});

const poor = { error: { message: "You do not have enough credits" } };
test.each([
  [402, {}],
  [401, poor],
  [403, poor],
  [429, poor],
])("%i %j says nothing about the video: it is asked again, until the time is over", async (code, body) => {
  const outage: Answer = () => Response.json(body, { status: code });
  const { outcome, freshUrls } = await run([...Array.from({ length: 15 }, () => outage), whole()]);
  expect([outcome, freshUrls]).toEqual(["saved", 0]);
  const controller = new AbortController();
  const overdue: Answer = (signal, clock) => {
    if (clock.now() > 300_000) controller.abort(new VidgenError("pending", "Timed out before the video was saved."));
    return outage(signal, clock);
  };
  const over = await run([overdue], { signal: controller.signal });
  const message = expect.stringMatching(
    /^Timed out before the video was saved: it is completed, but it cannot be fetched: .*HTTP 4/,
  );
  expect(over.outcome).toMatchObject({ code: "pending", exit: 5, message });
});

test("a URL may expire again after each progress, and the minute for a new one starts again", async () => {
  const late = (answer: Answer): Answer => {
    return (signal, clock) => clock.sleep(25_000, signal).then(() => answer(signal, clock));
  };
  const answers = [
    ...[cutAfter(9), status(403), late(cutAfter(20)), status(404), late(cutAfter(30)), status(410)],
    ...[late(cutAfter(40)), status(401), status(404), whole()],
  ];
  const { outcome, content, freshUrls } = await run(answers);
  expect(outcome).toBe("saved");
  expect(content).toEqual(video);
  expect(freshUrls).toBe(5);
});

test("a download that starts again and again without getting further fails", async () => {
  const big = tinyMp4("x".repeat(1_200_000));
  const cuts = Array.from({ length: 99 }, () => cutAfter(1_100_000, big));
  const { outcome, requests } = await run([...cuts, whole()]);
  expect(outcome).toMatchObject({ code: "output" });
  expect(requests).toHaveLength(10);
});

test("a URL that expires at the tenth attempt does not make the download run forever", async () => {
  const answers = [...Array.from({ length: 9 }, () => status(500)), status(403), status(500)];
  const { outcome, requests } = await run(answers);
  expect(outcome).toMatchObject({ code: "output", message: "Could not download the video: HTTP 500." });
  expect(requests).toHaveLength(11);
});

test("if no new URL arrives, the video cannot be saved, and the error says why", async () => {
  const error = new VidgenError("auth", "The service rejected the API key.");
  const { outcome } = await run([status(403)], { renewUrl: () => Promise.reject(error) });
  expect(outcome).toMatchObject({ code: "output", message: expect.stringContaining("rejected the API key") });
});

test.each([400, 416, 204, 206, 304])("%i is final", async (code) => {
  const { outcome, requests } = await run([status(code)]);
  expect(outcome).toMatchObject({
    code: "output",
    message: expect.stringContaining("The video URL returned HTTP"),
  });
  expect(requests).toHaveLength(1);
});

test.each([301, 302, 303, 307, 308])("a %i is followed, from the address it came from", async (code) => {
  const { outcome, requests } = await run([redirect("/b/fox.mp4", code), redirect("red.mp4", code), whole()]);
  expect(outcome).toBe("saved");
  expect(requests.map(({ url }) => new URL(url).pathname)).toEqual(["/fox.mp4", "/b/fox.mp4", "/b/red.mp4"]);
});

test("five redirects are followed, the sixth is refused", async () => {
  const five = Array.from({ length: 5 }, (_, i) => redirect(`/${i}`));
  expect((await run([...five, whole()])).outcome).toBe("saved");
  const { outcome, requests } = await run([...five, redirect("/6"), whole()]);
  expect(outcome).toMatchObject({ code: "output", message: "The video URL redirects too many times." });
  expect(requests).toHaveLength(6);
});

test.each([
  ["https to http", url, "http://media.video.example/fox.mp4"],
  ["https to this machine's http", url, "http://127.0.0.1/fox.mp4"],
  ["https to a file", url, "file:///etc/passwd"],
  ["http to a file", "http://127.0.0.1/fox.mp4", "file:///etc/passwd"],
  ["https to data", url, "data:video/mp4,x"],
])("a redirect from %s is refused", async (_, from, to) => {
  const { outcome, requests } = await run([redirect(to), whole()], { from });
  expect(outcome).toMatchObject({ message: "The video URL redirects to a URL that is not https." });
  expect(requests).toHaveLength(1);
});

test("a redirect to an invalid URL is refused", async () => {
  const { outcome } = await run([redirect("https://"), whole()]);
  expect(outcome).toMatchObject({ code: "output", message: "The video URL redirects to an invalid URL." });
});

test.each([
  ["http", "http://127.0.0.1:8788/b.mp4"],
  ["https", "https://media.video.example/b.mp4"],
])("a redirect from http to %s is followed", async (_, to) => {
  const { outcome, requests } = await run([redirect(to), whole()], { from: "http://127.0.0.1:8788/a.mp4" });
  expect(outcome).toBe("saved");
  expect(requests[1]?.url).toBe(to);
});

test.each([
  ["while it waits to try again", status(503, { "Retry-After": "60" })],
  ["while the body comes", stalledAfter(20)],
])("Ctrl-C %s ends it at once with its own reason", async (_, answer) => {
  const controller = new AbortController();
  const reason = new VidgenError("interrupted", "Interrupted.");
  const interrupting: Answer = (signal, clock) => {
    clock.sleep(1_000).then(() => controller.abort(reason));
    return answer(signal, clock);
  };
  const { outcome, requests, clock } = await run([interrupting, whole()], { signal: controller.signal });
  expect(outcome).toBe(reason);
  expect(requests).toHaveLength(1);
  expect(clock.now()).toBe(1_000);
});

test("Ctrl-C during the last attempt is reported as Ctrl-C, not as a failed download", async () => {
  const controller = new AbortController();
  const reason = new VidgenError("interrupted", "Interrupted.");
  const breaking: Answer = () => {
    controller.abort(reason);
    return Promise.reject(new Error("terminated"));
  };
  const answers = [...Array.from({ length: 9 }, () => status(500)), breaking];
  expect((await run(answers, { signal: controller.signal })).outcome).toBe(reason);
});

test("a signal that is already aborted ends the download with its own reason", async () => {
  const reason = new VidgenError("interrupted", "Interrupted.");
  const refuse: Answer = (signal) => Promise.reject(signal.reason);
  expect((await run([refuse], { signal: AbortSignal.abort(reason) })).outcome).toBe(reason);
});

test("a file that cannot be written is an error at once: fetching it again would not help", async () => {
  const file = await open(devNull, "r");
  await file.close();
  let requests = 0;
  const fetch = async () => {
    requests++;
    return new Response(video.slice());
  };
  const resumed = { version: undefined, onVersion: async () => {} };
  const options = {
    ...resumed,
    signal: new AbortController().signal,
    renewUrl: async () => url,
    onProgress() {},
    onNote() {},
  };
  const saving = download(url, file, options, { ...systemMachine, ...createVirtualClock(), fetch });
  await expect(saving).rejects.toMatchObject({
    code: "output",
    message: expect.stringContaining("Cannot save the video"),
  });
  expect(requests).toBe(0);
});
