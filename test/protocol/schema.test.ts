import { expect, test } from "vitest";
import { readStartReply } from "../../src/client/http/salvage.ts";
import { splitVideoData } from "../../src/protocol/data-url.ts";
import { isSameId } from "../../src/protocol/id.ts";
import { isRecord, parseJson } from "../../src/protocol/json.ts";
import { errorText, failureReason, isCancelledError, readGeneration, saysNo } from "../../src/protocol/schema.ts";

// Written by hand from the interface, so that a slip in the schema that both sides share cannot hide.
const startReply = `{
  "success": true,
  "data": {
    "id": "1b4e28ba-2fa1-41d2-883f-0016d3cca427",
    "status": "processing",
    "model": "veo-3.1",
    "prompt": "a red fox runs through snow at dusk",
    "created_at": "2026-01-01T00:00:00.000Z"
  },
  "remaining_credits": 90
}`;
const processing = `{
  "id": "1b4e28ba-2fa1-41d2-883f-0016d3cca427",
  "status": "processing",
  "video_url": null,
  "thumbnail_url": null,
  "created_at": "2026-01-01T00:00:00.000Z"
}`;
const completed = `{
  "id": "1b4e28ba-2fa1-41d2-883f-0016d3cca427",
  "status": "completed",
  "video_url": "https://media.video.example/1b4e28ba.mp4",
  "thumbnail_url": null,
  "created_at": "2026-01-01T00:00:00.000Z"
}`;
const failed = `{
  "id": "1b4e28ba-2fa1-41d2-883f-0016d3cca427",
  "status": "failed",
  "video_url": null,
  "thumbnail_url": null,
  "created_at": "2026-01-01T00:00:00.000Z",
  "error": "the model run did not succeed"
}`;
const callback = `{
  "id": "1b4e28ba-2fa1-41d2-883f-0016d3cca427",
  "status": "completed",
  "video_url": "https://media.video.example/1b4e28ba.mp4",
  "thumbnail_url": null,
  "created_at": "2026-01-01T00:00:00.000Z",
  "completed_at": "2026-01-01T00:01:30.000Z"
}`;
const id = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";

const readStarted = (json: unknown) => readStartReply(JSON.stringify(json) ?? "").started;

test("a start reply is read whole", () => {
  expect(readStartReply(startReply).started).toEqual({
    generation: JSON.parse(startReply).data,
    remaining_credits: 90,
  });
});

test.each([
  ["processing", processing],
  ["completed", completed],
  ["failed", failed],
  ["callback", callback],
])("a %s body is read whole", (_, body) => {
  expect(readGeneration(parseJson(body), id)).toEqual(JSON.parse(body));
});

test("a status reply inside `data` reads as one that is not", () => {
  expect(readGeneration(parseJson(`{"success":true,"data":${completed}}`), id)).toEqual(JSON.parse(completed));
});

test.each([
  ["its status absent", { data: { id } }],
  ["its status no text", { success: true, data: { id, status: 1 } }],
])("a start reply with nothing but an id is accepted: %s", (_, json) => {
  expect(readStarted(json)).toMatchObject({ generation: { id, status: "processing" }, remaining_credits: undefined });
});

test.each([
  ["the same", id, id, true],
  ["a UUID in capitals", id, id.toUpperCase(), true],
  ["another", id, id.replace("1", "2"), false],
  ["no UUID in capitals", "gen-1", "GEN-1", false],
])("an id of a status reply is compared with the one that was asked for: %s", (_, asked, replied, isSame) => {
  expect(isSameId(asked, replied)).toBe(isSame);
  expect(readGeneration({ id: replied, status: "processing" }, asked)?.id).toBe(isSame ? asked : undefined);
});

test("a number is an id in the words in which it came", () => {
  const { started } = readStartReply('{"success":true,"data":{"id":12345678901234567890,"status":"processing"}}');
  expect(started?.generation.id).toBe("12345678901234567890");
  const status = parseJson('{"id":12345678901234567890,"status":"processing"}');
  expect(readGeneration(status, "12345678901234567890")?.id).toBe("12345678901234567890");
});

test("further fields are kept", () => {
  expect(readGeneration({ ...JSON.parse(completed), seed: 7, tags: ["a"] }, id)).toMatchObject({
    seed: 7,
    tags: ["a"],
  });
  expect(readStarted({ data: { id, status: "processing", queue: 3 } })?.generation).toMatchObject({ queue: 3 });
});

test.each([5, true, ["https://x"], { url: "https://x" }])("an optional field that is %j reads as absent", (odd) => {
  const fields = ["video_url", "thumbnail_url", "created_at", "completed_at", "model", "prompt"];
  const odds = Object.fromEntries(fields.map((field) => [field, odd]));
  const read = readGeneration({ id, status: "completed", ...odds }, id);
  expect(fields.map((field) => read?.[field])).toEqual(fields.map(() => null));
});

test.each(["90", null, {}, undefined])("remaining credits that are %j read as absent", (remaining_credits) => {
  const started = { generation: { id }, remaining_credits: undefined };
  expect(readStarted({ data: { id, status: "processing" }, remaining_credits })).toMatchObject(started);
});

test("no credits left is not the same as none told", () => {
  expect(readStarted({ data: { id, status: "processing" }, remaining_credits: 0 })?.remaining_credits).toBe(0);
});

test.each([
  ["empty", ""],
  ["a space", " "],
  ["spaces inside", "1b4e 28ba"],
  ["a line", "1b4e28ba\n"],
  ["an escape sequence", "1b4e\u001b[2J"],
  ["a C1 control character", "1b4e\u009b2J"],
  ["a reading direction", "1b4e\u202e28ba"],
  ["too long", "a".repeat(300)],
  ["null", null],
  ["absent", undefined],
  ["a list", [id]],
])("an id that is no use is none: %s", (_, odd) => {
  expect(readStarted({ success: true, data: { id: odd, status: "processing" } })).toBe(undefined);
  expect(readStarted({ id, status: "processing" })).toBe(undefined);
  if (odd !== undefined) expect(readGeneration({ id: odd, status: "completed" }, id)).toBe(undefined);
});

test.each(["1b4e28ba", "a".repeat(200), "gen_01/x?y&z", "идентификатор"])("the id %s is used as it is", (odd) => {
  expect(readGeneration({ id: odd, status: "processing" }, odd)?.id).toBe(odd);
});

test.each([undefined, null, "text", 5, true, [], [{ id, status: "processing" }], {}, { data: null }, { data: id }])(
  "%j is no reply",
  (json) => {
    expect(readStarted(json)).toBe(undefined);
    expect(readGeneration(json, id)).toBe(undefined);
  },
);

test("a status reply needs a status", () => {
  expect(readGeneration({ id }, id)).toBe(undefined);
  expect(readGeneration({ id, status: 5 }, id)).toBe(undefined);
});

test("`__proto__` in a reply does no harm", () => {
  const json = parseJson(
    `{"__proto__":{"polluted":1},"id":"${id}","status":"failed","error":{"__proto__":{"a":1},"b":2}}`,
  );
  const read = readGeneration(json, id);
  expect(read).toEqual({ id, status: "failed", error: { b: 2 } });
  expect(Object.getPrototypeOf(read)).toBe(Object.prototype);
  expect(({} as Record<string, unknown>).polluted).toBe(undefined);
});

test.each([
  ['{"a":1}', { a: 1 }],
  ["null", null],
  ["5", 5],
  ["", undefined],
  ["<html>", undefined],
  ['{"a":1', undefined],
  ["[".repeat(100_000), undefined],
  [`${"[".repeat(50_000)}${"]".repeat(50_000)}`, undefined],
])("%.20s parses as %j", (text, json) => {
  expect(parseJson(text)).toEqual(json);
});

test("as deep as JSON can be parsed, its error can be read", () => {
  for (let depth = 500; depth < 20_000; depth *= 1.2) {
    const json = parseJson(`${'{"error":'.repeat(depth)}"x"${"}".repeat(depth)}`);
    expect(json === undefined ? "x" : errorText(json)).toBe("x");
  }
});

test.each([
  [{ error: "no" }, "no"],
  [{ error: { message: "no", code: "bad_prompt" } }, "no"],
  [{ error: { code: "bad_prompt" } }, "bad_prompt"],
  [{ error: { code: 5, message: "no" } }, "no"],
  [{ error: true, message: "no" }, "no"],
  [{ error: "", message: "no" }, "no"],
  [{ error: null, message: "no" }, "no"],
  [{ message: "no" }, "no"],
  [{ success: false, message: "no" }, "no"],
  [{ detail: "no" }, "no"],
  [{ detail: [{ loc: ["body", "prompt"], msg: "field required", type: "missing" }] }, "prompt: field required"],
  [{ title: "Bad Request", detail: "no", status: 400 }, "no"],
  [{ title: "Bad Request", status: 400 }, "Bad Request"],
  [{ errors: [{ message: "no" }, { message: "never" }] }, "no"],
  [{ errors: ["no"] }, "no"],
  [["no", "never"], "no"],
  ["no", "no"],
  ["  no\n", "no"],
  ["", undefined],
  [" ", undefined],
  [null, undefined],
  [undefined, undefined],
  [5, undefined],
  [true, undefined],
  [{}, undefined],
  [[], undefined],
  [{ error: 5 }, undefined],
  [{ error: {} }, undefined],
  [{ error: [] }, undefined],
  [{ id, status: "processing" }, undefined],
])("the error %j reads as %j", (json, text) => {
  expect(errorText(json)).toBe(text);
});

test.each([
  [{ error: "no" }, "no"],
  [{ error: null, fail_reason: "no" }, "no"],
  [{ error: {}, failureReason: "no" }, "no"],
  [{ errorMessage: "no" }, "no"],
  [{ failure: { reason: "no" } }, "no"],
  [{ task_status_msg: "no" }, "no"],
  [{ reasons: ["violence", "", "a face"] }, "violence; a face"],
  [{ errors: [{ message: "no" }, { message: "never" }] }, "no; never"],
  [{ error: [{ loc: ["body", "duration"], msg: "must be 4 or 8", type: "value" }] }, "duration: must be 4 or 8"],
  [{ detail: [{ loc: ["query", "id"], msg: "is missing" }] }, "query.id: is missing"],
  [{ message: "Task failed", failure_reason: "a face" }, "a face"],
  [{ prompt: "no" }, undefined],
])("the reason of the failed generation %j reads as %j", (fields, text) => {
  expect(failureReason({ id, status: "failed", ...fields })).toBe(text);
});

test.each([
  [{ success: false }, true],
  [{ success: true }, false],
  [{ success: "false" }, false],
  [{}, false],
  [null, false],
  [[false], false],
])("%j says no: %s", (json, no) => {
  expect(saysNo(json)).toBe(no);
});

test.each([
  [{}, true],
  [[], false],
  [null, false],
  ["", false],
])("%j is a record: %s", (value, is) => {
  expect(isRecord(value)).toBe(is);
});

test("a text of 900 kB is shown, and written down, in its beginning alone", () => {
  expect(errorText({ error: "x".repeat(900_000) })?.length).toBe(2_001);
});

test.each([
  ["data:video/mp4;base64,AAEC/w==", "data:video/mp4 (4 bytes, sha256 "],
  ["data:video/mp4;codecs=avc1;base64,AAEC%2Fw%3D%3D", "data:video/mp4 (4 bytes, sha256 "],
  ["DATA:video/mp4,%00%01%02%ff", "DATA:video/mp4 (4 bytes, sha256 "],
  ["data:,%zz%", "data: (4 bytes, sha256 "],
])("the video in %s is described by its size and hash, and described once", (video_url, shown) => {
  const split = splitVideoData({ id: "a", status: "completed", video_url });
  expect([split.generation.video_url?.startsWith(shown), split.videoData]).toEqual([true, video_url]);
  expect(splitVideoData(split.generation)).toEqual({ generation: split.generation });
});

test.each([
  ["cancelled", true],
  ["cancelled at http://gpu-1:8091", true],
  ["cancelled at @ai-sdk/fal: the owner did it", true],
  ["cancelled while it waited for http://gpu-1:8091, which may have generated this video", true],
  ["cancelled by our safety filter", false],
  ["cancelled: the quota of this model is used up", false],
  ["cancelled at the request of the moderator", false],
  ["cancelled-by-timeout", false],
  ["Cancelled", false],
  ["not cancelled", false],
  ["", false],
  [null, false],
])("%j is the error of a cancelled generation: %s", (error, isCancelled) => {
  expect(isCancelledError(error)).toBe(isCancelled);
});

test("many reasons of a failure are cut together, as one is", () => {
  const reasons = Array.from({ length: 100 }, (_, index) => `${index} `.repeat(500));
  expect(failureReason({ reasons })?.length).toBe(2_001);
});
