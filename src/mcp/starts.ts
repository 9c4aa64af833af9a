import { type Budget, type Costs, checkBudget, createCosts } from "../client/batch/costs.ts";
import { type RunOptions, run } from "../client/generation/run.ts";
import type { StartedEntry } from "../client/ledger/policy.ts";
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

  async function costsAt({ client }: Session): Promise<Costs> {
    const known = costs.get(client.baseUrl);
    if (known) return known;
    const entries = maxCredits === undefined ? [] : await client.entries();
    const created = createCosts([], entries, { account: client.account, now: io.date() });
    costs.set(client.baseUrl, created);
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
    const sending = { sendSignal: ending, leave: io.leave, balance: costs.balance };
    const earlier = again ? "again" : "reuse";
    const how: RunOptions = { earlier, mcp: true, noWait: true, parent: parent?.id, from, signal, check, ...sending };
    return { session, costs, events: run(request, how, session.client) };
  }

  async function start(request: StartRequest, options: ToolStartOptions): Promise<Start> {
    const { session, costs, events } = await prepare(request, options).catch((error) => {
      throw beforePaying(error);
    });
    const { model } = request;
    for await (const event of events) {
      if (event.event === "sending" && options.cancelled.aborted) throw beforePaying(cancelledError());
      if (event.event === "resumed") {
        const { id, at: started_at, earlier } = event;
        const { status, remaining_credits = null } = earlier;
        return { id, status, model, resumed: true, started_at, remaining_credits, session };
      }
      if (event.event === "accepted") {
        const { id, at: started_at, started } = event;
        const { generation, remaining_credits = null } = started;
        costs.started(request, started);
        return { id, status: generation.status, model, resumed: false, started_at, remaining_credits, session };
      }
      if (event.event !== "ended" || !event.error) continue;
      if (event.status === "unknown") costs.unknown(request);
      throw session.isLocal ? explainLocalCredits(event.error) : event.error;
    }
    throw new Error("a start ends with an id or an error");
  }

  return (request: StartRequest, options: ToolStartOptions) => inTurn(() => start(request, options));
}

function cancelledError(): VidgenError {
  return new VidgenError("interrupted", "The call was cancelled.");
}
