import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { tinyMp4 } from "../mp4.ts";
import { type ComfyUiOptions, createComfyUi } from "../server/engines/comfyui/fake.ts";
import { withImage, workflow, writeWorkflow } from "../server/engines/comfyui/run.ts";
import { createWorld } from "../vidgen.ts";

// A ComfyUI server makes the video of a command, in process and on the virtual clock.

async function createScene(options: ComfyUiOptions = {}, graph: unknown = workflow()) {
  const world = await createWorld();
  const fake = createComfyUi({ now: world.io.now, ...options });
  delete world.env.VIDGEN_BASE_URL;
  delete world.env.VIDGEN_API_KEY;
  world.faults.push((request) => (new URL(request.url).hostname === "gpu.test" ? fake.fetch(request) : undefined));
  const file = join(world.folder, "fox.mp4");
  const engine = `wan-2.5=comfyui:http://gpu.test:8188#${writeWorkflow(graph)}`;
  const run = (...words: string[]) => world.vidgen(...words, "--engine", engine);
  const generate = (...words: string[]) => run("generate", "a red fox", "-m", "wan-2.5", "-o", file, ...words);
  return { world, fake, file, run, generate, saved: () => new Uint8Array(readFileSync(file)) };
}

const video = tinyMp4(JSON.stringify("a red fox, cinematic"));

test("generate saves what the workflow made, run once", async () => {
  const { generate, fake, saved } = await createScene();
  expect(await generate()).toMatchObject({ code: 0 });
  expect([saved(), fake.runs.length]).toEqual([video, 1]);
});

test("a workflow that only saves a WebM has made a video, and the format of the file is reported", async () => {
  const webm = Buffer.from("1a45dfa39f4286810142f7810142f2810442f381084282847765626d", "hex");
  const name = (id: string) => `fox_${id}.webm`;
  const { generate, saved } = await createScene({
    outputs: ({ id }) => ({
      "9": { images: [{ filename: name(id), subfolder: "", type: "output" }], animated: [true] },
    }),
    video: () => webm,
  });
  expect(await generate()).toMatchObject({ code: 0, stderr: expect.stringContaining("is not an .mp4: it is a WebM") });
  expect(saved()).toEqual(new Uint8Array(webm));
});

test.each(["--max-credits", "--max-cost"])(
  "%s says that a server of one's own charges nothing to count",
  async (flag) => {
    const { generate, fake } = await createScene();
    const { code, stderr } = await generate(flag, "5");
    expect([code, fake.runs]).toEqual([7, []]);
    expect(stderr).toContain("A server of your own charges nothing that vidgen could count: leave the limit out.");
  },
);

test("what the flags ask for is in the graph, an image under its name there", async () => {
  const graph = {
    ...withImage,
    "11": { class_type: "Size", inputs: { width: "{{width}}", height: "{{height}}", length: "{{duration}}" } },
  };
  const { generate, fake } = await createScene({}, graph);
  const image =
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const flags = ["--aspect-ratio", "9:16", "--duration", "4", "--set", "seed=7", "--image", image];
  expect(await generate(...flags)).toMatchObject({ code: 0 });
  expect(fake.runs).toMatchObject([
    {
      graph: {
        "3": { inputs: { seed: 7 } },
        "10": { inputs: { image: [...fake.uploads.keys()][0] } },
        "11": { inputs: { length: 4 } },
      },
    },
  ]);
});

test("after a submission without a reply, the next command looks it up and resumes it", async () => {
  let submits = 0;
  const { generate, run, fake, file, saved } = await createScene({
    fault({ route, serve }) {
      if (route === "POST /prompt") submits++;
      return route === "POST /prompt" ? serve().then(() => "drop") : undefined;
    },
  });
  const first = await run("generate", "a red fox", "-m", "wan-2.5", "--no-wait");
  expect(await run("wait", first.stdout.trim(), "-o", file)).toMatchObject({ code: 0 });
  expect([saved(), submits, fake.runs.length]).toEqual([video, 1, 1]);
  expect(await generate("--overwrite")).toMatchObject({ code: 0 });
});

test("what the workflow has no place for fails, with nothing submitted", async () => {
  const { generate, fake } = await createScene();
  const { code, stderr } = await generate("--duration", "9");
  expect([code, fake.runs]).toEqual([1, []]);
  expect(stderr).toContain(
    "the workflow has no {{duration}} for duration: add it to the workflow, or leave duration out",
  );
});

test("a workflow that cannot be used is a usage error, and nothing is started", async () => {
  const { world, generate, fake } = await createScene({}, { nodes: [], links: [] });
  expect(await generate()).toMatchObject({ code: 2, stderr: expect.stringContaining('"Save (API Format)"') });
  expect([(await world.vidgen("list")).stdout, fake.runs]).toEqual(["", []]);
});

test("an old ComfyUI is reported before anything is started", async () => {
  const { world, generate, fake } = await createScene({ version: "0.3.40", hasJobs: false });
  expect(await generate()).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("http://gpu.test:8188 is ComfyUI 0.3.40, which is too old: it has no /api/jobs"),
  });
  expect((await generate()).stderr).not.toContain("variables");
  expect([(await world.vidgen("list")).stdout, fake.runs]).toEqual(["", []]);
});

const page = () => new Response("<html><h1>404 Not Found</h1></html>", { status: 404 });
const spa = () => new Response("<html>A page of a proxy</html>", { headers: { "Content-Type": "text/html" } });

describe("at an address where something else replies", () => {
  test.each<[string, () => Response]>([
    ["a proxy's 404", page],
    ["a page", spa],
    ["another server's JSON", () => Response.json({ detail: "Not Found" }, { status: 404 })],
  ])("a command ends within the minute, nothing is submitted, and the same line starts anew: %s", async (_, answer) => {
    let isWrong = true;
    const { world, generate, fake } = await createScene({ fault: () => (isWrong ? answer() : undefined) });
    // The code of the engine is loaded, which takes time of the clock.
    expect((await generate("--dry-run")).code).toBe(0);
    const from = world.io.now();
    const { code, stderr } = await generate();
    expect([code, fake.runs, world.io.now() - from <= 65_000]).toEqual([8, [], true]);
    expect(stderr).toContain("http://gpu.test:8188 cannot be used: ");
    expect(stderr).toContain("if ComfyUI is behind a path, add it");
    expect(stderr).toMatch(/Nothing was charged/);
    expect(stderr).not.toMatch(/Generating/);
    expect((await world.vidgen("list")).stdout).toMatch(/not submitted/);
    isWrong = false;
    expect([(await generate()).code, fake.runs.length]).toEqual([0, 1]);
  });

  test("a create that it answers with 404 is not taken, and ends the same way", async () => {
    let creates = 0;
    const { generate, fake } = await createScene({
      fault: ({ route }) => (route === "POST /prompt" && ++creates ? page() : undefined),
    });
    const { code, stderr } = await generate();
    expect([code, fake.runs, creates > 1]).toEqual([8, [], true]);
    expect(stderr).toContain("if ComfyUI is behind a path, add it");
  });

  test.each([401, 403, 429, 502])("an answer that may change, HTTP %s, is waited out", async (status) => {
    let isOut = true;
    const { world, generate, fake } = await createScene({
      fault: () => (isOut ? Response.json({ error: "no" }, { status }) : undefined),
    });
    const running = generate();
    await world.io.sleep(50_000);
    isOut = false;
    const { code } = await running;
    if (status === 401 || status === 403) expect([code, fake.runs]).toEqual([3, []]);
    else expect([code, fake.runs.length]).toEqual([0, 1]);
  });

  test("after the create, it is an outage, and the command says that it is being submitted, not generated", async () => {
    let [creates, isOut] = [0, false];
    const { world, generate, fake, saved } = await createScene({
      async fault({ route, serve }) {
        if (route === "POST /prompt") {
          await serve();
          [creates, isOut] = [creates + 1, true];
          return "drop";
        }
        return isOut && route === "GET /api/jobs/{id}" ? page() : undefined;
      },
    });
    const running = generate("--timeout", "1h");
    await world.io.sleep(10 * 60_000);
    const id = (await world.vidgen("list", "--json")).stdout;
    expect(id).toContain("processing");
    isOut = false;
    const { code, stderr } = await running;
    expect([code, creates, fake.runs.length, saved()]).toEqual([0, 1, 1, video]);
    expect(stderr).not.toContain("lost");
  });

  test("the time to wait is over while it is being submitted: the hint says so", async () => {
    let isOut = false;
    const { generate } = await createScene({
      async fault({ route, serve }) {
        if (route === "POST /prompt") {
          await serve();
          isOut = true;
          return "drop";
        }
        return isOut ? page() : undefined;
      },
    });
    const { code, stderr } = await generate("--timeout", "5m");
    expect([code, stderr]).toEqual([
      5,
      expect.stringContaining("being submitted to http://gpu.test:8188, which has not said yet whether it takes it"),
    ]);
  });
});

describe("a job that ComfyUI shows as running", () => {
  test("has a day, since it is not stuck: a render of 40 minutes is common", async () => {
    const { generate, saved } = await createScene({ completeAfterMs: 40 * 60_000 });
    expect(await generate("--timeout", "2h", "--interval", "5m")).toMatchObject({ code: 0 });
    expect(saved()).toEqual(video);
  });

  test("has as long as --engine-timeout says, where it was given", async () => {
    const { generate, fake } = await createScene({ completeAfterMs: 60_000 });
    const { code, stderr } = await generate("--engine-timeout", "20s");
    expect([code, fake.runs]).toMatchObject([4, [{ isCancelled: true }]]);
    expect(stderr).toContain("made no progress with this video for 20 s (in_progress)");
  });

  test("has a time limit below a minute that a moving queue extends", async () => {
    let at = () => 0;
    const count = () => Math.max(0, 8 - Math.floor(at() / 5_000));
    const others = () => {
      const names = Array.from({ length: count() }, (_, index) => `other-${8 - count() + index}`);
      return { running: names.slice(0, 1), waiting: names.slice(1) };
    };
    const { world, generate, saved } = await createScene({ completeAfterMs: 5_000, others });
    const from = world.io.now();
    at = () => world.io.now() - from;
    expect(await generate("--engine-timeout", "12s")).toMatchObject({ code: 0 });
    expect(saved()).toEqual(video);
  });

  test.each([
    ["a time that is none", ["--engine-timeout", "5x"], "--engine-timeout must be a time"],
    ["a time that is none, in a dry run", ["--engine-timeout", "5x", "--dry-run"], "--engine-timeout must be a time"],
  ])("%s is a usage error", async (_, flags, words) => {
    const { generate, fake } = await createScene();
    expect(await generate(...flags)).toMatchObject({ code: 2, stderr: expect.stringContaining(words) });
    expect(fake.runs).toEqual([]);
  });

  test.each([["generate", "a fox"], ["batch", "rows.csv"], ["mcp"], ["wait", "last"]])(
    "vidgen %s refuses --engine-timeout without an engine",
    async (...words) => {
      const { world } = await createScene();
      for (const flags of [["--local"], ["--base-url", "https://api.video.example"]]) {
        const { code, stderr } = await world.vidgen(...words, ...flags, "--engine-timeout", "2h");
        expect([code, stderr]).toEqual([2, expect.stringContaining("--engine-timeout needs --engine")]);
      }
    },
  );

  test("is followed by the command that the hint names with the same limit", async () => {
    const { generate } = await createScene({ completeAfterMs: 40 * 60_000 });
    const { code, stderr } = await generate("--timeout", "1m", "--engine-timeout", "2h");
    expect([code, stderr]).toEqual([5, expect.stringMatching(/Resume with: vidgen wait .* --engine-timeout 2h/)]);
  });
});
