import { isIP } from "node:net";
import { usage } from "../errors.ts";

/** Returns the base URL without a slash at its end. Throws `usage` unless it is https or loopback: each request carries the key. */
export function checkBaseUrl(text: string, source: string): string {
  const url = URL.canParse(text.trim()) ? new URL(text.trim()) : undefined;
  if (url?.username || url?.password)
    throw usage(`${source} contains a user name or password; save the key with \`vidgen login\` instead.`);
  if (!url || !/^https?:$/.test(url.protocol)) {
    const guess = withScheme(text);
    const isGuess = guess !== text.trim();
    throw usage(`${source} is not an http(s) URL: ${text}`, isGuess ? `Did you mean ${guess}?` : undefined);
  }
  if (/[?#]/.test(url.href)) throw usage(`${source} must not contain ? or #: ${text}`);
  if (url.protocol === "http:" && !isLoopback(url.hostname)) {
    throw usage(`${source} must be https, because the key is sent with each request: ${text}`);
  }
  const [endpoint] = /\/api\/(generate|generation-status)\/*$/.exec(url.pathname) ?? [];
  if (endpoint !== undefined)
    throw usage(
      `${source} ends with the path of an endpoint, which vidgen adds itself: ${text}`,
      `Use ${url.href.slice(0, -endpoint.length)}.`,
    );
  return url.href.replace(/\/+$/, "");
}

/** Adds a missing scheme to an address: http for this machine itself, else https. Other addresses are returned unchanged. */
export function withScheme(text: string): string {
  const address = text.trim();
  if (address.includes("://") || !URL.canParse(`https://${address}`)) return address;
  const { hostname } = new URL(`https://${address}`);
  const isName = hostname.includes(".") || isLoopback(hostname);
  return isName ? `${isLoopback(hostname) ? "http" : "https"}://${address}` : address;
}

/** The command that logs in at a base URL. */
export function loginLine(baseUrl: string): string {
  return `vidgen login --base-url ${baseUrl}`;
}

/** Whether a URL's host is this machine itself. */
export function isLoopback(hostname: string): boolean {
  if (hostname === "localhost" || hostname.endsWith(".localhost") || hostname === "[::1]") return true;
  return isIP(hostname) === 4 && hostname.startsWith("127.");
}

/** Whether an address contains its data, as a `data:` address does. */
export function isData(address: string): boolean {
  return /^data:/i.test(address);
}

/** The text with what may be secret left out of the addresses in it: password, query, and the bytes of a `data:` address. */
export function shortenAddresses(text: string): string {
  return text
    .replace(/(https?:\/\/)[^\s/?#@]*@/gi, "$1")
    .replace(/(https?:\/\/[^\s?]*\?)\S*/gi, "$1...")
    .replace(/\b(data:[\w/+.;=-]*,)\S*/gi, "$1...");
}
