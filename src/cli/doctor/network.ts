import { isIP } from "node:net";
import { findProxy, type HttpProxy, unusedProxy } from "../../client/http/proxy.ts";
import { describeFailure } from "../../client/http/reply.ts";
import { endOfKey } from "../../connect/format.ts";
import { type KeyCheck, tryKey } from "../../connect/key-check.ts";
import { configPath } from "../../connect/keys.ts";
import { findAllowedHttp, findBaseUrl, resolveApiKey } from "../../connect/settings.ts";
import { systemCode } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { isLoopback, isPlainHttp } from "../../protocol/url.ts";
import { type Check, fail, failWith, pass, warn } from "./check.ts";

/** The service's address and the key for it, as any command would find them. */
type CheckedSettings = { checks: Check[]; baseUrl: string | undefined; apiKey: string | undefined };

export async function checkSettings(flag: string | undefined, io: Io): Promise<CheckedSettings> {
  const checks: Check[] = [];
  let baseUrl: string | undefined;
  let apiKey: string | undefined;
  try {
    baseUrl = await findBaseUrl(flag, io);
    if (baseUrl === undefined) return { checks: [judgeMissingUrl(io)], baseUrl, apiKey };
    const source = flag === undefined ? sourceOf("VIDGEN_BASE_URL", io) : "--base-url";
    checks.push(pass("base URL", `${baseUrl}, from ${source}`));
    const allowed = isPlainHttp(baseUrl) ? await findAllowedHttp(baseUrl, io) : undefined;
    if (allowed)
      checks.push(pass("plain http", `allowed for ${allowed.origin} in a private network, by ${allowed.source}`));
  } catch (error) {
    const fix = "Use a URL such as https://video.example, without a password, ? or #.";
    return { checks: [failWith("base URL", error, fix)], baseUrl, apiKey };
  }
  try {
    ({ apiKey } = await resolveApiKey(baseUrl, io));
    const keyEnd = endOfKey(apiKey);
    // The last four characters are enough to recognize a key.
    checks.push(
      pass("key", `${keyEnd.length < 4 ? "set" : `ends in ${keyEnd}`}, from ${sourceOf("VIDGEN_API_KEY", io)}`),
    );
  } catch (error) {
    checks.push(failWith("key", error, "Correct VIDGEN_API_KEY, or save the key again with `vidgen login`."));
  }
  return { checks, baseUrl, apiKey };
}

/** Only a warning, because --local needs no base URL; but a key without one is a mistake. */
function judgeMissingUrl({ env }: Io): Check {
  const says = "none is set";
  const fix = "Run `vidgen login`, or set VIDGEN_BASE_URL; --local needs none.";
  return env.VIDGEN_API_KEY ? fail("base URL", says, { code: "usage", fix }) : warn("base URL", says, fix);
}

function sourceOf(variable: "VIDGEN_API_KEY" | "VIDGEN_BASE_URL", io: Io): string {
  return io.env[variable] ? variable : configPath(io);
}

type CheckedService = { baseUrl: string; apiKey: string | undefined };

/** Longer than a name lookup may take (see `connection.ts`). */
const answerLimitMs = 30_000;

/** Sends one free request, as any command would, and reports what it shows: proxy, name, connection, reply and clock. */
export async function checkNetwork(address: CheckedService, io: Io): Promise<Check[]> {
  const { baseUrl, apiKey = "none" } = address;
  const url = new URL(baseUrl);
  const { proxy, check: proxyCheck } = checkProxy(url, io.env);
  if (proxyCheck.state === "fail") return [proxyCheck];
  const start = io.now();
  let date: string | null = null;
  const fetch: Io["fetch"] = async (url, init) => {
    const response = await io.fetch(url, init);
    date = response.headers.get("Date");
    return response;
  };
  try {
    const keyCheck = await tryKey({ baseUrl, apiKey, limitMs: answerLimitMs }, { ...io, fetch });
    const answer = judgeKeyCheck(keyCheck, address, Math.round(io.now() - start));
    const connection =
      url.protocol === "https:" ? "established, with a trusted certificate" : "established, without TLS";
    return [proxyCheck, passDns(url, proxy), pass("connection", connection), answer, ...judgeClock(date, io.date())];
  } catch (error) {
    if (io.signal.aborted) throw error;
    return [proxyCheck, ...judgeFailure(error, url, proxy)];
  }
}

/** Shows only the origin of the proxy, because its URL may have a password. */
function checkProxy(url: URL, env: Io["env"]): { proxy?: HttpProxy | undefined; check: Check } {
  try {
    const proxy = findProxy(url, env);
    const unused = unusedProxy(url, env);
    if (unused !== undefined) return { check: warn("proxy", unused.says, unused.fix) };
    return {
      proxy,
      check: pass("proxy", proxy === undefined ? "not used" : `${proxy.url.origin}, from ${proxy.variable}`),
    };
  } catch (error) {
    return {
      check: fail("proxy", describeFailure(error), { code: "network", fix: "Correct the variable, or unset it." }),
    };
  }
}

function passDns({ hostname }: URL, proxy: HttpProxy | undefined): Check {
  if (proxy !== undefined) return pass("dns", "resolved by the proxy");
  const isAddress = isIP(hostname.replace(/[[\]]/g, "")) > 0;
  return pass("dns", isAddress ? `${hostname} is an IP address` : `${hostname} resolves`);
}

const proxyFix = ({ variable }: HttpProxy) => `A proxy is set: check ${variable} and NO_PROXY.`;
const certificateFix = "Check the base URL and this machine's clock.";
const tlsFix =
  "Check the base URL: the service does not speak TLS there, or wants something else. Client certificates are not supported.";
const nameServerFix = "No name server answers: check your network and its DNS settings.";
const firewallFix = "Check your network and firewall; if you need a proxy, set HTTPS_PROXY.";
const privateFix = "Use https or `ssh -L`, as `vidgen help accounts` shows; check which network you are in.";
const loopbackFix = "Nothing accepts connections there. `vidgen serve` starts the local service.";

/** The check that failed, after the checks that must have passed before it. */
function judgeFailure(error: unknown, url: URL, proxy: HttpProxy | undefined): Check[] {
  const code = systemCode(error) ?? "";
  const failAt = (name: string, fix: string) => fail(name, describeFailure(error), { code: "network", fix });
  if (/^(ENOTFOUND|EAI_)/.test(code)) {
    const fix = code === "ENOTFOUND" ? "Check the spelling of the base URL, and your network." : nameServerFix;
    return [failAt("dns", proxy === undefined ? fix : proxyFix(proxy))];
  }
  const dns = passDns(url, proxy);
  if (code.startsWith("ERR_SSL_")) return [dns, failAt("connection", tlsFix)];
  if (/^(ERR_TLS|CERT_|UNABLE_TO_|DEPTH_ZERO|SELF_SIGNED|EPROTO)/.test(code))
    return [dns, failAt("connection", certificateFix)];
  if (code === "") return [dns, failAt("service", "Check the base URL and your network, then try again.")];
  if (code === "ERR_NOT_PRIVATE") return [dns, failAt("connection", privateFix)];
  const directFix = isLoopback(url.hostname) ? loopbackFix : firewallFix;
  return [dns, failAt("connection", proxy === undefined ? directFix : proxyFix(proxy))];
}

function judgeKeyCheck({ verdict, replyText }: KeyCheck, { baseUrl, apiKey }: CheckedService, ms: number): Check {
  if (verdict === "accepted") {
    const accepts = apiKey === undefined ? "" : ", and accepted the key";
    return pass("service", `${baseUrl} responded in ${ms} ms${accepts}`);
  }
  if (verdict === "denied" && apiKey === undefined)
    return pass("service", `${baseUrl} responded in ${ms} ms, and requires a key`);
  if (verdict === "denied") {
    const fix = "Save another key with `vidgen login`; VIDGEN_API_KEY, if set, overrides it.";
    return fail("service", `it rejected the key: ${replyText}`, { code: "auth", fix });
  }
  if (verdict === "unavailable") {
    const fix = "The service has a problem: try again later.";
    return fail("service", `it is unavailable: ${replyText}`, { code: "network", fix });
  }
  const fix = "Check the base URL.";
  return fail("service", `it does not respond like the video service: ${replyText}`, { code: "rejected", fix });
}

const maxClockErrorMs = 60_000;

/** Empty when the reply has no usable Date header. */
function judgeClock(dateHeader: string | null, now: Date): Check[] {
  const serviceMs = Date.parse(dateHeader ?? "");
  if (Number.isNaN(serviceMs)) return [];
  const offMs = now.getTime() - serviceMs;
  if (Math.abs(offMs) < maxClockErrorMs) return [pass("clock", "in sync with the service")];
  const says = `${Math.round(Math.abs(offMs) / 1000)} s ${offMs > 0 ? "ahead of" : "behind"} the service`;
  return [warn("clock", says, "Set this machine's clock: certificates depend on it.")];
}
