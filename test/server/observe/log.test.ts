import { expect, test } from "vitest";
import { requestLine } from "../../../src/server/observe/log.ts";

test("whatever a client sends, its log line is one line without control characters", () => {
  const odd = "a\nb\r\u001b[2Jc\u2028d\u202ee";
  const line = requestLine({
    method: "GET",
    path: `/${odd}?secret`,
    status: 404,
    ms: 1.4,
    model: odd,
    requestId: "1",
  });
  expect(line).toBe("GET /a b  [2Jc d e 404 a b  [2Jc d e 1 ms".replaceAll("b  [", "b ["));
  expect(line).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}]/u);
});
