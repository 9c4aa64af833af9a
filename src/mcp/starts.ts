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
  /** Starts a new generation whatever was started before. */
  again: boolean;
  /** The generation whose request it repeats, at the service of that. */
  parent?: Pick<StartedEntry, "id" | "base_url"> | undefined;
  /** The id of the generation whose last frame it begins with. */
  from?: string | undefined;
  /** Aborts when the agent has cancelled the call: before the request goes out nothing is sent, after that it has no effect. */
  cancelled: AbortSignal;
};

export type Start = {
  id: string;
  status: string;
  model: string;
  /** Whether an earlier call has started it: nothing is charged now. */
  resumed: boolean;
  /** When it was started; ISO 8601, UTC. */
  started_at: string;
  remaining_credits: number | null;
  /** Whether it was charged, where that was stated. */
  charged?: Charge;
  session: Session;
};

type Starting = Pick<Budget, "maxCredits"> & {
  services: Pick<Services, "journal" | "open">;
  /** Aborts when the server ends; a request that is out gets 10 s more for its id. */
  ending: AbortSignal;
};

/**
 * Returns the function that starts generations for an agent, one after the other, so that the cost of each is known. The same request
 * within 24 hours gives the same generation. Throws `unknown` when it may have been charged, `credits` at the budget, or as a start does.
 */
export function createStarts({ services, maxCredits, ending }: Starting, io: Io) {
  const inTurn = createMutex();
  /** By service: credits of one tell nothing of another. */
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

  async function start(request: StartRequest, options: ToolStartOptions): Promise<Start> {
    const { session, costs, how } = await prepare(request, options).catch((error) => {
      throw beforePaying(error);
    });
    const { model } = request;
    const made = await startGeneration(session.service, request, how);
    if (made.kind !== "accepted" && made.kind !== "resumed") {
      if (made.kind === "unknown") costs.unknown(request);
      throw session.isLocal ? explainLocalCredits(made.error) : made.error;
    }
    const { attempt } = made;
    const { id, at: started_at = "" } = attempt;
    try {
      const charged = await findCharged(session.service, id);
      if (made.kind === "resumed") {
        const { status, remaining_credits = null } = made.earlier;
        return { id, status, model, resumed: true, started_at, remaining_credits, ...charged, session };
      }
      const { generation, remaining_credits = null } = made.started;
      costs.started(request, made.started);
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
