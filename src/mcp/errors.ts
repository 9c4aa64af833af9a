import { isExistsError } from "../client/save/files.ts";
import { asVidgenError, type CommandErrorCode, type VidgenError } from "../errors.ts";

/** An error in the result of a tool. */
export type ToolError = {
  code: CommandErrorCode;
  message: string;
  hint: string | null;
  id: string | null;
  may_have_been_charged: boolean;
};

/** Hints for agents, for codes whose usual hint names flags of other commands. */
const agentHints: Partial<Record<CommandErrorCode, string>> = {
  unknown:
    "Repeating the call sends nothing. Ask the user to check the account: if the generation is there, get_video with its id fetches it. If it is not, the user runs `vidgen list --dismiss <attempt>` with the attempt from the message, and the same call then starts a new one. again: true starts a new generation in any case, and pays for it.",
  not_found: "list_videos shows the ids of the generations that were started on this computer.",
  network: "Try again later; `vidgen doctor` diagnoses the problem.",
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
  const own = error.ended === undefined ? undefined : endedHints[error.code];
  return own ?? agentHints[error.code] ?? (error.hint && withToolNames(error.hint));
}

/** The tools that do the same as a command with at most an id. */
const toolNames: Readonly<Record<string, string>> = {
  models: "list_models",
  list: "list_videos",
  status: "get_video",
  wait: "get_video",
  cancel: "cancel_video",
  delete: "delete_video",
};

/** Replaces commands by the tools that do the same. Closing an attempt is never the agent's decision. */
export function withToolNames(text: string): string {
  if (text.includes("`vidgen list --dismiss ")) return `Only the user decides about this: ${text}`;
  return text.replace(/`vidgen ([a-z]+)(?: [^\s`-][^\s`]*)?`/g, (typed, command) => toolNames[command] ?? typed);
}

/** Converts an error for a tool's result. `isOut` is set while a start request is in flight. */
export function toolError(thrown: unknown, isOut: boolean): ToolError {
  const error = asVidgenError(thrown);
  const { code, message, id } = error;
  const hint = isExistsError(thrown) ? "Call save_video with another path, or none." : agentHint(error);
  return {
    code,
    message,
    hint: hint ?? null,
    id: id ?? null,
    may_have_been_charged: code === "unknown" || (code === "bug" && isOut),
  };
}
