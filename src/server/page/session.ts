import { createHmac, hash, randomBytes, timingSafeEqual } from "node:crypto";

/** A signed link or session. `until` is when it expires (ISO 8601). The store records its `hash` if it ends earlier. */
export type Token = { hash: string; until: string };

/** A link or a session of the account whose key has this hash, valid as long as the key; without a hash, it is the owner's. */
export type SignedToken = Token & { keyHash: string | undefined };

export type Sessions = {
  /** Returns the token of a link, valid for ten minutes or `ms` in every process with the same secret. The store ensures that it is used once. */
  link(now: Date, keyHash?: string, ms?: number): string;
  readLink(text: string, now: Date): SignedToken | "expired" | "unknown";
  /** Returns the Set-Cookie header for a session of seven days. */
  createCookie(keyHash: string | undefined, address: PageAddress, now: Date): string;
  /** Returns the session in a Cookie header; `undefined` without a session, or if it has expired. Only the store knows whether it was signed out. */
  read(cookies: string | undefined, address: PageAddress, now: Date): SignedToken | undefined;
  /** Returns when a session expires that begins now (ISO 8601): those that have begun before expire earlier. */
  latestEnd(now: Date): string;
  /** Returns the Set-Cookie header that removes the cookie. */
  clearCookie(address: PageAddress): string;
};

/** The page's URL in the browser. */
export type PageAddress = Pick<URL, "port" | "protocol">;

const linkMs = 600_000;
const sessionSeconds = 7 * 86_400;

/**
 * Creates the sign-in of the page: a link's token, or an account's key, is exchanged for a cookie. Token and cookie contain their expiry, a random
 * part and the hash of an account's key, signed with a `secret` that never leaves the service. They survive a restart of `serve`, and the store
 * records only those that end before they expire.
 */
export function createSessions(secret: string): Sessions {
  const sign = (what: string, token: string) =>
    createHmac("sha256", secret).update(`vidgen page ${what} ${token}`).digest("base64url");
  const create = (kind: TokenKind, keyHash: string | undefined, end: number) => {
    const token = `${end}.${randomBytes(16).toString("base64url")}`;
    const keySuffix = keyHash === undefined ? "" : `.${keyHash}`;
    return `${token}.${sign(signedAs(kind, keyHash), token)}${keySuffix}`;
  };
  const read = (kind: TokenKind, text: string, now: Date): SignedToken | "expired" | "unknown" => {
    const [, end = "", random = "", signature = "", keyHash] =
      /^([^.]*)\.([^.]*)\.([^.]*)(?:\.([0-9a-f]{64}))?$/.exec(text) ?? [];
    const what = signedAs(kind, keyHash);
    if (!isEqual(signature, sign(what, `${end}.${random}`))) return "unknown";
    if (Number(end) <= now.getTime()) return "expired";
    const until = new Date(Number(end)).toISOString();
    return { hash: hash("sha256", `${what} ${end}.${random}`), until, keyHash };
  };
  return {
    link: (now, keyHash, ms = linkMs) => create("link", keyHash, now.getTime() + ms),
    readLink: (text, now) => read("link", text, now),
    createCookie(keyHash, address, now) {
      const secure = address.protocol === "https:" ? "; Secure" : "";
      const flags = `Max-Age=${sessionSeconds}; Path=/; HttpOnly; SameSite=Strict${secure}`;
      return `${cookieName(address)}=${create("session", keyHash, now.getTime() + sessionSeconds * 1_000)}; ${flags}`;
    },
    read(cookies = "", address, now) {
      const prefix = `${cookieName(address)}=`;
      const cookie = cookies.split(/; */).find((text) => text.startsWith(prefix)) ?? "";
      const token = read("session", cookie.slice(prefix.length), now);
      return typeof token === "string" ? undefined : token;
    },
    latestEnd: (now) => new Date(now.getTime() + sessionSeconds * 1_000).toISOString(),
    clearCookie: (address) => `${cookieName(address)}=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict`,
  };
}

type TokenKind = "link" | "session";

/** The purpose that is signed with the token. */
function signedAs(kind: TokenKind, keyHash: string | undefined): string {
  return keyHash === undefined ? kind : `${kind} of ${keyHash}`;
}

/** Browsers send a cookie to every port of a host, so two services on one machine need different names. */
function cookieName({ port }: PageAddress): string {
  return `vidgen_page_${port}`;
}

/** Compares in constant time, so that the time reveals nothing about the secret. */
function isEqual(text: string, secret: string): boolean {
  return timingSafeEqual(hash("sha256", text, "buffer"), hash("sha256", secret, "buffer"));
}
