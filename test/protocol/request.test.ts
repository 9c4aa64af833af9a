import { expect, test } from "vitest";
import type { FieldTexts } from "../../src/protocol/fields.ts";
import { buildRequest, type RequestInput } from "../../src/protocol/request.ts";

const image = (name: string) => `https://images.example/${name}.png`;
const [one, two, three, four, five] = [image("1"), image("2"), image("3"), image("4"), image("5")] as const;
const elements = "kling-1.6-elements";

type Input = FieldTexts & Partial<Pick<RequestInput, "set">> & { images?: string[] };

function build({ prompt = "a fox", model = "veo-3.1", images = [], set = [], ...texts }: Input = {}) {
  return buildRequest({ texts: { ...texts, prompt, model }, images: { imageUrl: images }, set }, { isLocal: false });
}

function wire(input: Input): unknown {
  return JSON.parse(JSON.stringify(build(input)));
}

function refuses(input: Input, message: string | RegExp): void {
  expect(() => build(input)).toThrow(message);
  expect(() => build(input)).toThrow(expect.objectContaining({ code: "usage" }));
}

test("the least is a prompt and a model", () => {
  expect(build()).toEqual({ prompt: "a fox", model: "veo-3.1" });
});

test("every flag has its field on the wire", () => {
  const flags = { aspectRatio: "16:9", duration: "8", resolution: "720p", callback_url: "https://hooks.example/done" };
  expect(wire({ ...flags, images: [one] })).toEqual({
    prompt: "a fox",
    model: "veo-3.1",
    aspectRatio: "16:9",
    duration: 8,
    resolution: "720p",
    imageUrl: one,
    callback_url: "https://hooks.example/done",
  });
});

test("a prompt goes word for word", () => {
  expect(build({ prompt: "  a fox\n\truns 🦊 " }).prompt).toBe("  a fox\n\truns 🦊 ");
});

test.each(["", " ", "\n\t"])("the prompt %j is empty", (prompt) => {
  refuses({ prompt }, "The prompt is empty.");
});

test.each([
  ["8", 8],
  ["8.5", 8.5],
  ["8s", 8],
  ["2.5s", 2.5],
])("--duration %s goes as %j", (duration, sent) => {
  expect(build({ duration }).duration).toBe(sent);
});

test.each([
  ["5,5", "5.5"],
  ["8 seconds", "8"],
  ["5 s", "5"],
  ["6sec", "6"],
  ["-1", "8"],
  ["0", "8"],
  ["0.0s", "8"],
  ["1 min", "8"],
  ["0:08", "8"],
  ["1e3", "8"],
  ["0x10", "8"],
  ["long", "8"],
])("--duration %j is refused, and not paid for as typed", (duration, guess) => {
  refuses({ duration }, `--duration must be a length in seconds, such as ${guess}, not "${duration}".`);
  expect(wire({ set: [`duration="${duration}"`] })).toMatchObject({ duration });
});

test.each(["", " "])("--duration %j is empty", (duration) => {
  refuses({ duration }, "--duration is empty.");
});

test.each(["16:9", "9:16", "1:1", "2.39:1", "1920:1080", "21:9", "adaptive"])(
  "--aspect-ratio %s goes as it is",
  (aspectRatio) => {
    expect(build({ aspectRatio }).aspectRatio).toBe(aspectRatio);
  },
);

test.each([
  ["16x9", "16:9"],
  ["16/9", "16:9"],
  ["16 : 9", "16:9"],
  ["9 by 16", "9:16"],
  ["wide", "16:9"],
  ["Portrait", "9:16"],
  ["square", "1:1"],
  ["16:9\n", "16:9"],
])("--aspect-ratio %j goes as %s", (aspectRatio, sent) => {
  expect(build({ aspectRatio }).aspectRatio).toBe(sent);
});

test.each([
  ["1080", "1080p"],
  ["720p", "720p"],
  ["4k", "4k"],
  ["1920x1080", "1920x1080"],
])("--resolution %s goes as %s", (resolution, sent) => {
  expect(build({ resolution }).resolution).toBe(sent);
});

test.each(["", "16", "16:", ":9", "0:9", "16:0", "-16:9", "16:9:1", "tall", "x9"])(
  "--aspect-ratio %j is refused",
  (aspectRatio) => {
    refuses({ aspectRatio }, `--aspect-ratio must be width:height, such as 16:9, not "${aspectRatio}".`);
  },
);

test.each([
  ["a=5", { a: 5 }],
  ["a=5s", { a: "5s" }],
  ['a="5"', { a: "5" }],
  ["a=true", { a: true }],
  ["a=null", { a: null }],
  ["a=", { a: "" }],
  ['a=""', { a: "" }],
  ["a=b=c", { a: "b=c" }],
  ["a=[1,2]", { a: [1, 2] }],
  ['a={"b":{"c":1}}', { a: { b: { c: 1 } } }],
  ['a={"b":', { a: '{"b":' }],
  [" a =1", { a: 1 }],
  ["seed=007", { seed: "007" }],
  ["seed=18446744073709551615", { seed: "18446744073709551615" }],
  ["seed=1e999", { seed: "1e999" }],
])("--set %s sends %j", (setting, fields) => {
  expect(wire({ set: [setting] })).toEqual({ prompt: "a fox", model: "veo-3.1", ...fields });
});

test.each([
  ["duration=4", { duration: "8" }, { duration: 4 }],
  ['duration="5"', { duration: "8" }, { duration: "5" }],
  ["model=veo3.1", {}, { model: "veo3.1" }],
  ["model=my-model", { model: "veo3.1" }, { model: "my-model" }],
  ["aspectRatio=wide", { aspectRatio: "16:9" }, { aspectRatio: "wide" }],
  ["callback_url=x", {}, { callback_url: "x" }],
])("--set %s has the last word", (setting, input, fields) => {
  expect(wire({ ...input, set: [setting] })).toEqual({ prompt: "a fox", model: "veo-3.1", ...fields });
});

test("of two settings of one field the later one counts", () => {
  expect(build({ set: ["seed=1", "seed=2"] }).seed).toBe(2);
});

test.each(["__proto__=1", '__proto__={"polluted":1}', 'a={"__proto__":{"polluted":1}}'])(
  "--set %s does no harm",
  (setting) => {
    const request = build({ set: [setting] });
    expect(Object.getPrototypeOf(request)).toBe(Object.prototype);
    expect(request.polluted).toBe(undefined);
    expect(({} as Record<string, unknown>).polluted).toBe(undefined);
  },
);

test("a number inside an object that JavaScript would change is refused", () => {
  expect(() => build({ set: ['elements=[{"seed":18446744073709551615}]'] })).toThrow(
    /^--set elements contains a number/,
  );
});

test.each(["", "a", "seed", "=5", "=", " =5"])("--set %j is refused", (setting) => {
  refuses({ set: [setting] }, `--set must be field=value, not "${setting}".`);
});

test.each([
  ["model=3", "model", '"3"'],
  ['model=["wan-2.5"]', "model", '["wan-2.5"]'],
])("--set %s is refused: the service takes text there", (setting, field) => {
  refuses({ set: [setting] }, `--set ${field} must be text`);
  expect(build({ set: [`${field}="5"`] })).toMatchObject({ [field]: "5" });
});

test.each([
  ["veo-3.1", [], {}],
  ["veo-3.1", [one], { imageUrl: one }],
  ["my-model-9", [one], { imageUrl: one }],
  [elements, [one, two], { imageUrls: [one, two] }],
  [elements, [one, two, three], { imageUrls: [one, two, three] }],
  [elements, [one, two, three, four], { imageUrls: [one, two, three, four] }],
])("%s with the images %j sends %j", (model, images, fields) => {
  expect(wire({ model, images })).toEqual({ prompt: "a fox", model, ...fields });
});

test.each([
  [[], "not 0"],
  [[one], "not 1"],
  [[one, two, three, four, five], "not 5"],
])("kling-1.6-elements with the images %j is refused", (images, message) => {
  refuses({ model: elements, images }, `kling-1.6-elements needs 2 to 4 images, ${message}.`);
  refuses({ set: [`model=${elements}`], images }, message);
});

test.each(["veo-3.1", "kling-2.6", "my-model-9"])("%s with several images is refused", (model) => {
  refuses({ model, images: [one, two] }, `${model} accepts one image; kling-1.6-elements accepts 2 to 4.`);
});

test("--set overrides how images are passed, and how many", () => {
  expect(wire({ model: elements, set: [`imageUrls=["${one}"]`] })).toMatchObject({ imageUrls: [one] });
  expect(wire({ model: elements, images: [two, three], set: [`imageUrl=${one}`] })).toEqual({
    prompt: "a fox",
    model: elements,
    imageUrl: one,
  });
});

test.each(["imageUrl", "imageUrls", "image_url", "image_urls", "image", "images"])(
  "--set %s=... says itself what the source image is",
  (name) => {
    expect(wire({ images: [one], set: [`${name}=x`] })).toEqual({ prompt: "a fox", model: "veo-3.1", [name]: "x" });
  },
);

test.each([
  "image_strength",
  "imageStrength",
  "imagePrompt",
  "image_prompt",
  "image_end",
  "imageUrlLast",
  "IMAGE",
  "lastImage",
])("--set %s=... is sent beside --image, and the images are counted", (name) => {
  const set = [`${name}=0.5`];
  expect(wire({ images: [one], set })).toEqual({ prompt: "a fox", model: "veo-3.1", imageUrl: one, [name]: 0.5 });
  refuses({ model: elements, images: [one], set }, "kling-1.6-elements needs 2 to 4 images, not 1.");
});

test.each(["data:image/png;base64,iVBORw0KGgo=", "http://127.0.0.1/a.png", "https://images.example/狐.png"])(
  "the image %s goes as it is",
  (url) => {
    expect(build({ images: [url] }).imageUrl).toBe(url);
  },
);

test.each([
  "fox.png",
  "./fox.png",
  "/home/ann/fox.png",
  "C:\\fox.png",
  "file:///fox.png",
  "ftp://x.example/fox.png",
  "data:text/html,x",
  "~",
  "",
])("the image %j is refused: the service cannot fetch it", (url) => {
  refuses({ images: [url] }, `--image must be an http(s) URL, not "${url}": the service itself fetches it.`);
});

test.each(["", "hooks.example/done", "/done", "ftp://hooks.example", "javascript:alert(1)", "https://"])(
  "the callback address %j is refused",
  (callback_url) => {
    refuses({ callback_url }, `--callback-url must be an http(s) URL, not "${callback_url}"`);
  },
);

test.each(["prompt=an owl", "prompt=null"])(
  "--set %s beside a prompt is an error: one of them would be lost",
  (setting) => {
    refuses({ set: [setting] }, "--set prompt=... is a second prompt.");
  },
);

test("the local service gets a last image and references by names of their own, whatever the model takes as images", () => {
  const images = { imageUrl: [one], lastImageUrl: [two], referenceUrls: [three] };
  const input = { texts: { prompt: "a fox", model: "veo-3.1" }, images, set: [] };
  const sent = { imageUrl: one, lastImageUrl: two, referenceUrls: [three] };
  expect(buildRequest(input, { isLocal: true })).toEqual({ prompt: "a fox", model: "veo-3.1", ...sent });
  const set = [`lastImageUrl=${four}`, "imageUrls=[]"];
  expect(buildRequest({ ...input, set }, { isLocal: true })).toEqual({
    prompt: "a fox",
    model: "veo-3.1",
    imageUrls: [],
    lastImageUrl: four,
    referenceUrls: [three],
  });
  const wrong = { ...input, images: { referenceUrls: ["fox"] } };
  expect(() => buildRequest(wrong, { isLocal: true })).toThrow("--reference must be an http(s) URL");
});

test.each([
  ["fps=abc", '--set fps must be a number of frames per second above 0, not "abc".'],
  ["fps=0", "--set fps must be a number of frames per second above 0, not 0."],
  ["fps=true", "--set fps must be a number of frames per second above 0, not true."],
  ["num_inference_steps=0", "--set num_inference_steps must be a whole number above 0, not 0."],
  ["num_inference_steps=2.5", "--set num_inference_steps must be a whole number above 0, not 2.5."],
  ["guidance_scale=high", '--set guidance_scale must be a number, not "high".'],
])("%s, which no server takes, is refused", (setting, message) => {
  refuses({ set: [setting] }, message);
});

test.each(["fps=23.976", 'fps="24"', "num_inference_steps=1", "guidance_scale=0", "guidance_scale=-1.5"])(
  "%s, which a server may take, is sent",
  (setting) => {
    expect(() => build({ set: [setting] })).not.toThrow();
  },
);
