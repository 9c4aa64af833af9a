import { type Client, createServiceClient } from "../client/client.ts";
import { createEventListeners, type GenerationEvent } from "../client/events.ts";
import type { Completed } from "../client/follow.ts";
import { type Entry, typicalMs } from "../client/history.ts";
import type { Journal } from "../client/journal.ts";
import type { Claimed, Target } from "../client/target.ts";
import { asVidgenError, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { type Local, localBaseUrl } from "./local.ts";
import { listHint } from "./resume.ts";
import type { Output } from "./terminal/output.ts";
import type { ProgressEvent } from "./terminal/progress.ts";
import { traceFetch } from "./terminal/trace.ts";

export type SessionOptions = {
  local?: boolean;
  baseUrl?: string;
  /** What makes the videos, where the local service runs inside this process. */
  engine?: readonly string[];
  /** Whether the command starts generations, which others' engines must not make. */
  isStarting?: boolean;
  overwrite?: boolean;
  writeInfoJson?: boolean;
  output: Output;
};

/** Where a session sends its requests; `local` for the local service. */
export type ServiceAccess = { baseUrl: string; apiKey: string; keyHint?: string; local?: Local };

/** What a command does with one service, and with the journal of what it started there. */
export type Session = {
  client: Client;
  /** The user's journal, of all services. */
  journal: Journal;
  /** Whether the local service runs inside this process: its URLs end with the command. */
  isInProcess(): boolean;
  /** The local service, which charges no credits that cost anything. */
  isLocal: boolean;
  /** The engines that were named for it: they may cost money elsewhere. */
  engine: readonly string[];
  /** Follows a generation to its end, saves its video, and reports what happens. */
  collect(id: string, options: CollectOptions): Promise<Collected>;
  /** Claims the place for the video of a generation, or finds it saved there; `first` is the first number for `{n}`. */
  claim(id: string, outputPath: string, options: { first: number; timeoutMs: number }): Promise<Claimed>;
  /** Writes down that the video was streamed to stdout. */
  recordStreamed(id: string): Promise<void>;
  /** Writes down that the URL of a video was printed, once it was: rejects with `output` when stdout cannot be written. */
  recordPrinted(id: string): Promise<void>;
  /** Adds to a `not_found` error the service at which this machine started that id; returns any other error unchanged. */
  explainNotFound(error: unknown, id: string): Promise<unknown>;
  /** Closes the local service if it runs in this process; with `isDone` only once its callbacks are sent. */
  close(isDone: boolean): Promise<void>;
};

type CollectOptions = {
  timeoutMs: number;
  /** Between two polls; by default it depends on the service. */
  intervalMs: number | undefined;
  /** Where the video is saved; without a target it is not downloaded. */
  target: Target | undefined;
  /** Told what happens: events, and what is of interest to a person alone. */
  reporter: { tell(event: GenerationEvent): void; show(event: ProgressEvent): void };
};

/** A generation that has completed, and the file it was saved to. */
export type Collected = Completed & { file: string | undefined };

export function createSession(service: ServiceAccess, options: SessionOptions & { journal: Journal }, io: Io): Session {
  const { baseUrl, apiKey, keyHint, local } = service;
  const { output, journal } = options;
  output.hide(apiKey);
  const fetch = traceFetch(local?.fetch ?? io.fetch, baseUrl, output, io);
  const client = createServiceClient(
    {
      baseUrl,
      apiKey,
      keyHint,
      journal,
      isPreview: local?.isPreview,
      isFree: local !== undefined,
      onNote: output.note,
    },
    { ...io, fetch },
  );
  /** The newest entries, which tell enough of a model's time. */
  let recent: Promise<Entry[]> | undefined;

  const explainNotFound = async (error: unknown, id: string) => {
    if (!(error instanceof VidgenError) || error.code !== "not_found") return error;
    const entries = await journal.entries().catch(() => []);
    const started = entries.find((entry) => entry.base_url !== baseUrl && entry.id?.startsWith(id));
    const hint = started ? otherServiceHint(started.base_url, options) : listHint(io);
    return error.with({ hint });
  };

  return {
    client,
    journal,
    isLocal: local !== undefined,
    engine: local?.engine ?? [],
    isInProcess: () => local?.isInProcess() ?? false,
    explainNotFound,
    async claim(id, outputPath, how) {
      const { overwrite, writeInfoJson } = options;
      const claimed = await client.claim(id, outputPath, { ...how, overwrite, signal: io.signal });
      if (claimed.file !== undefined && writeInfoJson) await client.addInfo(id, claimed.file, io);
      return claimed;
    },
    recordStreamed: (id) =>
      journal.append({ kind: "delivered", id, file: "-" }).catch((error) => output.note(asVidgenError(error).message)),
    async recordPrinted(id) {
      await output.printed();
      await client.delivered(id);
    },
    async collect(id, { target, reporter: { tell, show }, ...times }) {
      // A video that was paid for is saved even where the journal cannot be read.
      recent ??= client.entries(() => false).catch(() => []);
      const entries = await recent;
      const model = entries.find((entry) => entry.id === id)?.request.model;
      show({ event: "following", id, model, typicalMs: model === undefined ? undefined : typicalMs(entries, model) });
      const listeners = createEventListeners(id, tell);
      const how = {
        ...times,
        overwrite: options.overwrite,
        infoJson: options.writeInfoJson,
        signal: io.signal,
        onState(status: string, percent?: number) {
          show({ event: "percent", id, percent });
          listeners.onState(status);
        },
        onTrouble: (reason: string) => show({ event: "trouble", id, reason }),
        onProgress: listeners.onProgress,
      };
      try {
        if (target) return await client.download(id, target, how);
        return { ...(await client.follow(id, how)), file: undefined };
      } catch (error) {
        throw await explainNotFound(error, id);
      } finally {
        show({ event: "left", id });
      }
    },
    async close(isDone) {
      if (isDone) await local?.settled();
      await local?.close();
    },
  };
}

/** Without a flag that names a service, a generation is looked for where it was started. */
function otherServiceHint(other: string, { local }: SessionOptions): string {
  const where = other === localBaseUrl ? "with --local" : `at ${other}`;
  return `It was started ${where}: leave out ${local ? "--local" : "--base-url"}.`;
}
