import { once } from "node:events";
import { connect, type Socket } from "node:net";

/** What one round has seen. */
export type Round = { perSecond: number; lastReply: string };

/** Asks the same thing over and over, on so many connections that are kept alive, for so long. Rejects at the first reply that is no 200. */
export async function load(url: string, request: string, limits: { connections: number; ms: number }): Promise<Round> {
  const bytes = Buffer.from(request, "latin1");
  const port = Number(new URL(url).port);
  const end = performance.now() + limits.ms;
  const start = performance.now();
  const lanes = await Promise.all(Array.from({ length: limits.connections }, () => drive(port, bytes, end)));
  const seconds = (performance.now() - start) / 1_000;
  const count = lanes.reduce((sum, lane) => sum + lane.count, 0);
  return { perSecond: count / seconds, lastReply: lanes[0]?.lastReply ?? "" };
}

type Lane = { count: number; lastReply: string };

/** The service closes a connection after 1,000 requests: another takes its place. */
async function drive(port: number, bytes: Buffer, end: number): Promise<Lane> {
  const lane: Lane = { count: 0, lastReply: "" };
  while (performance.now() < end) {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    await once(socket, "connect");
    await new Promise<void>((resolve, reject) => exchange(socket, bytes, { lane, end, resolve, reject }));
  }
  return lane;
}

type Exchange = { lane: Lane; end: number; resolve(): void; reject(error: Error): void };

/** As little as can be for each reply: what generates the load must not be what is measured. */
function exchange(socket: Socket, bytes: Buffer, { lane, end, resolve, reject }: Exchange): void {
  let pending = "";
  socket.once("close", resolve).once("error", reject).setEncoding("latin1");
  socket.on("data", (chunk: string) => {
    pending = pending === "" ? chunk : pending + chunk;
    const head = pending.indexOf("\r\n\r\n");
    if (head === -1 || pending.length < head + 4 + lengthOf(pending, head)) return;
    if (!pending.startsWith("HTTP/1.1 200")) reject(new Error(pending));
    lane.count++;
    lane.lastReply = pending;
    pending = "";
    if (performance.now() < end) socket.write(bytes);
    else socket.destroy();
  });
  socket.write(bytes);
}

function lengthOf(reply: string, head: number): number {
  const at = reply.search(/content-length: /i);
  return at === -1 ? Number.POSITIVE_INFINITY : Number.parseInt(reply.slice(at + 16, head), 10);
}
