import type { Store } from "../store/store.ts";
import type { Backlog } from "./backlog.ts";

/** Brings into the backlog what is new in the store. */
export type Intake = {
  /** There may be something new. */
  ask(): void;
  isAsked(): boolean;
  /** Reads the store if that was asked for; false when it could not be read. */
  read(): Promise<boolean>;
  /** Tells that a delivery has left the store. Until then it is brought in once, however often it is read. */
  forget(id: string): void;
};

export function createIntake(store: Pick<Store, "pendingDeliveries">, backlog: Pick<Backlog, "add">): Intake {
  const known = new Set<string>();
  let isAsked = true;
  return {
    ask() {
      isAsked = true;
    },
    isAsked: () => isAsked,
    async read() {
      if (!isAsked) return true;
      isAsked = false;
      // One that gets through meanwhile may still be in what comes back.
      const before = new Set(known);
      const pending = await store.pendingDeliveries().catch(() => undefined);
      for (const delivery of pending ?? []) {
        if (before.has(delivery.id)) continue;
        known.add(delivery.id);
        backlog.add(delivery);
      }
      return pending !== undefined;
    },
    forget(id) {
      known.delete(id);
    },
  };
}
