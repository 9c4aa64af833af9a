import { type Attempt, close, handOverId } from "../client/generation/attempt.ts";
import { countsCredits } from "../client/generation/cost.ts";
import { type PaidStartOptions, type StartedAttempt, startGeneration } from "../client/generation/start.ts";
import { chargedOf } from "../client/ledger/price.ts";
import { isSameService } from "../client/ledger/same-service.ts";
import { findStarted } from "../client/ledger/search.ts";
import { isExistsError } from "../client/save/files.ts";
import { formatAge, formatCost } from "../connect/format.ts";
import type { Session } from "../connect/session.ts";
import { asVidgenError, type VidgenError } from "../errors.ts";
import type { AcceptedStart, StartRequest } from "../protocol/schema.ts";
import { countCredits, formatNumber } from "../protocol/text.ts";
import type { Context } from "./context.ts";
import { withResume, withResumeHint } from "./resume.ts";
import type { StartFlags } from "./start-flags.ts";
import { showStart } from "./terminal/progress.ts";
import type { Reporter } from "./terminal/reporter.ts";
import { earlierDocument } from "./terminal/result.ts";

export type StartContext = Context & { flags: StartFlags; reporter: Reporter };

/** The parameters of a start. */
export type PreparedStart = {
  session: Session;
  request: StartRequest;
  startOptions: PaidStartOptions;
};

/** A generation to follow, started now or earlier. */
export type FollowedStart = {
  attempt: Attempt;
  /** Its fields for `--json`. */
  document: object;
  /** What it cost, if known. */
  credits?: number | undefined;
  /** The answer, if it was started now. */
  accepted?: AcceptedStart & { key: string };
};

/** Sends the request, or finds the generation to resume, and prints the id as soon as it is known. */
export async function startAndReport(prepared: PreparedStart, context: StartContext): Promise<FollowedStart> {
  const { session, request, startOptions } = prepared;
  const { io, output, reporter, flags, defer } = context;
  let stopShowing = () => {};
  const onSending = () => {
    stopShowing = showStart(output, io);
  };
  const started = await startGeneration(session.service, request, { ...startOptions, onSending })
    .finally(() => stopShowing())
    .catch(async (error) => {
      throw await unsentError(error, prepared, context);
    });
  if (started.kind === "accepted" || started.kind === "resumed") {
    defer(() => close(started.attempt));
    return started.kind === "accepted"
      ? reportStarted(started, prepared, context)
      : reportResumed(started, prepared, context);
  }
  const { kind, error } = started;
  const { id } = error;
  const mayHaveVideo = kind === "unknown" && id !== undefined;
  const resume = { ...flags, outputPath: startOptions.save?.outputPath };
  const resumable = mayHaveVideo ? withResume(error, id, resume, io) : error;
  reporter.notStarted(kind, resumable);
  throw resumable;
}

/**
 * The error of a start that has sent no request. If it names an earlier generation, adds its id and the
 * command that takes its video, at the service that has it.
 */
export async function unsentError(
  thrown: unknown,
  { startOptions, session }: Pick<PreparedStart, "startOptions" | "session">,
  { io, reporter, flags }: StartContext,
): Promise<VidgenError> {
  const error = asVidgenError(thrown);
  const { id, code } = error;
  if (id === undefined) return error;
  const { name, journal } = session.service;
  const entry = await findStarted(journal, id).catch(() => undefined);
  const isElsewhere = entry !== undefined && !isSameService(entry.base_url, name);
  const service = isElsewhere ? { baseUrl: entry.base_url } : {};
  const resume = { ...flags, ...service, outputPath: startOptions.save?.outputPath };
  // The hints of these errors already say what to do.
  if (code === "unknown" || code === "not_found" || code === "usage") return withResume(error, id, resume, io);
  // The same -o would fail again.
  const stopped = isExistsError(error) ? error : withResumeHint(error, id, resume, io);
  reporter.stopped(id, stopped);
  return stopped;
}

function reportStarted(
  { attempt, started, key }: StartedAttempt & { kind: "accepted" },
  { session, request }: PreparedStart,
  { output, reporter }: StartContext,
): FollowedStart {
  const { id } = attempt;
  const { generation, credits_charged, remaining_credits, balance_fell, warnings } = started;
  const isPriced = countsCredits(session.service, request.model);
  const credits = isPriced ? credits_charged : undefined;
  const costs = { model: request.model, resumed: false, remaining_credits, credits, balance_fell, warnings };
  reporter.report({ event: "started", id, attempt: attempt.attempt, ...costs });
  const is_preview = session.service.isPreview(request.model);
  const cost = isPriced ? priceText(started) : localText(request.model, session);
  // The generation is in the local service's queue; an engine may never get it.
  const isQueued = session.service.isLocal && is_preview === false;
  const preview = `Started a preview, drawn on this machine (no ${request.model} video): ${id}${isPriced ? cost : ""}.`;
  output.note(is_preview ? preview : `${isQueued ? "Queued" : "Started"} ${id} (${request.model}${cost}).`);
  const charged = chargedOf({ base_url: session.service.name, credits: credits_charged, is_preview });
  const document = { ...generation, credits_charged, remaining_credits, charged, warnings };
  return { attempt, document, credits, accepted: { ...started, key } };
}

function reportResumed(
  { attempt, earlier }: StartedAttempt & { kind: "resumed" },
  { startOptions }: PreparedStart,
  { io, output, reporter }: StartContext,
): FollowedStart {
  const { id, file } = attempt;
  reporter.report({ event: "started", id, attempt: attempt.attempt, model: earlier.request.model, resumed: true });
  const outcome = startOptions.earlier === "reuse" ? "nothing is charged" : "--again starts a new one";
  if (file === undefined) output.note(`Resuming ${id}, started ${formatAge(earlier, io)} ago; ${outcome}.`);
  const document = { ...earlierDocument(earlier), charged: chargedOf(earlier) };
  return { attempt, document };
}

/**
 * The text about the price, if the service states one. A fall of the balance is shown as such, because others
 * may have spent too.
 */
function priceText({ credits_charged, remaining_credits, balance_fell = 0 }: AcceptedStart): string {
  const price = formatCost({ credits: credits_charged });
  const balanceText = remaining_credits === undefined ? "" : `, ${countCredits(remaining_credits)} left`;
  if (price !== undefined) return `, ${price}${balanceText}`;
  return balance_fell > 0 ? `${balanceText}; the balance fell by ${formatNumber(balance_fell)}` : balanceText;
}

/** A preview is free, but the video of another engine may cost money elsewhere. The service decides, not a flag. */
function localText(model: string, { service, enginesFor }: Session): string {
  if (service.isFree(model)) return ", free";
  const engines = enginesFor(model);
  return engines.length === 0 ? "" : `, by ${engines.join(" ")}`;
}

/** `--no-wait`: prints the id. A Ctrl-C during the request takes effect here. */
export async function printId(
  { attempt, document }: FollowedStart,
  { service }: Session,
  { io, output }: Pick<Context, "io" | "output">,
): Promise<void> {
  const { id } = attempt;
  await output.result(id, document);
  await output.printed();
  // The id is now on stdout.
  await handOverId(attempt);
  if (service.isInProcess())
    output.note(`It is rendered when you run vidgen wait ${id}, or while vidgen serve is running.`);
  io.signal.throwIfAborted();
}
