import { createHmac, hash, timingSafeEqual } from "node:crypto";

export type Sessions = {
  /** Returns the token of a link that signs in. It is valid for a day, with every process that has the same secret. */
  token(now: Date): string;
  /** Whether a link's token signs in now, or did so once. */
  readToken(text: string, now: Date): "valid" | "expired" | "unknown";
  /** Returns the session of a request's Cookie header; `undefined` when it has none, or one that has expired. */
  read(cookies: string | undefined, address: PageAddress, now: Date): Session | undefined;
  /** Returns the Set-Cookie header that begins a session, or makes it longer. */
  cookie(session: Session, address: PageAddress, now: Date): string;
  /** Returns the Set-Cookie header that ends a session in this browser. */
  noCookie(address: PageAddress): string;
};

/** A session ends with the key that began it, by whose hash the key is found; `undefined` is the owner's, which the link began. */
export type Session = { keyHash: string | undefined };

/** Where the browser is. */
export type PageAddress = Pick<URL, "port" | "protocol">;

const sessionSeconds = 86_400;

/**
 * Creates the sign-in of the page: the link's token, or an account's key, is exchanged for a cookie. Token and cookie are the time of their
 * end, signed with a `secret` that never leaves the service: so they survive a restart of `serve`, and nothing has to be stored.
 */
export function createSessions(secret: string): Sessions {
  const sign = (what: string, end: string) =>
    createHmac("sha256", secret).update(`vidgen page ${what} until ${end}`).digest("base64url");
  const signed = (what: string, now: Date) => {
    const end = String(now.getTime() + sessionSeconds * 1_000);
    return `${end}.${sign(what, end)}`;
  };
  const read = (what: string, text: string, now: Date) => {
    const [end = "", signature = ""] = text.split(".");
    if (!isEqual(signature, sign(what, end))) return "unknown";
    return Number(end) > now.getTime() ? "valid" : "expired";
  };
  return {
    token: (now) => signed("link", now),
    readToken: (text, now) => read("link", text, now),
    read(cookies = "", address, now) {
      const prefix = `${cookieName(address)}=`;
      const cookie = cookies.split(/; */).find((text) => text.startsWith(prefix)) ?? "";
      const [, text = "", keyHash] = /^([^.]*\.[^.]*)(?:\.([0-9a-f]{64}))?$/.exec(cookie.slice(prefix.length)) ?? [];
      return read(sessionOf(keyHash), text, now) === "valid" ? { keyHash } : undefined;
    },
    cookie({ keyHash }, address, now) {
      const secure = address.protocol === "https:" ? "; Secure" : "";
      const flags = `Max-Age=${sessionSeconds}; Path=/; HttpOnly; SameSite=Strict${secure}`;
      const whose = keyHash === undefined ? "" : `.${keyHash}`;
      return `${cookieName(address)}=${signed(sessionOf(keyHash), now)}${whose}; ${flags}`;
    },
    noCookie: (address) => `${cookieName(address)}=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict`,
  };
}

/** What is signed besides the time. */
function sessionOf(keyHash: string | undefined): string {
  return keyHash === undefined ? "session" : `session of ${keyHash}`;
}

/** Browsers send a cookie to every port of a host: two services on one machine need two names. */
function cookieName({ port }: PageAddress): string {
  return `vidgen_page_${port}`;
}

/** Takes the same time for every text of one length, so that the time reveals nothing about the secret. */
function isEqual(text: string, secret: string): boolean {
  return timingSafeEqual(hash("sha256", text, "buffer"), hash("sha256", secret, "buffer"));
}
