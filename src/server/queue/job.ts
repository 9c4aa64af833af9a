import type { Engine } from "../engines/engine.ts";
import type { RenderResult } from "../outcomes.ts";
import { retryForever } from "../retry-forever.ts";
import type { ServiceParts } from "../service-parts.ts";
import type { Claim } from "../store/claims.ts";
import { type EndOptions, endGeneration } from "./end.ts";
import { fetchAhead, loadTask, makeVideo, removeFiles } from "./make.ts";
import { canMake, type EngineSlots, type Slot } from "./slots.ts";

/** What to do with a claimed generation. */
export type Plan =
  | { kind: "make"; slot: Slot }
  /** Its images are fetched and stored; then it waits for a slot. */
  | { kind: "fetch" }
  /** An earlier process ended while it submitted the generation. */
  | { kind: "unclear" }
  | Extract<RenderResult, { kind: "failed" }>;

export type JobOptions = Omit<EndOptions, "confirm"> &
  Pick<ServiceParts, "onTaken"> & {
    allSlots: readonly EngineSlots[];
    /** Aborts when the generation was cancelled; `signal` aborts then, too. */
    cancelled: AbortSignal;
    /** Called with the time until the next try when the images of the generation could not be fetched. */
    onGivenBack(retryMs: number): void;
    /** Called when there may be room for another generation, because this one has ended or was accepted by its engine. */
    onRoom(): void;
  };

/** The delay before a generation that could not be finished is tried again. */
const retryMs = 2_000;

/**
 * Processes one generation: loads its request, fetches its images, has an engine make the video, and stores the end. The request is not kept in
 * memory, because it may have 28 MB and a job may take hours. Resolves with whether the generation has ended; if not, another process, or this one
 * later, resumes the generation. Never rejects.
 */
export async function runJob(claimed: Claim, plan: Plan, options: JobOptions): Promise<boolean> {
  const { id, lost, confirm } = claimed;
  const { store, signal, cancelled } = options;
  const claimOptions = { ...options, confirm };
  try {
    signal.throwIfAborted();
    const result = await make(claimed, plan, claimOptions);
    if (plan.kind !== "fetch") await removeFiles(id, { isMade: result.kind === "made" }, options);
    if (result.kind === "not submitted") {
      await store.release(id);
      if (plan.kind === "fetch" && result.retryAfterMs !== undefined) options.onGivenBack(result.retryAfterMs);
      return false;
    }
    const isEnded = await endGeneration(id, result, claimOptions);
    // Deleted upstream only after the end is stored.
    if (isEnded && result.kind === "made") await result.discard?.(signal);
    return true;
  } catch (error) {
    if (!signal.aborted) {
      options.reportProblem(`The generation ${id} could not be finished`, error);
      await options.clock.sleep(retryMs, signal).catch(() => {});
    }
    // The video file stays unless the generation was cancelled, because another process may be writing it.
    await removeFiles(id, { isMade: !cancelled.aborted }, options);
    if (!lost.aborted) await store.release(id).catch(() => {});
    return false;
  }
}

type ClaimOptions = JobOptions & Pick<Claim, "confirm">;

async function make(claimed: Claim, plan: Plan, options: ClaimOptions): Promise<RenderResult> {
  if (plan.kind === "failed") return plan;
  try {
    if (plan.kind === "fetch") return await fetchAhead(claimed, options);
    const task = await loadTask(claimed, options);
    if ("kind" in task) return task;
    // The checkpoint shows that it was not submitted after all, so it waits again.
    if (plan.kind === "unclear") return { kind: "not submitted", reason: "it was not submitted" };
    options.signal.throwIfAborted();
    return await render(task, { slot: plan.slot, claimed }, options);
  } finally {
    if (plan.kind === "make") plan.slot.free();
    options.onRoom();
  }
}

async function render(
  task: Parameters<typeof makeVideo>[0],
  { slot, claimed }: { slot: Slot; claimed: Claim },
  options: ClaimOptions,
): Promise<RenderResult> {
  const { id, account } = claimed;
  const { store, allSlots, onRoom } = options;
  const waitedMs = Math.max(0, options.clock.date().getTime() - Date.parse(task.created_at));
  let isTaken = claimed.engine !== null;
  const onTaken = () => {
    if (!isTaken) options.onTaken?.(task.request.model, waitedMs);
    isTaken = true;
  };
  const result = await makeVideo(task, slot.engine, {
    ...options,
    progress: (percent, node, fetching) => store.publish({ kind: "progress", id, percent, node, fetching, account }),
    onSubmitted() {
      slot.onTaken();
      onTaken();
      onRoom();
    },
    releaseSlot() {
      if (slot.free()) void retryForever(() => store.freeSlot(id), options).then(onRoom, () => {});
    },
  });
  if (result.kind !== "not submitted") onTaken();
  const refusesThisOne = slot.onResult(result);
  const refusedEverywhere = allSlots.every((each) => each.denied.has(id) || !canMake(each, claimed));
  if (result.kind !== "not submitted" || !refusesThisOne || !refusedEverywhere) return result;
  return deniedEnd(slot.engine, result);
}

/** Returns the end of a generation for which an engine refuses its key, although it accepts others with the same key. */
function deniedEnd({ name }: Engine, { reason }: Extract<RenderResult, { kind: "not submitted" }>): RenderResult {
  return {
    kind: "failed",
    error: `${name} refused this generation: ${reason}; nothing was submitted`,
    error_code: "auth",
    isNotSubmitted: true,
  };
}
