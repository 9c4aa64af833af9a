import { isIP } from "node:net";
import { readNumber } from "../../connect/values.ts";
import { usage } from "../../errors.ts";
import { isLoopback } from "../../protocol/url.ts";

/** The flags of `serve` for the addresses it listens on, and the URLs by which others reach it. */
type AddressFlags = {
  host: string;
  port: string;
  mediaPort: string;
  metricsPort?: string | undefined;
  allowRemote?: true | undefined;
  name?: string | undefined;
  publicUrl?: string | undefined;
  publicMediaUrl?: string | undefined;
  cors?: string[] | undefined;
};

/** The addresses the service listens on, and the URLs by which others reach it. Throws `usage`. */
export function readAddresses({ host, name, allowRemote, ...flags }: AddressFlags) {
  if (host === "") throw usage("--host is empty.");
  const isLoopbackHost = isLoopback(hostInUrl(host));
  if (!isLoopbackHost && !allowRemote)
    throw usage(
      `On ${host}, other machines on the network could reach the service.`,
      "Add --allow-remote to allow that: anyone with a key can use it, and anyone with a link can see the videos.",
    );
  const metricsAt = flags.metricsPort === undefined ? undefined : readMetricsPort(flags.metricsPort, allowRemote);
  if (name !== undefined && !/^[\w.-]+$/.test(name) && !isIP(name))
    throw usage(`--name must be a host name without a port, not "${name}".`);
  const publicUrls = readPublicUrls(flags);
  if (name === undefined && publicUrls.api === undefined && isEveryAddress(host))
    throw usage(
      `Other machines cannot connect to ${host}.`,
      "Set --name to the host name by which they reach this machine, or --public-url and --public-media-url.",
    );
  const ports = {
    api: readNumber(flags.port, "--port", { max: 65_535 }),
    media: readNumber(flags.mediaPort, "--media-port", { max: 65_535 }),
  };
  const names = [...(name === undefined ? [] : [hostInUrl(name)]), ...hostsOf(publicUrls)];
  // With a public name, such as of a tunnel or a proxy, others reach even a service on loopback, which must
  // not send requests to this machine for them.
  const corsOrigins = flags.cors?.map(readOrigin) ?? [];
  return {
    host,
    name,
    ports,
    metricsAt,
    publicUrls,
    corsOrigins,
    isLoopback: isLoopbackHost && names.every(isLoopback),
  };
}

/** `[host:]port`: only this machine can read the metrics unless a host is named. */
function readMetricsPort(text: string, allowRemote: true | undefined): { host: string; port: number } {
  const [, typedHost = "127.0.0.1", digits = ""] = /^(?:(.+):)?(.*)$/s.exec(text) ?? [];
  const host = typedHost.replace(/^\[(.*)\]$/, "$1");
  if (!isLoopback(hostInUrl(host)) && !allowRemote)
    throw usage(
      `On ${host}, other machines on the network could read the metrics without a key.`,
      "Add --allow-remote to allow that, or let Prometheus read /metrics at the API's address with the owner's key.",
    );
  return { host, port: readNumber(digits, "--metrics-port", { max: 65_535 }) };
}

function readPublicUrls({ publicUrl, publicMediaUrl }: Pick<AddressFlags, "publicUrl" | "publicMediaUrl">) {
  const api = readUrl(publicUrl, "--public-url");
  const media = readUrl(publicMediaUrl, "--public-media-url");
  if (api !== undefined && new URL(api).pathname !== "/")
    throw usage(
      "--public-url must not have a path: the service needs a host name of its own.",
      "Such as https://video.example: its API is at /api, and its page at /. Only the videos may have a path.",
    );
  if ((api === undefined) !== (media === undefined))
    throw usage(
      "--public-url and --public-media-url are needed together.",
      "The videos have a port of their own; behind a proxy they may be at a path, such as https://video.example/videos.",
    );
  return { api, media };
}

/** The origin of a site, as browsers send it. */
function readOrigin(text: string): string {
  const url = readUrl(text, "--cors") ?? "";
  if (new URL(url).origin === url) return url;
  throw usage("--cors must be the origin of a site, without a path.", `Such as ${new URL(url).origin}.`);
}

/** Removes a slash at the end. Errors do not repeat the text, since it may contain a password. */
export function readUrl(text: string | undefined, flag: string): string | undefined {
  if (text === undefined) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol)) throw usage(`${flag} must be an http(s) URL.`);
  if (url.username || url.password || /[?#]/.test(url.href))
    throw usage(`${flag} must not have a user name, a password, ? or #.`);
  return url.href.replace(/\/+$/, "");
}

function hostsOf({ api, media }: ReturnType<typeof readPublicUrls>): string[] {
  return [api, media].flatMap((url) => (url === undefined ? [] : [new URL(url).hostname]));
}

function hostInUrl(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** Whether the host means all addresses of this machine, in any notation, such as "0". */
function isEveryAddress(host: string): boolean {
  const url = `http://${hostInUrl(host)}`;
  return URL.canParse(url) && ["0.0.0.0", "[::]"].includes(new URL(url).hostname);
}
