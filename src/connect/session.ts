import { dirname, join } from "node:path";
import type { Finished } from "../client/generation/attempt.ts";
import { listRecent, openService, type Service } from "../client/generation/service.ts";
import { addInfo } from "../client/generation/status.ts";
import { unusedProxy } from "../client/http/proxy.ts";
import { type Entry, typicalMs } from "../client/ledger/history.ts";
import type { Journal } from "../client/ledger/journal.ts";
import { localBaseUrl } from "../client/ledger/same-service.ts";
import { findByBeginning } from "../client/ledger/search.ts";
import { VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { configPath } from "./keys.ts";
import { findServiceFolder, type Local, noKey, sendNothing, unsetUrl } from "./local.ts";
import { hasFolder, journalIn, storageFolder } from "./storage.ts";
import { type SessionOutput, traceFetch } from "./trace.ts";

/** A hint for an unknown id. When a hint is printed, the typed command name replaces `vidgen`. */
export const listHint = "`vidgen list` shows what was started here.";

export type SessionOptions = {
  local?: boolean;
  baseUrl?: string;
  /** The engines, if the local service runs inside this process. */
  engine?: readonly string[];
  engineTimeout?: string | undefined;
  /** Whether the command starts generations. If so, it must not use the engines of another command. */
  isStarting?: boolean;
  /**
   * Whether the command only shows what it would start. If so, no key is needed, no local service is opened,
   * and nothing is written.
   */
  isDryRun?: boolean | undefined;
  overwrite?: boolean;
  writeInfoJson?: boolean;
  output: SessionOutput;
};

/** The address and key of a service; `local` is set for the local service. */
export type ServiceAccess = { baseUrl: string; apiKey: string; keyHint?: string; local?: Local };

/** A command's access to one service and its journal. */
export type Session = {
  service: Service;
  /** The URL of a video; `undefined` if it ends with the command. */
  durableUrl(videoUrl: string | undefined): string | undefined;
  /** The engines for a model at the local service. */
  enginesFor(model: string): readonly string[];
  /** Whether the engines of this command lack a model, so that its start would be refused. */
  isUnserved(model: string): boolean;
  /** The model of a generation and its typical time, if the journal knows them. Never rejects. */
  findTypicalTime(id: string): Promise<{ model: string | undefined; typicalMs: number | undefined }>;
  /**
   * With `--write-info-json`, writes the info file of a video that was already saved. Throws `output`, or the
   * signal's reason.
   */
  addInfoFile(finished: Finished): Promise<void>;
  /** Adds a hint to a `not_found` error that names the service where the id was started; returns other errors unchanged. */
  explainNotFound(error: unknown, id: string): Promise<unknown>;
  /**
   * Closes the local service if it runs in this process; after a command that succeeded (`isOk`), only once
   * its callbacks were sent.
   */
  close(isOk: boolean): Promise<void>;
};

export function createSession(access: ServiceAccess, options: SessionOptions & { journal: Journal }, io: Io): Session {
  const { baseUrl, apiKey, keyHint, local } = access;
  const { output, journal } = options;
  output.hide(apiKey);
  const proxyWarning = local === undefined ? unusedProxy(new URL(baseUrl), io.env) : undefined;
  if (proxyWarning !== undefined) output.note(`${proxyWarning.says} ${proxyWarning.fix}`);
  const isAsked = local !== undefined || (apiKey !== noKey && baseUrl !== unsetUrl);
  const fetch = isAsked ? traceFetch(local?.fetch ?? io.fetch, baseUrl, output, io) : sendNothing;
  const service = openService(
    {
      baseUrl,
      apiKey,
      keyHint,
      journal,
      protectedPaths: findProtectedPaths(io),
      isPreview: local?.isPreview,
      ...(local?.engine.length ? { engine: local.engine } : { servedBy: local?.servedBy }),
      isFree: local?.isFree,
      isInProcess: local?.isInProcess,
      redact: output.redact,
      onNote: output.note,
    },
    // The local service is in this process, or was already asked whether it runs.
    { ...io, fetch, loadDelivery: local ? undefined : io.loadDelivery },
  );
  /** The newest entries, which are enough for a model's typical time. */
  let recentEntries: Promise<Entry[]> | undefined;

  const explainNotFound = async (error: unknown, id: string) => {
    if (!(error instanceof VidgenError) || error.code !== "not_found") return error;
    const entries = await findByBeginning(journal, id).catch(() => []);
    const startEntry = entries.find((entry) => entry.base_url !== baseUrl && entry.id !== undefined);
    const hint = startEntry ? otherServiceHint(startEntry.base_url, options) : listHint;
    return error.with({ hint });
  };

  /** `listRecent` never rejects, so that a paid video is saved even if the journal cannot be read. */
  const findTypicalTime = async (id: string) => {
    recentEntries ??= listRecent(service);
    const entries = await recentEntries;
    const entry = entries.find((each) => each.id === id);
    return { model: entry?.request.model, typicalMs: entry && typicalMs(entries, entry) };
  };

  const addInfoFile = async (finished: Finished): Promise<void> => {
    if (finished.kind === "found" && options.writeInfoJson) await addInfo(service, finished.of.id, finished.file, io);
  };

  return {
    service,
    isUnserved: (model) => Boolean(local?.engine.length) && local?.enginesFor(model).length === 0,
    enginesFor: (model) => (local?.engine.length ? local.engine : (local?.enginesFor(model) ?? [])),
    durableUrl: (videoUrl) => (service.isInProcess() ? undefined : videoUrl),
    explainNotFound,
    findTypicalTime,
    addInfoFile,
    async close(isOk) {
      if (isOk) await local?.settled();
      await local?.close();
    },
  };
}

/** The files and folders of vidgen itself. */
function findProtectedPaths(io: Io): string[] {
  const journal = hasFolder("state", io) ? journalIn(storageFolder("state", io)) : undefined;
  const stateFiles =
    journal === undefined ? [] : [journal, `${journal}.lock`, `${journal}.leases`, join(dirname(journal), "frames")];
  return [
    ...stateFiles,
    ...(hasFolder("config", io) ? [configPath(io)] : []),
    ...(hasFolder("data", io) ? [findServiceFolder(io)] : []),
  ];
}

/** A generation is searched at the service that started it, unless a flag names another service. */
function otherServiceHint(other: string, { local }: SessionOptions): string {
  const where = other === localBaseUrl ? "with --local" : `at ${other}`;
  return `It was started ${where}: leave out ${local ? "--local" : "--base-url"}.`;
}
