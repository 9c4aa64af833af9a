import { kinds } from "../engines/videos/kinds.ts";
import type { StoredGeneration } from "../store/generations.ts";

/** What to do about an engine's failure, by a pattern of its error. */
const hints: readonly [RegExp, string][] = [
  [
    /out of memory|outofmemory|\boom\b|not enough (gpu |video )?memory|cannot allocate memory/i,
    "The prompt is not the cause: choose a lower resolution or a shorter video, or free memory of the GPU.",
  ],
  [
    /no longer knows|may have lost it|restarted|removed from its queue/i,
    "The prompt is not the cause: once the engine works, the same command starts a new generation.",
  ],
  [
    /missing.node|unknown node|node .{0,80}(does not exist|not found|is not installed)/i,
    "The prompt is not the cause: install the node in ComfyUI, or choose a workflow without it.",
  ],
  [
    /refused the workflow: it ends in an error there each time/i,
    "The prompt is not the cause: run the workflow in ComfyUI itself, and read ComfyUI's log.",
  ],
  [/cancell?ed|interrupted|deleted/i, "The generation was stopped at the engine: the same command starts a new one."],
  [
    /made no progress|has not responded/i,
    "The prompt is not the cause: check the engine, or allow it more time with --engine-timeout.",
  ],
];

/** Returns what to do about a failed generation; `undefined` if the `error_code` already says that, or if the generation was cancelled here. */
export function failureHint({
  status,
  error,
  error_code,
  checkpoint,
}: Pick<StoredGeneration, "status" | "error" | "error_code" | "checkpoint">): string | undefined {
  if (status !== "failed" || error === null || error === "cancelled") return undefined;
  if (error_code !== undefined && error_code !== "not_fetched") return undefined;
  const hint =
    error_code === "not_fetched"
      ? "The prompt is not the cause: check the file at the engine."
      : (hints.find(([pattern]) => pattern.test(error))?.[1] ?? "Try another prompt or model.");
  return isPaidFor(checkpoint) ? `${hint} Each attempt may be charged.` : hint;
}

/** Whether a generation may have been charged, because only providers charge, not the owner's GPU or the preview. */
function isPaidFor(checkpoint: StoredGeneration["checkpoint"]): boolean {
  if (checkpoint === null || checkpoint.engine === "preview") return false;
  const { engine } = checkpoint;
  return !URL.canParse(engine) || kinds.some(({ provider }) => provider && isAtOrigin(provider.url, engine));
}

function isAtOrigin(url: string, engine: string): boolean {
  return new URL(url).origin === new URL(engine).origin;
}
