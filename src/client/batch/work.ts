import { asVidgenError, usage, VidgenError } from "../../errors.ts";
import type { KeptFrame } from "../film/kept-frame.ts";
import {
  type Attempt,
  close,
  type Finished,
  type FinishOptions,
  finish,
  handOver,
  openAttempt,
} from "../generation/attempt.ts";
import { type EndStatus, errorFieldsOf, type GenerationEvent } from "../generation/events.ts";
import type { Service } from "../generation/service.ts";
import { start } from "../generation/start.ts";
import type { Label } from "../http/api.ts";
import { type State, statusOf } from "../ledger/attempt.ts";
import { recordOf } from "../ledger/history.ts";
import { chargedOf } from "../ledger/price.ts";
import { type Costs, costOf } from "./costs.ts";
import type { Ledger } from "./ledger.ts";
import type { PlannedRow } from "./plan.ts";
import { hashRow } from "./row.ts";
import type { RowsFile } from "./rows-file.ts";
import { kindOfRow, leftAlone } from "./status.ts";

export type WorkOptions = FinishOptions & {
  leave: AbortSignal;
  /** Keeps the last frame of a saved video; for rows that begin with one. */
  keepFrame?: ((video: string, signal: AbortSignal) => Promise<KeptFrame>) | undefined;
  onNote(text: string): void;
  onEvent(event: GenerationEvent): void;
};

/** How a row has ended for this run; `isLeftAlone` where the same command would not start it again. */
export type Ended = { status: EndStatus; error?: VidgenError | undefined; isLeftAlone?: boolean };

/** The saved video of a row from which others begin. */
export type Source = { id: string; file: string };

/** `attempt` is absent where the row could not be started. */
type RowEnd = Ended & { attempt?: string; file?: string | null; video_url?: string | null };

/** How a row that was followed has ended; `source` where its video is saved. */
export type Collected = Ended & { source?: Source | undefined };

/** A row whose generation has an id; `started` is the one that this run has started. */
export type Running = { row: PlannedRow; id: string; attempt: string; started?: Attempt };

export type Sent =
  | { kind: "running"; running: Running }
  | { kind: "not now"; afterMs: number | undefined }
  | ({ kind: "ended" } & Ended);

type WorkDependencies = {
  /** With the journal that the ledger has made of its own. */
  service: Service;
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
  { service, costs, ledger, results, rowsFile, label, confirm }: WorkDependencies,
  options: WorkOptions,
) {
  const { signal, leave, onEvent } = options;

  function tellEnd(row: PlannedRow, { attempt = "", status, file = null, video_url = null, ...ended }: RowEnd): Ended {
    const { entry, failure } = ledger.find(attempt);
    const { id = null, credits, cost } = entry ?? {};
    // What the results file could not take is reported, with the id: the journal has it. A Ctrl-C says nothing of that.
    const error = ended.error?.code === "interrupted" ? (failure ?? ended.error) : (ended.error ?? failure);
    const charged = entry && status === "completed" && !error ? chargedOf(entry, service) : undefined;
    const told = { credits, cost, charged, error: error ? errorFieldsOf(error) : null };
    onEvent({ event: "ended", ...nameOf(row), id, status, file, video_url, ...told });
    ledger.forget(attempt);
    return { status, error, isLeftAlone: entry !== undefined && leftAlone.has(kindOfRow(entry)) };
  }

  /** Tells how a generation that could not be collected has ended, as far as the journal knows. */
  function notCollected(row: PlannedRow, attempt: string, error: VidgenError): Collected {
    const { entry } = ledger.find(attempt);
    const status = signal.aborted || !entry ? "processing" : endOf(entry.state);
    if (status === "failed") costs.failed(row.record, entry?.cost);
    return tellEnd(row, { attempt, status, error });
  }

  function collected(row: PlannedRow, attempt: string, finished: Finished): Collected {
    const { id } = finished.of;
    const file = finished.kind === "url" ? null : finished.file;
    const video_url = finished.kind === "found" ? null : finished.videoUrl;
    const { entry } = ledger.find(attempt);
    if (file !== null) onEvent({ event: "saved", ...nameOf(row), id, file });
    costs.completed(row.record, entry && costOf(entry));
    const source = file === null ? undefined : { id, file };
    return { ...tellEnd(row, { attempt, status: "completed", file, video_url }), source };
  }

  /** The frame that a row begins with. It is kept before the intent: the next process has the same one, and sends the same request. */
  async function keepFrame({ line }: PlannedRow, { file }: Source): Promise<string> {
    if (!options.keepFrame) throw new Error("rows with a source need keepFrame");
    const { path, isNearlyOneColor } = await options.keepFrame(file, signal);
    if (isNearlyOneColor)
      options.onNote(
        `Line ${line} begins with a frame of nearly one colour, as after a fade: the last one of ${file}.`,
      );
    return path;
  }

  return {
    /** Starts a row, which may begin from another one. Rejects when the results file belongs to another process: then nothing was sent. */
    async start(row: PlannedRow, source: Source | undefined): Promise<Sent> {
      const { key, line, state, record, outputPath } = row;
      const dismissed = state.kind === "new" ? state.dismissed : [];
      const batch = { path: results, row: key, line, rowsFile: rowsFile?.identity, dismissed };
      let attempt = "";
      let takenOver: { error: unknown } | undefined;
      const onSending = async (name: string) => {
        attempt = name;
        await confirm().catch((error) => {
          takenOver = { error };
          throw error;
        });
      };
      const sending = { leave, label, balance: costs.balance, retriesNotNow: false, tellsDoubts: false, onSending };
      const begin = async () => {
        const request = await row.load(source && (await keepFrame(row, source)));
        const hasFrame = source !== undefined;
        if (hashRow(recordOf(request), hasFrame) !== hashRow(record, hasFrame))
          throw usage("An image has changed since the file was checked. Nothing was sent.");
        return start(service, request, { ...options, ...sending, outputPath, batch, from: source?.id });
      };
      const begun = await begin().catch(asVidgenError);
      if (takenOver) throw takenOver.error;
      if (begun instanceof VidgenError)
        return { kind: "ended", ...tellEnd(row, { attempt, status: "unsent", error: begun }) };
      if (begun.kind === "accepted") {
        const { started } = begun;
        const { id } = begun.attempt;
        const { remaining_credits, credits_charged: credits, balance_fell } = started;
        costs.started(record, started);
        const told = { remaining_credits, credits, balance_fell };
        onEvent({ event: "started", ...nameOf(row), id, attempt, model: record.model, resumed: false, ...told });
        return { kind: "running", running: { row, id, attempt, started: begun.attempt } };
      }
      const { kind: status, error } = begun;
      if (status === "unknown" || error.id !== undefined) costs.unknown(record);
      const notNow = "notNow" in begun ? begun.notNow : undefined;
      if (status === "refused" && notNow && !signal.aborted) return { kind: "not now", afterMs: notNow.waitMs };
      return { kind: "ended", ...tellEnd(row, { attempt, status, error }) };
    },
    /** Tells that a row is not started, as the one that it begins from has no video. */
    block: (row: PlannedRow, { line, status }: { line: number; status: EndStatus }): Ended =>
      tellEnd(row, {
        status: "unsent",
        error: new VidgenError("pending", `Not started: it begins from line ${line}, which ${describeEnd(status)}.`),
      }),
    /** Follows a row's generation to its end, and saves its video. Never rejects. */
    async collect({ row, id, attempt, started }: Running): Promise<Collected> {
      const { record, outputPath } = row;
      if (!started) onEvent({ event: "started", ...nameOf(row), id, attempt, model: record.model, resumed: true });
      const { prompt, model } = record;
      const follow = async () => {
        const open =
          started ?? (await openAttempt(service, id, { ...options, outputPath, attempt, words: { prompt, model } }));
        try {
          const finished = await finish(open, {
            state: (status) => onEvent({ event: "state", ...nameOf(row), id, status }),
            progress: (received, total) =>
              onEvent({ event: "progress", ...nameOf(row), id, received, total: total ?? null }),
          });
          // The results file has its address, and tells the caller.
          await handOver(finished);
          return finished;
        } finally {
          await close(open);
        }
      };
      const finished = await follow().catch(asVidgenError);
      return finished instanceof VidgenError ? notCollected(row, attempt, finished) : collected(row, attempt, finished);
    },
  };
}

/** How far a generation is that could not be collected. */
function endOf(state: State): EndStatus {
  const status = statusOf(state);
  return status === "starting" || status === "dismissed" || status === "deleted" ? "processing" : status;
}

function describeEnd(status: EndStatus): string {
  if (status === "completed") return "is not saved";
  if (status === "unknown") return "may have been charged";
  if (status === "processing") return "is still running";
  return status === "unsent" ? "was not started" : `${status === "failed" ? "" : "was "}${status}`;
}

function nameOf({ key, line }: PlannedRow) {
  return { row: key, line };
}
