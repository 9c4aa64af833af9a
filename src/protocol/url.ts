import { isIP } from "node:net";
import { usage } from "../errors.ts";

/**
 * Returns the base URL without a slash at its end. Throws `usage` unless it is https, loopback or of an
 * origin in `allowHttp`, because each request carries the key. `source` names in messages where the URL comes
 * from.
 */
export function checkBaseUrl(text: string, source: string, allowHttp: readonly string[] = []): string {
  const url = URL.canParse(text.trim()) ? new URL(text.trim()) : undefined;
  if (url?.username || url?.password)
    throw usage(`${source} contains a user name or password; save the key with \`vidgen login\` instead.`);
  if (!url || !/^https?:$/.test(url.protocol)) {
    const guess = withScheme(text);
    const hasGuess = guess !== text.trim();
    throw usage(`${source} is not an http(s) URL: ${text}`, hasGuess ? `Did you mean ${guess}?` : undefined);
  }
  if (/[?#]/.test(url.href)) throw usage(`${source} must not contain ? or #: ${text}`);
  if (isPlainHttp(url.href) && !allowHttp.includes(url.origin))
    throw usage(`${source} must be https, because the key is sent with each request: ${text}`, remoteAccessHint(url));
  const [endpoint] = /\/api\/(generate|generation-status)\/*$/.exec(url.pathname) ?? [];
  if (endpoint !== undefined)
    throw usage(
      `${source} ends with the path of an endpoint, which vidgen adds itself: ${text}`,
      `Use ${url.href.slice(0, -endpoint.length)}.`,
    );
  return url.href.replace(/\/+$/, "");
}

/** What to try for a base URL that ends with the beginning of an endpoint's path, as a sentence; `undefined` for another one. */
export function findApiPathHint(baseUrl: string): string | undefined {
  const [path] = /\/(?:api|v1)$/.exec(baseUrl) ?? [];
  const shorter = path && baseUrl.slice(0, -path.length);
  return path && `vidgen adds /api/generate to ${baseUrl}: the base URL may be ${shorter}, without ${path}.`;
}

/** Adds a missing scheme to an address: http for this machine, else https. Other texts are unchanged. */
export function withScheme(text: string): string {
  const address = text.trim();
  if (address.includes("://") || !URL.canParse(`https://${address}`)) return address;
  const { hostname } = new URL(`https://${address}`);
  const isName = hostname.includes(".") || isLoopback(hostname);
  return isName ? `${isLoopback(hostname) ? "http" : "https"}://${address}` : address;
}

/** The origin in VIDGEN_ALLOW_HTTP. Throws `usage` for anything else, such as "1", which would allow http to any service. */
export function readAllowedOrigin(variable: string | undefined): string | undefined {
  const text = variable?.trim() ?? "";
  if (text === "") return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === "http:" && url.href === `${url.origin}/`) return url.origin;
  throw usage("VIDGEN_ALLOW_HTTP must be the one http origin that it allows, such as http://10.0.0.5:8787.");
}

/** Whether others can read what is sent to a URL: it is plain http to another machine. */
export function isPlainHttp(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === "http:" && !isLoopback(hostname);
}

/** The command that logs in at a base URL; `program` is how vidgen is called. */
export function loginCommand(baseUrl: string, program = "vidgen"): string {
  return `${program} login --base-url ${baseUrl}${isPlainHttp(baseUrl) ? " --allow-http" : ""}`;
}

/** The command by which another machine reaches a service at its own loopback addresses; `host` is where the service runs. */
export function sshCommand(baseUrl: string, mediaUrl: string, host: string): string {
  const forward = (url: string) => `-L ${portOf(url)}:127.0.0.1:${portOf(url)}`;
  return `ssh -N ${forward(baseUrl)} ${forward(mediaUrl)} ${host}`;
}

/** How other machines reach a `vidgen serve` that listens without TLS, the safest way first. */
export function listRemoteWays(baseUrl: string, mediaUrl: string): string[] {
  const { hostname, origin } = new URL(baseUrl);
  return [
    `1. through ssh: \`${sshCommand(baseUrl, mediaUrl, hostname)}\`, with the base URL http://127.0.0.1:${portOf(baseUrl)}`,
    "2. by https: with a proxy that adds TLS, see `vidgen help several-machines`",
    `3. in a private network, by plain http: \`${loginCommand(baseUrl)}\`, in scripts VIDGEN_ALLOW_HTTP=${origin}`,
  ];
}

function portOf(url: string): number {
  const { port, protocol } = new URL(url);
  return Number(port) || (protocol === "https:" ? 443 : 80);
}

/**
 * The hint about a base URL that is plain http to another machine. A `vidgen serve` has its videos one port
 * above its API, unless set otherwise.
 */
function remoteAccessHint({ href }: URL): string {
  const baseUrl = href.replace(/\/+$/, "");
  const media = new URL(href);
  media.port = String(portOf(href) + 1);
  const intro = "A `vidgen serve` on another machine is reached in one of three ways, see `vidgen help accounts`:";
  return [intro, ...listRemoteWays(baseUrl, media.href)].join("\n");
}

/** Whether a URL's host is this machine. */
export function isLoopback(hostname: string): boolean {
  if (hostname === "localhost" || hostname.endsWith(".localhost") || hostname === "[::1]") return true;
  return isIP(hostname) === 4 && hostname.startsWith("127.");
}

/** Whether it is a `data:` URL. */
export function isDataUrl(address: string): boolean {
  return /^data:/i.test(address);
}

/** Removes possible secrets from the URLs in a text: passwords, queries, and the bytes of `data:` URLs. */
export function removeUrlSecrets(text: string): string {
  return text
    .replace(/(https?:\/\/)[^\s/?#@]*@/gi, "$1")
    .replace(/(https?:\/\/[^\s?]*\?)\S*/gi, "$1...")
    .replace(/\b(data:[\w/+.;=-]*,)\S*/gi, "$1...");
}
