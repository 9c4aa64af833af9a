import type { Socket } from "node:net";
import type { Io } from "../../io.ts";
import { loadUndici } from "./free.ts";

/** The maximum length of a message; a longer one ends the connection. */
const maxBytes = 16_000_000;

/** Creates `Io["readSocket"]`, which connects as `connection.ts` does, through the proxies of `env`. */
export function createSocketReader(env: Io["env"]): NonNullable<Io["readSocket"]> {
  return async (url, { headers, signal, onText }) => {
    let tcpSocket: Socket | undefined;
    const { Agent, WebSocket } = await loadUndici();
    const { connect } = await import("./connection.ts");
    if (signal.aborted) return;
    const dispatcher = new Agent({
      webSocket: { maxPayloadSize: maxBytes },
      connect({ protocol, host }, done) {
        connect(new URL(`${protocol}//${host}`), env, { signal }).then(
          (socket) => {
            tcpSocket = socket;
            done(null, socket);
          },
          (error) => done(error, null),
        );
      },
    });
    const webSocket = new WebSocket(url, { headers: { "User-Agent": "vidgen", ...headers }, dispatcher });
    await new Promise<void>((resolve) => {
      const end = () => resolve();
      signal.addEventListener("abort", end, { once: true });
      webSocket.addEventListener("close", () => {
        signal.removeEventListener("abort", end);
        resolve();
      });
      webSocket.addEventListener("message", ({ data }) => void (typeof data === "string" && onText(data)));
    });
    webSocket.close();
    // The other side may never confirm the close.
    tcpSocket?.destroy();
    await dispatcher.destroy();
  };
}
