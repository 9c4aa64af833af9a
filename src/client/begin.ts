import { randomUUID } from "node:crypto";
import { asVidgenError, usage } from "../errors.ts";
import type { Clock } from "../io.ts";
import { chooseAttempt, type Earlier, isRecent, type Started } from "./attempts.ts";
import type { ClaimOptions, Claims } from "./claims.ts";
import { type Line, recordOf } from "./history.ts";
import type { Hold, Journal } from "./journal.ts";
import type { StartRequest } from "./schema.ts";
import type { Target } from "./target.ts";

export type BeginOptions = Pick<ClaimOptions, "overwrite"> & {
  /** Where the video is to be saved, as it was typed. */
  place?: string | undefined;
  earlier: Earlier;
  /** The caller does not wait for the generation, so a later run does not resume it. */
  noWait?: boolean | undefined;
  signal: AbortSignal;
};

export type Begun = {
  /** The attempt that is to be sent, or is resumed. */
  attempt: string;
  /** The generation of an earlier attempt that is resumed: there is nothing to send. */
  earlier: Started | undefined;
  /** Where the video of that is saved already. */
  file: string | undefined;
  /** An attempt at the same that is still open, but too old to be resumed. */
  older: Started | undefined;
  target: Target | undefined;
  /** Ends the claim of the place, and of the attempt. */
  release(): Promise<void>;
};

type Known = {
  baseUrl: string;
  journal: Omit<Journal, "path">;
  /** Those of this service. */
  entries: Journal["entries"];
  claims: Claims;
};

/** How often `reuse` looks for the id of a generation that another process starts. */
const startingPollMs = 250;

/**
 * Begins a start: chooses between an earlier attempt and a new one, claims the place, and writes down the claim or the intent. All of that
 * is under the journal's lock, so that two processes never choose the same. Sends nothing. Throws `unknown` when an earlier attempt may have
 * been charged, `output` when the place or the journal cannot be written, or the signal's reason.
 */
export async function begin(request: StartRequest, options: BeginOptions & Known, io: Clock): Promise<Begun> {
  const { journal, claims, place, signal } = options;
  if (place === "") throw usage("The output path is empty.");
  const hold = await claims.hold();
  try {
    for (;;) {
      const begun = await journal.lock(({ confirm }) => beginLocked(request, { ...options, hold, confirm }, io));
      if (begun) return begun;
      await io.sleep(startingPollMs, signal);
    }
  } catch (error) {
    await hold.release();
    throw error;
  }
}

type Locked = BeginOptions & Known & { hold: Hold; confirm(): Promise<void> };

/** `undefined` while another process starts the generation that is to be reused. */
async function beginLocked(request: StartRequest, options: Locked, io: Clock): Promise<Begun | undefined> {
  const { baseUrl, journal, entries, claims, place, overwrite, earlier, noWait, hold, confirm } = options;
  const now = io.date();
  const known = await entries((part) => part.some((entry) => isRecent(entry, now)));
  const choice = await chooseAttempt(known, { request, place, earlier, now, isHeld: journal.isHeld });
  if (choice.kind === "starting") return undefined;
  const entry = choice.kind === "resume" ? choice.entry : undefined;
  const attempt = entry?.attempt ?? randomUUID();
  const begun = { attempt, earlier: entry, older: choice.kind === "new" ? choice.older : undefined };
  if (entry && place !== undefined && !overwrite) {
    const file = await claims.findSaved(entry, place);
    if (file !== undefined) return { ...begun, file, target: undefined, release: hold.release };
  }
  const claiming = { overwrite, id: entry?.id, entry, words: request, resume: true, hold };
  const claimed = place === undefined ? undefined : claims.claim(place, claiming);
  const target = await claimed?.catch((error) => {
    // With the id, a program can go on with the generation that was paid for.
    throw entry ? asVidgenError(error).with({ id: entry.id }) : error;
  });
  const release = async () => {
    await target?.release();
    await hold.release();
  };
  const { holder } = hold;
  const line: Line = entry
    ? { kind: "claim", attempt, holder }
    : { kind: "intent", attempt, base_url: baseUrl, request: recordOf(request), place, no_wait: noWait, holder };
  try {
    await confirm();
    for (const { attempt } of choice.kind === "new" ? choice.dismissed : [])
      await journal.append({ kind: "dismissed", attempt });
    await journal.append(line);
  } catch (error) {
    await target?.release();
    throw error;
  }
  return { ...begun, file: undefined, target, release };
}
