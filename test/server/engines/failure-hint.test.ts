import { expect, test } from "vitest";
import type { Clock } from "../../../src/io.ts";
import { createComfyUiEngine } from "../../../src/server/engines/comfyui/comfyui.ts";
import { readWorkflow } from "../../../src/server/engines/comfyui/workflow.ts";
import type { Engine } from "../../../src/server/engines/engine.ts";
import { adviseOn, failureHint, failureTitle } from "../../../src/server/engines/failure-hint.ts";
import { createVideosEngine } from "../../../src/server/engines/videos/videos.ts";
import type { FailureKind, StoredCheckpoint } from "../../../src/server/store/generations.ts";
import { createTestService } from "../service.ts";
import { type ComfyUiOptions, createComfyUi, missingFile } from "./comfyui/fake.ts";
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
const onComfyUi =
  (options: ComfyUiOptions, graph: object = workflow()) =>
  (clock: Clock) => {
    const read = readWorkflow(writeWorkflow(graph), ["sora-2"]);
    const settings = { ...common, upstreamModel: "wan.json", runningPatienceMs: timeoutMs, workflow: read };
    const fetch = ioFetch(createComfyUi({ now: clock.now, completeAfterMs: 10_000, ...options }));
    return createComfyUiEngine(settings, { ...clock, fetch, open: () => Promise.reject(new Error("unused")) });
  };
/** A graph of which ComfyUI 0.33 says this about a node. */
const refused = (type: string, details: string, extra_info: object = {}) =>
  onComfyUi({ errors: { 3: { type, message: "Its message", details, extra_info } } });
const ownError = () => new Response("500 Internal Server Error\n\nServer got itself in trouble", { status: 500 });
const onSave = (exception_message: string, exception_type = "Exception") =>
  onComfyUi({ failure: () => ({ node_type: "SaveVideo", exception_message, exception_type }) });
const nothingSaved = { 3: { class_type: "KSampler", inputs: { text: "{{prompt}}", filename_prefix: "x" } } };
const brokenRun = (error: { exception_type?: string; exception_message: string }) =>
  onComfyUi({ failure: () => ({ node_type: "KSampler", ...error }) });

const anotherPrompt = "Try another prompt or model.";
const notThePrompt = "The prompt is not the cause:";
const prefixWords =
  "**** ERROR: Saving image outside the output folder is not allowed.\n full_output_folder: /elsewhere\n         output_dir: /comfyui/output\n";
const moderation = { message: "no", code: "content_policy_violation" };
const quoting = 'The prompt "the job was deleted: CUDA out of memory" is unsafe';
test.each<[string, (clock: Clock) => Engine, string | undefined]>([
  ["a create that is refused", answering("create", 400, { error: { message: "no" } }), anotherPrompt],
  [
    "a value that is refused",
    answering("create", 400, { detail: "num_frames must be positive" }),
    "Change the value that the error names",
  ],
  [
    "a value that a form is refused for",
    answering("create", 422, {
      detail: [{ type: "int_parsing", loc: ["body", "seconds"], msg: "Input should be a valid integer", input: "5.5" }],
    }),
    "Change the value that the error names",
  ],
  [
    "a model that the server does not have",
    answering("create", 400, {
      error: { message: "{'error': '/videos: Invalid model name passed in model=nope.'}", type: "None", code: "400" },
    }),
    `${notThePrompt} .vidgen models --engine. lists`,
  ],
  [
    "an image for a model of texts",
    answering("create", 400, { detail: "input_reference is not supported for T2V models." }),
    `${notThePrompt} leave out the image`,
  ],
  [
    "a server without the endpoint",
    answering("create", 404, { detail: "Not Found" }),
    "Check the address: if ComfyUI is behind a path, add it",
  ],
  ["a create that is refused by a filter", answering("create", 403, { error: moderation }), anotherPrompt],
  [
    "a create that may have been taken",
    answering("create", 502, "<h1>Bad gateway</h1>"),
    "Look into the engine's log, or its GET /v1/videos",
  ],
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
    answering("poll", 404, { detail: "Video not found" }),
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
  [
    "a node of ComfyUI that fails",
    brokenRun({ exception_message: "x must be 4" }),
    `${notThePrompt} open the workflow in ComfyUI and run it there`,
  ],
  [
    "a node that ComfyUI does not have",
    onComfyUi({ missing: ["KSampler"] }),
    "The prompt is not the cause: install the node",
  ],
  [
    "a missing file of a model",
    onComfyUi({ errors: { 3: missingFile("wan.safetensors") } }),
    `${notThePrompt} copy the file to`,
  ],
  [
    "a missing file of a model after another fault",
    onComfyUi({
      errors: {
        3: { type: "required_input_missing", message: "Required input is missing", details: "seconds" },
        6: missingFile("wan.safetensors"),
      },
    }),
    `${notThePrompt} copy the file to`,
  ],
  ["a value that is not in a list", refused("value_not_in_list", "sampler: 'x' not in ['y']"), "Change the value that"],
  ["a value below its range", refused("value_smaller_than_min", "width"), "Change the value that"],
  ["a value above its range", refused("value_bigger_than_max", "strict"), "Change the value that"],
  ["a value of another type", refused("invalid_input_type", "seed, x, no int"), "Change the value that"],
  ["a value that its node refuses", refused("custom_validation_failed", "size - odd"), "Change the value that"],
  [
    "a picture of the workflow's author",
    refused("custom_validation_failed", "image - Invalid image file: example_of_author.png"),
    `${notThePrompt} that file is on the machine of the workflow's author`,
  ],
  ["an input without a value", refused("required_input_missing", "seconds"), `${notThePrompt} open .*, set that input`],
  [
    "a value of a list that ComfyUI makes later",
    onSave("SaveVideo.execute() missing 1 required positional argument: 'format'\n", "TypeError"),
    `${notThePrompt} open .*, set that input`,
  ],
  ["a link to another type", refused("return_type_mismatch", "x"), `${notThePrompt} open .*, connect the inputs`],
  ["a link that is none", refused("bad_linked_input", "x"), `${notThePrompt} open .*, connect the inputs`],
  ["a link to no node", refused("exception_during_validation", "'99'"), `${notThePrompt} open .*, connect the inputs`],
  ["a file outside the output folder", onSave(prefixWords), `${notThePrompt} write a filename_prefix without`],
  ["a workflow that saves nothing", onComfyUi({}, nothingSaved), `${notThePrompt} add a node that saves a video`],
  [
    "a workflow that made no video",
    onComfyUi({ outputs: () => ({}) }),
    `${notThePrompt} add a node that saves a video`,
  ],
  [
    "a workflow on which ComfyUI itself fails each time",
    onComfyUi({ fault: ({ route }) => (route === "POST /prompt" ? ownError() : undefined) }),
    `${notThePrompt} ComfyUI's log says where`,
  ],
  [
    "a proxy's 404 to a workflow",
    onComfyUi({ fault: ({ route }) => (route === "POST /prompt" ? new Response("", { status: 404 }) : undefined) }),
    "Check the address: if ComfyUI is behind a path, add it",
  ],
  [
    "any other fault of a workflow",
    refused("other", "x"),
    `${notThePrompt} open the workflow in ComfyUI and run it there`,
  ],
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
  ["workflow", own, /run it there/],
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

test.each<[Parameters<typeof adviseOn>[0] & { error: string | null }, string, RegExp]>([
  [{ error: "cancelled", checkpoint: null }, "This generation was cancelled", /^Another take starts it again\.$/],
  [{ error: "no", checkpoint: null }, "This generation failed", /^Another take starts it again\.$/],
  [{ error: "no", failure: "value", checkpoint: own }, "The engine refused this", /^Change the value/],
  [{ error: "no", failure: "lost", checkpoint: own }, "This generation failed", /starts a new generation/],
  [{ error: "no", error_code: "credits", checkpoint: null }, "This generation failed", /no credits there.*Add some/],
  [{ error: "no", error_code: "auth", checkpoint: null }, "This generation failed", /a valid key/],
  [{ error: "no", error_code: "not_submitted", checkpoint: null }, "This generation failed", /Nothing was submitted/],
  [{ error: "no", error_code: "not_fetched", checkpoint: own }, "This generation failed", /check the file/],
  [
    { error: "no", error_code: "unclear", checkpoint: null },
    "It is unclear whether this was generated",
    /account there/,
  ],
  [{ error: "no", error_code: "unclear", checkpoint: own }, "It is unclear whether this was generated", /its log/],
  [
    { error: "no", error_code: "unclear", checkpoint: jobAt("@ai-sdk/fal") },
    "It is unclear whether this was generated",
    /check your account there\. It is not sent again\.$/,
  ],
])("%j is called what it is, and says what to do", (generation, title, advice) => {
  expect(failureTitle(generation)).toBe(title);
  expect(adviseOn(generation)).toMatch(advice);
});

test.each<["not_fetched" | "auth" | "unclear", RegExp]>([
  ["not_fetched", /^The prompt is not the cause: check the file at the engine\.$/],
  ["auth", /^none$/],
  ["unclear", /^Look into the engine's log/],
])("one with the code %s has its own, whatever has failed", (error_code, hint) => {
  expect(failureHint({ failure: "refused", error_code, checkpoint: own }) ?? "none").toMatch(hint);
});
