import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { tinyMp4 } from "../../mp4.ts";
import { aPng } from "../../server/queue/pictures.ts";
import { apiKey, createWorld, failure, isStart, kill, onStart, type World } from "../../vidgen.ts";

const bodies = (world: World) => world.requests.filter(isStart).map(({ body }) => JSON.parse(body));
const paid = (world: World) => bodies(world).length;
const isPoll = (request: Request) => request.url.includes("generation-status");

/** The id of a generation that was started and saved. */
async function make(world: World, ...flags: string[]): Promise<string> {
  const run = await world.vidgen("generate", "a fox", "--json", ...flags);
  expect(run.code).toBe(0);
  return JSON.parse(run.stdout).id;
}

/** Answers the start with this number, from 1 on. */
const onStartNumber = (number: number, answer: () => Response): World["faults"][number] => {
  let count = 0;
  return (request) => (isStart(request) && ++count === number ? answer() : undefined);
};

const refuse = () => Response.json({ error: "no credits" }, { status: 402 });
const cut = () => {
  throw failure("ECONNRESET", true);
};

describe("again", () => {
  const given = ["-m", "sora-2", "-a", "16:9", "-d", "4", "-i", "https://x.example/1.png", "--set", 'style="5"'];
  const body = {
    prompt: "a fox",
    model: "sora-2",
    aspectRatio: "16:9",
    duration: 4,
    imageUrl: "https://x.example/1.png",
    style: "5",
  };

  test.each<[string[], object]>([
    [[], {}],
    [["a wolf", "-a", "9:16", "-d", "8s"], { prompt: "a wolf", aspectRatio: "9:16", duration: 8 }],
    [["-i", "https://x.example/2.png", "--set", "style=6"], { imageUrl: "https://x.example/2.png", style: 6 }],
    [["-m", "ray-3", "--seed", "7"], { model: "ray-3", seed: 7 }],
    [["--set", "image_strength=1"], { image_strength: 1 }],
  ])("starts the same request, except for %j", async (typed, changes) => {
    const world = await createWorld();
    world.env.VIDGEN_MODEL = "pika-2.2";
    const id = await make(world, ...given, "--no-wait");
    expect(await world.vidgen("again", id, ...typed, "--no-wait")).toMatchObject({ code: 0 });
    expect(bodies(world)).toEqual([body, { ...body, ...changes }]);
    const [second] = JSON.parse((await world.vidgen("list", "--json")).stdout);
    expect(second).toMatchObject({ parent: id });
  });

  test("with --image in place of a source image that --set gave", async () => {
    const world = await createWorld();
    const id = await make(world, "--set", 'imageUrls=["https://x.example/1.png"]', "--no-wait");
    const image = "https://x.example/2.png";
    expect(await world.vidgen("again", id, "--image", image, "--no-wait")).toMatchObject({ code: 0 });
    expect(bodies(world)[1]).toEqual({ prompt: "a fox", model: "wan-2.5", imageUrl: image });
    const set = `imageUrls=["${image}"]`;
    const typed = await world.vidgen("again", id, "-i", image, "--set", set, "--no-wait");
    expect(typed).toMatchObject({
      code: 0,
      stderr: expect.stringContaining("--image is not sent: the field imageUrls"),
    });
  });

  test("of a file finds its generation by its content, whatever its name", async () => {
    const world = await createWorld();
    const file = join(world.folder, "fox.mp4");
    await make(world, "-o", file, "-a", "1:1");
    renameSync(file, join(world.folder, "renamed"));
    await world.vidgen("generate", "something else");
    expect(await world.vidgen("again", join(world.folder, "renamed"))).toMatchObject({ code: 0 });
    expect(bodies(world)[2]).toMatchObject({ prompt: "a fox", aspectRatio: "1:1" });
    writeFileSync(file, "another video");
    expect(await world.vidgen("again", file)).toMatchObject({ code: 10, stderr: expect.stringContaining(file) });
    expect(await world.vidgen("again", "missing.mp4")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("there is no such file"),
    });
    expect(paid(world)).toBe(3);
  });

  test("of an id that was not started here says so, and sends nothing", async () => {
    const world = await createWorld();
    for (const [name, words] of [
      ["unheard-of", "so vidgen does not know what to repeat"],
      ["last", "No generation was started here yet"],
    ] as const)
      expect(await world.vidgen("again", name)).toMatchObject({ code: 10, stderr: expect.stringContaining(words) });
    expect(world.requests).toEqual([]);
  });

  test("takes no letter for an id: it may be a slip, and costs credits", async () => {
    const world = await createWorld();
    const id = await make(world);
    const run = await world.vidgen("again", id.slice(0, 3));
    expect(run).toMatchObject({ code: 2, stderr: expect.stringContaining("at least 8 characters") });
    expect(paid(world)).toBe(1);
  });

  test("asks for an image again of which the journal has only a hash", async () => {
    const world = await createWorld();
    const image = join(world.folder, "fox.png");
    writeFileSync(image, aPng(30, 20));
    const id = await make(world, "-i", image);
    const run = await world.vidgen("again", id);
    expect(run).toMatchObject({ code: 2, stderr: expect.stringMatching(/only a hash of an image of .*--image/s) });
    expect(await world.vidgen("again", id, "-i", image)).toMatchObject({ code: 0 });
    expect(bodies(world)[1]).toEqual(bodies(world)[0]);
  });

  test("asks for a callback address with a query again", async () => {
    const world = await createWorld();
    const id = await make(world, "--callback-url", "https://x.example/?token=1");
    const run = await world.vidgen("again", id);
    expect(run).toMatchObject({ code: 2, stderr: expect.stringMatching(/only a hash.*--callback-url/s) });
    expect(paid(world)).toBe(1);
  });

  test("stays at the service of the generation that it repeats", async () => {
    const world = await createWorld();
    const id = await make(world);
    world.env.VIDGEN_BASE_URL = "https://other.example";
    const run = await world.vidgen("again", id, "--dry-run", "--json");
    expect(JSON.parse(run.stdout).url).toBe("https://api.video.example/api/generate");
  });

  test.each(["id", "last"])("%s, typed again after a kill, resumes, and pays once", async (name) => {
    const world = await createWorld();
    const id = await make(world);
    const line = ["again", name === "id" ? id : name, "a wolf", "-o", join(world.folder, "wolf.mp4")];
    await kill(world, isPoll, ...line);
    expect(await world.vidgen(...line)).toMatchObject({ code: 0, stderr: expect.stringContaining("Resuming") });
    expect(paid(world)).toBe(2);
    expect(readFileSync(join(world.folder, "wolf.mp4"))).toEqual(Buffer.from(tinyMp4("a wolf")));
    expect(await world.vidgen(...line, "--overwrite")).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(3);
  });

  test.each(["id", "last"])("%s, typed again after its request was cut, sends nothing", async (name) => {
    const world = await createWorld();
    const id = await make(world);
    const line = ["again", name === "id" ? id : name];
    world.faults.push(onStart(cut));
    expect(await world.vidgen(...line)).toMatchObject({ code: 6 });
    world.faults.length = 0;
    expect(await world.vidgen(...line)).toMatchObject({
      code: 6,
      stderr: expect.stringContaining("Nothing was sent now"),
    });
    expect(paid(world)).toBe(2);
    expect(await world.vidgen(...line, "--again")).toMatchObject({ code: 0 });
  });

  test("last, with other changes, repeats the newest one also where that is left", async () => {
    const world = await createWorld();
    await make(world);
    await kill(world, isPoll, "again", "last", "a wolf");
    const line = ["again", "last", "-a", "9:16", "-o", join(world.folder, "wolf.mp4")];
    await kill(world, isPoll, ...line);
    expect(await world.vidgen(...line)).toMatchObject({ code: 0, stderr: expect.stringContaining("Resuming") });
    expect(paid(world)).toBe(3);
    expect(bodies(world)[2]).toMatchObject({ prompt: "a wolf", aspectRatio: "9:16" });
  });

  test("last with --reuse, typed again, is not paid for again", async () => {
    const world = await createWorld();
    await make(world);
    const line = ["again", "last", "a wolf", "--reuse"];
    const runs = [await world.vidgen(...line), await world.vidgen(...line)];
    expect([runs.map(({ code }) => code), runs[1]?.stdout, paid(world)]).toEqual([[0, 0], runs[0]?.stdout, 2]);
  });

  describe("last, typed again after another generation was made, means what it meant", () => {
    const wolf = (world: World) =>
      ["again", "last", "a wolf", "--set", "a=1", "--set", "b=2"].concat("-o", join(world.folder, "wolf.mp4"));

    test.each<[string, (line: string[], world: World) => string[]]>([
      ["the same words", (line) => line],
      [
        "flags that change neither the request nor the place",
        (line) => [...line, "--timeout", "9m", "--json", "-q", "--overwrite"],
      ],
      ["the prompt from a file", (line, { folder }) => line.with(2, `@${join(folder, "prompt.txt")}`)],
      [
        "another order",
        ([, , , ...flags]) => [
          "again",
          ...flags.slice(2, 4),
          ...flags.slice(0, 2),
          ...flags.slice(4),
          "last",
          "a wolf",
        ],
      ],
      ["another spelling of the place", (line, { folder }) => line.with(-1, `${folder}/./wolf.mp4`)],
    ])("after a kill: it resumes, with %s", async (_, spell) => {
      const world = await createWorld();
      writeFileSync(join(world.folder, "prompt.txt"), "a wolf\n");
      const id = await make(world);
      await kill(world, isPoll, ...wolf(world));
      expect(await world.vidgen("generate", "an owl", "-m", "ray-3")).toMatchObject({ code: 0 });
      expect(await world.vidgen(...spell(wolf(world), world))).toMatchObject({ code: 0 });
      expect([paid(world), readdirSync(world.folder).includes("wolf.mp4")]).toEqual([3, true]);
      const saved = JSON.parse((await world.vidgen("list", "--json")).stdout)[1];
      expect([saved.parent, saved.typed]).toEqual([id, undefined]);
    });

    test("after an unclear start: it sends nothing until that is dismissed, and then repeats the newest", async () => {
      const world = await createWorld();
      await make(world);
      world.faults.push(onStart(cut));
      expect(await world.vidgen(...wolf(world))).toMatchObject({ code: 6 });
      world.faults.length = 0;
      expect(await world.vidgen("generate", "an owl", "-m", "ray-3")).toMatchObject({ code: 0 });
      for (const more of [[], ["--dry-run"]])
        expect((await world.vidgen(...wolf(world), ...more)).code).toBe(more.length === 0 ? 6 : 0);
      expect(paid(world)).toBe(3);
      const [, { attempt }] = JSON.parse((await world.vidgen("list", "--json")).stdout);
      expect(await world.vidgen("list", "--dismiss", attempt)).toMatchObject({ code: 0 });
      expect(await world.vidgen(...wolf(world))).toMatchObject({ code: 0 });
      expect(bodies(world)[3]).toMatchObject({ prompt: "a wolf", model: "ray-3" });
    });

    test("with --again too, which starts a new one of it", async () => {
      const world = await createWorld();
      const id = await make(world);
      world.faults.push(onStart(cut));
      await world.vidgen(...wolf(world));
      world.faults.length = 0;
      await make(world, "-m", "ray-3");
      expect(await world.vidgen(...wolf(world), "--again")).toMatchObject({ code: 0 });
      expect(JSON.parse((await world.vidgen("list", "--json")).stdout)[0].parent).toBe(id);
    });

    test("of -n, while a position is not made", async () => {
      const world = await createWorld();
      const id = await make(world);
      const line = ["again", "last", "a wolf", "-n", "2", "-o", join(world.folder, "clips/")];
      world.faults.push(onStartNumber(2, refuse));
      expect(await world.vidgen(...line)).toMatchObject({ code: 7 });
      await make(world, "-m", "ray-3");
      expect(await world.vidgen(...line)).toMatchObject({ code: 0 });
      const entries = JSON.parse((await world.vidgen("list", "--json")).stdout);
      expect([paid(world), entries[0].parent]).toEqual([5, id]);
      expect(await world.vidgen(...line)).toMatchObject({ code: 0 });
      expect(paid(world)).toBe(7);
    });

    test("with --reuse, for 24 hours after it was delivered", async () => {
      const world = await createWorld();
      await make(world);
      const line = ["again", "last", "a wolf", "--reuse"];
      const first = await world.vidgen(...line);
      await make(world);
      expect((await world.vidgen(...line)).stdout).toBe(first.stdout);
      expect(paid(world)).toBe(3);
      await world.io.sleep(25 * 3_600_000);
      expect((await world.vidgen(...line)).stdout).not.toBe(first.stdout);
      expect(paid(world)).toBe(4);
    });

    test("if the journal no longer has that generation, it sends nothing", async () => {
      const world = await createWorld();
      const id = await make(world);
      await kill(world, isPoll, ...wolf(world));
      await make(world);
      expect(await world.vidgen("list", "--forget", id, "--yes")).toMatchObject({ code: 0 });
      expect(await world.vidgen(...wolf(world))).toMatchObject({
        code: 10,
        stderr: expect.stringContaining("Nothing was sent"),
      });
      expect(paid(world)).toBe(3);
    });

    test("but in another line, at another place, and after it was delivered, it is the newest", async () => {
      const world = await createWorld();
      await make(world);
      await kill(world, isPoll, ...wolf(world));
      await make(world, "-m", "ray-3");
      const lines = [
        wolf(world).with(2, "a bear").with(-1, join(world.folder, "bear.mp4")),
        wolf(world).with(-1, join(world.folder, "other.mp4")),
        wolf(world),
        [...wolf(world), "--overwrite"],
      ];
      for (const line of lines) expect(await world.vidgen(...line)).toMatchObject({ code: 0 });
      expect(bodies(world).map(({ model }) => model === "ray-3")).toEqual([false, false, true, true, true, true]);
      expect(paid(world)).toBe(6);
    });
  });

  test("never resumes the generation that it repeats, nor one that repeats another", async () => {
    const world = await createWorld();
    await kill(world, isPoll, "generate", "a fox");
    const first = JSON.parse((await world.vidgen("list", "--json")).stdout)[0].id;
    expect(await world.vidgen("again", first)).toMatchObject({ code: 0, stderr: expect.stringContaining("Started") });
    await kill(world, isPoll, "again", "last");
    expect(await world.vidgen("again", first)).toMatchObject({ code: 0, stderr: expect.stringContaining("Started") });
    expect(paid(world)).toBe(4);
  });

  test("a person who makes a slip in the model is asked, and the prompt is no question", async () => {
    const world = await createWorld();
    world.isTerminal = true;
    const id = await make(world);
    world.answers = [["Did you mean ray-3?", "\r"]];
    expect(await world.vidgen("again", id, "-m", "ray3")).toMatchObject({ code: 0 });
    expect(bodies(world)[1].model).toBe("ray-3");
  });
});

describe("-n", () => {
  const clips = (world: World) => join(world.folder, "clips/");
  const line = (world: World, ...more: string[]) => ["generate", "a fox", "-n", "3", "-o", clips(world), ...more];
  const files = (world: World) => readdirSync(clips(world)).sort();
  const three = ["a-fox-1.mp4", "a-fox-2.mp4", "a-fox-3.mp4"];

  test("starts as many, saves them under numbers, and prints each path", async () => {
    const world = await createWorld();
    const run = await world.vidgen(...line(world));
    expect(run.code).toBe(0);
    expect(run.stdout.trim().split("\n").sort()).toEqual(three.map((name) => join(clips(world), name)));
    expect([paid(world), files(world)]).toEqual([3, three]);
  });

  test("with --json is one array in order, and each has the next seed", async () => {
    const world = await createWorld();
    const run = await world.vidgen(...line(world, "--json", "--seed", "41"));
    expect(JSON.parse(run.stdout)).toMatchObject(
      three.map((name) => ({ status: "completed", file: join(clips(world), name) })),
    );
    expect(bodies(world).map(({ seed }) => seed)).toEqual([41, 42, 43]);
  });

  test("says once that a service may not know the seed", async () => {
    const world = await createWorld();
    const run = await world.vidgen(...line(world, "--seed", "41"));
    expect(run.stderr.match(/may not know the field "seed"/g)).toHaveLength(1);
  });

  test("killed after the second start, the same line starts one more, and after that a new run", async () => {
    const world = await createWorld();
    let starts = 0;
    await kill(world, (request) => isStart(request) && ++starts === 3, ...line(world));
    expect(paid(world)).toBe(3);
    const attempt = JSON.parse((await world.vidgen("list", "--json")).stdout)[0].attempt;
    expect(await world.vidgen(...line(world))).toMatchObject({ code: 6 });
    expect(paid(world)).toBe(3);
    await world.vidgen("list", "--dismiss", attempt);
    const run = await world.vidgen(...line(world));
    expect(run).toMatchObject({ code: 0, stderr: expect.stringMatching(/Already saved: .*a-fox-1.mp4/) });
    expect(run.stdout.trim().split("\n")).toHaveLength(3);
    expect([paid(world), files(world)]).toEqual([4, three]);
    expect(await world.vidgen(...line(world))).toMatchObject({ code: 0 });
    expect([paid(world), files(world).length]).toEqual([7, 6]);
  });

  test.each([
    ["polled", isPoll],
    ["downloaded", (request: Request) => request.url.endsWith(".mp4")],
  ])("killed while they are %s, the same line resumes, and pays for none again", async (_, moment) => {
    const world = await createWorld();
    for (let kills = 0; kills < 3; kills++) await kill(world, moment, ...line(world));
    expect(await world.vidgen(...line(world))).toMatchObject({ code: 0 });
    expect([paid(world), files(world)]).toEqual([3, three]);
  });

  test("a month later the same line still resumes its run", async () => {
    const world = await createWorld();
    await kill(world, isPoll, ...line(world));
    const before = paid(world);
    await world.io.sleep(40 * 24 * 3_600_000);
    expect(await world.vidgen(...line(world))).toMatchObject({ code: 0 });
    expect([before < 4, paid(world)]).toEqual([true, 3]);
  });

  test("what `wait` has saved meanwhile is not paid for again", async () => {
    const world = await createWorld();
    world.faults.push(onStartNumber(3, refuse));
    expect(await world.vidgen(...line(world, "--timeout", "1s"))).toMatchObject({ code: 7 });
    expect(await world.vidgen("wait", "--all", "-o", clips(world))).toMatchObject({ code: 0 });
    expect(await world.vidgen(...line(world))).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(4);
  });

  test("after a refused start nothing else is sent; running generations are saved, and the same line resumes", async () => {
    const world = await createWorld();
    world.faults.push(onStartNumber(2, refuse));
    const run = await world.vidgen(...line(world));
    expect(run).toMatchObject({ code: 7, stdout: `${join(clips(world), "a-fox-1.mp4")}\n` });
    expect(run.stderr).toContain("2 of 3 were not started.");
    expect(paid(world)).toBe(2);
    expect(await world.vidgen(...line(world))).toMatchObject({ code: 0 });
    expect([paid(world), files(world)]).toEqual([4, three]);
  });

  test("what was printed as a URL is printed again with the rest, and not paid for again", async () => {
    const world = await createWorld();
    world.faults.push(onStartNumber(3, refuse));
    const first = await world.vidgen("generate", "a fox", "-n", "3");
    const second = await world.vidgen("generate", "a fox", "-n", "3");
    expect([first.code, second.code, paid(world)]).toEqual([7, 0, 4]);
    expect(second.stdout.trim().split("\n")).toHaveLength(3);
    expect(
      first.stdout
        .trim()
        .split("\n")
        .every((url) => second.stdout.includes(url)),
    ).toBe(true);
  });

  test("an unclear start stops the same line until it is dismissed, and --again starts from the beginning", async () => {
    const world = await createWorld();
    world.faults.push(onStartNumber(2, cut));
    expect(await world.vidgen(...line(world))).toMatchObject({ code: 6 });
    world.faults.length = 0;
    expect(await world.vidgen(...line(world))).toMatchObject({
      code: 6,
      stderr: expect.stringContaining("Nothing was sent now"),
    });
    expect(paid(world)).toBe(2);
    expect(await world.vidgen(...line(world, "--again"))).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(5);
    expect((await world.vidgen("list", "--status", "unknown")).stdout).toBe("");
  });

  test("a failed one alone is started again", async () => {
    const world = await createWorld();
    const run = await world.vidgen("generate", "[fail]", "-n", "2", "-o", clips(world));
    expect(run.code).toBe(4);
    await world.vidgen("generate", "[fail]", "-n", "2", "-o", clips(world));
    expect(paid(world)).toBe(4);
  });

  test("two of the same line at once are two runs", async () => {
    const world = await createWorld();
    const runs = await Promise.all([world.vidgen(...line(world)), world.vidgen(...line(world))]);
    expect(runs.map(({ code }) => code)).toEqual([0, 0]);
    expect([paid(world), files(world).length]).toEqual([6, 6]);
    const times = world.requests.filter(isStart).map(({ at }) => at);
    expect(Math.max(...times)).toBeLessThan(30_000);
  });

  test("of one whose id was printed the same line without --no-wait waits for the video", async () => {
    const world = await createWorld();
    world.faults.push(onStartNumber(2, refuse));
    expect(await world.vidgen("generate", "a fox", "-n", "2", "--no-wait")).toMatchObject({ code: 7 });
    const run = await world.vidgen("generate", "a fox", "-n", "2");
    expect(run).toMatchObject({ code: 0, stdout: expect.stringMatching(/^(https:.*\.mp4\n){2}$/) });
    expect(paid(world)).toBe(3);
  });

  test("a file that another program has replaced is no result: the video is saved again, under a free number", async () => {
    const world = await createWorld();
    world.faults.push(onStartNumber(2, refuse));
    await world.vidgen(...line(world));
    writeFileSync(join(clips(world), "a-fox-1.mp4"), "another program's");
    const run = await world.vidgen(...line(world));
    expect(run.stdout.trim().split("\n")).not.toContain(join(clips(world), "a-fox-1.mp4"));
    expect([run.code, paid(world), files(world).length]).toEqual([0, 4, 4]);
  });

  test("with --json, an error about stdout names the ids", async () => {
    const world = await createWorld();
    world.isStdoutFull = true;
    const run = await world.vidgen("generate", "a fox", "-n", "2", "--json");
    world.isStdoutFull = false;
    const ids = JSON.parse((await world.vidgen("list", "--json")).stdout).map(({ id }: { id: string }) => id);
    expect(run.code).toBe(9);
    for (const id of ids) expect(run.stderr).toContain(id);
    expect(ids).toHaveLength(2);
  });

  test("a start that is unclear is reported also where what was saved before cannot be printed", async () => {
    const world = await createWorld();
    let first: string | undefined;
    world.faults.push((request) => {
      const id = isPoll(request) ? (new URL(request.url).searchParams.get("id") ?? "") : undefined;
      first ??= id;
      return id !== undefined && id === first ? Response.json({ data: { id, status: "failed" } }) : undefined;
    });
    const two = ["generate", "a fox", "-n", "2", "-o", clips(world)];
    expect((await world.vidgen(...two)).code).toBe(4);
    world.isStdoutFull = true;
    world.faults.push(onStart(cut));
    expect(await world.vidgen(...two)).toMatchObject({
      code: 6,
      stderr: expect.stringContaining("may have been charged"),
    });
  });

  test("with --json, a start that is unclear is reported also where stdout is full", async () => {
    const world = await createWorld();
    world.isStdoutFull = true;
    world.faults.push(onStartNumber(2, cut));
    const run = await world.vidgen("generate", "a fox", "-n", "2", "--json");
    expect(run).toMatchObject({
      code: 6,
      stderr: expect.stringMatching(/may have been charged.*Cannot write to stdout/s),
    });
  });

  test("with --events, what was saved before has its events too", async () => {
    const world = await createWorld();
    world.faults.push(onStartNumber(2, refuse));
    await world.vidgen(...line(world));
    const { code, stdout } = await world.vidgen(...line(world, "--events"));
    const events = stdout
      .trim()
      .split("\n")
      .map((text) => JSON.parse(text));
    const ended = events.filter(({ event }) => event === "ended");
    expect([code, ended.map(({ file }) => file).sort()]).toEqual([0, three.map((name) => join(clips(world), name))]);
  });

  test("with --again, a position that another process has taken over is not paid for again", async () => {
    const world = await createWorld();
    const journal = join(world.home, "journal.jsonl");
    // As if this process had been suspended, and one on another machine had taken over its run.
    world.faults.push((request) => {
      if (!isStart(request) || paid(world) > 1) return undefined;
      const intent = JSON.parse(readFileSync(journal, "utf8"));
      const other = { ...intent, attempt: "other", position: 2 };
      const accepted = { at: intent.at, kind: "accepted", attempt: "other", id: "other-id" };
      appendFileSync(journal, `${JSON.stringify(other)}\n${JSON.stringify(accepted)}\n`);
      return undefined;
    });
    const run = await world.vidgen("generate", "a fox", "-n", "2", "--again");
    expect(run.stderr).toContain("Resuming other-id");
    expect(paid(world)).toBe(1);
  });

  test("with --no-wait prints the ids, and the same line starts a new run", async () => {
    const world = await createWorld();
    const run = await world.vidgen("generate", "a fox", "-n", "2", "--no-wait");
    expect(run.stdout.trim().split("\n")).toHaveLength(2);
    expect(JSON.parse((await world.vidgen("generate", "a fox", "-n", "2", "--no-wait", "--json")).stdout)).toHaveLength(
      2,
    );
    expect(paid(world)).toBe(4);
  });

  test("--max-credits stops before the run costs more, and counts what an earlier process has spent", async () => {
    const world = await createWorld();
    await make(world);
    const limited = line(world, "--max-credits", "20");
    const run = await world.vidgen(...limited);
    expect(run).toMatchObject({ code: 7, stderr: expect.stringContaining("20 of at most 20 credits are spent") });
    expect(run.stderr).toContain("nothing more is started");
    expect(run.stderr).not.toMatch(/nothing was (sent|charged)/i);
    expect(run.stderr).toContain("Raise --max-credits, then run the same command to get the rest.");
    expect(run.stderr).not.toContain("Run the same command");
    expect(await world.vidgen(...limited)).toMatchObject({ code: 7 });
    expect([paid(world), files(world)]).toEqual([3, three.slice(0, 2)]);
  });

  test("with --again, names the command that gets the rest and pays for nothing twice", async () => {
    const world = await createWorld();
    const run = await world.vidgen(...line(world, "--again", "--timeout", "1s"));
    expect(run).toMatchObject({ code: 5, stderr: expect.stringContaining("Run the same command without --again to") });
    expect(await world.vidgen(...line(world))).toMatchObject({ code: 0 });
    expect([paid(world), files(world)]).toEqual([3, three]);
  });

  test("--again beyond --max-credits sends nothing, and what may have been charged still stops the same line", async () => {
    const world = await createWorld();
    world.faults.push(onStartNumber(2, cut));
    expect(await world.vidgen(...line(world))).toMatchObject({ code: 6 });
    world.faults.length = 0;
    expect(await world.vidgen(...line(world, "--again", "--max-credits", "5"))).toMatchObject({
      code: 7,
      stderr: expect.stringContaining("Raise --max-credits, then run the same command to get the rest."),
    });
    expect(await world.vidgen(...line(world))).toMatchObject({ code: 6 });
    expect(paid(world)).toBe(2);
  });

  test.each<[string[], RegExp]>([
    [["-n", "0"], /-n must be a whole number from 1 to 20/],
    [["-n", "21"], /-n must be a whole number from 1 to 20/],
    [["-n", "2", "-o", "fox.mp4"], /-n needs a folder or distinct names, not fox.mp4/],
    [["-n", "2", "-o", "-"], /-n needs a folder/],
    [["-n", "2", "--reuse"], /-n and --reuse cannot be combined/],
    [["-n", "2", "--open"], /-n and --open cannot be combined/],
    [["--seed", "x"], /--seed must be a whole number/],
  ])("%j is a usage error", async (flags, message) => {
    const world = await createWorld();
    expect(await world.vidgen("generate", "a fox", ...flags)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(message),
    });
    expect(world.requests).toEqual([]);
  });

  test("an invalid output path is not reported as a bug of vidgen", async () => {
    const world = await createWorld();
    const place = join(world.folder, "a".repeat(300), "{n}.mp4");
    const run = await world.vidgen("generate", "a fox", "-n", "2", "-o", place);
    expect(run).toMatchObject({ code: 9, stderr: expect.stringContaining("Nothing was sent") });
    expect(world.requests).toEqual([]);
  });

  test("asks a person once, with the total", async () => {
    const world = await createWorld();
    world.isTerminal = true;
    await make(world);
    world.answers = [["Start 3 generations for about 30 credits?", "n\r"]];
    expect(await world.vidgen(...line(world))).toMatchObject({
      code: 130,
      stderr: expect.stringContaining("Not started"),
    });
    world.answers = [["Start 3 generations for about 30 credits?", "y\r"]];
    expect(await world.vidgen(...line(world))).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(4);
  });

  test("--dry-run prints what each would do", async () => {
    const world = await createWorld();
    world.faults.push(onStartNumber(3, refuse));
    await kill(world, isPoll, ...line(world));
    const sent = paid(world);
    const run = await world.vidgen(...line(world, "--dry-run", "--json"));
    const documents = JSON.parse(run.stdout);
    expect(documents).toHaveLength(3);
    expect(documents[0]).toMatchObject({ resume: { status: "processing" } });
    expect(documents[2]).toMatchObject({ method: "POST", body: { prompt: "a fox" } });
    expect([paid(world), existsSync(join(clips(world), "a-fox-1.mp4"))]).toEqual([sent, false]);
    rmSync(clips(world), { recursive: true });
    expect((await world.vidgen(...line(world, "--dry-run"))).stdout).not.toContain(apiKey);
    expect(existsSync(clips(world))).toBe(false);
  });
});

describe("--from", () => {
  test("without ffmpeg says how to install it, and that nothing was sent", async () => {
    const world = await createWorld();
    const file = join(world.folder, "fox.mp4");
    writeFileSync(file, tinyMp4("a fox"));
    const run = await world.vidgen("generate", "a wolf", "--from", file);
    expect(run).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/needs ffmpeg: apt install.*Nothing was sent/),
    });
    expect(world.requests).toEqual([]);
  });

  test("takes no letter for an id: it may be a slip, and costs credits", async () => {
    const world = await createWorld();
    const id = await make(world);
    const run = await world.vidgen("generate", "a wolf", "--from", id.slice(0, 3));
    expect(run).toMatchObject({ code: 2, stderr: expect.stringMatching(/at least 8 characters.* Nothing was sent/) });
    expect(paid(world)).toBe(1);
  });

  test("and --image cannot be combined", async () => {
    const world = await createWorld();
    const image = "https://x.example/1.png";
    for (const flags of [
      ["-i", image],
      ["--set", `image_url=${image}`],
    ]) {
      const run = await world.vidgen("generate", "a wolf", "--from", "fox.mp4", ...flags);
      expect(run).toMatchObject({ code: 2, stderr: expect.stringContaining("cannot be combined") });
    }
  });
});

test("a folder in place of a video is told, with its newest videos as examples", async () => {
  const world = await createWorld();
  const takes = join(world.folder, "takes/");
  await world.vidgen("generate", "a fox", "-n", "2", "-o", takes);
  const sent = world.requests.length;
  const examples = readdirSync(takes).map((name) => join(takes, name));
  expect(examples).toHaveLength(2);
  const lines = [
    ["generate", "a fox", "--from"],
    ["again"],
    ["wait"],
    ["status"],
    ["list", "--open"],
    ["list", "--dismiss"],
  ];
  for (const line of lines) {
    const { code, stderr } = await world.vidgen(...line, takes);
    expect([line, code, stderr]).toEqual([line, 2, expect.stringContaining(`${takes} is a folder, and not a video.`)]);
    for (const example of examples) expect(stderr).toContain(example);
  }
  const empty = `${join(world.folder, "empty")}/`;
  mkdirSync(empty);
  expect((await world.vidgen("again", empty)).stderr).toContain(
    `${empty} is a folder, and not a video. It has no videos.`,
  );
  expect(await world.vidgen("batch", takes)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("it is a folder"),
  });
  expect(world.requests).toHaveLength(sent);
});
