import type { Checkpoint, GenerationEnd, StoredCheckpoint } from "../../../src/server/store/generations.ts";
import type { Provenance, Store } from "../../../src/server/store/store.ts";
import type { CallKind, Process } from "./process.ts";
import type { EngineRules } from "./rules.ts";

/** A store of which the rules hear what it has kept, also when the process that wrote it is dead by then. */
export type Watched = {
  of(process: Process): Store;
  /** The generations that have not ended, and whether a callback is to be delivered: so that it is not asked each second for nothing. */
  unfinished: ReadonlySet<string>;
  hasDeliveries(): boolean;
};

export function watch(store: Store, rules: EngineRules): Watched {
  const unfinished = new Set<string>();
  const deliveries = new Set<string>();
  const watchRestore = (provenance: Provenance, process: Process): Provenance => ({
    ...provenance,
    async restore(restoration) {
      const ends: { id: string; end: GenerationEnd }[] = [];
      const endOf: typeof restoration.endOf = (generation) => {
        const ended = restoration.endOf(generation);
        ends.push({ id: generation.id, end: ended.end });
        return ended;
      };
      const count = await provenance.restore({ ...restoration, endOf });
      for (const { id, end } of ends) rules.onEnd(id, end, { process, isCancelled: false });
      return count;
    },
  });
  return {
    unfinished,
    hasDeliveries: () => deliveries.size > 0,
    of: (process) => ({
      ...store,
      async start(generation, cost, idempotency) {
        const outcome = await store.start(generation, cost, idempotency);
        if (outcome.kind === "started" && !outcome.replayed) {
          unfinished.add(generation.id);
          rules.onStarted(generation, cost, process);
        }
        return outcome;
      },
      async keepCheckpoint(id, checkpoint) {
        await store.keepCheckpoint(id, checkpoint && withoutOwner(checkpoint, process));
        rules.onCheckpoint(id, checkpoint, process);
      },
      async finish(id, end, delivery) {
        const isEnded = await store.finish(id, end, delivery);
        if (isEnded) unfinished.delete(id);
        if (isEnded && delivery) deliveries.add(delivery.id);
        if (isEnded) rules.onEnd(id, end, { process, isCancelled: false });
        return isEnded;
      },
      async cancel(id, cancellation) {
        const isEnded = await store.cancel(id, cancellation);
        if (isEnded) unfinished.delete(id);
        if (isEnded && cancellation.delivery) deliveries.add(cancellation.delivery.id);
        if (isEnded) rules.onEnd(id, cancellation.end, { process, isCancelled: true });
        return isEnded;
      },
      ...(store.provenance && { provenance: watchRestore(store.provenance, process) }),
      async recordAttempt(id, attempt, next_at) {
        await store.recordAttempt(id, attempt, next_at);
        if (next_at === null) deliveries.delete(id);
      },
    }),
  };
}

/** The file of a checkpoint by the path of the folder itself: that of a dead process does nothing any more. */
function withoutOwner(checkpoint: StoredCheckpoint, { name }: Process): StoredCheckpoint {
  if (checkpoint.state !== "saved") return checkpoint;
  return { ...checkpoint, file: checkpoint.file.replace(`/${name}/`, "/state/") };
}

/** The call that keeps a checkpoint, as `Mishap` names it. */
export function checkpointKind(checkpoint: Checkpoint | null): CallKind {
  const { state } = checkpoint ?? {};
  if (state === "submitting") return state;
  return state === "submitted" || state === "saved" || state === "finished" ? "submitted" : "store";
}

/** The store of a process that has its database in its own memory: each call can be the last one. */
export function gate(store: Store, process: Process): Store {
  const kindOf = (name: string, args: unknown[]): CallKind => {
    if (name === "finish") return "finish";
    if (name !== "keepCheckpoint") return "store";
    return checkpointKind(args[1] as Checkpoint | null);
  };
  const free = ["listen", "publish", "close"];
  return Object.fromEntries(
    Object.entries(store).map(([name, method]) => [
      name,
      typeof method !== "function" || free.includes(name)
        ? method
        : (...args: unknown[]) =>
            process.call(kindOf(name, args), () => (method as (...args: unknown[]) => Promise<unknown>)(...args)),
    ]),
  ) as unknown as Store;
}
