import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { tinyMp4 } from "../../../mp4.ts";
import { missingFile } from "./fake.ts";
import { start, withImage, workflow } from "./run.ts";

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const video = (prompt: string) => Buffer.from(tinyMp4(JSON.stringify(prompt)));

test("a workflow is run once, under an id that is recorded before it is submitted, and its video is saved", async () => {
  const { make, fake } = await start();
  const made = await make({ prompt: "a fox" });
  expect(made).toMatchObject({ outcome: "made", video: video("a fox, cinematic") });
  expect(fake.runs).toMatchObject([{ id: expect.stringMatching(uuid), graph: { "9": { class_type: "SaveVideo" } } }]);
  expect(made.checkpoints).toEqual(["unconfirmed", fake.runs[0]?.id]);
});

describe("an unclear submit", () => {
  type Loss = (sleep: (ms: number) => Promise<void>, reply: Response) => Response | "drop" | Promise<"drop">;
  const losses: [string, Loss][] = [
    ["the connection closes", () => "drop"],
    ["a proxy answers 502", () => new Response("<html>", { status: 502 })],
    ["the reply is no JSON", () => new Response('{"prompt_id": "6f1b0a52')],
    ["no reply comes", (sleep) => sleep(3_600_000).then(() => "drop")],
  ];

  test.each(losses)("that was accepted is looked up and followed, and never sent again: %s", async (_, lose) => {
    const { make, fake, clock } = await start({
      fault: async ({ route, serve }) => (route === "POST /prompt" ? lose(clock.sleep, await serve()) : undefined),
    });
    const made = await make();
    expect(made).toMatchObject({ outcome: "made", video: video("a fox, cinematic") });
    expect(made.checkpoints).toEqual(["unconfirmed", fake.runs[0]?.id]);
    expect(fake.runs).toHaveLength(1);
  });

  test("that the server does not know for 60 s was not accepted, and may be sent again", async () => {
    const { make, fake } = await start({ fault: ({ route }) => (route === "POST /prompt" ? "drop" : undefined) });
    const { outcome, checkpoints, seconds } = await make();
    expect([outcome, checkpoints, fake.runs]).toEqual(["not submitted: ECONNRESET", ["unconfirmed", null], []]);
    expect(seconds).toBeGreaterThanOrEqual(60);
    expect(seconds).toBeLessThan(62);
  });

  test("that the server knows only after a while is followed, because a proxy may have delayed it", async () => {
    let late: Promise<unknown> | undefined;
    const { make, fake, clock } = await start({
      fault({ route, serve }) {
        if (route !== "POST /prompt") return undefined;
        late = clock.sleep(20_000).then(serve);
        return "drop";
      },
    });
    expect((await make()).outcome).toBe("made");
    await late;
    expect(fake.runs).toHaveLength(1);
  });

  test.each<[string, Response | "drop"]>([
    ["nothing", "drop"],
    ["a proxy's 404", Response.json({ error: "no such route" }, { status: 404 })],
    ["a server's without the endpoint", new Response("404: Not Found", { status: 404 })],
  ])("stays unclear when the server answers %s for its time limit", async (_, answer) => {
    let isSubmitted = false;
    const { make, fake } = await start({
      fault({ route, serve }) {
        if (route === "POST /prompt") isSubmitted = true;
        if (route === "POST /prompt") return serve().then(() => "drop");
        if (route !== "GET /api/jobs/{id}" || !isSubmitted) return undefined;
        return answer === "drop" ? answer : answer.clone();
      },
    });
    const { outcome, checkpoints, seconds } = await make();
    expect(outcome).toMatch(/^unclear: ECONNRESET; /);
    expect([checkpoints, fake.runs.length, seconds > 30 * 60]).toEqual([["unconfirmed"], 1, true]);
  });
});

describe("after a restart of the service", () => {
  test("a job that was being submitted and is known to the server is followed", async () => {
    const { make, fake } = await start();
    await make();
    const job = fake.runs[0]?.id ?? "";
    const made = await make({ resume: { state: "unconfirmed", job } });
    expect(made).toMatchObject({ outcome: "made", checkpoints: [job] });
    expect(fake.runs).toHaveLength(1);
  });

  test("a job that was being submitted and is unknown to the server was not accepted", async () => {
    const { make, fake } = await start();
    const resume = { state: "unconfirmed", job: "6f1b0a52-0000-4000-8000-000000000000" } as const;
    expect(await make({ resume })).toMatchObject({
      outcome: "not submitted: the local service ended while it submitted this video",
      checkpoints: [null],
    });
    expect(fake.runs).toEqual([]);
  });

  test("a job that the server confirmed and has forgotten is lost, and not submitted again", async () => {
    const { make, fake } = await start();
    await make();
    fake.forget();
    const { outcome, checkpoints } = await make({ resume: { state: "submitted", job: fake.runs[0]?.id ?? "" } });
    expect(outcome).toBe(
      "http://gpu.test:8091 no longer knows this video's job (HTTP 404: Job not found); it was restarted, or the job was removed from its queue",
    );
    expect([checkpoints, fake.runs.length]).toEqual([[], 1]);
  });
});

describe("a job whose end the server no longer knows", () => {
  const id = "2a1b2c3d-0000-4000-8000-000000000000";
  const file = { filename: "fox_2a1b2c3d_00001_.mp4", subfolder: "video", type: "output" };
  const lost =
    "http://gpu.test:8091 no longer knows this video's job (HTTP 404: Job not found); it was restarted, or the job was removed from its queue";

  // `executed` has the form that ComfyUI 0.33.0 sends.
  test.each<[string, object, string]>([
    [
      "is one",
      { images: [file], animated: [true] },
      `${lost}. It had saved video/${file.filename}, which may be in its output folder`,
    ],
    [
      "is in no folder",
      { gifs: [{ ...file, subfolder: "" }] },
      `${lost}. It had saved ${file.filename}, which may be in its output folder`,
    ],
    ["has another generation's name", { images: [{ ...file, filename: "fox_00001_.mp4" }], animated: [true] }, lost],
    ["is only a preview", { images: [{ ...file, type: "temp" }], animated: [true] }, lost],
    ["is an image", { images: [{ ...file, filename: "fox_2a1b2c3d_00001_.png" }] }, lost],
  ])("names the file that it saved, if that %s", async (_, output, words) => {
    const routes: string[] = [];
    const { make, fake, clock } = await start({
      fault({ route }) {
        routes.push(route);
        return undefined;
      },
    });
    const making = make({ id });
    await clock.sleep(10_000);
    const [run] = fake.runs;
    if (!run) throw new Error("nothing runs");
    fake.tell(run, "executed", { node: "9", display_node: "9", output });
    fake.tell({ ...run, id: "6f1b0a52-0000-4000-8000-000000000000" }, "executed", {
      node: "8",
      output: { images: [file] },
    });
    fake.forget();
    expect((await making).outcome).toBe(words);
    expect([routes.includes("GET /view"), fake.runs.length]).toEqual([false, 1]);
  });
});

test("a stop during the submission leaves the id for the next process", async () => {
  const stop = new AbortController();
  const { make, fake } = await start({
    fault({ route, serve }) {
      if (route !== "POST /prompt") return undefined;
      stop.abort(new Error("the service is stopping"));
      return serve().then(() => new Promise(() => {}));
    },
  });
  const { outcome, checkpoints } = await make({ signal: stop.signal });
  expect([outcome, checkpoints, fake.runs.length]).toEqual(["the service is stopping", ["unconfirmed"], 1]);
});

describe("a graph that the server rejects", () => {
  const words = "KSampler (node 3): ComfyUI does not have wan.safetensors (unet_name); it has none like it";
  const missing = missingFile("wan.safetensors");

  test("in some nodes is refused although the reply is 200, and its job is stopped", async () => {
    const { make, fake } = await start({ errors: { 3: missing } });
    const { outcome, checkpoints } = await make();
    expect(outcome).toBe(`http://gpu.test:8091 refused the workflow: ${words}`);
    expect([checkpoints, fake.runs]).toEqual([["unconfirmed", null], [expect.objectContaining({ isCancelled: true })]]);
  });

  const files = ["umt5_xxl.safetensors", "wan/Wan2.2_T2V_14B_fp8.safetensors", "wan2.1_i2v_480p.safetensors"];
  const many = [...files, ...Array.from({ length: 20 }, (_, index) => `lora-${index}.safetensors`)];
  test.each([
    ["its list", files],
    ["a list that is too long for its reply", many],
  ])("because of a missing file names the nearest one of %s", async (_, there) => {
    const { make } = await start({
      errors: { 3: missingFile("wan2.2_t2v_14B.safetensors", there), 9: missingFile("x.png", there, "y") },
      nodes: { KSampler: { unet_name: [there, {}] } },
    });
    expect((await make()).outcome).toContain(
      "refused the workflow: KSampler (node 3): ComfyUI does not have wan2.2_t2v_14B.safetensors (unet_name); the nearest is wan/Wan2.2_T2V_14B_fp8.safetensors; SaveVideo (node 9): Value not in list: y: 'x.png'",
    );
  });

  test("because of a missing node type is reported with the class and the id of the node", async () => {
    const nodes = { "12": { class_type: "Wan", inputs: {}, _meta: { title: "My title" } } };
    const { make, fake } = await start({ graph: workflow({}, nodes), missing: ["Wan"] });
    expect((await make()).outcome).toBe(
      "http://gpu.test:8091 refused the workflow: Wan, node 12: Node 'My title' not found. The custom node may not be installed.",
    );
    expect(fake.runs).toEqual([]);
  });

  const own = () => new Response("500 Internal Server Error\n\nServer got itself in trouble", { status: 500 });

  test("with an internal error is refused after three attempts, each of which the server does not know afterwards", async () => {
    let submits = 0;
    const { make, fake } = await start({
      fault: ({ route }) => (route === "POST /prompt" && ++submits ? own() : undefined),
    });
    const { outcome, checkpoints, seconds } = await make();
    expect(outcome).toBe("http://gpu.test:8091 refused the workflow: ComfyUI fails on it each time (HTTP 500)");
    expect([submits, checkpoints.at(-1), fake.runs]).toEqual([3, null, []]);
    expect(seconds).toBeGreaterThanOrEqual(90);
  });

  test("is not assumed after a proxy's 500, after which the job is looked up", async () => {
    let submits = 0;
    const page = () => new Response("<html>500", { status: 500 });
    const { make } = await start({
      fault: ({ route }) => (route === "POST /prompt" && ++submits ? page() : undefined),
    });
    expect([(await make()).outcome, submits]).toEqual(["not submitted: HTTP 500", 1]);
  });

  test("in all nodes is refused with 400", async () => {
    const { make, fake } = await start({ errors: { 3: missing, 9: missing } });
    const { outcome, checkpoints } = await make();
    expect(outcome).toContain(`refused the workflow: ${words}; SaveVideo (node 9)`);
    expect([checkpoints, fake.runs]).toEqual([["unconfirmed", null], []]);
  });
});

describe("the output of a workflow", () => {
  const file = (filename: string, type = "output") => ({ filename, subfolder: "", type });
  test.each([
    ["gifs", { "9": { gifs: [file("fox.MP4")] } }],
    ["videos", { "9": { videos: [file("fox.mp4")] } }],
    [
      "a saved file before a preview",
      { "1": { images: [file("preview.mp4", "temp")] }, "9": { images: [file("fox.mp4")] } },
    ],
    ["a preview, where nothing else is", { "1": { text: ["x"] }, "9": { gifs: [null, file("fox.mp4", "temp")] } }],
  ])("is found under %s", async (_, outputs) => {
    const asked: string[] = [];
    const { make } = await start({
      outputs: () => outputs,
      fault({ route, request }) {
        if (route === "GET /view") asked.push(new URL(request.url).searchParams.get("filename") ?? "");
        return undefined;
      },
    });
    expect((await make()).outcome).toBe("made");
    expect(asked.map((name) => name.toLowerCase())).toEqual(["fox.mp4"]);
  });

  test.each([
    [
      "is no video",
      { "9": { images: [file("fox.webp"), file("fox.png")] } },
      "the workflow made fox.webp, fox.png, and no video",
    ],
    [
      "is one image a frame",
      { "9": { images: Array.from({ length: 24 }, (_, index) => file(`fox_${index}_.png`)) } },
      "the workflow made 24 images, and no video",
    ],
    [
      "is many files of several kinds",
      { "8": { audio: [file("a.flac")] }, "9": { images: ["b", "c", "d"].map((name) => file(`${name}.png`)) } },
      "the workflow made 4 files, and no video",
    ],
    ["is what it was given", { "9": { images: [file("in.mp4", "input")] } }, "the workflow made no file"],
    ["is nothing", {}, "the workflow made no file"],
  ])("%s, and is named", async (_, outputs, error) => {
    const { make } = await start({ outputs: () => outputs });
    expect(await make()).toMatchObject({ outcome: error, video: undefined });
  });

  const webp = Buffer.from("RIFF\0\0\0\0WEBPVP8X\n\0\0\0\x02\0\0\0?\0\0?\0\0ANIM", "latin1");
  const apng = Buffer.from("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x08acTL", "latin1");

  // The outputs are those of ComfyUI 0.33.0.
  test.each<[string, object, Buffer]>([
    ["SaveAnimatedWEBP", { images: [file("w_00001_.webp")], animated: [true] }, webp],
    ["SaveAnimatedPNG", { images: [file("w_00001_.png")], animated: [true] }, apng],
    ["VHS_VideoCombine with image/webp", { gifs: [{ ...file("vhs_00001.webp"), format: "image/webp" }] }, webp],
  ])("is an animation of %s", async (_, output, bytes) => {
    const { make } = await start({
      outputs: () => ({ "3": { images: [file("fox.webp"), file("fox.png")] }, "9": output }),
      fault: ({ route }) =>
        route === "GET /view"
          ? new Response(bytes, { headers: { "Content-Length": String(bytes.length) } })
          : undefined,
    });
    expect(await make()).toMatchObject({ outcome: "made", video: bytes });
  });

  const webm = Buffer.from("1a45dfa39f4286810142f7810142f2810442f381084282847765626d0102", "hex");
  const cut = webm.subarray(0, -1);
  const size = (bytes: Buffer) => ({ "Content-Length": String(bytes.length) });

  test.each<[string, string, { body: Buffer; headers?: Record<string, string> }[], number]>([
    ["a WebM is taken where there is no .mp4", "fox.webm", [{ body: webm, headers: size(webm) }], 1],
    ["a Matroska file is, too", "fox.MKV", [{ body: webm, headers: size(webm) }], 1],
    ["it is fetched again where its length is not told", "fox.webm", [{ body: webm }, { body: webm }], 2],
    ["it is fetched until two are the same", "fox.webm", [{ body: cut }, { body: webm }, { body: webm }], 3],
    [
      "a page in its place is waited out",
      "fox.webm",
      [{ body: Buffer.from("<html>") }, { body: webm, headers: size(webm) }],
      2,
    ],
  ])("may be another kind of video: %s", async (_, filename, replies, expected) => {
    let asked = 0;
    const { make } = await start({
      outputs: () => ({ "3": { images: [file("fox.png")] }, "9": { images: [file(filename)], animated: [true] } }),
      fault({ route }) {
        const reply = route === "GET /view" ? replies[asked++] : undefined;
        return reply && new Response(new Uint8Array(reply.body), { headers: reply.headers ?? {} });
      },
    });
    expect(await make()).toMatchObject({ outcome: "made", video: webm });
    expect(asked).toBe(expected);
  });

  test("is fetched although a node shows numbers that JSON does not have, as ComfyUI writes for its `ui`", async () => {
    const { make } = await start({
      outputs: ({ id }) => ({ "3": { psnr: ["inf", "NaN in a text"] }, "9": { images: [file(`${id}.mp4`)] } }),
      async fault({ route, serve }) {
        if (!route.startsWith("GET /api/jobs/")) return undefined;
        const reply = await serve();
        return new Response((await reply.text()).replace('"inf"', "Infinity, -Infinity, NaN"), reply);
      },
    });
    expect(await make()).toMatchObject({ outcome: "made" });
  });

  test("is the .mp4 rather than another kind, unless the node of the other has the title", async () => {
    const other = { class_type: "SaveWEBM", inputs: { filename_prefix: "x" } };
    const names: string[] = [];
    for (const title of ["vidgen", "other"]) {
      const { make } = await start({
        graph: workflow({}, { "12": { ...other, _meta: { title } } }),
        outputs: ({ id }) => ({ "9": { images: [file(`${id}.mp4`)] }, "12": { images: [file("fox.webm")] } }),
        fault({ route, request }) {
          if (route !== "GET /view") return undefined;
          names.push(new URL(request.url).searchParams.get("filename")?.slice(-4) ?? "");
          return new Response(new Uint8Array(webm), { headers: size(webm) });
        },
      });
      await make();
    }
    expect([names[0], names.at(-1)]).toEqual(["webm", ".mp4"]);
  });

  test("is an error with the server's message", async () => {
    const failure = { node_type: "KSampler", exception_message: "CUDA out of memory" };
    const { make } = await start({ failure: () => failure });
    expect((await make()).outcome).toBe("KSampler: CUDA out of memory");
  });
});

describe("of several videos", () => {
  const file = (filename: string, type = "output") => ({ filename, subfolder: "", type });
  const note = (node: string, others: string) =>
    `http://gpu.test:8091: the video of node ${node} was taken, but node ${others} made one, too. To choose a node, give it the title "vidgen" in ComfyUI.`;
  test.each<[string, string, string, object, string[]]>([
    ["the highest node id", "9", "60", {}, [note("60", "9")]],
    ["the highest node id in a subgraph", "7:9", "7:60", {}, [note("7:60", "7:9")]],
    ["the node with the title", "60", "9", { _meta: { title: "vidgen" } }, []],
  ])("%s counts, in whatever order they are", async (_, other, wanted, more, notes) => {
    const saver = { class_type: "SaveVideo", inputs: { filename_prefix: "x" }, ...more };
    const asked: string[] = [];
    const scene = await start({
      graph: workflow({}, { [wanted]: saver }),
      outputs: ({ id }) => ({
        [other]: { images: [file(`other-${id}.mp4`)] },
        [wanted]: { images: [file("preview.mp4", "temp"), file(`${scene.id}.mp4`)] },
      }),
      fault({ route, request }) {
        if (route === "GET /view") asked.push(new URL(request.url).searchParams.get("filename") ?? "");
        return undefined;
      },
    });
    expect((await scene.make({ id: scene.id })).outcome).toBe("made");
    expect([asked, scene.notes]).toEqual([[`${scene.id}.mp4`], notes]);
  });
});

describe("the file name of a generation", () => {
  const ids = ["0a1b2c3d-0000-4000-8000-000000000000", "1a1b2c3d-0000-4000-8000-000000000000"] as const;

  test("has the generation's id, so that no other generation gets its video after the folder was emptied", async () => {
    const { make, fake, notes } = await start();
    for (const id of ids)
      expect((await make({ id, prompt: id, extras: { seed: 7 } })).video).toEqual(video(`${id}, cinematic`));
    const prefixes = fake.runs.map(({ graph }) => graph["9"]?.inputs.filename_prefix);
    expect([prefixes, notes]).toEqual([["video/fox_0a1b2c3d", "video/fox_1a1b2c3d"], []]);
  });

  test("is the workflow's own with {{id}}, and does not change when the graph is submitted again", async () => {
    const nodes = { "10": { class_type: "SaveAs", inputs: { path: "out-{{id=x}}.mp4" } } };
    const { make, fake } = await start({ graph: workflow({}, nodes) });
    for (const id of [ids[0], ids[0], ids[1]]) await make({ id });
    const paths = fake.runs.map(({ graph }) => [graph["10"]?.inputs.path, graph["9"]?.inputs.filename_prefix]);
    expect(paths).toEqual([ids[0], ids[0], ids[1]].map((id) => [`out-${id}.mp4`, "video/fox"]));
  });

  test("is reported if the node did not use it, because two jobs may share a file", async () => {
    const outputs = () => ({ "12": { gifs: [{ filename: "out.mp4", subfolder: "", type: "output" }] } });
    const { make, notes } = await start({ outputs });
    expect((await make()).outcome).toBe("made");
    expect(notes).toEqual([
      "http://gpu.test:8091: node 12 chose the file name out.mp4: two jobs may share this name, and get each other's video. Put {{id}} into the name in the workflow.",
    ]);
  });
});

test("a file that was deleted there is requested for a minute", async () => {
  const { make } = await start({
    fault: ({ route }) => (route === "GET /view" ? new Response(null, { status: 404 }) : undefined),
  });
  const { outcome, seconds } = await make();
  expect(outcome).toMatch(/could not be downloaded from http.*: ComfyUI no longer has the file \(HTTP 404\)$/);
  expect([seconds >= 120, seconds < 140]).toEqual([true, true]);
});

test("a proxy's 404 in place of the file does not count", async () => {
  let asked = 0;
  const { make } = await start({
    fault: ({ route }) =>
      route === "GET /view" && asked++ < 200 ? new Response("<html>Not found", { status: 404 }) : undefined,
  });
  expect(await make()).toMatchObject({ outcome: "made" });
});

describe("a job behind other people's jobs", () => {
  test("waits as long as the queue moves or a job runs there", async () => {
    let at = () => 0;
    // Each of them takes 50 minutes, which is longer than the engine's time limit.
    const count = () => Math.max(0, 4 - Math.floor(at() / (50 * 60_000)));
    const others = () => {
      const names = Array.from({ length: count() }, (_, index) => `other-${4 - count() + index}`);
      return { running: names.slice(0, 1), waiting: names.slice(1) };
    };
    const { make, clock, fake } = await start({ others });
    const startedAt = clock.now();
    at = () => clock.now() - startedAt;
    expect((await make()).outcome).toBe("made");
    expect([at() > 200 * 60_000, fake.runs.length]).toEqual([true, 1]);
  });

  test("fails if nothing runs and nothing moves, as after the worker has ended", async () => {
    const { make } = await start({ others: () => ({ running: [], waiting: ["other"] }) });
    const { outcome, seconds } = await make();
    expect(outcome).toContain("made no progress with this video for 30 min (pending)");
    expect(seconds).toBeLessThan(32 * 60);
  });
});

describe("the requests of jobs, as `vidgen help real-models` states them", () => {
  const minuteMs = 60_000;

  type Load = { jobs: number; othersUntilMs: number; completeAfterMs: number };

  /** Makes videos at the same time, and returns the requests, with those of the minute that begins after five minutes counted. */
  async function load({ jobs, othersUntilMs, completeAfterMs }: Load) {
    const calls: { route: string; atMs: number; isKept: boolean }[] = [];
    let now = () => 0;
    const { make, clock, fake } = await start({
      completeAfterMs,
      others: () => ({ running: now() < othersUntilMs ? ["other"] : [], waiting: [] }),
      fault({ route, request }) {
        calls.push({ route, atMs: clock.now(), isKept: request.headers.get("Connection") !== "close" });
        return undefined;
      },
    });
    now = clock.now;
    const made = await Promise.all(Array.from({ length: jobs }, () => make()));
    expect([made.map(({ outcome }) => outcome), fake.runs.length]).toEqual([Array(jobs).fill("made"), jobs]);
    const inMinute = calls.filter(({ atMs }) => atMs >= 5 * minuteMs && atMs < 6 * minuteMs);
    const count = (route: string) => inMinute.filter((call) => call.route === route).length;
    return {
      calls,
      seconds: Math.max(...made.map(({ seconds }) => seconds)),
      minute: {
        polls: count("GET /api/jobs/{id}"),
        looks: count("GET /queue"),
        all: inMinute.length,
        kept: inMinute.filter(({ isKept }) => isKept).length,
      },
    };
  }

  test("one that runs is polled every 2 s, on a kept connection; all else has a connection of its own", async () => {
    const { calls, minute } = await load({ jobs: 1, othersUntilMs: 0, completeAfterMs: 10 * minuteMs });
    expect(minute).toEqual({ polls: 30, looks: 0, all: 30, kept: 30 });
    const kept = calls.filter(({ isKept }) => isKept).map(({ route }) => route);
    expect([...new Set(kept)]).toEqual(["POST /prompt", "GET /api/jobs/{id}"]);
  });

  test("of 16 that wait, the first is polled, and all share a look at the queue every 20 s", async () => {
    const { calls, minute, seconds } = await load({
      ...{ jobs: 16, othersUntilMs: 10 * minuteMs, completeAfterMs: minuteMs },
    });
    expect(minute).toEqual({ polls: 30, looks: 3, all: 33, kept: 33 });
    // Once the first one runs, the others look at once.
    expect(seconds).toBeLessThan(11 * 60 + 5);
    const firstMinute = calls.filter(({ atMs }) => atMs < minuteMs);
    expect(firstMinute.filter(({ route }) => route === "GET /queue").length).toBeLessThan(10);
  });

  test("when the first one is no longer followed, the next one is polled", async () => {
    let now = () => 0;
    const polled: string[] = [];
    const { make, clock, fake } = await start({
      others: () => ({ running: now() < 10 * minuteMs ? ["other"] : [], waiting: [] }),
      fault({ route, request }) {
        if (route === "GET /api/jobs/{id}" && now() > 2 * minuteMs) polled.push(request.url.slice(-36));
        return undefined;
      },
    });
    now = clock.now;
    const stopped = new AbortController();
    const first = make({ signal: stopped.signal });
    await clock.sleep(10_000);
    const second = make();
    await clock.sleep(minuteMs);
    stopped.abort(new Error("stopped"));
    await first;
    expect((await second).outcome).toBe("made");
    expect(polled.length).toBeGreaterThan(200);
    expect([...new Set(polled)]).toEqual([fake.runs[1]?.id]);
  });

  test("after a server has not known a job, its polls no longer keep a connection: behind an address may be several", async () => {
    let polls = 0;
    const kept: boolean[] = [];
    const { make } = await start({
      fault({ route, request }) {
        if (route !== "GET /api/jobs/{id}" || request.url.endsWith("00000000-0000-4000-8000-000000000000"))
          return undefined;
        kept.push(request.headers.get("Connection") !== "close");
        return ++polls === 5 ? Response.json({ error: "Job not found" }, { status: 404 }) : undefined;
      },
    });
    expect((await make()).outcome).toBe("made");
    expect(kept.slice(0, 5)).toEqual([false, true, true, true, true]);
    expect(kept.slice(5)).toEqual(Array(kept.length - 5).fill(false));
  });

  test("after a poll without a reply, as on a kept connection that the server has closed, the next has one of its own", async () => {
    let polls = 0;
    const kept: boolean[] = [];
    const { make } = await start({
      fault({ route, request }) {
        if (route !== "GET /api/jobs/{id}" || request.url.endsWith("00000000-0000-4000-8000-000000000000"))
          return undefined;
        kept.push(request.headers.get("Connection") !== "close");
        return ++polls === 3 ? "drop" : undefined;
      },
    });
    expect((await make()).outcome).toBe("made");
    expect(kept.slice(0, 6)).toEqual([false, true, true, false, true, true]);
  });

  test("a cancel keeps no connection", async () => {
    const kept: string[] = [];
    let isCancelling = false;
    const { make, engine, fake, clock } = await start({
      fault({ route, request }) {
        if (isCancelling && request.headers.get("Connection") !== "close") kept.push(route);
        return undefined;
      },
    });
    const stopped = new AbortController();
    const making = make({ signal: stopped.signal });
    await clock.sleep(10_000);
    stopped.abort();
    await making;
    isCancelling = true;
    expect(await engine.cancel?.(fake.runs[0]?.id ?? "", new AbortController().signal)).toBe(true);
    expect(kept).toEqual(["POST /queue", "POST /interrupt"]);
  });
});

describe("images", () => {
  test("are uploaded, and the graph has their uploaded names; a repeated upload makes no second file", async () => {
    const { make, fake, engine, folder } = await start({ graph: withImage });
    const path = join(folder, "a.png");
    writeFileSync(path, "pixels");
    const images = [{ path, format: "png" as const, megapixels: 1, name: "https://images.example/a.png" }];
    for (let count = 0; count < 2; count++) expect((await make({ images })).outcome).toBe("made");
    const names = fake.runs.map(({ graph }) => graph["10"]?.inputs.image);
    expect([engine.maxImages, names]).toEqual([1, [...fake.uploads.keys(), ...fake.uploads.keys()]]);
  });

  test("are as many as there are placeholders", async () => {
    const nodes = { "10": { class_type: "LoadImage", inputs: { image: "{{image}}", last: "{{image_2}}" } } };
    expect((await start({ graph: workflow({}, nodes) })).engine.maxImages).toBe(2);
    expect((await start()).engine.maxImages).toBe(0);
  });

  test.each([
    ["refused", 413, /^http:\/\/gpu\.test:8091 refused an image: HTTP 413/],
    ["not submitted now", 502, /^not submitted: HTTP 502/],
  ])("that are %s leave nothing submitted", async (_, status, outcome) => {
    const { make, fake, folder } = await start({
      graph: withImage,
      fault: ({ route }) => (route === "POST /upload/image" ? new Response("", { status }) : undefined),
    });
    const path = join(folder, "a.png");
    writeFileSync(path, "pixels");
    const made = await make({ images: [{ path, format: "png", megapixels: 1, name: "a.png" }] });
    expect([made.outcome, made.checkpoints, fake.runs]).toEqual([expect.stringMatching(outcome), [], []]);
  });
});

test("an old version with the needed routes is used", async () => {
  const { make, fake, engine } = await start({ version: "0.24.1" });
  expect(await engine.check(new AbortController().signal)).toBe("ComfyUI 0.24.1");
  expect([(await make()).outcome, fake.runs.length]).toEqual(["made", 1]);
});

test("a version without /api/jobs is reported, and nothing is submitted, because jobs could not be looked up", async () => {
  const { make, fake, engine } = await start({ version: "0.3.64", hasJobs: false });
  const words = "is ComfyUI 0.3.64, which is too old: it has no /api/jobs, by which vidgen asks for a video";
  await expect(engine.check(new AbortController().signal)).rejects.toMatchObject({ code: "usage", message: words });
  expect(await make()).toMatchObject({ outcome: `not submitted: ${words}`, checkpoints: [] });
  expect(fake.runs).toEqual([]);
});

test("a key is sent if it is set; without a key, a proxy's refusal is reported", async () => {
  const own = await start({ key: "canary-key", engineKey: "canary-key", graph: workflow() });
  expect([await own.engine.check(new AbortController().signal), (await own.make()).outcome]).toEqual([
    "ComfyUI 0.36.0",
    "made",
  ]);
  const other = await start({ key: "canary-key" });
  const refused = { code: "auth", message: "asks for a key (HTTP 401)" };
  await expect(other.engine.check(new AbortController().signal)).rejects.toMatchObject(refused);
  expect((await other.make()).outcome).toBe("not submitted: asks for a key (HTTP 401)");
  const wrong = await start({ key: "canary-key", engineKey: "another-key" });
  expect((await wrong.make()).outcome).toBe("not submitted: refuses the key (HTTP 401)");
  const basic = () =>
    new Response("<h1>401 Authorization Required</h1>", {
      status: 401,
      headers: { "www-authenticate": 'Basic realm="ComfyUI"' },
    });
  const proxied = await start({ fault: basic });
  await expect(proxied.engine.check(new AbortController().signal)).rejects.toThrow(
    "asks for a name and a password (Basic), which vidgen does not send: a Bearer key is needed, or a proxy without Basic (HTTP 401)",
  );
});

describe("a check", () => {
  const check = async (options: Parameters<typeof start>[0]) => {
    const { engine, notes, clock } = await start(options);
    const checking = engine.check(new AbortController().signal).catch((error) => error);
    await clock.sleep(5_000);
    return { says: await checking, notes };
  };
  const nodes = {
    "12": { class_type: "Wan/Loader", inputs: { model: "wan2.2_14B.safetensors", mode: "a.b", other: "{{x}}.png" } },
    "13": { class_type: "LoadImage", inputs: { image: "author.png" } },
  };

  test("names all types of nodes that are not installed, and costs nothing", async () => {
    const { says, notes } = await check({ graph: workflow({}, nodes), missing: ["Wan/Loader", "LoadImage"] });
    expect(says).toMatchObject({
      code: "usage",
      message: "does not have nodes of the workflow: Wan/Loader, LoadImage",
      hint: expect.stringContaining("Install them"),
    });
    expect(notes).toEqual([]);
  });

  test("notes files that are missing, once", async () => {
    const models = ["vae.safetensors", "wan2.2_14B_fp8.safetensors"];
    const lists = {
      "Wan/Loader": { model: [models, {}], mode: ["STRING", {}], other: [[], {}] },
      LoadImage: { image: ["COMBO", { options: [] }] },
    };
    const { engine, notes } = await start({ graph: workflow({}, nodes), nodes: lists });
    for (let count = 0; count < 2; count++)
      expect(await engine.check(new AbortController().signal)).toBe("ComfyUI 0.36.0");
    expect(notes).toEqual([
      "http://gpu.test:8091: Wan/Loader (node 12): ComfyUI does not have wan2.2_14B.safetensors (model); the nearest is wan2.2_14B_fp8.safetensors.",
      "http://gpu.test:8091: LoadImage (node 13): ComfyUI does not have author.png (image); it has none like it.",
    ]);
  });

  test.each<[string, () => Response | Promise<Response>]>([
    ["refused", () => new Response("", { status: 404 })],
    ["another answer", () => Response.json({ nodes: [] })],
    ["no answer", () => new Promise<Response>(() => {})],
  ])("waits for no descriptions of nodes: %s", async (_, answer) => {
    const { says, notes } = await check({
      fault: ({ route }) => (route.startsWith("GET /object_info") ? answer() : undefined),
    });
    expect([says, notes]).toEqual(["ComfyUI 0.36.0", []]);
  });
});

test("another server at the address is reported", async () => {
  const { engine } = await start({ fault: () => Response.json({ object: "list" }) });
  await expect(engine.check(new AbortController().signal)).rejects.toThrow(
    /^does not respond like ComfyUI \(HTTP 200\)$/,
  );
});

describe("cancelling a job", () => {
  const signal = new AbortController().signal;

  test.each(["0.24.1", "0.36.0"])("stops it once its node looks, in version %s", async (version) => {
    const stopAfterMs = 7_000;
    const { engine, make, fake, clock } = await start({ version, completeAfterMs: 3_600_000, stopAfterMs });
    const making = make();
    await clock.sleep(60_000);
    const askedAt = clock.now();
    expect(await engine.cancel?.(fake.runs[0]?.id ?? "", signal)).toBe(true);
    expect(clock.now() - askedAt).toBeGreaterThanOrEqual(stopAfterMs);
    expect((await making).outcome).toMatch(/cancelled/);
  });

  test.each(["0.24.1", "0.36.0"])("takes it out of the queue, in version %s", async (version) => {
    const others = () => ({ running: ["another"], waiting: [] });
    const { engine, make, fake, clock } = await start({ version, others });
    const making = make();
    await clock.sleep(60_000);
    expect(await engine.cancel?.(fake.runs[0]?.id ?? "", signal)).toBe(true);
    expect((await making).outcome).toContain("no longer knows this video's job");
  });

  test("is too late for a completed one", async () => {
    const { engine, make, fake } = await start();
    await make();
    expect(await engine.cancel?.(fake.runs[0]?.id ?? "", signal)).toBe(false);
  });

  test("is too late for one that has failed by itself", async () => {
    const { engine, make, fake } = await start({ failure: () => ({ exception_message: "CUDA out of memory" }) });
    await make();
    expect(await engine.cancel?.(fake.runs[0]?.id ?? "", signal)).toBe(false);
  });

  test("is unclear while the job continues", async () => {
    const { engine, make, fake, clock } = await start({ completeAfterMs: 600_000, stopAfterMs: 500_000 });
    const making = make();
    await clock.sleep(60_000);
    const limit = clock.limit(90_000, signal, new Error("no response in time"));
    await expect(engine.cancel?.(fake.runs[0]?.id ?? "", limit.signal)).rejects.toThrow("no response in time");
    await making;
  });
});

describe("the progress of a job", () => {
  test("is reported with the running node, at most once a second for each", async () => {
    const { make, fake, clock, opened } = await start();
    const making = make();
    await clock.sleep(10_000);
    const [run] = fake.runs;
    if (!run) throw new Error("nothing runs");
    expect([run.client, opened]).toEqual([run.id, [`ws://gpu.test:8091/ws?clientId=${run.id}`]]);
    fake.tell(run, "executing", { node: "6", display_node: "6" });
    fake.tell(run, "executing", { node: "3", display_node: "3" });
    for (let value = 1; value <= 20; value++) {
      await clock.sleep(500);
      fake.tell(run, "progress", { value, max: 20, node: "3" });
    }
    fake.tell(run, "progress", { value: 1, max: 1, node: "7:12" });
    for (const data of [{ node: null }, { value: 3, max: 0, node: "3" }, { value: "3", max: 4, node: "3" }])
      fake.tell(run, "progress", data);
    fake.tell({ ...run, id: "6f1b0a52-0000-4000-8000-000000000000" }, "progress", { value: 3, max: 4, node: "6" });
    const { outcome, told } = await making;
    const steps = Array.from({ length: 10 }, (_, index) => [(index + 1) * 10, "KSampler"]);
    expect(told).toEqual([[undefined, "Prompt"], [undefined, "KSampler"], ...steps, [100, "node 7:12"]]);
    expect([outcome, fake.clients()]).toEqual(["made", []]);
  });

  test("is reconnected every half a minute after a lost connection, and ends with the job", async () => {
    const { make, opened, fake } = await start({ completeAfterMs: 10 * 60_000, socketMs: 1_000 });
    expect((await make()).outcome).toBe("made");
    expect([opened.length >= 18, opened.length <= 20, fake.clients()]).toEqual([true, true, []]);
  });
});
