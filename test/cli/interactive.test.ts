import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { generateLine } from "../../src/cli/interactive.ts";
import { withPaste } from "../../src/cli/terminal/paste.ts";
import { models } from "../../src/protocol/models.ts";
import { lacks } from "../needs.ts";
import { createOpenRouter } from "../server/engines/videos/fakes/openrouter.ts";
import { apiKey, baseUrl, createWorld, isStart, kill, type World } from "../vidgen.ts";

const [enter, down, up, ctrlC, ctrlD, clear] = ["\r", "\u001b[B", "\u001b[A", "\u0003", "\u0004", "\u0015"];

async function createDesk(...answers: World["answers"]): Promise<World> {
  const world = await createWorld();
  world.isTerminal = true;
  world.answers = answers;
  return world;
}

const starts = (world: World) => world.requests.filter(isStart);
const sent = (world: World) => JSON.parse(starts(world)[0]?.body ?? "null");

test("asks for all missing values, shows the request and the equivalent command line, and asks for a confirmation", async () => {
  const world = await createDesk(
    ["What should", `a fox's den${enter}`],
    ["Which model", enter],
    ["Which aspect", down + down + enter],
    ["How long", `5${enter}`],
    ["Where should", `none${enter}`],
    ["Start it?", `y${enter}`],
  );
  const run = await world.vidgen("generate", "--no-color");
  expect(run.code).toBe(0);
  expect(run.stdout).toMatch(/^https:\S+\n$/);
  for (const { id, characteristic } of models) expect(run.stderr).toContain(`${id}: ${characteristic}`);
  expect(run.stderr).toContain(
    "\n  Prompt      a fox's den\n  Model       wan-2.5 (ultra-realistic, best value)\n  Ratio       9:16\n  Length      5 s\n",
  );
  expect(run.stderr).toContain(
    `\n  vidgen generate 'a fox'\\''s den' --model wan-2.5 --aspect-ratio 9:16 --duration 5\n`,
  );
  expect(sent(world)).toEqual({ prompt: "a fox's den", model: "wan-2.5", aspectRatio: "9:16", duration: 5 });
});

test("a pasted prompt of several lines is one line, which the summary shows; typed, a line break ends the answer", async () => {
  const text = "a red fox\r\nruns through snow\n\n\tat dusk\u0003 \u2014 na\u00efve\n";
  const world = await createDesk(
    ["What should", `\u001b[200~${text}\u001b[201~, slowly${enter}`],
    ["Start it?", `y${enter}`],
  );
  const run = await world.vidgen("generate", "-m", "ray-3", "-a", "1:1", "-d", "8", "--no-wait");
  const prompt = "a red fox runs through snow at dusk \u2014 na\u00efve , slowly".replace("dusk ", "dusk  ");
  expect([run.code, sent(world).prompt]).toEqual([0, prompt]);
  expect(run.stderr).toContain(`\n  Prompt      ${prompt}\n`);
  // Once before the question, and once after it.
  expect(run.stderr.match(/\[\?2004./g)).toEqual(["[?2004h", "[?2004l"]);
});

test("a paste is read whatever its parts are, and keys around it are not changed", async () => {
  const bytes = Buffer.from("\u001b[Aa\u001b\r\u001b[200~\u00e9\r\n\u2014\u001b[201~\u001b[B\r");
  for (let cut = 0; cut <= bytes.length; cut++) {
    // After the first byte of a mark nothing can tell it from the Escape key.
    if (cut === bytes.indexOf("\u001b[200~") + 1) continue;
    const [stdin, stderr] = [new PassThrough(), new PassThrough()];
    const read = withPaste({ stdin, stderr }, async (input) => {
      stdin.write(bytes.subarray(0, cut));
      await new Promise(setImmediate);
      stdin.end(bytes.subarray(cut));
      // A line break in two parts becomes two spaces.
      return (await input.toArray()).join("").replace("  ", " ");
    });
    expect([cut, await read]).toEqual([cut, "\u001b[Aa\u001b\r\u00e9 \u2014\u001b[B\r"]);
  }
});

test("what the command line says already is not asked again", async () => {
  const world = await createDesk(["What should", `a fox${enter}`], ["Start it?", `y${enter}`]);
  const run = await world.vidgen(
    "generate",
    "-m",
    "ray-3",
    "-a",
    "1:1",
    "-d",
    "8",
    "-i",
    "https://a.example/1.png",
    "--no-wait",
  );
  expect(run.code).toBe(0);
  expect(sent(world)).toEqual({
    prompt: "a fox",
    model: "ray-3",
    aspectRatio: "1:1",
    duration: 8,
    imageUrl: "https://a.example/1.png",
  });
});

test("a model that looks like a slip is pointed out before the yes", async () => {
  const world = await createDesk(...questions.slice(0, 1), ...questions.slice(2, -1), ["Start it?", enter]);
  const run = await world.vidgen("generate", "-m", "wan-2.6", "--no-color");
  expect(run).toMatchObject({ code: 130, stderr: expect.stringContaining("wan-2.6 (did you mean wan-2.5?)\n") });
});

test("a model that fuses images is given them, two at the least and four at the most", async () => {
  const [one, two] = ["https://a.example/1.png", "https://a.example/2.png"];
  const world = await createDesk(
    ["What should", `a fox${enter}`],
    ["Which model", `${"\u001b[A"}${enter}`],
    ["Which aspect", enter],
    ["How long", enter],
    ["image 1?", `${one}${enter}`],
    ["image 2?", enter],
    ["Enter an http(s) URL", `${two}${enter}`],
    ["image 3? (up to 4; press Enter", enter],
    ["Start it?", `y${enter}`],
  );
  const run = await world.vidgen("generate", "--no-color", "--no-wait");
  expect(run.code).toBe(0);
  expect(sent(world)).toEqual({
    prompt: "a fox",
    model: "kling-1.6-elements",
    imageUrls: [one, two],
  });
  expect(run.stderr).toContain(`--image ${one} --image ${two} --no-wait\n`);
});

test("the same answers as those of an interrupted start resume it, and its price is not asked for", async () => {
  const world = await createDesk(...questions);
  await kill(world, (request) => request.url.includes("generation-status"), "generate", "--no-color");
  world.answers = questions.slice(0, -1);
  const run = await world.vidgen("generate", "--no-color");
  expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining("Resuming") });
  expect([run.stderr.includes("Start it?"), run.stderr.includes("Cost"), starts(world).length]).toEqual([
    false,
    false,
    1,
  ]);
});

test("Enter takes the model of the settings, even if vidgen does not know it", async () => {
  const world = await createDesk(["What should", `a fox${enter}`], ["Which model", enter], ["Which aspect", ctrlC]);
  world.env.VIDGEN_MODEL = "house-model-9";
  const run = await world.vidgen("generate", "--no-color");
  expect(run.stderr).toMatch(/Which model\? house-model-9/);
});

const questions: World["answers"] = [
  ["What should", `a fox${enter}`],
  ["Which model", enter],
  ["Which aspect", enter],
  ["How long", enter],
  ["Where should", `none${enter}`],
  ["Start it?", `y${enter}`],
];

test.each(
  [ctrlC, ctrlD].flatMap((key) => questions.map(([question], i) => [JSON.stringify(key), question, i] as const)),
)("%s at %j leaves with 130, and nothing is sent", async (key, _, i) => {
  const answers = questions
    .slice(0, i + 1)
    .map(([question, keys], at): [string, string] => [question, at === i ? JSON.parse(key) : keys]);
  const world = await createDesk(...answers);
  const run = await world.vidgen("generate");
  expect(run).toMatchObject({
    code: 130,
    stdout: "",
    stderr: expect.stringContaining("Nothing was sent, nothing was charged."),
  });
  expect(starts(world)).toEqual([]);
  expect([world.answers, existsSync(join(world.home, "journal.jsonl"))]).toEqual([[], false]);
});

test.each([enter, `n${enter}`])("without a yes (%j) nothing is sent", async (keys) => {
  const world = await createDesk(...questions.slice(0, -1), ["Start it?", keys]);
  expect(await world.vidgen("generate")).toMatchObject({
    code: 130,
    stdout: "",
    stderr: expect.stringContaining("Not started."),
  });
  expect(starts(world)).toEqual([]);
});

test("--dry-run asks, and needs no yes", async () => {
  const world = await createDesk(...questions.slice(0, -2));
  const run = await world.vidgen("generate", "--dry-run", "--no-color");
  expect(run).toMatchObject({ code: 0, stdout: expect.stringContaining('"prompt": "a fox"') });
  expect([run.stderr.includes("Start it?"), starts(world)]).toEqual([false, []]);
});

test.each([
  ["a flag that is wrong", ["-d", "-5"], {}, 2],
  ["a base URL that is none", [], { VIDGEN_BASE_URL: "video" }, 2],
])("%s is said before anything is asked", async (_, flags, env, code) => {
  const world = await createDesk();
  Object.assign(world.env, env);
  const run = await world.vidgen("generate", ...flags);
  expect(run).toMatchObject({ code, stderr: expect.not.stringContaining("What should") });
});

test.each([
  ["no key", { VIDGEN_API_KEY: undefined }],
  ["no base URL", { VIDGEN_API_KEY: undefined, VIDGEN_BASE_URL: undefined }],
])("without a login (%s), Enter is a preview of the typed prompt", async (_, env) => {
  const world = await createDesk(["You are not logged in", enter]);
  Object.assign(world.env, env);
  const run = await world.vidgen("generate", "a fox", "-d", "1", "--no-wait");
  expect(run).toMatchObject({ code: 0, stderr: expect.stringMatching(/Started a preview/) });
  expect(starts(world)).toEqual([]);
});

/** Somebody without a login, with OpenRouter in the world, which accepts one key. */
async function createStranger(answers: World["answers"], env: World["env"] = {}) {
  const world = await createDesk(...answers);
  const fake = createOpenRouter({ now: world.io.now, completeAfterMs: 30_000, key: orKey });
  Object.assign(world.env, { VIDGEN_API_KEY: undefined, VIDGEN_BASE_URL: undefined, ...env });
  world.faults.push((request) =>
    new URL(request.url).hostname === "openrouter.ai"
      ? fake.fetch(new Request(request.url.replace("/api/v1/", "/v1/"), request))
      : undefined,
  );
  const config = () => JSON.parse(readFileSync(join(world.home, "config.json"), "utf8"));
  const generate = () => world.vidgen("generate", "a red fox", "-m", "veo-3.1", "-o", join(world.folder, "fox.mp4"));
  return { world, fake, config, generate };
}

const orKey = "sk-or-canary-0123456789";
const refusedKey = "sk-or-refused-0123456789";

test.each([
  ["", {}, [down + enter, `${orKey}${enter}`, enter]],
  [", as numbered lines at a dumb terminal", { TERM: "dumb" }, ["2\n", `${orKey}\n`, "\n"]],
])(
  "without a login, OpenRouter's key is asked for unseen, tried, and used for this run alone%s",
  async (_, env, keys) => {
    const [choice = "", typed = "", no = ""] = keys;
    const answers: World["answers"] = [
      ["You are not logged in", choice],
      ["API key for https://openrouter.ai", typed.replace(orKey, refusedKey)],
      ["openrouter.ai/api refuses the key", `${"TERM" in env ? "" : clear}${typed}`],
      ["Save the key", no],
    ];
    const { world, fake, generate } = await createStranger(answers, env);
    const run = await generate();
    expect(run).toMatchObject({ code: 0, stdout: `${join(world.folder, "fox.mp4")}\n` });
    expect(fake.creates).toMatchObject([{ fields: { model: "google/veo-3.1", prompt: "a red fox" } }]);
    expect(run.stderr).not.toMatch(/canary|sk-or-refused/);
    expect(run.stderr).toContain("The key is not saved. To use it again, set OPENROUTER_API_KEY");
    expect(existsSync(join(world.home, "config.json"))).toBe(false);
    expect(world.answers).toEqual([]);
  },
);

test("a key that is to be saved is found by later commands, with the engine, and is never shown", async () => {
  const { world, fake, config, generate } = await createStranger([
    ["You are not logged in", down + enter],
    ["API key for", `${orKey}${enter}`],
    ["Save the key", `y${enter}`],
  ]);
  expect(await generate()).toMatchObject({ code: 0 });
  expect(config()).toEqual({ engine: "openrouter", keys: { "https://openrouter.ai": orKey } });
  world.isTerminal = false;
  const later = await world.vidgen("generate", "an owl", "-m", "veo-3.1", "--verbose", "-o", world.folder);
  expect([later.code, fake.creates.length]).toEqual([0, 2]);
  expect(later.stderr + (await world.vidgen("config")).stdout).not.toContain("canary");
});

test.each([[["a red fox"]], [[]]])(
  "a model that OpenRouter does not have is replaced by one that it has (%j)",
  async (prompt) => {
    const { world, fake } = await createStranger(
      [
        ["You are not logged in", down + enter],
        ...(prompt.length > 0 ? [] : [["What should the video", `a red fox${enter}`] as [string, string]]),
        ["has no sora-2. Which model?", enter],
      ],
      { OPENROUTER_API_KEY: orKey },
    );
    if (prompt.length === 0)
      world.answers = [...world.answers.slice(0, 2), ["Which model?", enter], ["Start it?", `y${enter}`]];
    const flags = ["-m", "sora-2", "-a", "16:9", "-d", "4", "-o", join(world.folder, "fox.mp4")];
    const run = await world.vidgen("generate", ...prompt, ...flags);
    expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining("openrouter has no sora-2") });
    expect(run.stderr).not.toMatch(/ray-3|sora-2:/);
    expect(fake.creates).toMatchObject([{ fields: { model: "alibaba/wan-2.6" } }]);
  },
);

test("with a key in the environment none is asked for", async () => {
  const { fake, generate } = await createStranger([["You are not logged in", down + enter]], {
    OPENROUTER_API_KEY: orKey,
  });
  expect(await generate()).toMatchObject({ code: 0 });
  expect(fake.creates).toHaveLength(1);
});

test("an answer that only explains what to type is followed by the same question", async () => {
  const { world } = await createStranger([
    ["You are not logged in", down + down + enter],
    ["real-models`\n? You are", enter],
  ]);
  const run = await world.vidgen("generate", "a fox", "--no-wait");
  expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining("npm install @ai-sdk/fal@latest") });
});

test("a dumb terminal: a wrong number is asked for again, text and a no are lines, and Ctrl-D ends it", async () => {
  const answers: World["answers"] = [
    ["  1. previews", "9\n"],
    ["Enter a number from 1 to 4.", "\n"],
    ["What should", "a fox\n"],
    ["Which model", "\n"],
    ["Which aspect", "2\n"],
    ["How long", "1\n"],
    ["Where should", "none\n"],
    ["Start it? (Y/n)", "no\n"],
  ];
  const { world } = await createStranger(answers, { TERM: "dumb" });
  const run = await world.vidgen("generate");
  expect(run).toMatchObject({ code: 130, stdout: "", stderr: expect.stringContaining("Ratio       16:9") });
  expect(run.stderr).not.toContain("\u001b");
});

test("without a login the user can log in, and the command continues with the typed values", async () => {
  const world = await createDesk(
    ["You are not logged in", up + enter],
    ["base URL:", `${baseUrl}${enter}`],
    ["API key for", `${apiKey}${enter}`],
  );
  Object.assign(world.env, { VIDGEN_API_KEY: undefined, VIDGEN_BASE_URL: undefined });
  const run = await world.vidgen("generate", "a fox", "--no-wait");
  expect(run).toMatchObject({ code: 0, stdout: expect.stringMatching(/^[0-9a-f-]{36}\n$/) });
  expect(run.stderr).toContain("The service accepted the key.");
  expect(world.requests.map(({ method }) => method)).toEqual(["GET", "GET", "POST"]);
});

test("without a login nothing is asked where nobody sits, or nothing is sent", async () => {
  const world = await createWorld();
  Object.assign(world.env, { VIDGEN_API_KEY: undefined });
  expect((await world.vidgen("generate", "a fox")).code).toBe(3);
  world.isTerminal = true;
  expect((await world.vidgen("generate", "a fox", "--no-input")).code).toBe(3);
  expect((await world.vidgen("generate", "a fox", "--dry-run")).code).toBe(0);
});

test("where it is saved is asked too, and stands in the command line", async () => {
  const world = await createDesk(
    ...questions.slice(0, 4),
    ["Where should", `~ann/fox.mp4${enter}`],
    ["Enter a file such as", `${clear}~/clips/${enter}`],
    ["Start it?", `y${enter}`],
  );
  const run = await world.vidgen("generate", "--no-color");
  expect(run).toMatchObject({ code: 0, stdout: expect.stringMatching(/[/\\]a-fox-wan-2\.5-\w{8}\.mp4\n$/) });
  expect(run.stderr).toMatch(/^ {2}vidgen generate 'a fox' --model wan-2\.5 -o \S+[/\\]clips[/\\]'?$/m);
  expect(run.stdout).toContain(join(world.io.home, "clips/"));
  expect(existsSync(run.stdout.trim())).toBe(true);
});

test("the price is in the last question, once it is known", async () => {
  const world = await createDesk();
  world.isTerminal = false;
  for (const prompt of ["a bear", "a cub"]) await world.vidgen("generate", prompt, "--no-wait");
  world.isTerminal = true;
  world.answers = [...questions.slice(0, -1), ["Start it? It costs about 10 credits.", enter]];
  expect((await world.vidgen("generate", "--no-color")).code).toBe(130);
  expect(world.answers).toEqual([]);
});

test("a name that promises another format is pointed out before the yes", async () => {
  const world = await createDesk(...questions.slice(0, 4), ["Where should", `clip.webm${enter}`], ["Start it?", enter]);
  const { code, stderr } = await world.vidgen("generate", "--no-color");
  expect([code, stderr]).toEqual([
    130,
    expect.stringMatching(/clip\.webm\shas\sanother\sextension\.[\s\S]*Start it\?/),
  ]);
  expect(stderr.match(/has\sanother/g)).toHaveLength(1);
});

test("without an answer the ratio and the length are the service's own, and a length is a number of seconds", async () => {
  const wrong = ["0", "-5", "5 m", "long"].map((answer, i): [string, string] => [
    i === 0 ? "How long" : "a number of seconds",
    `${clear}${answer}${enter}`,
  ]);
  const world = await createDesk(
    ...questions.slice(0, 3),
    ...wrong,
    ["a number of seconds", `${clear}2.5s${enter}`],
    ...questions.slice(4),
  );
  const run = await world.vidgen("generate", "--no-color");
  expect([run.code, sent(world)]).toEqual([0, { prompt: "a fox", model: "wan-2.5", duration: 2.5 }]);
  expect(run.stderr).toContain("\n  Ratio       service default\n  Length      2.5s\n");
});

test.each([
  ["fox", /[/\\]fox\.mp4$/],
  ["fox.mov", /[/\\]fox\.mov$/],
  ["clips", /[/\\]clips[/\\]a-fox-wan-2\.5-\w{8}\.mp4$/],
])("saving to %s, a name without an ending gets .mp4, a folder does not", async (name, saved) => {
  const world = await createDesk(
    ...questions.slice(0, 4),
    ["Where should", `~/${name}${enter}`],
    ["Start it?", `y${enter}`],
  );
  mkdirSync(join(world.folder, "clips"));
  const run = await world.vidgen("generate", "--no-color");
  expect(run).toMatchObject({ code: 0, stdout: expect.stringMatching(new RegExp(saved, "m")) });
});

test("without an answer it is saved to the current folder", async () => {
  const world = await createDesk(...questions.slice(0, 4), ["(Enter: the current folder", enter], ["Start it?", ctrlC]);
  expect((await world.vidgen("generate", "--no-color")).stderr).toContain(" -o .\n");
});

test("with --local a length that the local service refuses is asked for again", async () => {
  const world = await createDesk(
    ...questions.slice(0, 3),
    ["How long", `90${enter}`],
    ["at most 60", `${clear}60${enter}`],
    ["Where should", enter],
    ["Start it?", ctrlC],
  );
  const run = await world.vidgen("generate", "--local", "--no-color");
  expect(run).toMatchObject({ code: 130, stderr: expect.stringMatching(/^ {2}Model {7}wan-2\.5 \(preview\)$/m) });
  // A preview is not what the model is known for.
  for (const { id, characteristic } of models) {
    expect(run.stderr).toContain(`${id}: preview`);
    expect(run.stderr).not.toContain(characteristic);
  }
  expect(world.answers).toEqual([]);
});

test("the key is nowhere in what is shown", async () => {
  const world = await createDesk(...questions);
  const run = await world.vidgen("generate");
  expect(run.code).toBe(0);
  expect(run.stderr).not.toContain(world.env.VIDGEN_API_KEY);
});

const prompts = [
  "a fox",
  "it's",
  "$(touch hacked)",
  "`touch hacked`",
  'a "b" \\ c',
  "-d",
  "--",
  "-",
  "@file",
  "=ls",
  "!!",
  "~",
  "a;b|c&d",
  "%s\\n",
  "é 🦊",
];

test.skipIf(lacks("sh")).each(prompts)("a shell reads the command line for the prompt %j as it was meant", (prompt) => {
  const words = ["--model", "wan-2.5", "--aspect-ratio", "16:9", "--set", "a='b c'"];
  const script = `vidgen() { printf '<%s>' "$@"; test "$2" = - && printf '(%s)' "$(cat)"; }\n${generateLine(prompt, words, { platform: "linux", env: {}, home: "" })}`;
  const { stdout } = spawnSync("sh", ["-c", script], { encoding: "utf8", input: "" });
  const flags = "<--model><wan-2.5><--aspect-ratio><16:9><--set><a='b c'>";
  const isPiped = prompt === "-" || prompt.startsWith("@");
  const plain = prompt.startsWith("-") ? `<generate>${flags}<--><${prompt}>` : `<generate><${prompt}>${flags}`;
  expect(stdout).toBe(isPiped ? `<generate><->${flags}(${prompt})` : plain);
});

test.each<[string, string[], World["answers"], object, string | undefined]>([
  ["an answer", [], [["Where should", `clips/${enter}`]], {}, "clips/"],
  ["Enter", [], [["Where should", enter]], {}, "the current folder"],
  ["none", [], [["Where should", `none${enter}`]], {}, "nowhere: only its URL is printed"],
  ["-o", ["-o", "fox.mp4"], [], {}, "fox.mp4"],
  ["--download", ["--download"], [], {}, "the current folder"],
  ["the setting, which is not asked for again", [], [], { VIDGEN_OUTPUT: "clips/" }, "clips/"],
  [
    "none of --local, whose URL ends with the command",
    ["--local"],
    [["Where should", `none${enter}`]],
    {},
    "the current folder",
  ],
  ["--no-wait", ["--no-wait"], [], {}, undefined],
])("the summary says where the video is saved: %s", async (_, flags, answers, env, says) => {
  const world = await createDesk(...questions.slice(0, 4), ...answers, ["Start it?", `n${enter}`]);
  Object.assign(world.env, env);
  const run = await world.vidgen("generate", ...flags, "--no-color");
  expect(run.code).toBe(130);
  expect(/^ {2}Save to {5}(.*)$/m.exec(run.stderr)?.[1]).toBe(says);
});

test.each([
  ["Enter", enter, "veo-3.1"],
  ["no", `n${enter}`, "veo3"],
])("a model that looks like a slip is asked about at a terminal: %s", async (_, keys, model) => {
  const world = await createDesk(['Unknown model "veo3". Did you mean veo-3.1?', keys]);
  await world.vidgen("generate", "a fox", "-m", "veo3", "--no-wait", "--no-color");
  expect(sent(world).model).toBe(model);
});

test("Ctrl-C at that question sends nothing; nobody is asked in a script, at --dry-run, nor about an engine's own model", async () => {
  const world = await createDesk(["Did you mean veo-3.1?", ctrlC]);
  expect(await world.vidgen("generate", "a fox", "-m", "veo3")).toMatchObject({ code: 130 });
  expect(starts(world)).toEqual([]);
  const { stderr } = await world.vidgen("generate", "a fox", "-m", "veo3", "--dry-run");
  expect(stderr.replace(/\s+/g, " ")).toContain('Unknown model "veo3"; did you mean veo-3.1?');
  const own = await world.vidgen("generate", "a fox", "-m", "veo3", "--engine", "veo3=preview", "--no-wait");
  expect([own.code, own.stderr]).toEqual([0, expect.not.stringContaining("Did you mean")]);
  world.isTerminal = false;
  expect((await world.vidgen("generate", "a fox", "-m", "veo3", "--no-wait")).stderr).toContain(
    'Unknown model "veo3"; did you mean veo-3.1? Sent as typed.',
  );
});
