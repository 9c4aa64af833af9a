import type { Socket } from "node:net";
import type { Generated } from "./oracle.ts";
import type { Random } from "./random.ts";
import { phpNotice } from "./start-faults.ts";
import { chunk, head, reply, send } from "./wire.ts";

export type PollScene = { socket: Socket; generated: Generated; videoUrl: string; random: Random };

/** What the service does to one look at a generation. */
export type PollFault = (scene: PollScene) => Promise<void> | void;

function statusBody({ id, createdAt }: Generated, status: string, videoUrl: string | null): string {
  return JSON.stringify({ id, status, video_url: videoUrl, thumbnail_url: null, created_at: createdAt });
}

export const stillRunning: PollFault = ({ socket, generated }) =>
  reply(socket, 200, statusBody(generated, "processing", null));

export const finePoll: PollFault = ({ socket, generated, videoUrl }) =>
  reply(socket, 200, statusBody(generated, "completed", videoUrl));

/** A fine reply that begins with other text, and has a number that JSON does not have. */
export const wordyPoll: PollFault = ({ socket, generated, videoUrl }) =>
  reply(socket, 200, phpNotice + statusBody(generated, "completed", videoUrl).replace("{", '{"psnr":[Infinity,NaN],'));

function answers(status: number, body: string, headers: Record<string, string> = {}): PollFault {
  return ({ socket }) => reply(socket, status, body, headers);
}

/** All of them pass: the next look may be fine. */
export const pollFaults: Record<string, PollFault> = {
  "still running": stillRunning,
  reset: ({ socket }) => void socket.resetAndDestroy(),
  closed: ({ socket }) => void socket.end(),
  "never answered": () => {},
  "500": answers(500, '{"error":"internal"}'),
  "502 with HTML": answers(502, "<html>bad gateway</html>", { "Content-Type": "text/html" }),
  "503 with Retry-After": answers(503, "", { "Retry-After": "3" }),
  "429 with Retry-After": answers(429, "", { "Retry-After": "3" }),
  "429 without": answers(429, ""),
  "503 with a day of Retry-After": answers(503, "", { "Retry-After": "86400" }),
  "408": answers(408, ""),
  "404 at first": answers(404, '{"error":"not found"}'),
  "200 with HTML": answers(200, "<html>maintenance</html>", { "Content-Type": "text/html" }),
  "200 with nothing": answers(200, ""),
  "a list": answers(200, "[]"),
  "an unknown state": ({ socket, generated }) => reply(socket, 200, statusBody(generated, "queued", null)),
  "completed without an address": ({ socket, generated }) =>
    reply(socket, 200, statusBody(generated, "completed", null)),
  "COMPLETED, with an address": ({ socket, generated, videoUrl }) =>
    reply(socket, 200, statusBody(generated, "COMPLETED", videoUrl)),
  "200 cut": async ({ socket, generated, videoUrl, random }) => {
    const body = Buffer.from(statusBody(generated, "completed", videoUrl));
    await send(socket, head(200, { "Content-Length": body.length }));
    await send(socket, body.subarray(0, random.between(0, body.length - 1)));
    socket.end();
  },
  "chunks cut": async ({ socket, generated, random }) => {
    const body = Buffer.from(statusBody(generated, "failed", null));
    await send(socket, head(200, { "Transfer-Encoding": "chunked" }));
    await send(socket, chunk(body.subarray(0, random.between(1, body.length))));
    socket.end();
  },
  "not HTTP": async ({ socket }) => {
    await send(socket, "\x16\x03\x01\x02\x00\x01\x00\x01");
    socket.end();
  },
};

/** After which there is nothing to wait for. */
export const lastPolls: Record<string, PollFault> = {
  failed: ({ socket, generated }) =>
    reply(socket, 200, JSON.stringify({ id: generated.id, status: "failed", error: "the model broke" })),
  "401": answers(401, ""),
};
