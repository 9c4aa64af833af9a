import { type FailureCode, isCancelledError } from "../../protocol/schema.ts";
import type { FailureKind, StoredGeneration } from "../store/generations.ts";
import { kinds } from "./videos/kinds.ts";

const notThePrompt = "The prompt is not the cause:";

/** What to do about each kind of failure. Most error codes already say that. */
const hints: Readonly<Record<FailureKind, string>> & Partial<Record<FailureCode, string>> = {
  refused: "Try another prompt or model.",
  value: "Change the value that the error names.",
  model: `${notThePrompt} \`vidgen models --engine\` lists the engine's own models; name one after #.`,
  start_image: `${notThePrompt} leave out the image, or choose a model that starts from one.`,
  image: `${notThePrompt} check the image, and whether the service can fetch it.`,
  memory: `${notThePrompt} choose a lower resolution or a shorter video, or free memory of the GPU.`,
  address: "Check the address: if ComfyUI is behind a path, add it, as in http://gpu-1/comfyui.",
  node: `${notThePrompt} install the node in ComfyUI, or choose a workflow without it.`,
  file: `${notThePrompt} copy the file to ComfyUI's models folder, or name one that it has in the workflow.`,
  input_file: `${notThePrompt} that file is on the machine of the workflow's author. Write {{image}} in its place, and pass --image.`,
  inputs: `${notThePrompt} open the workflow in ComfyUI, set that input of the node, and export it again.`,
  link: `${notThePrompt} open the workflow in ComfyUI, connect the inputs of that node again, and export it.`,
  prefix: `${notThePrompt} write a filename_prefix without a leading / and without .. into the workflow.`,
  no_video: `${notThePrompt} add a node that saves a video, such as SaveVideo, to the workflow.`,
  crash: `${notThePrompt} ComfyUI's log says where it fails on this workflow.`,
  workflow: `${notThePrompt} open the workflow in ComfyUI and run it there.`,
  lost: `${notThePrompt} once the engine works, the same command starts a new generation.`,
  stopped: "The generation was stopped at the engine: the same command starts a new one.",
  silent: `${notThePrompt} check the engine, or allow it more time with --engine-timeout.`,
  not_fetched: `${notThePrompt} check the file at the engine.`,
};

/** What to do about an unclear start at an engine that has no account. */
const ownUnclear =
  "Look into the engine's log, or its GET /v1/videos. vidgen does not send it again by itself; --again starts another one.";

/** What a program learns from the code alone, in words. */
const codeHints: Partial<Record<FailureCode, string>> = {
  credits: "Its engine's account has no credits there. Add some, then start another take.",
  auth: "Whoever runs the service has to give its engine a valid key. Then start another take.",
  not_submitted: "Nothing was submitted to an engine. Another take starts it again.",
};

/** The kinds of failures with which an engine declines a request, and makes nothing. */
const refusals: readonly (FailureKind | undefined)[] = ["refused", "value", "model", "start_image", "image"];

type Failed = Pick<StoredGeneration, "error_code" | "failure" | "checkpoint">;

/** Returns what happened to a failed generation, as a heading. */
export function failureTitle({ error_code, failure, error }: Failed & Pick<StoredGeneration, "error">): string {
  if (error_code === "unclear") return "It is unclear whether this was generated";
  if (isCancelledError(error)) return "This generation was cancelled";
  return error_code === undefined && refusals.includes(failure) ? "The engine refused this" : "This generation failed";
}

/** Returns what a person does about a failed generation. */
export function adviseOn(generation: Failed): string {
  const { error_code, checkpoint } = generation;
  if (error_code !== "unclear")
    return failureHint(generation) ?? (error_code && codeHints[error_code]) ?? "Another take starts it again.";
  const isOwn = checkpoint !== null && !isPaidFor(checkpoint);
  const where = isOwn
    ? "Its engine may have generated it: look into its log."
    : "Its engine's provider may have charged for it: check your account there.";
  return `${where} It is not sent again.`;
}

/** Returns what to do about a failed generation; `undefined` if its error says that, or if nobody knows. */
export function failureHint({ error_code, failure, checkpoint }: Failed): string | undefined {
  if (error_code === "unclear" && checkpoint !== null && !isPaidFor(checkpoint)) return ownUnclear;
  const kind = error_code === "not_submitted" ? failure : (error_code ?? failure);
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
