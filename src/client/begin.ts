import { asVidgenError, usage } from "../errors.ts";
import type { Io } from "../io.ts";
import { type Choice, chooseAttempt, type Earlier, isHeldBy, isRecent, type Started, type Wanted } from "./attempts.ts";
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
  /** The results file of the batch, and the row, that it is started for. */
  batch?: { path: string; row: string } | undefined;
  /** It is started for an AI agent. */
  mcp?: boolean | undefined;
  signal: AbortSignal;
};

export type Begun = {
  /** The attempt that is to be sent, or is resumed. */
  attempt: string;
  /** When it was started; ISO 8601, UTC. */
  at: string;
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
  onNote(text: string): void;
};

type BeginIo = Pick<Io, "date" | "sleep" | "uuid">;

/** How often a start looks again at what another process does. */
const pollMs = 250;
const waitingNote =
  "Another process has started the same: waiting for its id, or its end (up to 3 minutes). Until then nothing is sent.";

/**
 * Begins a start: chooses between an earlier attempt and a new one, claims the place, and writes down the claim or the intent. All of that
 * is under the journal's lock, so that two processes never choose the same. Sends nothing. Throws `unknown` when an earlier attempt may have
 * been charged, `output` when the place or the journal cannot be written, or the signal's reason.
 */
export async function begin(request: StartRequest, options: BeginOptions & Known, io: BeginIo): Promise<Begun> {
  const { journal, claims, place, signal } = options;
  if (place === "") throw usage("The output path is empty.");
  const hold = await claims.hold();
  const since = io.date();
  try {
    for (let looks = 1; ; looks++) {
      const begun = await journal.lock(({ confirm }) => beginLocked(request, { ...options, hold, since, confirm }, io));
      if (begun) return begun;
      if (looks === 2) options.onNote(waitingNote);
      await io.sleep(pollMs, signal);
    }
  } catch (error) {
    await hold.release();
    throw error;
  }
}

type Locked = BeginOptions & Known & { hold: Hold; since: Date; confirm(): Promise<void> };

const freshChoice: Choice = { kind: "new", dismissed: [] };

/** `undefined` while it must wait for another process: see `Choice`. */
async function beginLocked(request: StartRequest, options: Locked, io: BeginIo): Promise<Begun | undefined> {
  const { baseUrl, journal, entries, claims, place, overwrite, earlier, noWait, batch, mcp, hold, since, confirm } =
    options;
  const now = io.date();
  const isHeld = (holder: string) => journal.isHeld(holder, since);
  const isNew = earlier === "ignore";
  const choice = isNew ? freshChoice : await choose({ request, place, earlier, mcp, now, isHeld }, entries);
  if (choice.kind === "wait") return undefined;
  const entry = choice.kind === "resume" ? choice.entry : undefined;
  const attempt = entry?.attempt ?? io.uuid();
  const at = entry?.at ?? now.toISOString();
  const begun = { attempt, at, earlier: entry, older: choice.kind === "new" ? choice.older : undefined };
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
  const intent = { attempt, base_url: baseUrl, request: recordOf(request), place, no_wait: noWait, holder };
  const line: Line = entry
    ? { kind: "claim", attempt, holder }
    : { kind: "intent", ...intent, batch: batch?.path, row: batch?.row, mcp };
  try {
    await confirm();
    for (const { attempt } of choice.kind === "new" ? choice.dismissed : [])
      await journal.append({ kind: "dismissed", attempt });
    // What another process waits for stays that one's: `reuse` only waits beside it.
    if (!entry || (await isHeldBy(entry, isHeld)) === false) await journal.append(line);
  } catch (error) {
    await target?.release();
    throw error;
  }
  return { ...begun, file: undefined, target, release };
}

/** What a process writes just before it ends must count: chooses again when a holder has ended since the journal was read. */
async function choose(wanted: Wanted, entries: Journal["entries"]): Promise<Choice> {
  const ended = new Set<string>();
  const isHeld = async (holder: string) => {
    const held = !ended.has(holder) && (await wanted.isHeld(holder));
    if (held === false) ended.add(holder);
    return held;
  };
  for (;;) {
    const before = ended.size;
    const known = await entries((part) => part.some((entry) => isRecent(entry, wanted.now)));
    const [choice] = await Promise.allSettled([chooseAttempt(known, { ...wanted, isHeld })]);
    if (ended.size > before) continue;
    if (choice.status === "rejected") throw choice.reason;
    return choice.value;
  }
}
