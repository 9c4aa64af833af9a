import { asVidgenError, doctorHint, usage, VidgenError } from "../../errors.ts";
import { isRecord } from "../../protocol/json.ts";
import { errorText } from "../../protocol/schema.ts";
import type { RemoveOptions } from "../http/api.ts";
import { askPatiently, describeAnswer } from "../http/ask.ts";
import { refusal } from "../http/reply.ts";
import { type Entry, isPaidBy } from "../ledger/history.ts";
import { removeLeftovers } from "../save/claim.ts";
import { failedError } from "./follow.ts";
import { readOtherAccount } from "./poll.ts";
import { findEntry, record, type Service } from "./service.ts";
import { readStatus } from "./status.ts";

type WithSignal = { signal: AbortSignal };
type DeleteOptions = WithSignal & RemoveOptions;

/** A generation whose video may be deleted. */
export type Deletable = {
  id: string;
  /** The generation's entry in the journal. */
  entry: Entry | undefined;
  /** Where the video was saved; the file may have been changed or deleted since. */
  file: string | undefined;
  /** Whether the service still has the generation; if not, only the journal and the file need a change. */
  isAtService: boolean;
  /** Whether nobody knows if it was charged, which the user has acknowledged. */
  isUnclear: boolean;
};

/**
 * Checks whether a generation may be deleted. Throws `usage` if it is running (deleting it would cancel it), if it may have been
 * charged and is not dismissed, or if a live process is saving its video. Also throws as `readStatus` does. Deletes nothing.
 */
export async function findDeletable(
  service: Service,
  id: string,
  { signal, acknowledgesUnclear = false }: DeleteOptions,
): Promise<Deletable> {
  const knownEntry = await findEntry(service, id);
  const generation = await readStatus(service, id, { signal }).catch((thrown) => {
    const error = asVidgenError(thrown);
    if (error.code === "not_found" && knownEntry && hasEnded(knownEntry) && isPaidBy(service.account, knownEntry))
      return undefined;
    throw error;
  });
  if (generation && generation.status !== "completed" && generation.status !== "failed")
    throw usage(`${id} is still running. Nothing was deleted.`, `\`vidgen cancel ${id}\` stops it.`);
  const entry = await findEntry(service, id);
  const isChargeUnknown =
    entry?.state === "unknown" || (generation?.status === "failed" && failedError(id, generation).ended === "unknown");
  const dismissText = entry ? `\`vidgen list --dismiss ${entry.attempt}\` closes the attempt, or ` : "";
  if (isChargeUnknown && !entry?.dismissed && !acknowledgesUnclear)
    throw usage(
      `It is unknown whether ${id} was charged, so it stays on record. Nothing was deleted.`,
      `Once you have checked the account, ${dismissText}\`vidgen delete --unclear ${id}\` deletes it: the same line then starts a new one, which is paid.`,
    );
  if (!isChargeUnknown && acknowledgesUnclear)
    throw usage(`It is known whether ${id} was charged. Nothing was deleted.`, `Leave out --unclear.`);
  if (entry && (await isInUse(entry, service))) throw inUseError(id);
  const file = entry?.file === "-" ? undefined : entry?.file;
  return { id, entry, file, isAtService: generation !== undefined, isUnclear: isChargeUnknown };
}

/**
 * The account that a generation belongs to, if it is not that of the key: a service says so only to its
 * owner. Does not retry, and never rejects.
 */
export async function findOtherAccount(
  { api }: Service,
  id: string,
  { signal }: WithSignal,
): Promise<string | undefined> {
  const reply = await api.status(id, signal).catch(() => undefined);
  return reply && readOtherAccount(reply);
}

/** The service, with requests that the owner of the service sends for this account; without an account, the service unchanged. */
export function forAccount(service: Service, account: string | undefined): Service {
  return account === undefined ? service : { ...service, api: service.api.forAccount(account) };
}

/**
 * Deletes the video of a generation at its service, and records that. Throws `rejected` if the service cannot
 * delete videos, `usage` if another process has started to save it meanwhile, `network` without an answer, or
 * the signal's reason.
 */
export async function deleteGeneration(
  service: Service,
  { id, entry, isAtService, isUnclear }: Deletable,
  { signal }: WithSignal,
): Promise<void> {
  const lease = entry && (await service.journal.acquire(entry.attempt));
  if (entry && !lease) throw inUseError(id);
  try {
    if (isAtService) await askToDelete(service, id, { signal, acknowledgesUnclear: isUnclear });
    if (entry && !entry.removed) await record(service, { kind: "removed", id });
  } finally {
    await lease?.release();
  }
  if (entry) await removeLeftovers(entry, service);
  service.unfollowed.delete(id);
}

/**
 * Asks the service to delete a video, which is safe to repeat, since the generation has ended. A missing
 * video counts as deleted.
 */
async function askToDelete(
  service: Service,
  id: string,
  { signal, acknowledgesUnclear }: DeleteOptions,
): Promise<void> {
  const { api, io } = service;
  const answer = await askPatiently(
    (signal) => api.remove(id, signal, { acknowledgesUnclear }),
    { baseUrl: api.baseUrl, signal },
    io,
  );
  const { kind, reply } = answer;
  if (reply && reply.status < 300 && isRecord(reply.json) && reply.json.deleted === true) return;
  if (reply?.status === 409 && errorText(reply.json) !== undefined) throw refusal(reply).with({ id });
  const isGone = await readStatus(service, id, { signal }).then(
    () => false,
    (error) => {
      if (asVidgenError(error).code === "not_found") return true;
      throw error;
    },
  );
  if (isGone) return;
  const { host } = new URL(api.baseUrl);
  const message = `The service did not delete the video of ${id}, which stays at ${host}: ${describeAnswer(answer)}. Nothing was deleted.`;
  const hint =
    kind === "no answer" ? doctorHint : "A service other than `vidgen serve` may not be able to delete videos.";
  const code = kind === "no answer" ? "network" : "rejected";
  throw new VidgenError(code, message, { id, httpStatus: reply?.status, hint });
}

function hasEnded({ state }: Entry): boolean {
  return state === "ready" || state === "delivered" || state === "failed" || state === "lost";
}

async function isInUse(entry: Entry, { journal, targets }: Service): Promise<boolean> {
  return (await journal.leaseOf(entry.attempt)) !== "dead" || (await targets.isBeingSaved(entry));
}

function inUseError(id: string): VidgenError {
  const hint = "Try again when that process has ended.";
  return usage(`Another process is saving the video of ${id}. Nothing was deleted.`, hint);
}
