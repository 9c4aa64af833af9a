/** An unbounded queue: one side pushes items, the other iterates over them. */
export type Channel<Item> = AsyncIterable<Item> & { push(item: Item): void; end(): void };

export function createChannel<Item>(): Channel<Item> {
  const items: Item[] = [];
  let isOver = false;
  let wake = () => {};
  return {
    push(item) {
      items.push(item);
      wake();
    },
    end() {
      isOver = true;
      wake();
    },
    async *[Symbol.asyncIterator]() {
      for (;;) {
        yield* items.splice(0);
        if (items.length > 0) continue;
        if (isOver) return;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}
