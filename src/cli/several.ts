import { type Attempt, handOver } from "../client/generation/attempt.ts";
import { asVidgenError, compareSeverity, type VidgenError } from "../errors.ts";
import { errorDocument, type Output } from "./terminal/output.ts";
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

type Failed = Outcome & { error: VidgenError };

/** Follows one of several generations to its end and prints it at once, or with `--json` at the end of the command. Never rejects. */
export async function followOne(
  attempt: Attempt,
  print: Omit<PrintOptions, "open" | "saveCommand">,
  context: DeliverContext,
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
    const error = reporter.stopped(id, thrown);
    return failedOutcome(error, { id, status: error.ended ?? reporter.statusOf(id) });
  }
}

/** The outcome of a generation that failed. */
export function failedOutcome(
  error: VidgenError,
  { id, label, status = null }: { id: string | undefined; label?: string; status?: string | null | undefined },
): Outcome {
  return { id, ...(label === undefined ? {} : { label }), document: { id, status, ...errorDocument(error) }, error };
}

/**
 * Ends a command of several generations: prints one array with `--json`, otherwise each error message once. Throws the worst error, with the hint
 * that `hintFor` returns for all failures.
 */
export async function endAll(
  outcomes: readonly Outcome[],
  output: Output,
  hintFor: (failed: readonly Failed[]) => string | undefined,
): Promise<void> {
  const unprinted = output.json ? await printAll(outcomes, output) : undefined;
  const failed = outcomes.filter((outcome): outcome is Failed => outcome.error !== undefined);
  const isSame = (a: VidgenError, b: VidgenError) => a.message === b.message && a.hint === b.hint;
  const distinct = failed.filter((one, i) => failed.findIndex(({ error }) => isSame(error, one.error)) === i);
  const errors = distinct.map(({ error }) => {
    const names = failed.filter((each) => isSame(each.error, error)).map(({ id, label = "" }) => id ?? label);
    return output.json ? error : error.about(names.join(", "));
  });
  const [worst, ...others] = [...errors, unprinted ?? []].flat().sort(compareSeverity);
  if (!worst) return;
  if (!output.json) for (const error of others) await output.fail(error);
  throw worst.with({ hint: hintFor(failed) }).with({ hint: worst === unprinted ? undefined : unprinted?.message });
}

/** Prints one array, and hands all over. If stdout cannot be written, returns the error with all ids, so that the results are not lost. */
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
