import { connect, type Socket } from "node:net";

/** What the service has sent on a connection. */
export type Heard = {
  /** Byte for byte, as latin1. */
  text: string;
  /** It ended the connection: else the time was over, or all that was waited for was there. */
  isClosed: boolean;
  ms: number;
};

export type SayOptions = {
  /** After so long without all that is waited for, the other side is told that nothing more will be sent. */
  endAfterMs?: number | undefined;
  /** Ends the wait. */
  isEnough?(text: string): boolean;
  limitMs?: number;
};

const usualLimitMs = 3_000;

/** Sends bytes as they are, and reads until the service ends the connection or all that is waited for is there. */
export function say(
  port: number,
  bytes: Uint8Array,
  { endAfterMs, isEnough = () => false, limitMs = usualLimitMs }: SayOptions = {},
): Promise<Heard> {
  const start = performance.now();
  const socket = dial(port);
  return new Promise((resolve) => {
    let text = "";
    const end = (isClosed: boolean) => {
      clearTimeout(timer);
      clearTimeout(ending);
      socket.destroy();
      resolve({ text, isClosed, ms: performance.now() - start });
    };
    const timer = setTimeout(end, limitMs, false);
    const ending = endAfterMs === undefined ? undefined : setTimeout(() => socket.end(), endAfterMs);
    socket.setEncoding("latin1").on("data", (data) => {
      text += data;
      if (isEnough(text)) end(false);
    });
    socket.once("close", () => end(true));
    socket.write(bytes);
  });
}

/** A connection to the service whose errors are of no interest: that it is gone is what counts. */
export function dial(port: number): Socket {
  return connect(port, "127.0.0.1")
    .on("error", () => {})
    .setNoDelay(true);
}

/** A reply of those on a connection. */
export type Reply = { status: number; head: string; body: string };

/** Reads replies one after the other, as they say how long they are; `rest` is what is no whole one. */
export function readReplies(text: string): { replies: Reply[]; rest: string } {
  const replies: Reply[] = [];
  let rest = text;
  for (;;) {
    const [head = "", status] = /^HTTP\/1\.1 (\d{3}) .*?\r\n\r\n/s.exec(rest) ?? [];
    if (status === undefined) return { replies, rest };
    const length = Number(/\r\ncontent-length: *(\d+)\r\n/i.exec(head)?.[1] ?? 0);
    if (rest.length < head.length + length) return { replies, rest };
    replies.push({ status: Number(status), head, body: rest.slice(head.length, head.length + length) });
    rest = rest.slice(head.length + length);
  }
}

/** The code of a reply in the service's error shape and of that alone; `undefined` for any other. */
export function errorCode({ head, body }: Pick<Reply, "head" | "body">): string | undefined {
  try {
    const { error, ...others } = JSON.parse(body);
    const isPlain = Object.keys(others).length === 0 && Object.keys(error).join() === "code,message,type";
    const isTyped = /\r\ncontent-type: application\/json\r\n/i.test(head);
    return isPlain && isTyped && /^[a-z]\w*$/i.test(error.code) && error.message.length > 0 ? error.code : undefined;
  } catch {
    return undefined;
  }
}

export function portOf(url: string): number {
  return Number(new URL(url).port);
}
