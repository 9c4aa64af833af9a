import { type Attempt, handOver } from "../client/generation/attempt.ts";
import { asVidgenError, compareSeverity, type ErrorCharge, type NextCommand, VidgenError } from "../errors.ts";
import { type ResumeHintOptions, withResume } from "./resume.ts";
import type { Output } from "./terminal/output.ts";
import type { PrintOptions } from "./terminal/result.ts";
import { type DeliverContext, deliver, readResult, watch } from "./watch.ts";

/** How one of several generations of a command ended. */
export type Outcome = {
  /** `undefined` for a start without an id. */
  id: string | undefined;
  /** Its name in messages if it has no id. */
  label?: string;
  /** Its element of the `--json` array. */
  document: object;
  error?: VidgenError | undefined;
  /** Called once it is written to stdout. */
  handOver?(): Promise<void>;
};

type FailedOutcome = Outcome & { error: VidgenError };

/** `resume` has the flags for the command that resumes the generation. */
type FollowContext = DeliverContext & { resume: Omit<ResumeHintOptions, "outputPath"> };

/**
 * Follows one of several generations to its end and prints it at once, or with `--json` at the end of the
 * command. Never rejects.
 */
export async function followOne(
  attempt: Attempt,
  print: Omit<PrintOptions, "open" | "saveCommand">,
  context: FollowContext,
): Promise<Outcome> {
  const { id } = attempt;
  const { output, extra } = print;
  const { session, reporter } = context;
  try {
    const finished = await watch(attempt, context);
    if (!output.json) {
      const document = await deliver(finished, { ...print, open: false }, context);
      return { id, document: { ...extra, ...document } };
    }
    const result = await readResult(finished, session, output);
    reporter.ended(id, result);
    return { id, document: { ...extra, ...result.document }, handOver: () => handOver(finished) };
  } catch (thrown) {
    const { outputPath } = attempt;
    const error = withResume(asVidgenError(thrown), id, { ...context.resume, outputPath }, context.io);
    reporter.stopped(id, error);
    return failedOutcome(error, { id, status: error.ended ?? reporter.statusOf(id) }, output);
  }
}

/** The outcome of a generation that failed. */
export function failedOutcome(
  error: VidgenError,
  { id, label, status = null }: { id: string | undefined; label?: string; status?: string | null | undefined },
  { errorDocument }: Pick<Output, "errorDocument">,
): Outcome {
  return { id, ...(label === undefined ? {} : { label }), document: { id, status, ...errorDocument(error) }, error };
}

/** What to do next after a command of several generations, for a person and for a program. */
type NextSteps = { hint?: string | undefined; next?: readonly NextCommand[] | undefined };

/**
 * Ends a command of several generations: prints one array with `--json`, otherwise each error message once.
 * Throws the worst error, with the next steps that `findNextSteps` returns for all failures.
 */
export async function endAll(
  outcomes: readonly Outcome[],
  output: Output,
  findNextSteps: (failed: readonly FailedOutcome[]) => NextSteps,
): Promise<void> {
  const printError = output.json ? await printAll(outcomes, output) : undefined;
  const failed = outcomes.filter((outcome): outcome is FailedOutcome => outcome.error !== undefined);
  const isSame = (a: VidgenError, b: VidgenError) => a.message === b.message && a.hint === b.hint;
  const distinctFailures = failed.filter((one, i) => failed.findIndex(({ error }) => isSame(error, one.error)) === i);
  const errors = distinctFailures.map(({ error }) => {
    const names = failed.filter((each) => isSame(each.error, error)).map(({ id, label = "" }) => id ?? label);
    return output.json ? error : error.about(names.join(", "));
  });
  const [worst, ...otherErrors] = [...errors, printError ?? []].flat().sort(compareSeverity);
  if (!worst) return;
  if (!output.json) for (const error of otherErrors) await output.fail(error);
  const { hint, next } = findNextSteps(failed);
  const { code, message } = worst;
  throw new VidgenError(code, message, { ...worst, charged: chargeOfAll(outcomes), next, cause: worst.cause })
    .with({ hint })
    .with({ hint: worst === printError ? undefined : printError?.message });
}

/** Whether any of them was, or may have been, charged; `undefined` if none was, as far as is known, but not all are known. */
function chargeOfAll(outcomes: readonly Outcome[]): ErrorCharge | undefined {
  const charges = outcomes.map(({ document, error }) =>
    error === undefined ? (document as { charged?: ErrorCharge }).charged : error.charged,
  );
  return (
    (["maybe", "yes"] as const).find((each) => charges.includes(each)) ??
    (charges.includes(undefined) ? undefined : "no")
  );
}

/**
 * Prints one array, and hands all over. If stdout cannot be written, returns the error with all ids, so that
 * the results are not lost.
 */
async function printAll(outcomes: readonly Outcome[], output: Output): Promise<VidgenError | undefined> {
  const documents = outcomes.map(({ document }) => document);
  try {
    await output.result("", documents);
    await output.printed();
  } catch (error) {
    return asVidgenError(error).about(outcomes.flatMap(({ id }) => id ?? []).join(", "));
  }
  for (const { handOver } of outcomes) await handOver?.();
  return undefined;
}
