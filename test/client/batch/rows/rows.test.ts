import { expect, test } from "vitest";
import type { RowOptions } from "../../../../src/client/batch/rows/rows.ts";
import { faultsOf, read } from "./read.ts";

const address = "https://images.example/1.png";

/** What the rows send. */
async function requestsOf(text: string, options: Partial<RowOptions> = {}): Promise<unknown[]> {
  const { rows } = await read(text, options);
  return Promise.all(rows.map((row) => row.load()));
}

test("each column has its field, however it is spelled", async () => {
  const sent = {
    prompt: "a fox",
    model: "veo-3.1",
    aspectRatio: "16:9",
    duration: 8,
    resolution: "720p",
    imageUrl: address,
    callback_url: "https://hooks.example/",
    seed: 5,
    mode: "fast",
  };
  const cells = `a fox,veo-3.1,16:9,8s,720p,${address},https://hooks.example/,5,fast,red`;
  for (const header of [
    "prompt,model,aspectRatio,duration,resolution,imageUrl,callback_url,set.seed,set.mode,colour",
    "Prompt,MODEL,aspect_ratio,duration,resolution,image_url,callback-url,set.seed,set.mode,colour",
    " prompt ,model,aspect-ratio,Duration,resolution,image-url,callbackUrl,set.seed,set.mode,colour",
  ])
    expect(await requestsOf(`${header}\n${cells}\n`)).toEqual([sent]);
});

test("a row of JSONL keeps the types of its values, and can have a list of images", async () => {
  const row = { prompt: "a fox", model: "kling-1.6-elements", imageUrl: [address, `${address}?key=1`], duration: 8 };
  const set = { seed: "5", a: null, "b=c": { d: [1] } };
  const { rows } = await read(JSON.stringify({ ...row, set, id: 7, meta: { x: 1 } }), { format: "jsonl" });
  const { imageUrl, ...rest } = row;
  expect(await rows[0]?.load()).toEqual({ ...rest, imageUrls: imageUrl, ...set });
  expect(rows[0]).toMatchObject({ id: "7", record: { imageUrls: [address, expect.stringMatching(/^sha256:/)] } });
});

test("the flags give what a row leaves out", async () => {
  const rows = '{"prompt":"a","imageUrl":[],"model":null,"duration":""}';
  expect(
    await requestsOf(rows, {
      format: "jsonl",
      images: { imageUrl: [address] },
      texts: { model: "wan-2.5", duration: "4" },
    }),
  ).toEqual([{ prompt: "a", model: "wan-2.5", duration: 4, imageUrl: address }]);
  const flags = {
    texts: { model: "ray-3", aspectRatio: "1:1" },
    images: { imageUrl: [address] },
    set: ["seed=1", "duration=4", "imageUrls=[]"],
  };
  expect(
    await requestsOf(
      `prompt,model,aspect_ratio,duration,set.seed,image_url\na,,,,,\nb,veo-3.1,9:16,8,2,${address}?2\n`,
      flags,
    ),
  ).toEqual([
    { prompt: "a", model: "ray-3", aspectRatio: "1:1", seed: 1, duration: 4, imageUrls: [] },
    { prompt: "b", model: "veo-3.1", aspectRatio: "9:16", seed: 2, duration: 8, imageUrl: `${address}?2` },
  ]);
});

test("a setting that only begins with image is sent beside the image of a row, and of the flags", async () => {
  const set = ["image_strength=0.5"];
  const images = { imageUrl: [`${address}?flag`] };
  expect(await requestsOf(`prompt,image_url\na,${address}\nb,\n`, { set, images })).toEqual([
    { prompt: "a", model: "wan-2.5", imageUrl: address, image_strength: 0.5 },
    { prompt: "b", model: "wan-2.5", imageUrl: `${address}?flag`, image_strength: 0.5 },
  ]);
  const { rows } = await read("prompt,from,set.imageStrength\na,,\nb,previous,1\n", { output: "{n}.mp4", set });
  expect(rows[1]).toMatchObject({ from: 0, record: { prompt: "b", image_strength: 0.5, imageStrength: 1 } });
});

test("an image of the flags that --set replaces is noted", async () => {
  const { notes } = await read("prompt\na\n", { images: { imageUrl: [address] }, set: ["image_url=x"] });
  expect(notes).toEqual(["--image is not sent: the field image_url says what the source image is."]);
});

test("every fault of the file is reported, with line and column", async () => {
  const text = [
    "id,prompt,aspect_ratio,duration,model,imageUrl,callback_url,set.prompt,set.model",
    "fox,a fox,tall,-1,,,nowhere,,",
    'fox,,,,,,,,"[1]"',
    "x,a,,,kling-1.6-elements,,,,",
    `x,a,,,,,,b,`,
  ].join("\n");
  expect(await faultsOf(read(text))).toEqual([
    'line 2, column 3 (aspect_ratio): must be width:height, such as 16:9, not "tall"',
    'line 2, column 4 (duration): must be a length in seconds, such as 8, not "-1"',
    'line 2, column 7 (callback_url): must be an http(s) URL, not "nowhere": the service itself calls it',
    'line 3, column 1 (id): "fox" is also the id of line 2',
    "line 3, column 2 (prompt): is empty",
    "line 3, column 9 (set.model): must be text, such as '\"5\"', not [1]",
    "line 4, column 6 (imageUrl): kling-1.6-elements needs 2 to 4 images, not 0",
    'line 5, column 1 (id): "x" is also the id of line 4',
    "line 5, column 8 (set.prompt): is a second prompt",
  ]);
});

test("a fault in a flag is reported once, with the name of the flag", async () => {
  const texts = { model: "wan-2.5", aspectRatio: "tall", duration: "" };
  const flags = { texts, output: "-", images: { imageUrl: ["https://"] }, each: ["resolution=720p, "] };
  expect(await faultsOf(read("prompt\na\nb\n", flags))).toEqual([
    "--each resolution has an empty value",
    '--aspect-ratio must be width:height, such as 16:9, not "tall".',
    "--duration is empty.",
    "-o must be a file or a folder: stdout can take only one video",
    '--image: must be an http(s) URL, not "https://": the service itself fetches it',
  ]);
  expect(await faultsOf(read("id\na\nb\n"))).toEqual([
    "there is neither a column prompt nor --prompt; the columns are id",
  ]);
});

test("50 faults are shown, and how many more there are; a cell is cut and stays on its line", async () => {
  const cell = `"${"x\n\u001b[31m".repeat(60)}"`;
  const error = await read(`prompt,aspectRatio\n${`a,${cell}\n`.repeat(62)}`).catch((error) => error);
  expect(error).toMatchObject({ exit: 2, message: expect.stringMatching(/^stdin: 62 faults; nothing was sent\.\n/) });
  const lines = error.message.split("\n").slice(1);
  expect(lines).toHaveLength(51);
  expect(lines.at(-1)).toBe("... and 12 more");
  expect(lines[0].length).toBeLessThan(200);
});

test.each([
  ["a\u0007b", "must not have control characters"],
  ["x".repeat(201), "must have at most 200 characters, not 201"],
])("the id %j is a fault", async (id, fault) => {
  expect(await faultsOf(read(`id,prompt\n${id},a\n`))).toEqual([`line 2, column 1 (id): ${fault}`]);
});

test("a column that is nearly a known one is reported with the faults that it causes", async () => {
  const fault = "nothing uses the column promt; did you mean prompt? Rename it, or add --ignore-columns promt";
  expect(await faultsOf(read('{"promt":"a fox"}\n', { format: "jsonl" }))).toEqual([
    "there is neither a column prompt nor --prompt; the columns are promt",
    fault,
  ]);
  expect(await faultsOf(read('{"prompt":"a fox"}\n{"promt":"an owl"}\n', { format: "jsonl" }))).toEqual([
    fault,
    "line 2 (prompt): is empty",
  ]);
});

test("output paths with the extension of another format get one note", async () => {
  const { notes } = await read("id,prompt\na,a fox\nb,an owl\n", { output: "{id}.webm" });
  expect(notes).toEqual(["Videos are .mp4 files, and vidgen does not convert them: a.webm has another extension."]);
});

test.each([
  ["Aspect Ratio", "9:16", { aspectRatio: "9:16" }],
  ["Aspect-ratio", "9:16", { aspectRatio: "9:16" }],
  ["ASPECT_RATIO (w:h)", "9:16", { aspectRatio: "9:16" }],
  ["ratio", "9:16", { aspectRatio: "9:16" }],
  ["Seconds", "4", { duration: 4 }],
  ["length", "4", { duration: 4 }],
  ["Length (s)", "4", { duration: 4 }],
  ["Duration (s)", "4", { duration: 4 }],
  ["duration [sec]", "4", { duration: 4 }],
  ["Duration in seconds", "4", { duration: 4 }],
  ["duration_sec", "4", { duration: 4 }],
  ["durationSeconds", "4", { duration: 4 }],
  ["Image URL", address, { imageUrl: address }],
  ["image", address, { imageUrl: address }],
  ["Image (URL)", address, { imageUrl: address }],
  ["input image", address, { imageUrl: address }],
  ["input_reference", address, { imageUrl: address }],
  ["source_image", address, { imageUrl: address }],
  ["Image Path", address, { imageUrl: address }],
  ["Call-back URL", "https://hooks.example/", { callback_url: "https://hooks.example/" }],
  ["Set.negative_prompt", "rain", { negative_prompt: "rain" }],
])("the column %j has its field", async (header, cell, sent) => {
  expect(await requestsOf(`Prompt,${header}\na fox,${cell}\n`)).toEqual([
    { prompt: "a fox", model: "wan-2.5", ...sent },
  ]);
  const object = JSON.stringify({ prompt: "a fox", [header.replace("Set.", "set.")]: cell });
  expect(await requestsOf(object, { format: "jsonl" })).toEqual([{ prompt: "a fox", model: "wan-2.5", ...sent }]);
});

test.each([
  ["Duration (ms)", "8000", "nothing uses the column Duration (ms); duration is in s. Rename it"],
  ["Duration (min)", "1", "nothing uses the column Duration (min); duration is in s. Rename it"],
  ["duration_ms", "8000", "nothing uses the column duration_ms; duration is in s. Rename it"],
  ["lengthMinutes", "1", "nothing uses the column lengthMinutes; duration is in s. Rename it"],
  ["Prompt (English)", "a", "nothing uses the column Prompt (English); did you mean prompt? Rename it"],
  ["durations", "8", "nothing uses the column durations; did you mean duration? Rename it"],
  ["modle", "veo-3.1", "nothing uses the column modle; did you mean model? Rename it"],
  [
    "first frame",
    "https://x.example/fox.PNG?a=1",
    "nothing uses the column first frame; its images would not be sent.",
  ],
  ["still", "shots/fox.jpg", "nothing uses the column still; its images would not be sent."],
  ["pic", '"data:image/png;base64,AA=="', "nothing uses the column pic; its images would not be sent."],
  ["Image to use", "https://x.example/1", "nothing uses the column Image to use; its images would not be sent."],
])("the column %j is refused, unless it is to be ignored", async (header, cell, fault) => {
  const text = `prompt,${header}\na fox,\na wolf,${cell}\n`;
  expect(await faultsOf(read(text))).toEqual([expect.stringContaining(fault)]);
  const { rows, notes } = await read(text, { ignoreColumns: ["notes", header] });
  expect(rows.map(({ record }) => record)).toEqual(["a fox", "a wolf"].map((prompt) => ({ prompt, model: "wan-2.5" })));
  expect(notes).toEqual([]);
});

test("each other column that nothing uses is named, and one that a template uses is not", async () => {
  const object = {
    prompt: "a fox",
    seconds: "4",
    size: "1280x720",
    negative_prompt: "rain",
    meta: { a: 1 },
    animal: "x",
  };
  const { rows, notes } = await read(JSON.stringify(object), { format: "jsonl", output: "{animal}.mp4" });
  expect(rows[0]?.record).toEqual({ prompt: "a fox", model: "wan-2.5", duration: 4 });
  expect(notes).toEqual([
    "Nothing uses the columns size, negative_prompt, meta. A column set.<field> is sent as that field; --ignore-columns hides this note.",
  ]);
  const { notes: one } = await read("prompt,Negative Prompt,speech\na,b,c\n", { ignoreColumns: ["Speech"] });
  expect(one).toEqual([
    "Nothing uses the column Negative Prompt. A column set.<field> is sent as that field; --ignore-columns hides this note.",
  ]);
});

test("--ignore-columns also ignores a column that vidgen knows", async () => {
  const options = { ignoreColumns: ["reference", "Duration"] };
  expect(await requestsOf("prompt,reference,duration\na,T-17,long\n", options)).toEqual([
    { prompt: "a", model: "wan-2.5" },
  ]);
});

test.each(["5,5", "8 seconds", "5 s", "long", "1e3"])("the duration %j is refused", async (duration) => {
  const [fault] = await faultsOf(read(JSON.stringify({ prompt: "a", duration }), { format: "jsonl" }));
  expect(fault).toMatch(/^line 1 \(duration\): must be a length in seconds, such as [58](\.5)?, not "/);
});
