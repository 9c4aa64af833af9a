import type { Agent } from "undici";
import connect from "undici/lib/api/api-connect.js";
import Dispatcher from "undici/lib/dispatcher/dispatcher.js";
import EnvHttpProxyAgent from "undici/lib/dispatcher/env-http-proxy-agent.js";
import type { Io } from "../io.ts";

/** A client of undici's takes UND_ERR_SOCKET for something that passes, and connects again at once, for ever. */
async function connectOnce(this: Dispatcher, ...request: Parameters<Dispatcher["connect"]>): Promise<unknown> {
  try {
    return await connect.apply(this, request);
  } catch (cause) {
    const isCut = cause instanceof Error && "code" in cause && cause.code === "UND_ERR_SOCKET";
    throw isCut ? new Error("the proxy ended the connection", { cause }) : cause;
  }
}

// As undici's own index does: its ProxyAgent asks for the tunnel by it.
Object.assign(Dispatcher.prototype, { connect: connectOnce });

/** Goes through the proxies that the environment names; loaded where it names one. */
export function createProxyAgent(env: Io["env"], options: Agent.Options): Dispatcher {
  return new EnvHttpProxyAgent({ ...options, noProxy: exceptions(env.no_proxy || env.NO_PROXY || "") });
}

/** What NO_PROXY says, and this machine; a "*" means everything, but undici knows it only when it stands alone. */
function exceptions(noProxy: string): string {
  if (noProxy.split(/[\s,]/).includes("*")) return "*";
  return `${noProxy},localhost,127.0.0.1,[::1]`;
}
