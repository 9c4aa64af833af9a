import { writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { readWorkflow } from "../../../../src/server/engines/comfyui/workflow.ts";
import { createEngines, listOffers } from "../../../../src/server/engines/engines.ts";
import { createVirtualClock } from "../../../clock.ts";
import type { MakeOptions } from "../videos/run.ts";
import { start, withImage, workflow, writeWorkflow } from "./run.ts";

function read(engine: string) {
  const settings = {
    engines: [engine],
    readKey: () => undefined,
    timeoutMs: 60_000,
    jobs: undefined,
    onNote: () => {},
  };
  return createEngines(settings, { ...createVirtualClock(), fetch: () => Promise.reject(new Error("unused")) });
}

/** The inputs that a run gets for these placeholders. */
async function fill(inputs: object, made: MakeOptions = {}) {
  const { make, fake } = await start({ graph: workflow(inputs) });
  const { outcome } = await make(made);
  const { text: _, ...filled } = fake.runs[0]?.graph["6"]?.inputs ?? {};
  return { outcome, filled, runs: fake.runs };
}

describe("a placeholder", () => {
  test("that is the whole string becomes a number if its value is one, and stays text inside a longer string", async () => {
    const inputs = {
      width: "{{width}}",
      size: "{{ width }}x{{height}}",
      list: [["{{duration}}"]],
      plain: 3,
      seed: "{{seed}}",
    };
    const { filled } = await fill(inputs, { unset: [], extras: { seed: 7 } });
    expect(filled).toEqual({ width: 1280, size: "1280x720", list: [[5]], plain: 3, seed: 7 });
    const sized = { unset: [], extras: { size: "640x384" } } as const;
    expect((await fill(inputs, sized)).filled).toMatchObject({ width: 640, size: "640x384" });
  });

  test("and a fixed number that JavaScript cannot hold are sent as they are written", async () => {
    const written = { seed: "18446744073709551615", step: "1.0", tiny: "0.10000000000000000555", big: "-1E+30" };
    const fixed = Object.entries(written).map(([name, number]) => `"${name}":${number}`);
    const placeholders = ["{{seed=18446744073709551615}}", "{{cut=9007199254740993}}", "at {{cut}}"];
    const inputs = [...fixed, ...placeholders.map((text, index) => `"p${index}":"${text}"`)].join(",");
    const { make, fake } = await start({ graph: JSON.stringify(workflow({ own: 0 })).replace('"own":0', inputs) });
    expect((await make()).outcome).toBe("made");
    const { text = "" } = fake.runs[0] ?? {};
    expect(text).toContain(fixed.join(","));
    expect(text).toContain('"p0":18446744073709551615,"p1":9007199254740993,"p2":"at 9007199254740993"');
    expect(text).toContain('"seed":18446744073709551615,"steps":20');
  });

  test("in a prompt is part of the prompt, and a number as a prompt stays a string", async () => {
    expect((await fill({ own: "{{prompt}}" }, { prompt: "{{seed}} $& {{prompt}}" })).filled).toEqual({
      own: "{{seed}} $& {{prompt}}",
    });
    expect((await fill({ own: "{{prompt}}" }, { prompt: "42" })).filled).toEqual({ own: "42" });
  });

  test("without a value in the request has its own default, or else the service's", async () => {
    const inputs = {
      a: "{{width=832}}",
      b: "{{height}}",
      c: "{{negative_prompt=blurry, dark}}",
      d: "{{guidance_scale=3.5}}",
    };
    expect((await fill(inputs)).filled).toEqual({ a: 832, b: 720, c: "blurry, dark", d: 3.5 });
    const asked = { unset: [], extras: { negative_prompt: "rain", guidance_scale: 6 } } as const;
    expect((await fill({ ...inputs, e: "{{duration}}" }, asked)).filled).toEqual({
      a: 1280,
      b: 720,
      c: "rain",
      d: 6,
      e: 5,
    });
    expect((await fill({ own: "{{negative_prompt}}" })).filled).toEqual({ own: "" });
  });

  test("for the seed gets another one for each generation, because ComfyUI answers an equal graph with the earlier video", async () => {
    const { make, fake } = await start();
    for (let count = 0; count < 2; count++) await make();
    const [first, second] = fake.runs.map(({ graph }) => graph["3"]?.inputs.seed);
    expect([first, second]).toEqual([expect.any(Number), expect.any(Number)]);
    expect(first).not.toBe(second);
  });

  test.each<[MakeOptions, object, number]>([
    [{}, {}, 81],
    [{ unset: [] }, {}, 81],
    [{ extras: { fps: 24 } }, {}, 121],
    [{ extras: { num_frames: 33 } }, {}, 33],
    [{}, { frames: "{{frames=49}}" }, 49],
    [{ unset: ["aspectRatio", "resolution"] }, { frames: "{{frames=49}}" }, 81],
  ])("for frames counts them from length and frame rate: %j", async (made, changes, frames) => {
    const inputs = { frames: "{{frames}}", fps: "{{fps=16}}", width: "{{width}}", height: "{{height}}", ...changes };
    expect((await fill(inputs, made)).filled).toMatchObject({ frames });
  });
});

describe("a request that does not fit the workflow fails, and nothing is submitted", () => {
  test.each<[string, MakeOptions, object, string]>([
    ["a length", { unset: ["aspectRatio", "resolution"] }, {}, "the workflow has no {{duration}}"],
    ["a size", { unset: ["aspectRatio", "duration"] }, { a: "{{height}}" }, "the workflow has no {{width}}"],
    ["more", { extras: { seed: 1, fps: 3, num_frames: 4 } }, {}, "the workflow has no {{fps}} and no {{frames}}"],
    [
      "too little",
      {},
      { a: "{{fps}}", b: "{{image}}" },
      "the workflow needs a value for {{fps}} and {{image}}: send fps and imageUrl",
    ],
  ])("%s", async (_, made, inputs, words) => {
    const { outcome, runs } = await fill(inputs, made);
    expect([outcome, runs]).toEqual([expect.stringContaining(words), []]);
    expect(outcome).toMatch(/; nothing was submitted$/);
  });
});

describe("a file that is not a workflow is a usage error", () => {
  test.each<[string, unknown, RegExp]>([
    ["of the UI's format", { nodes: [{ id: 1 }], links: [] }, /UI format.*does not accept/],
    ["of the UI's format in a wrapper", { id: 7, data: { workflow: { nodes: [], links: [] } } }, /UI format/],
    ["of something else", { prompt: "a fox" }, /not a ComfyUI workflow in API format: it has "prompt", and no node\.$/],
    [
      "of much else",
      { a: 1, b: 2, c: {}, d: 4, e: 5, f: 6 },
      /: it has "a", "b", "c", "d", "e", others, and no node\.$/,
    ],
    ["of a list", [workflow()], /is not a ComfyUI workflow in API format: it is a list\.$/],
    ["of a text", '"a fox"', /is not a ComfyUI workflow in API format: it has no node\.$/],
    ["of nothing", {}, /is not a ComfyUI workflow in API format: it has no node\.$/],
    [
      "of two workflows",
      { draft: workflow(), input: { final: workflow() } },
      /contains 2 workflows: "draft" and "input\.final"\.$/,
    ],
    [
      "with something else beside its nodes",
      { input: { workflow: { ...workflow(), extra_data: { a: 1 } } } },
      /is not .* in API format: "extra_data" is beside the nodes of "input\.workflow", and is no node\.$/,
    ],
    [
      "with a node of no type",
      { ...workflow(), "10": { inputs: {} } },
      /: "10" is beside its nodes, and is no node\.$/,
    ],
    ["of no JSON", "{\n  // a comment\n}", /is not JSON at line 2, column 3/],
    [
      "without a prompt",
      { "1": { class_type: "A", inputs: { text: "{{promt}}", filename_prefix: "x" } } },
      /has no \{\{prompt\}\}/,
    ],
    [
      "with a node that has no inputs",
      workflow({}, { "10": { class_type: "Wan" } }),
      /without "inputs".*: Wan, node 10\./,
    ],
    ["with inputs that are a list", workflow({}, { "10": { class_type: "Wan", inputs: [] } }), /: Wan, node 10\./],
    [
      "without a name to put the id in",
      { "1": { class_type: "A", inputs: { text: "{{prompt}}", path: "out.mp4" } } },
      /has no \{\{id\}\}/,
    ],
    ["with frames and no frame rate", workflow({ a: "{{frames}}" }), /\{\{frames\}\} but no \{\{fps\}\}/],
  ])("%s", (_, content, message) => {
    const file = writeWorkflow(content);
    const readIt = () => read(`wan-2.5=comfyui:http://gpu-1:8188#${file}`);
    expect(readIt).toThrow(expect.objectContaining({ code: "usage", message: expect.stringMatching(message) }));
    expect(readIt).toThrow(file);
  });

  test("in the wrong format has an error that says how to save it", () => {
    const file = writeWorkflow({ nodes: [] });
    const hint = expect.stringContaining('"Save (API Format)"');
    expect(() => read(`wan-2.5=comfyui:http://gpu-1#${file}`)).toThrow(expect.objectContaining({ hint }));
  });

  test("that is missing", () => {
    expect(() => read("wan-2.5=comfyui:http://gpu-1#none.json")).toThrow(
      "The ComfyUI workflow none.json cannot be read: it does not exist.",
    );
  });
});

test.each<[string, (text: string) => Buffer]>([
  ["with a byte order mark", (text) => Buffer.from(`\ufeff${text}`)],
  ["in UTF-16", (text) => Buffer.from(`\ufeff${text}`, "utf16le")],
  ["in UTF-16 of the other order", (text) => Buffer.from(`\ufeff${text}`, "utf16le").swap16()],
  ["in what is sent to ComfyUI", (text) => Buffer.from(`{"client_id":"a","prompt":${text}}`)],
  ["in what is sent to a worker", (text) => Buffer.from(`{"input":{"workflow":${text},"images":[]}}`)],
  ["in an object of its own", (text) => Buffer.from(`{"workflow":${text}}`)],
  ["beside its UI format", (text) => Buffer.from(`{"workflow":{"nodes":[{"id":1}],"links":[]},"output":${text}}`)],
  ["with other keys beside its nodes", (text) => Buffer.from(`{"version":0.4,"tags":["a"],"of":null,${text.slice(1)}`)],
])("a workflow %s is read", (_, write) => {
  const plain = readWorkflow(writeWorkflow(withImage), ["wan-2.5"]);
  const file = writeWorkflow("");
  writeFileSync(file, write(JSON.stringify(withImage)));
  expect(readWorkflow(file, ["wan-2.5"])).toEqual(plain);
});

test("a list of models is not available", async () => {
  const settings = {
    engines: [`wan-2.5=comfyui:http://gpu-1:8188#${writeWorkflow(withImage)}`],
    readKey: () => undefined,
  };
  const io = { ...createVirtualClock(), fetch: () => Promise.reject(new Error("unused")) };
  const listed = listOffers(settings, io, new AbortController().signal);
  await expect(listed).rejects.toMatchObject({ code: "usage" });
});

test("--engine names the model, the address and the file", () => {
  const file = writeWorkflow(withImage);
  expect(read(`wan-2.5=comfyui:http://gpu-2:8188/#${file}`)).toMatchObject([
    { name: "http://gpu-2:8188", upstreamModel: file, models: ["wan-2.5"], maxImages: 1, isSimulation: false },
  ]);
  for (const engine of [`comfyui:http://gpu-2#${file}`, "wan-2.5=comfyui:http://gpu-2"])
    expect(() => read(engine)).toThrow("needs a model and the file of a workflow that generates it");
  for (const engine of ["comfyui", `wan-2.5=comfyui#${file}`]) expect(() => read(engine)).toThrow("needs a URL");
});

test("a model that needs several images needs a workflow with placeholders for them", () => {
  const few = `kling-1.6-elements=comfyui:http://gpu-1#${writeWorkflow(withImage)}`;
  expect(() => read(few)).toThrow(/kling-1\.6-elements needs 2 to 4 images, but .* has placeholders for 1\./);
  const inputs = { a: "{{image}}", b: "{{image_2}}" };
  const enough = `kling-1.6-elements=comfyui:http://gpu-1#${writeWorkflow(workflow(inputs))}`;
  expect(read(enough)).toMatchObject([{ maxImages: 2 }]);
});
