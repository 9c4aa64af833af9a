/** What one side pushes, and the other takes in the same order, when it is ready for it. */
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
