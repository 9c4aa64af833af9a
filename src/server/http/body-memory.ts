/** A request body that is being received, in memory shared with other bodies. */
export type ArrivingBody = {
  /** Stores a chunk, unless the body was refused. */
  add(chunk: Uint8Array): void;
  /** Returns the body; `undefined` if it was refused. It cannot be refused later. */
  finish(): Uint8Array | undefined;
  /** Frees the memory of the body, which is then refused. */
  release(): void;
};

/**
 * Limits the memory of request bodies in transfer to `maxBytes`. Returns a function that opens a body for an account. When the memory runs out, the
 * account that uses most of it loses its newest body, so that the others can finish, and no account can block another one.
 */
export function createBodyMemory(maxBytes: number): (account: string) => ArrivingBody {
  type Body = ArrivingBody & { account: string; size(): number };
  const arriving = new Set<Body>();
  let free = maxBytes;
  const findBodyToRefuse = (): Body | undefined => {
    const sizes = new Map<string, number>();
    for (const { account, size } of arriving) sizes.set(account, (sizes.get(account) ?? 0) + size());
    const most = Math.max(...sizes.values());
    return [...arriving].findLast(({ account }) => sizes.get(account) === most);
  };
  return (account) => {
    let chunks: Uint8Array[] | undefined = [];
    let length = 0;
    const body: Body = {
      account,
      size: () => length,
      add(chunk) {
        if (chunks === undefined) return;
        chunks.push(chunk);
        length += chunk.byteLength;
        free -= chunk.byteLength;
        while (free < 0 && arriving.size > 0) findBodyToRefuse()?.release();
      },
      finish() {
        arriving.delete(body);
        const whole = chunks && Buffer.concat(chunks);
        if (chunks) chunks = [];
        return whole;
      },
      release() {
        chunks = undefined;
        free += length;
        length = 0;
        arriving.delete(body);
      },
    };
    arriving.add(body);
    return body;
  };
}
