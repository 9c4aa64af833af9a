import { createHmac, hash, timingSafeEqual } from "node:crypto";

export type Sessions = {
  /** Returns the token of a link that signs in. It is valid for a day, with every process that has the same secret. */
  token(now: Date): string;
  isToken(text: string, now: Date): boolean;
  /** Whether a request's Cookie header has a session that has not expired. */
  isSignedIn(cookies: string | undefined, address: PageAddress, now: Date): boolean;
  /** Returns the Set-Cookie header of a new session. */
  cookie(address: PageAddress, now: Date): string;
};

/** Where the browser is. */
export type PageAddress = Pick<URL, "port" | "protocol">;

const sessionSeconds = 86_400;

/**
 * Creates the sign-in of the page: the link's token is exchanged for a cookie. Both are the time of their end, signed with a `secret` that never
 * leaves the service: so they survive a restart of `serve`, and nothing has to be stored.
 */
export function createSessions(secret: string): Sessions {
  const sign = (what: string, end: string) =>
    createHmac("sha256", secret).update(`vidgen page ${what} until ${end}`).digest("base64url");
  const signed = (what: string, now: Date) => {
    const end = String(now.getTime() + sessionSeconds * 1_000);
    return `${end}.${sign(what, end)}`;
  };
  const isValid = (what: string, text: string, now: Date) => {
    const [end = "", signature = ""] = text.split(".");
    return isEqual(signature, sign(what, end)) && Number(end) > now.getTime();
  };
  return {
    token: (now) => signed("link", now),
    isToken: (text, now) => isValid("link", text, now),
    isSignedIn(cookies = "", address, now) {
      const prefix = `${cookieName(address)}=`;
      const cookie = cookies.split(/; */).find((text) => text.startsWith(prefix)) ?? "";
      return isValid("session", cookie.slice(prefix.length), now);
    },
    cookie(address, now) {
      const secure = address.protocol === "https:" ? "; Secure" : "";
      const flags = `Max-Age=${sessionSeconds}; Path=/; HttpOnly; SameSite=Strict${secure}`;
      return `${cookieName(address)}=${signed("session", now)}; ${flags}`;
    },
  };
}

/** Browsers send a cookie to every port of a host: two services on one machine need two names. */
function cookieName({ port }: PageAddress): string {
  return `vidgen_page_${port}`;
}

/** Takes the same time for every text of one length, so that the time reveals nothing about the secret. */
function isEqual(text: string, secret: string): boolean {
  return timingSafeEqual(hash("sha256", text, "buffer"), hash("sha256", secret, "buffer"));
}
