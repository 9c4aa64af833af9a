import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import process from "node:process";
import { describe, expect, test } from "vitest";
import { eventSchema } from "../../../src/cli/help/results.ts";
import type { Disk } from "../../../src/io.ts";
import { colorsOf, fakeFfmpeg, makeClip, nameOf, run, runsOf } from "../../client/film/clips.ts";
import { makeFolder } from "../../folder.ts";
import { hasFfmpeg } from "../../needs.ts";
import { slowness } from "../../slowness.ts";
import { createWorld, isStart, type World } from "../../vidgen.ts";

const shots = ["red", "lime", "blue", "yellow", "white"];

/** A world with ffmpeg, in which the video of a prompt is a clip of that colour, and a file with a row for each, from the row before. */
async function createFilmWorld(rows = shots.map((color, i) => `${color},${i === 0 ? "" : "previous"}`)) {
  const frames = 12;
  const world = await createWorld();
  Object.assign(world.io, { run });
  Object.assign(world.env, { PATH: process.env.PATH });
  const file = join(world.folder, "shots.csv");
  writeFileSync(file, ["prompt,from", ...rows, ""].join("\n"));
  const prompts = new Map<string, string>();
  const clips = new Map<string, string>();
  world.faults.push(async (request) => {
    if (isStart(request)) {
      const { prompt } = (await request.clone().json()) as { prompt: string };
      const reply = (await world.start(request)) as { data: { id: string } };
      prompts.set(reply.data.id, prompt);
      return Response.json(reply);
    }
    const [, id = ""] = /([\w-]+)\.mp4/.exec(request.url) ?? [];
    const prompt = prompts.get(id);
    if (prompt === undefined) return undefined;
    const color = prompt.split(",")[0] as string;
    const clip = clips.get(color) ?? makeClip(join(world.home, `${color}.mp4`), { colors: [[color, frames]] });
    clips.set(color, clip);
    return new Response(readFileSync(clip));
  });
  const film = join(world.folder, "film.mp4");
  const batch = (...argv: string[]) => world.vidgen("batch", file, "-o", join(world.folder, "clips/{n}.mp4"), ...argv);
  return { world, file, batch, film };
}

/** The prompt of each start, and the colour of the frame that it begins with. */
function startsOf(world: World): [string, string | undefined][] {
  return world.requests.filter(isStart).map(({ body }, i) => {
    const { prompt, imageUrl } = JSON.parse(body);
    if (imageUrl === undefined) return [prompt, undefined];
    const frame = join(world.folder, `frame-${i}.png`);
    writeFileSync(frame, Buffer.from(imageUrl.replace(/^data:image\/png;base64,/, ""), "base64"));
    return [prompt, colorsOf(frame).map(nameOf)[0]];
  });
}

const inOrder = shots.map((color, i) => [color, i === 0 ? undefined : shots[i - 1]]);

/** Has each process die at the next step that none has died at; `steps` are those that were reached. */
function dieAtEachStep(world: World) {
  const steps: string[] = [];
  let killed = () => {};
  /** Never resolves where the process dies. */
  const reach = async (step: string) => {
    if (steps.includes(step)) return;
    steps.push(step);
    killed();
    await new Promise<never>(() => {});
  };
  const number = () => world.requests.filter(isStart).length;
  const { run, disk } = world.io;
  Object.assign(world.io, {
    run: async (...args: Parameters<typeof run>) => {
      if (args[1].includes("bmp")) await reach(`frame ${number()}`);
      if (args[1].includes("libx264") || args[1].includes("copy")) await reach("join");
      return run(...args);
    },
    disk: {
      ...disk,
      rename: async (...args: Parameters<Disk["rename"]>) => {
        await disk.rename(...args);
        if (String(args[0]).endsWith(".png")) await reach(`frame kept ${number()}`);
      },
      link: async (...args: Parameters<Disk["link"]>) => {
        const isFilm = basename(String(args[1])) === "film.mp4";
        if (isFilm) await reach("film recorded");
        await disk.link(...args);
        if (isFilm) await reach("film named");
      },
    },
  });
  world.faults.unshift(async (request) => {
    if (request.url.includes("generation-status")) await reach(`accepted ${number()}`);
    if (request.url.endsWith(".mp4")) await reach(`completed ${number()}`);
    return undefined;
  });
  return {
    steps,
    /** Runs it until it dies, or returns what it ends with. */
    async run(start: () => ReturnType<World["vidgen"]>) {
      const died = new Promise<undefined>((resolve) => {
        killed = () => resolve(undefined);
      });
      const ended = await Promise.race([start(), died]);
      if (!ended) world.reboot();
      return ended;
    },
  };
}

describe.skipIf(!hasFfmpeg)("a film", () => {
  test("each row begins with the last frame of the one before", async () => {
    const { world, batch } = await createFilmWorld();
    const dry = await batch("--dry-run");
    expect(dry).toMatchObject({ code: 0, stdout: expect.stringContaining("in this order: lines 2, 3, 4, 5, 6") });
    const run = await batch();
    expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining("Line 3 begins with a frame of nearly one") });
    expect(startsOf(world)).toEqual(inOrder);
  });

  const many = { timeout: 180_000 * slowness };
  test(
    "killed between every two steps, five are started, each with the frame of the one before, and one film is made",
    many,
    async () => {
      const { world, batch, film } = await createFilmWorld();
      const { steps, run } = dieAtEachStep(world);
      let ended: Awaited<ReturnType<typeof run>>;
      while (!ended) ended = await run(() => batch("--join", film));
      expect(ended).toMatchObject({ code: 0, stdout: `${film}\n`, stderr: expect.stringContaining("is up to date") });
      expect(runsOf(film)).toEqual(shots.map((color) => [color, 12]));
      expect(readdirSync(world.folder).sort()).toEqual(["clips", "film.mp4", "shots.csv", "shots.csv.results.jsonl"]);
      expect(startsOf(world)).toEqual(inOrder);
      const ofEach = [1, 2, 3, 4].flatMap((n) => [`frame ${n}`, `frame kept ${n}`]);
      expect(steps).toEqual(expect.arrayContaining(ofEach));
      expect(steps).toHaveLength(5 * 2 + 4 * 2 + 3);
    },
  );

  test("killed while a start is out, it may have been charged, and nothing that depends on it is started", async () => {
    const { world, batch } = await createFilmWorld();
    await new Promise<void>((resolve) => {
      world.faults.unshift((request) => {
        if (!isStart(request) || world.requests.filter(isStart).length < 3) return undefined;
        resolve();
        return new Promise<never>(() => {});
      });
      void batch();
    });
    world.faults.shift();
    world.reboot();
    const again = await batch();
    expect(again).toMatchObject({
      code: 6,
      stderr: expect.stringContaining("line 5 is not started: it depends on line 4, which has no video"),
    });
    expect(world.requests.filter(isStart)).toHaveLength(3);
    expect(await batch("--retry-unknown")).toMatchObject({ code: 0 });
    expect(startsOf(world)).toEqual([...inOrder.slice(0, 3), ...inOrder.slice(2)]);
  });
});

describe.skipIf(!hasFfmpeg)("--join", () => {
  test("typed again, the film is up to date, and only an added row is started", async () => {
    const { world, file, batch, film } = await createFilmWorld(["red,", "lime,previous"]);
    const run = await batch("--join", film, "--json");
    const made = { file: film, copied: true, frames: 24, seconds: 1 };
    expect(JSON.parse(run.stdout)).toMatchObject({ done: 2, film: { ...made, up_to_date: false } });
    const [sent, before] = [world.requests.length, statSync(film)];
    const again = await batch("--join", film);
    expect(again).toMatchObject({ code: 0, stdout: `${film}\n` });
    expect(again.stderr).toContain(`Then all videos are joined into ${film}, unless it is up to date.\n`);
    expect(again.stderr).toContain(`\n${film} is up to date.\n`);
    const json = await batch("--join", film, "--json");
    expect(JSON.parse(json.stdout).film).toEqual({ ...made, up_to_date: true });
    expect([world.requests.length, statSync(film)]).toEqual([sent, before]);

    appendFileSync(file, "blue,\n");
    expect(await batch("--join", film)).toMatchObject({
      code: 0,
      stdout: `${join(world.folder, "clips/3.mp4")}\n${film}\n`,
      stderr: expect.stringMatching(
        /Joining .*film.mp4: 100%\n.*film.mp4: 3 clips, 1.5 s, 36 frames; the video was copied without re-encoding/,
      ),
    });
    expect(readdirSync(world.folder).sort()).toEqual(["clips", "film.mp4", "shots.csv", "shots.csv.results.jsonl"]);
    expect(startsOf(world).map(([prompt]) => prompt)).toEqual(["red", "lime", "blue"]);
    expect(runsOf(film).map(([color]) => color)).toEqual(["red", "lime", "blue"]);
  });

  test.each(["", "{model}/", "{model}/{n}.mp4"])("the film may lie in the folder of -o clips/%s", async (names) => {
    const { world, file } = await createFilmWorld(["red,"]);
    const clips = `${join(world.folder, "clips")}/`;
    const line = ["batch", file, "-o", `${clips}${names}`, "--join", `${clips}film.mp4`];
    expect(await world.vidgen(...line, "--dry-run")).toMatchObject({ code: 0 });
    expect(existsSync(clips)).toBe(false);
    expect(await world.vidgen(...line)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`${clips}film.mp4\n`),
    });
  });

  test("a row that is made again is joined again, and rows that began with its old video are named", async () => {
    const { world, file, film } = await createFilmWorld(["red,", "lime,previous"]);
    const line = ["batch", file, "-o", join(world.folder, "clips/{slug}.mp4"), "--join", film];
    await world.vidgen(...line);
    writeFileSync(file, "prompt,from\nred,\nblue,\nlime,previous\n");
    expect(await world.vidgen(...line)).toMatchObject({
      code: 0,
      stderr: expect.stringContaining("Line 4 still begins with the last frame of an earlier video"),
    });
    expect(startsOf(world).map(([prompt]) => prompt)).toEqual(["red", "lime", "blue"]);
    expect(runsOf(film)).toEqual([
      ["red", 12],
      ["blue", 12],
      ["lime", 12],
    ]);
    const sent = world.requests.length;
    writeFileSync(file, "prompt,from\nblue,\nred,\nlime,previous\n");
    expect(await world.vidgen(...line)).toMatchObject({ code: 0 });
    expect(runsOf(film).map(([color]) => color)).toEqual(["blue", "red", "lime"]);
    expect(world.requests.length).toBe(sent);
  });

  test("after --redo the film is joined anew, and the old clips keep their frames", async () => {
    const { world, batch, film } = await createFilmWorld(["red,", "lime,"]);
    await batch("--join", film);
    const yellow = readFileSync(makeClip(join(world.home, "yellow.mp4"), { colors: [["yellow", 12]] }));
    world.faults.unshift(({ url }) => (/\.mp4\b/.test(url) ? new Response(yellow) : undefined));
    expect(await batch("--redo", "all", "--join", film)).toMatchObject({ code: 0 });
    expect(runsOf(film)).toEqual([["yellow", 24]]);
    const old = ["1", "2"].map((n) => runsOf(join(world.folder, `clips/${n}.take-1.mp4`)));
    expect(old).toEqual([[["red", 12]], [["lime", 12]]]);
  });

  test.each<[string, (film: string, world: World) => void]>([
    ["was changed", (film) => appendFileSync(film, "mine")],
    ["is another one", (film, { home }) => copyFileSync(makeClip(join(home, "other.mp4")), film)],
    [
      "is recorded in another results file",
      (_, { folder }) => renameSync(join(folder, "shots.csv.results.jsonl"), join(folder, "gone")),
    ],
  ])("a film that %s is not replaced, and nothing is started", async (_, change) => {
    const { world, file, batch, film } = await createFilmWorld(["red,"]);
    await batch("--join", film);
    change(film, world);
    appendFileSync(file, "lime,previous\n");
    const number = () => world.requests.filter(isStart).length;
    const [sent, before] = [number(), readFileSync(film)];
    for (const more of [["--dry-run"], [], ["--join", film]]) {
      expect(await batch("--join", film, ...more)).toMatchObject({
        code: 9,
        stderr: expect.stringMatching(
          /film.mp4 already exists, and is not the film .* Nothing was sent, nothing was charged.\n {2}Add --overwrite/,
        ),
      });
    }
    expect([number(), readFileSync(film)]).toEqual([sent, before]);
    expect(await batch("--join", film, "--overwrite")).toMatchObject({ code: 0 });
    expect(runsOf(film).map(([color]) => color)).toEqual(["red", "lime"]);
  });

  test("a film that is changed while the rows are made is not replaced", async () => {
    const { world, file, batch, film } = await createFilmWorld(["red,"]);
    await batch("--join", film);
    appendFileSync(file, "lime,previous\n");
    world.faults.unshift((request) => {
      if (isStart(request)) writeFileSync(film, "mine");
      return undefined;
    });
    expect(await batch("--join", film)).toMatchObject({ code: 9, stderr: expect.stringContaining("[2/2] line 3") });
    expect(readFileSync(film, "utf8")).toBe("mine");
  });

  test("--events tell of it", async () => {
    const { batch, film } = await createFilmWorld(["red,", "lime,"]);
    const eventsOf = async () => {
      const { stdout } = await batch("--join", film, "--events");
      const events = stdout
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line));
      for (const event of events) expect(eventSchema.safeParse(event).error).toBeUndefined();
      return events.filter(({ event }) => ["joining", "joined", "summary"].includes(event));
    };
    const joined = { event: "joined", file: film, copied: true, frames: 24, seconds: 1 };
    const events = await eventsOf();
    expect(events[0]).toMatchObject({ event: "joining", file: film, percent: 0 });
    expect(events.at(-3)).toMatchObject({ event: "joining", file: film, percent: 100 });
    expect(events.at(-2)).toMatchObject({ ...joined, up_to_date: false });
    expect(events.at(-1)).toMatchObject({ event: "summary", exit_code: 0 });
    expect(await eventsOf()).toMatchObject([{ ...joined, up_to_date: true }, { event: "summary" }]);
  });

  test("while a row is missing no film is made, and the exit code is that of the batch", async () => {
    const { batch, film } = await createFilmWorld(["red,", "[fail],previous", "blue,previous"]);
    const first = await batch("--join", film);
    expect(first).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/film.mp4 was not made: there is no video of lines 3, 4/),
    });
    // The same line would start nothing.
    expect(first.stderr).not.toContain("Continue with");
    expect(first.stderr).toContain("--retry-failed");
    const planned = await batch("--join", film, "--dry-run");
    expect(planned.stdout).toContain(`${film} is not joined yet: it needs the videos of all rows.\n`);
    const run = await batch("--join", film, "--json");
    expect([run.code, JSON.parse(run.stdout).film, existsSync(film)]).toEqual([4, null, false]);
  });

  test.each<[string, string[], number, RegExp]>([
    ["an existing film", ["--join", "taken.mp4"], 9, /already exists/],
    ["a folder", ["--join", "folder.mp4", "--overwrite"], 9, /folder\.mp4 is a folder, not a file/],
    ["a folder that is missing", ["--join", "gone/film.mp4"], 9, /gone/],
    ["a dry run into a folder that is missing", ["--join", "gone/film.mp4", "--dry-run"], 9, /gone/],
    ["the name of a folder", ["--join", "film.mp4/"], 2, /must name an \.mp4 file/],
    ["the rows file", ["--join", "shots.csv", "--overwrite"], 2, /must name an \.mp4 file/],
    ["a clip", ["--join", "clips/1.mp4"], 2, /also the file of line 2/],
    ["a shard", ["--join", "film.mp4", "--shard", "1/2"], 2, /cannot be combined/],
    ["--each", ["--join", "film.mp4", "--each", "seed=1,2"], 2, /cannot be combined/],
  ])("%s ends it before anything is started", async (_, [flag = "", name = "", ...more], code, message) => {
    const { world, batch } = await createFilmWorld(["red,"]);
    writeFileSync(join(world.folder, "taken.mp4"), "");
    mkdirSync(join(world.folder, "folder.mp4"));
    const run = await batch(flag, `${world.folder}/${name}`, ...more);
    expect(run).toMatchObject({ code, stderr: expect.stringMatching(message) });
    expect(world.requests.filter(isStart)).toEqual([]);
  });

  const half = `eval out=\\\${$#}; echo half > "\${out#file:}"; echo "No space left" >&2; exit 1`;

  test("if ffmpeg fails while it takes a frame, the row is not started, and the same line continues later", async () => {
    const { world, batch, film } = await createFilmWorld(["red,", "lime,previous"]);
    world.env.FFMPEG_PATH = fakeFfmpeg(makeFolder(), `case "$*" in *bmp*) ${half};; esac`);
    const run = await batch("--join", film);
    expect(run).toMatchObject({ code: 9, stdout: `${join(world.folder, "clips/1.mp4")}\n` });
    expect(run.stderr).toMatch(/line 3: Cannot take the last frame of .*1\.mp4: No space left\./);
    expect(run.stderr).toContain("film.mp4 was not made: there is no video of line 3.");
    expect([startsOf(world).length, readdirSync(join(world.home, "frames"))]).toEqual([1, []]);
    delete world.env.FFMPEG_PATH;
    expect(await batch("--join", film)).toMatchObject({ code: 0 });
    expect(startsOf(world)).toEqual(inOrder.slice(0, 2));
  });

  test("with an ffmpeg that fails half-way in the join, the videos stay, and the same line only joins", async () => {
    const { world, batch, film } = await createFilmWorld(["red,", "lime,previous"]);
    world.env.FFMPEG_PATH = fakeFfmpeg(makeFolder(), `case "$*" in *.part*) ${half};; esac`);
    const run = await batch("--join", film);
    expect(run).toMatchObject({
      code: 9,
      stderr: expect.stringContaining("ffmpeg could not join the clips: No space left."),
    });
    expect(readdirSync(world.folder).sort()).toEqual(["clips", "shots.csv", "shots.csv.results.jsonl"]);
    delete world.env.FFMPEG_PATH;
    const sent = world.requests.length;
    expect(await batch("--join", film)).toMatchObject({ code: 0, stdout: `${film}\n` });
    expect(world.requests.length).toBe(sent);
  });

  test("a video that is damaged ends the film, not the batch: exit code 9, also beside an info file that fails", async () => {
    const { world, batch, film } = await createFilmWorld(["red,"]);
    // Its first box has another name: it is saved, since the service may mean it.
    const odd = readFileSync(makeClip(join(world.folder, "whole.mp4"))).fill("x", 4, 5);
    world.faults.unshift((request) =>
      request.url.endsWith(".mp4") ? new Response(odd, { headers: { "Content-Length": `${odd.length}` } }) : undefined,
    );
    const damaged = expect.stringMatching(/^error: .*1\.mp4 is not a whole video: it is not an \.mp4\.$/m);
    expect(await batch("--join", film)).toMatchObject({ code: 9, stderr: damaged });
    mkdirSync(join(world.folder, "clips/1.mp4.json"));
    const run = await batch("--join", film, "--write-info-json");
    expect(run).toMatchObject({ code: 9, stderr: expect.stringMatching(/^error: .*1\.mp4\.json/m) });
    expect(run.stderr).toMatch(/^.*1\.mp4 is not a whole video: it is not an \.mp4\.$/m);
  });

  test("clips that differ are encoded, without the first frame of those that continue", async () => {
    const { world, batch, film } = await createFilmWorld(["red,", "lime,previous", "blue,"]);
    await batch();
    makeClip(join(world.folder, "clips/3.mp4"), { colors: [["blue", 12]], size: "80x45" });
    world.faults.unshift((request) =>
      request.url.endsWith(".mp4") ? new Response(readFileSync(join(world.folder, "clips/3.mp4"))) : undefined,
    );
    expect(await batch("--join", film, "--overwrite")).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/35 frames; the clips differ.*left out the first frame of line 3, a repeat/),
    });
  });
});

test.skipIf(!hasFfmpeg)("a shot that began with a frame of another video keeps its first frame", async () => {
  const { world, file, film } = await createFilmWorld(["red,", "lime,previous"]);
  const line = ["batch", file, "-o", join(world.folder, "clips/{slug}.mp4"), "--join", film, "--overwrite"];
  await world.vidgen(...line);
  writeFileSync(file, "prompt,from\nred,\nblue,\nlime,previous\n");
  const small = makeClip(join(world.home, "small.mp4"), { colors: [["blue", 12]], size: "80x45" });
  world.faults.unshift((request) => (request.url.endsWith(".mp4") ? new Response(readFileSync(small)) : undefined));
  expect(await world.vidgen(...line)).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/36 frames; the clips differ, so they were re-encoded\.\n/),
  });
});

test("without ffmpeg nothing is started", async () => {
  const { world, batch, film } = await createFilmWorld();
  Object.assign(world.io, { run: () => Promise.reject(Object.assign(new Error("ENOENT"), { code: "ENOENT" })) });
  for (const more of [[], ["--dry-run"], ["--join", film]])
    expect(await batch(...more)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/(The column from|--join) needs ffmpeg: apt install ffmpeg.*Nothing was sent/),
    });
  expect(world.requests.filter(isStart)).toEqual([]);
});

test("a row that begins from one of another shard ends before anything is started", async () => {
  const { world, batch } = await createFilmWorld();
  const runs = [await batch("--shard", "1/2"), await batch("--shard", "2/2")];
  expect(runs.map(({ code }) => code)).toEqual([2, 2]);
  expect(runs[0]?.stderr).toMatch(/line \d: the row that it begins from is in another shard/);
  expect(world.requests.filter(isStart)).toEqual([]);
});
