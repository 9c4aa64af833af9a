/** What a connection receives goes here; each connection has its own. */
export type Inlet = {
  /** Where the next bytes go. */
  room(): Uint8Array;
  /** The first `length` bytes of that room, which have come. */
  take(length: number): Uint8Array;
};

export type Blocks = {
  open(): Inlet;
  /** Whether a piece lies in a block. */
  holds(piece: Uint8Array): boolean;
  /** Says that nobody reads a piece any longer, once for each of its bytes; a piece of anything else is passed over. */
  release(piece: Uint8Array): void;
};

type Block = { memory: Uint8Array; filled: number; released: number; isFull: boolean };

const blockBytes = 1024 * 1024;
/** Less room than this is left unused: it would be filled in small pieces. */
const leastRoom = 64 * 1024;
/** So many blocks wait for their next use; more are left to the garbage collector. A new one takes the system longer than to fill it. */
const mostFree = 16;

/**
 * Memory that is received into over and over: Node's own takes new memory for each 64 kB, and of what is used up 60 MB are there at a time.
 * A block is used again only when each byte that came into it was released, so what nobody releases, such as headers, is never overwritten.
 */
export function createBlocks(): Blocks {
  const free: Block[] = [];
  const known = new WeakMap<ArrayBufferLike, Block>();
  const create = () => {
    const block = { memory: Buffer.allocUnsafeSlow(blockBytes), filled: 0, released: 0, isFull: false };
    known.set(block.memory.buffer, block);
    return block;
  };
  const reuse = (block: Block) => {
    if (!block.isFull || block.released < block.filled || free.length === mostFree) return;
    Object.assign(block, { filled: 0, released: 0, isFull: false });
    free.push(block);
  };
  const open = () => {
    let block = free.pop() ?? create();
    return {
      room() {
        if (blockBytes - block.filled < leastRoom) {
          block.isFull = true;
          reuse(block);
          block = free.pop() ?? create();
        }
        return block.memory.subarray(block.filled);
      },
      take(length: number) {
        const start = block.filled;
        block.filled += length;
        return block.memory.subarray(start, block.filled);
      },
    };
  };
  return {
    open,
    holds: (piece) => known.has(piece.buffer),
    release(piece) {
      const block = known.get(piece.buffer);
      if (!block) return;
      block.released += piece.byteLength;
      reuse(block);
    },
  };
}
