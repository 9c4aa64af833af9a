import { isDeepStrictEqual } from "node:util";
import { VidgenError } from "../errors.ts";
import { type Entry, isOpen, recordOf } from "./history.ts";
import type { StartRequest } from "./schema.ts";

/**
 * What a start does about earlier attempts at the same: `resume` goes on with one that was interrupted; `reuse` goes on with any generation
 * of the same request that did not fail; `again` starts a new one; `ignore` does not look.
 */
export type Earlier = "resume" | "reuse" | "again" | "ignore";

/** An attempt whose generation has an id. */
export type Started = Entry & { id: string };

/** What a start does next. */
export type Choice =
  | { kind: "resume"; entry: Started }
  /** A live process is starting it, or one elsewhere may have ended: another look tells. */
  | { kind: "wait"; entry: Entry }
  /** `dismissed` are passed over for good; `older` is still open, but too old to be resumed. */
  | { kind: "new"; dismissed: Entry[]; older?: Started | undefined };

export type Wanted = {
  request: StartRequest;
  /** `-o` as it was typed. */
  place: string | undefined;
  /** Not `ignore`: then there is nothing to choose from. */
  earlier: Exclude<Earlier, "ignore">;
  /** Only attempts of AI agents count for one, and never for anybody else. */
  mcp?: boolean | undefined;
  now: Date;
  isHeld(holder: string): Promise<boolean | "unsure">;
};

/** How long an interrupted run is the same run. */
const resumableMs = 12 * 3600_000;
const reusableMs = 24 * 3600_000;
/** An attempt has an outcome after this time: a request that was sent, and retried, takes less. */
const startingMs = 3 * 60_000;

/** Whether an entry may matter to `chooseAttempt`. */
export function isRecent(entry: Entry, now: Date): boolean {
  return ageOf(entry, now) < reusableMs;
}

/**
 * Chooses from the attempts of one service, newest first, by the rules of the same run. Throws `unknown` when one of them may have been
 * charged and its id never came: then another start could pay twice.
 */
export async function chooseAttempt(entries: Entry[], wanted: Wanted): Promise<Choice> {
  const { request, place, earlier, now, isHeld } = wanted;
  const record = recordOf(request);
  // Attempts of a batch belong to its rows.
  const isOwn = (entry: Entry) => entry.batch === undefined && (entry.mcp ?? false) === (wanted.mcp ?? false);
  const isSame = (entry: Entry) => isOwn(entry) && isDeepStrictEqual(entry.request, record);
  const same = entries.filter((entry) => !entry.dismissed && isSame(entry));
  if (earlier === "reuse") return chooseReusable(same, wanted);
  // A video that was paid for and is not saved may go to any place.
  const isSameRun = (entry: Entry) => entry.place === place || (entry.status === "completed" && isOpen(entry));
  const dismissed: Entry[] = [];
  for (const entry of same.filter(isSameRun).reverse()) {
    if (ageOf(entry, now) >= resumableMs) continue;
    const isUnknown = await isUnclear(entry, now, isHeld);
    const isWaitedFor = isOpen(entry) && !entry.no_wait;
    const held = (isWaitedFor || entry.status === "starting") && (await isHeldBy(entry, isHeld));
    const isResumable = isWaitedFor && held === false;
    if (earlier === "again") {
      if (isUnknown || isResumable) dismissed.push(entry);
    } else if (isUnknown) throw unclearError(entry);
    else if (held === "unsure") return { kind: "wait", entry };
    else if (isResumable && isStarted(entry)) return { kind: "resume", entry };
  }
  const older = same
    .filter(isStarted)
    .find((entry) => ageOf(entry, now) >= resumableMs && isSameRun(entry) && isOpen(entry));
  return { kind: "new", dismissed, older };
}

async function chooseReusable(same: Entry[], { now, isHeld }: Wanted): Promise<Choice> {
  const recent = same.filter((entry) => isRecent(entry, now) && entry.status !== "failed");
  const started = recent.find(isStarted);
  if (started) return { kind: "resume", entry: started };
  for (const entry of recent) {
    if (await isUnclear(entry, now, isHeld)) throw unclearError(entry);
    if (entry.status === "starting") return { kind: "wait", entry };
  }
  return { kind: "new", dismissed: [] };
}

/** Whether an attempt may have been charged although its id is unknown: its process has ended, or takes too long. */
export async function isUnclear(entry: Entry, now: Date, isHeld: Wanted["isHeld"]): Promise<boolean> {
  if (entry.status === "unknown") return true;
  if (entry.status !== "starting") return false;
  return ageOf(entry, now) >= startingMs || (await isHeldBy(entry, isHeld)) === false;
}

export async function isHeldBy({ holder }: Entry, isHeld: Wanted["isHeld"]): ReturnType<Wanted["isHeld"]> {
  return holder !== undefined && isHeld(holder);
}

function isStarted(entry: Entry): entry is Started {
  return entry.id !== undefined;
}

function ageOf({ at }: Entry, now: Date): number {
  return now.getTime() - new Date(at).getTime();
}

function unclearError({ attempt, at }: Entry): VidgenError {
  const message = `The same request was sent at ${at.slice(0, 16)}Z and got no usable response: it may have been charged (attempt ${attempt}). Nothing was sent now.`;
  return new VidgenError("unknown", message, {
    attempt,
    hint: [
      "Check your account for a generation from that time; `vidgen wait <id>` fetches it.",
      `If there is none, run \`vidgen list --dismiss ${attempt}\` and try again. --again starts a new one in any case; it is charged.`,
    ].join("\n"),
  });
}
