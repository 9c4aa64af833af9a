import { isDeepStrictEqual } from "node:util";
import { asVidgenError, usage, VidgenError } from "../../errors.ts";
import type { CompletedGeneration, StartRequest } from "../../protocol/schema.ts";
import { isDataUrl } from "../../protocol/url.ts";
import type { KeptFrame } from "../film/kept-frame.ts";
import {
  type Attempt,
  checkAddress,
  close,
  type Finished,
  type FinishOptions,
  finish,
  handOver,
  isGone,
  openAttempt,
} from "../generation/attempt.ts";
import { type EndStatus, errorFieldsOf, type GenerationEvent } from "../generation/events.ts";
import { record, recordedRequest, type Service } from "../generation/service.ts";
import { startGeneration } from "../generation/start.ts";
import type { Label } from "../http/api.ts";
import { type AttemptState, statusOf } from "../ledger/attempt.ts";
import { type Entry, isPaidBy, recordOf } from "../ledger/history.ts";
import { asSent } from "../ledger/policy.ts";
import { chargedOf, weightOf } from "../ledger/price.ts";
import type { Costs } from "./costs.ts";
import { keepVideo } from "./kept-video.ts";
import type { Ledger } from "./ledger.ts";
import { hashRow } from "./row.ts";
import type { NewState, PlannedRow } from "./row-state.ts";
import type { RowsFile } from "./rows-file.ts";
import { kindOfRow, kindsLeftAlone } from "./status.ts";

export type WorkOptions = FinishOptions & {
  abandon: AbortSignal;
  /** Extracts the last frame of a saved video and keeps it as a file, for rows that start with it. */
  keepFrame?: ((video: string, signal: AbortSignal) => Promise<KeptFrame>) | undefined;
  onNote(text: string): void;
  onEvent(event: GenerationEvent): void;
};

/** How a row ended in this run; `isLeftAlone` if the same command would not start it again. */
export type RowEnd = { status: EndStatus; error?: VidgenError | undefined; isLeftAlone?: boolean };

/** The saved video of a row that other rows start from. */
export type Source = { id: string; file: string };

/** `attempt` is absent if the row was not started. */
type RowEndDetails = RowEnd & { attempt?: string; file?: string | null; video_url?: string | null };

/** How a followed row ended; `source` is set if its video is saved. */
export type CollectedRow = RowEnd & { source?: Source | undefined };

/** A row whose generation has an id; `started` is set if this run started it. */
export type RunningRow = { row: PlannedRow; id: string; attempt: string; started?: Attempt };

export type RowStart =
  | { kind: "running"; running: RunningRow }
  | { kind: "not now"; afterMs: number | undefined }
  | ({ kind: "ended" } & RowEnd);

type WorkDependencies = {
  /** Writes to the ledger's journal. */
  service: Service;
  costs: Costs;
  ledger: Ledger;
  /** The path of the results file. */
  results: string;
  rowsFile: RowsFile | undefined;
  label: Label;
  /** Rejects when another process has taken over the results file. */
  confirmLease(): Promise<void>;
};

/**
 * Starts and follows single rows. Each step is written to the journal and the results file before the next
 * step depends on it.
 */
export function createWork(
  { service, costs, ledger, results, rowsFile, label, confirmLease }: WorkDependencies,
  options: WorkOptions,
) {
  const { signal, abandon, onEvent } = options;

  function reportEnd(
    row: PlannedRow,
    { attempt = "", status, file = null, video_url = null, ...ended }: RowEndDetails,
  ): RowEnd {
    const { entry, failure } = ledger.find(attempt);
    const { id = null, credits, cost } = entry ?? {};
    // A failed write to the results file is reported even after Ctrl-C, because then only the journal has the id.
    const error = ended.error?.code === "interrupted" ? (failure ?? ended.error) : (ended.error ?? failure);
    const charged = entry && status === "completed" && !error ? chargedOf(entry) : undefined;
    const details = { credits, cost, charged, error: error ? errorFieldsOf(error) : null };
    onEvent({ event: "ended", ...rowFields(row), id, status, file, video_url, ...details });
    ledger.forget(attempt);
    return { status, error, isLeftAlone: entry !== undefined && kindsLeftAlone.has(kindOfRow(entry)) };
  }

  /**
   * A row whose file is missing, and whose delivered video the service no longer has, is done, as after
   * `vidgen delete --files`.
   */
  async function reportGone(row: PlannedRow, { attempt, id = "" }: Entry): Promise<CollectedRow> {
    await record(service, { kind: "removed", id });
    options.onNote(
      `Line ${row.line} is done, but its file is missing, and the service no longer has its video. --redo ${row.key} makes it again, which is charged.`,
    );
    return { ...reportEnd(row, { attempt, status: "completed" }), isLeftAlone: true };
  }

  /** Reports the end of a row whose video could not be saved, with the status that the journal knows. */
  async function reportUncollected(row: PlannedRow, attempt: string, error: VidgenError): Promise<CollectedRow> {
    const { entry } = ledger.find(attempt);
    if (entry?.state === "delivered" && isPaidBy(service.account, entry) && isGone(error))
      return reportGone(row, entry);
    const status = signal.aborted || !entry ? "processing" : endStatusOf(entry.state);
    if (entry) costs.count(entry);
    return reportEnd(row, { attempt, status, error });
  }

  function reportCollected(row: PlannedRow, attempt: string, finished: Finished): CollectedRow {
    const { id } = finished.of;
    const file = finished.kind === "url" ? null : finished.file;
    const video_url = finished.kind === "found" ? null : printedUrl(finished);
    const { entry } = ledger.find(attempt);
    if (file !== null) onEvent({ event: "saved", ...rowFields(row), id, file });
    if (entry) costs.count(entry);
    const source = file === null ? undefined : { id, file };
    return { ...reportEnd(row, { attempt, status: "completed", file, video_url }), source };
  }

  /** The first frame of a row. Its file is written before the intent, so that a later process sends the same request. */
  async function keepFrame({ line }: PlannedRow, { file }: Source): Promise<string> {
    if (!options.keepFrame) throw new Error("rows with a source need keepFrame");
    const { path, isNearlyOneColor } = await options.keepFrame(file, signal);
    if (isNearlyOneColor)
      options.onNote(
        `Line ${line} begins with a frame of nearly one colour, as after a fade: the last one of ${file}.`,
      );
    return path;
  }

  /**
   * The request of an earlier attempt as it was sent, also by an older version; `undefined` if the row has
   * another request now.
   */
  async function findSent(
    { written }: PlannedRow,
    { entry, loaded, frame }: { entry: Entry; loaded: StartRequest; frame: string | undefined },
  ): Promise<StartRequest | undefined> {
    for (const load of [() => loaded, written?.load]) {
      const request = await load?.(frame);
      const sent = request && asSent(request, entry.request);
      if (sent && isDeepStrictEqual(recordedRequest(service, sent), entry.request)) return sent;
    }
    return undefined;
  }

  return {
    /** Starts a row. Rejects when another process has taken over the results file: then nothing was sent. */
    async startRow(row: PlannedRow, source: Source | undefined): Promise<RowStart> {
      const { key, line, state, record, outputPath, typed, untyped } = row;
      const {
        dismissed = [],
        resends,
        redo,
        replaces,
        keptVideo,
      }: Partial<NewState> = state.kind === "new" ? state : {};
      let attempt = "";
      let takeover: { error: unknown } | undefined;
      const onSending = async (name: string) => {
        attempt = name;
        await confirmLease().catch((error) => {
          takeover = { error };
          throw error;
        });
      };
      const loadAndStart = async () => {
        const frame = source && (await keepFrame(row, source));
        const hasFrame = source !== undefined;
        const loaded = await row.load(frame);
        if (hashRow(recordOf(loaded), hasFrame) !== hashRow(record, hasFrame))
          throw usage("An image has changed since the file was checked. Nothing was sent.");
        const sent = resends && (await findSent(row, { entry: resends.entry, loaded, frame }));
        const isResent = sent !== undefined;
        const request = sent ?? loaded;
        if (resends && !isResent && resends.dismissedIfChanged === undefined)
          throw usage("It begins with another frame than the request that may have been charged.");
        const batch = {
          label,
          balance: costs.balance,
          path: results,
          row: key,
          line,
          rowsFile: rowsFile?.identity,
          dismissed: isResent ? dismissed : [...dismissed, ...(resends?.dismissedIfChanged ?? [])],
          resends: isResent ? resends?.key : undefined,
          redo,
          replaces,
          typed,
          untyped,
        };
        // If killed here, the next run starts the row.
        if (keptVideo) await keepVideo(keptVideo, service);
        const { timeoutMs, intervalMs, overwrite, infoJson } = options;
        return startGeneration(service, request, {
          origin: { from: source?.id },
          batch,
          save: { outputPath, overwrite, infoJson },
          times: { timeoutMs, intervalMs },
          signal,
          abandon,
          onSending,
        });
      };
      const outcome = await loadAndStart().catch(asVidgenError);
      if (takeover) throw takeover.error;
      const { entry } = ledger.find(attempt);
      if (entry && weightOf(entry) > 0) costs.started(entry);
      if (outcome instanceof VidgenError) {
        if (resends)
          return {
            kind: "ended",
            ...reportEnd(row, { attempt: resends.entry.attempt, ...notResent(outcome, resends.entry) }),
          };
        return { kind: "ended", ...reportEnd(row, { attempt, status: "unsent", error: outcome }) };
      }
      if (outcome.kind === "accepted") {
        const { started } = outcome;
        const { id } = outcome.attempt;
        const { remaining_credits, credits_charged: credits, balance_fell, warnings } = started;
        const details = { remaining_credits, credits, balance_fell, warnings };
        onEvent({ event: "started", ...rowFields(row), id, attempt, model: record.model, resumed: false, ...details });
        return { kind: "running", running: { row, id, attempt, started: outcome.attempt } };
      }
      if (outcome.kind === "resumed") throw new Error("the start of a row does not look for earlier attempts");
      const { kind: status, error } = outcome;
      const notNow = "notNow" in outcome ? outcome.notNow : undefined;
      if (status === "refused" && notNow && !signal.aborted) return { kind: "not now", afterMs: notNow.waitMs };
      return { kind: "ended", ...reportEnd(row, { attempt, status, error }) };
    },
    /** Reports a row that is not started, because the row that it starts from has no video. */
    block: (row: PlannedRow, { line, status }: { line: number; status: EndStatus }): RowEnd =>
      reportEnd(row, {
        status: "unsent",
        error: new VidgenError("pending", `Not started: it begins from line ${line}, which ${describeEnd(status)}.`),
      }),
    /** Follows a row's generation until it ends, and saves its video. Never rejects. */
    async collect({ row, id, attempt, started }: RunningRow): Promise<CollectedRow> {
      const { record, outputPath } = row;
      if (!started) onEvent({ event: "started", ...rowFields(row), id, attempt, model: record.model, resumed: true });
      const { prompt, model } = record;
      const follow = async () => {
        const opened =
          started ??
          (await openAttempt(service, id, { ...options, outputPath, attempt, nameParts: { prompt, model } }));
        try {
          const finished = await finish(opened, {
            state: (status) => onEvent({ event: "state", ...rowFields(row), id, status }),
            progress: (received, total) =>
              onEvent({ event: "progress", ...rowFields(row), id, received, total: total ?? null }),
          });
          checkAddress(finished);
          // The results file has the URL now.
          await handOver(finished);
          return finished;
        } finally {
          await close(opened);
        }
      };
      const finished = await follow().catch(asVidgenError);
      return finished instanceof VidgenError
        ? reportUncollected(row, attempt, finished)
        : reportCollected(row, attempt, finished);
    },
  };
}

/** The address of a video, or a description if the video came as a `data:` URL, which may have 90 MB. */
function printedUrl({ generation, videoUrl }: CompletedGeneration): string {
  return isDataUrl(videoUrl) ? String(generation.video_url) : videoUrl;
}

/** The status of a generation whose video could not be saved. */
function endStatusOf(state: AttemptState): EndStatus {
  const status = statusOf(state);
  return status === "starting" || status === "dismissed" || status === "deleted" ? "processing" : status;
}

/** A row that may have been charged is still unknown if its key could not be sent again. */
function notResent({ message }: VidgenError, { attempt }: Pick<Entry, "attempt">): RowEnd {
  const reason = `It may have been charged (attempt ${attempt}), and was not sent again: ${message}`;
  return { status: "unknown", error: new VidgenError("unknown", reason, { attempt }) };
}

function describeEnd(status: EndStatus): string {
  if (status === "completed") return "is not saved";
  if (status === "unknown") return "may have been charged";
  if (status === "processing") return "is still running";
  return status === "unsent" ? "was not started" : `${status === "failed" ? "" : "was "}${status}`;
}

function rowFields({ key, line }: PlannedRow) {
  return { row: key, line };
}
