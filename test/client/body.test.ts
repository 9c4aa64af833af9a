import { expect, test } from "vitest";
import { createBlocks, type Inlet } from "../../src/client/blocks.ts";
import { createBody } from "../../src/client/body.ts";

/** A sender that sends the next piece as soon as it is told to go on, as undici does. */
function createSender(pieces: number[]) {
  const said: string[] = [];
  let isHeld = false;
  const flow = {
    pause() {
      isHeld = true;
    },
    resume() {
      isHeld = false;
      send();
    },
    abort: ({ message }: Error) => void said.push(message),
  };
  const blocks = createBlocks();
  const received = createBody(flow, blocks);
  function send() {
    for (let size = pieces.shift(); size !== undefined; size = pieces.shift()) {
      received.push(Buffer.alloc(size, 1));
      if (isHeld) return;
    }
    received.end();
  }
  return { ...received, blocks, send, said };
}

const most = 4 * 1024 * 1024;

async function lengths(body: AsyncIterable<Uint8Array>): Promise<number[]> {
  const found = [];
  for await (const { byteLength } of body) found.push(byteLength);
  return found;
}

test("what came while nobody read comes in one piece", async () => {
  const sender = createSender([10, 20, 30]);
  sender.send();
  expect(await lengths(sender.body)).toEqual([60]);
});

test("of a long body no more waits than a most, and nothing is lost when the rest comes at once", async () => {
  const sender = createSender([most, most / 2, most / 2, 7]);
  sender.send();
  expect(await lengths(sender.body)).toEqual([most, most, 7]);
});

test("a body that breaks off hands out what had come, then says why", async () => {
  const { body, push, fail } = createSender([]);
  push(Buffer.from("abc"));
  fail(new Error("other side closed"));
  const seen: string[] = [];
  const reading = (async () => {
    for await (const chunk of body) seen.push(String(chunk));
  })();
  await expect(reading).rejects.toThrow("other side closed");
  expect(seen).toEqual(["abc"]);
});

test("leaving the loop early ends the reply; reading to its end does not", async () => {
  const left = createSender([most, most, 1]);
  left.send();
  for await (const _ of left.body) break;
  expect(left.said).toEqual(["no more of it is wanted"]);
  const read = createSender([1]);
  read.send();
  await lengths(read.body);
  await read.body.cancel();
  expect(read.said).toEqual([]);
});

/** Lets text come into a block, as a connection does. */
function receive(inlet: Inlet, text: string): Uint8Array {
  return inlet.take(Buffer.from(text).copy(inlet.room()));
}

test("what came into one block while nobody read comes in one piece, where it lies", async () => {
  const { body, blocks, push, end } = createSender([]);
  const inlet = blocks.open();
  const first = receive(inlet, "a fox ");
  push(first);
  push(receive(inlet, "runs"));
  end();
  const pieces: Uint8Array[] = [];
  for await (const piece of body) pieces.push(piece);
  expect(String(Buffer.concat(pieces))).toBe("a fox runs");
  expect(pieces).toHaveLength(1);
  expect(pieces[0]?.buffer).toBe(first.buffer);
});

test("what lies in a block is kept apart from what does not, and from what another connection has received", async () => {
  const { body, blocks, push, end } = createSender([]);
  const [one, other] = [blocks.open(), blocks.open()];
  push(Buffer.from("a "));
  push(Buffer.from("red "));
  push(receive(one, "fox "));
  push(receive(other, "runs "));
  push(receive(one, "through "));
  push(Buffer.from("snow"));
  end();
  const pieces = [];
  for await (const piece of body) pieces.push(String(Buffer.from(piece)));
  expect(pieces).toEqual(["a red ", "fox ", "runs ", "through ", "snow"]);
});
