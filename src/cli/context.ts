import { isAbsolute } from "node:path";
import { type Client, createClient } from "../client/client.ts";
import type { Completed } from "../client/follow.ts";
import { type Entry, typicalMs } from "../client/history.ts";
import { type Journal, openJournal } from "../client/journal.ts";
import type { Target } from "../client/target.ts";
import { asVidgenError, systemCode, usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import type { LockIo } from "../lease.ts";
import { findServiceFolder, localBaseUrl, openLocal } from "./local.ts";
import { resolveApiKey, resolveBaseUrl } from "./settings.ts";
import { findStorage, journalIn } from "./storage.ts";
import { type Output, programName } from "./terminal/output.ts";
import { createProgressDisplay } from "./terminal/progress.ts";

type SessionOptions = { local?: boolean; baseUrl?: string; overwrite?: boolean; output: Output };

/** What a command does with one service, and with the journal of what it started there. */
export type Session = {
  client: Client;
  /** Whether the local service runs inside this process: its URLs end with the command. */
  isInProcess(): boolean;
  /** What this machine has started. */
  journal: Journal;
  /**
   * The full id for the typed one. When the service does not know the typed id, it stands for an id in the journal that begins with it.
   * UUIDs are the same in upper and lower case. Throws `usage` when there are several.
   */
  resolveId(typed: string): Promise<string>;
  /** The newest generation of this service that has not ended. Throws `not_found` when there is none. */
  newestRunning(): Promise<string>;
  /** Follows a generation to its end, saves its video, and shows progress. Its errors carry the id and the command to resume. */
  collect(id: string, options: CollectOptions): Promise<Collected>;
  /** The saved file, with a note, when the journal says that the video was saved at `place`; else `undefined`. */
  findAlreadySaved(id: string, place: string | undefined): Promise<string | undefined>;
  /** Writes down that the video was streamed to stdout. */
  recordStreamed(id: string): Promise<void>;
  /** Adds to a `not_found` error the service at which this machine started that id; returns any other error unchanged. */
  explainNotFound(error: unknown, id: string): Promise<unknown>;
  /** Adds the id, and the command to resume, to an error that came after a generation was paid for. */
  explain(error: unknown, id: string, place: string | undefined): unknown;
  /** Closes the local service if it runs in this process; with `isDone` only once its callbacks are sent. */
  close(isDone: boolean): Promise<void>;
};

type CollectOptions = {
  timeoutMs: number;
  /** Between two polls; by default it depends on the service. */
  intervalMs: number | undefined;
  /** Where the video is saved; without a target it is not downloaded. */
  target: Target | undefined;
  /** `-o` as it was typed, for the command to resume. */
  place: string | undefined;
};

/** A generation that has completed, and the file it was saved to. */
export type Collected = Completed & { file: string | undefined };

/** What was started before that runs no more: a long journal is not read to its beginning for it. */
const longestRunMs = 7 * 24 * 3600_000;

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Connects to the remote service of the settings, or with `--local` to the local one. Sends nothing to a remote service. */
export async function openSession(options: SessionOptions, io: Io): Promise<Session> {
  const { output } = options;
  if (options.local && options.baseUrl !== undefined) throw usage("--local and --base-url name two services.");
  const local = options.local ? await openLocal(io, output.note) : undefined;
  const { baseUrl, apiKey } = local ?? (await resolveService(options, io));
  output.hide(apiKey);
  const { journal, note } = await findJournal(options.local ?? false, { ...io, onNote: output.note });
  if (note !== undefined) output.note(note);
  const fetch = traceFetch(local?.fetch ?? io.fetch, baseUrl, output, io);
  const client = createClient({ baseUrl, apiKey, journal, onNote: output.note }, { ...io, fetch });
  const display = createProgressDisplay(output, io);
  /** The newest entries, which tell enough of a model's time. */
  let recent: Promise<Entry[]> | undefined;
  const listCommand = `\`${programName(io.env)} list\``;

  const explain = (error: unknown, id: string, place: string | undefined) => {
    if (!(error instanceof VidgenError) || (error.id !== undefined && error.hint?.includes("To go on"))) return error;
    const isOver = error.code === "failed" || error.code === "not_found";
    return error.with({ id, hint: isOver ? undefined : `To go on: ${resumeCommand(id, place, options, io)}` });
  };
  const explainNotFound = async (error: unknown, id: string) => {
    if (!(error instanceof VidgenError) || error.code !== "not_found") return error;
    const entries = await journal.entries().catch(() => []);
    const started = entries.find((entry) => entry.base_url !== baseUrl && entry.id?.startsWith(id));
    const hint = started ? otherServiceHint(started.base_url, options) : `${listCommand} shows what was started here.`;
    return error.with({ hint });
  };
  const isKnownThere = async (id: string) => {
    // The command's own request will meet any other error too, and reports it.
    const outcome = await client.status(id, { signal: io.signal }).catch(asVidgenError);
    return !(outcome instanceof VidgenError && outcome.code === "not_found");
  };

  return {
    client,
    isInProcess: () => local?.isInProcess() ?? false,
    journal,
    explainNotFound,
    explain,
    async resolveId(typed) {
      // A full id needs no journal.
      const ids = (await client.entries().catch(() => [])).flatMap(({ id }) => id ?? []);
      const lower = typed.toLowerCase();
      const begins = (id: string) => id.startsWith(typed) || (uuid.test(id) && id.toLowerCase().startsWith(lower));
      const meant = [...new Set(ids.filter(begins))];
      const whole = meant.find((id) => id.length === typed.length) ?? (uuid.test(typed) ? lower : typed);
      const [only = whole, ...others] = meant;
      if (meant.length === 0 || meant.includes(whole) || (await isKnownThere(whole))) return whole;
      if (others.length > 0) throw usage(`Several ids begin with ${typed}.`, meant.join("\n"));
      return only;
    },
    async newestRunning() {
      const isRunning = (entry: Entry) => entry.status === "processing";
      const since = io.date().getTime() - longestRunMs;
      const isNew = ({ at }: Entry) => new Date(at).getTime() > since;
      const entries = await client.entries((part) => !part.some(isRunning) && part.some(isNew));
      const { id } = entries.find(isRunning) ?? {};
      if (id !== undefined) return id;
      throw new VidgenError("not_found", "No generation that was started here is running.", {
        hint: `Give an id; ${listCommand} shows what was started.`,
      });
    },
    async findAlreadySaved(id, place) {
      if (place === undefined || options.overwrite) return undefined;
      const file = await client.findSaved(id, place).catch(() => undefined);
      if (file !== undefined) output.note(`${id} is already saved.`);
      return file;
    },
    recordStreamed: (id) =>
      journal.append({ kind: "saved", id, file: "-" }).catch((error) => output.note(asVidgenError(error).message)),
    async collect(id, { target, place, ...times }) {
      // A video that was paid for is saved even where the journal cannot be read.
      recent ??= client.entries(() => false).catch(() => []);
      const entries = await recent;
      const model = entries.find((entry) => entry.id === id)?.request.model;
      const typical = model === undefined ? undefined : typicalMs(entries, model);
      const { stop, ...listeners } = display.follow(id, { model, typicalMs: typical });
      const how = { ...times, signal: io.signal, ...listeners };
      try {
        if (target) return await client.download(id, target, how);
        return { ...(await client.follow(id, how)), file: undefined };
      } catch (error) {
        throw explain(await explainNotFound(error, id), id, place);
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
  io: Io & Pick<LockIo, "onNote">,
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
  return { path: "", ...writing, entries: async () => [], findPart: async () => undefined };
}

function resumeCommand(id: string, place: string | undefined, options: SessionOptions, io: Io): string {
  const words = [
    ...(options.local ? ["--local"] : []),
    ...(options.baseUrl === undefined ? [] : ["--base-url", options.baseUrl]),
    ...(place === undefined ? [] : ["-o", place]),
    ...(options.overwrite ? ["--overwrite"] : []),
  ];
  const all = id.startsWith("-") ? [...words, "--", id] : [id, ...words];
  return `${programName(io.env)} wait ${all.map(quote).join(" ")}`;
}

function otherServiceHint(other: string, { local }: SessionOptions): string {
  if (other === localBaseUrl) return "It was started with --local: add --local.";
  return `It was started at ${other}: add --base-url ${quote(other)}${local ? " in the place of --local" : ""}.`;
}

/** Quotes a word for a shell where it needs quotes; zsh expands a word that begins with "=". */
export function quote(word: string): string {
  return /^(?!=)[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Prints each request and reply with `--verbose`. The query of a media URL is left out: it may be a secret. */
export function traceFetch(fetch: Io["fetch"], baseUrl: string, output: Output, io: Pick<Io, "now">): Io["fetch"] {
  if (!output.verbose) return fetch;
  return async (url, init) => {
    const shown = `${init?.method ?? "GET"} ${url.startsWith(baseUrl) ? url : url.replace(/\?.*$/s, "?...")}`;
    const start = io.now();
    const report = (outcome: string | number) =>
      output.trace(`< ${outcome} ${shown} (${Math.round(io.now() - start)} ms)`);
    output.trace(`> ${shown}`);
    try {
      const response = await fetch(url, init);
      report(response.status);
      return response;
    } catch (error) {
      report(systemCode(error) ?? (error instanceof Error ? error.message : "failed"));
      throw error;
    }
  };
}
