import type { Budget } from "../client/batch/costs.ts";
import { handOverId, isGone } from "../client/generation/attempt.ts";
import { expectCost } from "../client/generation/cost.ts";
import { openTakes, type PaidStartOptions } from "../client/generation/start.ts";
import { hasContent } from "../client/ledger/content.ts";
import { type Entry, isPaidBy } from "../client/ledger/history.ts";
import { type Earlier, isTakeDone, type RunPosition } from "../client/ledger/policy.ts";
import { chargedOf } from "../client/ledger/price.ts";
import type { Session } from "../connect/session.ts";
import { asVidgenError, beforePaying, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import type { StartRequest } from "../protocol/schema.ts";
import type { Context } from "./context.ts";
import { type FollowedStart, printId, type StartContext, startAndReport, unsentError } from "./making.ts";
import { resumeHint } from "./resume.ts";
import { endAll, failedOutcome, followOne, type Outcome } from "./several.ts";
import type { StartCommand } from "./start-command.ts";
import type { Output } from "./terminal/output.ts";
import { askToStart, canAsk } from "./terminal/prompts.ts";
import { displayPath } from "./terminal/result.ts";

/** A command that starts generations, one for each request, with its service open. */
export type Takes = {
  command: StartCommand;
  session: Session;
  startOptions: PaidStartOptions & { earlier: Earlier };
};

/** The result of a take; while its generation is being followed, `outcome` is a promise. */
type TakeResult = {
  outcome: Outcome | Promise<Outcome>;
  /** Why the generation was not started. */
  failure?: VidgenError;
};

/**
 * Starts several generations one after the other, or resumes those of an interrupted run, and follows them
 * concurrently. A failed start ends the starts; if the service refused the request of a model, only those of
 * that model. Prints each result when it is ready, or with `--json` one array at the end. Throws the worst
 * error.
 */
export async function makeTakes(takes: Takes, context: StartContext): Promise<void> {
  const { command, session, startOptions } = takes;
  const { requests, completeRequests, budget, earlier } = command;
  const { reporter, flags, defer, io, output } = context;
  const throwUnsent = (error: unknown) => {
    throw beforePaying(error);
  };
  const run = await openTakes(session.service, requests, startOptions).catch(async (error) =>
    throwUnsent(await unsentError(error, takes, context)),
  );
  const hasModels = requests.some(({ model }) => model !== requests[0]?.model);
  defer(run.release);
  const isNew = (index: number) => run.positions[index]?.attempt === undefined;
  const newRequests = requests.filter((_, index) => isNew(index));
  if (newRequests.length > 0) await completeRequests?.(session).catch(throwUnsent);
  await confirmTakes(newRequests, takes, context).catch(throwUnsent);
  const { openSpending } = await import("../client/batch/spending.ts");
  // What earlier processes spent in this run counts too.
  const isOfThisRun = (entry: Entry) => entry.run === run.name;
  const spending = await openSpending(session.service, budget, { isOwn: isOfThisRun, signal: io.signal }).catch(
    throwUnsent,
  );
  const follow = async ({ attempt, document: extra, credits }: FollowedStart, doneAttempt: Entry | undefined) => {
    const outcome = await followOne(
      attempt,
      { outputPath: startOptions.save?.outputPath, extra, credits, output },
      { session, reporter, io, resume: flags },
    );
    // With another key, the service knows no video of the account that paid.
    const isDelivered = doneAttempt?.state === "delivered" && isPaidBy(session.service.account, doneAttempt);
    return isDelivered && outcome.error && isGone(outcome.error) ? printGone(doneAttempt, output) : outcome;
  };
  const outcomes: TakeResult["outcome"][] = [];
  /** Why the budget ended the starts. */
  let overrun: VidgenError | undefined;
  const makeTake = async (index: number, request: StartRequest): Promise<TakeResult> => {
    const { position, attempt: earlierAttempt } = run.positions[index] as RunPosition;
    const take = { run: run.name, position, count: requests.length };
    const { model } = request;
    const sameModel = requests.slice(0, index).filter((each) => each.model === model);
    // The number for `{n}` is counted within each model whose name is part of the path.
    const first = startOptions.save?.outputPath?.includes("{model}") ? sameModel.length + 1 : position;
    const check = () => {
      overrun ??= spending?.check(request);
      if (overrun) throw overrun;
    };
    let id = earlierAttempt?.id;
    const doneAttempt = earlierAttempt && isTakeDone(earlierAttempt) ? earlierAttempt : undefined;
    try {
      if (doneAttempt && (await hasResult(doneAttempt, flags, io)))
        return { outcome: await printEarlier(doneAttempt, context) };
      if (doneAttempt?.removed) return { outcome: printGone(doneAttempt, output) };
      if (!earlierAttempt && (await spending?.mustWait(request))) {
        await Promise.all(outcomes);
        if (await spending?.mustWait(request)) overrun = unpricedError(request);
      }
      const { origin, save } = startOptions;
      const complete = completeRequests && (async () => (await completeRequests(session))[index] as StartRequest);
      const takeOptions = { ...startOptions, origin: { ...origin, take }, save: { ...save, first }, check, complete };
      const started = await startAndReport({ session, request, startOptions: takeOptions }, context);
      id = started.attempt.id;
      if (started.accepted) spending?.started(started.accepted.key, request, started.accepted);
      return { outcome: flags.wait ? follow(started, doneAttempt) : await endWithId(started, session, context) };
    } catch (thrown) {
      const error = asVidgenError(thrown);
      // The thrown copy of `overrun` says that nothing was charged, which is not true of the earlier takes.
      const failure = error.code === "credits" && overrun ? overrun : error;
      const label = `${index + 1} of ${requests.length}${hasModels ? ` (${model})` : ""}`;
      const failed = failedOutcome(failure, { id: failure.id ?? id, label }, output);
      return {
        outcome: { ...failed, document: { model, ...failed.document } },
        // Without its file, a take that was delivered before stays done, and stops no other.
        ...(doneAttempt ? {} : { failure }),
      };
    }
  };
  let hasFailed = false;
  /** Models whose request the service refused. Other models may still be accepted. */
  const refusedModels = new Set<string>();
  let unstartedCount = 0;
  for (const [index, request] of requests.entries()) {
    if (isNew(index) && (hasFailed || refusedModels.has(request.model))) {
      unstartedCount++;
      continue;
    }
    const { outcome, failure } = await makeTake(index, request);
    outcomes.push(outcome);
    if (isNew(index) && failure && isUnstarted(failure)) unstartedCount++;
    if (failure?.code === "rejected") refusedModels.add(request.model);
    else hasFailed ||= failure !== undefined;
  }
  if (unstartedCount > 0)
    output.note(`${unstartedCount} of ${requests.length} ${unstartedCount === 1 ? "was" : "were"} not started.`);
  const endedOutcomes = await Promise.all(outcomes);
  const hasIntent = endedOutcomes.some(({ id, error }) => id !== undefined || error?.attempt !== undefined);
  const isAgain = earlier === "again" && hasIntent;
  const isFinished = await run.isDone();
  await endAll(endedOutcomes, output, (failed) =>
    isFinished ? findResumeSteps(failed, io) : findNextSteps(failed, { budget, overrun, isAgain, output }),
  );
}

type NextStepsOptions = {
  budget: Budget;
  overrun: VidgenError | undefined;
  /** Whether the command has --again, and an attempt of it is recorded. */
  isAgain: boolean;
  output: Pick<Output, "sameLine">;
};

/**
 * How to get the takes that are missing. The same command with --again would pay for all of them again.
 * Without --again, it resumes this run, or an older one if this run has started nothing; it would stop at an
 * unclear or lost attempt.
 */
function findNextSteps(
  failed: readonly { error: VidgenError }[],
  { budget, overrun, isAgain, output }: NextStepsOptions,
) {
  const blocking = failed.find(({ error: { code } }) => code === "unknown" || code === "not_found");
  if (blocking) return { next: blocking.error.next };
  const same = isAgain ? "the same command without --again" : "the same command";
  if (overrun?.hint !== undefined) return { hint: `Then run ${same} to get the rest.`, next: [] };
  if (overrun) return { hint: `Raise ${flagsOf(budget)}, then run ${same} to get the rest.`, next: [] };
  const hint = `Run ${same} to get the rest: what is running or finished is not paid for again.`;
  return { hint, next: output.sameLine({ hasIntent: isAgain }) };
}

/** How to get the files that are missing once all takes are done: the same command would start and pay for all of them again. */
function findResumeSteps(failed: readonly { error: VidgenError }[], io: Io) {
  const next = failed.flatMap(({ error }) => error.next ?? []);
  return { hint: next.map((each) => resumeHint(each, io)).join("\n"), next };
}

/** Asks once for all starts. */
async function confirmTakes(
  newRequests: readonly StartRequest[],
  { session, command: { origin } }: Takes,
  context: Context,
): Promise<void> {
  const { io } = context;
  if (origin.line?.isAnswered || newRequests.length === 0 || !canAsk(context, io)) return;
  await askToStart(newRequests.length, await expectCost(session.service, newRequests, io.signal), io);
}

/** The flags of the limits that are set, for a message. */
function flagsOf({ maxCredits, maxCost }: Budget): string {
  const flags = { "--max-credits": maxCredits, "--max-cost": maxCost };
  return Object.entries(flags)
    .flatMap(([flag, limit]) => (limit === undefined ? [] : flag))
    .join(" or ");
}

/**
 * The error if the price of a start stays unknown because this command does not wait for the generation that
 * would show the price.
 */
function unpricedError({ model }: StartRequest): VidgenError {
  return new VidgenError(
    "credits",
    `The price of ${model}, or of a generation that is still running, is unknown. Nothing more is started until the running generation has ended.`,
    { hint: "Wait for it with `vidgen wait --all`." },
  );
}

/** Whether an error means that nothing was started and nothing charged. */
function isUnstarted({ id, code }: VidgenError): boolean {
  return id === undefined && code !== "unknown";
}

/** Whether the result of a take that is done can be printed: its file still exists, or only its id is wanted. */
async function hasResult(
  { state, file, content }: Entry,
  { wait }: { wait: boolean },
  { disk }: Pick<Io, "disk">,
): Promise<boolean> {
  if (state !== "delivered") return !wait;
  return file !== undefined && content !== undefined && hasContent(file, content, disk);
}

async function printEarlier(earlierAttempt: Entry, { output, reporter }: Pick<StartContext, "output" | "reporter">) {
  const { id = "", attempt, request, file } = earlierAttempt;
  reporter.report({ event: "started", id, attempt, model: request.model, resumed: true });
  const shownPath = file === undefined ? undefined : displayPath(file);
  if (!output.json) await output.result(shownPath ?? id, undefined);
  output.note(shownPath === undefined ? `Already started: ${id}` : `Already saved: ${shownPath}`);
  const document = doneDocument(earlierAttempt, shownPath);
  if (file !== undefined)
    reporter.ended(id, { document, file: shownPath, videoUrl: "", durableUrl: undefined, isNew: false });
  return { id, document };
}

/** A take that was delivered, whose file is missing, and whose video the service no longer has: it stays done. */
function printGone(doneAttempt: Entry, output: Output): Outcome {
  const { id = "", file } = doneAttempt;
  const name = file === undefined ? id : `${id} (${displayPath(file)})`;
  output.note(`Already delivered: ${name}. Its video is no longer at the service.`);
  return { id, document: doneDocument(doneAttempt) };
}

function doneDocument(entry: Entry, file?: string): object {
  const { id, status, request } = entry;
  return { id, status, model: request.model, ...(file === undefined ? {} : { file }), charged: chargedOf(entry) };
}

/** The result of a started generation with `--no-wait`. */
async function endWithId(started: FollowedStart, session: Session, context: Context): Promise<Outcome> {
  const { attempt, document } = started;
  const { id } = attempt;
  if (context.output.json) return { id, document, handOver: () => handOverId(attempt) };
  await printId(started, session, context);
  return { id, document };
}
