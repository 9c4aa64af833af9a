import { expect, test } from "vitest";
import { createSessions } from "../../../src/server/page/session.ts";

const now = new Date("2026-01-01T00:00:00.000Z");
const later = (hours: number) => new Date(now.getTime() + hours * 3_600_000);
const sessions = createSessions("a secret");
const address = { protocol: "http:", port: "8787" };
const cookieOf = (header: string) => header.split(";")[0];

test("a link signs in for a day, with every process that has the secret", () => {
  const token = sessions.token(now);
  const others = [sessions, createSessions("a secret"), createSessions("another")];
  expect(others.map(({ isToken }) => isToken(token, later(23)))).toEqual([true, true, false]);
  expect(sessions.isToken(token, later(24))).toBe(false);
});

test("a link is no session, a session no link, and neither can be made longer", () => {
  const token = sessions.token(now);
  const cookie = cookieOf(sessions.cookie(address, now)) ?? "";
  expect(sessions.isSignedIn(cookie, address, later(23))).toBe(true);
  expect(sessions.isSignedIn(cookie, address, later(24))).toBe(false);
  expect(sessions.isSignedIn(`vidgen_page_8787=${token}`, address, now)).toBe(false);
  expect(sessions.isToken(cookie.split("=")[1] ?? "", now)).toBe(false);
  expect(sessions.isToken(token.replace(/^\d+/, String(later(48).getTime())), now)).toBe(false);
});

test("a session by https never goes over plain http", () => {
  expect(sessions.cookie({ protocol: "https:", port: "" }, now)).toMatch(/^vidgen_page_=.*; SameSite=Strict; Secure$/);
  expect(sessions.cookie(address, now)).not.toContain("Secure");
});
