import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { aPng } from "../../server/queue/pictures.ts";
import { createWorld, isStart, type World } from "../../vidgen.ts";

const png = aPng(30, 20);
const base64 = Buffer.from(png).toString("base64");
const dataUrl = `data:image/png;base64,${base64}`;

async function createStudio() {
  const world = await createWorld();
  const image = join(world.folder, "fox.png");
  writeFileSync(image, png);
  return { world, image };
}

const starts = (world: World) => world.requests.filter(isStart).map(({ body }) => JSON.parse(body));

test("a local image is sent as a data: URL, which is said once; the journal keeps its hash, and no byte of it", async () => {
  const { world, image } = await createStudio();
  const run = await world.vidgen("generate", "a fox", "-i", image, "-o", join(world.folder, "fox.mp4"));
  expect(run.code).toBe(0);
  expect(run.stderr.match(/data: URL/g)).toHaveLength(1);
  expect(run.stderr).toContain(`${image} is sent as a data: URL (1 kB); not every service accepts that.\n`);
  expect(starts(world)).toEqual([{ prompt: "a fox", model: "wan-2.5", imageUrl: dataUrl }]);
  const journal = readFileSync(join(world.home, "journal.jsonl"), "utf8");
  expect(journal).toMatch(/"imageUrl":"sha256:[\w-]{43}"/);
  expect(journal).not.toContain(base64.slice(0, 40));
});

test("--reuse and the same run again know the picture, whatever its file is called", async () => {
  const { world, image } = await createStudio();
  const copy = join(world.folder, "copy.jpg");
  copyFileSync(image, copy);
  world.faults.push((request) => {
    if (request.url.includes("generation-status")) world.press("Ctrl-C");
    return undefined;
  });
  expect(await world.vidgen("generate", "a fox", "-i", image)).toMatchObject({ code: 130 });
  world.faults.pop();
  world.reboot();
  const again = await world.vidgen("generate", "a fox", "-i", copy);
  expect(again).toMatchObject({ code: 0, stderr: expect.stringContaining("Resuming ") });
  const reuse = await world.vidgen("generate", "a fox", "-i", copy, "--reuse");
  expect(reuse).toMatchObject({ code: 0, stdout: again.stdout });
  expect(starts(world)).toHaveLength(1);
  writeFileSync(copy, aPng(30, 21));
  expect(await world.vidgen("generate", "a fox", "-i", copy, "--reuse")).toMatchObject({ code: 0 });
  expect(starts(world)).toHaveLength(2);
});

test.each(["--dry-run", "--dry-run --json", "--verbose"])("with %s its bytes are left out", async (flags) => {
  const { world, image } = await createStudio();
  const { code, stdout, stderr } = await world.vidgen("generate", "a fox", "-i", image, ...flags.split(" "));
  expect(code).toBe(0);
  expect(stdout + stderr).toContain("data:image/png;base64,...");
  expect(stdout + stderr).not.toContain(base64.slice(0, 40));
});

test("an image that cannot be sent is a usage error, and nothing is sent", async () => {
  const { world } = await createStudio();
  const run = await world.vidgen("generate", "a fox", "-i", "https://x.example/a.png", "-i", "nowhere.png");
  const stderr = expect.stringContaining(
    'error: Cannot read the image "nowhere.png": it is neither a file nor an http(s)',
  );
  expect(run).toMatchObject({ code: 2, stdout: "", stderr });
  expect(world.requests).toEqual([]);
});

const [enter, up] = ["\r", "\u001b[A"];

test("the form takes files too, below ~ as well, and asks again for one that is none", async () => {
  const { world, image } = await createStudio();
  world.isTerminal = true;
  world.answers = [
    ["What should", `a fox${enter}`],
    ["Which model", up + enter],
    ["Which aspect", enter],
    ["How long", enter],
    ["image 1?", `~/fox.png${enter}`],
    ["image 2?", `${world.folder}${enter}`],
    ["Enter an http(s) URL or a file", `\u0015https://x.example/b.png${enter}`],
    ["image 3?", enter],
    ["Start it?", `y${enter}`],
  ];
  const run = await world.vidgen("generate", "--no-color", "--no-wait");
  expect(run.code).toBe(0);
  expect(run.stderr).toContain(`--image ${image} --image https://x.example/b.png --no-wait\n`);
  expect(starts(world)).toMatchObject([{ imageUrls: [dataUrl, "https://x.example/b.png"] }]);
});

test("the form asks nothing when a file of the command line cannot be sent", async () => {
  const { world } = await createStudio();
  world.isTerminal = true;
  const run = await world.vidgen("generate", "-i", "nowhere.png");
  expect(run).toMatchObject({ code: 2, stderr: expect.not.stringContaining("What should") });
});
