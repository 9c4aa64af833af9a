import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { tinyMp4 } from "../../../mp4.ts";
import { start, withImage, workflow } from "./run.ts";

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const video = (prompt: string) => Buffer.from(tinyMp4(JSON.stringify(prompt)));

test("a workflow is run once, under a name that is kept before it is submitted, and its video is saved", async () => {
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

  test.each(losses)("that was taken is looked up and followed, and never sent again: %s", async (_, lose) => {
    const { make, fake, clock } = await start({
      fault: async ({ route, serve }) => (route === "POST /prompt" ? lose(clock.sleep, await serve()) : undefined),
    });
    const made = await make();
    expect(made).toMatchObject({ outcome: "made", video: video("a fox, cinematic") });
    expect(made.checkpoints).toEqual(["unconfirmed", fake.runs[0]?.id]);
    expect(fake.runs).toHaveLength(1);
  });

  test("that the server does not know for 60 s was not taken, and may be submitted again", async () => {
    const { make, fake } = await start({ fault: ({ route }) => (route === "POST /prompt" ? "drop" : undefined) });
    const { outcome, checkpoints, seconds } = await make();
    expect([outcome, checkpoints, fake.runs]).toEqual(["not taken: ECONNRESET", ["unconfirmed", null], []]);
    expect(seconds).toBeGreaterThanOrEqual(60);
    expect(seconds).toBeLessThan(62);
  });

  test("that the server knows only after a while is followed: a proxy may have held it back", async () => {
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
    const { make, fake } = await start({
      fault({ route, serve }) {
        if (route === "POST /prompt") return serve().then(() => "drop");
        if (route !== "GET /api/jobs/{id}") return undefined;
        return answer === "drop" ? answer : answer.clone();
      },
    });
    const { outcome, checkpoints, seconds } = await make();
    expect(outcome).toMatch(/^unclear: ECONNRESET; /);
    expect([checkpoints, fake.runs.length, seconds > 30 * 60]).toEqual([["unconfirmed"], 1, true]);
  });
});

describe("after a restart of the service", () => {
  test("what was being submitted and is known there is followed", async () => {
    const { make, fake } = await start();
    await make();
    const job = fake.runs[0]?.id ?? "";
    const made = await make({ resume: { state: "unconfirmed", job } });
    expect(made).toMatchObject({ outcome: "made", checkpoints: [job] });
    expect(fake.runs).toHaveLength(1);
  });

  test("what was being submitted and is unknown there was not taken", async () => {
    const { make, fake } = await start();
    const resume = { state: "unconfirmed", job: "6f1b0a52-0000-4000-8000-000000000000" } as const;
    expect(await make({ resume })).toMatchObject({
      outcome: "not taken: the local service ended while it submitted this video",
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
      "http://gpu.test:8091 no longer knows this video's job (HTTP 404: Job not found); it may have been restarted",
    );
    expect([checkpoints, fake.runs.length]).toEqual([[], 1]);
  });
});

test("a stop while the submit is out leaves the name for the next process", async () => {
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

describe("a graph that the server finds fault with", () => {
  const words = "KSampler (node 3): Value not in list: unet_name: 'wan.safetensors' not in []";

  test("in some nodes is refused though the reply is 200, and what runs there is stopped", async () => {
    const { make, fake } = await start({ faulty: ["3"] });
    const { outcome, checkpoints } = await make();
    expect(outcome).toBe(`http://gpu.test:8091 refused the workflow: ${words}`);
    expect([checkpoints, fake.runs]).toEqual([["unconfirmed", null], [expect.objectContaining({ isCancelled: true })]]);
  });

  test("in all is refused with 400", async () => {
    const { make, fake } = await start({ faulty: ["3", "9"] });
    const { outcome, checkpoints } = await make();
    expect(outcome).toContain(`refused the workflow: ${words}; SaveVideo (node 9)`);
    expect([checkpoints, fake.runs]).toEqual([["unconfirmed", null], []]);
  });
});

describe("what a workflow has made", () => {
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
      "is something else",
      { "9": { images: [file("fox.webm"), file("fox.png")] } },
      "the workflow made fox.webm, fox.png, and no .mp4",
    ],
    ["is what it was given", { "9": { images: [file("in.mp4", "input")] } }, "the workflow made no file"],
    ["is nothing", {}, "the workflow made no file"],
  ])("%s, and is named", async (_, outputs, error) => {
    const { make } = await start({ outputs: () => outputs });
    expect(await make()).toMatchObject({ outcome: error, video: undefined });
  });

  test("is an error, in the server's words", async () => {
    const failure = { node_type: "KSampler", exception_message: "CUDA out of memory" };
    const { make } = await start({ failure: () => failure });
    expect((await make()).outcome).toBe("KSampler: CUDA out of memory");
  });
});

describe("images", () => {
  test("are uploaded, and the graph has their name there; an upload that is repeated makes no second file", async () => {
    const { make, fake, engine, folder } = await start({ graph: withImage });
    const path = join(folder, "a.png");
    writeFileSync(path, "pixels");
    const images = [{ path, format: "png" as const, megapixels: 1, name: "https://images.example/a.png" }];
    for (let count = 0; count < 2; count++) expect((await make({ images })).outcome).toBe("made");
    const names = fake.runs.map(({ graph }) => graph["10"]?.inputs.image);
    expect([engine.maxImages, names]).toEqual([1, [...fake.uploads.keys(), ...fake.uploads.keys()]]);
  });

  test("are as many as there are places", async () => {
    const nodes = { "10": { class_type: "LoadImage", inputs: { image: "{{image}}", last: "{{image_2}}" } } };
    expect((await start({ graph: workflow({}, nodes) })).engine.maxImages).toBe(2);
    expect((await start()).engine.maxImages).toBe(0);
  });

  test.each([
    ["refused", 413, /^http:\/\/gpu\.test:8091 refused an image: HTTP 413/],
    ["not taken now", 502, /^not taken: HTTP 502/],
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

test("an older version is told, and nothing is submitted: it would not keep the job's name", async () => {
  const { make, fake, engine } = await start({ version: "0.24.1" });
  const words = "is ComfyUI 0.24.1, which is too old: 0.25 or newer is needed";
  await expect(engine.check(new AbortController().signal)).rejects.toMatchObject({ code: "usage", message: words });
  expect(await make()).toMatchObject({ outcome: `not taken: ${words}`, checkpoints: [] });
  expect(fake.runs).toEqual([]);
});

test("a key goes along where one is set; without it a proxy's refusal is told", async () => {
  const own = await start({ key: "canary-key", engineKey: "canary-key", graph: workflow() });
  expect([await own.engine.check(new AbortController().signal), (await own.make()).outcome]).toEqual([
    "ComfyUI 0.36.0",
    "made",
  ]);
  const other = await start({ key: "canary-key" });
  const refused = { code: "auth", message: "refuses the key (HTTP 401)" };
  await expect(other.engine.check(new AbortController().signal)).rejects.toMatchObject(refused);
  expect((await other.make()).outcome).toBe("not taken: refuses the key (HTTP 401)");
});

test("another server at the address is told", async () => {
  const { engine } = await start({ fault: () => Response.json({ object: "list" }) });
  await expect(engine.check(new AbortController().signal)).rejects.toThrow(
    "does not answer (does not respond like ComfyUI (HTTP 200))",
  );
});

describe("to cancel a job", () => {
  const signal = new AbortController().signal;

  test("stops it", async () => {
    const { engine, make, fake, clock } = await start({ completeAfterMs: Number.POSITIVE_INFINITY });
    const making = make();
    await clock.sleep(60_000);
    expect(await engine.cancel?.(fake.runs[0]?.id ?? "", signal)).toBe(true);
    expect((await making).outcome).toMatch(/cancelled/);
  });

  test("is what an older version cannot", async () => {
    const { engine } = await start({
      fault: ({ route }) => (route.includes("cancel") ? new Response("404: Not Found", { status: 404 }) : undefined),
    });
    expect(await engine.cancel?.("6f1b0a52-0000-4000-8000-000000000000", signal)).toBe(false);
  });
});
