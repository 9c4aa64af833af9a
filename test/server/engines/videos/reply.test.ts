import { expect, test } from "vitest";
import {
  describeReply,
  errorCodeOf,
  findAddressIn,
  findJob,
  readComplaints,
} from "../../../../src/server/engines/upstream/reply.ts";

const raw = (raw: unknown) => ({ error: { message: "Provider returned error", code: 400, metadata: { raw } } });

test.each<[string, unknown, string]>([
  ["a text", raw("The size is not supported."), "The size is not supported."],
  [
    "JSON as text, with the provider's name",
    {
      error: {
        message: "Provider returned error",
        metadata: { raw: '{"error":{"message":"bad size"}}', provider_name: "Google" },
      },
    },
    "Google: bad size",
  ],
  ["JSON in JSON", raw(JSON.stringify({ error: JSON.stringify({ detail: "deepest" }) })), "deepest"],
  ["a page", raw("<html><h1>502</h1></html>"), "Provider returned error"],
  ["an object", raw({ message: "as it is" }), "as it is"],
  ["nothing", raw(null), "Provider returned error"],
  [
    "Python's words, as LiteLLM 1.80.8 writes them",
    {
      error: {
        message: "{'error': '/videos: Invalid model name passed in model=nope. Call `/v1/models`.'}",
        code: "400",
      },
    },
    "/videos: Invalid model name passed in model=nope. Call `/v1/models`.",
  ],
  [
    "Python's quotes and constants",
    { error: `{'code': None, 'message': "it can't, \\"never\\"", 'x': (1,)}` },
    `it can't, "never"`,
  ],
  ["Python's escapes", { error: String.raw`{'detail': 'a \'fox\' \xe4\n\\ \u72d0'}` }, "a 'fox' ä \\ 狐"],
  [
    "a list of Pydantic's, as vLLM-Omni and FastAPI write it",
    {
      error: {
        message: "[{'type': 'int_parsing', 'loc': ('body', 'fps'), 'msg': 'Input should be an integer', 'input': 'x'}]",
      },
    },
    "fps: Input should be an integer",
  ],
  [
    "openai's words before Python's",
    { error: "Error code: 400 - {'error': {'message': 'no such size'}}" },
    "no such size",
  ],
  ["what only begins as Python's", { error: "{'error': 'no" }, "{'error': 'no"],
  ["a message that is JSON", { error: { message: '{"error":{"message":"inner"}}' } }, "inner"],
])("the innermost words of an error are found: %s", (_, json, words) => {
  expect(describeReply({ status: 400, text: JSON.stringify(json), json })).toBe(`HTTP 400: ${words}`);
});

test.each([
  ["an address again and again", "https://".repeat(110_000)],
  ["line breaks", "\n".repeat(900_000)],
  ["words of an unknown field", "extra_forbidden unknown ".repeat(40_000)],
  ["dots", `http://${".".repeat(900_000)}`],
])("an error of 900 kB is read at once: %s", (_, message) => {
  const detail = [{ loc: ["body"], msg: message, type: "x" }];
  const replies = [
    { error: { message } },
    { status: "failed", id: "1", error: message },
    { detail },
    { detail: message },
    raw(message),
    raw(JSON.stringify({ error: message })),
  ];
  for (const json of replies) {
    const reply = { status: 400, text: JSON.stringify(json), json };
    const before = process.cpuUsage();
    expect(describeReply(reply).length).toBeLessThan(600);
    for (const text of readComplaints(reply)) expect(text.length).toBeLessThanOrEqual(64_000);
    findJob(reply);
    findAddressIn(reply);
    // A reader that goes back for each character needs minutes.
    expect(process.cpuUsage(before).user).toBeLessThan(2_000_000);
  }
});

test.each([
  [{ code: "content_policy_violation", message: "no" }, "content_policy_violation"],
  [{ code: 503, message: "no" }, "503"],
  [{ code: null, message: "no" }, undefined],
  [{ code: "a sentence, not a code" }, undefined],
  [{ code: "x".repeat(65) }, undefined],
  ["no", undefined],
])("the code of the error %j is %s, in a job and in a refusal", (error, code) => {
  const reply = (json: object) => ({ status: 400, text: JSON.stringify(json), json });
  expect(findJob(reply({ id: "1", status: "failed", error }))?.code).toBe(code);
  expect(errorCodeOf(reply({ error }))).toBe(code);
});

test.each([
  [{ error: null, fail_reason: "a face" }, "a face"],
  [{ failureReason: "a face" }, "a face"],
  [{ error: "no", message: "never" }, "no"],
  [{ reasons: ["violence", "a face"] }, "violence; a face"],
  [{}, undefined],
])("a failed job with %j says why: %s", (fields, error) => {
  const json = { id: "1", status: "failed", ...fields };
  expect(findJob({ status: 200, text: JSON.stringify(json), json })?.error).toBe(error);
});
