import * as z from "zod";
import { VidgenError } from "../../errors.ts";
import { cancelledError, isCancelledError } from "../../protocol/schema.ts";
import { newDelivery } from "../callbacks/delivery.ts";
import type { Engine } from "../engines/engine.ts";
import { describe } from "../engines/upstream/upstream.ts";
import { refuse } from "../http/message.ts";
import { isRefunded } from "../queue/end.ts";
import { removeImages } from "../queue/image-fetch.ts";
import type { Queue } from "../queue/queue.ts";
import type { ServiceParts } from "../service-parts.ts";
import { statusBody } from "../status-body.ts";
import { sumPayments } from "../store/accounts.ts";
import type { GenerationEnd, StoredGeneration } from "../store/generations.ts";
import { named, parameters, type Route, refusal, reply } from "./openapi/operation.ts";
import { findOwnGeneration, notFound, ownersAccount, ownId } from "./own-generation.ts";
import { generationSchema, processingExample } from "./status.ts";

export type CancelOptions = Pick<
  ServiceParts,
  "store" | "videos" | "engines" | "clock" | "hasRefunds" | "mediaUrl" | "onEnd"
> & { queue: Pick<Queue, "engineOf" | "missingEngines"> };

/** How long an engine may take to stop a job. */
const engineLimitMs = 90_000;

/** An attempt fails if the generation is submitted, or ends, after it was read. */
const maxAttempts = 3;

const cancelledSchema = named("Cancelled", { ...generationSchema.shape, credits_returned: z.number() });

/** POST /api/cancel?id=, which other services need not have: ends a generation as `cancelGeneration` does. */
export function createCancelRoute(options: CancelOptions): Route {
  return {
    operationId: "cancel",
    summary: "Cancels a generation: it ends as failed, and its credits are returned",
    description:
      "An engine that is already working on it is asked to stop. If the engine cannot, the reply is 409, and the generation continues. The same request again gets the same reply.",
    parameters: [...parameters("query", ownId), ...ownersAccount],
    responses: {
      200: reply("It is cancelled, now or before", cancelledSchema, {
        ...processingExample,
        status: "failed",
        error: cancelledError,
        credits_returned: 10,
      }),
      ...notFound,
      ...refusal(409, "already_ended", "not cancelled: it has completed"),
    },
    async handle(c) {
      const generation = await cancelGeneration(() => findOwnGeneration(c, options.store), options);
      const entries = await options.store.ledger({ generation: generation.id, limit: 10 });
      const { returned } = sumPayments(entries);
      return c.json({ ...statusBody(generation, options.mediaUrl()), credits_returned: returned });
    },
  };
}

/**
 * Ends the generation that `find` reads as `failed`, with the error "cancelled", and returns its credits. Throws a 409, and changes nothing, if it
 * cannot be stopped. Resolves with the same generation if it was cancelled before.
 */
export async function cancelGeneration(
  find: () => Promise<StoredGeneration>,
  options: CancelOptions,
): Promise<StoredGeneration> {
  let isStopped = false;
  for (let attempts = 0; attempts < maxAttempts; attempts++) {
    const generation = await find();
    const { status, error } = generation;
    if (status === "failed" && (isStopped || isCancelledError(error))) return generation;
    if (status !== "processing") {
      const how = status === "failed" ? `failed: ${error}` : "completed";
      throw refuse(409, "already_ended", `not cancelled: it has ${how}`);
    }
    const lost = findLost(generation, options);
    const engine = lost ?? (await stopUpstream(generation, options));
    isStopped ||= engine !== null;
    const isNotSubmitted = generation.checkpoint === null;
    const refund = isRefunded({ kind: "cancelled", isNotSubmitted }, options);
    const how = lost === undefined ? { error: cancelledError, isRefunded: refund } : unclearEnd(lost);
    await endUnmade(generation, { ...how, engine }, options);
  }
  throw refuseCancel("it has just been started");
}

/** How a generation ends that is not made; `engine` is the engine that has stopped making it. */
type Unmade = Pick<GenerationEnd, "error" | "error_code" | "isRefunded"> & { engine: string | null };

/** Ends a generation as failed, without a video. Resolves with whether it did: not if it has been submitted, or has ended, since it was read. */
export async function endUnmade(
  generation: StoredGeneration,
  { engine, ...why }: Unmade,
  options: Pick<ServiceParts, "mediaUrl" | "onEnd"> & {
    store: Pick<ServiceParts["store"], "cancel">;
    videos: Pick<ServiceParts["videos"], "remove">;
    clock: Pick<ServiceParts["clock"], "date">;
  },
): Promise<boolean> {
  const date = options.clock.date();
  const end: GenerationEnd = { status: "failed", ...why, media: null, cost: null, completed_at: date.toISOString() };
  const ended = { ...generation, ...end };
  const delivery = newDelivery(ended, options.mediaUrl(), date);
  if (!(await options.store.cancel(generation.id, { end, engine, delivery }))) return false;
  await removeImages(generation.imageFetch, options);
  options.onEnd?.({ generation: ended, reason: end.error_code ?? "cancelled", isRefunded: end.isRefunded });
  return true;
}

/**
 * Returns the engine that a generation was submitted to if no process uses the engine any longer. The generation then cannot be stopped there, and
 * may be charged.
 */
export function findLost(
  { checkpoint }: Pick<StoredGeneration, "checkpoint">,
  { queue }: Pick<CancelOptions, "queue">,
): string | undefined {
  const isBegun = checkpoint !== null && !["rendering", "submitting"].includes(checkpoint.state);
  return isBegun && queue.missingEngines().includes(checkpoint.engine) ? checkpoint.engine : undefined;
}

function unclearEnd(engine: string) {
  const error = `${cancelledError} while it waited for ${engine}, which may have generated this video`;
  return { error, error_code: "unclear" as const, isRefunded: false };
}

/** Returns why an unfinished generation certainly cannot be cancelled now; `undefined` if cancelling can be tried. An engine may still refuse. */
export function findCancelFault(
  { checkpoint }: Pick<StoredGeneration, "checkpoint">,
  options: Pick<CancelOptions, "engines" | "queue">,
): string | undefined {
  if (findLost({ checkpoint }, options) !== undefined) return undefined;
  if (checkpoint?.state === "submitting" || checkpoint?.state === "unconfirmed")
    return `it is being submitted to ${checkpoint.engine}`;
  if (checkpoint?.state === "saved" || checkpoint?.state === "finished") return "its video was generated";
  if (checkpoint?.state !== "submitted") return undefined;
  const engine = findEngine(checkpoint.engine, options);
  if (!engine) return `it was submitted to ${checkpoint.engine}, which this process does not have`;
  return engine.cancel ? undefined : cannotStop(engine);
}

function findEngine(name: string, { engines, queue }: Pick<CancelOptions, "engines" | "queue">): Engine | undefined {
  return engines.find((each) => each.name === name) ?? queue.engineOf(name);
}

function cannotStop({ name }: Pick<Engine, "name">): string {
  return `${name} cannot stop it`;
}

/** Stops a generation at its engine, and resolves with the name of the engine; with `null` if the generation was not submitted. */
async function stopUpstream(
  { checkpoint }: Pick<StoredGeneration, "checkpoint">,
  options: Pick<CancelOptions, "engines" | "queue" | "clock">,
): Promise<string | null> {
  const fault = findCancelFault({ checkpoint }, options);
  if (fault !== undefined) throw refuseCancel(fault);
  if (checkpoint?.state !== "submitted") return null;
  const { engine: name, job } = checkpoint;
  // Continues when the client disconnects, because a job that is stopped there must end here, too.
  const limit = options.clock.limit(engineLimitMs, new AbortController().signal, new Error("no response in time"));
  const why = await stopJob(findEngine(name, options), job, limit.signal).finally(limit.clear);
  if (why !== undefined) throw refuseCancel(why);
  return name;
}

/** Resolves with the reason if the job continues. */
async function stopJob(engine: Engine | undefined, job: string, signal: AbortSignal): Promise<string | undefined> {
  const { name = "its engine", cancel } = engine ?? {};
  try {
    return (await cancel?.(job, signal)) ? undefined : cannotStop({ name });
  } catch (error) {
    if (error instanceof VidgenError && error.code === "pending") return `${name}: ${error.message}`;
    return `${name} could not be asked to stop it (${describe(error)})`;
  }
}

function refuseCancel(why: string) {
  return refuse(409, "not_cancellable", `not cancelled: ${why}; the generation continues`);
}
