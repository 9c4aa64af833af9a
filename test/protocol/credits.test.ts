import { expect, test } from "vitest";
import { lacksCredits } from "../../src/protocol/credits.ts";

const said = (status: number, json: unknown, retryAfter: string | null = null) =>
  lacksCredits({ status, json, retryAfter });

test.each([
  [402, undefined],
  [402, "pay"],
  [403, { error: { code: "insufficient_user_quota", message: "用户额度不足" } }],
  [403, { detail: "User is locked. Reason: Exhausted balance. Top up your balance." }],
  [400, { code: "Arrearage", message: "Access denied, please make sure your account is in good standing." }],
  [400, { error: "You do not have enough credits" }],
  [400, { error: "You don't have enough credits to run this." }],
  [400, { error: { message: "Insufficient balance" } }],
  [400, { message: "Your account balance is not enough" }],
  [200, { success: false, message: "积分不足" }],
  [403, { error: { message: "账户余额不足，请充值" } }],
  [429, { code: 1102, message: "Account balance not enough" }],
  [429, { code: 1102 }],
  [429, { error: { code: "insufficient_quota", message: "You exceeded your current quota" } }],
  [429, { error: "Insufficient balance" }],
  [403, { error: "Forbidden", message: "Your balance is exhausted" }],
  [403, { error: { message: "This API requires billing to be enabled on the project." } }],
  [400, { error: { code: "billing_hard_limit_reached", message: "Billing hard limit has been reached" } }],
  [403, { message: "The account is in arrears" }],
  [403, { error: "Your team has used all available credits or reached its monthly spending limit." }],
  [403, { error: "Your team has reached its monthly spending limit." }],
  [403, { code: "AllocationQuota.FreeTierOnly", message: "The free tier of the model has been exhausted." }],
])("out of money: %i %j", (status, json) => {
  expect(said(status, json)).toBe(true);
});

test.each([
  [429, { error: { status: "RESOURCE_EXHAUSTED", message: "Resource has been exhausted (e.g. check quota)." } }],
  [429, { error: { code: "RESOURCE_EXHAUSTED", message: "Check your plan and billing details." } }],
  [429, { error: "Quota exceeded" }],
  [429, { code: "AllocationQuota", message: "Too many requests at this moment." }],
  [429, { error: "Too many requests; credits: 5 left" }],
  [429, { error: "Billing is disabled for a moment" }],
  [400, { error: "Prompt refused: she keeps her balance" }],
  [400, { error: 'The prompt "he runs with an insufficient balance" was refused' }],
  [400, { error: "An insufficient balance of light and dark in the image" }],
  [400, { error: "Each second costs 5 credits; duration must be 4 or 8" }],
  [400, { error: "The prompt asks for no end credits" }],
  [400, { error: "the load balancer is exhausted" }],
  [400, { code: 11020, message: "bad" }],
  [400, { prompt: "insufficient credits", error: "refused" }],
])("not out of money: %i %j", (status, json) => {
  expect(said(status, json)).toBe(false);
});

test.each([
  ["she runs out of credits", "Your prompt was refused: she runs out of credits", false],
  ["she runs out of credits", "Your account is out of credits", true],
  ["", "Your account is out of credits", true],
])("with the prompt %j, %j is about money: %s", (prompt, error, isAboutMoney) => {
  expect(lacksCredits({ status: 400, json: { error }, prompt })).toBe(isAboutMoney);
});

test("a 429 that says when to come back is a rate limit, whatever its words", () => {
  const json = { error: "Insufficient balance of requests for this minute: insufficient credits" };
  expect(said(429, json)).toBe(true);
  expect(said(429, json, "20")).toBe(false);
  const details = [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "20s" }];
  expect(said(429, { error: { message: "Insufficient balance", details } })).toBe(false);
});
