import { execFileSync } from "node:child_process";
import process from "node:process";
import { expect, test } from "vitest";
import { createClient } from "../../../src/index.ts";
import { makeAgain } from "../../../src/server/page/again.ts";
import type { StoredGeneration } from "../../../src/server/store/generations.ts";
import { lacks } from "../../needs.ts";
import { createWorld } from "../../vidgen.ts";

const hostile = `it's "quoted" $HOME \`id\` \\ !! \n<b>🦊</b>`;

const local = { baseUrl: "http://127.0.0.1:8787", isLocal: true, program: "vidgen" };

function aGeneration(changes: Partial<StoredGeneration["request"]>, callback_url: string | null): StoredGeneration {
  const request = {
    prompt: "a fox",
    model: "wan-2.5",
    aspectRatio: "16:9",
    duration: 5,
    resolution: "480p" as const,
    images: [],
    extras: {},
    hasDirectives: true,
    isReal: false,
  };
  const blank = {
    completed_at: null,
    error: null,
    media: null,
    cost: null,
    checkpoint: null,
    account: "local",
  } as const;
  const base = { id: "7d56", status: "processing", created_at: "2026-01-01T00:00:00.000Z" } as const;
  return { ...blank, ...base, callback_url, request: { ...request, ...changes } };
}

/** The arguments that a shell passes to a program, and what the program reads on stdin. */
function readLine(line: string): { argv: string[]; stdin: string } {
  const program = `process.stdout.write(JSON.stringify({ argv: process.argv.slice(1), stdin: require("fs").readFileSync(0, "utf8") }))`;
  const script = `run() { "$NODE" -e "$PROGRAM" -- "$@"; }; npx() { run "$@"; }; vidgen() { run "$@"; }; curl() { run "$@"; }; ${line}`;
  const env = { NODE: process.execPath, PROGRAM: program, VIDGEN_API_KEY: "the-key", HOME: "/nowhere" };
  return JSON.parse(execFileSync("sh", ["-c", script], { input: "", encoding: "utf8", env }));
}

const cases = [
  { prompt: "a fox" },
  { prompt: hostile },
  { prompt: "\u001b[201~\nrm -rf \\ \u009b1m \u202egnp.exe it's" },
  { prompt: "-" },
  { prompt: "@file" },
  { prompt: "--local" },
  { model: "my model", images: ["https://images.example/a.png?b=c&d='e'"], extras: { seed: 7, negative_prompt: "7" } },
  { extras: { extra_params: { task: "it's", steps: [1, 2] }, generate_sound: true, quality: "true" } },
  { model: "kling-1.6-elements", images: ["https://a.example/1.png", "https://a.example/2.png"] },
  { images: ["https://a.example/1.png"], lastImage: "https://a.example/2.png?it's" },
  { references: ["https://a.example/1.png", "https://a.example/2.png"], extras: { seed: 7 } },
];

test.skipIf(lacks("sh")).each(cases)("$prompt $model: the lines send the same request again", async (changes) => {
  const generation = aGeneration(changes, "https://hook.example/?key='secret'");
  const { json, curl, vidgen } = makeAgain(generation, local);
  expect(json + curl + vidgen).not.toMatch(/(?![\n\t])[\p{Cc}\p{Bidi_Control}]/u);
  const wanted = JSON.parse(json);
  const sent = readLine(curl).argv;
  expect(sent[0]).toBe("http://127.0.0.1:8787/api/generate");
  expect(sent).toContain("Authorization: Bearer the-key");
  expect(JSON.parse(sent.at(-1) ?? "")).toEqual(wanted);

  const { argv, stdin } = readLine(vidgen);
  const [command, ...rest] = argv;
  expect(command).toBe("generate");
  const world = await createWorld();
  if (rest.includes("-")) world.stdin = stdin;
  const dry = await world.vidgen("generate", "--dry-run", "--json", ...rest);
  expect(JSON.parse(dry.stdout).body).toEqual(wanted);
});

test("an image that was sent in the request is not repeated in the lines", () => {
  const image = `data:image/png;base64,${"A".repeat(1_000_000)}`;
  const { json, curl, vidgen, library, hasData } = makeAgain(aGeneration({ images: [image] }, null), local);
  expect(hasData).toBe(true);
  expect(vidgen).toContain("-i image-1.png");
  expect(library).toContain('"image-1.png"');
  expect((json + curl + library).length).toBeLessThan(1_000);
});

test.skipIf(lacks("sh"))(
  "where --local does not find the service, a last image and references are sent by --set",
  async () => {
    const images = { lastImage: "https://a.example/1.png", references: ["https://a.example/2.png"] };
    const address = { ...local, baseUrl: "https://video.example", isLocal: false };
    const { json, vidgen } = makeAgain(aGeneration(images, null), address);
    const [, ...rest] = readLine(vidgen).argv;
    const dry = await (await createWorld()).vidgen("generate", "--dry-run", "--json", ...rest);
    expect(JSON.parse(dry.stdout).body).toEqual(JSON.parse(json));
    expect(JSON.parse(json)).toMatchObject({ lastImageUrl: images.lastImage, referenceUrls: images.references });
  },
);

test.skipIf(lacks("sh"))("where --local does not find the service, the lines name its address", () => {
  const address = { ...local, baseUrl: "https://video.example", isLocal: false };
  const { curl, vidgen } = makeAgain(aGeneration({}, null), address);
  expect(curl).toMatch(/^curl https:\/\/video\.example\/api\/generate /);
  expect(readLine(vidgen).argv.slice(-2)).toEqual(["--base-url", "https://video.example"]);
});

/** Runs the code of the library, and returns the body of the start that it sends. */
async function runCode(code: string, baseUrl: string): Promise<unknown> {
  const bodies: unknown[] = [];
  const create = (options: Parameters<typeof createClient>[0]) => {
    expect(options).toEqual({ baseUrl });
    const fetch: typeof globalThis.fetch = async (_, init) => {
      bodies.push(JSON.parse(String(init?.body)));
      return Response.json({ success: false, message: "enough is known" }, { status: 400 });
    };
    return createClient({ ...options, apiKey: "the-key", fetch });
  };
  const [start = "", ...rest] = code.split("\n");
  expect(start).toBe('import { createClient } from "vidgen";');
  const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor;
  await expect(new AsyncFunction("createClient", rest.join("\n"))(create)).rejects.toThrow("enough is known");
  return bodies[0];
}

test.each(cases)("$prompt $model: the library's code sends the same request again", async (changes) => {
  const generation = aGeneration(changes, "https://hook.example/?key='secret'");
  const { json, library } = makeAgain(generation, local);
  expect(library).not.toMatch(/(?![\n\t])[\p{Cc}\p{Bidi_Control}]/u);
  expect(await runCode(library, local.baseUrl)).toEqual(JSON.parse(json));
});

test("the line has the program as it was called where serve was started, and npx only there", () => {
  const generation = aGeneration({}, null);
  expect(makeAgain(generation, local).vidgen).toMatch(/^vidgen generate 'a fox' /);
  expect(makeAgain(generation, local).powershell).toMatch(/^vidgen generate "a fox" /);
  expect(makeAgain(generation, { ...local, program: "npx vidgen" }).vidgen).toMatch(/^npx vidgen generate /);
});
