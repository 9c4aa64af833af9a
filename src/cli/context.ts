import { isAbsolute } from "node:path";
import { type Client, createClient } from "../client/api.ts";
import { type Collected, collect } from "../client/collect.ts";
import { compactJournal } from "../client/compact.ts";
import { localPace, remotePace } from "../client/follow.ts";
import { type Entry, type Journal, type Line, openJournal } from "../client/journal.ts";
import { idsBeginningWith, otherServiceOf } from "../client/known.ts";
import { lookPatiently } from "../client/look.ts";
import type { Naming } from "../client/naming.ts";
import { claimPlace, fillWords } from "../client/place.ts";
import type { Target } from "../client/target.ts";
import { typicalMs } from "../client/typical.ts";
import { asVidgenError, systemCode, usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import { findServiceFolder, localBaseUrl, openLocal } from "./local.ts";
import { isLoopback, resolveApiKey, resolveBaseUrl } from "./settings.ts";
import { findStorage, journalIn, storageNote } from "./storage.ts";
import type { Output } from "./terminal/output.ts";
import { createBoard } from "./terminal/progress.ts";

export type SessionOptions = { local?: boolean; baseUrl?: string; overwrite?: boolean; output: Output };

/** A command's dealings with one service. */
export type Session = {
  client: Client;
  /** The local service runs inside this process: its addresses end with the command. */
  isHere(): boolean;
  /** What this machine has started. */
  journal: Journal;
  /** What this machine has started at this service, newest first. */
  entries(): Promise<Entry[]>;
  /** What the journal tells of a generation of this service. */
  find(id: string): Promise<Entry | undefined>;
  /**
   * The id that was meant: what was typed, unless the service knows no such id and this machine has started one that begins so. Throws
   * `usage` when it has started several.
   */
  fullId(typed: string): Promise<string>;
  /** The newest generation of this service that has not ended. Throws `not_found` when there is none. */
  newestRunning(): Promise<string>;
  /** Claims the place that `-o` names; with `id` its file name is known, and a `.part` of an earlier run is gone on with. */
  claim(place: string, options: ClaimOptions): Promise<Target>;
  /** The place with what is known of a generation filled in; where it goes to a new file each time, `undefined`. */
  placeOf(place: string, id: string): Promise<string | undefined>;
  /** Follows a generation to its end and saves its video; errors carry the id and the command to go on. */
  collect(id: string, options: CollectOptions): Promise<Collected>;
  /** A `not_found` with a hint where this machine has started that id; any other error as it is. */
  whereElse(error: unknown, id: string): Promise<unknown>;
  /** An error that came after a generation was paid for, with its id and the command to go on. */
  explain(error: unknown, id: string, place: string | undefined): unknown;
  /** Waits for what is still to be sent, then ends; without `isDone` it ends at once. */
  close(isDone: boolean): Promise<void>;
};

export type ClaimOptions = {
  overwrite: boolean;
  /** A word that no other claim has. */
  unique: string;
  id?: string;
  /** Where the journal does not know. */
  naming?: Omit<Naming, "id">;
  /** Where `{n}` begins; 1 unless there are several. */
  first?: number;
};

export type CollectOptions = {
  timeoutMs: number;
  /** Between two looks; by default it depends on the service. */
  intervalMs: number | undefined;
  isNew: boolean;
  target: Target | undefined;
  /** `-o` as it was typed, for the command to go on. */
  place: string | undefined;
  /** Where the journal does not know. */
  naming: Omit<Naming, "id">;
};

/** Connects to the remote service of the settings, or with `--local` to the local one. Sends nothing to a remote one yet. */
export async function openSession(options: SessionOptions, io: Io): Promise<Session> {
  const { output } = options;
  if (options.local && options.baseUrl !== undefined) throw usage("--local and --base-url name two services.");
  const local = options.local ? await openLocal(io, output.note) : undefined;
  const { baseUrl, apiKey } = local ?? (await checkSettings(options, io));
  output.hide(apiKey);
  const { now, date, sleep, limit, turn } = io;
  const world = { now, date, sleep, limit, turn, fetch: traced(local?.fetch ?? io.fetch, baseUrl, output, io) };
  const client = createClient({ baseUrl, apiKey, fetch: world.fetch });
  const kept = await openKept(options.local ?? false, io);
  if (kept.note !== undefined) output.note(kept.note);
  const journal = withoutSecrets(kept.journal, output);
  await compactJournal(journal.path, io.date()).catch(() => {});
  const pace = local || isLoopback(new URL(baseUrl).hostname) ? localPace : remotePace;
  const explain = (error: unknown, id: string, place: string | undefined) => {
    if (!(error instanceof VidgenError) || (error.id !== undefined && error.hint?.includes("To go on"))) return error;
    return error.with({ id, hint: hintToGoOn(error, commandToGoOn(id, place, options, io)) });
  };
  // Read once: a command that follows a thousand generations looks each of them up.
  let entries: Promise<Entry[]> | undefined;
  const allEntries = () => {
    entries ??= journal.entries();
    return entries;
  };
  const ownEntries = async () => (await allEntries()).filter((entry) => entry.base_url === baseUrl);
  const board = createBoard(output, io);
  const claimed = new Map<string, string>();
  const find = async (id: string) => (await ownEntries()).find((entry) => entry.id === id);
  const isKnownThere = async (id: string) => {
    // Whatever else is wrong will be so for the command too, which says it better.
    const outcome = await lookPatiently(client, id, world, io.signal).catch(asVidgenError);
    return !(outcome instanceof VidgenError && outcome.code === "not_found");
  };
  const listCommand = `\`${programName(io.env)} list\``;
  const whereElse = async (error: unknown, id: string) => {
    if (!(error instanceof VidgenError) || error.code !== "not_found") return error;
    const other = otherServiceOf(await allEntries(), id, baseUrl);
    const hint = other === undefined ? `${listCommand} shows what was started here.` : hintToGoThere(other, options);
    return error.with({ hint });
  };

  return {
    client,
    isHere: () => local?.isHere() ?? false,
    journal,
    entries: ownEntries,
    find,
    whereElse,
    explain,
    async fullId(typed) {
      const meant = idsBeginningWith(await ownEntries(), typed);
      const [only = typed, ...others] = meant;
      if (meant.length === 0 || meant.includes(typed) || (await isKnownThere(typed))) return typed;
      if (others.length > 0) throw usage(`Several ids begin with ${typed}.`, meant.join("\n"));
      return only;
    },
    async newestRunning() {
      const { id } = (await ownEntries()).find((entry) => entry.status === "processing") ?? {};
      if (id !== undefined) return id;
      throw new VidgenError("not_found", "No generation that was started here is running.", {
        hint: `Give an id; ${listCommand} shows what was started.`,
      });
    },
    async claim(place, { id, first = 1, ...rest }) {
      const { unique } = rest;
      const entry = id === undefined ? undefined : await find(id);
      const naming = { ...rest.naming, ...wordsOf(entry), id };
      // Two generations of this command never share a file, though by its process alone it would seem left behind.
      const isOurs = (file: string) => (claimed.get(file) ?? unique) === unique;
      const mayTakeOver = async (file: string) => isOurs(file) && isLeftBehind(await journal.claimants(file), io);
      const onPart = async (file: string) => {
        if (isOurs(file)) claimed.set(file, unique);
        // Without it another run could not tell that this process is gone; that alone must stop nobody.
        await journal.append({ kind: "claim", file, pid: io.pid }).catch(() => {});
      };
      return claimPlace(place, { ...rest, naming, first, date: dayOf(entry, io), onPart, mayTakeOver });
    },
    async placeOf(place, id) {
      const entry = await find(id);
      if (!entry || place.includes("{n}")) return undefined;
      return fillWords(place, { naming: wordsOf(entry), date: dayOf(entry, io) });
    },
    async collect(id, { intervalMs, place, ...rest }) {
      const entry = rest.isNew ? undefined : await find(id);
      const { model } = { ...rest.naming, ...wordsOf(entry) };
      const progress = board.follow(id, model);
      const { onNote, onState, onProgress } = progress;
      if (model !== undefined && !output.quiet)
        ownEntries().then(
          (all) => progress.expect(typicalMs(all, model)),
          () => {},
        );
      const etag = entry?.part?.file === rest.target?.partPath() ? entry?.part?.etag : undefined;
      const known = { naming: { ...rest.naming, ...wordsOf(entry) }, journal, etag };
      const interval = intervalMs === undefined ? pace : () => intervalMs;
      try {
        await rest.target?.settle({ id, ...known.naming });
        const how = { ...rest, ...known, intervalMs: interval, signal: io.signal, onNote, onState, onProgress };
        return await collect(client, id, how, world);
      } catch (error) {
        throw explain(await whereElse(error, id), id, place);
      } finally {
        progress.stop();
      }
    },
    async close(isDone) {
      if (isDone) await local?.settled();
      await local?.close();
    },
  };
}

/** The remote service and its key. Throws `usage` or `auth` where one of them is not known. */
export async function checkSettings(options: Pick<SessionOptions, "baseUrl">, io: Io) {
  const baseUrl = await resolveBaseUrl(options.baseUrl, io, ", save one with `vidgen login`, or use --local");
  return { baseUrl, apiKey: await resolveApiKey(baseUrl, io) };
}

/** The service's words are written down too, and may repeat the key. */
function withoutSecrets(journal: Journal, output: Output): Journal {
  const redacted = (line: Line): Line => ("reason" in line ? { ...line, reason: output.redact(line.reason) } : line);
  return { ...journal, append: (line) => journal.append(redacted(line)) };
}

/** The journal of this machine, and what is to be said where it, or with `isLocal` the local service, is not kept in its usual folder. */
export async function openKept(isLocal: boolean, io: Io): Promise<{ journal: Journal; note: string | undefined }> {
  const storage = await findStorage("state", io).catch(asVidgenError);
  if (storage instanceof VidgenError) return { journal: noJournal(storage), note: storage.message };
  const journal = openJournal(journalIn(storage.folder), io);
  const note = storageNote(storage) ?? (isLocal ? (await findServiceFolder(io)).note : undefined);
  if (!storage.instead || !isAbsolute(storage.instead.usual)) return { journal, note };
  // What was written down while that could still be written is as true as ever.
  const before = openJournal(journalIn(storage.instead.usual), io);
  const entries = async () => [...(await journal.entries()), ...(await before.entries().catch(() => []))];
  return { journal: { ...journal, entries }, note };
}

/** Looking at a generation and fetching it need no journal; what is to be paid for does, and ends here. */
function noJournal(error: VidgenError): Journal {
  const append = async () => {
    throw error;
  };
  return { path: "", append, entries: async () => [], claimants: async () => [] };
}

/** A `.part` that no journal speaks of may be anything; one whose processes are gone, or had the number that is ours now, is nobody's. */
function isLeftBehind(pids: number[], io: Io): boolean {
  return pids.length > 0 && pids.every((pid) => pid === io.pid || !io.isRunning(pid));
}

function wordsOf(entry: Entry | undefined): Omit<Naming, "id"> {
  return entry ? { prompt: entry.request.prompt, model: entry.request.model } : {};
}

/** The day of its start, the same in each run; UTC, as all times that vidgen shows. */
function dayOf(entry: Entry | undefined, io: Pick<Io, "date">): string {
  return (entry?.at ?? io.date().toISOString()).slice(0, 10);
}

function commandToGoOn(id: string, place: string | undefined, options: SessionOptions, io: Io): string {
  const words = [
    ...(options.local ? ["--local"] : []),
    ...(options.baseUrl === undefined ? [] : ["--base-url", options.baseUrl]),
    ...(place === undefined ? [] : ["-o", place]),
    ...(options.overwrite ? ["--overwrite"] : []),
  ];
  const all = id.startsWith("-") ? [...words, "--", id] : [id, ...words];
  return `${programName(io.env)} wait ${all.map(quote).join(" ")}`;
}

function hintToGoThere(other: string, { local }: SessionOptions): string {
  if (other === localBaseUrl) return "It was started with --local: add --local.";
  return `It was started at ${other}: add --base-url ${quote(other)}${local ? " in the place of --local" : ""}.`;
}

function hintToGoOn({ code }: VidgenError, command: string): string | undefined {
  return code === "failed" || code === "not_found" ? undefined : `To go on: ${command}`;
}

/** Such as "npx vidgen", when that is how it was called: the next command has to work as it is printed. */
export function programName(env: Io["env"]): string {
  return env.npm_command === "exec" ? "npx vidgen" : "vidgen";
}

/** A word as a shell reads it; what begins with "=" is a command's path to zsh. */
export function quote(word: string): string {
  return /^(?!=)[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** `--verbose`: each request and reply, without the query of an address other than the service's own, which may be a secret. */
export function traced(fetch: Io["fetch"], baseUrl: string, output: Output, io: Pick<Io, "now">): Io["fetch"] {
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
