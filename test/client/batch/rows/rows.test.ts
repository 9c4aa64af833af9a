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

test("a row of JSONL has its values as they are, and a list of images", async () => {
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

test("every fault of the file is told, with line and column", async () => {
  const text = [
    "id,prompt,aspect_ratio,duration,model,imageUrl,callback_url,set.prompt,set.model",
    "fox,a fox,16x9,-1,,,nowhere,,",
    'fox,,,,,,,,"[1]"',
    "x,a,,,kling-1.6-elements,,,,",
    `x,a,,,,,,b,`,
  ].join("\n");
  expect(await faultsOf(read(text))).toEqual([
    'line 2, column 3 (aspect_ratio): must be width:height, such as 16:9, not "16x9"',
    'line 2, column 4 (duration): must be a length in seconds, e.g. 8, not "-1"',
    'line 2, column 7 (callback_url): must be an http(s) URL, not "nowhere": the service itself calls it',
    'line 3, column 1 (id): "fox" is also the id of line 2',
    "line 3, column 2 (prompt): is empty",
    "line 3, column 9 (set.model): must be text, such as '\"5\"', not [1]",
    "line 4, column 6 (imageUrl): kling-1.6-elements needs 2 to 4 images, not 0",
    'line 5, column 1 (id): "x" is also the id of line 4',
    "line 5, column 8 (set.prompt): is a second prompt",
  ]);
});

test("what is wrong with a flag is told once, and names the flag", async () => {
  const texts = { model: "wan-2.5", aspectRatio: "wide", duration: "" };
  const flags = { texts, output: "-", images: { imageUrl: ["https://"] }, each: ["resolution=720p, "] };
  expect(await faultsOf(read("prompt\na\nb\n", flags))).toEqual([
    "--each resolution has an empty value",
    '--aspect-ratio must be width:height, such as 16:9, not "wide".',
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

test.each(['{"prompt":"a fox"}\n{"promt":"an owl"}\n', '{"promt":"a fox"}\n'])(
  "a wrong column of JSONL is named beside the faults that it makes: %j",
  async (text) => {
    const error = await read(text, { format: "jsonl" }).catch((error) => error);
    expect(error).toMatchObject({
      exit: 2,
      message: expect.stringContaining("prompt"),
      hint: "Nothing uses the column promt; did you mean prompt?",
    });
  },
);

test("a place with the extension of another format gets one note", async () => {
  const { notes } = await read("id,prompt\na,a fox\nb,an owl\n", { output: "{id}.webm" });
  expect(notes).toEqual(["Videos are .mp4 files, and vidgen does not convert them: a.webm has another extension."]);
});

test("a column that nothing uses, with a name like a known one, gets a note", async () => {
  const { notes } = await read("prompt,modle,durations,animal\na,veo-3.1,8,fox\n", { output: "{durations}.mp4" });
  expect(notes).toEqual(["Nothing uses the column modle; did you mean model?"]);
});
