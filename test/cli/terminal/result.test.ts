import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { describe, expect, test } from "vitest";
import { box, describedMp4 } from "../../mp4.ts";
import { lacks } from "../../needs.ts";
import { apiKey, baseUrl, createWorld, mediaUrl, onStart, type World } from "../../vidgen.ts";

const display = { DISPLAY: ":0" };

async function createDesk(env: Record<string, string> = {}, renderMs = 30_000): Promise<World> {
  const world = await createWorld({ renderMs });
  world.isTerminal = true;
  Object.assign(world.env, env);
  return world;
}

test("--open opens the saved file, else the address", async () => {
  const world = await createDesk(display);
  const file = join(world.folder, "a fox.mp4");
  expect(await world.vidgen("generate", "a fox", "-o", file, "--open")).toMatchObject({ code: 0, stdout: `${file}\n` });
  const { stdout } = await world.vidgen("generate", "a fox", "--open");
  const id = (await world.vidgen("generate", "an owl", "--no-wait")).stdout.trim();
  const waited = await world.vidgen("wait", id, "--open");
  expect(world.launched).toEqual([file, stdout.trim(), waited.stdout.trim()].map((place) => ["xdg-open", [place]]));
});

test("what cannot be opened is reported in one line, and all is well", async () => {
  const world = await createDesk();
  const run = await world.vidgen("generate", "a fox", "--open", "--no-color");
  expect(run).toMatchObject({ code: 0, stdout: expect.stringMatching(/^https:\S+\n$/) });
  expect(run.stderr.match(/Not opened: there is no display\.\n/g)).toHaveLength(1);
  expect(world.launched).toEqual([]);
});

test("without --open, and without a video, nothing is opened", async () => {
  const world = await createDesk(display);
  await world.vidgen("generate", "a fox");
  await world.vidgen("generate", "[fail]", "--open");
  expect(world.launched).toEqual([]);
});

test.each([
  [["generate", "a fox", "--open", "--no-wait"]],
  [["generate", "a fox", "--open", "-o", "-"]],
  [["wait", "one", "two", "--open"]],
  [["wait", "--all", "--open"]],
])("%j is a usage error: nothing was sent", async (argv) => {
  const world = await createDesk(display);
  world.isTerminal = false;
  expect(await world.vidgen(...argv)).toMatchObject({ code: 2, stderr: expect.stringContaining("--open") });
  expect(world.requests).toEqual([]);
});

const rings = (stderr: string) => stderr.split("\u0007").length - 1;

test("--bell rings at the end of a long wait, be it good or bad", async () => {
  const world = await createDesk({}, 12_000);
  expect(rings((await world.vidgen("generate", "a fox", "--bell")).stderr)).toBe(1);
  expect(rings((await world.vidgen("generate", "[slow: 30s] [fail]", "--bell")).stderr)).toBe(1);
  const ids = [];
  for (const prompt of ["a", "b"]) ids.push((await world.vidgen("generate", prompt, "--no-wait")).stdout.trim());
  expect(rings((await world.vidgen("wait", ...ids, "--bell")).stderr)).toBe(1);
  expect(rings((await world.vidgen("generate", "a fox")).stderr)).toBe(0);
});

test("--bell does not ring after a short wait, without a terminal, or when a person leaves", async () => {
  const quick = await createDesk({}, 5_000);
  expect(rings((await quick.vidgen("generate", "a fox", "--bell")).stderr)).toBe(0);
  const world = await createDesk({}, 40_000);
  world.isTerminal = false;
  expect(rings((await world.vidgen("generate", "a fox", "--bell")).stderr)).toBe(0);
  world.isTerminal = true;
  world.faults.push((request) => {
    if (request.method === "GET" && world.io.now() > 100_000) world.press("Ctrl-C");
    return undefined;
  });
  const left = await world.vidgen("generate", "a [slow: 200s] fox", "--bell", "--timeout", "1h");
  expect([left.code, rings(left.stderr)]).toEqual([130, 0]);
});

const ghostty = { TERM_PROGRAM: "ghostty" };
const link = (href: string, text: string) => `\u001b]8;;${href}\u001b\\${text}\u001b]8;;\u001b\\\n`;

test("at a terminal that shows links, the file and the address are some", async () => {
  const world = await createDesk(ghostty);
  const file = join(world.folder, "a fox.mp4");
  const saved = await world.vidgen("generate", "a fox", "-o", file);
  expect(saved.stdout).toBe(link(pathToFileURL(file).href, file));
  const { stdout } = await world.vidgen("generate", "a fox");
  const url = stdout.split(/[\p{Cc};\\]+/u).find((part) => part.startsWith("https:")) ?? "";
  expect(stdout).toBe(link(url, url));
});

test.each([
  ["in a pipe", ghostty, false, []],
  ["at another terminal", {}, true, []],
  ["inside tmux", { ...ghostty, TMUX: "/tmp/x,1,0" }, true, []],
  ["in JSON", ghostty, true, ["--json"]],
])("%s they are plain text", async (_, env, isTerminal, flags) => {
  const world = await createDesk(env);
  world.isTerminal = isTerminal;
  for (const save of [[], ["-o", join(world.folder, "fox.mp4")]])
    expect((await world.vidgen("generate", "a fox", ...save, ...flags)).stdout).not.toContain("\u001b");
});

test("over ssh a file is no link: it is not on the machine where it is clicked", async () => {
  const world = await createDesk({ ...ghostty, SSH_CONNECTION: "192.0.2.1 1 192.0.2.2 22" });
  const file = join(world.folder, "fox.mp4");
  expect((await world.vidgen("generate", "a fox", "-o", file)).stdout).toBe(`${file}\n`);
  expect((await world.vidgen("generate", "a fox")).stdout).toContain("\u001b]8;;https:");
});

const evil = "\u001b]52;c;aGFja2Vk\u0007\u009b31m\u001b]8;;https://evil.example\u001b\\";

test("no address of the service's breaks out of its link", async () => {
  const world = await createDesk(ghostty);
  const answer = { success: true, id: "x-1", status: "processing", data: { id: "x-1", status: "processing" } };
  world.faults.push(onStart(() => Response.json(answer)));
  const video_url = `https://media.video.example/${evil}.mp4`;
  world.faults.push(({ method }) =>
    method === "GET" ? Response.json({ id: "x-1", status: "completed", video_url }) : undefined,
  );
  const { code, stdout } = await world.vidgen("generate", "a fox");
  const href = new URL(video_url).href;
  expect([code, stdout]).toEqual([0, link(href, href)]);
});

test.skipIf(lacks("control characters in names"))("no file's name breaks out of its link", async () => {
  const world = await createDesk(ghostty);
  const file = join(world.folder, `fox${evil.replaceAll("/", "")}.mp4`);
  const saved = await world.vidgen("generate", "a fox", "-o", file);
  expect(saved.code).toBe(0);
  const [, opening, shown, ...closing] = saved.stdout.split("\u001b");
  expect(opening).toMatch(/^\]8;;file:\/\/[!-~]+$/);
  expect(shown).toMatch(/^\\\P{Cc}+$/u);
  expect(closing).toEqual(["]8;;", "\\\n"]);
});

test.each(["text", "json"])(
  "an address that holds the key is an error, and the video is saved all the same (%s)",
  async (shape) => {
    const world = await createWorld();
    const id = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
    const video_url = `${mediaUrl}/${id}.mp4?key=${apiKey}`;
    world.faults.push(({ url }) =>
      url.includes("/generation-status?") ? Response.json({ id, status: "completed", video_url }) : undefined,
    );
    await world.io.sleep(31_000);
    const json = shape === "json" ? ["--json"] : [];
    for (const command of ["status", "wait"]) {
      const run = await world.vidgen(command, id, ...json);
      expect(run).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("contains your API key") });
      expect(run.stderr).toContain("Save the video with -o");
      if (command === "status") expect(run.stderr).toContain(`vidgen wait ${id} -o video.mp4`);
    }
    expect(await world.vidgen("wait", id, "-o", join(world.folder, "video.mp4"), ...json)).toMatchObject({ code: 0 });
  },
);

/** The service's videos say how long and large they are; 334 kB each. */
function withDescribedVideos(world: World): World {
  const video = Buffer.concat([describedMp4(5, [854, 480]), Buffer.from(box("free", new Uint8Array(333_600)))]);
  world.faults.push(({ url }) => (url.startsWith(mediaUrl) ? new Response(video) : undefined));
  return world;
}

describe("the line about a saved video", () => {
  test("says what it is, how long it took and what it cost, as the service has stated it", async () => {
    const world = withDescribedVideos(await createWorld({ renderMs: 12_000 }));
    const file = join(world.folder, "fox.mp4");
    const { stdout, stderr } = await world.vidgen("generate", "a fox", "-o", file);
    expect(stdout).toBe(`${file}\n`);
    expect(stderr.split("\n").at(-2)).toBe(`Saved ${file} (5 s, 854x480, 334 kB) in 18 s for 10 credits`);
  });

  test("leaves out what a file does not say, and what a wait cannot know", async () => {
    const world = await createWorld();
    const id = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
    const file = join(world.folder, "fox.mp4");
    expect((await world.vidgen("wait", id, "-o", file)).stderr).toMatch(/\nSaved \S+fox\.mp4 \(1 kB\)\n$/);
  });

  test("is one line for a video that was saved already", async () => {
    const world = withDescribedVideos(await createWorld());
    const file = join(world.folder, "fox.mp4");
    const { id } = JSON.parse((await world.vidgen("generate", "a fox", "-o", file, "--json")).stdout);
    const about = `Already saved: ${file} (5 s, 854x480, 334 kB)`;
    for (const argv of [
      ["wait", id, "-o", file],
      ["generate", "a fox", "--reuse", "-o", file],
    ])
      expect(await world.vidgen(...argv)).toEqual({ code: 0, stdout: `${file}\n`, stderr: `${about}\n` });
  });

  test("is not printed with --quiet, for a program that reads JSON, and for a video on stdout", async () => {
    const world = await createWorld();
    for (const argv of [["-q"], ["--json"], ["-o", "-"]])
      expect(
        (await world.vidgen("generate", "a fox", "-o", join(world.folder, "{n}.mp4"), ...argv)).stderr,
      ).not.toMatch(/Saved/);
  });
});

test("a run that has saved nothing ends with the line that saves it, at a terminal alone", async () => {
  const world = await createDesk({ TERM: "dumb" });
  world.columns = 200;
  const { stderr } = await world.vidgen("generate", "a fox", "--base-url", baseUrl);
  const line = stderr.trimEnd().split("\n").at(-1) ?? "";
  expect(line).toMatch(/^Save it with: vidgen wait \S{36} --base-url https:\S+ -o \.$/);
  const before = process.cwd();
  process.chdir(world.folder);
  try {
    const saved = await world.vidgen(...line.split(" ").slice(4));
    expect(saved).toMatchObject({ code: 0, stdout: expect.stringMatching(/^a-fox-wan-2\.5-\w{8}\.mp4\n$/) });
    expect(saved.stderr).not.toContain("Save it");
  } finally {
    process.chdir(before);
  }
  const id = line.split(" ")[5] ?? "";
  expect((await world.vidgen("wait", id)).stderr).toContain(`Save it with: vidgen wait ${id} -o .\n`);
  expect((await world.vidgen("generate", "an owl", "--no-wait")).stderr).not.toContain("Save it");
  world.isTerminal = false;
  expect((await world.vidgen("generate", "a hare")).stderr).not.toContain("Save it");
});
