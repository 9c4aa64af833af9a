import { describe, expect, test } from "vitest";
import { readReply } from "../../../src/client/http/reply.ts";
import { readStartReply, unwrapPoll, unwrapStart } from "../../../src/client/http/salvage.ts";

const id = "0b9c6a52-1f6e-4a35-9c0e-3a6f0f2a7d11";
const readId = (text: string) => readStartReply(text).started?.generation.id;
const prompt = 'a fox says "id":"wrong", {\\ and leaves';

/** The start reply of interface 2.3, its fields in each of several orders. */
const replies = [
  {
    success: true,
    data: { id, status: "processing", model: "wan-2.5", prompt, created_at: "2026-01-01T00:00:00.000Z" },
    remaining_credits: 990,
  },
  {
    remaining_credits: 990,
    data: { prompt, created_at: "2026-01-01T00:00:00.000Z", tags: [["x", { id: "wrong" }]], id, status: "processing" },
    success: true,
  },
  { id: "wrong", request: { data: { id: "wrong" } }, data: { nested: { id: "wrong" }, id } },
];

describe.each([
  ["compact", undefined],
  ["indented", 2],
])("%s", (_, indent) => {
  test.each(replies)("cut at every byte: after the id it is found, before it there is none", (reply) => {
    const text = JSON.stringify(reply, null, indent);
    const end = text.indexOf(`"${id}"`) + id.length + 2;
    for (let length = 0; length <= text.length; length++) {
      expect(readId(text.slice(0, length)), text.slice(0, length)).toBe(length < end ? undefined : id);
    }
  });
});

test.each([
  ["an id outside data", `{"id":"${id}","x":1`],
  ["a number that may be cut", '{"data":{"id":12345'],
  ["what follows the reply", `{"success":true}{"data":{"id":"${id}"}}`],
  ["an empty id", '{"data":{"id":"","status":"processing"'],
  ["a list", `[{"data":{"id":"${id}"`],
  ["text around it", `<html>{"data":{"id":"${id}"`],
  ["nothing", ""],
])("nothing is taken from %s", (_, text) => {
  expect(readId(text)).toBeUndefined();
});

test("an id before a thousand open brackets is found", () => {
  const deep = `{"data":{"id":"${id}","x":${'[{"y":'.repeat(500)}"z"`;
  expect(readId(deep)).toBe(id);
  expect(readId(`${deep}${"}]".repeat(300)}`)).toBe(id);
});

test.each([
  ["NaN", `{"success":true,"data":{"id":"${id}"},"remaining_credits":NaN}`],
  ["a word that is no JSON before it", `{"eta":Infinity,"data":{"queue":undefined,"id":"${id}"}}`],
  ["a byte order mark", `\ufeff{"data":{"id":"${id}"}}`],
  ["text after it", `{"data":{"id":"${id}"}}<!-- cached -->`],
  ["escapes", `{"d\\u0061ta":{"\\u0069d":"${id.replace("-", "\\u002d")}"}}`],
])("%s hides no id", (_, text) => {
  expect(readId(text)).toBe(id);
});

test("also of a cut reply, it is known whether the start was refused and how many credits are left", () => {
  const { started, saysNo } = readStartReply(`{"success":false,"remaining_credits":41,"data":{"id":"${id}","mo`);
  expect([started?.remaining_credits, saysNo]).toEqual([41, true]);
});

test("a megabyte of brackets, quotes or words is read at once", () => {
  for (const part of ["[", "{", '"', '\\"', "a ", ":", '{"a":[', "1"])
    readId(`{"x":${part.repeat(1_000_000 / part.length)}`);
});

test.each([
  ["beside data", '{"data":{"id":"a"},"credits_charged":10,"remaining_credits":990}', 10],
  ["nothing", '{"data":{"id":"a"},"credits_charged":0}', 0],
  [
    "inside data, or an echoed request",
    '{"data":{"id":"a","credits_charged":10,"request":{"credits_charged":9}}}',
    undefined,
  ],
  ["as text", '{"data":{"id":"a"},"credits_charged":"10"}', undefined],
  ["less than nothing", '{"data":{"id":"a"},"credits_charged":-10}', undefined],
  ["cut", '{"data":{"id":"a"},"credits_charged":1', undefined],
])("what a start was charged: %s", (_, text, charged) => {
  expect(readStartReply(text).started?.credits_charged).toBe(charged);
});

const asReply = (text: string) => readReply(new Response(text));
const started = `{"success":true,"data":{"id":"${id}","status":"processing"}}`;
const request = { prompt: "a fox", model: "veo-3.1" };

test.each([
  ["a notice of PHP", `<br />\n<b>Notice</b>: Undefined index: "seed" in /a.php {main} on line 12<br />\n${started}`],
  ["plain text", `DEBUG {'a': 1}, {"b": 2}: ${started}\n`],
  ["another document", `{"request":{"prompt":"a fox"}} ${started}`],
  ["a comment and an element", `<!-- <html> --><pre>${started}`],
  ["a page inside of the reply", `note: ${started.replace("}}", ',"prompt":"<html>"}}')}`],
  ["NaN in the reply", `note: ${started.replace("}}", ',"psnr":[NaN,-Infinity,"NaN"]}}')}`],
])("%s before the reply to a start hides no id", async (_, text) => {
  const reply = unwrapStart(await asReply(text), request);
  expect(readStartReply(reply.text).started?.generation.id).toBe(id);
  expect(reply.json).toMatchObject({ success: true, data: { id } });
});

test("a reply that is the text of a JSON string is read once more, once", async () => {
  const once = JSON.stringify(started);
  expect(readStartReply((await asReply(once)).text).started?.generation.id).toBe(id);
  expect(readStartReply((await asReply(JSON.stringify(once))).text).started).toBeUndefined();
});

test.each([
  ["a page", `<!DOCTYPE html><body>${started}`],
  ["a page after white space and a comment", ` <!-- x --><HTML lang="en">${started}`],
  ["text after it", `note: ${started} end`],
  ["a reply that is cut off", `note: ${started.slice(0, -1)}`],
  ["an id outside of data", `note: {"id":"${id}","status":"processing"}`],
  ["the reply to another start", `{"data":{"id":"other"}} ${started}`],
  ["such a reply in another document", `note: {"x":[{"data":{"id":"other"}}] ${started}`],
  ["nothing but brackets", "{".repeat(100_000)],
])("nothing is taken from %s", async (_, text) => {
  const reply = await asReply(text);
  expect(unwrapStart(reply, request)).toBe(reply);
});

test.each([
  ["the prompt", { ...request, prompt: `a fox ${id}` }],
  ["a text in a field", { ...request, tags: [{ [id]: 1 }] }],
  ["JSON in a field", { ...request, meta: JSON.stringify({ data: { id } }) }],
])("an id that occurs in %s is an echo", async (_, echoed) => {
  const reply = await asReply(`note: ${started}`);
  expect(unwrapStart(reply, echoed)).toBe(reply);
});

test("an escaped id in the request is an echo", async () => {
  const reply = await asReply('note: {"data":{"id":"a/\\"b"}}');
  expect(readStartReply(unwrapStart(reply, request).text).started?.generation.id).toBe('a/"b');
  expect(unwrapStart(reply, { ...request, prompt: 'say a/"b' })).toBe(reply);
});

test.each([
  [`note: {"id":"${id}","status":"completed","video_url":"https://media.example/a.mp4"}`, "completed"],
  [`note: {"success":true,"data":{"id":"${id}","status":"processing"}}`, "processing"],
  ['note: {"status":"completed"}', undefined],
  ['note: {"id":"another","status":"completed"}', undefined],
  [`note: {"id":"${id}"}`, undefined],
  [`<html>{"id":"${id}","status":"completed"}`, undefined],
  [`{"id":"${id}","status":"failed"} {"id":"${id}","status":"completed"}`, undefined],
])("the reply to a poll, %s, is read as %s", async (text, status) => {
  const json = unwrapPoll(await asReply(text), id)?.json as { status?: string; data?: object } | undefined;
  expect((json?.data ?? json ?? {}) as { status?: string }).toEqual(
    status === undefined ? {} : expect.objectContaining({ id, status }),
  );
});

test.each([
  ['{"a":[NaN,Infinity,-Infinity],"b":"NaN \\" -Infinity"}', { a: [null, null, null], b: 'NaN " -Infinity' }],
  ['{"a":NaNs}', undefined],
  ["NaN", null],
])("the JSON of Python, %s, is read", async (text, json) => {
  expect((await asReply(text)).json).toEqual(json);
});
