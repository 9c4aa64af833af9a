// The parts of undici that are loaded by themselves, which its own types do not name.

declare module "undici/lib/dispatcher/agent.js" {
  export { Agent as default } from "undici";
}

declare module "undici/lib/dispatcher/env-http-proxy-agent.js" {
  export { EnvHttpProxyAgent as default } from "undici";
}

declare module "undici/lib/dispatcher/dispatcher.js" {
  export { Dispatcher as default } from "undici";
}

declare module "undici/lib/api/api-connect.js" {
  const connect: import("undici").Dispatcher["connect"];
  export default connect;
}

declare module "undici/lib/core/connect.js" {
  import type { buildConnector as names } from "undici";

  namespace buildConnector {
    type connector = names.connector;
  }
  /** Its own types leave out that it returns the socket. */
  function buildConnector(
    options: import("node:net").ConnectOpts & { highWaterMark: number },
  ): (...args: Parameters<names.connector>) => import("node:net").Socket;
  export default buildConnector;
}
