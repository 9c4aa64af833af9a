import { asVidgenError, usage, type VidgenError } from "../../errors.ts";
import type { Io } from "../../io.ts";
import type { Label } from "../api.ts";
import type { Client, ClientDownloadOptions, ReadyStart } from "../client.ts";
import type { Content } from "../content.ts";
import { type EndStatus, errorFieldsOf, type GenerationEvent } from "../events.ts";
import { readCost } from "../follow.ts";
import { recordOf } from "../history.ts";
import type { Journal } from "../journal.ts";
import { kindOfRequest } from "../price.ts";
import type { Target } from "../target.ts";
import { type Costs, costOfLine } from "./costs.ts";
import type { PlannedRow } from "./plan.ts";
import type { ResultLine, ResultsFile } from "./results.ts";
import { hashRequest } from "./row.ts";
import type { RowsFile } from "./rows-file.ts";

export type WorkOptions = Omit<ClientDownloadOptions, "onState" | "onTrouble" | "onProgress" | "signal"> & {
  signal: AbortSignal;
  leave: AbortSignal;
  onEvent(event: GenerationEvent): void;
};

/** How a row has ended for this run. */
export type Ended = { status: EndStatus; error?: VidgenError | undefined };

type RowEnd = Ended & {
  file?: string | null;
  content?: Content | null;
  cost?: number | undefined;
  video_url?: string | null;
};

/** A row whose generation has an id; `target` is the place for its video, where that is claimed already. */
export type Running = {
  row: PlannedRow;
  line: RowLine & { id: string };
  target?: Target | undefined;
  begun?: ReadyStart;
};

export type Sent =
  | { kind: "running"; running: Running }
  | { kind: "not now"; afterMs: number | undefined }
  | ({ kind: "ended" } & Ended);

type RowLine = Omit<ResultLine, "at">;

type WorkDependencies = {
  client: Pick<Client, "account" | "isPreview" | "beginNew" | "claim" | "delivered" | "download" | "follow">;
  journal: Pick<Journal, "append"> | undefined;
  costs: Costs;
  results: ResultsFile;
  rowsFile: RowsFile | undefined;
  label: Label;
  /** Rejects when another process has taken over the results file. */
  confirm(): Promise<void>;
  io: Pick<Io, "date" | "uuid">;
};

/** What a batch does with one row: each step is in the results file before the next one depends on it. */
export function createWork(
  { client, journal, costs, results, rowsFile, label, confirm, io }: WorkDependencies,
  options: WorkOptions,
) {
  const { signal, leave, overwrite, onEvent } = options;
  const { account } = client;

  function tellEnd(row: PlannedRow, line: RowLine, { status, file = null, video_url = null, error }: RowEnd): Ended {
    const paid = { credits: line.credits ?? undefined, cost: line.cost ?? undefined };
    const told = { error: error ? errorFieldsOf(error) : null, ...paid };
    onEvent({ event: "ended", ...nameOf(row), id: line.id, status, file, video_url, ...told });
    return { status, error };
  }

  async function end(row: PlannedRow, line: RowLine, ended: RowEnd): Promise<Ended> {
    const { status, error, cost = line.cost } = ended;
    // An earlier file is no longer its video where it is fetched again.
    const { file = error ? null : line.file, content = error ? null : line.content } = ended;
    const short = error ? { code: error.code, message: error.message } : null;
    const last = { ...line, status, file, content, cost, error: short, ended_at: io.date().toISOString() };
    // What has happened is told even where it can no longer be written down: the journal has it.
    const failure = await results.append(last).then(() => undefined, asVidgenError);
    return tellEnd(row, last, { ...ended, file, error: error ?? failure });
  }

  return {
    /** Starts a row. Rejects when the results file cannot be written, or belongs to another process: then nothing was sent. */
    async start(row: PlannedRow): Promise<Sent> {
      const started_at = io.date().toISOString();
      let begun: ReadyStart;
      const line: RowLine = {
        row: row.key,
        line: row.line,
        request: row.hash,
        model: row.record.model,
        price_kind: kindOfRequest(row.record),
        attempt: io.uuid(),
        account,
        is_preview: client.isPreview(row.record.model) ?? null,
        id: null,
        status: "starting",
        file: null,
        content: null,
        error: null,
        credits: null,
        balance_fell: null,
        remaining_credits: null,
        started_at,
        ended_at: null,
      };
      const batch = { path: results.path, row: row.key, rowsFile: rowsFile?.identity };
      try {
        const request = await row.load();
        if (hashRequest(recordOf(request)) !== row.hash)
          throw usage("An image has changed since the file was checked. Nothing was sent.");
        begun = await client.beginNew(request, { overwrite, outputPath: row.outputPath, batch, signal });
      } catch (error) {
        return { kind: "ended", ...(await end(row, line, { status: "unsent", error: asVidgenError(error) })) };
      }
      line.attempt = begun.attempt;
      try {
        await results.append(line);
        const { state } = row;
        for (const attempt of state.kind === "new" ? state.dismissed : [])
          await journal?.append({ kind: "dismissed", attempt });
        await confirm();
      } catch (error) {
        // Aborted before it is sent, so that the journal has it as unsent.
        await begun.sendUntilKnown({ signal: AbortSignal.abort(asVidgenError(error)), leave });
        await begun.release();
        throw error;
      }
      const sent = await begun.sendUntilKnown({ signal, leave, label, retriesNotNow: false, tellsDoubts: false });
      if (sent.kind === "accepted") {
        const { generation, remaining_credits } = sent.started;
        const cost = costs.started(row.record, sent.started);
        const { id } = generation;
        const { credits = null, balance_fell = null } = cost;
        const told = { credits, balance_fell, remaining_credits: remaining_credits ?? null };
        const accepted = { ...line, id, ...told, status: "processing" as const };
        // The journal has the id, also where this cannot be written.
        await results.append(accepted).catch(() => {});
        const { model, attempt } = accepted;
        onEvent({ event: "started", ...nameOf(row), id, attempt, model, resumed: false, remaining_credits, ...cost });
        return { kind: "running", running: { row, line: accepted, target: begun.target, begun } };
      }
      await begun.release();
      const { id = null } = sent.error;
      if (sent.kind === "unknown" || id !== null) costs.unknown(row.record);
      if (sent.kind === "refused" && sent.notNow && !signal.aborted) {
        await results.append({ ...line, status: "refused", error: { code: "network", message: sent.error.message } });
        return { kind: "not now", afterMs: sent.notNow.waitMs };
      }
      return { kind: "ended", ...(await end(row, { ...line, id }, { status: sent.kind, error: sent.error })) };
    },
    /** Follows a row's generation to its end, and saves its video. Never rejects. */
    async collect({ row, line, target, begun }: Running): Promise<Ended> {
      const { id } = line;
      const onState = (status: string) => onEvent({ event: "state", ...nameOf(row), id, status });
      const onProgress = (received: number, total: number | undefined) =>
        onEvent({ event: "progress", ...nameOf(row), id, received, total: total ?? null });
      const how = { ...options, onState, onProgress };
      let claim = target;
      let saved: string | undefined;
      try {
        const words = { prompt: row.record.prompt, model: row.record.model };
        if (!begun && row.outputPath !== undefined) {
          const claiming = { attempt: line.attempt, words, overwrite, signal };
          ({ target: claim, file: saved } = await client.claim(id, row.outputPath, claiming));
        }
        if (!begun)
          onEvent({ event: "started", ...nameOf(row), id, attempt: line.attempt, model: line.model, resumed: true });
        if (saved !== undefined) return await end(row, line, { status: "completed", file: saved });
        const {
          videoUrl,
          generation,
          file = null,
          content = null,
        } = claim
          ? await client.download(id, claim, how)
          : { file: undefined, content: undefined, ...(await client.follow(id, how)) };
        if (file !== null) onEvent({ event: "saved", ...nameOf(row), id, file });
        const cost = readCost(generation);
        costs.completed(row.record, costOfLine({ ...line, cost }));
        const ended = await end(row, line, { status: "completed", file, content, cost, video_url: videoUrl });
        if (file === null && ended.error === undefined) await client.delivered(id);
        return ended;
      } catch (thrown) {
        const error = asVidgenError(thrown).with({ id });
        if (signal.aborted) return tellEnd(row, line, { status: "processing", error });
        // Nothing is known of a generation whose place could not be claimed, and a 404 for another key than its own says nothing.
        const isSeen = claim !== undefined || row.outputPath === undefined;
        const isOwn = line.account === undefined || line.account === account;
        const status = isSeen && isOwn ? statusOf(error) : "processing";
        if (status === "failed") costs.failed(row.record);
        return await end(row, line, { status, error });
      } finally {
        // A partial file that cannot be removed loses nothing.
        await (begun ?? claim)?.release().catch(() => {});
      }
    },
  };
}

/** How far a generation is that could not be collected. */
function statusOf(error: VidgenError): EndStatus {
  if (error.code === "not_found") return "lost";
  return error.ended ?? (error.code === "output" ? "completed" : "processing");
}

function nameOf({ key, line }: PlannedRow) {
  return { row: key, line };
}
