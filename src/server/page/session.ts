import { createHmac, hash, randomBytes, timingSafeEqual } from "node:crypto";

/** What the service has signed: a link or a session. `hash` names it in the store, once it has ended before its time; `until` is that time (ISO 8601). */
export type Token = { hash: string; until: string };

/**
 * A link or a session of an account, which ends with the key that it was made with: the account is found by the hash of that key. Without one it is the
 * owner's.
 */
export type SignedToken = Token & { keyHash: string | undefined };

export type Sessions = {
  /** Returns the token of a link that signs in within ten minutes, with every process that has the same secret. The store sees to "once". */
  link(now: Date, keyHash?: string): string;
  readLink(text: string, now: Date): SignedToken | "expired" | "unknown";
  /** Returns the Set-Cookie header that begins a session of seven days. */
  begin(keyHash: string | undefined, address: PageAddress, now: Date): string;
  /** Returns the session of a request's Cookie header; `undefined` if it has none, or one that has expired. The store may know that it has ended. */
  read(cookies: string | undefined, address: PageAddress, now: Date): SignedToken | undefined;
  /** Returns the Set-Cookie header that removes the session from this browser. */
  noCookie(address: PageAddress): string;
};

/** Where the browser is. */
export type PageAddress = Pick<URL, "port" | "protocol">;

const linkMs = 600_000;
const sessionSeconds = 7 * 86_400;

/**
 * Creates the sign-in of the page: a link's token, or an account's key, is exchanged for a cookie. Token and cookie are the time of their end, a
 * random part and the hash of an account's key, signed with a `secret` that never leaves the service: so they survive a restart of `serve`, and the
 * store keeps only those that have ended before their time.
 */
export function createSessions(secret: string): Sessions {
  const sign = (what: string, token: string) =>
    createHmac("sha256", secret).update(`vidgen page ${what} ${token}`).digest("base64url");
  const create = (kind: TokenKind, keyHash: string | undefined, end: number) => {
    const token = `${end}.${randomBytes(16).toString("base64url")}`;
    const whose = keyHash === undefined ? "" : `.${keyHash}`;
    return `${token}.${sign(signedAs(kind, keyHash), token)}${whose}`;
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
    link: (now, keyHash) => create("link", keyHash, now.getTime() + linkMs),
    readLink: (text, now) => read("link", text, now),
    begin(keyHash, address, now) {
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
    noCookie: (address) => `${cookieName(address)}=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict`,
  };
}

type TokenKind = "link" | "session";

/** What is signed besides the token. */
function signedAs(kind: TokenKind, keyHash: string | undefined): string {
  return keyHash === undefined ? kind : `${kind} of ${keyHash}`;
}

/** Browsers send a cookie to every port of a host: two services on one machine need two names. */
function cookieName({ port }: PageAddress): string {
  return `vidgen_page_${port}`;
}

/** Takes the same time for every text of one length, so that the time reveals nothing about the secret. */
function isEqual(text: string, secret: string): boolean {
  return timingSafeEqual(hash("sha256", text, "buffer"), hash("sha256", secret, "buffer"));
}
