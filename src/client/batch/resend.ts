import { VidgenError } from "../../errors.ts";
import { findAlive } from "../generation/outcome-wait.ts";
import { askForKey } from "../generation/send.ts";
import type { Service } from "../generation/service.ts";
import { blocksRestart } from "../ledger/attempt.ts";
import { type Entry, keyOf } from "../ledger/history.ts";
import type { KeptKey } from "../ledger/policy.ts";
import { firstSendBy } from "../ledger/shared-key.ts";

/** What can be done about a row whose attempts may have been charged. */
export type RowKey =
  /** The service says that it keeps the row's only key, so that the key can be sent again without a second charge. */
  | { kind: "kept"; key: KeptKey; entry: Entry }
  /** A process is still working on the attempt. */
  | { kind: "alive"; attempt: string }
  | { kind: "no answer" }
  /** In a dry run: everything but the service's answer allows the key to be sent again. */
  | { kind: "not asked" }
  | { kind: "not kept"; why: string };

/**
 * Whether the key of an unclear row can be sent again. `attempts` are those that decide about the row, and
 * `isSame` whether its request is unchanged.
 */
export type FindRowKey = (attempts: readonly Entry[], isSame: (entry: Entry) => boolean) => Promise<RowKey>;

/** After this many requests with a key that got no answer, the key is not sent again. */
const maxUnansweredResends = 3;

/**
 * `known` are all known attempts at the service, dismissed ones too. A dry run neither watches processes on
 * other machines nor asks the service.
 */
export function createRowKeys(
  service: Service,
  known: readonly Entry[],
  { signal, isDryRun }: { signal: AbortSignal; isDryRun: boolean },
): FindRowKey {
  let isAnswering = true;
  return async (attempts, isSame) => {
    const unclear = attempts.filter(({ state }) => blocksRestart(state));
    const [first] = unclear;
    const keys = new Set(unclear.map(keyOf));
    const sharing = known.filter((entry) => keys.has(keyOf(entry)));
    const names = sharing.map(({ attempt }) => attempt);
    const alive = isDryRun ? undefined : await findAlive(names, service, signal);
    if (alive !== undefined) return { kind: "alive", attempt: alive };
    if (first === undefined || keys.size > 1) return { kind: "not kept", why: "it was sent with several keys" };
    if (unclear.some(({ id }) => id !== undefined)) return { kind: "not kept", why: "the service named a generation" };
    if (!isSame(first)) return { kind: "not kept", why: "its request has changed" };
    const firstSentAt = firstSendBy(service.account, sharing);
    if (firstSentAt === undefined)
      return { kind: "not kept", why: "it was sent with another API key, or it is unknown when" };
    if (wasTried(sharing)) return { kind: "not kept", why: "sending its key again did not help" };
    if (isDryRun) return { kind: "not asked" };
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

/** The error if nobody can say whether a row was charged, and whether its key can be sent again. */
export function noAnswerError(line: number): VidgenError {
  const message = `Line ${line} may have been charged, and the service does not answer whether it has the request. Nothing was sent.`;
  return new VidgenError("network", message, { hint: "Run the same command again later." });
}
