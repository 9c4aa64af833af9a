import { asVidgenError, VidgenError } from "../../errors.ts";
import type { Io, Machine } from "../../io.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import { type Api, createApi } from "../http/api.ts";
import { checkApiKey, createRedaction, redactValue } from "../http/redaction.ts";
import { accountOf, type Entry, type JournalLine, recordOf } from "../ledger/history.ts";
import { type Journal, noJournal, withoutSecrets } from "../ledger/journal.ts";
import { isComparable, readBalance } from "../ledger/price.ts";
import { findById, findByKey, readEntries, readRecent } from "../ledger/search.ts";
import { createKept, type Kept } from "../save/kept.ts";
import { createTargets, type Targets } from "../save/target.ts";

/** What a service may use of the outside world. */
export type ServiceIo = Machine & Pick<Io, "fetch" | "unsettled">;

export type ServiceOptions = {
  /** The service's address, as `checkBaseUrl` returns it. */
  baseUrl: string;
  apiKey: string;
  /** Where the key came from and how to replace it, for the error when the service rejects it. */
  keyHint?: string | undefined;
  /** Where each start is written down before it is sent; without one nothing is written down. */
  journal?: Journal | undefined;
  /** Returns what is known of a generation without a look into the journal, as in a batch. */
  recall?: ((id: string) => Entry | undefined) | undefined;
  /** Files and folders that no video replaces. */
  kept?: readonly string[] | undefined;
  /** Returns whether a model's videos are previews; `undefined` where that is not known. */
  isPreview?: ((model: string) => boolean | undefined) | undefined;
  /** What makes the videos of a local service, as `--engine` has it. */
  engine?: readonly string[] | undefined;
  /** Whether it is the local service, whose credits cost nothing. */
  isLocal?: boolean | undefined;
  /** Returns whether the local service says that a model's videos are previews that cost nothing. */
  isFree?: ((model: string) => boolean) | undefined;
  /** Returns whether the local service runs inside this process, and so makes nothing between two commands. */
  isInProcess?: (() => boolean) | undefined;
  /** Hides the keys of other services, which may stand in a prompt too. */
  redact?: ((text: string) => string) | undefined;
  /** Called with news for the user, such as a model that looks like a slip. */
  onNote?: ((text: string) => void) | undefined;
};

/** A service, an account at it, and what this machine knows of both: what every function about a generation begins with. */
export type Service = {
  baseUrl: string;
  /** The base URL without a key that stands in it: the service's name in the journal. */
  name: string;
  /** The account that the key stands for, as `accountOf` gives it. */
  account: string;
  api: Api;
  /** Writes no key. */
  journal: Journal;
  /** What is known of a generation without a look into the journal, as in a batch. */
  recall(id: string): Entry | undefined;
  targets: Targets;
  /** Refuses a path that is a file which vidgen needs. */
  checkKept: Kept;
  /** Whether it is the local service, whose credits cost nothing. */
  isLocal: boolean;
  /** Whether the local service says that a model's videos are previews that cost nothing. */
  isFree(model: string): boolean;
  /** Whether the local service runs inside this process, and so makes nothing between two commands. */
  isInProcess(): boolean;
  /** Whether a model's videos are previews, where that is known: they are not the same as real ones. */
  isPreview(model: string): boolean | undefined;
  engine: readonly string[] | undefined;
  keyHint: string | undefined;
  /** The text without keys. */
  redact(text: string): string;
  note(text: string): void;
  io: ServiceIo;
  /** What was started here and not followed to an end yet: a part of the service may not know it, and without a journal nothing else does. */
  unfollowed: Map<string, Entry>;
  /** The doubts that were reported, each once: the same request may be started a thousand times. */
  warned: Map<string, true>;
  /** What it was opened with. */
  options: ServiceOptions;
};

/** Opens a service for the command line and the library. Sends nothing. Throws `usage` for a key that cannot be used. */
export function openService(options: ServiceOptions, io: ServiceIo): Service {
  const { baseUrl } = options;
  const apiKey = checkApiKey(options.apiKey);
  const { redact: redactOthers = (text) => text } = options;
  const own = createRedaction();
  own.hide(apiKey);
  const redact = (text: string) => redactOthers(own.redact(text));
  const journal = withoutSecrets(options.journal ?? noJournal, redact);
  return {
    baseUrl,
    name: redact(baseUrl),
    account: accountOf(baseUrl, apiKey),
    api: createApi({ baseUrl, apiKey, fetch: io.fetch }),
    journal,
    recall: options.recall ?? (() => undefined),
    targets: createTargets(options.journal && journal, io, options.kept),
    checkKept: createKept(options.kept ?? [], io.disk),
    isLocal: options.isLocal ?? false,
    isFree: options.isFree ?? (() => false),
    isInProcess: options.isInProcess ?? (() => false),
    isPreview: options.isPreview ?? (() => undefined),
    engine: options.engine,
    keyHint: options.keyHint,
    redact,
    note: options.onNote ?? (() => {}),
    io,
    unfollowed: new Map(),
    warned: new Map(),
    options,
  };
}

/** The same service with another journal, made of its own; `kept` adds to the files that no video replaces. */
export function withJournal(
  { options, io }: Service,
  change: (journal: Journal) => Journal,
  { kept = [], recall }: Pick<ServiceOptions, "kept" | "recall"> = {},
): Service {
  const journal = change(options.journal ?? noJournal);
  return openService({ ...options, journal, recall, kept: [...(options.kept ?? []), ...kept] }, io);
}

/** What the journal knows of this service, newest first. */
export async function listEntries({ name, journal }: Service): Promise<Entry[]> {
  return (await readEntries(journal)).filter(({ base_url }) => base_url === name);
}

/** The newest part of that, which tells enough of prices, balances and times. Never rejects. */
export async function listRecent({ name, journal }: Service): Promise<Entry[]> {
  return (await readRecent(journal)).filter(({ base_url }) => base_url === name);
}

/** The attempts that have a generation of this id, newest first. */
export async function entriesOf({ name, journal, recall }: Service, id: string): Promise<Entry[]> {
  const known = recall(id);
  return known ? [known] : (await findById(journal, id)).filter(({ base_url }) => base_url === name);
}

/** The attempts with an Idempotency-Key, newest first. */
export async function entriesOfKey({ name, journal }: Service, key: string): Promise<Entry[]> {
  return (await findByKey(journal, key)).filter(({ base_url }) => base_url === name);
}

/** What is known of a generation; `undefined` also where the journal cannot be read, since what is paid for is followed all the same. */
export async function findEntry(service: Service, id: string): Promise<Entry | undefined> {
  return service.unfollowed.get(id) ?? (await entriesOf(service, id).catch(() => []))[0];
}

/** Writes down what has happened already, so a failure to write is only a note. Never rejects. */
export async function record({ journal, note }: Service, line: JournalLine): Promise<void> {
  await journal.append(line).catch((error) => note(asVidgenError(error).message));
}

/** A request as the journal keeps it. */
export function recordedRequest({ redact }: Pick<Service, "redact">, request: StartRequest): StartRequest {
  return redactValue(recordOf(request), redact);
}

/** The credits that the account has now, where the journal knows them well enough to compare them with those after a start. Never rejects. */
export async function findBalance(service: Service): Promise<number | undefined> {
  const balance = readBalance(await listRecent(service), service.account);
  return balance && isComparable(balance, service.io.date()) ? balance.credits : undefined;
}

/** Adds to the error of a key that was refused where the key came from. */
export function explainKey({ keyHint }: Service, error: VidgenError): VidgenError {
  if (error.code !== "auth" || error.ended !== undefined || keyHint === undefined) return error;
  return new VidgenError(error.code, error.message, { ...error, hint: keyHint, cause: error.cause });
}

/** How many generations that nobody follows, and how many doubts, a service remembers. */
const maxRemembered = 1_000;

/** Adds to a map, which keeps the newest thousand. */
export function remember<Value>(map: Map<string, Value>, key: string, value: Value): void {
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > maxRemembered && oldest !== undefined) map.delete(oldest);
}
