import { isExistsError } from "../client/save/files.ts";
import { asVidgenError, type CommandErrorCode, type VidgenError } from "../errors.ts";

/** An error in the result of a tool. */
export type ToolError = {
  code: CommandErrorCode;
  message: string;
  hint: string | null;
  id: string | null;
  may_have_been_charged: boolean;
  /** Whether the generation that the error is about was charged, if that is known. */
  charged: "yes" | "no" | "maybe" | null;
};

/** Hints for agents, for codes whose usual hint is about commands that an agent does not have. */
const agentHints: Partial<Record<CommandErrorCode, string>> = {
  unknown:
    "Repeating the call sends nothing. Ask the user to check the account: if the generation is there, get_video with its id fetches it. If it is not, the user runs `vidgen list --dismiss <attempt>` with the attempt from the message, and the same call then starts a new one. again: true, with a new request_key, starts a new generation in any case, and pays for it.",
  not_found: "list_videos shows the ids of the generations that were started on this computer.",
  auth: "A person must type `vidgen login`, or start the server with VIDGEN_API_KEY set. After a login this call works without a restart.",
};

/** Hints for agents if the generation failed and nothing was charged. */
const endedHints: Partial<Record<CommandErrorCode, string>> = {
  network:
    "Nothing was submitted, nothing was charged. Once the engine can be reached, call generate_video with the same arguments to start it again.",
  auth: "Nothing was submitted, nothing was charged. A person must set the engine's key and restart this server. Then call generate_video with the same arguments to start it again.",
};

/** The hint of an error for an agent. */
export function agentHint(error: VidgenError): string | undefined {
  const endedHint = error.ended === undefined ? undefined : endedHints[error.code];
  return endedHint ?? agentHints[error.code] ?? (error.hint && restateHint(error.hint));
}

/**
 * The terms of the command line in hints, each with the term of the tools that replaces it. Commands that
 * only a person can run stay.
 */
const restatements: readonly [RegExp, string][] = [
  [/`vidgen (?:wait|status) [^\s`]+`/g, "get_video"],
  [/`vidgen cancel [^\s`]+`/g, "cancel_video"],
  [/^`vidgen delete [^\s`]+` deletes its video, where the service can\.$/, "get_video shows its video."],
  [/`vidgen list` shows the credits/g, "get_credits shows the credits"],
  [/`vidgen list(?: --status [a-z]+)?`/g, "list_videos"],
  [/See `vidgen generate --help` for the flags and/g, "See the arguments of generate_video, and"],
  [/`vidgen models`/g, "list_models"],
  [/^Run `vidgen doctor` to diagnose/, "Try again later; `vidgen doctor` diagnoses"],
  [/\bRun the same command\b/g, "Make the same call"],
  [/\bThe same command\b/g, "The same call"],
  [/ unless you add --again\b/g, " without again: true"],
  [/--again\b/g, "again: true"],
];

/** Only the user decides to dismiss an attempt. */
function restateHint(hint: string): string {
  if (hint.includes("`vidgen list --dismiss ")) return `Only the user decides about this: ${hint}`;
  return restatements.reduce((text, [cliTerm, toolTerm]) => text.replace(cliTerm, toolTerm), hint);
}

/** Converts an error for a tool's result. `isOut` is set while a start request is in flight. */
export function toolError(thrown: unknown, isStartInFlight: boolean): ToolError {
  const error = asVidgenError(thrown);
  const { code, message, id, charged } = error;
  const hint = isExistsError(thrown) ? "Call save_video with another path, or none." : agentHint(error);
  return {
    code,
    message,
    hint: hint ?? null,
    id: id ?? null,
    may_have_been_charged: code === "unknown" || (code === "bug" && isStartInFlight),
    charged: charged ?? null,
  };
}
