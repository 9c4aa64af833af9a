import { expect, test } from "vitest";
import { failureHint } from "../../../src/server/http/failure-hint.ts";
import type { FailureKind, StoredCheckpoint } from "../../../src/server/store/generations.ts";

const at = "2026-01-01T00:00:00.000Z";
const jobAt = (engine: string): StoredCheckpoint => ({ state: "submitted", job: "1", engine, at });
const own = jobAt("http://gpu-1:8188");

test.each<[FailureKind | undefined, StoredCheckpoint | null, RegExp]>([
  ["memory", own, /lower resolution.*memory of the GPU\.$/],
  ["lost", own, /same command/],
  ["node", own, /install the node in ComfyUI/],
  ["workflow", own, /run the workflow in ComfyUI itself/],
  ["stopped", own, /stopped at the engine/],
  ["silent", own, /--engine-timeout/],
  ["image", null, /check the image/],
  ["refused", own, /^Try another prompt or model\.$/],
  ["refused", { state: "rendering", tries: 1, engine: "preview", at }, /^Try another prompt or model\.$/],
  ["refused", jobAt("https://openrouter.ai/api"), /^Try another prompt or model\. Each attempt may be charged\.$/],
  ["refused", jobAt("@ai-sdk/fal"), /^Try another prompt or model\. Each attempt may be charged\.$/],
  [undefined, own, /^none$/],
])(
  "the failure %s has a hint of its kind, and charges are spoken of where there may be some",
  (failure, checkpoint, hint) => {
    expect(failureHint({ failure, error_code: undefined, checkpoint }) ?? "none").toMatch(hint);
  },
);

test.each<["not_fetched" | "auth" | "unclear", RegExp]>([
  ["not_fetched", /^The prompt is not the cause: check the file at the engine\.$/],
  ["auth", /^none$/],
  ["unclear", /^none$/],
])("one with the code %s has its own, whatever has failed", (error_code, hint) => {
  expect(failureHint({ failure: "refused", error_code, checkpoint: own }) ?? "none").toMatch(hint);
});
