import { usage } from "../../errors.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import type { Take } from "../ledger/history.ts";
import { recordPlace } from "../ledger/identity.ts";
import type { Lock } from "../ledger/journal.ts";
import { type Choice, choose, chooseRun, type Earlier, type RunChoice, type Wanted } from "../ledger/policy.ts";
import { recordedRequest, type Service } from "./service.ts";

/** As much of a service as it takes to choose. */
export type Chooser = Pick<Service, "name" | "journal" | "isPreview" | "redact" | "io">;

/** What decides about a start, besides its request. */
export type ChooseOptions = {
  /** What to do about earlier attempts; without it none is looked at, as for a row of a batch, whose results file has decided. */
  earlier?: Earlier | undefined;
  /** Where the video is to be saved, as it was typed. */
  outputPath?: string | undefined;
  /**
   * The Idempotency-Key: up to 255 letters, digits and `_.:~+/=@-`. With a journal it stands for one start for ever, whatever `earlier` says;
   * without, another one each time.
   */
  idempotencyKey?: string | undefined;
  /** It is started for an AI agent. */
  mcp?: boolean | undefined;
  /** The id of the generation whose request it repeats. */
  parent?: string | undefined;
  /** Which of several generations it is. */
  take?: Take | undefined;
};

/** A start as it is compared with earlier ones, and written down. */
export type WantedStart = Omit<Wanted, "now" | "earlier"> & Pick<ChooseOptions, "earlier">;

/** Returns what is compared of a start. Throws `usage` for an impossible key. */
export async function wantedOf(chooser: Chooser, request: StartRequest, options: ChooseOptions): Promise<WantedStart> {
  const { earlier, outputPath, idempotencyKey: key, mcp, parent, take } = options;
  if (key !== undefined && !/^[\w.:~+/=@-]{1,255}$/.test(key))
    throw usage("The idempotency key must be 1 to 255 letters, digits or _.:~+/=@-.");
  const { name, isPreview, redact, io } = chooser;
  const place = await recordPlace(outputPath, redact, io.disk);
  const recorded = recordedRequest(chooser, request);
  const kind = isPreview(request.model);
  return { service: name, request: recorded, ...place, earlier, key, mcp, isPreview: kind, parent, take };
}

/**
 * What a start does about earlier attempts now. A start asks under the journal's lock; without the lock, which is how a dry run asks, nothing is
 * written. Throws `usage` for another request under a known key.
 */
export async function chooseStart(chooser: Chooser, wanted: WantedStart, lock?: Lock): Promise<Choice> {
  const { earlier } = wanted;
  if (earlier === undefined) return { kind: "new", dismissed: [] };
  return choose({ ...wanted, earlier, now: chooser.io.date() }, chooser.journal, lock);
}

/** The run that a command line for several generations continues. `requests` has at least one. */
export async function chooseTakes(
  chooser: Chooser,
  requests: readonly StartRequest[],
  options: ChooseOptions & { earlier: Earlier },
): Promise<RunChoice> {
  const wanted = await wantedOf(chooser, requests[0] as StartRequest, options);
  const records = requests.map((request) => recordedRequest(chooser, request));
  return chooseRun({ ...wanted, earlier: options.earlier, requests: records, now: chooser.io.date() }, chooser.journal);
}

/** What starts of these requests, which one line asks for, would do now. Changes nothing. */
export async function lookAtStarts(
  chooser: Chooser,
  requests: readonly StartRequest[],
  options: ChooseOptions & { earlier: Earlier },
): Promise<Choice[]> {
  const count = requests.length;
  const run = count === 1 ? undefined : await chooseTakes(chooser, requests, options);
  if (run?.kind === "wait") return requests.map(() => run);
  const choices: Choice[] = [];
  for (const [index, request] of requests.entries()) {
    const take = run && { run: run.name ?? "", position: index + 1, count };
    choices.push(await chooseStart(chooser, await wantedOf(chooser, request, { ...options, take })));
  }
  return choices;
}
