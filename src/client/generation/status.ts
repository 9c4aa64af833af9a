import { asVidgenError } from "../../errors.ts";
import { cancelledError, readCost, type WireGeneration } from "../../protocol/schema.ts";
import { type AttemptEvent, nextState } from "../ledger/attempt.ts";
import { hasContent } from "../ledger/content.ts";
import { isPaidBy, type JournalLine } from "../ledger/history.ts";
import { removeLeftovers } from "../save/claim.ts";
import { hasInfo, writeInfo } from "../save/info.ts";
import { explainNotFound, failureLine, findInfo, recordFound } from "./attempt.ts";
import { askToCancel, type Cancelled } from "./cancel.ts";
import { failedError } from "./follow.ts";
import { pollUntilAnswered } from "./poll.ts";
import { entriesOf, explainRefusal, findEntry, record, type Service } from "./service.ts";

type WithSignal = { signal: AbortSignal };

/**
 * Polls a generation, retries for up to 30 s without an answer, and records an end that the journal does not
 * have. Rejects as `pollUntilAnswered` does.
 */
export async function readStatus(service: Service, id: string, { signal }: WithSignal): Promise<WireGeneration> {
  const { api, account, journal, unfollowed, note, io } = service;
  const entry = await findEntry(service, id);
  const generation = await pollUntilAnswered(api, id, io, signal, note).catch(async (thrown) => {
    const error = explainRefusal(service, asVidgenError(thrown));
    const isOtherAccount = entry !== undefined && !isPaidBy(account, entry);
    // A single 404 is not enough to record the generation as lost.
    throw isOtherAccount || entry?.removed ? await explainNotFound(service, error, id, entry) : error;
  });
  const { status } = generation;
  if (status !== "completed" && status !== "failed") {
    await recordFound(service, id, entry);
    return generation;
  }
  if (entry === undefined) return generation;
  const line: JournalLine & { kind: AttemptEvent } =
    status === "completed"
      ? { kind: status, id, cost: readCost(generation) }
      : failureLine(id, failedError(id, generation), generation);
  // The journal may already have the end of the generation.
  if (nextState(entry.state, line.kind) === entry.state) return generation;
  await journal.append(line).catch(() => {});
  if (line.kind === "failed") await removeLeftovers(entry, service);
  unfollowed.delete(id);
  return generation;
}

/**
 * Cancels a generation, if its service can, and records it as failed. `wasCancelled` is set if the journal
 * already had that end. Rejects as `askToCancel` does.
 */
export async function cancelGeneration(
  service: Service,
  id: string,
  { signal }: WithSignal,
): Promise<Cancelled & { wasCancelled: boolean }> {
  const entry = await findEntry(service, id);
  const wasCancelled = entry?.status === "failed";
  const pollStatus = () => readStatus(service, id, { signal });
  const cancelled = await askToCancel(service.api, id, { signal, poll: pollStatus }, service.io);
  if (!wasCancelled) await record(service, { kind: "failed", id, reason: cancelledError });
  if (entry) await removeLeftovers(entry, service);
  service.unfollowed.delete(id);
  return { ...cancelled, wasCancelled };
}

/**
 * The file, if the video of a generation is already saved where `outputPath` would save it. Changes nothing.
 * Throws `output` if the journal cannot be read.
 */
export async function findSaved(service: Service, id: string, outputPath: string): Promise<string | undefined> {
  const entry = service.unfollowed.get(id) ?? (await entriesOf(service, id))[0];
  return entry && service.targets.findSaved({ ...entry, id }, outputPath);
}

/**
 * The file in which the video of a generation was saved, wherever that is; `undefined` unless it still has
 * the recorded content.
 */
export async function findSavedFile(service: Service, id: string): Promise<string | undefined> {
  const { file, content } = (await findEntry(service, id)) ?? {};
  if (file === undefined || content === undefined) return undefined;
  return (await hasContent(file, content, service.io.disk)) ? file : undefined;
}

/** Records where a video was found, unless the journal has a file of it. Never rejects. */
export async function recordSaved(service: Service, id: string, file: string): Promise<void> {
  const entry = await findEntry(service, id);
  if (entry) await service.targets.recordSaved({ ...entry, id }, file);
}

/**
 * Writes the missing info file of a saved video; only from the journal if `asksService` is `false`. Returns
 * `false` if the service was asked and did not answer. Rejects with `output` or the signal's reason.
 */
export async function addInfo(
  service: Service,
  id: string,
  file: string,
  { signal, asksService = true }: WithSignal & { asksService?: boolean },
): Promise<boolean> {
  const { api, redact, note, io } = service;
  if (await hasInfo(file, id, io.disk)) return true;
  let isAnswered = true;
  // Without an answer the journal's data is enough.
  const answer = asksService ? pollUntilAnswered(api, id, io, signal, note) : Promise.resolve(undefined);
  const generation = await answer.catch((error) => {
    isAnswered = asVidgenError(error).code !== "network";
    return undefined;
  });
  signal.throwIfAborted();
  await writeInfo(file, { id, ...(await findInfo(service, id)), generation }, { redact }, io);
  return isAnswered;
}
