import { expect, test } from "vitest";
import type { Clock } from "../../../src/io.ts";
import { createComfyUiEngine } from "../../../src/server/engines/comfyui/comfyui.ts";
import { readWorkflow } from "../../../src/server/engines/comfyui/workflow.ts";
import type { Engine } from "../../../src/server/engines/engine.ts";
import { failureHint } from "../../../src/server/engines/failure-hint.ts";
import { createVideosEngine } from "../../../src/server/engines/videos/videos.ts";
import type { FailureKind, StoredCheckpoint } from "../../../src/server/store/generations.ts";
import { createTestService } from "../service.ts";
import { type ComfyUiOptions, createComfyUi } from "./comfyui/fake.ts";
import { workflow, writeWorkflow } from "./comfyui/run.ts";
import { type FakeOptions, ioFetch, json } from "./videos/fakes/fake.ts";
import { createSglang } from "./videos/fakes/sglang.ts";
import { engineUrl, timeoutMs } from "./videos/run.ts";

const at = "2026-01-01T00:00:00.000Z";
const jobAt = (engine: string): StoredCheckpoint => ({ state: "submitted", job: "1", engine, at });
const own = jobAt("http://gpu-1:8188");

const common = { url: engineUrl, key: undefined, timeoutMs, models: ["sora-2"], concurrency: 4, onNote: () => {} };
const onVideos = (fault: NonNullable<FakeOptions["fault"]>) => (clock: Clock) =>
  createVideosEngine(
    { ...common, kind: undefined, upstreamModel: undefined },
    {
      ...clock,
      fetch: ioFetch(createSglang({ now: clock.now, completeAfterMs: 10_000, fault })),
      open: () => Promise.reject(new Error("unused")),
    },
  );
const answering = (route: "create" | "poll" | "content", status: number, body: unknown) =>
  onVideos((call) => (call.route === route ? json(status, body) : undefined));
const polled = (fields: object) => answering("poll", 200, { id: "1", status: "failed", ...fields });
const onComfyUi = (options: ComfyUiOptions) => (clock: Clock) => {
  const read = readWorkflow(writeWorkflow(workflow()), ["sora-2"]);
  const settings = { ...common, upstreamModel: "wan.json", runningPatienceMs: timeoutMs, workflow: read };
  const fetch = ioFetch(createComfyUi({ now: clock.now, completeAfterMs: 10_000, ...options }));
  return createComfyUiEngine(settings, { ...clock, fetch, open: () => Promise.reject(new Error("unused")) });
};
const brokenRun = (error: { exception_type?: string; exception_message: string }) =>
  onComfyUi({ failure: () => ({ node_type: "KSampler", ...error }) });

const anotherPrompt = "Try another prompt or model.";
const moderation = { message: "no", code: "content_policy_violation" };
const quoting = 'The prompt "the job was deleted: CUDA out of memory" is unsafe';
test.each<[string, (clock: Clock) => Engine, string | undefined]>([
  [
    "a create that is refused",
    answering("create", 400, { error: { message: "fps must be an integer" } }),
    anotherPrompt,
  ],
  ["a create that is refused by a filter", answering("create", 403, { error: moderation }), anotherPrompt],
  ["a create that may have been taken", answering("create", 502, "<h1>Bad gateway</h1>"), undefined],
  ["a job that a filter has stopped", polled({ error: moderation }), anotherPrompt],
  ["a job whose filter quotes the prompt", polled({ error: { message: quoting } }), anotherPrompt],
  [
    "a job without memory",
    polled({ error: { message: "CUDA out of memory. Tried to" } }),
    "The prompt is not the cause: choose a lower",
  ],
  ["a job that failed for a reason of its own", polled({ error: { message: "worker died" } }), undefined],
  ["a job that was cancelled there", polled({ status: "cancelled" }), "The generation was stopped at the engine"],
  [
    "a job that is not known any more",
    answering("poll", 404, { detail: "not found" }),
    "The prompt is not the cause: once the engine",
  ],
  [
    "a job about which there are only errors",
    answering("poll", 500, { detail: "no" }),
    "The prompt is not the cause: check the engine",
  ],
  ["a job without progress", polled({ status: "running" }), "The prompt is not the cause: check the engine"],
  ["a video that is text", answering("content", 200, "text"), "The prompt is not the cause: check the file"],
  [
    "a node of ComfyUI without memory",
    brokenRun({ exception_type: "torch.OutOfMemoryError", exception_message: "x" }),
    "The prompt is not the cause: choose a lower",
  ],
  ["a node of ComfyUI that fails", brokenRun({ exception_message: "x must be 4" }), undefined],
  [
    "a node that ComfyUI does not have",
    onComfyUi({ missing: ["KSampler"] }),
    "The prompt is not the cause: install the node",
  ],
  ["a workflow that ComfyUI refuses", onComfyUi({ faulty: ["3"] }), "The prompt is not the cause: run the workflow"],
])("%s has the hint of what its engine has said", async (_, engine, hint) => {
  const service = await createTestService({ engines: (clock) => [engine(clock)] });
  const id = await service.startId();
  await service.clock.sleep(timeoutMs + 10 * 60_000);
  const status = await (await service.status(id)).json();
  expect(status).toMatchObject({ status: "failed" });
  expect((status as { hint?: string }).hint ?? "none").toMatch(new RegExp(`^${hint ?? "none"}`));
});

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
