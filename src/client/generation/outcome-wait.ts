import { untilLimit } from "../../reply-limit.ts";
import { keyOf } from "../ledger/history.ts";
import type { RefusedChoice, WaitChoice } from "../ledger/policy.ts";
import { answerOf } from "../ledger/refusal.ts";
import type { WaitOptions } from "../save/claim.ts";
import type { Service } from "./service.ts";

/**
 * How long a start waits for the process of an unknown attempt. The call of an agent is answered before the
 * agent's program gives up.
 */
const unknownWaitMs = 60_000;
const agentWaitMs = 20_000;
/** How often a start looks again, and how often at the lease of a process on another machine. */
const pollMs = 250;
const watchMs = 1_000;
/**
 * How long, and how often, the server of an agent looks at a lease after its answer: a lease elsewhere is
 * known within a minute.
 */
const laterWatchMs = 61_000;
const laterPollMs = 5_000;

type OutcomeWaitOptions = WaitOptions & {
  /** Set for an agent, with what outlives its call. */
  agent?: { ending: AbortSignal } | undefined;
};

/** The wait of one start for attempts whose outcome a live process may still find out. */
export type OutcomeWait = {
  /** The keys of the unknown attempts that it has waited for. */
  waitedFor: ReadonlySet<string>;
  /**
   * Waits until the start should look again. Returns a refusal once it has waited long enough. Rejects with
   * the signal's reason.
   */
  next(choice: WaitChoice): Promise<RefusedChoice | undefined>;
};

/**
 * For an unknown attempt it waits at most 60 s, or `timeoutMs` if that is shorter. The question whether a
 * process is alive has an answer within a minute, so that `timeoutMs` does not matter. An agent waits at most
 * 20 s for both.
 */
export function createOutcomeWait(service: Service, options: OutcomeWaitOptions): OutcomeWait {
  const { io, note } = service;
  const { timeoutMs = unknownWaitMs, signal, agent } = options;
  const begin = io.now();
  const waitedFor = new Set<string>();
  const noted = new Set<WaitChoice["because"]>();
  let unknownSince: number | undefined;
  return {
    waitedFor,
    async next(choice) {
      const { because, entry, lease } = choice;
      if (because === "unknown") {
        waitedFor.add(keyOf(entry));
        unknownSince ??= io.now();
      }
      const unknownMs = unknownSince === undefined ? 0 : io.now() - unknownSince;
      const isOver = agent
        ? io.now() - begin >= agentWaitMs
        : because === "unknown" && unknownMs >= Math.min(unknownWaitMs, timeoutMs);
      if (isOver && agent) void watchLater(service, lease, agent.ending);
      if (isOver) return { kind: "refuse", entry, because: "unknown", worker: await nameWorker(service, lease) };
      if (!noted.has(because)) note(waitingNote(choice));
      noted.add(because);
      await io.sleep(because === "unsure" ? watchMs : pollMs, signal);
      return undefined;
    },
  };
}

function waitingNote({ because, entry }: WaitChoice): string {
  if (because === "unsure")
    return `Another process has started the same request (attempt ${entry.attempt}), on another machine. Waiting up to 60 s to find out whether it is still running; nothing is sent meanwhile.`;
  return `The same request ${answerOf(entry)} (attempt ${entry.attempt}), and its process is still running. Waiting up to 60 s for the outcome; nothing is sent meanwhile.`;
}

/**
 * The first of these leases that a live process has; `undefined` if none does. The lease of a process on
 * another machine is watched until it is known, within a minute, whether that process is alive. Rejects with
 * the signal's reason.
 */
export async function findAlive(
  leases: readonly string[],
  { journal, io, note }: Pick<Service, "journal" | "note"> & { io: Pick<Service["io"], "sleep"> },
  signal: AbortSignal,
): Promise<string | undefined> {
  for (let tries = 1; ; tries++) {
    const states = await Promise.all(leases.map(journal.leaseOf));
    const alive = leases[states.indexOf("alive")];
    if (alive !== undefined || !states.includes("unsure")) return alive;
    if (tries === 3)
      note("Waiting up to 60 s to find out whether the process that sent it, on another machine, is still running.");
    await io.sleep(watchMs, signal);
  }
}

/** Such as "Process 4711"; for an error. */
async function nameWorker({ journal, io }: Service, lease: string): Promise<string> {
  const holder = await journal.holderOf(lease);
  if (holder === undefined) return "A process that has just ended";
  const self = await io.processes.self();
  const isHere = holder.machine === self.machine && holder.namespace === self.namespace;
  return `Process ${holder.pid}${isHere ? "" : " on another machine"}`;
}

/** Looks at a lease for a minute, so that a later call knows whether its process is alive. Never rejects. */
async function watchLater({ journal, io }: Service, lease: string, signal: AbortSignal): Promise<void> {
  const end = io.now() + laterWatchMs;
  while (!signal.aborted && io.now() < end) {
    if ((await journal.leaseOf(lease).catch(() => "dead")) === "dead") return;
    await untilLimit(laterPollMs, signal, io);
  }
}
