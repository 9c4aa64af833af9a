import type { Socket } from "node:net";
import { gzipSync } from "node:zlib";
import type { Generated } from "./oracle.ts";
import type { Random } from "./random.ts";
import { chunk, head, pause, reply, resetLater, send } from "./wire.ts";

/** What the service does to one start request that it has read. */
export type StartFault = {
  /** Whether the generation is started, and charged. */
  executes: boolean;
  act(scene: StartScene): Promise<void> | void;
};

/** `generated` is made up where the start is not carried out: nobody may take it for real. */
export type StartScene = { socket: Socket; generated: Generated; random: Random };

export function startBody({ id, model, prompt, createdAt }: Generated): string {
  const data = { id, status: "processing", model, prompt, created_at: createdAt };
  return JSON.stringify({ success: true, data, remaining_credits: 41 });
}

const json = { "Content-Type": "application/json" };
const html = "<html><body><h1>502 Bad Gateway</h1></body></html>";

/** Where the id ends in a start reply: from there on it is known. */
export function endOfId(body: string, id: string): number {
  return Buffer.byteLength(body.slice(0, body.indexOf(`"${id}"`))) + id.length + 2;
}

async function cutAt(scene: StartScene, isChunked: boolean, choose: (end: number, length: number) => number) {
  const { socket, generated } = scene;
  const body = Buffer.from(startBody(generated));
  await sendCut(socket, body, choose(endOfId(body.toString(), generated.id), body.length), isChunked);
}

/** The first bytes of a body that is announced in full, and then the end of the connection. */
export async function sendCut(socket: Socket, body: Buffer, at: number, isChunked: boolean): Promise<void> {
  const part = body.subarray(0, at);
  if (isChunked) await send(socket, head(200, { ...json, "Transfer-Encoding": "chunked" }));
  else await send(socket, head(200, { ...json, "Content-Length": body.length + 1 }));
  if (part.length > 0) await send(socket, isChunked ? chunk(part) : part);
  socket.end();
}

function answers(status: number, body: string, headers: Record<string, string> = {}): StartFault["act"] {
  return ({ socket }) => reply(socket, status, body, headers);
}

function bytes(text: string, thenEnd = true): StartFault["act"] {
  return async ({ socket }) => {
    await send(socket, text);
    if (thenEnd) socket.end();
  };
}

/** The generation is charged, and its id never arrives. */
export const lostStarts: Record<string, StartFault> = {
  "reset after the request": { executes: true, act: ({ socket }) => void socket.resetAndDestroy() },
  "closed after the request": { executes: true, act: ({ socket }) => void socket.end() },
  "never answered": { executes: true, act: () => {} },
  "500 with JSON": { executes: true, act: answers(500, '{"error":"internal"}') },
  "502 with HTML": { executes: true, act: answers(502, html, { "Content-Type": "text/html" }) },
  "503 with Retry-After": { executes: true, act: answers(503, "", { "Retry-After": "1" }) },
  "408": { executes: true, act: answers(408, "") },
  "302 elsewhere": { executes: true, act: answers(302, "", { Location: "/api/generate" }) },
  "200 with HTML": { executes: true, act: answers(200, html, { "Content-Type": "text/html" }) },
  "200 without an id": { executes: true, act: answers(200, '{"success":true,"data":{"status":"processing"}}') },
  "200 with an id of another name": { executes: true, act: answers(200, '{"task_id":12345,"status":"queued"}') },
  "200 cut before the id": {
    executes: true,
    act: (scene) => cutAt(scene, false, (end) => scene.random.between(0, end - 1)),
  },
  "chunks cut before the id": {
    executes: true,
    act: (scene) => cutAt(scene, true, (end) => scene.random.between(0, end - 1)),
  },
};

/** Charged and lost too, in rarer ways. */
export const rarelyLostStarts: Record<string, StartFault> = {
  "204": { executes: true, act: answers(204, "") },
  "504, nothing in it": { executes: true, act: answers(504, "") },
  "half a head": { executes: true, act: bytes("HTTP/1.1 200 OK\r\nContent-Ty") },
  "not HTTP": { executes: true, act: bytes("SSH-2.0-OpenSSH_9.6\r\n") },
  "two lengths": {
    executes: true,
    act: bytes("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\nabcdefg"),
  },
  "101": { executes: true, act: bytes("HTTP/1.1 101 x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n") },
  "a body shorter than it should be, whole as HTTP": {
    executes: true,
    act: ({ socket, generated }) => reply(socket, 200, startBody(generated).slice(0, 30)),
  },
};

/** What PHP writes before a reply that is otherwise fine. */
export const phpNotice =
  '<br />\n<b>Warning</b>:  Undefined array key "seed" in <b>/srv/api.php</b> on line <b>{12}</b><br />\n';

/** The generation is charged, and its id arrives in spite of it all. */
export const oddStarts: Record<string, StartFault> = {
  "a notice of PHP before the JSON": {
    executes: true,
    act: ({ socket, generated }) => reply(socket, 200, phpNotice + startBody(generated)),
  },
  "JSON as the text of a JSON string": {
    executes: true,
    act: ({ socket, generated }) => reply(socket, 200, JSON.stringify(startBody(generated))),
  },
  "200 cut after the id": {
    executes: true,
    act: (scene) => cutAt(scene, false, (end, length) => scene.random.between(end, length)),
  },
  "chunks cut after the id": {
    executes: true,
    act: (scene) => cutAt(scene, true, (end, length) => scene.random.between(end, length)),
  },
  "reset after the id": {
    executes: true,
    act: async ({ socket, generated }) => {
      const body = startBody(generated);
      await send(socket, head(200, { ...json, "Content-Length": body.length + 9 }) + body);
      await resetLater(socket);
    },
  },
  "100 Continue that nobody asked for": {
    executes: true,
    act: async ({ socket, generated }) => {
      await send(socket, "HTTP/1.1 100 Continue\r\n\r\n");
      await pause(1);
      await reply(socket, 200, startBody(generated));
    },
  },
  "gzip with a wrong checksum": {
    executes: true,
    act: ({ socket, generated }) => {
      const body = gzipSync(startBody(generated));
      return reply(socket, 200, body.fill(0, body.length - 8), { ...json, "Content-Encoding": "gzip" });
    },
  },
  "gzip that is cut in its checksum": {
    executes: true,
    act: async ({ socket, generated }) => {
      const body = gzipSync(startBody(generated));
      await send(socket, head(200, { ...json, "Content-Encoding": "gzip", "Content-Length": body.length }));
      await send(socket, body.subarray(0, -4));
      socket.end();
    },
  },
  "gzip by its header alone": {
    executes: true,
    act: ({ socket, generated }) => reply(socket, 200, startBody(generated), { "Content-Encoding": "gzip" }),
  },
  "a header without a name": {
    executes: true,
    act: ({ socket, generated }) => reply(socket, 200, startBody(generated), { "": "nothing" }),
  },
  "a length and chunks": {
    executes: true,
    act: ({ socket, generated }) => {
      const body = Buffer.concat([chunk(Buffer.from(startBody(generated))), Buffer.from("0\r\n\r\n")]);
      return reply(socket, 200, body, { ...json, "Transfer-Encoding": "chunked" });
    },
  },
  "103 before the answer": {
    executes: true,
    act: async ({ socket, generated }) => {
      await send(socket, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n");
      await reply(socket, 200, startBody(generated));
    },
  },
  "an answer in drops": {
    executes: true,
    act: async ({ socket, generated }) => {
      const body = Buffer.from(startBody(generated));
      await send(socket, head(200, { ...json, "Content-Length": body.length }));
      for (let at = 0; at < body.length; at += 40) {
        await send(socket, body.subarray(at, at + 40));
        await pause(1);
      }
    },
  },
  "a BOM before the answer": {
    executes: true,
    act: ({ socket, generated }) => reply(socket, 200, `\ufeff${startBody(generated)}`),
  },
};

/** Put off: sending again is right. */
export const laterStarts: Record<string, StartFault> = {
  "429 with Retry-After": { executes: false, act: answers(429, '{"error":"slow down"}', { "Retry-After": "2" }) },
  "429 without": { executes: false, act: answers(429, "") },
  "425": { executes: false, act: answers(425, "") },
};

/** Refused for good, and not charged. */
export const refusedStarts: Record<string, StartFault> = {
  "400": { executes: false, act: answers(400, '{"error":{"message":"no such model"}}') },
  "402": { executes: false, act: answers(402, '{"error":"insufficient credits"}') },
  "403": { executes: false, act: answers(403, "") },
  "success: false": { executes: false, act: answers(200, '{"success":false,"error":"not today"}') },
};

export const fineStart: StartFault = {
  executes: true,
  act: ({ socket, generated }) => reply(socket, 200, startBody(generated)),
};

/** Takes its time, so that a moment can be met in it. */
export function slowStart(random: Random): StartFault {
  return {
    executes: true,
    async act({ socket, generated }) {
      await pause(random.between(10, 80));
      await reply(socket, 200, startBody(generated));
    },
  };
}
