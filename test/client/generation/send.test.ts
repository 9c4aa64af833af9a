import { expect, test } from "vitest";
import { classify } from "../../../src/client/generation/send.ts";
import type { Reply } from "../../../src/client/http/reply.ts";
import { parseJson } from "../../../src/protocol/json.ts";

const now = new Date("2026-01-01T00:00:00Z");
const started = {
  success: true,
  data: { id: "1b4e28ba-2fa1-41d2-883f-0016d3cca427", status: "processing", model: "veo-3.1", prompt: "a fox" },
  remaining_credits: 90,
};

/** What `classify` makes of an answer; a body is sent as JSON unless it is a text. */
function outcomeOf(status: number, body: unknown, details: Partial<Reply> = {}) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return classify({ status, retryAfter: null, text, json: parseJson(text), ...details }, "attempt-1", now);
}

test.each([200, 201, 202])("%i with an id is accepted", (status) => {
  expect(outcomeOf(status, started)).toMatchObject({
    kind: "accepted",
    started: { generation: { id: started.data.id }, remaining_credits: 90 },
  });
});

test.each([
  ["a 200 that says no without a word", 200, { success: false }],
  ["a 200 that is an HTML page", 200, "<!doctype html><title>Welcome</title>"],
  ["a 200 without an id", 200, { success: true, data: { status: "processing" } }],
  ["a 200 whose id is no use", 200, { success: true, data: { ...started.data, id: "" } }],
  ["a 200 that is no object", 200, [started]],
  ["a 204", 204, ""],
  ["a 301", 301, ""],
  ["a 302 with an id", 302, started],
  ["a 308", 308, ""],
  ["a 408", 408, { error: "too slow" }],
  ["a 500", 500, { error: "oops" }],
  ["a 500 that speaks of credits", 500, { error: "insufficient credits" }],
  ["a 502 that is an HTML page", 502, "<html>Bad Gateway</html>"],
  ["a 503", 503, { error: "later" }],
  ["a 503 with an id", 503, started],
  ["a 504", 504, ""],
])("after %s it may have been charged", (_, status, body) => {
  expect(outcomeOf(status, body)).toMatchObject({ kind: "unknown", error: { code: "unknown", httpStatus: status } });
});

test.each([
  [{ task_id: 12345, state: "queued" }, "a response without an id: task_id 12345, state queued (HTTP 200)"],
  [{ success: true, id: "7" }, "a response without an id: success true, id 7 (HTTP 200)"],
  [{ success: false }, "a response without an id: success false (HTTP 200)"],
  [
    { message: "Queued; see\n your dashboard" },
    "a response without an id: message Queued; see your dashboard (HTTP 200)",
  ],
  [{ image: "https://img.example/?secret", at: "x".repeat(300) }, "a response without an id: HTTP 200"],
  ["OK, thanks", "a response without an id: OK, thanks (HTTP 200)"],
  ["<html>", "a response without an id: HTTP 200"],
])("an answer %j is unknown, and shown: %s", (body, reason) => {
  const message = expect.stringContaining(`response: ${reason}. It may`);
  expect(outcomeOf(200, body)).toMatchObject({ kind: "unknown", error: { message } });
});

test("after a 503 with Retry-After it may have been charged, and is not sent again", () => {
  expect(outcomeOf(503, "", { retryAfter: "3" })).toMatchObject({ kind: "unknown" });
});

test("after a 200 that broke off before its id it may have been charged", () => {
  const cut = Object.assign(new Error("other side closed"), { code: "UND_ERR_SOCKET" });
  expect(outcomeOf(200, '{"success":true,"data":{"id":"1b4e', { cut })).toMatchObject({
    kind: "unknown",
    error: {
      message: expect.stringContaining("the response was cut off: other side closed (UND_ERR_SOCKET)"),
      httpStatus: 200,
    },
  });
});

test("a 200 that broke off after the id inside `data` is accepted (submit.md)", () => {
  const text = '{"success":true,"data":{"id":"5f3c","status":"proc';
  const outcome = classify(
    { status: 200, retryAfter: null, text, json: undefined, cut: new Error("reset") },
    "attempt-1",
    new Date(0),
  );
  expect(outcome).toMatchObject({ kind: "accepted", started: { generation: { id: "5f3c" } } });
});

test.each([
  [200, "success: false", { ...started, success: false }],
  [200, "success: false, and why", { ...started, success: false, error: "no" }],
  [200, "a cut success: false", `{"success":false,"data":{"id":"${started.data.id}","mo`],
  [302, "a redirect", started],
  [408, "a timeout", started],
  [429, "success: false", { ...started, success: false }],
  [500, "an error", { ...started, error: "oops" }],
  [503, "later", started],
])("%i, %s, with an id in `data` is unknown, and the id is told", (status, _, body) => {
  const { id } = started.data;
  const error = { code: "unknown", id, httpStatus: status, hint: expect.stringContaining(`vidgen wait ${id}`) };
  expect(outcomeOf(status, body)).toMatchObject({ kind: "unknown", error });
});

test.each([200, 429, 421, 425])("%i with an id in `data` is accepted", (status) => {
  const outcome = { kind: "accepted", started: { generation: { id: started.data.id } } };
  expect(outcomeOf(status, { ...started, success: undefined })).toMatchObject(outcome);
});

test.each([400, 402, 403, 404, 409, 422])("%i with an id in `data` is refused, and the error has the id", (status) => {
  const { id } = started.data;
  const outcome = outcomeOf(status, { ...started, error: "no" });
  expect(outcome).toMatchObject({ kind: "refused", error: { id, message: expect.stringContaining(id) } });
});

test.each([
  [400, { error: "bad prompt" }, "rejected"],
  [401, { error: "bad key" }, "auth"],
  [402, {}, "credits"],
  [403, "", "auth"],
  [404, "", "rejected"],
  [405, "", "rejected"],
  [409, { error: "conflict" }, "rejected"],
  [413, "", "rejected"],
  [415, "", "rejected"],
  [422, { detail: [{ loc: ["body", "duration"], msg: "too long" }] }, "rejected"],
  [451, "<html>", "rejected"],
  [400, { error: "Insufficient credits" }, "credits"],
  [400, { error: { code: "insufficient_credits", message: "Top up your account" } }, "credits"],
  [400, { message: "You are out of credits." }, "credits"],
  [403, { detail: "not enough credits" }, "credits"],
  [422, { error: "Your credits are exhausted" }, "credits"],
  [400, { error: "You have no credits left" }, "credits"],
  [400, { error: "No credits." }, "credits"],
  [400, { error: "Insufficient account credits" }, "credits"],
  [400, { error: "Your credit balance is too low" }, "credits"],
  [429, { error: { code: "insufficient_quota", message: "You exceeded your current quota" } }, "credits"],
  [429, { error: "You have run out of credits" }, "credits"],
  [200, { success: false, message: "余额不足" }, "credits"],
  [403, { error: { code: "insufficient_user_quota" } }, "credits"],
  [400, { error: "Prompt refused: she keeps her balance" }, "rejected"],
  [403, { error: { code: "forbidden_host", message: "Host not allowed" } }, "rejected"],
  [403, { error: "forbidden" }, "auth"],
  [400, { error: "Each second costs 5 credits; duration must be 4 or 8" }, "rejected"],
  [400, { error: "The prompt asks for no end credits" }, "rejected"],
  [422, { error: "The image lacks closing credits" }, "rejected"],
  [400, { error: "Say 'no credits at the end' in another way" }, "rejected"],
  [200, { success: false, error: "the prompt is not allowed" }, "rejected"],
  [200, { success: false, message: "insufficient credits" }, "credits"],
])("%i %j is refused: %s", (httpStatus, body, code) => {
  expect(outcomeOf(httpStatus, body)).toMatchObject({ kind: "refused", error: { code, httpStatus } });
});

test.each([
  [429, "7", 7_000],
  [429, "Thu, 01 Jan 2026 00:00:09 GMT", 9_000],
  [429, null, undefined],
  [429, "soon", undefined],
  [421, null, undefined],
  [425, "1", 1_000],
])("%i with Retry-After %s is put off", (httpStatus, retryAfter, waitMs) => {
  expect(outcomeOf(httpStatus, "", { retryAfter })).toMatchObject({ kind: "not now", httpStatus, waitMs });
});

test.each([
  [400, { error: "bad prompt" }, "The service refused the request: bad prompt (HTTP 400)"],
  [401, { message: "who are you" }, "The service rejected the API key: who are you (HTTP 401)"],
  [
    403,
    { error: { code: "forbidden_host", message: "this host name is not allowed" } },
    "Refused by the service or a proxy in front of it: this host name is not allowed (HTTP 403)",
  ],
  [402, "Pay first", "Not enough credits: Pay first (HTTP 402)"],
  [404, "<html>nginx</html>", "The service refused the request: HTTP 404"],
  [
    403,
    "<!DOCTYPE html><title>Just a moment...</title>",
    "Refused by the service or a proxy in front of it: Just a moment... (HTTP 403)",
  ],
  [
    400,
    "<html><title>400 Bad Request</title>",
    "Refused by the service or a proxy in front of it: 400 Bad Request (HTTP 400)",
  ],
  [
    413,
    "<html><title>413 Request Entity Too Large</title>",
    "The image is too large for the service or its proxy: 413 Request Entity Too Large (HTTP 413)",
  ],
  [
    422,
    { detail: [{ loc: ["body", "duration"], msg: "Input should be 4 or 8" }] },
    "The service refused the request: duration: Input should be 4 or 8 (HTTP 422)",
  ],
])("%i %j reads as: %s", (status, body, message) => {
  expect(outcomeOf(status, body)).toMatchObject({ error: { message } });
});

test("a long refusal is cut between words: half a key would not be recognized and hidden", () => {
  const outcome = outcomeOf(400, { error: `${"no ".repeat(160)}such key: key-ABCDEFGHIJKLMNOPQRSTUVWXYZ` });
  expect(outcome).toMatchObject({
    kind: "refused",
    error: { message: expect.stringMatching(/such key: … \(HTTP 400\)$/) },
  });
});
