import { randomUUID } from "node:crypto";
import { isIP } from "node:net";
import { createApi, type Reply } from "../../client/api.ts";
import { isLoopback } from "../../client/credentials.ts";
import { describeFailure, describeReply } from "../../client/look.ts";
import { isTransient } from "../../client/retry.ts";
import { isRecord } from "../../client/schema.ts";
import { systemCode } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { type Check, fail, pass, warn } from "./check.ts";
import { proxyFor } from "./proxy.ts";

export type Address = { baseUrl: string; apiKey: string | undefined };

/** How long the service may take for its answer. */
const answerLimitMs = 15_000;

/** One free request, as any command would send it, and what it shows: the way, the name, the connection, the answer, the clock. */
export async function checkNetwork(address: Address, io: Io): Promise<Check[]> {
  const proxy = proxyFor(address.baseUrl, io.env);
  const way = proxy === undefined ? pass("proxy", "none is used") : pass("proxy", `${proxy}, from the environment`);
  const start = io.now();
  const limit = io.limit(answerLimitMs, io.signal, new Error(`no answer within ${answerLimitMs / 1000} s`));
  let date: string | null = null;
  const fetch: Io["fetch"] = async (url, init) => {
    const response = await io.fetch(url, init);
    date = response.headers.get("Date");
    return response;
  };
  try {
    const api = createApi({ baseUrl: address.baseUrl, apiKey: address.apiKey ?? "none", fetch });
    const reply = await api.status(randomUUID(), limit.signal);
    const ms = Math.round(io.now() - start);
    return [way, ...reached(address.baseUrl, proxy), judgeReply(reply, address, ms), ...judgeClock(date, io.date())];
  } catch (error) {
    if (io.signal.aborted) throw io.signal.reason;
    return [way, ...judgeFailure(error, address.baseUrl, proxy)];
  } finally {
    limit.clear();
  }
}

function nameSays({ hostname }: URL, proxy: string | undefined): string {
  if (proxy !== undefined) return "left to the proxy";
  return isIP(hostname.replace(/[[\]]/g, "")) ? `${hostname} needs none` : `${hostname} is found`;
}

function reached(baseUrl: string, proxy: string | undefined): Check[] {
  const url = new URL(baseUrl);
  const connection = url.protocol === "https:" ? "made, and its certificate is trusted" : "made, without TLS";
  return [pass("dns", nameSays(url, proxy)), pass("connection", connection)];
}

function judgeFailure(error: unknown, baseUrl: string, proxy: string | undefined): Check[] {
  const url = new URL(baseUrl);
  const says = describeFailure(error);
  const code = systemCode(error) ?? "";
  const broken = (name: string, fix: string) => fail(name, says, { code: "network", fix });
  const throughProxy = "Check HTTPS_PROXY and NO_PROXY: this goes through the proxy.";
  if (/^(ENOTFOUND|EAI_)/.test(code))
    return [broken("dns", proxy === undefined ? "Check the base URL's spelling, and the network." : throughProxy)];
  const found = pass("dns", nameSays(url, proxy));
  if (/^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|DEPTH_ZERO|SELF_SIGNED|EPROTO)/.test(code))
    return [found, broken("connection", trust)];
  if (code === "") return [found, broken("service", "Check the base URL and the network, then run it again.")];
  const direct = isLoopback(url.hostname)
    ? "Is anything running there? `vidgen serve` starts the local service."
    : firewall;
  return [found, broken("connection", proxy === undefined ? direct : throughProxy)];
}

const trust = "For a private CA, NODE_EXTRA_CA_CERTS names its file; else check the base URL and this machine's clock.";
const firewall = "Check the network and its firewall; where a proxy is needed, HTTPS_PROXY names it.";

/** A made-up id is not found: any service that says so has let the key in. */
function judgeReply(reply: Reply, { baseUrl, apiKey }: Address, ms: number): Check {
  const { status } = reply;
  const said = describeReply(reply);
  const isDenied = status === 401 || status === 403;
  if (isDenied && apiKey === undefined) return pass("service", `${baseUrl} answers in ${ms} ms, and asks for a key`);
  if (isDenied) {
    const fix = "`vidgen login` saves another key; VIDGEN_API_KEY goes before it.";
    return fail("service", `it does not accept the key: ${said}`, { code: "auth", fix });
  }
  if (isTransient(status)) {
    const fix = "The service has trouble of its own: try again later.";
    return fail("service", `it cannot answer now: ${said}`, { code: "network", fix });
  }
  const isUsual = isRecord(reply.json) && (status === 404 || status < 300);
  if (isUsual)
    return pass("service", `${baseUrl} answers in ${ms} ms${apiKey === undefined ? "" : ", and accepts the key"}`);
  return fail("service", `it does not answer as the service does: ${said}`, {
    code: "rejected",
    fix: "Check the base URL.",
  });
}

const noticeableMs = 60_000;

function judgeClock(header: string | null, now: Date): Check[] {
  const there = Date.parse(header ?? "");
  if (Number.isNaN(there)) return [];
  const offMs = now.getTime() - there;
  if (Math.abs(offMs) < noticeableMs) return [pass("clock", "agrees with the service's")];
  const says = `${Math.round(Math.abs(offMs) / 1000)} s ${offMs > 0 ? "ahead of" : "behind"} the service's`;
  return [warn("clock", says, "Set this machine's clock: certificates and times depend on it.")];
}
