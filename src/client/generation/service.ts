import { asVidgenError, VidgenError } from "../../errors.ts";
import type { Io, Machine } from "../../io.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import { findApiPathHint } from "../../protocol/url.ts";
import { type Api, createApi } from "../http/api.ts";
import { checkApiKey, createRedaction, redactValue } from "../http/redaction.ts";
import { invalidKeyHint } from "../http/reply.ts";
import { accountOf, type Entry, type JournalLine, recordOf } from "../ledger/history.ts";
import { type Journal, noJournal, withoutSecrets } from "../ledger/journal.ts";
import { isComparable, readBalance } from "../ledger/price.ts";
import { isSameService, localBaseUrl } from "../ledger/same-service.ts";
import { findById, findByKey, readEntries, readRecent } from "../ledger/search.ts";
import { createProtectedCheck, type ProtectedCheck } from "../save/protected.ts";
import { createTargets, type Targets } from "../save/target.ts";

/** The I/O of a service. `unsettled` has the attempts whose request was sent and not answered yet. */
export type ServiceIo = Machine & Pick<Io, "fetch" | "loadDelivery" | "unsettled">;

/** What is known of the local service, and of no other. */
type LocalFacts = {
  /** Whether a model's videos are previews; `undefined` if that is unknown. */
  isPreview(model: string): boolean | undefined;
  /** Whether a model's videos are previews that cost nothing. */
  isFree(model: string): boolean;
  /** Whether it runs inside this process, and so works only while a command runs. */
  isInProcess(): boolean;
  /** Its engines, as in `--engine`. */
  engine: readonly string[] | undefined;
  /** Without `engine`: those that it announces. */
  servedBy: readonly string[] | undefined;
};

export type ServiceOptions = { [Name in keyof LocalFacts]?: LocalFacts[Name] | undefined } & {
  /** The base URL as returned by `checkBaseUrl`. */
  baseUrl: string;
  apiKey: string;
  /** The source of the key and how to replace it, for the error when the service rejects it. */
  keyHint?: string | undefined;
  /** Records each start before it is sent; without a journal nothing is recorded. */
  journal?: Journal | undefined;
  /** Returns the entry of a generation from memory, where a batch keeps its entries, instead of from the journal. */
  recall?: ((id: string) => Entry | undefined) | undefined;
  /** Files and folders that no video may replace. */
  protectedPaths?: readonly string[] | undefined;
  /** Hides the keys of other services, which a prompt may contain. */
  redact?: ((text: string) => string) | undefined;
  /** Called with notes for the user, such as about a misspelled model. */
  onNote?: ((text: string) => void) | undefined;
};

/** A service, an account at it, and this machine's journal of both: the first argument of every function about a generation. */
export type Service = LocalFacts & {
  baseUrl: string;
  /** The base URL without any key in it: the service's name in the journal. */
  name: string;
  /** The account of the key (see `accountOf`). */
  account: string;
  api: Api;
  /** A journal that redacts keys. */
  journal: Journal;
  /** The entry of a generation without reading the journal, as in a batch. */
  recall(id: string): Entry | undefined;
  targets: Targets;
  /** Throws for a path that vidgen must not overwrite. */
  checkProtected: ProtectedCheck;
  /** Whether the service is the local service, whose credits are free. */
  isLocal: boolean;
  keyHint: string | undefined;
  /** The text without keys. */
  redact(text: string): string;
  note(text: string): void;
  io: ServiceIo;
  /**
   * Generations that were started here and have not been followed to their end. A service with several
   * processes may at first answer 404 for them.
   */
  unfollowed: Map<string, Entry>;
  /** The warnings that were shown, because each is shown only once. A map, so that `remember` can limit it. */
  warned: Map<string, true>;
  /** The options that the service was opened with. */
  options: ServiceOptions;
};

/** Opens a service for the command line and the library. Sends nothing. Throws `usage` for a key that cannot be used. */
export function openService(options: ServiceOptions, io: ServiceIo): Service {
  const { baseUrl } = options;
  const apiKey = checkApiKey(options.apiKey);
  const { redact: redactOtherKeys = (text) => text } = options;
  const apiKeyRedaction = createRedaction();
  apiKeyRedaction.hide(apiKey);
  const redact = (text: string) => redactOtherKeys(apiKeyRedaction.redact(text));
  const journal = withoutSecrets(options.journal ?? noJournal, redact);
  return {
    baseUrl,
    name: redact(baseUrl),
    account: accountOf(baseUrl, apiKey),
    api: createApi({ baseUrl, apiKey, fetch: io.fetch }),
    journal,
    recall: options.recall ?? (() => undefined),
    targets: createTargets(options.journal && journal, io, options.protectedPaths),
    checkProtected: createProtectedCheck(options.protectedPaths ?? [], io.disk),
    isLocal: baseUrl === localBaseUrl,
    isFree: options.isFree ?? (() => false),
    isInProcess: options.isInProcess ?? (() => false),
    isPreview: options.isPreview ?? (() => undefined),
    engine: options.engine,
    servedBy: options.servedBy,
    keyHint: options.keyHint,
    redact,
    note: options.onNote ?? (() => {}),
    io,
    unfollowed: new Map(),
    warned: new Map(),
    options,
  };
}

/** The same service with a changed journal and more protected paths. */
export function withJournal(
  { options, io }: Service,
  change: (journal: Journal) => Journal,
  { protectedPaths = [], recall }: Pick<ServiceOptions, "protectedPaths" | "recall"> = {},
): Service {
  const journal = change(options.journal ?? noJournal);
  return openService(
    { ...options, journal, recall, protectedPaths: [...(options.protectedPaths ?? []), ...protectedPaths] },
    io,
  );
}

/** The journal's entries of this service, newest first. */
export async function listEntries({ name, journal }: Service): Promise<Entry[]> {
  return (await readEntries(journal)).filter(({ base_url }) => isSameService(base_url, name));
}

/** The newest entries of this service: see `readRecent`. Never rejects. */
export async function listRecent(
  { name, journal }: Service,
  isEnough: (entries: readonly Entry[]) => boolean = () => false,
): Promise<Entry[]> {
  const ofService = (entries: readonly Entry[]) => entries.filter(({ base_url }) => isSameService(base_url, name));
  return ofService(await readRecent(journal, (entries) => isEnough(ofService(entries))));
}

/** The attempts that have a generation of this id, newest first. */
export async function entriesOf({ name, journal, recall }: Service, id: string): Promise<Entry[]> {
  const recalled = recall(id);
  return recalled ? [recalled] : (await findById(journal, id)).filter(({ base_url }) => isSameService(base_url, name));
}

/** The attempts with an Idempotency-Key, newest first. */
export async function entriesOfKey({ name, journal }: Service, key: string): Promise<Entry[]> {
  return (await findByKey(journal, key)).filter(({ base_url }) => isSameService(base_url, name));
}

/** The entry of a generation; `undefined` also if the journal cannot be read, since a paid generation is followed anyway. */
export async function findEntry(service: Service, id: string): Promise<Entry | undefined> {
  return service.unfollowed.get(id) ?? (await entriesOf(service, id).catch(() => []))[0];
}

/** Records something that has already happened, so a failed write is only noted. Never rejects. */
export async function record({ journal, note }: Service, line: JournalLine): Promise<void> {
  await journal.append(line).catch((error) => note(asVidgenError(error).message));
}

/** A request in the form that the journal keeps. */
export function recordedRequest({ redact }: Pick<Service, "redact">, request: StartRequest): StartRequest {
  return redactValue(recordOf(request), redact);
}

/**
 * The account's balance, if the journal has a recent one, so that its fall shows what a start costs;
 * `undefined` for the local service, which states its prices. Never rejects.
 */
export async function findBalance(service: Service): Promise<number | undefined> {
  const { account, isLocal } = service;
  if (isLocal) return undefined;
  const hasBalance = (entries: readonly Entry[]) => readBalance(entries, account) !== undefined;
  const balance = readBalance(await listRecent(service, hasBalance), account);
  return balance && isComparable(balance, service.io.date()) ? balance.credits : undefined;
}

const localCreditsHint =
  "`vidgen accounts credits local 1000 --local` adds credits to your own account; they cost nothing.";

/**
 * Says in the error for a rejected key where that key is from, in that for missing credits at the local
 * service how to add some, and in that for an unknown address what the base URL may be.
 */
export function explainRefusal({ keyHint, baseUrl, isLocal }: Service, error: VidgenError): VidgenError {
  const pathHint = error.httpStatus === 404 ? findApiPathHint(baseUrl) : undefined;
  if (pathHint !== undefined) return error.with({ hint: pathHint });
  // The hint of a failed generation is the service's own: it may be about the key or the credits of an engine.
  if (error.ended !== undefined) return error;
  const creditsHint = isLocal && error.code === "credits" ? localCreditsHint : undefined;
  const hint = error.hint === invalidKeyHint ? keyHint : creditsHint;
  return hint === undefined
    ? error
    : new VidgenError(error.code, error.message, { ...error, hint, cause: error.cause });
}

/** How many unfollowed generations, and how many warnings, a service remembers. */
const maxRemembered = 1_000;

/** Adds to a map that keeps the newest thousand entries. */
export function remember<Value>(map: Map<string, Value>, key: string, value: Value): void {
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > maxRemembered && oldest !== undefined) map.delete(oldest);
}
