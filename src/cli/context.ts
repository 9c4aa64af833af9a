import { isAbsolute } from "node:path";
import type { Claim } from "../client/claims.ts";
import { type Client, createClient } from "../client/client.ts";
import type { Completed } from "../client/follow.ts";
import { type Entry, typicalMs } from "../client/history.ts";
import { type Journal, type JournalIo, openJournal } from "../client/journal.ts";
import { asVidgenError, usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { quote, valueWords } from "./command-line.ts";
import { findServiceFolder, type Local, localBaseUrl, openLocal } from "./local.ts";
import { resolveApiKey, resolveBaseUrl, resolveOwnKey } from "./settings.ts";
import { findStorage, journalIn } from "./storage.ts";
import { type Output, programName } from "./terminal/output.ts";
import { createProgressDisplay, type ProgressDisplay } from "./terminal/progress.ts";
import { traceFetch } from "./terminal/trace.ts";

export type SessionOptions = {
  local?: boolean;
  baseUrl?: string;
  overwrite?: boolean;
  writeInfoJson?: boolean;
  output: Output;
};

/** What all sessions of a command share. */
export type Shared = { journal: Journal; display: ProgressDisplay };

/** Where a session sends its requests; `local` for the local service. */
type Service = { baseUrl: string; apiKey: string; local?: Local };

/** What a command does with one service, and with the journal of what it started there. */
export type Session = {
  client: Client;
  /** The user's journal, of all services. */
  journal: Journal;
  /** Whether the local service runs inside this process: its URLs end with the command. */
  isInProcess(): boolean;
  /** The local service, which charges nothing. */
  isLocal: boolean;
  /** Follows a generation to its end, saves its video, and shows progress. */
  collect(id: string, options: CollectOptions): Promise<Collected>;
  /** The saved file, with a note, when the journal says that the video was saved at `place`; else `undefined`. */
  findAlreadySaved(id: string, place: string | undefined): Promise<string | undefined>;
  /** Writes down that the video was streamed to stdout. */
  recordStreamed(id: string): Promise<void>;
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
  target: Claim | undefined;
  /** Called with the status of the generation, as often as the service reports it. */
  onStatus?: (status: string) => void;
  /** Called with the bytes of the video so far; `total` is `undefined` when the size is not known. */
  onProgress?: (received: number, total: number | undefined) => void;
};

/** A generation that has completed, and the file it was saved to. */
export type Collected = Completed & { file: string | undefined };

/** Connects to the remote service of the settings, or with `--local` to the local one. Sends nothing to a remote service. */
export async function openSession(options: SessionOptions, io: Io): Promise<Session> {
  const service = await openService(options, io);
  return createSession(service, { ...options, ...(await openShared(options, io)) }, io);
}

/** The journal, with a note when it is not in its usual folder, and the progress display. */
export async function openShared({ local = false, output }: SessionOptions, io: Io): Promise<Shared> {
  const { journal, note } = await findJournal(local, { ...io, onNote: output.note });
  if (note !== undefined) output.note(note);
  return { journal, display: createProgressDisplay(output, io) };
}

/** The service that the flags and the settings name. */
export async function openService(options: SessionOptions, io: Io): Promise<Service> {
  if (options.local && options.baseUrl !== undefined) throw usage("--local and --base-url cannot be combined.");
  return options.local ? openLocalService(options, io) : resolveService(options, io);
}

/** The service that a generation was started at, by the journal's name of it. Throws `auth` without a key of its own. */
export async function openServiceOf(baseUrl: string, options: SessionOptions, io: Io): Promise<Service> {
  if (baseUrl === localBaseUrl) return openLocalService(options, io);
  return { baseUrl, apiKey: await resolveOwnKey(baseUrl, io) };
}

async function openLocalService({ output }: SessionOptions, io: Io): Promise<Service> {
  const local = await openLocal(io, output.note);
  return { baseUrl: local.baseUrl, apiKey: local.apiKey, local };
}

export function createSession(service: Service, options: SessionOptions & Shared, io: Io): Session {
  const { baseUrl, apiKey, local } = service;
  const { output, journal, display } = options;
  output.hide(apiKey);
  const fetch = traceFetch(local?.fetch ?? io.fetch, baseUrl, output, io);
  const client = createClient({ baseUrl, apiKey, journal, onNote: output.note }, { ...io, fetch });
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
    isInProcess: () => local?.isInProcess() ?? false,
    explainNotFound,
    async findAlreadySaved(id, place) {
      if (place === undefined || options.overwrite) return undefined;
      const file = await client.findSaved(id, place).catch(() => undefined);
      if (file === undefined) return undefined;
      output.note(`${id} is already saved.`);
      if (options.writeInfoJson) await client.addInfo(id, file, io);
      return file;
    },
    recordStreamed: (id) =>
      journal.append({ kind: "saved", id, file: "-" }).catch((error) => output.note(asVidgenError(error).message)),
    async collect(id, { target, onStatus, onProgress, ...times }) {
      // A video that was paid for is saved even where the journal cannot be read.
      recent ??= client.entries(() => false).catch(() => []);
      const entries = await recent;
      const model = entries.find((entry) => entry.id === id)?.request.model;
      const typical = model === undefined ? undefined : typicalMs(entries, model);
      const { stop, ...listeners } = display.follow(id, { model, typicalMs: typical });
      const onState = (status: string, percent?: number) => {
        onStatus?.(status);
        listeners.onState(status, percent);
      };
      const { overwrite, writeInfoJson: infoJson } = options;
      const onBytes = (received: number, total: number | undefined) => {
        onProgress?.(received, total);
        listeners.onProgress(received, total);
      };
      const how = { ...times, overwrite, infoJson, signal: io.signal, ...listeners, onState, onProgress: onBytes };
      try {
        if (target) return await client.download(id, target, how);
        return { ...(await client.follow(id, how)), file: undefined };
      } catch (error) {
        throw await explainNotFound(error, id);
      } finally {
        stop();
      }
    },
    async close(isDone) {
      if (isDone) await local?.settled();
      await local?.close();
    },
  };
}

/** The remote service and its key, from flag, environment or saved file. Throws `usage` without a base URL, `auth` without a key. */
export async function resolveService(options: Pick<SessionOptions, "baseUrl">, io: Io) {
  const baseUrl = await resolveBaseUrl(options.baseUrl, io, ", save one with `vidgen login`, or use --local");
  return { baseUrl, apiKey: await resolveApiKey(baseUrl, io) };
}

/** The user's journal. `note` is set when the journal, or with `isLocal` the local service's state, is not in its usual folder. */
export async function findJournal(
  isLocal: boolean,
  io: Io & Pick<JournalIo, "onNote">,
): Promise<{ journal: Journal; note: string | undefined }> {
  const storage = await findStorage("state", io).catch(asVidgenError);
  if (storage instanceof VidgenError) return { journal: noJournal(storage), note: storage.message };
  // The usual journal may hold entries from a time when it could be written.
  const { usual = "" } = storage;
  const journal = openJournal(journalIn(storage.folder), io, isAbsolute(usual) ? journalIn(usual) : undefined);
  const note = storage.note ?? (isLocal ? (await findServiceFolder(io)).note : undefined);
  return { journal, note };
}

/** Replaces a journal that cannot be written: polls and downloads work without one; a start, which costs money, fails. */
function noJournal(error: VidgenError): Journal {
  const refuse = async () => {
    throw error;
  };
  const writing = { append: refuse, lock: refuse, hold: refuse, isHeld: refuse, forget: refuse };
  return { path: "", ...writing, entries: async () => [], entriesOf: async () => [], findLast: async () => undefined };
}

export type ResumeOptions = Omit<SessionOptions, "output"> & {
  /** `-o` as it was typed. */
  place: string | undefined;
};

/** The hint with the command that resumes these generations, or with "--all" those that are open. */
export function resumeHint(ids: string[] | "--all", options: ResumeOptions, io: Pick<Io, "env">): string {
  const { local, baseUrl, place, overwrite, writeInfoJson } = options;
  const flags = [
    ...(local ? ["--local"] : []),
    ...(baseUrl === undefined ? [] : ["--base-url", baseUrl]),
    ...(place === undefined ? [] : valueWords("-o", "--output", place)),
    ...(overwrite ? ["--overwrite"] : []),
    ...(writeInfoJson ? ["--write-info-json"] : []),
  ];
  const words = typeof ids === "string" ? [ids] : ids;
  const isOdd = typeof ids !== "string" && ids.some((id) => id.startsWith("-"));
  const all = isOdd ? [...flags, "--", ...words] : [...words, ...flags];
  return `Resume with: ${programName(io.env)} wait ${all.map(quote).join(" ")}`;
}

/** Adds the id, and the command to resume, to an error that came after a generation was paid for. */
export function explain(error: unknown, id: string, options: ResumeOptions, io: Pick<Io, "env">): unknown {
  if (!(error instanceof VidgenError)) return error;
  return error.with({ id, hint: isOver(error) ? undefined : resumeHint([id], options, io) });
}

/** Whether an error means that there is nothing to resume. */
export function isOver({ code }: VidgenError): boolean {
  return code === "failed" || code === "not_found";
}

/** Without a flag that names a service, a generation is looked for where it was started. */
function otherServiceHint(other: string, { local }: SessionOptions): string {
  const where = other === localBaseUrl ? "with --local" : `at ${other}`;
  return `It was started ${where}: leave out ${local ? "--local" : "--base-url"}.`;
}

export function listHint({ env }: Pick<Io, "env">): string {
  return `\`${programName(env)} list\` shows what was started here.`;
}
