import { readFileSync, writeFileSync } from "node:fs";
import { mkdir, readdir, rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { unlessAborted } from "../../../../src/abort.ts";
import type { Io } from "../../../../src/io.ts";
import type { Open } from "../../../../src/server/outbound/outbound.ts";
import { createVirtualClock } from "../../../clock.ts";
import { tinyMp4 } from "../../../mp4.ts";
import { type FakeOptions, ioFetch, json } from "./fakes/fake.ts";
import { createSglang } from "./fakes/sglang.ts";
import { createVllmOmni, type VllmOmniOptions } from "./fakes/vllm-omni.ts";
import { createTestEngine, type EngineOptions, engineUrl } from "./run.ts";

type Answer = (address: string, count: number) => ReturnType<NonNullable<FakeOptions["fault"]>>;

const video = () => new Response(Buffer.from(tinyMp4("a fox")), { headers: { "Content-Length": "41" } });
const bytes = Buffer.from(tinyMp4("a fox"));

type Settings = EngineOptions & {
  told?: (poll: number) => string;
  poll?: () => Response | undefined;
  fetch?: (next: Io["fetch"]) => Io["fetch"];
};

/**
 * An engine whose one job is completed; `answer` is asked for each download, by its address and count from 1, and `undefined` is the video. `told`
 * is the `url` of the job, by its poll; `poll` answers in its place.
 */
async function start(answer: Answer, { told, poll, fetch = (next) => next, ...options }: Settings = {}) {
  const clock = options.clock ?? createVirtualClock();
  const downloads: string[] = [];
  const opened: string[] = [];
  let polls = 0;
  const count = (address: string) => {
    downloads.push(address.replace(engineUrl, ""));
    return answer(address, downloads.length);
  };
  const fake = createSglang({
    fault({ route, request }) {
      if (route === "poll")
        return poll?.() ?? json(200, { id: "1", status: "completed", url: told?.(++polls) ?? null });
      if (route === "create" || request.url.endsWith("/v1/models")) return undefined;
      keys.push(request.headers.get("Authorization"));
      return Promise.resolve(count(request.url)).then((reply) => reply ?? video());
    },
  });
  const keys: (string | null)[] = [];
  /** Whoever answers for other hosts; 10.0.0.1 is an address that the rules refuse. */
  const open: Open = async (address, { signal }) => {
    opened.push(address);
    if (new URL(address).hostname === "10.0.0.1")
      throw Object.assign(new Error("videos from 10.0.0.1 are refused: a private address"), { isForbidden: true });
    return ioFetch({ fetch: async () => ((await count(address)) as Response | undefined) ?? video() })(address, {
      signal,
    });
  };
  const engine = await createTestEngine(fetch(ioFetch(fake)), { kind: "sglang", open, ...options, clock });
  const make: typeof engine.make = async (made) => {
    const result = await engine.make(made);
    if (result.outcome !== "made") expect(await readdir(engine.folder)).toEqual([]);
    return result;
  };
  return { ...engine, make, clock, downloads, opened, keys };
}

const page = () => new Response("<html>Sign in</html>", { headers: { "Content-Type": "text/html" } });
const gone = (reason: string) =>
  new RegExp(
    `^http://gpu\\.test:8091 generated this video, but it could not be downloaded from https?://[^\\s?]+: ${reason}`,
  );

describe("a completed job whose url, file_path and file_paths are null", () => {
  const nulls = { id: "1", status: "completed", url: null, file_path: null, file_paths: null };
  const noFile = () => json(404, { detail: "Video variant None not found" });

  test("of an SGLang without an output path ends after a minute", async () => {
    const clock = createVirtualClock();
    const fake = createSglang({ now: clock.now, completeAfterMs: 0, hasOutputPath: false });
    const { make } = await createTestEngine(ioFetch(fake), { kind: "sglang", clock });
    const { outcome, seconds } = await make();
    expect(outcome).toMatch(
      gone("it keeps no files: start it with --output-path \\(HTTP 404: Video variant None not found\\)$"),
    );
    expect([Math.floor(seconds / 60), fake.creates.length]).toEqual([1, 1]);
  });

  test.each<[string, Settings, Answer]>([
    ["of another kind", { kind: "tensorrt-llm", poll: () => json(200, nulls) }, noFile],
    ["of SGLang, one of which was left out,", { poll: () => json(200, { ...nulls, file_paths: undefined }) }, noFile],
    [
      "of SGLang behind a proxy that answers",
      { poll: () => json(200, nulls) },
      () => new Response("<h1>404</h1>", { status: 404 }),
    ],
  ])("%s may still get its video", async (_, settings, answer) => {
    const { make, clock } = await start(
      (address, count) => (clock.now() < 5 * 60_000 ? answer(address, count) : undefined),
      settings,
    );
    expect((await make()).outcome).toBe("made");
  });

  test("of SGLang at first may still get its video later", async () => {
    let polls = 0;
    const poll = () => json(200, ++polls % 20 === 0 ? { ...nulls, file_path: "/outputs/1.mp4" } : nulls);
    const { make, clock } = await start(() => (clock.now() < 5 * 60_000 ? noFile() : undefined), { poll });
    expect((await make()).outcome).toBe("made");
  });
});

test("the progress of a download is reported once for each change, also when it continues", async () => {
  const large = new Uint8Array(2_500_000);
  large.set(bytes);
  const cut = () =>
    new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(large),
      pull: (controller) => controller.error(Object.assign(new Error("reset"), { code: "ECONNRESET" })),
    });
  const replies = [
    () => json(404, {}),
    () => json(404, {}),
    () => json(500, { detail: "no" }),
    () => new Response(cut()),
  ];
  const { make } = await start((_, count) => replies[count - 1]?.());
  const { outcome, fetching } = await make();
  const cannot = (why: string) => `its video cannot be fetched: ${why}`;
  const isFetched = "its video is being fetched";
  expect(outcome).toBe("made");
  expect(fetching).toEqual([isFetched, cannot("HTTP 404"), cannot("HTTP 500: no"), isFetched, cannot("ECONNRESET")]);
});

describe("a job that is completed with its video as a data: URL of megabytes", () => {
  const large = Buffer.from(tinyMp4("x".repeat(2_000_000)));
  const address = `data:video/mp4;base64,${large.toString("base64")}`;
  const without = () => json(404, {});

  test("is saved, and no two such replies of a process are read at once, since each takes its size in memory", async () => {
    let [arriving, most] = [0, 0];
    const poll = () => {
      const parts = JSON.stringify({ id: "1", status: "completed", url: address }).match(/.{1,100000}/gs) ?? [];
      let count = 0;
      const pull = (controller: ReadableStreamDefaultController) => {
        if (++count === 20) most = Math.max(most, ++arriving);
        const part = parts.shift();
        if (part !== undefined) return controller.enqueue(Buffer.from(part));
        arriving--;
        controller.close();
      };
      return new Response(new ReadableStream({ pull }));
    };
    const { make, downloads } = await start(without, { poll });
    const made = await Promise.all([make(), make(), make()]);
    expect(made.map(({ outcome, video }) => [outcome, video?.equals(large)])).toEqual(Array(3).fill(["made", true]));
    expect([most, downloads]).toEqual([1, []]);
  });

  test("is found where an earlier reply had another address; what is no video ends within the time limit", async () => {
    let polls = 0;
    const late = () => json(200, { id: "1", status: "completed", url: ++polls > 3 ? address : "/files/1.mp4" });
    expect((await (await start(without, { poll: late })).make()).outcome).toBe("made");
    const text = () => json(200, { id: "1", status: "completed", url: "data:text/plain,nothing%20here" });
    const { outcome, fetching } = await (await start(without, { poll: text, timeoutMs: 120_000 })).make();
    expect(outcome).toMatch(/generated this video, but it could not be downloaded/);
    expect(fetching).toContain("its video cannot be fetched: it is text");
  });

  test("is refused above 90 MB, as everything that it says", async () => {
    let given = 0;
    const endless = () => {
      const pull = (controller: ReadableStreamDefaultController) => {
        given += 1_000_000;
        controller.enqueue(new Uint8Array(1_000_000).fill(97));
      };
      return new Response(new ReadableStream({ pull }));
    };
    const { make, notes } = await start(without, { poll: endless, timeoutMs: 60_000 });
    expect((await make()).outcome).toContain("its reply is longer than 90 MB");
    expect(notes.join()).toContain("its reply is longer than 90 MB");
    expect(given).toBeLessThan(3_000_000_000);
  });
});

describe.each([400, 404, 409, 422])("/content with HTTP %i", (status) => {
  const notReady = () => json(status, { detail: "Generation is still in-progress" });

  test("is requested again for up to 60 s", async () => {
    const { make, clock } = await start(() => (clock.now() < 58_000 ? notReady() : undefined));
    expect(await make()).toMatchObject({ outcome: "made", video: bytes });
  });

  test("is requested again for 30 min, less often, and the owner is told once", async () => {
    const { make, clock, notes, downloads } = await start(() => (clock.now() < 29 * 60_000 ? notReady() : undefined));
    expect(await make()).toMatchObject({ outcome: "made", video: bytes });
    expect(notes).toEqual([
      expect.stringMatching(
        new RegExp(
          `^http://gpu\\.test:8091 generated a video that cannot be downloaded yet from http://gpu\\.test:8091/v1/videos/0+1/content: HTTP ${status}: Generation is still in-progress\\. Retrying\\.$`,
        ),
      ),
    ]);
    // Twice a second in the first minute, and every 20 s after that, at random times around these.
    expect(downloads.length).toBeLessThan(240);
  });

  test("fails after 30 min", async () => {
    const { make } = await start(notReady);
    const { outcome, seconds } = await make();
    expect(outcome).toMatch(gone(`HTTP ${status}: Generation is still in-progress$`));
    expect(seconds).toBeGreaterThan(1_790);
    expect(seconds).toBeLessThan(1_840);
  });
});

describe("a video that vLLM-Omni has removed after its time", () => {
  async function resume(ageMs: number, fakeOptions: VllmOmniOptions = {}) {
    const clock = createVirtualClock();
    const fake = createVllmOmni({ now: () => clock.date().getTime(), completeAfterMs: 0, ...fakeOptions });
    const engine = await createTestEngine(ioFetch(fake), { clock, kind: "vllm-omni" });
    const body = new FormData();
    body.append("prompt", "a fox");
    const created = await fake.fetch(new Request(`${engineUrl}/v1/videos`, { method: "POST", body }));
    const { id: job } = (await created.json()) as { id: string };
    await clock.sleep(ageMs);
    return engine.make({ resume: { state: "submitted", job } });
  }

  test("fails at once with that reason", async () => {
    const { outcome, seconds } = await resume(3_600_000, { ttlMs: 1_800_000 });
    expect(outcome).toMatch(gone("it has expired there and was removed \\(HTTP 404: Video file not found\\)$"));
    expect(seconds).toBe(0);
  });

  test("is saved while it exists", async () => {
    expect((await resume(1_700_000, { ttlMs: 1_800_000 })).outcome).toBe("made");
  });

  test("without a known expiry has 60 s, and the error says how old the job is", async () => {
    const fault: FakeOptions["fault"] = ({ route }) => (route === "content" ? json(410, {}) : undefined);
    const { outcome, seconds } = await resume(7_200_000, { fault });
    expect(outcome).toMatch(gone("it was completed 12[01](\\.\\d)? min ago, and is no longer there \\(HTTP 410\\)$"));
    expect(seconds).toBeGreaterThanOrEqual(60);
    expect(seconds).toBeLessThan(62);
  });
});

test("a partial file, as FastVideo serves during writing, is fetched again; none is requested before the job has ended", async () => {
  const clock = createVirtualClock();
  const large = tinyMp4("x".repeat(1_000));
  let downloads = 0;
  const fake = createSglang({
    now: clock.now,
    completeAfterMs: 60_000,
    video: () => large.subarray(0, ++downloads < 3 ? 500 * downloads : undefined),
  });
  const { make } = await createTestEngine(ioFetch(fake), { kind: "sglang", clock });
  const { outcome, video, seconds } = await make();
  expect([outcome, video?.equals(large), downloads, seconds >= 60]).toEqual(["made", true, 3, true]);
});

test("a 404 after minutes of other errors has its own 60 s", async () => {
  const { make } = await start((_address, count) => {
    if (count < 8) return json(500, {});
    return count < 12 ? json(404, {}) : undefined;
  });
  expect((await make()).outcome).toBe("made");
});

describe.each<[string, Answer, string]>([
  ["a cut reply", () => ({ reply: video(), bytes: 20 }), "ECONNRESET"],
  ["a reset", () => "drop", "ECONNRESET"],
  ["an HTTP 503", () => json(503, { detail: "busy" }), "HTTP 503: busy"],
  ["an HTTP 429", () => json(429, {}), "HTTP 429"],
])("%s", (_name, answer, reason) => {
  test("is fetched again", async () => {
    const { make, downloads } = await start((address, count) => (count < 3 ? answer(address, count) : undefined));
    expect(await make()).toMatchObject({ outcome: "made", video: bytes });
    expect(downloads).toHaveLength(3);
  });

  test("is fetched again for hours, and the owner is told from which address", async () => {
    const isOver = () => clock.now() > 6 * 3_600_000;
    const { make, clock, notes } = await start((address, count) => (isOver() ? undefined : answer(address, count)));
    expect(await make()).toMatchObject({ outcome: "made", video: bytes });
    const where = `generated a video that cannot be downloaded yet from ${engineUrl}/v1/videos/${"0".repeat(31)}1/content`;
    expect(notes).toEqual([`${engineUrl} ${where}: ${reason}. Retrying.`]);
  });
});

test.each([
  ["30", 30_000],
  ["3600", 60_000],
])("a video with a Retry-After of %s is fetched again %i ms later", async (header, waitMs) => {
  const at: number[] = [];
  const { make, clock } = await start((_address, count) => {
    at.push(clock.now());
    return count === 1 ? new Response("busy", { status: 503, headers: { "Retry-After": header } }) : undefined;
  });
  expect((await make()).outcome).toBe("made");
  expect((at[1] ?? 0) - (at[0] ?? 0)).toBe(waitMs);
});

test("an address that denies access is fetched again for 30 min", async () => {
  const { make, notes } = await start(() => json(403, { message: "Request has expired" }), {
    told: () => "https://cdn.test/1.mp4?sig=canary",
  });
  const { outcome, seconds } = await make();
  const reason = "from https://cdn.test/1.mp4: HTTP 403: Request has expired";
  expect(outcome).toBe(`http://gpu.test:8091 generated this video, but it could not be downloaded ${reason}`);
  expect(notes).toEqual([`http://gpu.test:8091 generated a video that cannot be downloaded yet ${reason}. Retrying.`]);
  expect(seconds).toBeGreaterThan(1_790);
  expect(seconds).toBeLessThan(1_840);
});

test("a video whose job the server has forgotten is not fetched for longer than 60 s", async () => {
  let isForgotten = false;
  const answer = () => {
    isForgotten = true;
    return json(404, { detail: "Video not found" });
  };
  const { make } = await start(answer, {
    poll: () => (isForgotten ? json(404, { detail: "Video not found" }) : undefined),
  });
  const { outcome, seconds } = await make();
  expect(outcome).toMatch(gone("HTTP 404: Video not found$"));
  expect([seconds >= 60, seconds < 63]).toEqual([true, true]);
});

test("a job that few polls missed during other errors does not count as forgotten", async () => {
  let polls = 0;
  const { make } = await start(
    (_address, count) => {
      if (count < 8) return json(503, {});
      return count === 8 ? json(404, {}) : undefined;
    },
    { poll: () => (polls++ > 0 ? json(404, { detail: "Not found" }) : undefined) },
  );
  expect((await make()).outcome).toBe("made");
});

test("a job that is reported as running again after its video could not be fetched keeps its address", async () => {
  let polls = 0;
  const poll = () => (polls++ > 0 ? json(200, { id: "1", status: "in_progress" }) : undefined);
  const { make, opened } = await start((_address, count) => (count < 3 ? json(503, {}) : undefined), {
    poll,
    told: () => "https://cdn.test/1.mp4",
  });
  expect((await make()).outcome).toBe("made");
  // Its /content is asked in between.
  expect(opened).toEqual(Array(2).fill("https://cdn.test/1.mp4"));
});

const cut = () => new Response(bytes.subarray(0, 30), { headers: { "Content-Length": "30" } });
const png = Buffer.from("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\0", "latin1");

describe.each<[string, () => Response, string]>([
  ["a page with HTTP 200", page, "it is text"],
  ["JSON with HTTP 200", () => json(200, { status: "processing" }), "it is text"],
  ["nothing", () => new Response(null), "it is empty"],
  [
    "an .mp4 of an unknown length that is cut between boxes",
    () => new Response(bytes.subarray(0, 16)),
    "it contains no video",
  ],
  [
    "an .mp4 without moov",
    () =>
      new Response(Buffer.concat([bytes.subarray(0, 16), bytes.subarray(28)]), { headers: { "Content-Length": "29" } }),
    "it contains no video",
  ],
])("%s in place of the video", (_name, answer, reason) => {
  test("is requested until the time limit because it is not ready, and its slot is free after a minute", async () => {
    const freedAt: number[] = [];
    const { make, clock, downloads } = await start(() => (clock.now() < 29 * 60_000 ? answer() : undefined));
    const made = await make({ releaseSlot: () => void freedAt.push(clock.now()) });
    expect(made).toMatchObject({ outcome: "made", video: bytes });
    const [first = 0] = freedAt;
    expect([first >= 60_000, first < 90_000]).toEqual([true, true]);
    // Twice a second in the first minute, and every 20 s after that, at random times around these.
    expect(downloads.length).toBeLessThan(240);
  });

  test("fails at the time limit", async () => {
    const { make } = await start(answer);
    const { outcome, seconds } = await make();
    expect(outcome).toMatch(gone(reason));
    expect([seconds > 1_790, seconds < 1_840]).toEqual([true, true]);
  });
});

test("a WebM is taken, also from a server that does not say that it makes them", async () => {
  const webm = Buffer.from("\x1aE\xdf\xa3\0webm and more", "latin1");
  const { make } = await start(() => new Response(webm, { headers: { "Content-Length": String(webm.length) } }));
  expect(await make()).toMatchObject({ outcome: "made", video: webm });
});

describe.each<[string, () => Response, string]>([
  ["an .mp4 that is cut inside", cut, "it is incomplete"],
  [
    "an .mp4 of an unknown length whose last box tells no size",
    () => new Response(Buffer.concat([bytes.subarray(0, 28), Buffer.alloc(4), bytes.subarray(32)])),
    "its last box extends to the end of the file",
  ],
  ["a PNG", () => new Response(png), "it is not an .mp4"],
  ["a GIF, which a filter may have put in its place", () => new Response("GIF89a\x01\0\x01"), "it is a GIF"],
])("%s", (_name, answer, reason) => {
  test("that is the same a minute later fails the generation", async () => {
    const { make } = await start(answer);
    const { outcome, seconds } = await make();
    expect(outcome).toMatch(gone(reason));
    expect([seconds >= 60, seconds < 90]).toEqual([true, true]);
  });

  test("that becomes the video is fetched", async () => {
    const { make } = await start((_address, count) => (count < 4 ? answer() : undefined));
    expect(await make()).toMatchObject({ outcome: "made", video: bytes });
  });
});

test.each<[string, string]>([
  ["empty", ""],
  ["blank", " "],
  ["a path on the server's disk", "outputs/x.mp4"],
  ["refused by the rules", "http://10.0.0.1/1.mp4"],
  ["an address that gives nothing", "https://cdn.test/1.mp4"],
])("the /content of a job is asked too where its url is %s", async (_name, told) => {
  const { make } = await start((address) => (address.endsWith("/content") ? undefined : json(404, {})), {
    told: () => told,
  });
  const made = await make();
  expect(made).toMatchObject({ outcome: "made", video: bytes });
  expect(made.seconds).toBeLessThan(2);
});

test("a 206 is used if it covers the whole file, and refused if not", async () => {
  const part = (range: string) =>
    new Response(bytes, { status: 206, headers: { "Content-Range": range, "Content-Length": String(bytes.length) } });
  const { make, downloads } = await start((_address, count) =>
    part(count === 1 ? "bytes 0-40/90" : `bytes 0-${bytes.length - 1}/${bytes.length}`),
  );
  expect(await make()).toMatchObject({ outcome: "made", video: bytes });
  expect(downloads).toHaveLength(2);
});

/** What a job or a reply may tell, and where the engine looks then: by itself, or by the rules for addresses that others chose. */
describe("the address of a video", () => {
  test.each<[string, string, string]>([
    ["relative", "/files/1.mp4?sig=1", `${engineUrl}/files/1.mp4?sig=1`],
    ["relative without a slash", "files/1.mp4", `${engineUrl}/files/1.mp4`],
    ["on another port of the same host", "http://gpu.test:9000/1.mp4", "http://gpu.test:9000/1.mp4"],
    ["of another scheme", "s3://bucket/1.mp4", `${engineUrl}/v1/videos/${"0".repeat(31)}1/content`],
    ["no address", "http://", `${engineUrl}/v1/videos/${"0".repeat(31)}1/content`],
  ])("in the job is %s", async (_name, told, address) => {
    const { make, downloads, opened } = await start(() => undefined, { told: () => told });
    expect((await make()).video).toEqual(bytes);
    expect([downloads, opened]).toEqual([[address.replace(engineUrl, "")], []]);
  });

  test("in the job on another host is fetched by the rules and without the key", async () => {
    const { make, opened, keys } = await start(() => undefined, {
      told: () => "https://cdn.test/1.mp4",
      key: "sk-012345678",
    });
    expect((await make()).video).toEqual(bytes);
    expect([opened, keys]).toEqual([["https://cdn.test/1.mp4"], []]);
  });

  test("that the rules refuse fails after a minute if the job has no /content either", async () => {
    const { make } = await start(() => json(404, {}), { told: () => "http://10.0.0.1/1.mp4" });
    const { outcome, seconds } = await make();
    expect(outcome).toMatch(gone("videos from 10.0.0.1 are refused: a private address$"));
    expect([seconds >= 60, seconds < 62]).toEqual([true, true]);
  });

  test("in the job is requested again when it has expired", async () => {
    const { make } = await start((address) => (/(\/1\.mp4|content)$/.test(address) ? json(403, {}) : undefined), {
      told: (poll) => `https://cdn.test/${poll}.mp4`,
    });
    expect((await make()).video).toEqual(bytes);
  });

  test("is in the detail of a 400, however long its signature", async () => {
    const address = `https://bucket.test/1.mp4?signature=${"a".repeat(2_000)}`;
    const detail = `Video has been uploaded to cloud storage. Please use the cloud URL: ${address}.`;
    const { make, opened } = await start((asked) => (asked === address ? undefined : json(400, { detail })));
    expect((await make()).video).toEqual(bytes);
    expect(opened).toEqual([address]);
  });

  test("is behind redirects, and only the server's own origin gets the key", async () => {
    const hops: Record<string, string> = {
      [`${engineUrl}/v1/videos/${"0".repeat(31)}1/content`]: "/a.mp4",
      [`${engineUrl}/a.mp4`]: "http://gpu.test:9000/b.mp4",
      "http://gpu.test:9000/b.mp4": "https://cdn.test/c.mp4",
    };
    const { make, keys, opened } = await start(
      (address) => {
        const next = hops[address];
        return next === undefined ? undefined : new Response("", { status: 302, headers: { Location: next } });
      },
      { key: "sk-012345678" },
    );
    expect((await make()).video).toEqual(bytes);
    expect(keys).toEqual(["Bearer sk-012345678", "Bearer sk-012345678", null]);
    expect(opened).toEqual(["https://cdn.test/c.mp4"]);
  });

  test.each<[string, (address: string) => Response]>([
    ["redirects", (address) => new Response("", { status: 302, headers: { Location: address } })],
    ["details", (address) => json(400, { detail: `see ${address}x` })],
  ])("may not be behind endless %s", async (_name, answer) => {
    const { make, downloads } = await start((address, count) => (count <= 4 ? answer(address) : undefined));
    const { video: saved, seconds } = await make();
    expect([saved, downloads.length]).toEqual([bytes, 5]);
    // The fifth came after a wait.
    expect(seconds).toBeGreaterThan(0);
  });
});

/** A server whose first `times` downloads come in parts. */
function streams(parts: () => AsyncGenerator<Uint8Array>, { times = 1, length = 0 } = {}) {
  let count = 0;
  return (next: Io["fetch"]): Io["fetch"] =>
    async (url, init) => {
      if (!url.endsWith("/content") || count++ >= times) return next(url, init);
      const get = (name: string) => (name === "Content-Length" && length > 0 ? String(length) : null);
      return { status: 200, headers: { get }, body: abortable(parts(), init?.signal), text: async () => "" };
    };
}

async function* abortable(parts: AsyncGenerator<Uint8Array>, signal: AbortSignal | null | undefined) {
  for (;;) {
    const { value, done } = await unlessAborted(parts.next(), signal ?? new AbortController().signal);
    if (done) return;
    yield value;
  }
}

test("a suspended process does not touch the video of the process that has taken over, and continues when its claim is confirmed", async () => {
  let isSure = true;
  const seen: string[] = [];
  const { make, folder, clock } = await start((_address, count) => {
    if (count === 1) {
      isSure = false;
      writeFileSync(join(folder, "0.mp4"), "of the other process");
      void clock.sleep(60_000).then(() => {
        seen.push(readFileSync(join(folder, "0.mp4"), "utf8"));
        isSure = true;
      });
    }
    return count % 2 === 1 ? json(503, {}) : undefined;
  });
  const confirm = () => {
    if (!isSure) throw new Error("another may have taken over");
  };
  expect((await make({ confirm })).video).toEqual(bytes);
  expect(seen).toEqual(["of the other process"]);
});

test("a video of more than 2 GB fails at the first byte above the limit, and no more is read", async () => {
  let parts = 0;
  const endless = async function* () {
    for (;;) {
      parts++;
      yield Buffer.alloc(parts === 2 ? 2_000_000_000 : 1);
    }
  };
  const { make } = await start(() => undefined, { fetch: streams(endless) });
  expect(await make()).toMatchObject({ outcome: expect.stringMatching(gone("it is larger than 2 GB$")), seconds: 0 });
  expect(parts).toBe(2);
});

test.each([
  ["that stops", 36_000_000],
  ["that comes drop by drop", 20_000],
])("a download %s is begun again", async (_name, pauseMs) => {
  const clock = createVirtualClock();
  const slow = async function* () {
    for (const byte of bytes) {
      yield Uint8Array.of(byte);
      await clock.sleep(pauseMs);
    }
  };
  const { make } = await start(() => undefined, { clock, fetch: streams(slow) });
  const { outcome, seconds } = await make();
  expect(outcome).toBe("made");
  expect(seconds).toBeLessThan(100);
});

test("a large download may take longer than a minute as long as data arrives", async () => {
  const clock = createVirtualClock();
  const large = Buffer.from(tinyMp4("x".repeat(5_000_000)));
  const slow = async function* () {
    for (let at = 0; at < large.length; at += 500_000) {
      yield large.subarray(at, at + 500_000);
      await clock.sleep(25_000);
    }
  };
  const { make } = await start(() => undefined, { clock, fetch: streams(slow, { length: large.length }) });
  const { outcome, seconds, video: saved } = await make();
  expect([outcome, seconds > 200, saved?.equals(large)]).toEqual(["made", true, true]);
});

describe("a web page in place of the video, and other errors in between", () => {
  test.each<[string, Answer]>([
    ["an outage", (_, count) => (count % 2 === 0 ? json(503, {}) : page())],
    ["a connection that closes", (_, count) => (count % 2 === 0 ? "drop" : page())],
    ["two outages", (_, count) => (count % 3 > 0 ? json(502, {}) : page())],
  ])("in turn with %s, is asked for as long as a page alone", async (_, answer) => {
    const { make } = await start(answer);
    const { outcome, seconds } = await make();
    expect(outcome).toMatch(gone("it is text$"));
    expect(seconds).toBeGreaterThanOrEqual(30 * 60);
    expect(seconds).toBeLessThan(34 * 60);
  });

  test("does not fail the generation after an outage of hours that ends with a web page", async () => {
    const clock = createVirtualClock();
    const answer: Answer = (_, count) => {
      if (clock.now() > 5 * 3_600_000 + 120_000) return undefined;
      return count === 1 || clock.now() > 5 * 3_600_000 ? page() : json(503, {});
    };
    const { make } = await start(answer, { clock });
    expect((await make()).outcome).toBe("made");
  });

  test("counts from the beginning after a part of the video has arrived", async () => {
    const clock = createVirtualClock();
    const answer: Answer = (_, count) => {
      if (clock.now() > 45 * 60_000) return undefined;
      return count % 20 === 0 ? { reply: video(), bytes: 20 } : page();
    };
    const { make } = await start(answer, { clock });
    expect((await make()).outcome).toBe("made");
  });
});

test("a partial file that cannot be removed fails no generation, and the video is fetched again", async () => {
  const { make, folder, clock } = await start(() => undefined);
  // Neither can be opened for writing, nor removed as a file.
  const file = join(folder, "0.mp4");
  await mkdir(file);
  void clock.sleep(60_000).then(() => rmdir(file));
  expect(await make()).toMatchObject({ outcome: "made", video: bytes });
});

test("a failed write to the disk is tried again", async () => {
  const { make, folder, clock } = await start(() => undefined);
  await rm(folder, { recursive: true });
  void clock.sleep(60_000).then(() => mkdir(folder));
  expect((await make()).video).toEqual(bytes);
});
