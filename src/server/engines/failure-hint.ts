import type { FailureCode } from "../../protocol/schema.ts";
import type { FailureKind, StoredGeneration } from "../store/generations.ts";
import { kinds } from "./videos/kinds.ts";

const notThePrompt = "The prompt is not the cause:";

/** What to do about each kind of failure. Most error codes already say that. */
const hints: Readonly<Record<FailureKind, string>> & Partial<Record<FailureCode, string>> = {
  refused: "Try another prompt or model.",
  image: `${notThePrompt} check the image, and whether the service can fetch it.`,
  memory: `${notThePrompt} choose a lower resolution or a shorter video, or free memory of the GPU.`,
  node: `${notThePrompt} install the node in ComfyUI, or choose a workflow without it.`,
  workflow: `${notThePrompt} run the workflow in ComfyUI itself, and read ComfyUI's log.`,
  lost: `${notThePrompt} once the engine works, the same command starts a new generation.`,
  stopped: "The generation was stopped at the engine: the same command starts a new one.",
  silent: `${notThePrompt} check the engine, or allow it more time with --engine-timeout.`,
  not_fetched: `${notThePrompt} check the file at the engine.`,
};

/** Returns what to do about a failed generation; `undefined` if its error says that, or if nobody knows. */
export function failureHint({
  error_code,
  failure,
  checkpoint,
}: Pick<StoredGeneration, "error_code" | "failure" | "checkpoint">): string | undefined {
  const kind = error_code ?? failure;
  const hint = kind && hints[kind];
  return hint !== undefined && isPaidFor(checkpoint) ? `${hint} Each attempt may be charged.` : hint;
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
