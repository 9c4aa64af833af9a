import { describe, expect, test } from "vitest";
import { createVirtualClock } from "../../../clock.ts";
import { type Call, type FakeOptions, ioFetch, json, refusedConnection } from "./fakes/fake.ts";
import { createSglang } from "./fakes/sglang.ts";
import { createTestEngine, type EngineOptions, fakes, kindIds } from "./run.ts";

type Fault = NonNullable<FakeOptions["fault"]>;
type Settings = EngineOptions & { fake?: FakeOptions; onPoll?: (call: Call, count: number) => ReturnType<Fault> };

const minuteMs = 60_000;

/** An engine of a kind whose polls `onPoll` answers, by their count from 1; `undefined` lets the server answer. */
async function start({ kind = "sglang", fake: fakeOptions, onPoll, ...options }: Settings) {
  const clock = createVirtualClock();
  let polls = 0;
  const paths: string[] = [];
  const fault: Fault = (call) => {
    if (call.route !== "other") paths.push(`${call.request.method} ${new URL(call.request.url).pathname}`);
    return call.route === "poll" ? onPoll?.(call, ++polls) : undefined;
  };
  const fake = fakes[kind]({ now: clock.now, completeAfterMs: 10 * minuteMs, fault, ...fakeOptions });
  const engine = await createTestEngine(ioFetch(fake), { ...options, kind, clock });
  const onlyId = () => [...fake.jobs.keys()][0] ?? "";
  /** Does something to the job at a time. */
  const at = (ms: number, act: (id: string) => void) => void clock.sleep(ms).then(() => act(onlyId()));
  return { ...engine, fake, clock, paths, at };
}

const refuse = () => {
  throw refusedConnection();
};

describe.each(kindIds)("a job of %s", (kind) => {
  test("is reported as soon as it has completed", async () => {
    const { make } = await start({ kind });
    const { outcome, seconds } = await make();
    expect(outcome).toBe("made");
    expect(seconds).toBeGreaterThanOrEqual(600);
    expect(seconds).toBeLessThanOrEqual(603);
  });

  test.each([400, 500])("that failed, even as HTTP %i, fails with the server's message", async (httpStatus) => {
    const { make, at, fake } = await start({ kind });
    at(minuteMs, (id) => fake.fail(id, { message: "CUDA\nout of memory", httpStatus }));
    expect(await make()).toMatchObject({ outcome: "CUDA out of memory", video: undefined });
  });

  // A lost job of LiteLLM's upstream is like any other error there: below.
  test.skipIf(kind === "litellm")("that the server has forgotten fails after 60 s", async () => {
    const { make, at, fake } = await start({ kind });
    at(minuteMs, () => fake.forget());
    const { outcome, seconds } = await make();
    expect(outcome).toMatch(
      /^http:\/\/gpu\.test:8091 no longer knows this video's job \(HTTP 404: .+\); it may have been restarted$/,
    );
    expect(seconds).toBeGreaterThanOrEqual(120);
    expect(seconds).toBeLessThan(124);
    expect(fake.creates).toHaveLength(1);
  });

  test("is found again by the next process, which submits nothing", async () => {
    const { make, fake, at } = await start({ kind });
    const first = new AbortController();
    at(minuteMs, () => first.abort(new Error("the service is stopping")));
    const { outcome: stopped, checkpoints } = await make({ signal: first.signal });
    expect(stopped).toBe("the service is stopping");
    const job = checkpoints.at(-1) ?? "";
    const { outcome, checkpoints: later, video } = await make({ resume: { state: "submitted", job } });
    expect([outcome, later, fake.creates.length]).toEqual(["made", [], 1]);
    expect(String(video)).toContain("a fox");
  });
});

test("a job is polled by the encoded id in the reply to its submission", async () => {
  const { make, paths, fake } = await start({ kind: "litellm" });
  await make();
  const [id = ""] = fake.jobs.keys();
  expect(id).toMatch(/[+/].*=$/);
  expect(new Set(paths.slice(1))).toEqual(
    new Set([`GET /v1/videos/${encodeURIComponent(id)}`, `GET /v1/videos/${encodeURIComponent(id)}/content`]),
  );
});

test("progress is passed on as the server reports it", async () => {
  const { make } = await start({ kind: "litellm", fake: { completeAfterMs: 5_000 } });
  expect((await make()).percents).toEqual([10, 20, 30]);
});

test.each([
  ["a text", "out of memory", "out of memory"],
  ["an object", { code: 500, message: "out of memory" }, "out of memory"],
  ["nested", { error: { detail: [{ msg: "out of memory" }] } }, "out of memory"],
  ["nothing", null, "the model run did not succeed (failed)"],
  ["endless", "x".repeat(9_999), `${"x".repeat(500)}…`],
])("the error of a failed job may be %s", async (_name, error, outcome) => {
  const onPoll = () => json(200, { id: "1", object: "video", status: "failed", error });
  expect((await (await start({ onPoll })).make()).outcome).toBe(outcome);
});

test.each(["failed", "expired"])("a job that is %s fails", async (status) => {
  const onPoll = () => json(200, { id: "1", status });
  expect((await (await start({ onPoll })).make()).outcome).toBe(`the model run did not succeed (${status})`);
});

test.each([
  ["deleted", null, ""],
  ["canceled", "by the operator", ": by the operator"],
  ["Cancelled", "cancelled", ""],
])("a job that is %s (%j) was cancelled at its server", async (status, error, why) => {
  const onPoll = () => json(200, { id: "1", status, error });
  expect((await (await start({ onPoll })).make()).outcome).toMatch(new RegExp(`^cancelled at http://[^ ]+${why}$`));
});

test.each(["error", "FAILURE"])("a job that is %s fails, whatever its letters", async (status) => {
  const onPoll = () => json(200, { id: "1", status });
  expect((await (await start({ onPoll })).make()).outcome).toBe(
    `the model run did not succeed (${status.toLowerCase()})`,
  );
});

test.each(["done", "Complete", "finished", "succeeded", "success", "COMPLETED"])(
  "a job that is %s is made",
  async (status) => {
    const onPoll = (_call: Call, count: number) =>
      count < 3 ? json(200, { id: "1", status: "QUEUED" }) : json(200, { id: "1", status });
    const { make, at, fake } = await start({ onPoll });
    at(1_000, (id) => fake.complete(id));
    expect((await make()).outcome).toBe("made");
  },
);

test("a job that LiteLLM shows only to another key is polled until the time limit, because its end is unknown", async () => {
  const clock = createVirtualClock();
  const fake = fakes.litellm({ now: clock.now, completeAfterMs: 10 * minuteMs });
  const engineOf = (key: string) => createTestEngine(ioFetch(fake), { clock, kind: "litellm", key });
  const [first, other] = [await engineOf("sk-first-key"), await engineOf("sk-other-key")];
  const stop = new AbortController();
  void clock.sleep(minuteMs).then(() => stop.abort(new Error("the service is stopping")));
  const job = (await first.make({ signal: stop.signal })).checkpoints.at(-1) ?? "";
  const { outcome, seconds } = await other.make({ resume: { state: "submitted", job } });
  expect(outcome).toBe(
    `http://gpu.test:8091, which was generating this video, has given only errors for 30 min: it shows this video's job, ${job}, only to the key that created it (HTTP 403: Forbidden)`,
  );
  expect([Math.floor(seconds / 600), fake.creates.length]).toEqual([3, 1]);
  expect((await first.make({ resume: { state: "submitted", job } })).outcome).toBe("made");
});

test.each(kindIds)(
  "a refused poll of %s, as a web page or JSON, does not end a job that may be paid for",
  async (kind) => {
    const refusals = [
      new Response("<h1>Blocked</h1>", { status: 403 }),
      ...[401, 402, 403].map((status) => json(status, { error: "Exhausted balance" })),
    ];
    const { make } = await start({ kind, onPoll: (_call, count) => refusals[count - 1] });
    expect((await make()).outcome).toBe("made");
  },
);

test.each([
  { header: "30", waitMs: 30_000 },
  { header: "Thu, 01 Jan 2026 00:00:45 GMT", waitMs: 45_000 },
  { header: "3600", waitMs: 60_000 },
])("a poll with a Retry-After of $header is asked again $waitMs ms later", async ({ header, waitMs }) => {
  const at: number[] = [];
  const onPoll = (_call: Call, count: number) => {
    at.push(clock.now());
    return count === 1 ? new Response("busy", { status: 429, headers: { "Retry-After": header } }) : undefined;
  };
  const { make, clock } = await start({ onPoll });
  expect((await make()).outcome).toBe("made");
  expect((at[1] ?? 0) - (at[0] ?? 0)).toBe(waitMs);
});

test("an unknown status counts as running", async () => {
  const onPoll = ({ serve }: Call, count: number) =>
    count < 100 ? json(200, { id: "1", status: "denoising" }) : serve();
  expect((await (await start({ onPoll })).make()).outcome).toBe("made");
});

test.each([
  [
    "in turn, as by several servers behind one address, is followed, and the owner is told once",
    (poll: number) => poll % 60 !== 0,
    1,
  ],
  ["at first, and once more later, is followed as any other", (poll: number) => poll < 5 || poll === 9, 0],
])("a job that is known and not known %s", async (_, missesPoll, count) => {
  const { make, engine, notes } = await start({ fake: { missesPoll } });
  for (let job = 0; job < 2; job++) expect((await make()).outcome).toBe("made");
  expect(notes).toEqual(Array(count).fill(expect.stringContaining("name each server as its own --engine")));
  expect(engine.isInconsistent?.()).toBe(count > 0);
});

test("two jobs do not stay in step with a round-robin balancer", async () => {
  let requests = 0;
  const owners = new Map<string, number>();
  const onPoll = ({ request }: Call) => {
    const replica = requests++ % 2;
    const { pathname } = new URL(request.url);
    // The first look at each meets the other one.
    if (!owners.has(pathname)) owners.set(pathname, 1 - replica);
    return owners.get(pathname) === replica ? undefined : json(404, { detail: "Video not found" });
  };
  const { make } = await start({ onPoll });
  const made = await Promise.all([make(), make()]);
  expect(made.map(({ outcome }) => outcome)).toEqual(["made", "made"]);
});

/** What an answer may be that tells nothing about the job. */
const unread = [
  "answers about this video, but its reply could not be read",
  "has not given a reply that can be read",
] as const;
const silent = ["does not answer", "has not responded"] as const;
const wrong = ["answers with an error", "has given only errors"] as const;
/** What a poll gets in place of the job, what it is called, at first and in the end, and why. */
const troubles: [string, () => ReturnType<Fault>, readonly [first: string, last: string], why: string][] = [
  ["a refused connection", refuse, silent, "it refuses connections"],
  ["a reset", () => "drop", silent, "ECONNRESET"],
  ["a page", () => new Response("<h1>Bad gateway</h1>", { status: 502 }), wrong, "HTTP 502"],
  ["an HTTP 429", () => json(429, { detail: "slow down" }), wrong, "HTTP 429: slow down"],
  ["a cut reply", () => ({ reply: json(200, { id: "1", status: "completed" }), bytes: 9 }), unread, "ECONNRESET"],
  ["a cut error", () => ({ reply: json(500, { detail: "no" }), bytes: 9 }), wrong, "ECONNRESET"],
  ["a 200 that is no job", () => json(200, {}), unread, "HTTP 200"],
];

describe.each(troubles)("%s instead of a job", (_name, answer, [first, last], why) => {
  test("is tolerated for 29 min, and reported once, as what it is", async () => {
    let hasPassed = false;
    const { make, notes, at } = await start({ onPoll: () => (hasPassed ? undefined : answer()) });
    at(29 * minuteMs, () => {
      hasPassed = true;
    });
    expect((await make()).outcome).toBe("made");
    expect(notes).toEqual([`http://gpu.test:8091 ${first}: ${why}. Retrying.`]);
  });

  test("fails the generation after 30 min, with the same reason", async () => {
    const { make } = await start({ onPoll: answer });
    const { outcome, seconds } = await make();
    expect(outcome).toBe(`http://gpu.test:8091, which was generating this video, ${last} for 30 min: ${why}`);
    expect(seconds).toBeLessThan(1_900);
  });
});

describe("LiteLLM, whose upstream gives an error for a job", () => {
  const pydantic = "litellm.APIConnectionError: openai - 3 validation errors for VideoObject\nid\n  Field required";
  const error = () => json(500, { error: { message: pydantic, type: null, param: null, code: "500" } });

  test("is polled every 20 s until the time limit, and its slot is free after a minute", async () => {
    const at: number[] = [];
    const onPoll = () => {
      at.push(clock.now());
      return error();
    };
    const { make, clock } = await start({ kind: "litellm", onPoll });
    const startedAt = clock.now();
    const released: number[] = [];
    const { outcome, end, seconds } = await make({ releaseSlot: () => void released.push(clock.now() - startedAt) });
    expect(outcome).toBe(
      "http://gpu.test:8091: LiteLLM's upstream gives an error for this job, and may have lost it (HTTP 500: " +
        "litellm.APIConnectionError: openai - 3 validation errors for VideoObject id   Field required)",
    );
    // A failure of the service, whose credits are given back, and not a refusal.
    expect(end).toBeUndefined();
    expect(seconds).toBeCloseTo(30 * 60, -2);
    expect(released[0]).toBeGreaterThanOrEqual(minuteMs);
    expect(released[0]).toBeLessThan(minuteMs + 21_000);
    const waits = at.slice(6).map((time, index) => time - (at[index + 5] ?? 0));
    expect(new Set(waits)).toEqual(new Set([20_000]));
  });

  test("is waited for until the error ends, which does not count as 'not found'", async () => {
    const { make, notes } = await start({
      kind: "litellm",
      onPoll: (_call, count) => (count < 50 ? error() : undefined),
    });
    expect((await make()).outcome).toBe("made");
    expect(notes).toEqual([expect.stringMatching(/VideoObject.*Retrying\.$/)]);
  });
});

test("a 404 counts only without other errors in between", async () => {
  const notFound = () => json(404, { detail: "Video not found" });
  const { make } = await start({
    onPoll: (_call, count) => [undefined, notFound, refuse, refuse, refuse, refuse, refuse, notFound][count]?.(),
  });
  expect((await make()).outcome).toBe("made");
});

test.each<[string, () => Response]>([
  ["a page", () => new Response("<h1>404 Not Found</h1>", { status: 404 })],
  ["another server's JSON", () => json(404, { detail: "Not Found" })],
  ["a gateway's JSON", () => json(404, { message: "no Route matched with those values" })],
])("a proxy's 404 is an outage, and not the server's word about a job: %s", async (_, answer) => {
  // Longer than the minute after which a job that its server does not know is lost.
  let isOut = false;
  const { make, at } = await start({ onPoll: () => (isOut ? answer() : undefined) });
  at(2_000, () => {
    isOut = true;
  });
  at(5 * minuteMs, () => {
    isOut = false;
  });
  expect((await make()).outcome).toBe("made");
});

test("three 404s with half a minute between them, as when this process is suspended, do not count as 60 s", async () => {
  const { make, clock } = await start({
    onPoll: async (_call, count) => {
      if (count < 3 || count > 5) return undefined;
      if (count === 4) await clock.sleep(59_500);
      return json(404, { detail: "Video not found" });
    },
  });
  expect((await make()).outcome).toBe("made");
});

test("a poll that gets no reply is sent again", async () => {
  const clock = createVirtualClock();
  const fault: Fault = ({ route }) =>
    route === "poll" && clock.now() < minuteMs ? clock.sleep(36e6).then(() => undefined) : undefined;
  const fake = createSglang({ now: clock.now, completeAfterMs: 1_000, fault });
  const { make } = await createTestEngine(ioFetch(fake), { clock, kind: "sglang" });
  const { outcome, seconds } = await make();
  expect(outcome).toBe("made");
  expect(seconds).toBeLessThan(100);
});

test("a job may wait in the queue as long as other jobs of the server progress", async () => {
  const timeoutMs = 3 * minuteMs;
  const { make, fake, clock } = await start({ timeoutMs, fake: { completeAfterMs: Number.POSITIVE_INFINITY } });
  void (async () => {
    for (let count = 1; count <= 6; count++) {
      await clock.sleep(2.5 * minuteMs);
      fake.complete([...fake.jobs.keys()][count === 6 ? 0 : count] ?? "");
    }
  })();
  const prompts = ["last", "1", "2", "3", "4", "5"];
  const all = await Promise.all(prompts.map((prompt) => make({ prompt })));
  expect(all.map(({ outcome }) => outcome)).toEqual(prompts.map(() => "made"));
  expect(all[0]?.seconds).toBeGreaterThanOrEqual(15 * 60);
});

test.each([
  ["vllm-omni", "in_progress"],
  ["sglang", "queued"],
] as const)("a job of %s that changes nothing is given up after 30 min", async (kind, status) => {
  const { make } = await start({ kind, fake: { completeAfterMs: Number.POSITIVE_INFINITY } });
  const { outcome, seconds } = await make();
  expect(outcome).toBe(`http://gpu.test:8091 made no progress with this video for 30 min (${status})`);
  // vLLM-Omni answers 409 while it stops a job: the one try to stop it has 10 s.
  expect(seconds).toBeLessThan(1_815);
});

describe("a job that is given up", () => {
  const never = { completeAfterMs: Number.POSITIVE_INFINITY };

  test.each([
    ["vllm-omni", 1],
    ["tensorrt-llm", 1],
    ["sglang", 0],
  ] as const)("is stopped at %s where a DELETE stops it (%i)", async (kind, count) => {
    const { make, fake } = await start({ kind, fake: never });
    expect((await make()).outcome).toMatch("made no progress with this video for 30 min");
    expect(fake.deleted).toHaveLength(count);
  });

  test("because of no progress is stopped by one request of 10 s, whose result does not matter", async () => {
    let isSilent = false;
    let deletes = 0;
    const clock = createVirtualClock();
    const fake = fakes["vllm-omni"]({
      now: clock.now,
      ...never,
      fault({ route, request }) {
        if (request.method === "DELETE") deletes++;
        if (request.method === "DELETE") return clock.sleep(36e5).then(() => undefined);
        return route === "poll" && isSilent ? json(503, {}) : undefined;
      },
    });
    const { make } = await createTestEngine(ioFetch(fake), { clock, kind: "vllm-omni" });
    const { outcome, seconds } = await make();
    expect(outcome).toMatch("made no progress with this video for 30 min");
    expect([deletes, seconds >= 1_810, seconds < 1_830]).toEqual([1, true, true]);
    isSilent = true;
    expect((await make()).outcome).toMatch("has given only errors for 30 min: HTTP 503");
    expect(deletes).toBe(1);
  });

  test("and has just completed keeps its video on the server", async () => {
    const { make, fake, at } = await start({ kind: "vllm-omni", fake: never });
    at(30 * minuteMs + 1_000, (id) => fake.complete(id));
    await make();
    expect(fake.deleted).toEqual([]);
  });
});

test.each([
  ["whose percent goes back and forth", (count: number) => ({ status: "in_progress", progress: count % 2 })],
  ["that has another status each time", (count: number) => ({ status: `step ${count}` })],
])("a job %s is given up after 30 min", async (_name, jobAt) => {
  const onPoll = (_call: Call, count: number) => json(200, { id: "1", object: "video", ...jobAt(count) });
  const { make } = await start({ onPoll });
  const { outcome, seconds } = await make();
  expect(outcome).toMatch("made no progress with this video for 30 min");
  expect(seconds).toBeLessThan(1_860);
});

test("a job that runs without progress is given up even while others end", async () => {
  const { make, fake, clock } = await start({ kind: "vllm-omni", fake: { completeAfterMs: Number.POSITIVE_INFINITY } });
  void clock.sleep(20 * minuteMs).then(() => fake.complete([...fake.jobs.keys()][1] ?? ""));
  const [stuck, other] = await Promise.all([make(), make()]);
  expect([stuck?.seconds, other?.outcome]).toEqual([expect.closeTo(1_812, -1), "made"]);
});
