import { createHmac, hash, randomBytes, timingSafeEqual } from "node:crypto";

/** What the service has signed: a link or a session. `hash` names it in the store, once it has ended before its time; `until` is that time (ISO 8601). */
export type Token = { hash: string; until: string };

/** A session ends with the key that began it, by whose hash the key is found; `undefined` is the owner's, which a link began. */
export type Session = Token & { keyHash: string | undefined };

export type Sessions = {
  /** Returns the token of a link that signs the owner in within ten minutes, with every process that has the same secret. The store sees to "once". */
  link(now: Date): string;
  readLink(text: string, now: Date): Token | "expired" | "unknown";
  /** Returns the Set-Cookie header that begins a session of seven days. */
  begin(keyHash: string | undefined, address: PageAddress, now: Date): string;
  /** Returns the session of a request's Cookie header; `undefined` if it has none, or one that has expired. The store may know that it has ended. */
  read(cookies: string | undefined, address: PageAddress, now: Date): Session | undefined;
  /** Returns the Set-Cookie header that removes the session from this browser. */
  noCookie(address: PageAddress): string;
};

/** Where the browser is. */
export type PageAddress = Pick<URL, "port" | "protocol">;

const linkMs = 600_000;
const sessionSeconds = 7 * 86_400;

/**
 * Creates the sign-in of the page: a link's token, or an account's key, is exchanged for a cookie. Token and cookie are the time of their end and a
 * random part, signed with a `secret` that never leaves the service: so they survive a restart of `serve`, and the store keeps only those that have
 * ended before their time.
 */
export function createSessions(secret: string): Sessions {
  const sign = (what: string, token: string) =>
    createHmac("sha256", secret).update(`vidgen page ${what} ${token}`).digest("base64url");
  const create = (what: string, end: number) => {
    const token = `${end}.${randomBytes(16).toString("base64url")}`;
    return `${token}.${sign(what, token)}`;
  };
  const read = (what: string, text: string, now: Date): Token | "expired" | "unknown" => {
    const [end = "", random = "", signature = ""] = text.split(".");
    if (!isEqual(signature, sign(what, `${end}.${random}`))) return "unknown";
    if (Number(end) <= now.getTime()) return "expired";
    // Of what is signed alone: text behind the signature must not make another token of it.
    return { hash: hash("sha256", `${what} ${end}.${random}`), until: new Date(Number(end)).toISOString() };
  };
  return {
    link: (now) => create("link", now.getTime() + linkMs),
    readLink: (text, now) => read("link", text, now),
    begin(keyHash, address, now) {
      const secure = address.protocol === "https:" ? "; Secure" : "";
      const flags = `Max-Age=${sessionSeconds}; Path=/; HttpOnly; SameSite=Strict${secure}`;
      const token = create(sessionOf(keyHash), now.getTime() + sessionSeconds * 1_000);
      const whose = keyHash === undefined ? "" : `.${keyHash}`;
      return `${cookieName(address)}=${token}${whose}; ${flags}`;
    },
    read(cookies = "", address, now) {
      const prefix = `${cookieName(address)}=`;
      const cookie = cookies.split(/; */).find((text) => text.startsWith(prefix)) ?? "";
      const [, text = "", keyHash] =
        /^([^.]*\.[^.]*\.[^.]*)(?:\.([0-9a-f]{64}))?$/.exec(cookie.slice(prefix.length)) ?? [];
      const token = read(sessionOf(keyHash), text, now);
      return typeof token === "string" ? undefined : { ...token, keyHash };
    },
    noCookie: (address) => `${cookieName(address)}=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict`,
  };
}

/** What is signed besides the token. */
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
