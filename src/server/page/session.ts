import { createHmac, hash, randomBytes, timingSafeEqual } from "node:crypto";

export type Sessions = {
  /** Is in the link that `serve` prints; valid until the process ends. */
  token: string;
  isToken(text: string): boolean;
  /** Whether a request's Cookie header has a session that has not expired. */
  isSignedIn(cookies: string | undefined, port: string, now: Date): boolean;
  /** Returns the Set-Cookie header of a new session. */
  cookie(port: string, now: Date): string;
};

const sessionSeconds = 86_400;

/**
 * Creates the sign-in of the page: the link's token is exchanged for a cookie. A session is the time of its end, signed with the service's `key`,
 * which never leaves the process: so a session survives a restart of `serve`, and nothing has to be stored.
 */
export function createSessions(key: string): Sessions {
  const token = randomBytes(32).toString("base64url");
  const sign = (end: string) => createHmac("sha256", key).update(`vidgen page until ${end}`).digest("base64url");
  return {
    token,
    isToken: (text) => isEqual(text, token),
    isSignedIn(cookies = "", port, now) {
      const prefix = `${cookieName(port)}=`;
      const cookie = cookies.split(/; */).find((text) => text.startsWith(prefix)) ?? "";
      const [end = "", signature = ""] = cookie.slice(prefix.length).split(".");
      return isEqual(signature, sign(end)) && Number(end) > now.getTime();
    },
    cookie(port, now) {
      const end = String(now.getTime() + sessionSeconds * 1_000);
      const flags = `Max-Age=${sessionSeconds}; Path=/; HttpOnly; SameSite=Strict`;
      return `${cookieName(port)}=${end}.${sign(end)}; ${flags}`;
    },
  };
}

/** Browsers send a cookie to every port of a host: two services on one machine need two names. */
function cookieName(port: string): string {
  return `vidgen_page_${port}`;
}

/** Takes the same time for every text of one length, so that the time reveals nothing about the secret. */
function isEqual(text: string, secret: string): boolean {
  return timingSafeEqual(hash("sha256", text, "buffer"), hash("sha256", secret, "buffer"));
}
