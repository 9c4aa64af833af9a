import { readFileSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { connectAgent } from "../mcp/agent.ts";
import { tinyMp4 } from "../mp4.ts";
import { createOpenRouter, type OpenRouterOptions } from "../server/engines/videos/fakes/openrouter.ts";
import { createVllmOmni } from "../server/engines/videos/fakes/vllm-omni.ts";
import { aPng } from "../server/jobs/pictures.ts";
import { apiKey, baseUrl, createWorld } from "../vidgen.ts";

// A command that carries the local service makes real videos, in process and on the virtual clock.

const key = "sk-or-canary-0123456789";

async function createScene(options: OpenRouterOptions = {}) {
  const world = await createWorld();
  const fake = createOpenRouter({ now: world.io.now, completeAfterMs: 30_000, key, ...options });
  delete world.env.VIDGEN_BASE_URL;
  delete world.env.VIDGEN_API_KEY;
  world.env.OPENROUTER_API_KEY = key;
  world.faults.push((request) => {
    const { hostname } = new URL(request.url);
    if (hostname === "openrouter.ai") return fake.fetch(new Request(request.url.replace("/api/v1/", "/v1/"), request));
    // A service of another process on this machine.
    return hostname === "127.0.0.1" ? fetch(request) : undefined;
  });
  const generate = (...flags: string[]) =>
    world.vidgen("generate", "a red fox", "-m", "veo-3.1", "-o", join(world.folder, "fox.mp4"), ...flags);
  const saved = () => new Uint8Array(readFileSync(join(world.folder, "fox.mp4")));
  return { world, fake, generate, saved };
}

test("generate --engine openrouter saves what the provider made, asked for once, and shows no key", async () => {
  const { fake, generate, saved, world } = await createScene();
  const { code, stderr, stdout } = await generate("--engine", "openrouter", "--verbose");
  expect([code, stderr]).toEqual([0, expect.stringMatching(/Started \S+ \(veo-3\.1, by openrouter\)/)]);
  expect(saved()).toEqual(tinyMp4("a red fox"));
  expect(fake.creates).toMatchObject([{ fields: { model: "google/veo-3.1", prompt: "a red fox" } }]);
  expect(fake.creates[0]?.fields).not.toHaveProperty("duration");
  expect(stdout + stderr).not.toContain("canary");
  const elsewhere = world.requests.filter(({ url }) => !url.startsWith("https://openrouter.ai/"));
  expect(elsewhere.filter(({ headers }) => headers.get("Authorization")?.includes(key))).toEqual([]);
});

test.each(["VIDGEN_ENGINE", "saved"])("set once by %s, no flag is needed", async (place) => {
  const { fake, generate, world } = await createScene();
  if (place === "saved") {
    const { mkdir, writeFile } = await import("node:fs/promises");
    await mkdir(world.home, { recursive: true });
    await writeFile(join(world.home, "config.json"), JSON.stringify({ engine: "openrouter" }));
  } else world.env.VIDGEN_ENGINE = "openrouter";
  expect(await generate()).toMatchObject({ code: 0 });
  expect(fake.creates).toHaveLength(1);
  // What was typed counts more than what is set, and previews cost nothing.
  expect(await world.vidgen("generate", "an owl", "--local", "--dry-run")).toMatchObject({ code: 0 });
});

test("what one command has started, status asks for and wait goes on with", async () => {
  const { fake, saved, world } = await createScene();
  const started = await world.vidgen("generate", "a red fox", "-m", "veo-3.1", "--engine", "openrouter", "--no-wait");
  const id = started.stdout.trim();
  const status = await world.vidgen("status", id, "--engine", "openrouter");
  expect(status).toMatchObject({ code: 0, stdout: `${id}\tprocessing\n` });
  const file = join(world.folder, "fox.mp4");
  expect(await world.vidgen("wait", id, "--engine", "openrouter", "-o", file)).toMatchObject({ code: 0 });
  expect([saved(), fake.creates.length]).toEqual([tinyMp4("a red fox"), 1]);
});

test("what a video cost is told, kept, and shown wherever it is looked for", async () => {
  const { generate, world } = await createScene();
  expect(await generate("--engine", "openrouter", "--write-info-json")).toMatchObject({
    stderr: expect.stringMatching(/\S{36} cost \$0\.40\./),
  });
  const info = JSON.parse(readFileSync(join(world.folder, "fox.mp4.json"), "utf8"));
  expect(info).toMatchObject({ cost: 0.4, credits: 0 });
  const { id } = info;
  expect((await world.vidgen("list")).stdout.split("\t")[4]).toBe("$0.40");
  const status = await world.vidgen("status", id, "--engine", "openrouter", "--json");
  expect(JSON.parse(status.stdout)).toMatchObject({ cost: 0.4 });
});

test("--max-cost bounds what a batch costs over all its runs, also before the first price is known", async () => {
  const { fake, world } = await createScene();
  const rows = join(world.folder, "shots.txt");
  await writeFile(rows, "one\ntwo\nthree\nfour\nfive\n");
  const batch = ["batch", rows, "-m", "veo-3.1", "--engine", "openrouter", "--yes", "--jobs", "5"];
  const bounded = [...batch, "-o", join(world.folder, "{n}.mp4"), "--max-cost"];
  const first = await world.vidgen(...bounded, "1");
  const stderr = expect.stringMatching(
    /Up to \$0\.8 of at most \$1 are spent, and the next one costs up to \$0\.4: nothing more/,
  );
  expect(first).toMatchObject({ code: 7, stderr });
  expect(fake.creates).toHaveLength(2);
  expect(await world.vidgen(...bounded, "1")).toMatchObject({ code: 7 });
  expect(fake.creates).toHaveLength(2);
  expect(await world.vidgen(...bounded, "$2", "--json")).toMatchObject({ code: 0 });
  expect(fake.creates).toHaveLength(5);
  expect(await world.vidgen(...bounded, "free")).toMatchObject({ code: 2 });
});

test("without credits at the provider the exit code says so, nothing is charged, and a batch goes on later where it stopped", async () => {
  let hasCredits = false;
  let refused = 0;
  const noCredits = { error: { code: 402, message: "Insufficient credits" } };
  const { fake, generate, world } = await createScene({
    fault({ route }) {
      if (route !== "create" || hasCredits) return undefined;
      refused++;
      return Response.json(noCredits, { status: 402 });
    },
  });
  const { code, stderr } = await generate("--engine", "openrouter");
  expect([code, stderr]).toEqual([7, expect.stringContaining("has no credits left for this video: HTTP 402")]);
  expect((await world.vidgen("list")).stdout).toContain("failed");
  const rows = join(world.folder, "shots.txt");
  await writeFile(rows, "one\ntwo\nthree\n");
  const batch = ["batch", rows, "-m", "veo-3.1", "--engine", "openrouter", "--yes", "--jobs", "1"];
  const shots = () => world.vidgen(...batch, "-o", join(world.folder, "{n}.mp4"));
  expect(await shots()).toMatchObject({ code: 7 });
  expect(refused).toBe(2);
  hasCredits = true;
  expect(await shots()).toMatchObject({ code: 0 });
  expect(fake.creates).toHaveLength(3);
});

test("what the provider's list has against a request is told before it is paid", async () => {
  const { fake, generate, world } = await createScene();
  const refused = await generate("--engine", "openrouter", "--duration", "5");
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("veo-3.1: google/veo-3.1 takes duration 4, 6 or 8 s, not 5 s"),
  });
  const wide = await generate("--engine", "openrouter", "--aspect-ratio", "21:9");
  expect(wide).toMatchObject({ code: 1, stderr: expect.stringContaining("takes aspectRatio 16:9 or 9:16, not 21:9") });
  const fox = join(world.folder, "fox.png");
  await writeFile(fox, readFileSync(new URL("../../.github/page.png", import.meta.url)));
  const image = ["generate", "a fox", "-m", "wan-2.5", "-i", fox, "--engine", "openrouter"];
  expect(await world.vidgen(...image)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("wan-2.5: alibaba/wan-2.6 takes no image"),
  });
  expect(fake.creates).toEqual([]);
  expect(await generate("--engine", "openrouter", "--duration", "6")).toMatchObject({ code: 0 });
  const lists = world.requests.filter(({ url }) => url.endsWith("/videos/models"));
  expect(lists.map(({ headers }) => headers.get("Authorization"))).toEqual([null, null, null, null]);
});

test("without the list a request goes to the provider, which refuses by itself", async () => {
  const { fake, generate } = await createScene({
    fault: ({ request }) => (request.url.endsWith("/videos/models") ? new Response("", { status: 503 }) : undefined),
  });
  expect(await generate("--engine", "openrouter", "--duration", "5")).toMatchObject({ code: 0 });
  expect(fake.creates).toMatchObject([{ fields: { duration: 5 } }]);
});

test("models --engine lists what the provider has, without a key", async () => {
  const { world } = await createScene();
  delete world.env.OPENROUTER_API_KEY;
  const { stdout, code } = await world.vidgen("models", "--engine", "openrouter");
  expect([code, stdout]).toEqual([
    0,
    [
      "google/veo-3.1 (veo-3.1)  4, 6, 8 s; 720p, 1080p; 16:9, 9:16; image; per-video-second $0.40\n",
      "alibaba/wan-2.6 (wan-2.5)  generate $0.5\n",
    ].join(""),
  ]);
  const one = await world.vidgen("models", "veo-3.1", "--engine", "openrouter", "--json");
  expect(JSON.parse(one.stdout)).toMatchObject([{ id: "google/veo-3.1", models: ["veo-3.1"], durations: [4, 6, 8] }]);
  expect(await world.vidgen("models", "veo", "--engine", "openrouter")).toMatchObject({ code: 2 });
  expect(await world.vidgen("models", "--engine", "preview")).toMatchObject({ code: 2 });
  expect(world.requests.filter(({ headers }) => headers.has("Authorization"))).toEqual([]);
});

test("models <id> shows one with what is known of its price, and guesses a mistyped one", async () => {
  const { generate, world } = await createScene();
  const about = [
    "sora-2  flagship, cinematic quality",
    "Length: as the service has it; with --local up to 60 s",
    "Ratio: as the service has it, such as 16:9, 9:16, 1:1, 4:3, 3:4, 21:9",
    "Price: free with --local; otherwise not known before the service has stated it\n",
  ];
  expect((await world.vidgen("models", "sora-2")).stdout).toBe(about.join("\n"));
  await generate("--engine", "openrouter", "-d", "8");
  Object.assign(world.env, { VIDGEN_BASE_URL: baseUrl, VIDGEN_API_KEY: apiKey });
  for (const argv of [
    ["-d", "4"],
    ["-d", "4"],
    ["--set", "generate_audio=true"],
  ])
    await world.vidgen("generate", "a red fox", "-m", "veo-3.1", "--no-wait", ...argv);
  const { stdout } = await world.vidgen("models", "veo-3.1");
  expect(stdout.split("\n").slice(3)).toEqual([
    "Price: free with --local, and as stated for earlier videos:",
    "  10 credits at api.video.example: generate_audio true",
    "  10 credits at api.video.example: 4 s",
    "  $0.40 with --engine: 8 s",
    "",
  ]);
  const [document] = JSON.parse((await world.vidgen("models", "veo-3.1", "--json")).stdout);
  expect(document.prices).toMatchObject([
    { base_url: baseUrl, generate_audio: true, credits: 10 },
    { duration: 4, credits: 10 },
    { duration: 8, cost: 0.4 },
  ]);
  expect(await world.vidgen("models", "sora2")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("Did you mean sora-2?"),
  });
});

test("an AI agent's videos are made there, once", async () => {
  const { fake, world } = await createScene();
  const { call, leave } = await connectAgent(world, "--engine", "openrouter");
  const { value } = await call("generate_video", { prompt: "a red fox", model: "veo-3.1" });
  const id = String(value.id);
  await expect.poll(async () => (await call("get_video", { id })).value.status, { timeout: 20_000 }).toBe("completed");
  expect((await call("generate_video", { prompt: "a red fox", model: "veo-3.1" })).value).toMatchObject({ id });
  expect([await leave(), fake.creates.length]).toEqual([0, 1]);
});

test("a batch makes each row once", async () => {
  const { fake, world } = await createScene();
  world.stdin = "a fox\nan owl\n";
  const flags = ["--engine", "openrouter", "--model", "veo-3.1", "--results", join(world.folder, "r.jsonl"), "--yes"];
  const place = ["-o", join(world.folder, "{n}.mp4"), "--input-format", "txt"];
  expect(await world.vidgen("batch", "-", ...flags, ...place)).toMatchObject({ code: 0 });
  expect(fake.creates.map(({ fields }) => fields.prompt).sort()).toEqual(["a fox", "an owl"]);
});

test("a preview that was left is not what --engine asks for", async () => {
  const { fake, world } = await createScene();
  const fox = ["generate", "a red fox [slow: 60s]", "-m", "veo-3.1", "-o", join(world.folder, "fox.mp4")];
  expect(await world.vidgen(...fox, "--local", "--timeout", "5s")).toMatchObject({ code: 5 });
  expect(await world.vidgen(...fox, "--engine", "openrouter")).toMatchObject({ code: 0 });
  expect(fake.creates).toHaveLength(1);
  const stderr = expect.stringContaining("Resuming");
  expect(await world.vidgen(...fox, "--local", "--overwrite", "--timeout", "5s")).toMatchObject({ code: 5, stderr });
});

test("the previews of a batch are not its real videos", async () => {
  const { fake, world } = await createScene();
  world.stdin = "a fox [slow: 60s]\n";
  const batch = ["batch", "-", "-m", "veo-3.1", "--results", join(world.folder, "r.jsonl"), "--yes"];
  const place = ["-o", join(world.folder, "{n}.mp4"), "--input-format", "txt"];
  expect(await world.vidgen(...batch, ...place, "--local", "--timeout", "5s")).toMatchObject({ code: 5 });
  const stderr = expect.stringMatching(
    /r\.jsonl has previews, such as that of row \S+, and real videos are asked for now/,
  );
  expect(await world.vidgen(...batch, ...place, "--engine", "openrouter")).toMatchObject({ code: 2, stderr });
  expect(fake.creates).toEqual([]);
});

/** Makes a video from three images by a vLLM-Omni of one's own, and returns what its server was asked for. */
async function makeFromImages(env: Record<string, string>) {
  const { world } = await createScene();
  const fake = createVllmOmni({ now: world.io.now, completeAfterMs: 30_000 });
  Object.assign(world.env, env);
  world.faults.push((request) => (new URL(request.url).hostname === "gpu-1" ? fake.fetch(request) : undefined));
  const images = ["a", "b", "c"].map((name) => join(world.folder, `${name}.png`));
  for (const image of images) writeFileSync(image, aPng(8, 8));
  const place = ["--engine", "kling-1.6-elements=vllm-omni:http://gpu-1:8091", "-o", join(world.folder, "fox.mp4")];
  const flags = images.flatMap((image) => ["-i", image]);
  const { code } = await world.vidgen("generate", "a red fox", "-m", "kling-1.6-elements", ...flags, ...place);
  expect([code, new Uint8Array(readFileSync(join(world.folder, "fox.mp4")))]).toEqual([0, tinyMp4("a red fox")]);
  return fake;
}

test("kling-1.6-elements is made from its images by vLLM-Omni, which keeps nothing of it", async () => {
  const { creates, deleted } = await makeFromImages({});
  expect(creates.map(({ files }) => files.length)).toEqual([3]);
  expect(deleted).toHaveLength(1);
});

test("VIDGEN_KEEP_UPSTREAM leaves the video on the server that made it", async () => {
  expect((await makeFromImages({ VIDGEN_KEEP_UPSTREAM: "1" })).deleted).toEqual([]);
});

test("a wrong key is told before anything is started", async () => {
  const { fake, generate, world } = await createScene();
  world.env.OPENROUTER_API_KEY = "sk-or-other-0123456789";
  const { code, stderr } = await generate("--engine", "openrouter");
  expect([code, stderr]).toEqual([3, expect.stringContaining("openrouter.ai/api refuses the key (HTTP 401)")]);
  expect((await world.vidgen("list")).stdout).toBe("");
  expect(fake.creates).toEqual([]);
});

test("the key that is missing, and a flag that cannot be combined, are said before anything is sent", async () => {
  const { fake, generate, world } = await createScene();
  expect(await generate("--engine", "openrouter", "--base-url", "https://x.test")).toMatchObject({ code: 2 });
  delete world.env.OPENROUTER_API_KEY;
  const { code, stderr } = await generate("--engine", "openrouter");
  expect([code, stderr]).toEqual([3, expect.stringContaining("OPENROUTER_API_KEY is not set")]);
  world.env.VIDGEN_ENGINE = "openrouter";
  world.env.VIDGEN_BASE_URL = "https://api.video.example";
  expect(await generate()).toMatchObject({ code: 2, stderr: expect.stringMatching(/names an engine.*and a service/) });
  expect(fake.creates).toEqual([]);
});
