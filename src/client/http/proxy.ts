import { BlockList, isIP } from "node:net";
import type { Io } from "../../io.ts";
import { isLoopback } from "../../protocol/url.ts";

/** A proxy, and the environment variable that names it. */
export type HttpProxy = {
  variable: string;
  url: URL;
  /** For the header Proxy-Authorization. */
  authorization?: string;
};

/**
 * The proxy for a URL from the environment variables; `undefined` for none. Throws if the variable is malformed, or names another
 * kind of proxy.
 */
export function findProxy(url: URL, env: Io["env"]): HttpProxy | undefined {
  const setting = findSetting(url, env);
  return setting === undefined || isIgnoredSocks(setting) ? undefined : readProxy(setting);
}

/** The note and hint if ALL_PROXY applies to a URL but cannot be used; else `undefined`. */
export function unusedProxy(url: URL, env: Io["env"]): { says: string; fix: string } | undefined {
  const setting = findSetting(url, env);
  if (setting === undefined || !isIgnoredSocks(setting)) return undefined;
  return {
    says: `${setting.variable} names a SOCKS proxy, which vidgen cannot use: it connects directly.`,
    fix: "If you need a proxy, set HTTPS_PROXY to an http one.",
  };
}

type ProxySetting = { variable: string; value: string };

function findSetting(url: URL, env: Io["env"]): ProxySetting | undefined {
  const ofHttps = url.protocol === "https:" ? ["https_proxy", "HTTPS_PROXY"] : [];
  const variables = [...ofHttps, "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];
  const variable = variables.find((name) => env[name]?.trim());
  if (variable === undefined || isLoopback(url.hostname) || isInNoProxy(url, env.no_proxy || env.NO_PROXY || ""))
    return undefined;
  return { variable, value: env[variable]?.trim() ?? "" };
}

/** Whether ALL_PROXY names a SOCKS proxy, which is ignored: desktops set it for the programs that support SOCKS. */
function isIgnoredSocks({ variable, value }: ProxySetting): boolean {
  return variable.toLowerCase() === "all_proxy" && /^socks\w*:\/\//i.test(value);
}

function readProxy({ variable, value }: ProxySetting): HttpProxy {
  const example = `${variable}=http://user:password@host:port`;
  // As in curl, the scheme is optional.
  const address = value.includes("://") ? value : `http://${value}`;
  if (!URL.canParse(address))
    throw proxyError(
      `${variable} is not a proxy URL: ${example}, special characters percent-encoded`,
      "ERR_INVALID_PROXY",
    );
  const url = new URL(address);
  if (!/^https?:$/.test(url.protocol))
    throw proxyError(`${variable} is not an http or https proxy: ${example}`, "ERR_INVALID_PROXY");
  if (url.username === "" && url.password === "") return { variable, url };
  try {
    const login = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
    return { variable, url, authorization: `Basic ${Buffer.from(login).toString("base64")}` };
  } catch {
    throw proxyError(
      `the user name or password in ${variable} has a % that encodes nothing: write it as %25`,
      "ERR_INVALID_PROXY",
    );
  }
}

/**
 * The error for a proxy that did not connect to `target`. A refusal is final, because retries may lock the
 * user's account at the proxy.
 */
export function tunnelError({ variable, authorization }: HttpProxy, target: string, status: number | undefined): Error {
  const suffix = `(HTTP ${status})`;
  if (status === 407 && authorization === undefined) {
    const example = `${variable}=http://user:password@host:port`;
    return proxyError(`the proxy requires a user name and password: ${example} ${suffix}`, "ERR_PROXY_REFUSED");
  }
  if (status === 407)
    return proxyError(`the proxy refused the user name and password in ${variable} ${suffix}`, "ERR_PROXY_REFUSED");
  const isRefusal = status !== undefined && status >= 400 && status < 500 && ![408, 425, 429].includes(status);
  return isRefusal
    ? proxyError(`the proxy in ${variable} refused to connect to ${target} ${suffix}`, "ERR_PROXY_REFUSED")
    : proxyError(`the proxy in ${variable} could not connect to ${target} ${suffix}`, "ERR_PROXY_TUNNEL");
}

/** The error for a plain http request whose key this proxy could read. */
export function plainHttpError({ variable }: HttpProxy, { host, hostname }: URL): Error {
  return proxyError(
    `plain http to ${host} does not go through the proxy in ${variable}, which would see the key: add ${hostname} to NO_PROXY to connect directly`,
    "ERR_PROXY_REFUSED",
  );
}

/** Whether all requests fail until the user changes the proxy settings. */
export function isProxyRefusal(code: string | undefined): boolean {
  return code === "ERR_INVALID_PROXY" || code === "ERR_PROXY_REFUSED";
}

function proxyError(message: string, code: string): Error {
  return Object.assign(new Error(message), { code });
}

function isInNoProxy({ hostname, port, protocol }: URL, noProxy: string): boolean {
  const host = hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
  const actualPort = port || (protocol === "https:" ? "443" : "80");
  return noProxy
    .toLowerCase()
    .split(/[\s,]+/)
    .some((entry) => matchesEntry(host, actualPort, entry));
}

/**
 * Whether an entry of NO_PROXY matches a host: by its name, a parent domain, its address, its network, or
 * "*"; each may have a port.
 */
function matchesEntry(host: string, port: string, entry: string): boolean {
  // An IPv6 address can have a port only after brackets.
  const [, entryHost = "", entryPort = port] =
    isIP(entry) === 6 ? ["", entry] : (/^(.*?)(?::(\d+))?$/.exec(entry) ?? []);
  const name = entryHost.replace(/\.$/, "");
  if (entryPort !== port) return false;
  if (name === "*") return true;
  if (isIP(host) > 0) return isInNetwork(host, name.replace(/^\[(.*)\]$/, "$1"));
  const domain = name.replace(/^\*?\./, "");
  return domain !== "" && (host === domain || host.endsWith(`.${domain}`));
}

/** Whether an IP address is in a network such as 10.2.0.0/16, or equal to an address. */
function isInNetwork(address: string, network: string): boolean {
  const [, base = "", prefix] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(network) ?? [];
  const version = isIP(base);
  const longest = version === 4 ? 32 : 128;
  const length = Number(prefix ?? longest);
  if (version === 0 || length > longest) return false;
  const list = new BlockList();
  list.addSubnet(base, length, `ipv${version as 4 | 6}`);
  return list.check(address, `ipv${isIP(address) as 4 | 6}`);
}
