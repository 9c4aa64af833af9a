import type { Io } from "../../io.ts";
import { type DatedEntry, datedEntries, type Entry, isUndelivered, isUnfinished } from "./history.ts";
import type { Journal } from "./journal.ts";
import { readRecent, scanEntries } from "./search.ts";

/** After this time an attempt must have an outcome, because a request with its retries takes up to 4 minutes. */
const startingMs = 5 * 60_000;

/** Whether an attempt counts as unknown because its process has ended, or probably has. */
async function isOutcomeUnknown({ entry, ageMs }: DatedEntry, leaseOf: Journal["leaseOf"]): Promise<boolean> {
  if (entry.state !== "sending") return entry.state === "unknown";
  const lease = await leaseOf(entry.attempt);
  return lease === "dead" || (lease === "unsure" && ageMs >= startingMs);
}

type ListAttemptsOptions = {
  status?: Entry["status"] | undefined;
  limit: number;
  /** A further condition. */
  matches?(entry: Entry): boolean;
};

/** The newest attempts in the journal. An attempt whose process was killed before a reply came is `unknown`. */
export async function listAttempts(
  { status, limit, matches = () => true }: ListAttemptsOptions,
  journal: Pick<Journal, "scan" | "leaseOf">,
  { date }: Pick<Io, "date">,
): Promise<Entry[]> {
  const isWanted = (entry: Entry) =>
    (status === undefined || status === entry.status || entry.status === "starting") && matches(entry);
  const wanted: Entry[] = [];
  for await (const part of scanEntries(journal)) {
    wanted.push(...part.filter(isWanted));
    // Attempts that are "starting" do not count, because they may turn out to be unknown.
    if (wanted.filter(({ status }) => status !== "starting").length >= limit) break;
  }
  const finalEntries = await Promise.all(
    datedEntries(wanted, date()).map((dated) => withFinalState(dated, journal.leaseOf)),
  );
  return finalEntries.filter((entry) => status === undefined || entry.status === status).slice(0, limit);
}

async function withFinalState(dated: DatedEntry, leaseOf: Journal["leaseOf"]): Promise<Entry> {
  const { entry } = dated;
  if (entry.status !== "starting") return entry;
  // If the journal can be read, but its leases cannot, its entries are shown unchanged.
  const isUnknown = await isOutcomeUnknown(dated, leaseOf).catch(() => false);
  return isUnknown ? { ...entry, state: "unknown", status: "unknown" } : entry;
}

/** The attempts among these that are running and that no process follows, by their names. Writes nothing. */
export async function findUnfollowed(
  entries: readonly Entry[],
  journal: Pick<Journal, "leaseOf">,
): Promise<ReadonlySet<string>> {
  const running = entries.filter(({ status }) => status === "processing");
  const leaseOf = (attempt: string) => journal.leaseOf(attempt).catch(() => "unsure" as const);
  return new Set((await withoutProcess(running, { leaseOf })).map(({ attempt }) => attempt));
}

/**
 * The generations that may have cost money, whose result was not delivered, and that no process follows, so
 * that the same command would resume them. Reads the newest part of the journal, and writes nothing.
 */
export async function findUnsaved(journal: Pick<Journal, "scan" | "leaseOf">): Promise<Entry[]> {
  const unsaved = (await readRecent(journal)).filter(
    (entry) => isUnfinished(entry) && isUndelivered(entry) && entry.is_preview !== true && entry.credits !== 0,
  );
  return withoutProcess(unsaved, journal);
}

/** The attempts among these whose lease no live process has. */
export async function withoutProcess<Each extends Entry>(
  entries: readonly Each[],
  { leaseOf }: Pick<Journal, "leaseOf">,
): Promise<Each[]> {
  const leases = await Promise.all(entries.map(({ attempt }) => leaseOf(attempt)));
  return entries.filter((_, index) => leases[index] === "dead");
}
