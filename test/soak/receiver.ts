import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Random } from "../faults/random.ts";

/** A callback as it came. */
export type Received = { id: string; body: string; isAccepted: boolean };

/** Takes callbacks on loopback. */
export type Receiver = {
  url: string;
  /** By the generation that they tell of. */
  received: Map<string, Received[]>;
  close(): Promise<void>;
};

/** The first attempt is answered with 500 for one generation in so many. */
export async function receive(random: Random, refusesOneIn: number): Promise<Receiver> {
  const received = new Map<string, Received[]>();
  const server = createServer(async (incoming, outgoing) => {
    let body = "";
    // A service that is killed leaves half a request behind.
    try {
      for await (const chunk of incoming.setEncoding("utf8")) body += chunk;
    } catch {
      return;
    }
    const { id } = JSON.parse(body) as { id: string };
    const before = received.get(id) ?? [];
    const isAccepted = before.length > 0 || random.between(1, refusesOneIn) > 1;
    received.set(id, [...before, { id: String(incoming.headers["webhook-id"]), body, isAccepted }]);
    outgoing.writeHead(isAccepted ? 204 : 500).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/callback`,
    received,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}
