import { usage } from "../../errors.ts";
import type { StartRequest } from "../../protocol/schema.ts";
import { redactValue } from "../http/redaction.ts";
import type { Take } from "../ledger/history.ts";
import { recordOutput } from "../ledger/identity.ts";
import type { CommandLine } from "../ledger/line.ts";
import {
  type Choice,
  choose,
  chooseRun,
  type Earlier,
  type RunChoice,
  type WantedGeneration,
} from "../ledger/policy.ts";
import { recordedRequest, type Service } from "./service.ts";

/** The part of a service that is needed to choose. */
export type Chooser = Pick<Service, "name" | "journal" | "isPreview" | "redact" | "io">;

/** Where a start comes from, besides its request: it is recorded, and recognizes the same command. */
export type Origin = {
  /** The id of the generation whose request is repeated. */
  parent?: string | undefined;
  /** The id of the generation whose last frame the video starts with. */
  from?: string | undefined;
  /** The position among several generations of one command. */
  take?: Take | undefined;
  /** The typed command line; without one, only the same request is the same command. */
  line?: CommandLine | undefined;
};

/** Options that decide about a start, besides its request. */
export type ChooseOptions = {
  /** What to do about earlier attempts; by default they are ignored, as for a row of a batch, whose results file decides. */
  earlier?: Earlier | undefined;
  origin?: Origin | undefined;
  /** Where to save the video, as typed. */
  save?: { outputPath?: string | undefined } | undefined;
  /**
   * The Idempotency-Key: up to 255 letters, digits and `_.:~+/=@-`. With a journal it permanently identifies
   * one start, whatever `earlier` says; without a journal, each call is a new start.
   */
  idempotencyKey?: string | undefined;
  /**
   * Set if an AI agent starts the generation. A cancelled call must not lose the id, so `ending`, of the
   * agent's server, aborts what was sent.
   */
  agent?: { ending: AbortSignal } | undefined;
};

/** A start in the form that is compared with earlier attempts, and recorded. */
export type WantedStart = Omit<WantedGeneration, "now" | "earlier"> & Pick<ChooseOptions, "earlier">;

/** Prepares a start for the comparison with earlier attempts. Throws `usage` for an invalid key. */
export async function wantedOf(chooser: Chooser, request: StartRequest, options: ChooseOptions): Promise<WantedStart> {
  const { earlier, origin = {}, save, idempotencyKey: key, agent } = options;
  if (key !== undefined && !/^[\w.:~+/=@-]{1,255}$/.test(key))
    throw usage("The idempotency key must be 1 to 255 letters, digits or _.:~+/=@-.");
  const { name, isPreview, redact, io } = chooser;
  const place = await recordOutput(save?.outputPath, redact, io.disk);
  const recorded = recordedRequest(chooser, request);
  const isPreviewModel = isPreview(request.model);
  const { parent, from, take, line } = origin;
  const recognized = { mcp: agent && true, parent, from, take, line: line && redactValue(line, redact) };
  return { service: name, request: recorded, ...place, earlier, key, isPreview: isPreviewModel, ...recognized };
}

/**
 * Decides what a start does about earlier attempts. A start calls this under the journal's lock, a dry run
 * without it. Writes nothing. Throws `usage` if the key was used for another request.
 */
export async function chooseStart(chooser: Chooser, wanted: WantedStart): Promise<Choice> {
  const { earlier } = wanted;
  if (earlier === undefined) return { kind: "new", dismissed: [], ...(wanted.keptKey && { resends: wanted.keptKey }) };
  return choose({ ...wanted, earlier, now: chooser.io.date() }, chooser.journal, chooser.io.disk);
}

/** The run that a command for several generations continues. `requests` must not be empty. */
export async function chooseTakes(
  chooser: Chooser,
  requests: readonly StartRequest[],
  options: ChooseOptions & Pick<WantedStart, "waitedFor"> & { earlier: Earlier },
): Promise<RunChoice> {
  const { journal, io } = chooser;
  const { earlier, waitedFor } = options;
  const wanted = await wantedOf(chooser, requests[0] as StartRequest, options);
  const recorded = requests.map((request) => recordedRequest(chooser, request));
  return chooseRun({ ...wanted, earlier, waitedFor, requests: recorded, now: io.date() }, journal, io.disk);
}

/** What the starts of one command would do now. Changes nothing. */
export async function planStarts(
  chooser: Chooser,
  requests: readonly StartRequest[],
  options: ChooseOptions & { earlier: Earlier },
): Promise<Choice[]> {
  const count = requests.length;
  const run = count === 1 ? undefined : await chooseTakes(chooser, requests, options);
  if (run?.kind === "wait" || run?.kind === "refuse") return requests.map(() => run);
  const choices: Choice[] = [];
  for (const [index, request] of requests.entries()) {
    const { position } = run?.positions[index] ?? { position: index + 1 };
    const take = run && { run: run.name ?? "", position, count };
    const origin = { ...options.origin, take };
    choices.push(await chooseStart(chooser, await wantedOf(chooser, request, { ...options, origin })));
  }
  return choices;
}
