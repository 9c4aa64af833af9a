import { expect, test } from "vitest";
import { createBlocks, type Inlet } from "../../src/client/blocks.ts";

const large = 400 * 1024;

/** Bytes that are all the same come in. */
function receive(inlet: Inlet, length: number, byte: number): Uint8Array {
  inlet.room().fill(byte, 0, length);
  return inlet.take(length);
}

/** Receives until the block is full, and returns the pieces of it. */
function fill(inlet: Inlet, byte = 0): Uint8Array[] {
  const pieces = [receive(inlet, large, byte)];
  const { buffer } = inlet.room();
  while (inlet.room().buffer === buffer) pieces.push(receive(inlet, 1024, byte));
  return pieces;
}

test("a block is used again once all of it was released", () => {
  const { open, release } = createBlocks();
  const inlet = open();
  const pieces = fill(inlet);
  const second = inlet.room();
  expect(second.buffer).not.toBe(pieces[0]?.buffer);
  for (const piece of pieces) release(piece);
  fill(inlet);
  expect(inlet.room().buffer).toBe(pieces[0]?.buffer);
});

test("a block of which a single piece is not released, such as the headers in it, is never written over", () => {
  const { open, release } = createBlocks();
  const inlet = open();
  const [headers = new Uint8Array(), ...body] = fill(inlet, 1);
  for (const piece of body) release(piece);
  for (let block = 0; block < 20; block++) for (const piece of fill(inlet, 2)) release(piece);
  expect(headers.every((byte) => byte === 1)).toBe(true);
});

test("what is released while more comes into the same block does no harm to what comes", () => {
  const { open, release } = createBlocks();
  const inlet = open();
  release(receive(inlet, 10, 1));
  const room = inlet.room();
  room.fill(2, 0, 10);
  const piece = inlet.take(10);
  fill(inlet, 3);
  expect(piece.every((byte) => byte === 2)).toBe(true);
});

test("two connections never share a block", () => {
  const { open, release } = createBlocks();
  const [one, other] = [open(), open()];
  for (let block = 0; block < 20; block++) {
    const [mine, theirs] = [fill(one, 1), fill(other, 2)];
    expect(mine.every((piece) => piece.every((byte) => byte === 1))).toBe(true);
    expect(new Set([...mine, ...theirs].map(({ buffer }) => buffer)).size).toBe(2);
    for (const piece of [...mine, ...theirs]) release(piece);
  }
});

test("a room is never small", () => {
  const inlet = createBlocks().open();
  for (let i = 0; i < 3_000; i++) {
    expect(inlet.room().byteLength).toBeGreaterThanOrEqual(64 * 1024);
    inlet.take(1_000 + i);
  }
});

test("what lies in no block is passed over", () => {
  const { holds, release } = createBlocks();
  const piece = new Uint8Array(10);
  expect(holds(piece)).toBe(false);
  release(piece);
});
