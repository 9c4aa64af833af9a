import { VidgenError } from "../../errors.ts";
import { askForKey } from "../generation/send.ts";
import type { Service } from "../generation/service.ts";
import { blocksRestart } from "../ledger/attempt.ts";
import { type Entry, keyOf } from "../ledger/history.ts";
import type { LeaseState } from "../ledger/journal.ts";
import type { KeptKey } from "../ledger/policy.ts";
import { firstSendBy } from "../ledger/shared-key.ts";

/** What can be done about a row whose attempts may have been charged. */
export type RowKey =
  /** The service says that it keeps the row's only key, so that the key can be sent again without a second charge. */
  | { kind: "kept"; key: KeptKey; entry: Entry }
  /** A process is still working on the attempt. */
  | { kind: "alive"; entry: Entry }
  | { kind: "no answer" }
  | { kind: "not kept"; why: string };

/** Whether the key of an unclear row can be sent again. `attempts` are those that decide about the row, and `isSame` whether its request is unchanged. */
export type FindRowKey = (attempts: readonly Entry[], isSame: (entry: Entry) => boolean) => Promise<RowKey>;

/** After this many requests with a key that got no answer, the key is not sent again. */
const maxUnansweredResends = 3;
/** How long the lease of a process on another machine is watched, until it is known whether that process is alive. */
const watchLimitMs = 61_000;
const watchMs = 1_000;

/** `known` are all known attempts at the service, dismissed ones too. */
export function createRowKeys(service: Service, known: readonly Entry[], signal: AbortSignal): FindRowKey {
  let isAnswering = true;
  return async (attempts, isSame) => {
    const unclear = attempts.filter(({ state }) => blocksRestart(state));
    const [first] = unclear;
    const keys = new Set(unclear.map(keyOf));
    const sharing = known.filter((entry) => keys.has(keyOf(entry)));
    const alive = await findAlive(sharing, service, signal);
    if (alive) return { kind: "alive", entry: alive };
    if (first === undefined || keys.size > 1) return { kind: "not kept", why: "it was sent with several keys" };
    if (unclear.some(({ state, id }) => state === "lost" || id !== undefined))
      return { kind: "not kept", why: "the service named a generation" };
    if (!isSame(first)) return { kind: "not kept", why: "its request has changed" };
    const firstSentAt = firstSendBy(service.account, sharing);
    if (firstSentAt === undefined)
      return { kind: "not kept", why: "it was sent with another API key, or it is unknown when" };
    if (wasTried(sharing)) return { kind: "not kept", why: "sending its key again did not help" };
    if (!isAnswering) return { kind: "no answer" };
    const answer = await askForKey(service, firstSentAt, signal);
    signal.throwIfAborted();
    isAnswering = answer !== "no answer";
    if (answer === "kept") return { kind: "kept", key: { key: keyOf(first), firstSentAt }, entry: first };
    return answer === "no answer" ? { kind: answer } : { kind: answer, why: "the service does not keep its key" };
  };
}

/** Whether a key was sent again in vain. A resend that was killed, or got no answer, does not count until the third. */
function wasTried(sharing: readonly Entry[]): boolean {
  const unanswered = sharing.filter(({ resend_of, state }) => resend_of !== undefined && blocksRestart(state));
  return sharing.some((each) => each.resend_answered) || unanswered.length >= maxUnansweredResends;
}

/** The first of these attempts that a live process has. */
async function findAlive(
  attempts: readonly Entry[],
  { journal, io }: Service,
  signal: AbortSignal,
): Promise<Entry | undefined> {
  for (const entry of attempts) {
    const end = io.now() + watchLimitMs;
    let lease: LeaseState = await journal.leaseOf(entry.attempt);
    while (lease === "unsure" && io.now() < end) {
      await io.sleep(watchMs, signal);
      lease = await journal.leaseOf(entry.attempt);
    }
    if (lease !== "dead") return entry;
  }
  return undefined;
}

/** The error if nobody can say whether a row was charged, and whether its key can be sent again. */
export function noAnswerError(line: number): VidgenError {
  const message = `Line ${line} may have been charged, and the service does not answer whether it has the request. Nothing was sent.`;
  return new VidgenError("network", message, { hint: "Run the same command again later." });
}
