import { type Budget, type Costs, checkBudget, createCosts } from "../client/batch/costs.ts";
import { close } from "../client/generation/attempt.ts";
import { findCharged } from "../client/generation/cost.ts";
import { listEntries } from "../client/generation/service.ts";
import { type PaidStartOptions, start as startGeneration } from "../client/generation/start.ts";
import type { StartedEntry } from "../client/ledger/policy.ts";
import type { Charge } from "../client/ledger/price.ts";
import { explainLocalCredits } from "../connect/local.ts";
import type { Services } from "../connect/services.ts";
import type { Session } from "../connect/session.ts";
import { beforePaying, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { createMutex } from "../mutex.ts";
import type { StartRequest } from "../protocol/schema.ts";

export type ToolStartOptions = {
  /** Starts a new generation even if the same request was started before. */
  again: boolean;
  /** The generation whose request it repeats, at the same service. */
  parent?: Pick<StartedEntry, "id" | "base_url"> | undefined;
  /** The id of the generation whose last frame it starts with. */
  from?: string | undefined;
  /** Aborts if the agent cancels the call: it has an effect only before the request is sent. */
  cancelled: AbortSignal;
};

export type ToolStart = {
  id: string;
  status: string;
  model: string;
  /** Whether an earlier call started it: nothing is charged now. */
  resumed: boolean;
  /** When it was started; ISO 8601, UTC. */
  started_at: string;
  remaining_credits: number | null;
  /** Whether it was charged, if stated. */
  charged?: Charge;
  session: Session;
};

type CreateStartsOptions = Pick<Budget, "maxCredits"> & {
  services: Pick<Services, "journal" | "open">;
  /** Aborts when the server ends; a request in flight gets 10 s more for its id. */
  ending: AbortSignal;
};

/**
 * Returns a function that starts generations for an agent, one at a time, so that the cost of each is known. The same request
 * within 24 hours returns the same generation. Throws `unknown` if it may have been charged, `credits` at the budget, or as a start does.
 */
export function createStarts({ services, maxCredits, ending }: CreateStartsOptions, io: Io) {
  const inTurn = createMutex();
  /** The costs at each service. */
  const costs = new Map<string, Costs>();

  async function costsAt({ service }: Session): Promise<Costs> {
    const known = costs.get(service.baseUrl);
    if (known) return known;
    const entries = maxCredits === undefined ? [] : await listEntries(service);
    const created = createCosts([], entries, { account: service.account, now: io.date() });
    costs.set(service.baseUrl, created);
    return created;
  }

  async function prepare(request: StartRequest, { again, parent, from, cancelled }: ToolStartOptions) {
    const session = await services.open(parent?.base_url);
    const costs = await costsAt(session);
    const check = () => {
      const overrun = checkBudget(request, { maxCredits }, costs);
      if (overrun) throw overrun;
    };
    const signal = AbortSignal.any([cancelled, ending]);
    signal.throwIfAborted();
    const onSending = () => {
      if (cancelled.aborted) throw beforePaying(cancelledError());
    };
    const sending = { sendSignal: ending, abandon: io.abandon, balance: costs.balance, onSending };
    const earlier = again ? "again" : "reuse";
    const how: PaidStartOptions = {
      earlier,
      mcp: true,
      noWait: true,
      parent: parent?.id,
      from,
      signal,
      check,
      ...sending,
    };
    return { session, costs, how };
  }

  async function start(request: StartRequest, options: ToolStartOptions): Promise<ToolStart> {
    const { session, costs, how } = await prepare(request, options).catch((error) => {
      throw beforePaying(error);
    });
    const { model } = request;
    const outcome = await startGeneration(session.service, request, how);
    if (outcome.kind !== "accepted" && outcome.kind !== "resumed") {
      if (outcome.kind === "unknown") costs.unknown(request);
      throw session.isLocal ? explainLocalCredits(outcome.error) : outcome.error;
    }
    const { attempt } = outcome;
    const { id, at: started_at = "" } = attempt;
    try {
      const charged = await findCharged(session.service, id);
      if (outcome.kind === "resumed") {
        const { status, remaining_credits = null } = outcome.earlier;
        return { id, status, model, resumed: true, started_at, remaining_credits, ...charged, session };
      }
      const { generation, remaining_credits = null } = outcome.started;
      costs.started(request, outcome.started);
      const { status } = generation;
      return { id, status, model, resumed: false, started_at, remaining_credits, ...charged, session };
    } finally {
      await close(attempt);
    }
  }

  return (request: StartRequest, options: ToolStartOptions) => inTurn(() => start(request, options));
}

function cancelledError(): VidgenError {
  return new VidgenError("interrupted", "The call was cancelled.");
}
