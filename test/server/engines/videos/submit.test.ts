import fsPromises, { writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { ImageFile } from "../../../../src/server/engines/engine.ts";
import { classifyReply } from "../../../../src/server/engines/upstream/submit.ts";
import { createVirtualClock } from "../../../clock.ts";
import { tinyMp4 } from "../../../mp4.ts";
import { type Call, type FakeOptions, ioFetch, json, refusedConnection } from "./fakes/fake.ts";
import { createTensorRtLlm } from "./fakes/tensorrt-llm.ts";
import { createTestEngine, type EngineOptions, engineUrl, fakes, kindIds } from "./run.ts";

type Fault = NonNullable<FakeOptions["fault"]>;
type Settings = EngineOptions & { fake?: FakeOptions; onCreate?: (call: Call, count: number) => ReturnType<Fault> };

/** An engine of a kind whose creates `onCreate` answers, by their count from 1; `undefined` lets the server answer. */
async function start({ kind = "vllm-omni", fake: fakeOptions, onCreate, ...options }: Settings) {
  const clock = options.clock ?? createVirtualClock();
  let posts = 0;
  const fault: Fault = (call) => (call.route === "create" ? onCreate?.(call, ++posts) : undefined);
  const fake = fakes[kind]({ now: clock.now, completeAfterMs: 10_000, fault, ...fakeOptions });
  const engine = await createTestEngine(ioFetch(fake), { ...options, clock });
  return { ...engine, fake, clock, posts: () => posts };
}

const refuse = () => {
  throw refusedConnection();
};

describe.each(kindIds)("a server of %s", (kind) => {
  test("gets one submission, whose job is recorded and whose video is saved", async () => {
    const { make, fake, notes } = await start({ kind });
    const { outcome, checkpoints, video } = await make({ prompt: "a fox\nin snow", extras: { seed: 7 } });
    expect(outcome).toBe("made");
    expect(checkpoints).toEqual(["submitting", [...fake.jobs.keys()][0]]);
    expect(fake.creates).toHaveLength(1);
    expect(String(fake.creates[0]?.fields.seed)).toBe("7");
    expect(video).toEqual(Buffer.from(tinyMp4(String(fake.creates[0]?.fields.prompt))));
    expect(notes).toEqual([]);
  });

  test("gets an image as a file", async () => {
    const { make, fake, folder } = await start({ kind });
    const image: ImageFile = { path: join(folder, "0.png"), format: "png", megapixels: 1, name: "the image" };
    await writeFile(image.path, "pixels");
    expect((await make({ images: [image] })).outcome).toBe("made");
    expect(fake.creates[0]?.files).toMatchObject([
      { name: "image.png", type: "image/png", bytes: new Uint8Array(Buffer.from("pixels")) },
    ]);
  });

  test("that does not know an extra field gets the submission once more without it", async () => {
    const onCreate = (_call: Call, count: number) => (count === 1 ? lacks("seed", "fps") : undefined);
    const { make, fake, notes, posts } = await start({ kind, onCreate });
    const { outcome, checkpoints } = await make({ extras: { seed: 7, fps: 24, guidance_scale: 3 } });
    expect([outcome, posts()]).toEqual(["made", 2]);
    expect(fake.creates.map(({ fields }) => ["seed" in fields, "fps" in fields, "guidance_scale" in fields])).toEqual([
      [false, false, true],
    ]);
    expect(checkpoints.slice(0, 3)).toEqual(["submitting", null, "submitting"]);
    expect(notes).toEqual([
      expect.stringMatching(/^http:\/\/gpu\.test:8091 refuses seed, fps \(HTTP 4.*\)\. Submitting without them\.$/s),
    ]);
  });

  test("that refuses a value fails the generation, which is not sent again", async () => {
    const { make, fake } = await start({ kind, fake: { refuses: ["seed"] } });
    const { outcome, checkpoints, end } = await make({ extras: { seed: 7 } });
    expect(outcome).toMatch(/^http:\/\/gpu\.test:8091 refused the request: HTTP 4.*seed/s);
    expect([end?.kind, fake.creates.length, fake.jobs.size]).toEqual(["refused", 1, 0]);
    expect(checkpoints).toEqual(["submitting", null]);
  });

  test("that does not know another field then fails the generation", async () => {
    const onCreate = (_call: Call, count: number) => lacks(count === 1 ? "seed" : "fps");
    const { make, posts } = await start({ kind, onCreate });
    const { outcome, checkpoints } = await make({ extras: { seed: 7, fps: 24 } });
    expect(outcome).toMatch(/^http:\/\/gpu\.test:8091 refused the request: HTTP 4/);
    expect(posts()).toBe(2);
    expect(checkpoints.at(-1)).toBeNull();
  });

  test("is told not to repeat a submission by itself, as LiteLLM does", async () => {
    const headers: (string | null)[] = [];
    const onCreate = ({ request }: Call) => void headers.push(request.headers.get("x-litellm-num-retries"));
    const { make } = await start({ kind, onCreate });
    expect((await make()).outcome).toBe("made");
    expect(headers).toEqual(["0"]);
  });

  test("gets the line breaks of a prompt unchanged, even in a form", async () => {
    const { make, fake, folder } = await start({ kind });
    const image: ImageFile = { path: join(folder, "0.png"), format: "png", megapixels: 1, name: "the image" };
    await writeFile(image.path, "pixels");
    const prompt = 'a fox\nin snow\r\nat dusk\r--=_"é 狐';
    for (const images of [[], [image]]) expect((await make({ prompt, images })).outcome).toBe("made");
    expect(fake.creates.map(({ fields }) => fields.prompt)).toEqual([prompt, prompt]);
  });
});

describe.each(["sglang", "fastvideo"] as const)("%s, which makes the same video twice without a seed", (kind) => {
  test("gets another seed for each generation, and the same one when it is submitted again", async () => {
    const onCreate = (_call: Call, count: number) => (count === 1 ? json(429, { detail: "busy" }) : undefined);
    const { make, fake } = await start({ kind, onCreate });
    const busy = await make({ id: "fox" });
    expect(busy.outcome).toMatch(/^not submitted/);
    const [again, other] = [await make({ id: "fox" }), await make({ id: "owl" })];
    const [first, second] = fake.creates.map(({ fields }) => Number(fields.seed));
    expect(busy.drawnSeeds).toEqual([first, undefined]);
    expect([again.drawnSeeds, other.drawnSeeds]).toEqual([
      [first, first],
      [second, second],
    ]);
    expect(first).not.toBe(second);
    for (const seed of [first, second]) expect(seed).toSatisfy((n) => Number.isInteger(n) && n >= 0 && n < 2 ** 31);
  });

  test("gets the seed that was typed, and none if it says that it knows none", async () => {
    const onCreate = (_call: Call, count: number) => (count === 2 ? lacks("seed") : undefined);
    const { make, fake } = await start({ kind, onCreate });
    const made = [await make({ extras: { seed: 0 } }), await make()];
    expect(fake.creates.map(({ fields }) => fields.seed)).toEqual([0, undefined]);
    expect(made.map(({ drawnSeeds }) => drawnSeeds.at(-1))).toEqual([undefined, undefined]);
  });
});

test.each(["vllm-omni", "tensorrt-llm", "litellm", "openrouter"] as const)(
  "%s gets no seed of its own",
  async (kind) => {
    const { make, fake } = await start({ kind });
    expect([(await make()).outcome, "seed" in (fake.creates[0]?.fields ?? {})]).toEqual(["made", false]);
  },
);

const lacks = (...names: string[]) =>
  json(422, {
    detail: names.map((name) => ({
      type: "extra_forbidden",
      loc: ["body", name],
      msg: "Extra inputs are not permitted",
      input: 7,
    })),
  });

/** What a server says when it did not take a create. */
const notSubmitted: [string, () => Response | never][] = [
  ["a refused connection", refuse],
  ["an HTTP 503", () => json(503, { detail: "loading" })],
  ["an HTTP 429", () => json(429, { error: { message: "slow down" } })],
  ["an HTTP 401", () => json(401, { error: "Unauthorized" })],
  ["a 503 of Envoy that did not connect", () => envoy("connection failure")],
  [
    "a 503 of HAProxy without a server",
    () => new Response("<h1>503</h1>\nNo server is available to handle this request.", { status: 503 }),
  ],
];

const envoy = (reason: string) =>
  new Response(`upstream connect error or disconnect/reset before headers. reset reason: ${reason}`, { status: 503 });

test.each(notSubmitted)(
  "%s is taken back, because nothing was submitted, and another engine may get the generation",
  async (_name, answer) => {
    const { make, fake, posts } = await start({ kind: "sglang", onCreate: answer });
    const { outcome, checkpoints, seconds } = await make();
    expect(outcome).toMatch(/^not submitted: ./);
    expect(checkpoints).toEqual(["submitting", null]);
    expect([posts(), fake.creates, seconds]).toEqual([1, [], 0]);
  },
);

/** What a create that is answered with a 403 comes to, by the words of real providers. */
test.each<[string, unknown, object]>([
  [
    "xAI's refusal of a prompt",
    { code: "permission-denied", error: "Content violates usage guidelines. Team: 1, API key ID: 2, Model: grok" },
    { kind: "refused", reason: expect.stringContaining("Content violates usage guidelines.") },
  ],
  [
    "OpenRouter's, by its reasons",
    { error: { code: 403, message: "Forbidden", metadata: { reasons: ["violence"], flagged_input: "a fox..." } } },
    { kind: "refused", reason: "HTTP 403: Forbidden" },
  ],
  [
    "a flagged input",
    { error: { message: "Your input was flagged by the moderation of this model" } },
    { kind: "refused" },
  ],
  ["a code", { error: { message: "No", code: "content_policy_violation" } }, { kind: "refused" }],
  ["a region", { error: "This model is not available in your region." }, { kind: "not submitted", cause: "auth" }],
  ["an account", { error: "Your account was suspended: content policy." }, { kind: "not submitted", cause: "auth" }],
  ["no words", {}, { kind: "not submitted", cause: "auth" }],
  [
    "a page",
    "<html><title>Just a moment...</title></html>",
    { kind: "not submitted", cause: "unreachable", retryAfterMs: 60_000 },
  ],
])("a 403 because of %s", (_, body, judged) => {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const json = typeof body === "string" ? undefined : body;
  expect(classifyReply({ status: 403, text, json })).toMatchObject(judged);
});

test("a wrong key at a LiteLLM without a database, which answers 400, is reported as a key error", () => {
  const json = { error: { message: "No connected db.", type: "no_db_connection", param: null, code: "400" } };
  expect(classifyReply({ status: 400, text: JSON.stringify(json), json })).toMatchObject({
    kind: "not submitted",
    cause: "auth",
  });
});

/** What providers say where an account cannot pay, and what is like it and is none of that. */
test.each<[number, unknown, string]>([
  [403, { error: { code: 403, message: "Insufficient credits" } }, "no credits"],
  [402, {}, "no credits"],
  [
    403,
    { detail: "User is locked. Reason: Exhausted balance. Top up your balance at fal.ai/dashboard." },
    "no credits",
  ],
  [403, { error: "Your team has used all available credits or reached its monthly spending limit." }, "no credits"],
  [
    400,
    { code: "Arrearage", message: "Access denied, please make sure your account is in good standing." },
    "no credits",
  ],
  [
    403,
    { code: "AllocationQuota.FreeTierOnly", message: "The free tier of the model has been exhausted." },
    "no credits",
  ],
  [403, { error: { code: "insufficient_user_quota", message: "预扣费额度失败" } }, "no credits"],
  [400, { error: { message: "the prompt 'she keeps her balance' is too short" } }, "refused"],
  [429, { error: { message: "quota exceeded", code: "RESOURCE_EXHAUSTED" } }, "not submitted"],
  [500, { error: "Exhausted balance" }, "unclear"],
])("a create that is answered with %i %j comes to: %s", (status, json, kind) => {
  expect(classifyReply({ status, text: JSON.stringify(json), json }).kind).toBe(kind);
});

test.each<[string, string | null, number | undefined]>([
  ["seconds", "120", 120_000],
  ["a date", "Thu, 01 Jan 2026 00:05:00 GMT", 300_000],
  ["anything else", "soon", undefined],
])("a create that is not taken tells how long to wait, as %s", async (_, header, retryAfterMs) => {
  const onCreate = () => new Response("{}", { status: 429, headers: { "Retry-After": header ?? "" } });
  const { make } = await start({ kind: "sglang", onCreate });
  expect((await make()).end).toEqual({ kind: "not submitted", reason: "HTTP 429", cause: undefined, retryAfterMs });
});

test("a server whose kind cannot be detected gets no submission", async () => {
  const { make, posts } = await start({ fake: { fault: () => json(200, {}) } });
  const { outcome, checkpoints } = await make();
  expect(outcome).toBe(
    "not submitted: its kind of server cannot be detected; name it with --engine kind:http://gpu.test:8091",
  );
  expect([posts(), checkpoints]).toEqual([0, []]);
});

/** What leaves open whether a job was started. */
const unclear: [string, (call: Call) => ReturnType<Fault>][] = [
  ["a reset", () => "drop"],
  ["a reset after the create was accepted", ({ serve }) => serve().then(() => "drop" as const)],
  ...[302, 408, 500, 502, 504].map((status): [string, () => Response] => [`an HTTP ${status}`, () => json(status, {})]),
  ["a 2xx without a job", () => json(200, { status: "queued" })],
  ...['""', '"."', '".."', '"\\ud800"', "12345678901234567890"].map((id): [string, () => Response] => [
    `a job that cannot be asked for by its id, ${id}`,
    () => new Response(`{"id":${id},"status":"queued"}`),
  ]),
  ["a 202 with a page", () => new Response("<h1>Hello</h1>", { status: 202 })],
  ["a cut reply", async ({ serve }) => ({ reply: await serve(), bytes: 10 })],
  ["a 503 of Envoy whose connection broke off", () => envoy("connection termination")],
  ["a 503 of a proxy that does not say why", () => new Response("Service Unavailable", { status: 503 })],
  ["an endless reply", () => new Response(new Uint8Array(64_000_001))],
];

test.each(unclear)("%s is unclear, and the submission is not sent again", async (_name, onCreate) => {
  const { make, posts } = await start({ kind: "sglang", onCreate });
  const { outcome, checkpoints } = await make();
  expect(outcome).toMatch(/^unclear: ./);
  expect(checkpoints).toEqual(["submitting"]);
  expect(posts()).toBe(1);
});

test("no reply within the time limit is unclear", async () => {
  const clock = createVirtualClock();
  const onCreate = () => clock.sleep(36_000_000).then(() => undefined);
  const { make, posts } = await start({ kind: "sglang", clock, onCreate });
  expect((await make()).outcome).toBe("unclear: no response within 30 min");
  expect(posts()).toBe(1);
});

const vllmRefusal = json(400, {
  error: {
    message:
      "[{'type': 'int_parsing', 'loc': ('body', 'fps'), 'msg': 'Input should be a valid integer, unable to parse string as an integer', 'input': 'abc'}]",
    type: "Bad Request",
    param: null,
    code: 400,
  },
});
const fastApi = (loc: string[], msg: string, type: string) => json(422, { detail: [{ loc, msg, type, input: 5 }] });

test.each([
  ["a list of FastAPI", fastApi(["body", "fps"], "at most 60", "less_than_equal"), "HTTP 422: fps: at most 60"],
  [
    "vLLM-Omni's text",
    vllmRefusal,
    "HTTP 400: fps: Input should be a valid integer, unable to parse string as an integer",
  ],
])("a refused value is told with its field: %s", async (_name, refusal, words) => {
  const { make, posts } = await start({ kind: "vllm-omni", onCreate: () => refusal.clone() });
  const { outcome } = await make({ extras: { fps: 99 } });
  const [, told] = /refused the request: (.*)$/s.exec(outcome) ?? [];
  expect([posts(), told]).toEqual([1, words]);
});

/** Refusals, the fields that are left out for them, and whether it was sent twice. */
test.each([
  [
    "a field that is unknown",
    fastApi(["body", "seconds"], "Extra inputs are not permitted", "extra_forbidden"),
    "seconds",
  ],
  ["an unknown field, as a text", json(422, { message: "Unknown request field 'size'." }), "size"],
  ["an unknown argument", json(400, { detail: "got an unexpected keyword argument 'seconds'" }), "seconds"],
  [
    "a field that is unknown, after a long text",
    json(400, { error: { message: `${"x".repeat(3_000)}: Unknown request field 'seed'.` } }),
    "seed",
  ],
  [
    "an extra's value, by its type in a union",
    fastApi(["body", "seed", "int"], "not an integer", "int_type"),
    undefined,
  ],
  [
    "an extra's value, with words of the prompt",
    json(400, {
      detail:
        "Invalid request body: 1 validation error for VideoGenerationsRequest\nseed\n  Input should be a valid integer [type=int_parsing, input_value='unknown field', input_type=str]",
    }),
    undefined,
  ],
  ["a length that it cannot make", fastApi(["body", "seconds"], "at most 4", "less_than_equal"), undefined],
  ["a size that it cannot make", json(400, { detail: "Unsupported size '1280x720'." }), undefined],
  ["a model that it does not have", json(400, { detail: "Unsupported model 'wan'" }), undefined],
  ["a model that it cannot be asked for", fastApi(["body", "model"], "Extra inputs", "extra_forbidden"), undefined],
  ["a prompt", json(400, { error: { message: "moderation" } }), undefined],
])("of a create that is refused for %s, this field alone may be left out", async (_name, refusal, left) => {
  const onCreate = (_call: Call, count: number) => (count === 1 ? refusal.clone() : undefined);
  const { make, fake, posts } = await start({ kind: "sglang", upstreamModel: "wan", onCreate });
  const { outcome } = await make({ extras: { seed: 7 } });
  if (left === undefined) expect([outcome.split(":", 2).join(":"), posts()]).toEqual([expect.any(String), 1]);
  if (left === undefined) return expect(outcome).toMatch(/refused the request: HTTP 4/);
  expect(outcome).toBe("made");
  const names = ["prompt", "size", "seconds", "seed", "model"].filter((name) => name !== left);
  expect(Object.keys(fake.creates[0]?.fields ?? {})).toEqual(names);
});

test.each([{ id: "a/b" }, { id: 7 }])("a create that is answered with %o alone started a job", async (created) => {
  const job = String(created.id);
  const fault: Fault = ({ route }) => {
    if (route === "poll") return json(200, { id: job, status: "failed", error: "no" });
    return route === "create" ? json(200, created) : undefined;
  };
  const { make } = await start({ kind: "sglang", fake: { fault } });
  expect(await make()).toMatchObject({ outcome: "no", checkpoints: ["submitting", job] });
});

test.each([
  ["its address", { data: [{ url: "/files/1.mp4" }] }],
  ["a data: URL", { data: [{ url: `data:video/mp4;base64,${Buffer.from(tinyMp4("a fox")).toString("base64")}` }] }],
  ["its bytes", { data: [{ b64_json: Buffer.from(tinyMp4("a fox")).toString("base64") }] }],
])("a server that answers a create with the finished video, by %s, is followed no more", async (name, created) => {
  const fault: Fault = ({ route, request }) => {
    if (request.url.endsWith("/files/1.mp4")) return new Response(Buffer.from(tinyMp4("a fox")));
    return route === "create" ? json(200, { id: "1", object: "video", status: "completed", ...created }) : undefined;
  };
  const { make } = await start({ kind: "sglang", fake: { fault } });
  const { outcome, video, checkpoints } = await make();
  expect([outcome, video]).toEqual(["made", Buffer.from(tinyMp4("a fox"))]);
  expect(checkpoints).toEqual(["submitting", name === "its address" ? "finished" : "saved"]);
});

describe("a submission that is answered with the video itself", () => {
  const asVideo = { headers: { "Content-Type": "video/mp4" } };
  const answerWith = (answer: () => ReturnType<Fault>) =>
    start({ kind: "sglang", onCreate: ({ serve }) => serve().then(answer) });

  test.each<[string, () => ReturnType<Fault>, RegExp, string]>([
    [
      "that is cut is unclear",
      () => ({ reply: new Response(Buffer.from(tinyMp4()), asVideo), bytes: 20 }),
      /^unclear/,
      "submitting",
    ],
    [
      "that is no whole .mp4 is told with what it is",
      () => new Response(Buffer.from(tinyMp4()).subarray(0, 20), asVideo),
      /^http:\/\/gpu.*sent this video, but it cannot be used: it is incomplete or damaged$/,
      "saved",
    ],
    [
      "that is a WebM is taken, since the video was paid for",
      () => new Response(Buffer.from("\x1aE\xdf\xa3\0webm", "latin1"), asVideo),
      /^made$/,
      "saved",
    ],
    [
      "but is JSON has started a job",
      () => new Response(JSON.stringify({ id: "1", status: "queued" }), asVideo),
      /no longer knows/,
      "1",
    ],
    ["but is empty is unclear", () => new Response("", asVideo), /^unclear/, "submitting"],
  ])("%s", async (_, answer, outcome, checkpoint) => {
    const { make, posts } = await answerWith(answer);
    const made = await make();
    expect([made.outcome, made.checkpoints.at(-1), posts()]).toEqual([expect.stringMatching(outcome), checkpoint, 1]);
  });

  test("is written when this machine can write it, and is on the disk before that is recorded", async () => {
    const { open } = fsPromises;
    onTestFinished(() => replaceOpen(open));
    let tries = 0;
    const tooMany = Object.assign(new Error("EMFILE: too many open files"), { code: "EMFILE" });
    replaceOpen((...args) => (args[1] === "w" && ++tries < 9 ? Promise.reject(tooMany) : open(...args)));
    const { make, notes } = await answerWith(() => new Response(Buffer.from(tinyMp4("a fox")), asVideo));
    const { outcome, checkpoints, video, seconds } = await make();
    expect([outcome, checkpoints, video]).toEqual(["made", ["submitting", "saved"], Buffer.from(tinyMp4("a fox"))]);
    expect(seconds).toBeGreaterThan(120);
    expect(notes).toEqual([
      expect.stringMatching(/The video in a reply cannot be written; retrying in 1 s \(too many/),
    ]);
  });
});

function replaceOpen(open: typeof fsPromises.open): void {
  Object.assign(fsPromises, { open });
  syncBuiltinESMExports();
}

test("a submission is not sent while another process may have the claim, and may be sent later", async () => {
  const { make, posts } = await start({ kind: "sglang" });
  const confirm = () => {
    throw new Error("another process may have taken over this generation");
  };
  const { outcome, checkpoints } = await make({ confirm });
  expect(outcome).toBe("not submitted: another process may have taken over this generation");
  expect([checkpoints, posts()]).toEqual([["submitting", null], 0]);
});

describe("the stop of the service", () => {
  const stopped = new Error("the service is stopping");

  test.each([
    [9_000, "keeps the job of a create that answers within 10 s"],
    [11_000, "leaves a create unclear that answers later"],
  ])("after %i ms", async (answerMs) => {
    const clock = createVirtualClock();
    const stop = new AbortController();
    const onCreate = async ({ serve }: Call) => {
      stop.abort(stopped);
      await clock.sleep(answerMs);
      return serve();
    };
    const { make, fake } = await start({ kind: "sglang", clock, onCreate });
    const { outcome, checkpoints } = await make({ signal: stop.signal });
    expect(outcome).toBe(stopped.message);
    const kept = answerMs < 10_000 ? [[...fake.jobs.keys()][0] ?? "its job"] : [];
    expect(checkpoints).toEqual(["submitting", ...kept]);
  });
});

test("no message contains a key or control characters from a server's reply", async () => {
  const key = "sk-0123456789abcdef";
  const words = `Invalid key ${key}\u001b[31m\nsee https://help.test/keys?token=abc ${"x".repeat(5_000)}`;
  const onCreate = () => json(401, { error: { message: words } });
  const { make, notes } = await start({ kind: "sglang", key, onCreate });
  const { outcome } = await make();
  for (const text of [outcome, ...notes]) {
    expect(text).toContain("Invalid key [key] [31m see https://help.test/keys xxx");
    expect(text).not.toMatch(/\p{Cc}/u);
    expect(text.length).toBeLessThan(700);
  }
});

test("TensorRT-LLM is asked for an .mp4, so that without ffmpeg it refuses at once instead of making an .avi", async () => {
  const fake = createTensorRtLlm({ completeAfterMs: 0, hasFfmpeg: false });
  const { make } = await createTestEngine(ioFetch(fake), { kind: "tensorrt-llm" });
  const { outcome, checkpoints } = await make();
  expect(outcome).toMatch(/refused the request: HTTP 400: format 'mp4' needs ffmpeg/);
  expect([fake.creates.length, fake.jobs.size, checkpoints]).toEqual([1, 0, ["submitting", null]]);
});

test("an older TensorRT-LLM gets the image as a file, and the size in its format", async () => {
  const fake = createTensorRtLlm({ completeAfterMs: 0, isOlder: true });
  const { make, folder, notes } = await createTestEngine(ioFetch(fake), { kind: "tensorrt-llm" });
  const image: ImageFile = { path: join(folder, "0.png"), format: "png", megapixels: 1, name: "the image" };
  await writeFile(image.path, "pixels");
  expect((await make()).outcome).toBe("made");
  expect((await make({ images: [image] })).outcome).toBe("made");
  expect(fake.creates.map(({ isAccepted }) => isAccepted)).toEqual([false, true, false, true]);
  expect(notes).toEqual([
    expect.stringMatching(/refuses format \(HTTP 422: .+\)\. Submitting with output_format in its place\.$/),
    expect.stringMatching(
      /refuses format, image_reference .+ with output_format in its place, and with the image in another field\.$/,
    ),
  ]);
  expect(fake.creates[1]?.fields).toMatchObject({ output_format: "mp4" });
  expect(fake.creates[3]?.fields).toEqual({
    prompt: "a fox",
    size: "1280x720",
    seconds: "5",
    output_format: "mp4",
  });
  expect(fake.creates[3]?.files).toMatchObject([
    { field: "input_reference", bytes: new Uint8Array(Buffer.from("pixels")) },
  ]);
});

test("several images are never left out, so a vLLM-Omni that does not know their field gets one submission", async () => {
  const onCreate = () => fastApi(["body", "image_reference"], "Extra inputs are not permitted", "extra_forbidden");
  const { make, posts, folder } = await start({ kind: "vllm-omni", onCreate });
  const image: ImageFile = { path: join(folder, "0.png"), format: "png", megapixels: 1, name: "the image" };
  await writeFile(image.path, "pixels");
  expect((await make({ images: [image, image] })).outcome).toMatch(/refused the request: HTTP 422/);
  expect(posts()).toBe(1);
});

test.each(["audio_reference", "extra_params", "lora"])(
  "a create that is refused for %s is not sent without it: the video would be another one",
  async (name) => {
    const { make, fake } = await start({ kind: "vllm-omni", fake: { refuses: [name] } });
    const { outcome } = await make({ extras: { seed: 7, [name]: { a: 1 } } });
    expect(outcome).toMatch(/refused the request: HTTP 400/);
    expect([fake.creates.length, fake.jobs.size]).toEqual([1, 0]);
  },
);

test.each([
  [
    "vLLM-Omni's of before 24 July 2026",
    json(400, {
      error: {
        message:
          "2 validation errors for VideoGenerationRequest\nimage_reference.UrlImageReference\n  Input should be a valid dictionary or instance of UrlImageReference [type=model_type, input_value=[{'image_url': 'data:imag...'}], input_type=list]",
        type: "BadRequestError",
        param: null,
        code: 400,
      },
    }),
  ],
  [
    "an older one's",
    json(400, {
      error: {
        message: "Invalid JSON in form field: expected dict, got list.",
        type: "Bad Request",
        param: null,
        code: 400,
      },
    }),
  ],
])("several references that a server takes one of, by %s words, are told as that", async (_, refusal) => {
  const { make, folder } = await start({ kind: "vllm-omni", onCreate: () => refusal.clone() });
  const image: ImageFile = { path: join(folder, "0.png"), format: "png", megapixels: 1, name: "the image" };
  await writeFile(image.path, "pixels");
  const old = "http://gpu.test:8091 refused the request: this server is too old for several";
  expect((await make({ references: [image, image] })).outcome).toMatch(`${old} references (HTTP 400: `);
  expect((await make({ images: [image, image] })).outcome).toMatch(`${old} images (HTTP 400: `);
  expect((await make({ references: [image] })).outcome).not.toMatch("too old");
});

test.each<[(typeof kindIds)[number], object, string | undefined]>([
  ["sglang", { lora: { name: "a" }, short_edge: 512, seed: 7 }, "SGLang ignores lora, short_edge."],
  ["sglang", { seed: 7 }, undefined],
  ["vllm-omni", { quality: "high" }, "vLLM-Omni ignores quality."],
  ["fastvideo", { flow_shift: 3, guidance_scale_2: 4 }, "FastVideo ignores flow_shift."],
])("a server of %s with %j: what it drops is told before the start", async (kind, extras, told) => {
  const order: string[] = [];
  const { make, notes } = await start({ kind, onCreate: () => void order.push("create", ...notes) });
  const made = { extras: extras as Record<string, string> };
  expect((await make(made)).outcome).toBe("made");
  expect(order).toEqual(["create", ...(told === undefined ? [] : [`http://gpu.test:8091: ${told}`])]);
  await make(made);
  // It is said once.
  expect(notes).toHaveLength(told === undefined ? 0 : 1);
});

test("FastVideo ignores more fields beside an image", async () => {
  const { make, notes, folder } = await start({ kind: "fastvideo" });
  const image: ImageFile = { path: join(folder, "0.png"), format: "png", megapixels: 1, name: "the image" };
  await writeFile(image.path, "pixels");
  expect((await make({ images: [image], extras: { guidance_scale_2: 4, true_cfg_scale: 2 } })).outcome).toBe("made");
  expect(notes).toEqual(["http://gpu.test:8091: FastVideo ignores guidance_scale_2, true_cfg_scale."]);
});

test.each([
  ["film", 16, "Wan-AI/Wan2.2-T2V-A14B-Diffusers", "832x480"],
  ["film", 16, "hunyuan-video", "848x480"],
])("a model with a name of the owner's own gets the size of what its server serves", async (model, _, served, size) => {
  for (const kind of ["vllm-omni", "sglang", "tensorrt-llm"] as const) {
    const clock = createVirtualClock();
    const fake = fakes[kind]({ now: clock.now, completeAfterMs: 0, ...{ model: served } });
    const { make } = await createTestEngine(ioFetch(fake), { kind, clock });
    expect((await make({ model, resolution: "480p" })).outcome).toBe("made");
    expect(fake.creates[0]?.fields.size).toBe(size);
  }
});

test("more images than a kind supports fail before anything is sent", async () => {
  const { make, posts } = await start({ kind: "sglang" });
  const image: ImageFile = { path: "0.png", format: "png", megapixels: 1, name: "the image" };
  const { outcome, checkpoints } = await make({ images: [image, image] });
  expect(outcome).toBe("SGLang takes 1 image, and this generation has 2");
  expect([checkpoints, posts(), engineUrl]).toEqual([[], 0, engineUrl]);
});

test("a job that was submitted to another kind of server at this address is not submitted again", async () => {
  const { make, fake } = await start({});
  const { outcome } = await make({ resume: { state: "unconfirmed", job: "video_1" } });
  expect(outcome).toMatch(/no longer knows this video's job/);
  expect(fake.creates).toEqual([]);
});

test.each([
  [
    { task_id: "abc-1", state: "queued" },
    'unclear: its reply names no job, HTTP 200; task_id abc-1; {"task_id":"abc-1","state":"queued"}',
  ],
  [
    { code: "success", data: { id: 7 } },
    'unclear: its reply names no job, HTTP 200; id 7; {"code":"success","data":{"id":7}}',
  ],
])(
  "a create that is taken in another shape is unclear, and its reply's beginning is told: %j",
  async (reply, outcome) => {
    const fake = fakes.sglang({ fault: ({ route }) => (route === "create" ? json(200, reply) : undefined) });
    const { make } = await createTestEngine(ioFetch(fake), { kind: "sglang" });
    expect((await make()).outcome).toBe(outcome);
  },
);

test("binary replies are not printed, and a byte order mark before JSON is ignored", async () => {
  const binary = () => new Response(Uint8Array.of(0, 0, 0, 24, 102, 116, 120, 112, 255));
  const answers = [binary, () => new Response(`\uFEFF${JSON.stringify({ id: "1", status: "queued" })}`)];
  const outcomes: string[][] = [];
  for (const answer of answers) {
    const fake = fakes.sglang({ fault: ({ route }) => (route === "create" ? answer() : undefined) });
    const { make } = await createTestEngine(ioFetch(fake), { kind: "sglang" });
    const { outcome, checkpoints } = await make();
    outcomes.push([outcome, String(checkpoints.at(-1))]);
  }
  expect(outcomes[0]).toEqual(["unclear: its reply names no job, HTTP 200", "submitting"]);
  expect(outcomes[1]?.[1]).toBe("1");
});
