import { expect, test } from "vitest";
import { backoffMs, isFinalConnectFailure } from "../../../src/client/http/retry.ts";
import { isNotNow, isTransient, retryAfterMs } from "../../../src/protocol/status.ts";

test.each([
  [0, 500],
  [1, 1_000],
  [2, 2_000],
  [3, 4_000],
  [4, 8_000],
  [5, 15_000],
  [6, 15_000],
  [1_000, 15_000],
  [1e9, 15_000],
])("after %i failures the wait is between 0 and %i ms", (failures, most) => {
  expect(backoffMs(failures, 0)).toBe(0);
  expect(backoffMs(failures, 0.5)).toBe(most / 2);
  expect(backoffMs(failures, 1)).toBe(most);
});

test("waits differ with the random number", () => {
  const waits = Array.from({ length: 50 }, () => backoffMs(10, Math.random()));
  expect(new Set(waits).size).toBeGreaterThan(40);
  for (const wait of waits) expect(wait).toSatisfy((ms: number) => ms >= 0 && ms < 15_000);
});

const now = new Date("2015-10-21T07:28:00Z");
test.each([
  ["0", 0],
  ["7", 7_000],
  ["120", 120_000],
  [" 5 ", 5_000],
  ["007", 7_000],
  ["Wed, 21 Oct 2015 07:28:00 GMT", 0],
  ["Wed, 21 Oct 2015 07:28:30 GMT", 30_000],
  ["Thu, 22 Oct 2015 07:28:00 GMT", 86_400_000],
  ["Wed, 21 Oct 2015 07:27:59 GMT", 0],
  ["Thu, 01 Jan 1970 00:00:00 GMT", 0],
])("Retry-After: %s is %i ms", (header, ms) => {
  expect(retryAfterMs(header, now)).toBe(ms);
});

test.each([
  null,
  "",
  " ",
  "1.5",
  "-1",
  "+1",
  "0x10",
  "1e3",
  "soon",
  "5 s",
  "5, 7",
  "٣",
  "9999999999",
  "9".repeat(400),
  "2015-10-21",
  "2015-10-21T07:28:30Z",
  "Wed, 21 Oct 2015 07:28:00 +0100",
  "Wed, 21 Oct 2015 07:28:00 UTC",
  "Wed, 21 Oct 2015 07:28:00",
  "Wed, 21 Oct 15 07:28:00 GMT",
  "Wednesday, 21-Oct-15 07:28:00 GMT",
  "Wed Oct 21 07:28:00 2015",
  "Wed, 21 Xyz 2015 07:28:00 GMT",
  "Wed, 99 Oct 2015 07:28:00 GMT",
  "Wed, 21 Oct 2015 25:28:00 GMT",
])("Retry-After: %s is none", (header) => {
  expect(retryAfterMs(header, now)).toBe(undefined);
});

test.each([
  [200, false],
  [301, false],
  [400, false],
  [401, false],
  [404, false],
  [408, true],
  [409, false],
  [421, false],
  [425, false],
  [429, true],
  [499, false],
  [500, true],
  [502, true],
  [503, true],
  [504, true],
  [529, true],
])("a read that ends with %i is tried again: %s", (status, is) => {
  expect(isTransient(status)).toBe(is);
});

test.each([
  [421, true],
  [425, true],
  [429, true],
  [200, false],
  [400, false],
  [408, false],
  [409, false],
  [423, false],
  [500, false],
  [503, false],
])("a start request that ends with %i is sent again: %s", (status, is) => {
  expect(isNotNow(status)).toBe(is);
});

test.each([
  "ENOTFOUND",
  "CERT_HAS_EXPIRED",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "ERR_SSL_WRONG_VERSION_NUMBER",
])("%s is final", (code) => {
  expect(isFinalConnectFailure(code, "https://api.video.example")).toBe(true);
});

test.each([
  "ECONNREFUSED",
  "ECONNRESET",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  undefined,
])("%s may pass", (code) => {
  expect(isFinalConnectFailure(code, "https://api.video.example")).toBe(false);
});

test("a refused connection is final on this machine: nothing listens there", () => {
  expect(isFinalConnectFailure("ECONNREFUSED", "http://127.0.0.1:8787")).toBe(true);
  expect(isFinalConnectFailure("ECONNRESET", "http://127.0.0.1:8787")).toBe(false);
});
