import { expect, test } from "vitest";
import { createSessions } from "../../../src/server/page/session.ts";

const now = new Date("2026-01-01T00:00:00.000Z");
const later = (hours: number) => new Date(now.getTime() + hours * 3_600_000);
const sessions = createSessions("a secret");
const address = { protocol: "http:", port: "8787" };
const cookieOf = (header: string) => header.split(";")[0] ?? "";
const owner = cookieOf(sessions.createCookie(undefined, address, now));
const isValid = (token: object | string | undefined) => typeof token === "object";

test("a link signs in for ten minutes, with every process that has the secret", () => {
  const token = sessions.link(now);
  const others = [sessions, createSessions("a secret"), createSessions("another")];
  expect(others.map(({ readLink }) => isValid(readLink(token, later(0.16))))).toEqual([true, true, false]);
  expect(sessions.readLink(token, later(0.17))).toBe("expired");
});

test("each link and each session is another one", () => {
  expect(sessions.link(now)).not.toBe(sessions.link(now));
  expect(cookieOf(sessions.createCookie(undefined, address, now))).not.toBe(owner);
});

test("a session lasts seven days", () => {
  expect(sessions.read(owner, address, later(167))).toMatchObject({
    keyHash: undefined,
    until: "2026-01-08T00:00:00.000Z",
  });
  expect(sessions.read(owner, address, later(168))).toBeUndefined();
});

test("a link is no session, a session no link, and neither can be made longer", () => {
  const token = sessions.link(now);
  expect(sessions.read(`vidgen_page_8787=${token}`, address, now)).toBeUndefined();
  expect(sessions.readLink(owner.split("=")[1] ?? "", now)).toBe("unknown");
  expect(sessions.readLink(token.replace(/^\d+/, String(later(48).getTime())), now)).toBe("unknown");
});

test("a session that a key began is that key's, and becomes neither another one's nor the owner's", () => {
  const keyHash = "a".repeat(64);
  const cookie = cookieOf(sessions.createCookie(keyHash, address, now));
  expect(sessions.read(cookie, address, now)).toMatchObject({ keyHash });
  for (const changed of [
    cookie.slice(0, -1 - keyHash.length),
    cookie.replace(/a+$/, "b".repeat(64)),
    `${owner}.${keyHash}`,
  ])
    expect(sessions.read(changed, address, now)).toBeUndefined();
});

test("a link with a key is that key's, and becomes neither another one's nor the owner's", () => {
  const keyHash = "a".repeat(64);
  const token = sessions.link(now, keyHash);
  expect(sessions.readLink(token, now)).toMatchObject({ keyHash });
  const ofOwner = sessions.link(now);
  expect(sessions.readLink(ofOwner, now)).toMatchObject({ keyHash: undefined });
  for (const changed of [
    token.slice(0, -1 - keyHash.length),
    token.replace(/a+$/, "b".repeat(64)),
    `${ofOwner}.${keyHash}`,
    `${token}.x`,
  ])
    expect(sessions.readLink(changed, now)).toBe("unknown");
});

test("a session by https never goes over plain http", () => {
  expect(sessions.createCookie(undefined, { protocol: "https:", port: "" }, now)).toMatch(
    /^vidgen_page_=.*; SameSite=Strict; Secure$/,
  );
  expect(sessions.createCookie(undefined, address, now)).not.toContain("Secure");
});
