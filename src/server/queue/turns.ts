/** So many accounts are remembered; one that is forgotten is before the others. */
const maxTurns = 1_000;

/** The accounts that had a turn at an engine, so that one with thousands of generations does not stand before everybody's. */
export function createTurns() {
  const had = new Set<string>();
  return {
    /** The accounts, the last one that had a turn at the end. */
    list: (): string[] => [...had],
    take(account: string): void {
      had.delete(account);
      had.add(account);
      const [first] = had;
      if (first !== undefined && had.size > maxTurns) had.delete(first);
    },
  };
}
