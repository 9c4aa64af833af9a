import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { quote } from "../../../src/shell.ts";
import { aPng } from "../../server/queue/pictures.ts";
import { createWorld, failure, isStart, kill, onStart, type World } from "../../vidgen.ts";

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

test("a local image is sent as a data: URL, which is noted once; the journal keeps its hash, and no byte of it", async () => {
  const { world, image } = await createStudio();
  const run = await world.vidgen("generate", "a fox", "-i", image, "-o", join(world.folder, "fox.mp4"));
  expect(run.code).toBe(0);
  expect(run.stderr.match(/data: URL/g)).toHaveLength(1);
  expect(run.stderr).toContain("An image is sent as a data: URL (1 kB); not every service accepts that.\n");
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

test("the form takes files too, also below ~, and asks again if there is no such file", async () => {
  const { world } = await createStudio();
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
  expect(run.stderr).toContain(
    `--image ${quote(`${world.io.home}/fox.png`, "posix")} --image https://x.example/b.png --no-wait\n`,
  );
  expect(starts(world)).toMatchObject([{ imageUrls: [dataUrl, "https://x.example/b.png"] }]);
});

test("the form asks nothing when a file of the command line cannot be sent", async () => {
  const { world } = await createStudio();
  world.isTerminal = true;
  const run = await world.vidgen("generate", "-i", "nowhere.png");
  expect(run).toMatchObject({ code: 2, stderr: expect.not.stringContaining("What should") });
});

test("-i - sends the image on stdin", async () => {
  const { world } = await createStudio();
  world.stdin = Buffer.from(png);
  const run = await world.vidgen("generate", "she turns", "-i", "-");
  expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining("is sent as a data: URL") });
  expect(starts(world)).toEqual([{ prompt: "she turns", model: "wan-2.5", imageUrl: dataUrl }]);
  expect(await world.vidgen("again", "last", "-i", "-", "-m", "sora-2,ray-3")).toMatchObject({ code: 0 });
  expect(starts(world).slice(1)).toMatchObject(["sora-2", "ray-3"].map((model) => ({ model, imageUrl: dataUrl })));
});

const isPoll = (request: Request) => request.url.includes("generation-status");

test.each([0, 40])(
  "-i - with other bytes after a kill and %s days pays for nothing again by accident",
  async (days) => {
    const { world } = await createStudio();
    const line = ["generate", "she turns", "-i", "-", "-o", join(world.folder, "a.mp4")];
    world.stdin = Buffer.from(png);
    await kill(world, isPoll, ...line);
    await world.io.sleep(days * 24 * 3_600_000);
    const [{ id }] = JSON.parse((await world.vidgen("list", "--json")).stdout);
    world.stdin = Buffer.from(aPng(30, 21));
    const run = await world.vidgen(...line, "--json");
    const { error } = JSON.parse(run.stderr.slice(run.stderr.indexOf("{")));
    expect([run.code, run.stdout, error.id]).toEqual([2, "", id]);
    expect(error.hint).toMatch(new RegExp(`vidgen wait ${id}.*--again`));
    expect(error.next.every(({ pays }: { pays: boolean }) => !pays)).toBe(true);
    expect((await world.vidgen(...line, "--dry-run")).stdout).toContain("Would send nothing, and end with exit code 2");
    expect(starts(world)).toHaveLength(1);
    world.stdin = Buffer.from(png);
    expect(await world.vidgen(...line)).toMatchObject({ code: 0, stderr: expect.stringContaining(`Resuming ${id}`) });
    expect(starts(world)).toHaveLength(1);
  },
);

test("-i - with other bytes after a start that may have been charged is exit 6, and --again starts a new one", async () => {
  const { world } = await createStudio();
  const line = ["generate", "she turns", "-i", "-", "-m", "kling-2.6,ray-3"];
  world.stdin = Buffer.from(png);
  world.faults.push(
    onStart(() => {
      throw failure("ECONNRESET", true);
    }, 1),
  );
  expect(await world.vidgen(...line)).toMatchObject({ code: 6 });
  world.stdin = Buffer.from(aPng(30, 21));
  expect(await world.vidgen(...line)).toMatchObject({ code: 6 });
  expect(starts(world)).toHaveLength(1);
  expect(await world.vidgen(...line, "--again")).toMatchObject({ code: 0 });
  expect(starts(world)).toHaveLength(3);
});

test.each([
  [["-m", "kling-2.6,ray-3"], 0],
  [["-n", "2"], 40],
])("-i - %j with other bytes, after the second start was refused, pays for nothing again", async (flags, days) => {
  const { world } = await createStudio();
  const line = ["generate", "she turns", "-i", "-", ...flags, "-o", join(world.folder, "clips/")];
  world.stdin = Buffer.from(png);
  world.faults.push((request) =>
    isStart(request) && starts(world).length === 2
      ? Response.json({ error: "no credits" }, { status: 402 })
      : undefined,
  );
  expect(await world.vidgen(...line)).toMatchObject({ code: 7 });
  world.faults.length = 0;
  await world.io.sleep(days * 24 * 3_600_000);
  const list: { id: string; status: string }[] = JSON.parse((await world.vidgen("list", "--json")).stdout);
  const id = list.find(({ status }) => status === "completed")?.id;
  world.stdin = Buffer.from(aPng(30, 21));
  const run = await world.vidgen(...line, "--json");
  const { error } = JSON.parse(run.stderr.slice(run.stderr.indexOf("{")));
  expect([run.code, run.stdout, error.id]).toEqual([2, "", id]);
  expect(error.message).toContain(
    `another imageUrl (from vidgen.json, a setting or stdin), and has 1 of its 2 generations: ${id}`,
  );
  expect(error.next.every(({ pays }: { pays: boolean }) => !pays)).toBe(true);
  expect((await world.vidgen(...line, "--dry-run")).stdout).toContain("Would send nothing, and end with exit code 2");
  expect(starts(world)).toHaveLength(2);
  world.stdin = Buffer.from(png);
  expect(await world.vidgen(...line)).toMatchObject({ code: 0 });
  expect(starts(world)).toHaveLength(3);
});

test.each([
  [[], true],
  [["--local"], false],
])("an image on stdin with %j: that not every service takes data: URLs is said: %s", async (flags, isSaid) => {
  const { world } = await createStudio();
  world.stdin = Buffer.from(png);
  const { code, stderr } = await world.vidgen("generate", "a fox", "-i", "-", "--no-wait", ...flags);
  expect([code, stderr.includes("not every service")]).toEqual([0, isSaid]);
});

test.each<[string[], string | Buffer, RegExp]>([
  [["generate", "-", "-i", "-"], "a fox", /The image "-" is read from stdin, so the prompt cannot be/],
  [["generate", "-i", "-"], Buffer.from(png), /The image "-" is read from stdin, so the prompt cannot be/],
  [["again", "last", "-", "-i", "-"], "a fox", /The image "-" is read from stdin, so the prompt cannot be/],
  [["generate", "a fox", "-i", "-", "-i", "-"], Buffer.from(png), /Only one image can be "-"/],
  [["generate", "a fox", "-i", "-", "--last-image", "-", "--local"], Buffer.from(png), /Only one image can be "-"/],
  [["generate", "a fox", "-i", "-"], "", /The image on stdin is empty/],
  [["generate", "a fox", "-i", "-"], "GIF89a", /it is not a PNG, JPEG or WebP/],
  [["generate", "a fox", "-i", "-"], Buffer.alloc(20_000_001), /is larger than 20 MB/],
])("%j is a usage error, and nothing is sent", async (argv, stdin, message) => {
  const { world } = await createStudio();
  world.stdin = stdin;
  expect(await world.vidgen(...argv)).toMatchObject({ code: 2, stderr: expect.stringMatching(message) });
  expect(world.requests).toEqual([]);
});

test("-i - at a terminal says what to do, and does not wait", async () => {
  const { world } = await createStudio();
  world.isTerminal = true;
  expect(await world.vidgen("generate", "a fox", "-i", "-")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("pipe one in"),
  });
});
