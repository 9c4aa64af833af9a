import type { Budget } from "../client/batch/costs.ts";
import { openSpending, type Spending } from "../client/batch/spending.ts";
import { close } from "../client/generation/attempt.ts";
import { findCharged } from "../client/generation/cost.ts";
import { entriesOfKey } from "../client/generation/service.ts";
import { type PaidStartOptions, startGeneration } from "../client/generation/start.ts";
import type { StartedEntry } from "../client/ledger/policy.ts";
import { type Charge, weightOf } from "../client/ledger/price.ts";
import { checkDoubt } from "../client/request/doubtful-prompt.ts";
import type { Services } from "../connect/services.ts";
import type { Session } from "../connect/session.ts";
import { beforePaying, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { createMutex } from "../mutex.ts";
import type { StartRequest } from "../protocol/schema.ts";

export type ToolStartOptions = {
  /** Starts a new generation even if the same request was started before, unless its key was used before. */
  again: boolean;
  /** The agent's key of the generation that it wants. Without `again` it only finds a generation. */
  requestKey?: string | undefined;
  /** The generation whose request is repeated, at the same service. */
  parent?: Pick<StartedEntry, "id" | "base_url"> | undefined;
  /** The id of the generation whose last frame the video starts with. */
  from?: string | undefined;
  /**
   * The error of a prompt that is probably not what was meant. An earlier attempt is resumed, or sent again
   * with its key, all the same.
   */
  doubt?: VidgenError | undefined;
  /** Aborts if the agent cancels the call, which has an effect only before the request is sent. */
  cancelled: AbortSignal;
};

export type ToolStart = {
  id: string;
  status: string;
  model: string;
  /** Whether an earlier call started the generation, so that nothing is charged now. */
  resumed: boolean;
  /** When it was started; ISO 8601, UTC. */
  started_at: string;
  remaining_credits: number | null;
  /** Whether it was charged, if stated. */
  charged?: Charge;
  /** What the service warns about. */
  warnings: readonly string[];
  session: Session;
};

type CreateStartsOptions = {
  /** What the session may spend. */
  budget: Budget;
  services: Pick<Services, "journal" | "open">;
  /** Aborts when the server ends; a request in flight gets 10 s more for its id. */
  ending: AbortSignal;
};

/**
 * Returns a function that starts generations for an agent, one at a time, so that the cost of each is known.
 * The same request within 24 hours returns the same generation. Throws `unknown` if it may have been charged,
 * `credits` at the budget, `pending` if a price is known only when another generation has ended, or as a
 * start does.
 */
export function createStarts({ services, budget, ending }: CreateStartsOptions, io: Io) {
  const inTurn = createMutex();
  /** What the session has spent at each service. */
  const spendings = new Map<string, Spending | undefined>();

  async function spendingAt({ service }: Session, signal: AbortSignal): Promise<Spending | undefined> {
    if (!spendings.has(service.baseUrl))
      spendings.set(service.baseUrl, await openSpending(service, budget, { signal }));
    return spendings.get(service.baseUrl);
  }

  /** The session of a start, what it has spent, and the options of the start. */
  async function openStart(request: StartRequest, options: ToolStartOptions) {
    const { again, requestKey, parent, from, doubt, cancelled } = options;
    const session = await services.open(parent?.base_url);
    const signal = AbortSignal.any([cancelled, ending]);
    signal.throwIfAborted();
    const spending = await spendingAt(session, signal);
    const mustWait = await spending?.mustWait(request);
    const check = (start: { isResend: boolean }) => {
      checkDoubt(doubt, start);
      if (mustWait) throw waitForPriceError(request);
      const overrun = spending?.check(request);
      if (overrun) throw overrun;
    };
    const onSending = () => {
      if (cancelled.aborted) throw beforePaying(cancelledError());
    };
    const earlier = again ? "again" : "reuse";
    const key = requestKey && `mcp:${requestKey}`;
    const isKeyed = again || (key !== undefined && (await isStartedWith(key, session)));
    const startOptions: PaidStartOptions = {
      earlier,
      idempotencyKey: isKeyed ? key : undefined,
      agent: { ending },
      origin: { parent: parent?.id, from },
      noWait: true,
      signal,
      abandon: io.abandon,
      check,
      onSending,
    };
    return { session, spending, startOptions };
  }

  async function startForAgent(request: StartRequest, options: ToolStartOptions): Promise<ToolStart> {
    const { session, spending, startOptions } = await openStart(request, options).catch((error) => {
      throw beforePaying(error);
    });
    const { model } = request;
    const outcome = await startGeneration(session.service, request, startOptions);
    if (outcome.kind !== "accepted" && outcome.kind !== "resumed") {
      if (outcome.kind === "unknown") spending?.unknown(outcome.key, request);
      throw outcome.error;
    }
    const { attempt } = outcome;
    const { id, at: started_at = "" } = attempt;
    try {
      const started = { id, model, started_at, ...(await findCharged(session.service, id)), session };
      if (outcome.kind === "resumed") {
        const { status, remaining_credits = null } = outcome.earlier;
        return { ...started, status, resumed: true, remaining_credits, warnings: [] };
      }
      const { generation, remaining_credits = null, warnings = [] } = outcome.started;
      spending?.started(outcome.key, request, outcome.started);
      return { ...started, status: generation.status, resumed: false, remaining_credits, warnings };
    } finally {
      await close(attempt);
    }
  }

  return (request: StartRequest, options: ToolStartOptions) => inTurn(() => startForAgent(request, options));
}

/** Whether a start with this key has, or may have, a generation at the service. */
async function isStartedWith(key: string, { service }: Session): Promise<boolean> {
  const entries = await entriesOfKey(service, key);
  return entries.some((entry) => !entry.dismissed && weightOf(entry) > 0);
}

/** The error if the budget needs a price that only the end of a running generation may show. */
function waitForPriceError({ model }: StartRequest): VidgenError {
  const message = `The price of ${model}, or of a generation that still runs, is unknown, and the session has a budget. Nothing was sent.`;
  const hint = "Call get_video until each running generation is completed, then call this again.";
  return new VidgenError("pending", message, { hint });
}

function cancelledError(): VidgenError {
  return new VidgenError("interrupted", "The call was cancelled.");
}
