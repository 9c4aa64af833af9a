import { VidgenError } from "../../errors.ts";
import type { Entry } from "./history.ts";
import type { ChangedLine, RefusedChoice } from "./policy.ts";

/**
 * The error when a start sends nothing: `unknown`, `not_found` if the service has lost the generation or
 * deleted its video, or `usage` if an unfinished generation or run of the same line has other values.
 */
export function refusalError(refusal: RefusedChoice): VidgenError {
  const { entry, because } = refusal;
  if (because === "changed") return changedError(refusal);
  if (because === "elsewhere") return elsewhereError(entry);
  if (because === "removed") return removedError(entry);
  if (refusal.worker !== undefined) return workedOnError(entry, refusal.worker);
  return because === "lost" ? lostError(entry) : unclearError(entry);
}

function changedError({ entry, differing, runIds }: ChangedLine): VidgenError {
  const { id, attempt, at, count } = entry;
  const values = `with another ${differing.join(", ")} (from vidgen.json, a setting or stdin)`;
  if (id === undefined) {
    const message = `The same command line was sent at ${at.slice(0, 16)}Z ${values} and got no usable response: it may have been charged (attempt ${attempt}). Nothing was sent now.`;
    return new VidgenError("unknown", message, { attempt, hint: unclearHint(attempt, undefined) });
  }
  const message = runIds
    ? `The same command line was typed at ${at.slice(0, 16)}Z ${values}, and has ${runIds.length} of its ${count} generations: ${runIds.join(", ")}.`
    : `The same command line has started generation ${id} at ${at.slice(0, 16)}Z ${values}, and its video was not delivered yet.`;
  const started = runIds ? `${count} new generations` : "a new generation";
  const hint = `\`vidgen wait ${id}\` takes that video. --again starts ${started}, and is charged.`;
  const restored = `If you restore the earlier ${differing.join(", ")}, the same command starts only the missing generations.`;
  const error = new VidgenError("usage", `${message} Nothing was sent now.`, { id, attempt, hint });
  return runIds ? error.with({ hint: restored }) : error;
}

/**
 * `unknown` if the attempt may have been charged, `not_found` if its generation is lost; else `usage`,
 * because its generation can be taken there.
 */
function elsewhereError(entry: Entry): VidgenError {
  const { id, attempt, at, base_url: baseUrl, state } = entry;
  if (state === "lost") return lostError(entry);
  if (id === undefined || state === "unknown" || state === "sending") return unclearError(entry);
  const message = `The same command has started generation ${id} at ${at.slice(0, 16)}Z at ${baseUrl}, which may be the same service, and its video was not delivered yet. Nothing was sent now.`;
  const hint = `\`vidgen wait ${id} --base-url ${baseUrl}\` takes that video. --again starts a new generation here, and is charged.`;
  return new VidgenError("usage", message, { id, attempt, hint });
}

function removedError({ id }: Entry): VidgenError {
  return new VidgenError(
    "not_found",
    `The generation ${id} with this idempotency key was deleted, and its video with it. Nothing was sent.`,
    { id, hint: "Another key starts a new generation, which is charged." },
  );
}

/** What is known of the answer to a request whose process may still work on it. */
export function answerOf({ state }: Pick<Entry, "state">): string {
  return state === "sending" ? "was not answered yet" : "got no usable response yet";
}

function workedOnError(entry: Entry, worker: string): VidgenError {
  const { attempt, at, id, state } = entry;
  if (state === "running" || state === "ready")
    return new VidgenError(
      "pending",
      `The same request was accepted at ${at.slice(0, 16)}Z as generation ${id}. ${worker} may follow it. Nothing was sent now. Ask again in a minute.`,
      { id, attempt },
    );
  const message = `The same request was sent at ${at.slice(0, 16)}Z and ${answerOf(entry)}: it may have been charged (attempt ${attempt}). ${worker} is still working on it. Nothing was sent now. Ask again in a minute.`;
  const hint =
    "The same command, in a minute, sends nothing while that process runs. --again starts a new generation in any case, and is charged.";
  return new VidgenError("unknown", message, { attempt, id, hint });
}

function unclearError({ attempt, at, id, reason = "" }: Entry): VidgenError {
  const named = id === undefined ? "" : ` It is generation ${id}. ${reason}`;
  const message = `The same request was sent at ${at.slice(0, 16)}Z and got no usable response: it may have been charged (attempt ${attempt}).${named} Nothing was sent now.`;
  return new VidgenError("unknown", message, { attempt, id, hint: unclearHint(attempt, id) });
}

function unclearHint(attempt: string, id: string | undefined): string {
  return [
    `Check your account for a generation from that time; \`vidgen wait ${id ?? "<id>"}\` fetches it.`,
    `If there is none, run \`vidgen list --dismiss ${attempt}\` and try again. --again starts a new generation in any case, and is charged.`,
  ].join("\n");
}

function lostError({ at, id }: Entry): VidgenError {
  const message = `The same request was accepted at ${at.slice(0, 16)}Z as generation ${id} and was charged, but the service no longer knows it. Nothing was sent now.`;
  const hint = `\`vidgen wait ${id}\` asks the service again. --again starts a new one, and is charged.`;
  return new VidgenError("not_found", message, { id, hint });
}
