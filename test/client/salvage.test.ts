import { describe, expect, test } from "vitest";
import { salvageStarted } from "../../src/client/salvage.ts";

const id = "0b9c6a52-1f6e-4a35-9c0e-3a6f0f2a7d11";
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
      expect(salvageStarted(text.slice(0, length))?.generation.id, text.slice(0, length)).toBe(
        length < end ? undefined : id,
      );
    }
  });
});

test.each([
  ["an id outside data", `{"id":"${id}","x":1`],
  ["a refusal", `{"success":false,"data":{"id":"${id}"`],
  ["an id that is no text", '{"data":{"id":12345,"status":"processing"'],
  ["an empty id", '{"data":{"id":"","status":"processing"'],
  ["a list", `[{"data":{"id":"${id}"`],
  ["text around it", `<html>{"data":{"id":"${id}"`],
  ["nothing", ""],
])("nothing is taken from %s", (_, text) => {
  expect(salvageStarted(text)).toBeUndefined();
});

test("an id before a thousand open brackets is found", () => {
  const deep = `{"data":{"id":"${id}","x":${'[{"y":'.repeat(500)}"z"`;
  expect(salvageStarted(deep)?.generation.id).toBe(id);
  expect(salvageStarted(`${deep}${"}]".repeat(300)}`)?.generation.id).toBe(id);
});
