import { dirname, join } from "node:path";
import type { Finished } from "../client/generation/attempt.ts";
import { listRecent, openService, type Service } from "../client/generation/service.ts";
import { addInfo } from "../client/generation/status.ts";
import { unusedProxy } from "../client/http/proxy.ts";
import { type Entry, typicalMs } from "../client/ledger/history.ts";
import type { Journal } from "../client/ledger/journal.ts";
import { readEntries } from "../client/ledger/search.ts";
import { VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { findServiceFolder, type Local, localBaseUrl } from "./local.ts";
import { configPath } from "./settings.ts";
import { hasFolder, journalIn, storageFolder } from "./storage.ts";
import { type Notes, traceFetch } from "./trace.ts";

/** The command's name is replaced by what the user has typed. */
export const listHint = "`vidgen list` shows what was started here.";

export type SessionOptions = {
  local?: boolean;
  baseUrl?: string;
  /** What makes the videos, where the local service runs inside this process. */
  engine?: readonly string[];
  engineTimeout?: string | undefined;
  /** Whether the command starts generations, which others' engines must not make. */
  isStarting?: boolean;
  /** Whether it only tells what it would start: no key is needed, no local service is opened, and nothing is written. */
  isLooking?: boolean | undefined;
  overwrite?: boolean;
  writeInfoJson?: boolean;
  output: Notes;
};

/** Where a session sends its requests; `local` for the local service. */
export type ServiceAccess = { baseUrl: string; apiKey: string; keyHint?: string; local?: Local };

/** What a command does with one service, and with the journal of what it started there. */
export type Session = {
  service: Service;
  /** The user's journal, of all services. */
  journal: Journal;
  /** Whether the local service runs inside this process: its URLs end with the command. */
  isInProcess(): boolean;
  /** The address of a video, unless it ends with the command. */
  lastingUrl(videoUrl: string | undefined): string | undefined;
  /** The local service, which charges no credits that cost anything. */
  isLocal: boolean;
  /** What makes a model's videos at the local service: they may cost money elsewhere. */
  makersOf(model: string): readonly string[];
  /** The model of a generation, and how long that typically takes, as far as the journal tells. Never rejects. */
  findTypical(id: string): Promise<{ model: string | undefined; typicalMs: number | undefined }>;
  /** Writes the info file that `--write-info-json` asks for beside a video that was saved before. Throws `output`, or the signal's reason. */
  complete(finished: Finished): Promise<void>;
  /** Adds to a `not_found` error the service at which this machine started that id; returns any other error unchanged. */
  explainNotFound(error: unknown, id: string): Promise<unknown>;
  /** Closes the local service if it runs in this process; with `isDone` only once its callbacks are sent. */
  close(isDone: boolean): Promise<void>;
};

export function createSession(access: ServiceAccess, options: SessionOptions & { journal: Journal }, io: Io): Session {
  const { baseUrl, apiKey, keyHint, local } = access;
  const { output, journal } = options;
  output.hide(apiKey);
  const unused = local === undefined ? unusedProxy(new URL(baseUrl), io.env) : undefined;
  if (unused !== undefined) output.note(`${unused.says} ${unused.fix}`);
  const fetch = traceFetch(local?.fetch ?? io.fetch, baseUrl, output, io);
  const service = openService(
    {
      baseUrl,
      apiKey,
      keyHint,
      journal,
      kept: findKept(io),
      isPreview: local?.isPreview,
      engine: local?.engine.length ? local.engine : undefined,
      isLocal: local !== undefined,
      isFree: local?.isFree,
      isInProcess: local?.isInProcess,
      redact: output.redact,
      onNote: output.note,
    },
    { ...io, fetch },
  );
  /** The newest entries, which tell enough of a model's time. */
  let recent: Promise<Entry[]> | undefined;

  const explainNotFound = async (error: unknown, id: string) => {
    if (!(error instanceof VidgenError) || error.code !== "not_found") return error;
    const entries = await readEntries(journal).catch(() => []);
    const started = entries.find((entry) => entry.base_url !== baseUrl && entry.id?.startsWith(id));
    const hint = started ? otherServiceHint(started.base_url, options) : listHint;
    return error.with({ hint });
  };

  /** How long its model typically takes. A video that was paid for is saved even where the journal cannot be read. */
  const findTypical = async (id: string) => {
    recent ??= listRecent(service);
    const entries = await recent;
    const entry = entries.find((each) => each.id === id);
    return { model: entry?.request.model, typicalMs: entry && typicalMs(entries, entry) };
  };

  const complete = async (finished: Finished): Promise<void> => {
    if (finished.kind === "found" && options.writeInfoJson) await addInfo(service, finished.of.id, finished.file, io);
  };

  const isInProcess = () => local?.isInProcess() ?? false;

  return {
    service,
    journal,
    isLocal: local !== undefined,
    makersOf: (model) => (local?.engine.length ? local.engine : (local?.makersOf(model) ?? [])),
    isInProcess,
    lastingUrl: (videoUrl) => (isInProcess() ? undefined : videoUrl),
    explainNotFound,
    findTypical,
    complete,
    async close(isDone) {
      if (isDone) await local?.settled();
      await local?.close();
    },
  };
}

/** The files and folders that vidgen itself needs. */
function findKept(io: Io): string[] {
  const journal = hasFolder("state", io) ? journalIn(storageFolder("state", io)) : undefined;
  const inState =
    journal === undefined ? [] : [journal, `${journal}.lock`, `${journal}.leases`, join(dirname(journal), "frames")];
  return [
    ...inState,
    ...(hasFolder("config", io) ? [configPath(io)] : []),
    ...(hasFolder("data", io) ? [findServiceFolder(io)] : []),
  ];
}

/** Without a flag that names a service, a generation is looked for where it was started. */
function otherServiceHint(other: string, { local }: SessionOptions): string {
  const where = other === localBaseUrl ? "with --local" : `at ${other}`;
  return `It was started ${where}: leave out ${local ? "--local" : "--base-url"}.`;
}
