import { expect, test } from "vitest";
import { failureHint } from "../../../src/server/http/failure-hint.ts";
import type { StoredCheckpoint } from "../../../src/server/store/generations.ts";

const at = "2026-01-01T00:00:00.000Z";
const jobAt = (engine: string): StoredCheckpoint => ({ state: "submitted", job: "1", engine, at });
const own = jobAt("http://gpu-1:8188");
const failed = { status: "failed" as const, error_code: undefined };

test.each<[string, StoredCheckpoint | null, RegExp]>([
  ["KSampler: CUDA out of memory. Tried to allocate 2.00 GiB", own, /lower resolution.*memory of the GPU\.$/],
  ["http://gpu-1:8188 no longer knows this video's job (HTTP 404); it may have been restarted", own, /same command/],
  ["Cannot execute because node WanVideoSampler does not exist.", own, /install the node in ComfyUI/],
  ["cancelled", jobAt("https://openrouter.ai/api"), /^none$/],
  ["the model run did not succeed (cancelled)", own, /stopped at the engine/],
  ["http://gpu-1:8188 made no progress with this video for 30 min (in_progress)", own, /--engine-timeout/],
  ["the faces look odd", own, /^Try another prompt or model\.$/],
  [
    "asked for by the prompt",
    { state: "rendering", tries: 1, engine: "preview", at },
    /^Try another prompt or model\.$/,
  ],
  ["http://gpu-1:8188 refused the request: HTTP 400", null, /^Try another prompt or model\.$/],
  ["blocked", jobAt("https://openrouter.ai/api"), /^Try another prompt or model\. Each attempt may be charged\.$/],
  ["blocked", jobAt("@ai-sdk/fal"), /^Try another prompt or model\. Each attempt may be charged\.$/],
])(
  "what failed with %j has a hint of its kind, and charges are spoken of where there may be some",
  (error, checkpoint, hint) => {
    expect(failureHint({ ...failed, error, checkpoint }) ?? "none").toMatch(hint);
  },
);

test.each<["not_fetched" | "auth", RegExp]>([
  ["not_fetched", /^The prompt is not the cause: check the file at the engine\.$/],
  ["auth", /^none$/],
])("one with the code %s has its own", (error_code, hint) => {
  expect(failureHint({ ...failed, error: "x", error_code, checkpoint: own }) ?? "none").toMatch(hint);
});
