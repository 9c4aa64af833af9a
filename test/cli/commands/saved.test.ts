import { createHash } from "node:crypto";
import {
  copyFileSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { tinyMp4 } from "../../mp4.ts";
import { lacks } from "../../needs.ts";
import { aPng } from "../../server/queue/pictures.ts";
import { createWorld, isStart, mediaUrl, type World } from "../../vidgen.ts";

/** A world in which a video has been saved under this name. */
async function withSaved(name: string) {
  const world = await createWorld();
  const place = join(world.folder, name);
  const file = (await world.vidgen("generate", "a fox", "-o", place)).stdout.trim();
  const id = /[0-9a-f-]{36}/.exec(world.requests.at(1)?.url ?? "")?.[0] ?? "";
  return { world, place, file, id, sent: world.requests.length };
}

const again: [string, (world: World, id: string, place: string) => ReturnType<World["vidgen"]>][] = [
  ["wait", (world, id, place) => world.vidgen("wait", id, "-o", place)],
  ["generate --reuse", (world, _, place) => world.vidgen("generate", "a fox", "--reuse", "-o", place)],
];

describe.each(again)("%s of a video that is saved there already", (_, run) => {
  test.each(["fox.mp4", "clips/", "{slug}-{id}.mp4"])("prints the file, and asks nobody: -o %s", async (name) => {
    const { world, place, file, id, sent } = await withSaved(name);
    expect(await run(world, id, place)).toMatchObject({
      code: 0,
      stdout: `${file}\n`,
      stderr: `Already saved: ${file} (1 kB)\n`,
    });
    expect(world.requests).toHaveLength(sent);
  });

  test("does not count what is no longer whole, nor another file", async () => {
    const { world, place, file, id } = await withSaved("fox.mp4");
    const other = join(world.folder, "other.mp4");
    writeFileSync(other, tinyMp4("another"));
    expect(await run(world, id, other)).toMatchObject({ code: 9, stdout: "" });
    truncateSync(file, 20);
    expect(await run(world, id, place)).toMatchObject({ code: 9, stderr: expect.stringContaining("exists") });
  });

  test("does not count another video of the same size, whoever has put it there", async () => {
    const { world, place, id } = await withSaved("fox.mp4");
    const other = Buffer.from(tinyMp4("a cat"));
    expect(other.length).toBe(readFileSync(place).length);
    writeFileSync(place, other);
    const paid = world.requests.filter(isStart).length;
    expect(await run(world, id, place)).toMatchObject({ code: 9, stderr: expect.stringContaining("already exists") });
    expect([readFileSync(place), world.requests.filter(isStart).length]).toEqual([other, paid]);
  });

  test.each<[string, (path: string) => void]>([
    ["touched", (path) => utimesSync(path, 1, 1)],
    [
      "copied and put back",
      (path) => {
        copyFileSync(path, `${path}.copy`);
        rmSync(path);
        renameSync(`${path}.copy`, path);
      },
    ],
  ])("counts one that was %s: its content is the same", async (_, change) => {
    const { world, place, file, id, sent } = await withSaved("fox.mp4");
    change(place);
    expect(await run(world, id, place)).toMatchObject({ code: 0, stdout: `${file}\n` });
    expect(world.requests).toHaveLength(sent);
  });

  test("counts a moved video under its new name", async () => {
    const { world, place, id, sent } = await withSaved("fox.mp4");
    const moved = join(world.folder, "moved.mp4");
    renameSync(place, moved);
    expect(await run(world, id, moved)).toMatchObject({ code: 0, stdout: `${moved}\n` });
    expect(world.requests).toHaveLength(sent);
  });

  test("does not read a file that is unchanged", async () => {
    const { world, place, id } = await withSaved("fox.mp4");
    const { open } = world.io.disk;
    world.io.disk = {
      ...world.io.disk,
      open: (path, ...how) => (path === place ? Promise.reject(new Error("read")) : open(path, ...how)),
    };
    expect(await run(world, id, place)).toMatchObject({ code: 0 });
    utimesSync(place, 1, 1);
    expect(await run(world, id, place)).toMatchObject({ code: 9 });
  });

  test("does not count the video of another generation, of the same size, that has replaced it", async () => {
    const { world, place, id } = await withSaved("fox.mp4");
    await world.vidgen("generate", "a cat", "-o", place, "--overwrite");
    expect(await run(world, id, place)).toMatchObject({ code: 9, stderr: expect.stringContaining("exists") });
    expect(readFileSync(place)).toEqual(Buffer.from(tinyMp4("a cat")));
  });

  test("does not count that either after another download to the name was broken off", async () => {
    const { world, place, id } = await withSaved("fox.mp4");
    await world.vidgen("generate", "a cat", "-o", place, "--overwrite");
    await new Promise<void>((resolve) => {
      world.faults.push((request) => {
        if (!request.url.endsWith(".mp4")) return undefined;
        resolve();
        return new Promise<never>(() => {});
      });
      void world.vidgen("wait", id, "-o", place, "--overwrite");
    });
    world.faults.length = 0;
    world.reboot();
    expect(await run(world, id, place)).toMatchObject({ code: 9, stderr: expect.stringContaining("exists") });
  });
});

test("--overwrite fetches it again", async () => {
  const { world, place, id, sent } = await withSaved("fox.mp4");
  const run = await world.vidgen("wait", id, "-o", place, "--overwrite");
  expect(run).toMatchObject({ code: 0, stdout: `${place}\n` });
  expect(world.requests.length).toBeGreaterThan(sent);
});

test("of several, what is saved already is not fetched again", async () => {
  const { world, place, file, id } = await withSaved("clips/");
  const other = (await world.vidgen("generate", "an owl", "--no-wait")).stdout.trim();
  const run = await world.vidgen("wait", id, other, "-o", place, "--json");
  expect(run.code).toBe(0);
  expect(JSON.parse(run.stdout)).toMatchObject([
    { id, status: "completed", file },
    { id: other, status: "completed" },
  ]);
  expect(readFileSync(file)).toEqual(Buffer.from(tinyMp4("a fox")));
});

test("--json and --open are about that file", async () => {
  const { world, place, id } = await withSaved("fox.mp4");
  world.env.DISPLAY = ":0";
  const run = await world.vidgen("wait", id, "-o", place, "--json", "--open");
  expect(JSON.parse(run.stdout)).toEqual({ id, status: "completed", charged: "yes", file: place });
  expect(world.launched.flat(2)).toContain(place);
});

describe("what vidgen needs is never replaced by a video, not even with --overwrite", () => {
  /** A world that has all of it, with the text of each file. */
  const withFiles = async () => {
    const world = await createWorld();
    const { home, folder } = world;
    expect(await world.vidgen("generate", "an owl")).toMatchObject({ code: 0 });
    mkdirSync(join(home, "service"));
    for (const name of ["config.json", "service/service.json"]) writeFileSync(join(home, name), "{}");
    writeFileSync(join(folder, "fox.png"), aPng(30, 20));
    linkSync(join(home, "journal.jsonl"), join(folder, "hard.mp4"));
    symlinkSync(join(home, "config.json"), join(folder, "soft.mp4"));
    symlinkSync(home, join(folder, "home"));
    return world;
  };
  const links: [string, (world: World) => string][] = [
    ["the journal through a folder's link", ({ folder }) => join(folder, "home/journal.jsonl")],
    ["the settings through a link", ({ folder }) => join(folder, "soft.mp4")],
  ];
  const files: [string, (world: World) => string][] = [
    ["the journal", ({ home }) => join(home, "journal.jsonl")],
    ["the journal by another name", ({ folder }) => join(folder, "hard.mp4")],
    ["the settings", ({ home }) => join(home, "config.json")],
    ["a lease", ({ home }) => join(home, "journal.jsonl.leases/video.mp4")],
    ["a file of the service", ({ home }) => join(home, "service/service.json")],
    ["a new file of the service", ({ home }) => join(home, "service/new.mp4")],
    ["its own image", ({ folder }) => join(folder, "fox.png")],
    ["its own image by a template", ({ folder }) => join(folder, "{model}.png")],
    ...(lacks("symbolic links") ? [] : links),
  ];

  test.each(files)("%s", async (_, place) => {
    const world = await withFiles();
    const { folder, home } = world;
    mkdirSync(join(home, "journal.jsonl.leases"), { recursive: true });
    const image = join(folder, "fox.png");
    const all = [join(home, "journal.jsonl"), join(home, "config.json"), join(home, "service/service.json"), image];
    const before = all.map((file) => readFileSync(file));
    const id = JSON.parse((await world.vidgen("list", "--json")).stdout)[0].id;
    const flags = ["-o", place(world), "--overwrite"];
    const lines = [
      ["generate", "a fox", "-m", "fox", "-i", image, ...flags],
      ["again", id, "-m", "fox", "-i", image, ...flags],
      ...(place(world).endsWith(".png") ? [] : [["wait", id, ...flags]]),
    ];
    for (const line of lines)
      expect(await world.vidgen(...line)).toMatchObject({
        code: 9,
        stderr: expect.stringContaining("a file that vidgen needs"),
      });
    expect(world.requests.filter(isStart)).toHaveLength(1);
    expect(all.map((file) => readFileSync(file))).toEqual(before);
  });

  test("the settings, by an info file", async () => {
    const world = await withFiles();
    const place = ["-o", join(world.home, "config"), "--overwrite"];
    const run = await world.vidgen("generate", "a fox", ...place, "--write-info-json");
    expect([run.code, run.stderr]).toEqual([9, expect.stringContaining("a file that vidgen needs")]);
    expect(world.requests.filter(isStart)).toHaveLength(1);
    expect(readFileSync(join(world.home, "config.json"), "utf8")).toBe("{}");
    expect(await world.vidgen("generate", "a fox", ...place)).toMatchObject({ code: 0 });
  });

  test.each(["hard.mp4", ...(lacks("symbolic links") ? [] : ["home/service/film.mp4"])])(
    "nor is %s by the film of a batch",
    async (name) => {
      const world = await withFiles();
      const rows = join(world.folder, "rows.txt");
      writeFileSync(rows, "a fox\nan owl\n");
      const film = ["--join", join(world.folder, name), "--overwrite"];
      const run = await world.vidgen("batch", rows, "-o", join(world.folder, "{n}.mp4"), ...film, "-y");
      expect([run.code, run.stderr]).toEqual([9, expect.stringContaining("a file that vidgen needs")]);
      expect(world.requests.filter(isStart)).toHaveLength(1);
    },
  );

  test.each(["rows.csv", "rows.csv.results.jsonl", "results.jsonl", "fox.png"])(
    "nor is %s by a row of a batch",
    async (name) => {
      const world = await withFiles();
      const rows = join(world.folder, "rows.csv");
      const image = join(world.folder, "fox.png");
      writeFileSync(rows, `prompt,output,imageUrl\na fox,${join(world.folder, name)},${image}\n`);
      const results = name.endsWith(".jsonl") ? join(world.folder, name) : join(world.folder, "results.jsonl");
      const before = [readFileSync(rows), readFileSync(image)];
      const run = await world.vidgen("batch", rows, "--results", results, "--overwrite", "-y");
      expect([run.code, run.stderr]).toEqual([9, expect.stringContaining("a file that vidgen needs")]);
      expect(world.requests.filter(isStart)).toHaveLength(1);
      expect([readFileSync(rows), readFileSync(image)]).toEqual(before);
      expect(readFileSync(results, "utf8")).toMatch(/^\{"at"/);
    },
  );
});

describe("a video that comes as a data: URL of a completed job", () => {
  const bytes = Buffer.from(tinyMp4("a fox"));
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  const shown = `data:video/mp4 (${bytes.length} bytes, sha256 ${sha256})`;

  /** Every poll of a completed generation has the video itself, in 2 MB of JSON. */
  async function createDataWorld(): Promise<World> {
    const world = await createWorld();
    world.faults.push(async (request) => {
      if (isStart(request) || !request.url.includes("generation-status")) return undefined;
      const id = new URL(request.url).searchParams.get("id");
      const video_url = `data:video/mp4;base64,${bytes.toString("base64")}`;
      return Response.json({ id, status: "completed", video_url, log: "x".repeat(2_000_000) });
    });
    return world;
  }

  test("is saved with -o, and shown by its size and hash", async () => {
    const world = await createDataWorld();
    const file = join(world.folder, "fox.mp4");
    const run = await world.vidgen("generate", "a fox", "-o", file, "--json");
    expect([run.code, run.stderr]).toEqual([0, expect.not.stringContaining("base64")]);
    expect(JSON.parse(run.stdout)).toMatchObject({ file, video_url: shown });
    expect(readFileSync(file)).toEqual(bytes);
    expect(run.stdout).not.toContain("base64");
  });

  test("is exit 9 without -o, also for a look, until it is saved", async () => {
    const world = await createDataWorld();
    const run = await world.vidgen("generate", "a fox");
    expect([run.code, run.stdout, run.stderr]).toEqual([9, "", expect.stringContaining("add -o")]);
    const look = await world.vidgen("status");
    expect([look.code, look.stdout]).toEqual([0, expect.stringMatching(/\tcompleted\tdata:video\/mp4 \(/)]);
    const list = JSON.parse((await world.vidgen("list", "--json")).stdout);
    expect([list[0].status, list[0].file ?? null]).toEqual(["completed", null]);
    const file = join(world.folder, "fox.mp4");
    // The same command resumes it, and nothing more is paid.
    expect((await world.vidgen("generate", "a fox", "-o", file)).code).toBe(0);
    expect([readFileSync(file).equals(bytes), world.requests.filter(isStart).length]).toEqual([true, 1]);
  });

  test("ends the row of a batch without an output with exit 9, and leaves it to be saved", async () => {
    const world = await createDataWorld();
    const rows = join(world.folder, "rows.txt");
    writeFileSync(rows, "a fox\n");
    const run = await world.vidgen("batch", rows, "-y");
    expect([run.code, run.stdout + run.stderr]).toEqual([9, expect.stringContaining("add -o")]);
    expect(readFileSync(`${rows}.results.jsonl`, "utf8")).not.toMatch(/"kind":"delivered"|base64/);
  });
});

test("a video that cannot be fetched until the time is over is told as completed, with the reason", async () => {
  const world = await createWorld();
  world.faults.push((request) =>
    request.url.startsWith(mediaUrl) ? new Response("gone", { status: 404 }) : undefined,
  );
  const run = await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"), "--timeout", "50s");
  expect([run.code, run.stderr]).toEqual([
    5,
    expect.stringMatching(
      /Timed out before the video was saved: it is completed, but it cannot be fetched: .*HTTP 404/,
    ),
  ]);
});
