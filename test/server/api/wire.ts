import { connect, type Socket } from "node:net";
import { expect, onTestFinished } from "vitest";
import type { Clock } from "../../../src/io.ts";
import { type Listening, type ListenOptions, listen } from "../../../src/server/api/listen.ts";
import type { Handler } from "../../../src/server/http/message.ts";

/** What lingers does so until its client has read it all. */
const lingering: Pick<Clock, "now" | "sleep"> = {
  now: () => 0,
  sleep: (_ms, signal) => new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason))),
};

export async function open(handler: Handler, at: Partial<ListenOptions> = {}): Promise<Listening & { port: number }> {
  const listening = await listen(handler, { host: "127.0.0.1", port: 0, ...at }, lingering);
  onTestFinished(async () => {
    // Nothing may be under way at the end of a test: `close` would wait for it.
    await listening.close(0);
  });
  return { ...listening, port: Number(new URL(listening.url).port) };
}

/** A raw connection; it is gone with the test. */
export function dial(port: number) {
  const socket = connect(port, "127.0.0.1").on("error", () => {});
  onTestFinished(() => void socket.destroy());
  return socket;
}

function gone(socket: Socket): Promise<void> {
  return new Promise((resolve) => void socket.once("close", () => resolve()));
}

/** All that comes until the connection is gone, be it by a reset. */
export async function read(socket: Socket): Promise<string> {
  let all = "";
  socket.on("data", (data) => {
    all += data;
  });
  await gone(socket);
  return all;
}

/** Sends bytes as they are and reads until the server ends the connection. `%h` stands for its right Host. */
export async function say(port: number, request: string): Promise<string> {
  const socket = dial(port);
  socket.write(request.replaceAll("%h", `127.0.0.1:${port}`), "latin1");
  return read(socket);
}

/** Expects a whole reply with this status and the service's error shape, and returns its code. */
export function errorCode(reply: string, status: number): string {
  expect(reply).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
  expect(reply).toMatch(/\r\ncontent-type: application\/json\r\n/i);
  const { error } = JSON.parse(reply.slice(reply.indexOf("\r\n\r\n") + 4)) as { error: Record<string, unknown> };
  expect(Object.keys(error)).toEqual(["code", "message", "type"]);
  return String(error.code);
}
