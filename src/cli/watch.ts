import { type Attempt, type Finished, finish, handOver } from "../client/generation/attempt.ts";
import { findCharged } from "../client/generation/cost.ts";
import type { Session } from "../connect/session.ts";
import type { Io } from "../io.ts";
import type { Reporter } from "./terminal/reporter.ts";
import { type PrintOptions, printResult, type Result, resultOf } from "./terminal/result.ts";
import { noteFirstSaved } from "./unsaved.ts";

type WatchContext = { session: Session; reporter: Reporter };

export type DeliverContext = WatchContext & { io: Io };

/** Shows what happens to a generation until it has ended. Throws as `finish` does. */
export async function watch(attempt: Attempt, { session, reporter }: WatchContext): Promise<Finished> {
  const { show, report } = reporter;
  const { id, file } = attempt;
  try {
    const typical = await session.findTypicalTime(id);
    const { isLocal, isPreview } = session.service;
    // Until the first status, nobody knows whether an engine of the local service has accepted it.
    const isQueued = isLocal && typical.model !== undefined && isPreview(typical.model) === false;
    if (file === undefined) show({ event: "following", id, ...typical, isQueued });
    const finished = await finish(attempt, {
      state(status, percent, node) {
        show({ event: "percent", id, percent, node });
        report({ event: "state", id, status });
      },
      outage: (reason) => show({ event: "outage", id, reason }),
      progress: (received, total) => report({ event: "progress", id, received, total: total ?? null }),
    });
    await session.addInfoFile(finished);
    return finished;
  } catch (error) {
    throw await session.explainNotFound(error, id);
  } finally {
    show({ event: "left", id });
  }
}

/** The result of a run that ended without an error; its document also says whether it was charged. Throws as `resultOf` does. */
export async function readResult(
  finished: Finished,
  session: Session,
  output: PrintOptions["output"],
): Promise<Result> {
  const result = resultOf(finished, session, output);
  return {
    ...result,
    document: { ...result.document, ...(await findCharged(session.service, finished.of.id, result.cost)) },
  };
}

/** Prints the result of a generation, reports its end, and hands it over once it is written to stdout. Returns its document. */
export async function deliver(finished: Finished, print: PrintOptions, context: DeliverContext): Promise<object> {
  const { session, reporter, io } = context;
  const result = await readResult(finished, session, print.output);
  await printResult(result, print, io);
  reporter.ended(finished.of.id, result);
  await print.output.printed();
  await handOver(finished);
  const isSaved = result.isNew && result.file !== undefined && print.outputPath !== "-";
  if (isSaved) await noteFirstSaved(finished.of.id, { journal: session.service.journal, io, output: print.output });
  return result.document;
}
