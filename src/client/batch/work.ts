import { asVidgenError, usage, type VidgenError } from "../../errors.ts";
import type { Label } from "../api.ts";
import type { Claim } from "../claims.ts";
import type { Client, ClientDownloadOptions, ReadyStart } from "../client.ts";
import { type EndStatus, errorFieldsOf, type GenerationEvent } from "../events.ts";
import { recordOf } from "../history.ts";
import { type State, statusOf } from "../ledger/attempt.ts";
import { type Costs, costOf } from "./costs.ts";
import type { Ledger } from "./ledger.ts";
import type { PlannedRow } from "./plan.ts";
import { hashRequest } from "./row.ts";
import type { RowsFile } from "./rows-file.ts";

export type WorkOptions = Omit<ClientDownloadOptions, "onState" | "onTrouble" | "onProgress" | "signal"> & {
  signal: AbortSignal;
  leave: AbortSignal;
  onEvent(event: GenerationEvent): void;
};

/** How a row has ended for this run. */
export type Ended = { status: EndStatus; error?: VidgenError | undefined };

/** `attempt` is absent where the row could not be started. */
type RowEnd = Ended & { attempt?: string; file?: string | null; video_url?: string | null };

/** A row whose generation has an id; `target` is the place for its video, where that is claimed already. */
export type Running = {
  row: PlannedRow;
  id: string;
  attempt: string;
  target?: Claim | undefined;
  begun?: ReadyStart;
};

export type Sent =
  | { kind: "running"; running: Running }
  | { kind: "not now"; afterMs: number | undefined }
  | ({ kind: "ended" } & Ended);

type WorkDependencies = {
  /** With the journal that the ledger has made of its own. */
  client: Pick<Client, "beginNew" | "claim" | "delivered" | "download" | "follow">;
  costs: Costs;
  ledger: Ledger;
  /** The path of the results file. */
  results: string;
  rowsFile: RowsFile | undefined;
  label: Label;
  /** Rejects when another process has taken over the results file. */
  confirm(): Promise<void>;
};

/** What a batch does with one row. The client writes each step into the journal and the results file, before the next one depends on it. */
export function createWork(
  { client, costs, ledger, results, rowsFile, label, confirm }: WorkDependencies,
  options: WorkOptions,
) {
  const { signal, leave, overwrite, onEvent } = options;

  function tellEnd(row: PlannedRow, { attempt = "", status, file = null, video_url = null, ...ended }: RowEnd): Ended {
    const { entry, failure } = ledger.find(attempt);
    const { id = null, credits, cost } = entry ?? {};
    // What has happened is told even where it could not be written down: the journal has it.
    const error = ended.error ?? failure;
    const told = { credits, cost, error: error ? errorFieldsOf(error) : null };
    onEvent({ event: "ended", ...nameOf(row), id, status, file, video_url, ...told });
    ledger.forget(attempt);
    return { status, error };
  }

  return {
    /** Starts a row. Rejects when the results file belongs to another process: then nothing was sent. */
    async start(row: PlannedRow): Promise<Sent> {
      const { key, line, state, record, outputPath } = row;
      const dismissed = state.kind === "new" ? state.dismissed : [];
      const batch = { path: results, row: key, line, rowsFile: rowsFile?.identity, dismissed };
      let begun: ReadyStart;
      try {
        const request = await row.load();
        if (hashRequest(recordOf(request)) !== hashRequest(record))
          throw usage("An image has changed since the file was checked. Nothing was sent.");
        begun = await client.beginNew(request, { overwrite, outputPath, batch, signal });
      } catch (error) {
        return { kind: "ended", ...tellEnd(row, { status: "unsent", error: asVidgenError(error) }) };
      }
      const { attempt } = begun;
      try {
        await confirm();
      } catch (error) {
        // Aborted before it is sent, so that it is written down as unsent.
        await begun.sendUntilKnown({ signal: AbortSignal.abort(asVidgenError(error)), leave });
        await begun.release();
        throw error;
      }
      const how = { signal, leave, label, balance: costs.balance(), retriesNotNow: false, tellsDoubts: false };
      const sent = await begun.sendUntilKnown(how);
      if (sent.kind === "accepted") {
        const { generation, remaining_credits, credits_charged: credits, balance_fell } = sent.started;
        const { id } = generation;
        costs.started(record, sent.started);
        const told = { remaining_credits, credits, balance_fell };
        onEvent({ event: "started", ...nameOf(row), id, attempt, model: record.model, resumed: false, ...told });
        return { kind: "running", running: { row, id, attempt, target: begun.target, begun } };
      }
      await begun.release();
      if (sent.kind === "unknown" || sent.error.id !== undefined) costs.unknown(record);
      if (sent.kind === "refused" && sent.notNow && !signal.aborted)
        return { kind: "not now", afterMs: sent.notNow.waitMs };
      return { kind: "ended", ...tellEnd(row, { attempt, status: sent.kind, error: sent.error }) };
    },
    /** Follows a row's generation to its end, and saves its video. Never rejects. */
    async collect({ row, id, attempt, target, begun }: Running): Promise<Ended> {
      const { record, outputPath } = row;
      const onState = (status: string) => onEvent({ event: "state", ...nameOf(row), id, status });
      const onProgress = (received: number, total: number | undefined) =>
        onEvent({ event: "progress", ...nameOf(row), id, received, total: total ?? null });
      const how = { ...options, onState, onProgress };
      let claim = target;
      try {
        if (!begun && outputPath !== undefined)
          claim = await client.claim(outputPath, { id, overwrite, resume: true, signal });
        if (!begun) onEvent({ event: "started", ...nameOf(row), id, attempt, model: record.model, resumed: true });
        const { videoUrl: video_url, file = null } = claim
          ? await client.download(id, claim, how)
          : { file: undefined, ...(await client.follow(id, how)) };
        if (file !== null) onEvent({ event: "saved", ...nameOf(row), id, file });
        else await client.delivered(id);
        const { entry } = ledger.find(attempt);
        costs.completed(record, entry && costOf(entry));
        return tellEnd(row, { attempt, status: "completed", file, video_url });
      } catch (thrown) {
        const error = asVidgenError(thrown).with({ id });
        const { entry } = ledger.find(attempt);
        const status = signal.aborted || !entry ? "processing" : endOf(entry.state);
        if (status === "failed") costs.failed(record);
        return tellEnd(row, { attempt, status, error });
      } finally {
        // A partial file that cannot be removed loses nothing.
        await (begun ?? claim)?.release().catch(() => {});
      }
    },
  };
}

/** How far a generation is that could not be collected. */
function endOf(state: State): EndStatus {
  const status = statusOf(state);
  return status === "starting" || status === "dismissed" ? "processing" : status;
}

function nameOf({ key, line }: PlannedRow) {
  return { row: key, line };
}
