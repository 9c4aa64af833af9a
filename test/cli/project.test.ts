import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import * as z from "zod/mini";
import { loadProjectSchema } from "../../src/connect/project-schema.ts";
import { readPage } from "../../src/docs.ts";
import { lacks } from "../needs.ts";
import { aPng } from "../server/queue/pictures.ts";
import { createWorld, failure, isStart, kill, type World } from "../vidgen.ts";

// The file of a project: what it says is used, said before paying, and paid for once.

const png = Buffer.from(aPng(8, 8));

const write = (world: World, project: unknown, folder = world.folder) =>
  writeFileSync(join(folder, "vidgen.json"), typeof project === "string" ? project : JSON.stringify(project));

const paid = (world: World) => world.requests.filter(isStart).length;
const lastBody = (world: World) => JSON.parse(world.requests.filter(isStart).at(-1)?.body ?? "{}");
const isPoll = (request: Request) => request.url.includes("generation-status");

/** A world with the images of two references. */
async function createProject(project: object): Promise<World> {
  const world = await createWorld();
  mkdirSync(join(world.folder, "refs"));
  for (const name of ["front", "side", "dog"])
    writeFileSync(join(world.folder, `refs/${name}.png`), Buffer.concat([png, Buffer.from(name)]));
  write(world, project);
  return world;
}

describe("the values of vidgen.json", () => {
  test("are sent, and said before paying, with the file", async () => {
    const world = await createProject({
      model: "veo-3.1",
      aspectRatio: "9:16",
      duration: 6,
      resolution: "720p",
      style: "35mm film",
    });
    let saidBefore = "";
    world.faults.push((request) => {
      if (isStart(request)) saidBefore = world.printed.stderr;
      return undefined;
    });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect(saidBefore).toContain(
      `From ${join(world.folder, "vidgen.json")}: model veo-3.1, aspectRatio 9:16, duration 6, resolution 720p, style "35mm film".`,
    );
    expect(lastBody(world)).toEqual({
      prompt: "a fox, 35mm film",
      model: "veo-3.1",
      aspectRatio: "9:16",
      duration: 6,
      resolution: "720p",
    });
  });

  test("are overridden by flags, --set and the environment, and override saved settings", async () => {
    const world = await createProject({ model: "veo-3.1", duration: 6, style: "35mm film" });
    expect(await world.vidgen("config", "set", "model", "ray-3")).toMatchObject({ code: 0 });
    await world.vidgen("generate", "a fox");
    expect(lastBody(world).model).toBe("veo-3.1");
    world.env.VIDGEN_MODEL = "sora-2";
    const { stderr } = await world.vidgen("generate", "a fox", "-d", "8", "--style", "ink");
    expect(lastBody(world)).toEqual({ prompt: "a fox, ink", model: "sora-2", duration: 8 });
    expect(stderr).not.toContain("From ");
    await world.vidgen("generate", "a fox", "-m", "kling-2.6", "--set", "duration=9");
    expect(lastBody(world)).toEqual({ prompt: "a fox, 35mm film", model: "kling-2.6", duration: 9 });
  });

  test("say where videos are saved, after -o and VIDGEN_OUTPUT", async () => {
    const world = await createProject({ output: "clips/" });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect(readdirSync(join(world.folder, "clips"))).toEqual([expect.stringMatching(/^a-fox-wan/)]);
    world.env.VIDGEN_OUTPUT = join(world.folder, "other.mp4");
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ stdout: `${join(world.folder, "other.mp4")}\n` });
    const typed = join(world.folder, "typed.mp4");
    expect(await world.vidgen("generate", "a fox", "-o", typed)).toMatchObject({ stdout: `${typed}\n` });
  });

  test("are those of a preset where it has them, also before the environment; an unknown preset gets a guess", async () => {
    const presets = { draft: { model: "wan-2.5", duration: 4 }, final: { resolution: "1080p" } };
    const world = await createProject({ model: "veo-3.1", duration: 8, presets });
    world.env.VIDGEN_MODEL = "sora-2";
    const { stderr } = await world.vidgen("generate", "a fox", "--preset", "draft");
    expect(lastBody(world)).toEqual({ prompt: "a fox", model: "wan-2.5", duration: 4 });
    expect(stderr).toContain("vidgen.json (preset draft): model wan-2.5, duration 4.");
    await world.vidgen("generate", "a fox", "--preset", "draft", "-m", "ray-3");
    expect(lastBody(world).model).toBe("ray-3");
    expect(await world.vidgen("generate", "a fox", "--preset", "drft")).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/no preset "drft"\. Did you mean draft\?.*\n.*draft, final/),
    });
    expect(await world.vidgen("generate", "a fox", "--preset", "constructor")).toMatchObject({ code: 2 });
    rmSync(join(world.folder, "vidgen.json"));
    expect(await world.vidgen("generate", "a fox", "--preset", "draft")).toMatchObject({ code: 2 });
    expect(paid(world)).toBe(2);
  });

  test("are all shown by config, --verbose and --dry-run", async () => {
    const world = await createProject({
      model: "veo-3.1",
      style: "ink",
      output: "clips/",
      presets: { draft: { model: "wan-2.5" } },
      references: { hero: ["refs/front.png", "refs/side.png"] },
    });
    const file = join(world.folder, "vidgen.json");
    const shown = (await world.vidgen("config")).stdout;
    for (const [setting, value] of [
      ["model", "veo-3.1"],
      ["style", "ink"],
      ["presets.draft.model", "wan-2.5"],
      ["references.hero", `${join("refs", "front.png")}, ${join("refs", "side.png")}`],
    ])
      expect(shown).toContain(`${setting}\t${value}\t${file}\n`);
    expect(shown.replaceAll(file, "<file>")).toMatch(/^output\t.*clips[/\\]\t<file>$/m);
    for (const flag of ["--dry-run", "--verbose"]) {
      const { stderr } = await world.vidgen("generate", "a fox", flag);
      expect(stderr).toContain("presets.draft.model = wan-2.5");
      expect(stderr).toContain(`references.hero = ${join("refs", "front.png")}, ${join("refs", "side.png")}`);
    }
    const dry = await world.vidgen("generate", "a fox", "--dry-run", "--json");
    expect(JSON.parse(dry.stdout)).toMatchObject({ project: file, body: { model: "veo-3.1" } });
    world.env.VIDGEN_MODEL = "ray-3";
    expect((await world.vidgen("config")).stdout).toContain(`${file}, overridden by VIDGEN_MODEL`);
  });
});

describe("vidgen.json is found", () => {
  const modelIn = async (world: World) => {
    await world.vidgen("generate", "a fox");
    return lastBody(world).model;
  };
  const moveTo = (world: World, folder: string) => {
    mkdirSync(folder, { recursive: true });
    Object.assign(world.io, { cwd: folder });
  };

  test("from the current folder up to the home folder, the nearest one", async () => {
    const world = await createWorld();
    write(world, { model: "veo-3.1" });
    moveTo(world, join(world.folder, "a/b"));
    expect(await modelIn(world)).toBe("veo-3.1");
    write(world, { model: "ray-3" }, join(world.folder, "a"));
    expect(await modelIn(world)).toBe("ray-3");
  });

  test("not beyond a folder with .git, nor in the folder of the home folder", async () => {
    const world = await createWorld();
    write(world, { model: "veo-3.1" });
    write(world, { model: "sora-2" }, dirname(world.folder));
    moveTo(world, join(world.folder, "a/b"));
    expect(await modelIn(world)).toBe("veo-3.1");
    mkdirSync(join(world.folder, "a/.git"));
    expect(await modelIn(world)).toBe("wan-2.5");
    Object.assign(world.io, { cwd: world.folder });
    rmSync(join(world.folder, "vidgen.json"));
    expect(await modelIn(world)).toBe("wan-2.5");
  });

  test("outside of both only in the current folder", async () => {
    const world = await createWorld();
    const outside = join(dirname(world.folder), "outside");
    moveTo(world, join(outside, "sub"));
    write(world, { model: "veo-3.1" }, outside);
    expect(await modelIn(world)).toBe("wan-2.5");
    write(world, { model: "ray-3" }, join(outside, "sub"));
    expect(await modelIn(world)).toBe("ray-3");
  });
});

describe("a hostile vidgen.json", () => {
  const deep = `${"[".repeat(200_000)}${"]".repeat(200_000)}`;
  const outside = join(dirname(process.cwd()), "elsewhere");

  test.each<[string, unknown, RegExp]>([
    ["a base URL", { base_url: "https://evil.example" }, /unknown field base_url/],
    ["an engine in a preset", { presets: { a: { engine: "http://evil.example" } } }, /presets\.a\.engine/],
    ["a key", { api_key: "evil" }, /field api_key/],
    ["a callback address", { callback_url: "https://evil.example" }, /callback_url/],
    ["--set", { set: { callback_url: "https://evil.example" } }, /field set/],
    ["an unknown field, with a guess", { modle: "veo-3.1" }, /modle.*\n.*Did you mean model/],
    ["__proto__", '{"__proto__":{"model":"sora-2"}}', /__proto__/],
    ["__proto__ as a preset", '{"presets":{"__proto__":{"model":"sora-2"}}}', /presets has the name "__proto__"/],
    ["__proto__ in a preset", '{"presets":{"a":{"__proto__":{"model":"sora-2"}}}}', /__proto__/],
    ["constructor", '{"constructor":{"prototype":{"model":"sora-2"}}}', /constructor/],
    ["an output outside", { output: "../clips/" }, /output must be a path inside of its folder/],
    ["an absolute output", { output: outside }, /output must be a path inside/],
    ["an output in a preset outside", { presets: { a: { output: "x/../../y" } } }, /presets\.a\.output must be/],
    ["stdout as output", { output: "-" }, /output/],
    ["a reference outside", { references: { a: ["../secret.png"] } }, /references\.a\[0\] must be a path inside/],
    ["a reference at another address", { references: { a: "https://evil.example/a.png" } }, /references\.a must be/],
    ["a reference as a file: URL", { references: { a: "file:///etc/passwd" } }, /references\.a must be/],
    ["control characters", { model: "veo\u001b[2J" }, /model must not have control characters/],
    ["a wrong type", { duration: [8] }, /duration must be a number of seconds/],
    ["a wrong ratio", { aspectRatio: "wide as the sea" }, /aspectRatio must be width:height/],
    ["a name with a slash", { presets: { "../a": {} } }, /presets has the name "\.\.\/a"/],
    ["no object", "[]", /must be an object/],
    [
      "no JSON",
      "{\n  // a comment\n}",
      /it is not JSON at line 2, column 3\. Nothing was sent\.\n.*JSON has no comments/,
    ],
    ["10 MB", `{"model":"${"a".repeat(10_000_000)}"}`, /larger than 1 MB/],
    ["400,000 brackets", `{"model":${deep}}`, /model must be a non-empty text/],
    ["no text", "ab\u0000", /it is not text/],
  ])("with %s changes nothing but an error with exit 2", async (_, project, says) => {
    await expectRefused(await createWorld(), project, says);
  });

  test.skipIf(lacks("symbolic links")).each<[string, unknown, RegExp]>([
    ["an output through a link", { output: "link/fox.mp4" }, /output must be a path inside/],
    ["an output through a link that leads nowhere", { output: "nowhere/fox.mp4" }, /output must be a path inside/],
    ["a reference through a link", { references: { a: "link/a.png" } }, /references\.a must be/],
  ])("with %s changes nothing but an error with exit 2", async (_, project, says) => {
    const world = await createWorld();
    symlinkSync(dirname(world.folder), join(world.folder, "link"));
    symlinkSync(join(dirname(world.folder), "missing"), join(world.folder, "nowhere"));
    await expectRefused(world, project, says);
  });

  async function expectRefused(world: World, project: unknown, says: RegExp) {
    write(world, project);
    const before = readdirSync(world.folder, { recursive: true });
    for (const argv of [["generate", "a fox"], ["generate", "a fox", "--dry-run"], ["config"]]) {
      const run = await world.vidgen(...argv);
      expect(run).toMatchObject({ code: 2, stdout: "", stderr: expect.stringMatching(says) });
      expect(run.stderr).toContain("Nothing was sent.");
      expect(run.stderr.length).toBeLessThan(1_000);
    }
    expect(world.requests).toEqual([]);
    expect(readdirSync(world.folder, { recursive: true })).toEqual(before);
    expect({}).not.toHaveProperty("model");
  }

  test.skipIf(lacks("symbolic links"))(
    "that is a link, a folder, or cannot be read is an error, and not passed over",
    async () => {
      const world = await createWorld();
      const file = join(world.folder, "vidgen.json");
      write(world, { model: "sora-2" }, dirname(world.folder));
      symlinkSync("../vidgen.json", file);
      expect(await world.vidgen("generate", "a fox")).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("symbolic link"),
      });
      rmSync(file);
      mkdirSync(file);
      expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 2 });
      expect(world.requests).toEqual([]);
    },
  );

  test("of another user is an error, neither used nor passed over", async () => {
    const world = await createProject({ model: "veo-3.1" });
    Object.assign(world.io, { cwd: join(world.folder, "refs"), uid: (process.geteuid?.() ?? 0) + 1 });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("belongs to another user"),
    });
    expect(world.requests).toEqual([]);
    Object.assign(world.io, { uid: undefined });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
  });

  test("cannot stop that a paid video is saved", async () => {
    const world = await createWorld();
    const id = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
    write(world, { base_url: "https://evil.example" });
    expect(await world.vidgen("wait", id)).toMatchObject({ code: 0 });
  });
});

describe("a changed vidgen.json", () => {
  const change = async (first: object, second: object | undefined, ...argv: string[]) => {
    const world = await createProject(first);
    await kill(world, isPoll, ...argv);
    if (second) write(world, second);
    else rmSync(join(world.folder, "vidgen.json"));
    return world;
  };

  test.each<[string, object, object | undefined, string[]]>([
    ["another model", { model: "veo-3.1" }, { model: "ray-3" }, ["generate", "a fox"]],
    ["another style", { style: "ink" }, { style: "35mm film" }, ["generate", "a fox"]],
    ["another output", { output: "clips/" }, { output: "videos/" }, ["generate", "a fox"]],
    ["no file any more", { model: "veo-3.1", output: "clips/" }, undefined, ["generate", "a fox"]],
    [
      "another preset of the same name",
      { presets: { a: { duration: 4 } } },
      { presets: { a: { duration: 8 } } },
      ["generate", "a fox", "--preset", "a"],
    ],
    [
      "-n",
      { style: "ink", output: "clips/" },
      { style: "35mm film", output: "clips/" },
      ["generate", "a fox", "-n", "2"],
    ],
    ["--reuse", { model: "veo-3.1" }, { model: "ray-3" }, ["generate", "a fox", "--reuse"]],
  ])("does not pay again by accident: %s", async (_, first, second, argv) => {
    const world = await change(first, second, ...argv);
    const sent = paid(world);
    const dry = await world.vidgen(...argv, "--dry-run");
    expect(dry.stdout).toContain("Would send nothing, and end with exit code 2");
    const run = await world.vidgen(...argv);
    expect(run).toMatchObject({ code: 2, stdout: "" });
    expect(run.stderr).toMatch(/has started generation [0-9a-f-]{36} at .*Nothing was sent now/);
    expect(run.stderr).toMatch(/`?vidgen wait [0-9a-f-]{36}.*--again/);
    expect(paid(world)).toBe(sent);
    const json = JSON.parse((await world.vidgen(...argv, "--json")).stderr);
    expect(json.error).toMatchObject({
      code: "usage",
      next: [{ argv: expect.arrayContaining(["wait", json.error.id]), pays: false }],
    });
    // With the old file it is resumed, with --again a new one is paid for, and after that nothing stops the line.
    expect(await world.vidgen(...argv.filter((word) => word !== "--reuse"), "--again")).toMatchObject({ code: 0 });
    expect(await world.vidgen(...argv)).toMatchObject({ code: 0 });
  });

  test("is resumed with the old file", async () => {
    const world = await change({ model: "veo-3.1" }, { model: "ray-3" }, "generate", "a fox");
    write(world, { model: "veo-3.1" });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(1);
  });

  test("without an id: exit 6, which names the attempt", async () => {
    const world = await createProject({ model: "veo-3.1" });
    world.faults.push((request) => {
      if (!isStart(request)) return undefined;
      throw failure("ECONNRESET", true);
    });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 6 });
    world.faults.length = 0;
    write(world, { model: "ray-3" });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({
      code: 6,
      stderr: expect.stringMatching(/another model.*\n.*\n.*list --dismiss/),
    });
    expect(paid(world)).toBe(1);
    expect(await world.vidgen("generate", "another fox")).toMatchObject({ code: 0 });
  });

  test("stops nothing once the video was delivered, nor another line", async () => {
    const world = await createProject({ model: "veo-3.1" });
    await world.vidgen("generate", "a fox");
    write(world, { model: "ray-3" });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    await kill(world, isPoll, "generate", "a fox");
    write(world, { model: "sora-2" });
    expect(await world.vidgen("generate", "a fox", "-d", "4")).toMatchObject({ code: 0 });
    expect(await world.vidgen("generate", "a fox", "-m", "sora-2")).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(5);
  });
});

describe("a saved setting that changes", () => {
  const set = (world: World, name: string, value: string) =>
    world.vidgen("config", "set", name, name === "output" ? join(world.folder, value) : value);

  test.each([
    ["model", "veo-3.1", "ray-3"],
    ["output", "clips/", "videos/"],
  ])("does not pay again by accident: %s", async (name, first, second) => {
    const world = await createWorld();
    await set(world, name, first);
    await kill(world, isPoll, "generate", "a fox");
    await set(world, name, second);
    const refused = await world.vidgen("generate", "a fox");
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining(`with another ${name} (from`) });
    expect(refused.stderr).toMatch(/vidgen wait [0-9a-f-]{36}/);
    // What the line says itself is another video.
    const flag = name === "model" ? ["-m", "sora-2"] : ["-o", join(world.folder, "fox.mp4")];
    expect(await world.vidgen("generate", "a fox", ...flag)).toMatchObject({ code: 0 });
    await set(world, name, first);
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(2);
  });

  test("is not compared where VIDGEN_MODEL or VIDGEN_OUTPUT says it, nor the output where nothing is saved", async () => {
    const world = await createWorld();
    await set(world, "output", "clips/");
    for (const model of ["veo-3.1", "ray-3"]) {
      world.env.VIDGEN_MODEL = model;
      await kill(world, isPoll, "generate", "a fox");
    }
    expect(paid(world)).toBe(2);
    expect(await world.vidgen("generate", "a fox", "--no-wait")).toMatchObject({ code: 0 });
    world.env.VIDGEN_OUTPUT = `${world.folder}/others/`;
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(4);
    // Each model continues its own.
    delete world.env.VIDGEN_OUTPUT;
    for (const model of ["veo-3.1", "ray-3"]) {
      world.env.VIDGEN_MODEL = model;
      expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    }
    expect(paid(world)).toBe(4);
  });
});

describe("two projects, each with its vidgen.json, and one line", () => {
  const line = ["generate", "a fox"];

  async function createProjects(first: object, second: object) {
    const world = await createWorld();
    const folders = ["p1", "p2"].map((name) => join(world.folder, name));
    const enter = (folder: string) => Object.assign(world.io, { cwd: folder });
    for (const [index, project] of [first, second].entries()) {
      const folder = folders[index] ?? "";
      mkdirSync(join(folder, "sub"), { recursive: true });
      write(world, project, folder);
    }
    const [p1 = "", p2 = ""] = folders;
    return { world, p1, p2, enter };
  }

  test.each([[line], [[...line, "-n", "2"]]])(
    "are two videos: neither stops nor dismisses the other, %j",
    async (argv) => {
      const { world, p1, p2, enter } = await createProjects({ model: "veo-3.1" }, { model: "ray-3" });
      enter(p1);
      await kill(world, isPoll, ...argv);
      enter(p2);
      const count = argv.includes("-n") ? 2 : 1;
      const models = () => world.requests.filter(isStart).map(({ body }) => JSON.parse(body).model);
      expect(await world.vidgen(...argv)).toMatchObject({ code: 0 });
      expect(await world.vidgen(...argv, "--again")).toMatchObject({ code: 0 });
      enter(p1);
      expect(await world.vidgen(...argv)).toMatchObject({ code: 0 });
      expect(models().sort()).toEqual([...Array(2 * count).fill("ray-3"), ...Array(count).fill("veo-3.1")]);
    },
  );

  test.each<[string, (p1: string, p2: string) => string, number]>([
    ["in a folder of the first", (p1) => join(p1, "sub"), 0],
    [
      "after the file was moved",
      (p1) => {
        renameSync(join(p1, "vidgen.json"), join(p1, "sub/vidgen.json"));
        return join(p1, "sub");
      },
      0,
    ],
    [
      "after the file was deleted",
      (p1) => {
        rmSync(join(p1, "vidgen.json"));
        return p1;
      },
      2,
    ],
    [
      "after the file was moved and edited",
      (p1, p2) => {
        rmSync(join(p1, "vidgen.json"));
        return p2;
      },
      2,
    ],
  ])("are one project %s", async (_, change, code) => {
    const { world, p1, p2, enter } = await createProjects({ model: "veo-3.1" }, { model: "ray-3" });
    enter(p1);
    await kill(world, isPoll, ...line);
    enter(change(p1, p2));
    expect(await world.vidgen(...line)).toMatchObject({ code });
    expect(paid(world)).toBe(1);
  });

  test("are one project with a file that appears, also with a setting that changes", async () => {
    const { world, p1, enter } = await createProjects({}, {});
    enter(join(p1, "sub"));
    await world.vidgen("config", "set", "model", "sora-2");
    await kill(world, isPoll, ...line);
    await world.vidgen("config", "set", "model", "ray-3");
    write(world, { duration: 4 }, p1);
    expect(await world.vidgen(...line)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("another model, duration (from"),
    });
    expect(paid(world)).toBe(1);
  });

  test("last means in one what an open attempt of the line in the other has made of it", async () => {
    const { world, p1, p2, enter } = await createProjects({ output: "clips/" }, { output: "videos/" });
    enter(p1);
    const { stdout } = await world.vidgen("generate", "an owl", "--no-wait");
    await kill(world, isPoll, "again", "last", "-d", "4");
    enter(p2);
    await world.vidgen("generate", "a fox", "--no-wait");
    expect(await world.vidgen("again", "last", "-d", "4")).toMatchObject({ code: 0 });
    const intents = readFileSync(join(world.home, "journal.jsonl"), "utf8").match(/"parent":"[^"]*"/g);
    expect(new Set(intents)).toEqual(new Set([`"parent":"${stdout.trim()}"`]));
  });
});

describe("again", () => {
  test("repeats the sent request: vidgen.json does not change it, and the style is not added twice", async () => {
    const world = await createProject({ model: "veo-3.1", style: "ink", duration: 6 });
    await world.vidgen("generate", "a fox");
    const sent = lastBody(world);
    await world.vidgen("again", "last");
    expect(lastBody(world)).toEqual(sent);
    write(world, { model: "ray-3", style: "35mm film", aspectRatio: "1:1" });
    await world.vidgen("again", "last");
    expect(lastBody(world)).toEqual(sent);
    await world.vidgen("again", "last", "--style", "ink");
    expect(lastBody(world)).toEqual(sent);
    await world.vidgen("again", "last", "a dog");
    expect(lastBody(world)).toEqual({ ...sent, prompt: "a dog" });
    await world.vidgen("again", "last", "--style", "oil");
    expect(lastBody(world)).toEqual({ ...sent, prompt: "a dog, oil" });
    expect(paid(world)).toBe(6);
  });

  test("uses a typed preset, and saves where vidgen.json says", async () => {
    const world = await createProject({ output: "clips/", presets: { final: { resolution: "1080p", style: "ink" } } });
    await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"));
    expect(await world.vidgen("again", "last", "--preset", "final")).toMatchObject({ code: 0 });
    expect(lastBody(world)).toEqual({ prompt: "a fox, ink", model: "wan-2.5", resolution: "1080p" });
    expect(readdirSync(join(world.folder, "clips"))).toHaveLength(1);
  });

  test("last keeps its meaning while an attempt of the line is unfinished, whatever the file says by now", async () => {
    const world = await createProject({ output: "clips/" });
    await world.vidgen("generate", "a fox");
    await kill(world, isPoll, "again", "last", "-d", "4");
    write(world, { output: "videos/" });
    expect(await world.vidgen("again", "last", "-d", "4")).toMatchObject({ code: 2 });
    write(world, { output: "clips/" });
    expect(await world.vidgen("again", "last", "-d", "4")).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(2);
  });
});

describe("a reference by its name", () => {
  const references = { hero: ["refs/front.png", "refs/side.png"], dog: "refs/dog.png" };

  test("in a prompt becomes its word, and its images are sent", async () => {
    const world = await createProject({ references });
    const { stdout, stderr } = await world.vidgen(
      "generate",
      "@hero, then @dog's walk @hero.",
      "--local",
      "--dry-run",
      "--json",
    );
    expect([stderr, JSON.parse(stdout).body.prompt]).toEqual([expect.anything(), "hero, then dog's walk hero."]);
    expect(JSON.parse(stdout).body.referenceUrls).toHaveLength(3);
  });

  test.each([
    ["a walk with @nobody"],
    ["mail me at a@hero.com"],
    ["see @hero.com"],
    ["(@hero)"],
    ["@hero-like"],
    ["@Hero"],
  ])("is none in %j, which is sent as typed", async (prompt) => {
    const world = await createProject({ references });
    world.stdin = prompt;
    const run = await world.vidgen("generate", "-", "--local", "--dry-run", "--json");
    expect(JSON.parse(run.stdout).body).toEqual({ prompt, model: "wan-2.5" });
  });

  test("is taken by previews", async () => {
    const world = await createProject({ references });
    const run = await world.vidgen("generate", "a fox and @hero", "--local", "--no-wait");
    expect(run).toMatchObject({ code: 0, stderr: expect.not.stringContaining("take no") });
  });

  test("at the start of the argument is a file if there is one", async () => {
    const world = await createProject({ references });
    const run = () => world.vidgen("generate", "@hero runs", "--local", "--dry-run", "--json");
    expect(JSON.parse((await run()).stdout).body.prompt).toBe("hero runs");
    writeFileSync("hero runs", "from a file");
    expect(JSON.parse((await run().finally(() => rmSync("hero runs"))).stdout).body.prompt).toBe("from a file");
    expect(await world.vidgen("generate", "@nobody", "--local")).toMatchObject({ code: 2 });
  });

  test("is named by --reference, once; an unknown one gets a guess", async () => {
    const world = await createProject({ references });
    const run = await world.vidgen(
      "generate",
      "a fox with @dog",
      "--reference",
      "@dog",
      "--reference",
      "@hero",
      "--local",
      "--dry-run",
      "--json",
    );
    expect(JSON.parse(run.stdout).body).toMatchObject({ prompt: "a fox with dog" });
    expect(JSON.parse(run.stdout).body.referenceUrls).toHaveLength(3);
    expect(await world.vidgen("generate", "a fox", "--reference", "@hera", "--local")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Did you mean hero?"),
    });
  });

  test("is in the summary before a start, with the style, as it will be sent", async () => {
    const world = await createProject({ references, style: "ink" });
    const answers = ["What should", "Which model", "Which aspect", "How long", "Where should", "Start it?"];
    const keys = ["@hero walks\r", "\r", "\r", "1\r", "none\r", "n\r"];
    Object.assign(world, { isTerminal: true, answers: answers.map((question, i) => [question, keys[i] ?? ""]) });
    const { stderr } = await world.vidgen("generate", "--local", "--no-color");
    expect(stderr).toMatch(/^ {2}Prompt {6}hero walks, ink$/m);
    expect(stderr.match(/^ {2}Reference {3}\S+$/gm)).toHaveLength(2);
    expect(stderr).toMatch(/^ {2}printf %s '@hero walks' \| vidgen generate - --model/m);
  });

  test("is refused before paying by a service that does not take references", async () => {
    const world = await createProject({ references });
    expect(await world.vidgen("generate", "a walk with @hero")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("@hero of vidgen.json needs reference images"),
    });
    expect(await world.vidgen("generate", "a walk", "--reference", "@hero")).toMatchObject({ code: 2 });
    expect(world.requests).toEqual([]);
  });
});

describe("batch", () => {
  const batch = (world: World, rows: string, ...argv: string[]) => {
    const file = join(world.folder, "shots.csv");
    writeFileSync(file, rows);
    return ["batch", file, ...argv];
  };
  const bodies = (world: World) => world.requests.filter(isStart).map(({ body }) => JSON.parse(body));

  test("takes what neither a row nor a flag says, and a preset", async () => {
    const presets = { draft: { resolution: "480p" } };
    const world = await createProject({ model: "veo-3.1", duration: 6, style: "ink", output: "clips/", presets });
    const rows = "id,prompt,duration\na,a fox,\nb,a dog,4\n";
    const run = await world.vidgen(...batch(world, rows, "--preset", "draft"));
    expect(run).toMatchObject({
      code: 0,
      stderr: expect.stringContaining("vidgen.json (preset draft): model veo-3.1"),
    });
    expect(bodies(world)).toEqual([
      { prompt: "a fox, ink", model: "veo-3.1", duration: 6, resolution: "480p" },
      { prompt: "a dog, ink", model: "veo-3.1", duration: 4, resolution: "480p" },
    ]);
    expect(readdirSync(join(world.folder, "clips"))).toHaveLength(2);
    expect((await world.vidgen(...batch(world, rows, "--preset", "draft", "--dry-run"))).stderr).toContain(
      "presets.draft.resolution = 480p",
    );
  });

  test("names references in a column and in prompts; only where they are taken", async () => {
    const world = await createProject({
      references: { hero: ["refs/front.png", "refs/side.png"], dog: "refs/dog.png" },
    });
    const rows = "prompt,references\na walk with @hero,\na walk,@hero @dog\na walk by @nobody,\n";
    const journal = () => readFileSync(join(world.home, "journal.jsonl"), "utf8").split("\n").filter(Boolean);
    expect(await world.vidgen(...batch(world, rows))).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("line 2, column 1 (prompt): @hero needs reference images"),
    });
    expect(world.requests).toEqual([]);
    const { stderr } = await world.vidgen(...batch(world, rows, "--local", "-y"));
    expect(stderr).toMatch(/^From \S*vidgen\.json: @hero, @dog, 3 reference images\.\n/);
    const requests = journal().flatMap((line) => JSON.parse(line).request ?? []);
    expect(requests.map(({ prompt, referenceUrls = [] }) => [prompt, referenceUrls.length]).sort()).toEqual([
      ["a walk by @nobody", 0],
      ["a walk with hero", 2],
      ["a walk", 3],
    ]);
    expect(await world.vidgen(...batch(world, rows, "--local", "--reference", "@hera"))).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Did you mean hero?"),
    });
  });

  test.each([
    ["without ids", "prompt\na fox\n", /Line 2 has started generation [0-9a-f-]{36} .* other values of vidgen\.json/],
    ["with ids", "id,prompt\na,a fox\n", /different request from line 2.*undo the change in vidgen\.json/],
  ])("does not pay again by accident for rows %s, and continues with the old file", async (_, rows, says) => {
    const world = await createProject({ style: "ink" });
    const argv = batch(world, rows, "-o", join(world.folder, "{n}.mp4"));
    await kill(world, isPoll, ...argv);
    write(world, { style: "35mm film", model: "veo-3.1" });
    for (const flags of [[], ["--dry-run"]])
      expect(await world.vidgen(...argv, ...flags)).toMatchObject({ code: 2, stderr: expect.stringMatching(says) });
    rmSync(join(world.folder, "vidgen.json"));
    expect(await world.vidgen(...argv)).toMatchObject({ code: 2 });
    expect(paid(world)).toBe(1);
    write(world, { style: "ink" });
    expect(await world.vidgen(...argv)).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(1);
  });

  test("without an id: exit 6 until it is dismissed, and --retry-unknown starts it anew", async () => {
    const world = await createProject({ style: "ink" });
    world.faults.push((request) => {
      if (!isStart(request)) return undefined;
      throw failure("ECONNRESET", true);
    });
    const argv = batch(world, "prompt\na fox\n");
    expect(await world.vidgen(...argv)).toMatchObject({ code: 6 });
    world.faults.length = 0;
    write(world, { style: "35mm film" });
    expect(await world.vidgen(...argv)).toMatchObject({ code: 6, stderr: expect.stringContaining("list --dismiss") });
    expect(paid(world)).toBe(1);
    expect(await world.vidgen(...argv, "--retry-unknown")).toMatchObject({ code: 0 });
    expect(await world.vidgen(...argv)).toMatchObject({ code: 0 });
    expect(paid(world)).toBe(2);
  });
});

test("the schema that help prints, which the package has as a file, is that of the program, and the example of the page is a file of it", async () => {
  const [, example = ""] = /```json\n([^`]*)```/.exec(readPage("project").text) ?? [];
  const own = await loadProjectSchema();
  const { stdout: schema } = await (await createWorld()).vidgen("help", "project", "--json");
  expect(JSON.parse(schema)).toEqual(z.toJSONSchema(own, { io: "input" }));
  expect(own.safeParse(JSON.parse(example)).success).toBe(true);
  expect(JSON.parse(readFileSync("dist/vidgen.schema.json", "utf8"))).toEqual(JSON.parse(schema));
});
