import { expect, test } from "vitest";
import { createSessions } from "../../../src/server/page/session.ts";

const now = new Date("2026-01-01T00:00:00.000Z");
const later = (hours: number) => new Date(now.getTime() + hours * 3_600_000);
const sessions = createSessions("a secret");
const address = { protocol: "http:", port: "8787" };
const owner = { keyHash: undefined };
const cookieOf = (header: string) => header.split(";")[0];

test("a link signs in for a day, with every process that has the secret", () => {
  const token = sessions.token(now);
  const others = [sessions, createSessions("a secret"), createSessions("another")];
  expect(others.map(({ readToken }) => readToken(token, later(23)))).toEqual(["valid", "valid", "unknown"]);
  expect(sessions.readToken(token, later(24))).toBe("expired");
});

test("a link is no session, a session no link, and neither can be made longer", () => {
  const token = sessions.token(now);
  const cookie = cookieOf(sessions.cookie(owner, address, now)) ?? "";
  expect(sessions.read(cookie, address, later(23))).toEqual(owner);
  expect(sessions.read(cookie, address, later(24))).toBeUndefined();
  expect(sessions.read(`vidgen_page_8787=${token}`, address, now)).toBeUndefined();
  expect(sessions.readToken(cookie.split("=")[1] ?? "", now)).toBe("unknown");
  expect(sessions.readToken(token.replace(/^\d+/, String(later(48).getTime())), now)).toBe("unknown");
});

test("a session that a key began is that key's, and becomes neither another one's nor the owner's", () => {
  const mine = { keyHash: "a".repeat(64) };
  const cookie = cookieOf(sessions.cookie(mine, address, now)) ?? "";
  expect(sessions.read(cookie, address, now)).toEqual(mine);
  for (const changed of [
    cookie.slice(0, -1 - mine.keyHash.length),
    cookie.replace(/a+$/, "b".repeat(64)),
    `${cookieOf(sessions.cookie(owner, address, now))}.${mine.keyHash}`,
  ])
    expect(sessions.read(changed, address, now)).toBeUndefined();
});

test("a session by https never goes over plain http", () => {
  expect(sessions.cookie(owner, { protocol: "https:", port: "" }, now)).toMatch(
    /^vidgen_page_=.*; SameSite=Strict; Secure$/,
  );
  expect(sessions.cookie(owner, address, now)).not.toContain("Secure");
});
