import { expect, test } from "vitest";
import { failedError, follow, localPace, readVideoUrl, remotePace } from "../../../src/client/generation/follow.ts";
import type { Api } from "../../../src/client/http/api.ts";
import { readReply } from "../../../src/client/http/reply.ts";
import type { WireGeneration } from "../../../src/protocol/schema.ts";
import { createVirtualClock } from "../../clock.ts";

const minutes = Array.from({ length: 1_200 }, (_, i) => i * 100);

const json = (status: number, value: object) => ({
  status,
  retryAfter: null,
  text: JSON.stringify(value),
  json: value,
});

function generation(fields: Record<string, unknown>): WireGeneration {
  return { id: "1b4e28ba", status: "completed", ...fields } as WireGeneration;
}

test.each([
  [0, 9_500],
  [30_000, 7_250],
  [60_000, 5_000],
  [61_000, 5_000],
  [3_600_000, 5_000],
])("after %i ms a remote service is asked again in %i ms", (elapsed, ms) => {
  expect(remotePace(elapsed)).toBe(ms);
});

test("a remote service is asked every 5 to 10 s, as the interface recommends, and never slower than before", () => {
  const paces = minutes.map(remotePace);
  expect(paces.every((ms) => ms >= 5_000 && ms <= 10_000)).toBe(true);
  expect(paces).toEqual(paces.toSorted((a, b) => b - a));
});

test("the local service is asked within a second, and never at once", () => {
  const paces = minutes.map(localPace);
  expect(paces.every((ms) => ms >= 100 && ms <= 1_000)).toBe(true);
  expect(localPace(0)).toBe(100);
});

test.each([
  "https://media.video.example/1b4e28ba.mp4",
  "http://127.0.0.1:8788/1b4e28ba.mp4",
  "https://media.video.example/a.mp4?sig=a%2Fb+c==&exp=1#t",
])("the video's address %s is used as it is", (url) => {
  expect(readVideoUrl(generation({ video_url: url }))).toBe(url);
});

test.each([
  ["https://media.video.example/a fox.mp4", "https://media.video.example/a%20fox.mp4"],
  [" https://media.video.example/a.mp4\n", "https://media.video.example/a.mp4"],
  ["https://media.video.example/\u001b[2J.mp4", "https://media.video.example/%1B[2J.mp4"],
  ["https://media.video.example/a\nb\tc.mp4", "https://media.video.example/abc.mp4"],
  ["https://media.video.example/\u009b2J\u202e.mp4", "https://media.video.example/%C2%9B2J%E2%80%AE.mp4"],
  ["https://media.video.example/狐.mp4", "https://media.video.example/%E7%8B%90.mp4"],
])("the video's address %j is used as %s", (url, used) => {
  expect(readVideoUrl(generation({ video_url: url }))).toBe(used);
});

test.each([
  "",
  " ",
  "/videos/1b4e28ba.mp4",
  "1b4e28ba.mp4",
  "//media.video.example/a.mp4",
  "ftp://media.video.example/a.mp4",
  "file:///etc/passwd",
  "javascript:alert(1)",
  "data:video/mp4;base64,AAAA",
  "https://",
  null,
  undefined,
])("%j is no address of a video", (url) => {
  expect(readVideoUrl(generation({ video_url: url }))).toBe(undefined);
});

test("a generation is lost once the service has not known it for a minute: another refusal before that does not count", async () => {
  const clock = createVirtualClock();
  let missingSince: number | undefined;
  const replies = [json(200, { id: "1b4e28ba", status: "processing" }), json(403, { error: "no" })];
  const status = async () => {
    const reply = replies.shift() ?? json(404, { error: "no such generation" });
    if (reply.status === 404) missingSince ??= clock.now();
    return reply;
  };
  const api = { baseUrl: "https://api.video.example", status } as unknown as Api;
  const { signal } = new AbortController();
  const how = { timeoutMs: 900_000, intervalMs: () => 5_000, isNew: false, isKnown: true, signal, onNote() {} };
  const following = follow(api, "1b4e28ba", how, { ...clock, random: () => 0.5 });
  await expect(following).rejects.toMatchObject({ code: "not_found" });
  expect(clock.now() - (missingSince ?? 0)).toBeGreaterThanOrEqual(60_000);
});

test("a proxy that refuses ends the wait at once, even if the service was reached before", async () => {
  const clock = createVirtualClock();
  let polls = 0;
  const status = async () => {
    polls++;
    throw Object.assign(new Error("the proxy wants a user name"), { code: "ERR_PROXY_REFUSED" });
  };
  const api = { baseUrl: "https://api.video.example", status } as unknown as Api;
  const { signal } = new AbortController();
  const how = { timeoutMs: 900_000, intervalMs: () => 5_000, isNew: true, isKnown: true, signal, onNote() {} };
  const following = follow(api, "1b4e28ba", how, { ...clock, random: () => 0.5 });
  await expect(following).rejects.toMatchObject({ code: "network", id: "1b4e28ba", message: /wants a user name/ });
  expect(polls).toBe(1);
});

const page = { status: 403, retryAfter: null, text: "<html><title>Just a moment...</title></html>", json: undefined };
test.each([
  ["a page with 403", page],
  ["a page with 401", { ...page, status: 401 }],
  ["402", json(402, {})],
  ["a 403 about money", json(403, { error: "Exhausted balance" })],
  ["a host that is not served", json(403, { error: { code: "forbidden_host", message: "no" } })],
])("a poll that is answered with %s is repeated: that says nothing about the generation", async (_, outage) => {
  const clock = createVirtualClock();
  const completed = { id: "1b4e28ba", status: "completed", video_url: "https://media.video.example/a.mp4" };
  const replies = [outage, outage, outage, outage, outage, json(200, completed)];
  const api = { baseUrl: "https://api.video.example", status: async () => replies.shift() } as unknown as Api;
  const { signal } = new AbortController();
  const how = { timeoutMs: 900_000, intervalMs: () => 5_000, isNew: true, isKnown: true, signal, onNote() {} };
  const followed = await follow(api, "1b4e28ba", how, { ...clock, random: () => 0.5 });
  expect(followed.videoUrl).toBe(completed.video_url);
});

test("if every poll says that the account is out of money, the time to wait runs out", async () => {
  const clock = createVirtualClock();
  const status = async () => json(402, { error: "Exhausted balance" });
  const api = { baseUrl: "https://api.video.example", status } as unknown as Api;
  const { signal } = new AbortController();
  const how = { timeoutMs: 60_000, intervalMs: () => 5_000, isNew: false, isKnown: true, signal, onNote() {} };
  const following = follow(api, "1b4e28ba", how, { ...clock, random: () => 0.5 });
  await expect(following).rejects.toMatchObject({
    code: "pending",
    message: expect.stringContaining("Exhausted balance"),
  });
});

test.each([
  ["credits", "credits", "failed", /^The generation failed: HTTP 402$/, undefined],
  ["unclear", "unknown", "unknown", /^The generation may have been charged: HTTP 402\.$/, /--again starts/],
  ["not_submitted", "network", "failed", /HTTP 402\. Nothing was charged\.$/, /run the same command: it starts a new/],
  ["auth", "auth", "failed", /HTTP 402\. Nothing was charged\.$/, /vidgen doctor/],
  ["not_fetched", "failed", "failed", /^The generation failed: HTTP 402$/, /^The prompt is not the cause/],
  [
    "toString",
    "failed",
    "failed",
    /^The generation failed: HTTP 402$/,
    /^Look at the reason first: each attempt may be charged\.$/,
  ],
  [
    7,
    "failed",
    "failed",
    /^The generation failed: HTTP 402$/,
    /^Look at the reason first: each attempt may be charged\.$/,
  ],
])("a failed generation whose error_code is %j is %s", (error_code, code, ended, message, hint) => {
  const failed = failedError("1b4e28ba", generation({ status: "failed", error: "HTTP 402", error_code }));
  expect(failed).toMatchObject({ code, ended, id: "1b4e28ba", message: expect.stringMatching(message) });
  expect(failed.hint ?? "none").toMatch(hint ?? /^none$/);
  const free = failedError("1b4e28ba", generation({ status: "failed", error: "HTTP 402", error_code }), {
    isFree: true,
  });
  expect(free.hint ?? "none").not.toContain("each attempt may be charged");
});

test("the error of a failed generation has the service's hint", () => {
  const hint = "Choose a lower resolution.";
  const failed = failedError("1b4e28ba", generation({ status: "failed", error: "out of memory", hint }));
  expect(failed).toMatchObject({ code: "failed", hint });
});

const started = { id: "1b4e28ba", video_url: null };
const address = "https://media.video.example/a.mp4";

/** Follows a service whose answers are these, the last one again and again. */
function followAnswers(answers: object[], timeoutMs = 900_000) {
  const clock = createVirtualClock();
  let polls = 0;
  const status = async () => json(200, answers[Math.min(polls++, answers.length - 1)] ?? {});
  const api = { baseUrl: "https://api.video.example", status } as unknown as Api;
  const { signal } = new AbortController();
  const how = { timeoutMs, intervalMs: () => 5_000, isNew: true, isKnown: true, signal, onNote() {} };
  return { followed: follow(api, "1b4e28ba", how, { ...clock, random: () => 0.5 }), polls: () => polls };
}

test.each(["done", "complete", "finished", "ready", "Succeed", "DONE"])(
  "%s, three times with an address, is completed",
  async (word) => {
    const { followed, polls } = followAnswers([{ ...started, status: word, video_url: address }]);
    expect(await followed).toMatchObject({ videoUrl: address, generation: { status: "completed" } });
    expect(polls()).toBe(3);
  },
);

test.each(["fail", "FAILURE", "expired", "cancelled", "nsfw"])("%s, three times, is failed", async (word) => {
  const { followed, polls } = followAnswers([{ ...started, status: word, fail_reason: "no room" }]);
  await expect(followed).rejects.toMatchObject({ code: "failed", message: "The generation failed: no room" });
  expect(polls()).toBe(3);
});

test("a failure in a reply after other text counts once three polls have said the same", async () => {
  const failed = 'Notice: {"id":"1b4e28ba","status":"failed","error":"the model broke"}';
  const texts = [failed, failed, '{"id":"1b4e28ba","status":"processing"}', failed, failed, failed];
  let polls = 0;
  const status = async () => readReply(new Response(texts[polls++]));
  const api = { baseUrl: "https://api.video.example", status } as unknown as Api;
  const { signal } = new AbortController();
  const how = { timeoutMs: 900_000, intervalMs: () => 5_000, isNew: false, isKnown: true, signal, onNote() {} };
  const following = follow(api, "1b4e28ba", how, { ...createVirtualClock(), random: () => 0.5 });
  await expect(following).rejects.toMatchObject({ code: "failed", message: "The generation failed: the model broke" });
  expect(polls).toBe(6);
});

test("a status that the service takes back is no end, and any other status means running", async () => {
  const failing = { ...started, status: "fail" };
  const words = [failing, failing, { ...started, status: "expiring" }, failing, failing];
  const { followed } = followAnswers([...words, { ...started, status: "completed", video_url: address }]);
  expect((await followed).videoUrl).toBe(address);
});

test("the error of a wait that timed out has the last status, and the video's URL if there was one", async () => {
  const { followed } = followAnswers([{ ...started, status: "polishing", video_url: address }], 60_000);
  await expect(followed).rejects.toMatchObject({
    code: "pending",
    message: expect.stringContaining(`"polishing", with the address ${address}`),
  });
});

test.each([
  [{ fail_reason: "a" }, "a"],
  [{ error: null, failure_reason: "b" }, "b"],
  [{ error_message: "c" }, "c"],
  [{ reasons: ["d", "e"] }, "d; e"],
  [{ message: "f" }, "f"],
  [{ error: "g", message: "h" }, "g"],
])("a failed generation with %j says: %s", (fields, reason) => {
  const failed = failedError("1b4e28ba", generation({ status: "failed", ...fields }));
  expect(failed.message).toBe(`The generation failed: ${reason}`);
});

test.each([
  ["the prompt is not allowed", "The generation failed: the prompt is not allowed"],
  [{ message: "out of memory", code: 5 }, "The generation failed: out of memory"],
  [null, "The generation failed: the service gave no reason"],
  [undefined, "The generation failed: the service gave no reason"],
])("a failed generation whose error is %j reads as: %s", (error, message) => {
  expect(failedError("1b4e28ba", generation({ status: "failed", error }))).toMatchObject({
    code: "failed",
    exit: 4,
    id: "1b4e28ba",
    message,
  });
});
