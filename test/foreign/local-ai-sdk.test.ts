import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test, vi } from "vitest";
import { createFal, type ProviderOptions, video } from "../server/engines/ai-sdk/providers.ts";
import { createWorld } from "../vidgen.ts";

// A package of the AI SDK makes the video of a command, in process and on the virtual clock.

const key = "fal-canary-0123456789";
const engine = "kling-2.6=ai-sdk:@ai-sdk/fal#fal-ai/kling-video/v2.6/pro/text-to-video";

/** The package is that of the current folder. */
function enterForeign(): void {
  const before = process.cwd();
  process.chdir(fileURLToPath(new URL(".", import.meta.url)));
  onTestFinished(() => process.chdir(before));
}

async function createScene(options: Partial<ProviderOptions> = {}) {
  enterForeign();
  const world = await createWorld();
  // fal may put a video into its reply.
  const videoUrl = `data:video/mp4;base64,${Buffer.from(video).toString("base64")}`;
  const fake = createFal({ now: world.io.now, key, videoUrl, ...options });
  delete world.env.VIDGEN_BASE_URL;
  delete world.env.VIDGEN_API_KEY;
  setKey(world.env, key);
  world.faults.push((request) => (new URL(request.url).hostname === "queue.fal.run" ? fake.fetch(request) : undefined));
  const file = join(world.folder, "fox.mp4");
  const run = (...words: string[]) => world.vidgen(...words, "--engine", engine);
  return { world, fake, file, run, saved: () => new Uint8Array(readFileSync(file)) };
}

/** The package reads the environment of the process itself. */
function setKey(env: Record<string, string | undefined>, value: string | undefined): void {
  onTestFinished(() => void vi.unstubAllEnvs());
  vi.stubEnv("FAL_API_KEY", undefined);
  vi.stubEnv("FAL_KEY", value);
  env.FAL_KEY = value;
}

test("generate saves what the provider made, started once, and shows no key", async () => {
  const { world, run, fake, file, saved } = await createScene();
  const { code, stderr, stdout } = await run("generate", "a red fox", "-m", "kling-2.6", "-o", file, "--verbose");
  expect([code, saved()]).toEqual([0, video]);
  expect(fake.creates).toMatchObject([
    { url: "https://queue.fal.run/fal-ai/kling-video/v2.6/pro/text-to-video", input: { prompt: "a red fox" } },
  ]);
  expect(stdout + stderr).not.toContain("canary");
  const keyed = world.requests.filter(({ headers }) => headers.get("Authorization")?.includes(key));
  expect(new Set(keyed.map(({ url }) => new URL(url).origin))).toEqual(new Set(["https://queue.fal.run"]));
});

test("what one command has started, the next one continues with", async () => {
  const { run, fake, file, saved } = await createScene();
  const id = (await run("generate", "a red fox", "-m", "kling-2.6", "--no-wait")).stdout.trim();
  expect(await run("wait", id, "-o", file)).toMatchObject({ code: 0 });
  expect([saved(), fake.creates.length]).toEqual([video, 1]);
});

test("without its key, or without the package, nothing is started", async () => {
  const { world, run, fake, file } = await createScene();
  setKey(world.env, undefined);
  expect(await run("generate", "a red fox", "-m", "kling-2.6", "-o", file)).toMatchObject({
    code: 3,
    stderr: expect.stringMatching(/@ai-sdk\/fal has no key: FAL_API_KEY or FAL_KEY is not set\. .*\n +export FAL_KEY=/),
  });
  const missing = ["--engine", "kling-2.6=ai-sdk:@vidgen-test/none#x"];
  expect(await world.vidgen("generate", "a red fox", "-m", "kling-2.6", "-o", file, ...missing)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("npm install @vidgen-test/none@latest"),
  });
  expect([(await world.vidgen("list")).stdout, fake.creates]).toEqual(["", []]);
});

test("doctor says which keys are set", async () => {
  const { world } = await createScene();
  expect((await world.vidgen("doctor")).stdout).toMatch(/for engines: FAL_KEY/);
});
