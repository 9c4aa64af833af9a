import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { type KeyedRow, keyRows, type Row, shardOf } from "../../../src/client/batch/row.ts";
import type { StartRequest } from "../../../src/protocol/schema.ts";
import { createWorld, isStart, kill, type Run, type World, type WorldOptions } from "../../vidgen.ts";

// What somebody typed is not what they meant: it is not paid for, unless they say so.

const starts = (world: World) => world.requests.filter(isStart).map(({ body }) => JSON.parse(body));
const isPoll = (request: Request) => request.url.includes("generation-status");

const home = process.cwd();
afterEach(() => process.chdir(home));

/** A world whose working folder has these files. */
async function open(files: Record<string, string> = {}, options: WorldOptions = {}) {
  const world = await createWorld(options);
  process.chdir(world.folder);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(world.folder, name, ".."), { recursive: true });
    writeFileSync(join(world.folder, name), text);
  }
  return world;
}

/** The key of a row without an id, as all versions make it. */
const keyOfRow = (record: StartRequest) => keyRows([{ record, line: 1 } as Row])[0]?.key ?? "";

/** Changes the lines of the journal and of the results file, if there is one. */
function editLines(world: World, edit: (text: string) => string) {
  for (const path of [
    join(world.home, "journal.jsonl"),
    ...readdirSync(".").filter((name) => name.endsWith(".results.jsonl")),
  ])
    writeFileSync(path, edit(readFileSync(path, "utf8")));
}

/** Gives the only row of a batch the key of another request. */
function rekey(world: World, record: StartRequest) {
  editLines(world, (text) => text.replace(/"row":"[^"]+"/g, `"row":"${keyOfRow(record)}"`));
}

describe("a prompt that is only the name of a file, or an address", () => {
  const files = { "prompt.txt": "a fox in snow", "fox.mov": "a video", "shots/fox.png": "a picture", "a note.md": "x" };
  test.each([
    ["prompt.txt", "vidgen generate @prompt.txt --duration 8"],
    ["a note.md", "vidgen generate '@a note.md' --duration 8"],
    ["./shots/fox.png", 'vidgen generate "..." -i ./shots/fox.png --duration 8'],
    ["fox.mov", 'vidgen generate "..." --from fox.mov --duration 8'],
    ["https://example.com/fox.jpg", 'vidgen generate "..." -i https://example.com/fox.jpg --duration 8'],
    [" http://example.com/a?b=c ", "http://example.com/a"],
    ["C:\\Users\\mia\\fox.png", "fox.png"],
    ["d:/films/prompt.txt", "@d:/films/prompt.txt"],
  ])("%j: exit 2 with the lines to type, and nothing is sent", async (prompt, line) => {
    const world = await open(files);
    const run = await world.vidgen("generate", prompt, "-d", "8");
    expect([run.code, starts(world)]).toEqual([2, []]);
    expect(run.stderr).toContain(line);
    expect(run.stderr).toMatch(/printf %s .* \| vidgen generate - --duration 8$/m);
    expect(run.stderr).toContain("Nothing was sent");
    expect((await world.vidgen("generate", prompt, "-d", "8", "--dry-run")).code).toBe(2);
    // As the printed line sends it.
    world.stdin = Buffer.from(prompt);
    expect(await world.vidgen("generate", "-", "-d", "8")).toMatchObject({ code: 0 });
    expect(starts(world)).toMatchObject([{ prompt: prompt.trim() }]);
  });

  test.each(["a fox", "prompt.md", "a fox at https://example.com", "16:9", "shots", "I/O", "v1.5"])(
    "%j is a prompt",
    async (prompt) => {
      const world = await open(files);
      expect(await world.vidgen("generate", prompt)).toMatchObject({ code: 0 });
      expect(starts(world)).toMatchObject([{ prompt }]);
    },
  );

  test("a terminal asks: no sends nothing, and says what to type; yes sends these words", async () => {
    const world = await open(files);
    Object.assign(world, { isTerminal: true, columns: 200 });
    const question = 'The prompt is only the name of a file: "prompt.txt". Send these words unchanged?';
    world.answers = [[question, "\r"]];
    const no = await world.vidgen("generate", "prompt.txt");
    expect([no.code, starts(world)]).toEqual([2, []]);
    expect(no.stderr).toContain("vidgen generate @prompt.txt");
    world.answers = [[question, "y\r"]];
    expect(await world.vidgen("generate", "prompt.txt")).toMatchObject({ code: 0 });
    expect(starts(world)).toMatchObject([{ prompt: "prompt.txt" }]);
  });

  test.each([[[]], [["-n", "2", "-o", "clips/"]], [["--style", "ink"]]])(
    "what an earlier version left open is resumed, and not paid for again: %j",
    async (flags) => {
      const world = await open();
      await kill(world, isPoll, "generate", "prompt.txt", ...flags);
      writeFileSync(join(world.folder, "prompt.txt"), "a fox in snow");
      const { length } = starts(world);
      expect(await world.vidgen("generate", "prompt.txt", ...flags)).toMatchObject({ code: 0 });
      expect(starts(world)).toHaveLength(flags.includes("-n") ? 2 : length);
    },
  );

  test("again asks too", async () => {
    const world = await open(files);
    await world.vidgen("generate", "a fox");
    const run = await world.vidgen("again", "last", "prompt.txt");
    expect([run.code, starts(world).length]).toEqual([2, 1]);
    expect(run.stderr).toContain("vidgen again last @prompt.txt");
  });

  test("in rows it is a fault with its line, and a row that an earlier version left open is resumed", async () => {
    const world = await open({ "shots.csv": "prompt\na fox\nfox.mov\nhttps://example.com/fox.jpg\n", "fox.mov": "x" });
    const run = await world.vidgen("batch", "shots.csv");
    expect([run.code, starts(world)]).toEqual([2, []]);
    expect(run.stderr).toMatch(/line 3, column 1 \(prompt\): the prompt is only the name of a file: "fox.mov"/);
    expect(run.stderr).toMatch(/line 4.*is only an address/);
    const earlier = await open({ "shots.txt": "fox.mov\n" });
    await kill(earlier, isPoll, "batch", "shots.txt");
    writeFileSync("fox.mov", "a video");
    expect(await earlier.vidgen("batch", "shots.txt")).toMatchObject({ code: 0 });
    expect(starts(earlier)).toHaveLength(1);
  });

  test.each([
    ["shots.csv", "prompt,Exact prompt\nfox.mov,yes\nNone,Yes\nan owl,\nthe @herro walks,true\n", []],
    [
      "shots.jsonl",
      ["fox.mov", "None", "an owl", "the @herro walks"]
        .map((prompt, index) => JSON.stringify({ prompt, exactPrompt: index !== 2 }))
        .join("\n"),
      [],
    ],
    ["shots.txt", "fox.mov\nNone\nan owl\nthe @herro walks\n", ["--each", "exactPrompt=yes"]],
  ])("rows of %s send these words as their fault says, and with the same key", async (name, text, flags) => {
    const world = await open({
      [name]: text.replaceAll(/,yes|,Yes|,true(?=\n)/g, ",").replaceAll('"exactPrompt":true', '"exactPrompt":false'),
      "fox.mov": "x",
      "vidgen.json": JSON.stringify({ references: { hero: "fox.mov" } }),
    });
    const refused = await world.vidgen("batch", name);
    expect([refused.code, starts(world)]).toEqual([2, []]);
    const lines = refused.stderr.split("\n").filter((line) => /^line/.test(line));
    expect(lines).toHaveLength(3);
    for (const line of lines)
      expect(line).toMatch(flags[0] ? /with --each exactPrompt=yes/ : /with yes in a column exactPrompt/);
    writeFileSync(name, text);
    expect(await world.vidgen("batch", name, ...flags)).toMatchObject({ code: 0 });
    expect(starts(world).map(({ prompt, exactPrompt }) => [prompt, exactPrompt])).toEqual(
      ["fox.mov", "None", "an owl", "the @herro walks"].map((prompt) => [prompt, undefined]),
    );
    expect(readFileSync(`${name}.results.jsonl`, "utf8")).toContain(keyOfRow({ prompt: "None", model: "wan-2.5" }));
  });

  test("the column exactPrompt is yes or no", async () => {
    const world = await open({ "shots.csv": "prompt,exactPrompt\na fox,maybe\nan owl,no\n" });
    const run = await world.vidgen("batch", "shots.csv");
    expect([run.code, starts(world)]).toEqual([2, []]);
    expect(run.stderr).toContain("line 2, column 2 (exactPrompt): must be yes or no");
    expect(run.stderr).not.toContain("line 3");
  });

  test("a row that was refused, and is not open, is a fault too", async () => {
    const world = await open({ "shots.txt": "fox.mov\n" });
    world.env.VIDGEN_API_KEY = "canary-key-0123456789-wrong";
    expect((await world.vidgen("batch", "shots.txt")).code).not.toBe(0);
    const { length } = starts(world);
    world.env.VIDGEN_API_KEY = "canary-key-0123456789";
    writeFileSync("fox.mov", "a video");
    expect((await world.vidgen("batch", "shots.txt")).code).toBe(2);
    expect(starts(world)).toHaveLength(length);
  });

  test("vidgen with nothing but a saved video says what can be done with it", async () => {
    const world = await open();
    await world.vidgen("generate", "a fox", "-o", "fox.mp4");
    const run = await world.vidgen("fox.mp4");
    expect(run.code).toBe(2);
    for (const line of ["vidgen list --open fox.mp4", "vidgen again fox.mp4", 'vidgen generate "..." --from fox.mp4'])
      expect(run.stderr).toContain(line);
    writeFileSync(join(world.folder, "other.mp4"), "not from here");
    expect((await world.vidgen("other.mp4")).stderr).not.toContain("--open");
  });
});

describe("@herro for the reference @hero", () => {
  const project = JSON.stringify({ references: { hero: "hero.png" } });
  const files = { "vidgen.json": project, "hero.png": "a picture" };

  test("exit 2 with both lines, and nothing is sent; by stdin these words are sent", async () => {
    const world = await open(files);
    const run = await world.vidgen("generate", "the @herro walks", "-d", "8");
    expect([run.code, starts(world)]).toEqual([2, []]);
    expect(run.stderr).toMatch(/Did you mean @hero\?.*Nothing was sent/);
    expect(run.stderr).toContain("vidgen generate 'the @hero walks' --duration 8".replaceAll("'", '"'));
    world.stdin = Buffer.from("the @herro walks");
    expect(await world.vidgen("generate", "-")).toMatchObject({ code: 0 });
    expect(starts(world)).toMatchObject([{ prompt: "the @herro walks" }]);
  });

  test("a terminal asks: no sends nothing, and yes sends these words", async () => {
    const world = await open(files);
    Object.assign(world, { isTerminal: true, columns: 200 });
    const question = "There is no reference @herro. Did you mean @hero? Send these words unchanged?";
    world.answers = [[question, "\r"]];
    const no = await world.vidgen("generate", "the @herro walks");
    expect([no.code, starts(world), world.answers]).toEqual([2, [], []]);
    expect(no.stderr).toContain('vidgen generate "the @hero walks"');
    world.answers = [[question, "y\r"]];
    expect(await world.vidgen("generate", "the @herro walks")).toMatchObject({ code: 0 });
    expect(starts(world)).toMatchObject([{ prompt: "the @herro walks" }]);
  });

  test("what an earlier version left open is resumed, and not paid for again", async () => {
    const world = await open();
    await kill(world, isPoll, "generate", "the @herro walks");
    for (const [name, text] of Object.entries(files)) writeFileSync(name, text);
    expect(await world.vidgen("generate", "the @herro walks")).toMatchObject({ code: 0 });
    expect(starts(world)).toHaveLength(1);
  });

  test.each(["me@herro.com walks", "a fox and @somebody", "the hero walks"])("%j is sent as it is", async (prompt) => {
    const world = await open(files);
    expect(await world.vidgen("generate", prompt)).toMatchObject({ code: 0 });
    expect(starts(world)).toMatchObject([{ prompt }]);
  });

  test("in rows it is a fault with its line, and a row that an earlier version left open is resumed", async () => {
    const world = await open({ ...files, "shots.csv": "prompt\na fox\nthe @herro walks\n" });
    const run = await world.vidgen("batch", "shots.csv");
    expect([run.code, starts(world)]).toEqual([2, []]);
    expect(run.stderr).toMatch(/line 3.*@herro.*@hero/);
    const earlier = await open({ "shots.txt": "the @herro walks\n" });
    await kill(earlier, isPoll, "batch", "shots.txt");
    for (const [name, text] of Object.entries(files)) writeFileSync(join(earlier.folder, name), text);
    expect(await earlier.vidgen("batch", "shots.txt")).toMatchObject({ code: 0 });
    expect(starts(earlier)).toHaveLength(1);
  });
});

describe("where videos are saved", () => {
  const atLogin = "Where should videos be saved?";

  test.each([
    ["videos", "videos/", "videos/, which is .*/work/videos here"],
    ["~/Movies", "{home}/Movies/", "{home}/Movies/"],
    ["clips/{slug}.mp4", "clips/{slug}.mp4", "clips/{slug}.mp4"],
    [".", ".", "., which is .*/work here"],
  ])("the answer of login is a folder: %j", async (answer, saved, shown) => {
    const world = await open();
    delete world.env.VIDGEN_API_KEY;
    Object.assign(world, { isTerminal: true, columns: 200 });
    world.answers = [
      ["API key", "canary-key-0123456789\r"],
      [atLogin, `${answer}\r`],
    ];
    const run = await world.vidgen("login");
    const text = (template: string) => template.replace("{home}", world.io.home);
    expect([run.code, world.answers]).toEqual([0, []]);
    expect(run.stderr).toMatch(new RegExp(`Videos are saved in ${text(shown).replace(/[{}]/g, "\\$&")}`));
    const [setting] = JSON.parse((await world.vidgen("config", "list", "--json")).stdout).filter(
      (each: { setting: string }) => each.setting === "output",
    );
    expect(setting.value).toBe(text(saved));
  });

  test.each<[string, (world: World) => Promise<unknown> | unknown, string[]]>([
    ["VIDGEN_OUTPUT", (world) => Object.assign(world.env, { VIDGEN_OUTPUT: "~/Movies/" }), ["generate", "a fox"]],
    ["a setting", (world) => world.vidgen("config", "set", "output", "~/Movies/"), ["generate", "a fox"]],
    ["a row", () => writeFileSync("shots.csv", "prompt,output\na fox,~/Movies/\n"), ["batch", "shots.csv"]],
  ])("~/ of %s is the home folder", async (_, prepare, line) => {
    const world = await open();
    mkdirSync(join(world.io.home, "Movies"), { recursive: true });
    await prepare(world);
    expect(await world.vidgen(...line)).toMatchObject({ code: 0 });
    expect(readdirSync(join(world.io.home, "Movies"))).toHaveLength(1);
    expect(existsSync("~")).toBe(false);
  });

  test("~/ in vidgen.json leads out of its folder, and mcp --dir finds the home folder", async () => {
    const world = await open({ "vidgen.json": JSON.stringify({ output: "~/../Movies/" }) });
    const run = await world.vidgen("generate", "a fox");
    expect([run.code, starts(world)]).toEqual([2, []]);
    expect(run.stderr).toMatch(/output must be a path inside/);
    expect((await world.vidgen("mcp", "--dir", "~/nowhere")).stderr).toContain(join(world.io.home, "nowhere"));
  });

  test("an attempt that an older version started at ~/, taken literally, is resumed", async () => {
    const world = await open();
    mkdirSync("~/Movies", { recursive: true });
    mkdirSync(join(world.io.home, "Movies"), { recursive: true });
    await kill(world, isPoll, "generate", "a fox", "-o", "~/Movies/");
    world.env.VIDGEN_OUTPUT = "~/Movies/";
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect(starts(world)).toHaveLength(1);
    expect(readdirSync(join(world.io.home, "Movies"))).toHaveLength(1);
  });

  const writeProject = (output: string) => writeFileSync("vidgen.json", JSON.stringify({ output }));

  test.each([
    ["generate", "a fox"],
    ["generate", "a fox", "-n", "2"],
    ["batch", "shots.txt"],
  ])("what an older version left open at ~/ of vidgen.json, taken literally, is resumed: %s %s", async (...line) => {
    const world = await open({ "shots.txt": "a fox\nan owl\n", "~/Movies/a.txt": "", "Movies/a.txt": "" });
    writeProject("./~/Movies/");
    await kill(world, isPoll, ...line);
    const { length } = starts(world);
    // A path that leads out of the project is refused; the corrected file continues.
    writeProject("~/../Movies/");
    expect(await world.vidgen(...line)).toMatchObject({ code: 2, stderr: expect.stringContaining('"~/../Movies/"') });
    expect(starts(world)).toHaveLength(length);
    writeProject("~/Movies/");
    expect(await world.vidgen(...line)).toMatchObject({ code: 0 });
    const count = line.includes("a fox") && line.length === 2 ? 1 : 2;
    expect(starts(world)).toHaveLength(count);
    expect(await world.vidgen("list", "--json")).toMatchObject({ code: 0 });
    expect(readdirSync("Movies").length + readdirSync("~/Movies").length).toBe(2 + count);
  });

  test("a row that an older version left open, or done, at ~/ of its output, taken literally, is not paid for again", async () => {
    const world = await open({ "~/Movies/a.txt": "", "shots.csv": "prompt,output\na fox,./~/Movies/\n" });
    mkdirSync(join(world.io.home, "Movies"), { recursive: true });
    await kill(world, isPoll, "batch", "shots.csv");
    writeFileSync("shots.csv", "prompt,output\na fox,~/Movies/\n");
    for (let times = 0; times < 2; times++) expect(await world.vidgen("batch", "shots.csv")).toMatchObject({ code: 0 });
    expect(starts(world)).toHaveLength(1);
    const done = await open({ "~/Movies/a.txt": "", "shots.csv": "prompt,output\na fox,./~/Movies/fox.mp4\n" });
    mkdirSync(join(done.io.home, "Movies"), { recursive: true });
    expect(await done.vidgen("batch", "shots.csv")).toMatchObject({ code: 0 });
    writeFileSync("shots.csv", "prompt,output\na fox,~/Movies/fox.mp4\n");
    expect(await done.vidgen("batch", "shots.csv")).toMatchObject({ code: 0 });
    expect(starts(done)).toHaveLength(1);
  });

  test.each<[string, (world: World) => Promise<Run>]>([
    ["config set output", (world) => world.vidgen("config", "set", "output", "videos")],
    [
      "VIDGEN_OUTPUT",
      (world) => Object.assign(world, { env: { ...world.env, VIDGEN_OUTPUT: "videos" } }).vidgen("generate", "a fox"),
    ],
    [
      "vidgen.json",
      (world) => {
        writeFileSync("vidgen.json", JSON.stringify({ output: "videos" }));
        return world.vidgen("generate", "a fox");
      },
    ],
    [
      "a row",
      (world) => {
        writeFileSync("shots.csv", "prompt,output\na fox,videos\n");
        return world.vidgen("batch", "shots.csv");
      },
    ],
  ])("a name without an ending gets a note: %s", async (_, run) => {
    const world = await open();
    const { code, stderr } = await run(world);
    expect([code, stderr]).toEqual([
      0,
      expect.stringContaining("videos is not a folder: the video is saved to a file of this name"),
    ]);
    expect(stderr.match(/is not a folder/g)).toHaveLength(1);
  });

  test("the hint for a file that vidgen has saved never leads to another payment, nor to the loss of that video", async () => {
    const world = await open();
    expect(await world.vidgen("generate", "a fox", "-o", "fox.mp4")).toMatchObject({ code: 0 });
    const other = await world.vidgen("generate", "an owl", "-o", "fox.mp4");
    expect(other).toMatchObject({ code: 9, stderr: expect.stringContaining("Choose another name with -o.") });
    expect(other.stderr).not.toContain("--overwrite");
    // A line that continues a generation.
    await kill(world, isPoll, "generate", "a bear", "-o", "bear.mp4");
    writeFileSync("bear.mp4", "something else");
    const [{ id }] = JSON.parse((await world.vidgen("list", "--json")).stdout);
    const run = await world.vidgen("generate", "a bear", "-o", "bear.mp4");
    expect(run).toMatchObject({ code: 9, stderr: expect.stringContaining(`vidgen wait ${id} -o`) });
    expect(run.stderr).not.toMatch(/--overwrite|nothing was charged|with -o/);
    expect(starts(world)).toHaveLength(2);
  });
});

describe("invisible characters", () => {
  test.each([
    ["VIDGEN_MODEL", "ray-3\r", false],
    ["VIDGEN_MODEL", '"ray-3"', true],
    ["VIDGEN_MODEL", "\u200b'ray-3' \r\n", true],
    ["VIDGEN_API_KEY", '"canary-key-0123456789"\r', true],
    ["VIDGEN_BASE_URL", "'https://api.video.example'", true],
    ["VIDGEN_OUTPUT", "clips/\r", false],
  ])("around %s are not part of its value: %j", async (name, value, isQuoted) => {
    const world = await open({ "clips/a.txt": "" });
    world.env[name] = value;
    const run = await world.vidgen("generate", "a fox");
    expect(run).toMatchObject({ code: 0 });
    expect(run.stderr.includes(`The quotes around the value of ${name} do not count.`)).toBe(isQuoted);
    expect(starts(world)).toMatchObject([{ model: name === "VIDGEN_MODEL" ? "ray-3" : "wan-2.5" }]);
    if (name === "VIDGEN_OUTPUT")
      expect(readdirSync("clips").sort()).toEqual([expect.stringMatching(/^[\w.-]+\.mp4$/), "a.txt"]);
  });

  test("around a saved model, and around an id, do not count", async () => {
    const world = await open();
    await world.vidgen("config", "set", "model", "ray-3");
    const path = join(world.home, "config.json");
    writeFileSync(path, readFileSync(path, "utf8").replace('"ray-3"', '" ray-3\\r"'));
    await world.vidgen("generate", "a fox", "-o", "fox.mp4");
    expect(starts(world)).toMatchObject([{ model: "ray-3" }]);
    const [{ id }] = JSON.parse((await world.vidgen("list", "--json")).stdout);
    for (const line of [["status"], ["wait"], ["again"], ["list", "--open"]])
      expect(await world.vidgen(...line, `${id}\r`)).toMatchObject({ code: 0 });
  });

  /** As an older version has recorded it, beside a VIDGEN_MODEL with this value. */
  const rewrite = (world: World, model = "wan-2.5\r") => {
    const path = join(world.home, "journal.jsonl");
    const older = (line: string) => {
      const { project, folder, place_typed, ...fields } = JSON.parse(line);
      if (fields.kind === "intent") fields.request.model = model;
      return JSON.stringify(fields);
    };
    writeFileSync(path, `${readFileSync(path, "utf8").trimEnd().split("\n").map(older).join("\n")}\n`);
    world.env.VIDGEN_MODEL = model;
  };

  test.each([
    ["wan-2.5\r", []],
    ["wan-2.5\r", ["-n", "2", "-o", "clips/"]],
    ['"wan-2.5"', []],
    ["'wan-2.5'\r", ["-n", "2", "-o", "clips/"]],
  ])("an attempt that an older version left open with them is resumed: %j, %j", async (model, flags) => {
    const world = await open();
    await kill(world, isPoll, "generate", "a fox", ...flags);
    rewrite(world, model);
    expect(await world.vidgen("generate", "a fox", ...flags)).toMatchObject({ code: 0 });
    expect(starts(world)).toHaveLength(flags.length > 0 ? 2 : 1);
  });

  test.each(["wan-2.5\r", '"wan-2.5"'])(
    "an unclear one is sent again with its key as it was sent, or stops the line: %j",
    async (model) => {
      const world = await open({}, { keepsKeys: true });
      await kill(world, isStart, "generate", "a fox");
      rewrite(world, model);
      await world.vidgen("generate", "a fox");
      const sent = world.requests.filter(isStart);
      expect(new Set(sent.map(({ headers }) => headers.get("Idempotency-Key"))).size).toBe(1);
      expect(JSON.parse(sent[1]?.body ?? "")).toMatchObject({ model });
      const unkept = await open();
      await kill(unkept, isStart, "generate", "a fox");
      rewrite(unkept, model);
      expect(await unkept.vidgen("generate", "a fox")).toMatchObject({ code: 6 });
      expect(starts(unkept)).toHaveLength(1);
    },
  );

  test.each(["wan-2.5\r", '"wan-2.5"'])(
    "a row that an older version left open with them is resumed: %j",
    async (model) => {
      const world = await open({ "shots.txt": "a fox\n" });
      await kill(world, isPoll, "batch", "shots.txt");
      rewrite(world, model);
      rekey(world, { prompt: "a fox", model });
      writeFileSync("shots.txt.results.jsonl", "");
      expect(await world.vidgen("batch", "shots.txt")).toMatchObject({ code: 0 });
      expect(starts(world)).toHaveLength(1);
    },
  );

  test.each([
    ["\u2014again", "an em dash (U+2014)", "--again"],
    ["\u2013-local", "an en dash (U+2013)", "--local"],
    ["\u2013d", "an en dash (U+2013)", "-d"],
    ["\u00a0--again", "a no-break space (U+00A0)", "--again"],
  ])("%j is no flag: it is refused with its name and the line to type", async (word, name, flag) => {
    const world = await open();
    const run = await world.vidgen("generate", "a fox", word);
    expect([run.code, starts(world)]).toEqual([2, []]);
    expect(run.stderr).toContain(name);
    expect(run.stderr).toContain(`Type: vidgen generate 'a fox' ${flag}`);
    expect((await world.vidgen("generate", word)).code).toBe(2);
    expect(starts(world)).toEqual([]);
  });

  test.each(["\u2014 a fox, running", "a fox \u2014 running", "\u00e9t\u00e9"])("%j is a prompt", async (prompt) => {
    const world = await open();
    expect(await world.vidgen("generate", prompt)).toMatchObject({ code: 0 });
    expect(starts(world)).toMatchObject([{ prompt }]);
  });
});

describe("tables", () => {
  test.each(["#REF!", "#N/A", "#NAME?", "Loading...", "nan", "None", "NULL"])(
    "a prompt that is only %s is a fault with line and column",
    async (prompt) => {
      const world = await open({ "shots.csv": `id,prompt\na,a fox\nb,${prompt}\n` });
      const run = await world.vidgen("batch", "shots.csv");
      expect([run.code, starts(world)]).toEqual([2, []]);
      expect(run.stderr).toMatch(/line 3, column 2 \(prompt\): the prompt is only/);
    },
  );

  test("a row that repeats the header is a fault; in a file without a header, and with other cells, it is a prompt", async () => {
    const world = await open({ "shots.csv": "ID,Prompt\na,a fox\nid,prompt\n", "shots.txt": "prompt\n" });
    const run = await world.vidgen("batch", "shots.csv");
    expect([run.code, starts(world)]).toEqual([2, []]);
    expect(run.stderr).toMatch(/line 3, column 2 \(Prompt\): the row repeats the header/);
    expect((await world.vidgen("batch", "shots.txt")).code).toBe(0);
    writeFileSync("other.csv", "id,prompt\na,prompt\n");
    expect((await world.vidgen("batch", "other.csv")).code).toBe(0);
    expect(starts(world)).toHaveLength(2);
  });

  test("a row that an earlier version left open is resumed", async () => {
    const world = await open({ "shots.txt": "None of these\n" });
    await kill(world, isPoll, "batch", "shots.txt");
    editLines(world, (text) => text.replaceAll("None of these", "None"));
    writeFileSync("shots.txt", "None\n");
    rekey(world, { prompt: "None", model: "wan-2.5" });
    expect(await world.vidgen("batch", "shots.txt")).toMatchObject({ code: 0 });
    expect(starts(world)).toHaveLength(1);
  });

  test("a spreadsheet is to be exported", async () => {
    const world = await open({ "shots.xlsx": "PK" });
    expect(await world.vidgen("batch", "shots.xlsx")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Export it as CSV"),
    });
  });

  const fox = { prompt: "a fox", model: "wan-2.5" };
  /** As an older version has sent and recorded a ratio that a spreadsheet has changed. */
  const asOlder = (world: World, record: StartRequest) => {
    editLines(world, (text) => text.replaceAll('"aspectRatio":"16:9"', '"aspectRatio":"16:09"'));
    if (existsSync("shots.csv")) rekey(world, record);
  };

  test.each([
    ["16:09", "16:9"],
    ["09:16", "9:16"],
    ["09x16", "9:16"],
    ["1.85:1", "1.85:1"],
    ["16:10", "16:10"],
    ["0.5:1", "0.5:1"],
  ])("a ratio of %s is sent as %s, by each way in", async (typed, sent) => {
    const world = await open({ "shots.csv": `prompt,aspect ratio\na fox,${typed}\n`, "fox.txt": "an owl\n" });
    for (const line of [
      ["batch", "shots.csv"],
      ["batch", "fox.txt", "-a", typed],
      ["generate", "a hen", "-a", typed],
    ])
      expect(await world.vidgen(...line)).toMatchObject({ code: 0 });
    expect(starts(world).map(({ aspectRatio }) => aspectRatio)).toEqual([sent, sent, sent]);
  });

  test.each([
    ["unchanged", "16:09"],
    ["with the ratio as it was meant", "16:9"],
  ])("a row that an older version left open with 16:09 is resumed by a file that is %s", async (_, ratio) => {
    const world = await open({ "shots.csv": "prompt,ratio\na fox,16:9\n" });
    await kill(world, isPoll, "batch", "shots.csv");
    asOlder(world, { ...fox, aspectRatio: "16:09" });
    writeFileSync("shots.csv", `prompt,ratio\na fox,${ratio}\n`);
    expect(await world.vidgen("batch", "shots.csv")).toMatchObject({ code: 0 });
    expect(await world.vidgen("batch", "shots.csv")).toMatchObject({ code: 0 });
    expect(starts(world)).toHaveLength(1);
  });

  const secrets = { hub_token: "canary-1", elements: [{ url: "https://a.example/b.png", api_key: "canary-2" }] };
  const setSecrets = Object.entries(secrets).flatMap(([name, value]) => ["--set", `${name}=${JSON.stringify(value)}`]);
  /** As an older version has recorded secrets that only the names of their fields show. */
  const asPlain = (world: World) =>
    editLines(world, (text) =>
      text
        .replace(/"hub_token":"sha256:[^"]+"/, `"hub_token":"${secrets.hub_token}"`)
        .replace(/"api_key":"sha256:[^"]+"/, '"api_key":"canary-2"'),
    );

  test("a secret that the name of its field shows is not in the journal; what an older version left open with it is resumed", async () => {
    const world = await open();
    await kill(world, isPoll, "generate", "a fox", ...setSecrets);
    expect(readFileSync(join(world.home, "journal.jsonl"), "utf8")).not.toContain("canary");
    asPlain(world);
    expect(readFileSync(join(world.home, "journal.jsonl"), "utf8").match(/canary/g)).toHaveLength(2);
    expect(await world.vidgen("generate", "a fox", ...setSecrets)).toMatchObject({ code: 0 });
    expect(starts(world)).toHaveLength(1);
    expect(await world.vidgen("again", "last", "--set", "hub_token=another")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("Pass it again with --set elements=..."),
    });
  });

  test("a row that an older version left open with such a secret is resumed, and keeps its key", async () => {
    const world = await open({ "shots.txt": "a fox\n" });
    await kill(world, isPoll, "batch", "shots.txt", ...setSecrets);
    expect(readFileSync("shots.txt.results.jsonl", "utf8")).not.toContain("canary");
    expect(readFileSync("shots.txt.results.jsonl", "utf8")).toContain(keyOfRow({ ...fox, ...secrets }));
    asPlain(world);
    for (let times = 0; times < 2; times++)
      expect(await world.vidgen("batch", "shots.txt", ...setSecrets)).toMatchObject({ code: 0 });
    expect(starts(world)).toHaveLength(1);
  });

  test("rows that were started with 16:9 are done after a spreadsheet has made 16:09 of it, and the other way round", async () => {
    const world = await open();
    for (const ratio of ["16:9", "16:09", "16:9"]) {
      writeFileSync("shots.csv", `prompt,ratio\na fox,${ratio}\na fox,${ratio}\nan owl,${ratio}\n`);
      expect(await world.vidgen("batch", "shots.csv", "-o", "clips/")).toMatchObject({ code: 0 });
    }
    expect(starts(world)).toHaveLength(3);
  });

  test("a row keeps its key, and so its shard, as it is written", async () => {
    const world = await open({ "shots.csv": "prompt,ratio\na fox,16:09\n" });
    expect(await world.vidgen("batch", "shots.csv")).toMatchObject({ code: 0 });
    expect(readFileSync("shots.csv.results.jsonl", "utf8")).toContain(keyOfRow({ ...fox, aspectRatio: "16:09" }));
    const index = shardOf({ key: keyOfRow({ ...fox, aspectRatio: "16:09" }) } as KeyedRow, 7);
    const sharded = await open({ "shots.csv": "prompt,ratio\na fox,16:09\n" });
    expect(await sharded.vidgen("batch", "shots.csv", "--shard", `${index}/7`)).toMatchObject({ code: 0 });
    expect(starts(sharded)).toHaveLength(1);
  });

  test("an unclear row, and an unclear line, are sent again with the key and the body that were sent", async () => {
    for (const [line, files] of [
      [["batch", "shots.csv"], { "shots.csv": "prompt,ratio\na fox,16:09\n" }],
      [["generate", "a fox", "-a", "16:09"], {}],
    ] as const) {
      const world = await open({ ...files }, { keepsKeys: true });
      await kill(world, isStart, ...line);
      asOlder(world, { ...fox, aspectRatio: "16:09" });
      await world.vidgen(...line);
      const sent = world.requests.filter(isStart);
      expect(new Set(sent.map(({ headers }) => headers.get("Idempotency-Key"))).size).toBe(1);
      expect(sent.map(({ body }) => JSON.parse(body).aspectRatio)).toEqual(["16:9", "16:09"]);
    }
  });

  test.each(["again last", "generate a-fox"])(
    "a line of %s that an older version left open with 16:09 is resumed",
    async (line) => {
      const world = await open();
      await world.vidgen("generate", "an owl");
      const words = [...line.split(" "), "-a", "16:09"];
      await kill(world, isPoll, ...words);
      asOlder(world, fox);
      expect(await world.vidgen(...words)).toMatchObject({ code: 0 });
      expect(starts(world)).toHaveLength(2);
    },
  );

  test.each(["\u200bratio", "rat\u200dio", "\ufeff\ufeffratio", "\u2060 Aspect", "set.\u200bmood", "\u200bset.mood"])(
    "invisible characters in the header %j do not count",
    async (header) => {
      const world = await open({ "shots.csv": `prompt,${header}\na fox,9:16\n` });
      expect(await world.vidgen("batch", "shots.csv")).toMatchObject({ code: 0 });
      const field = header.includes("mood") ? "mood" : "aspectRatio";
      expect(starts(world)).toMatchObject([{ [field]: "9:16" }]);
      // The key is that of the row as it was written, where such a column was not read.
      const written = header.startsWith("set.") ? { ...fox, "\u200bmood": "9:16" } : fox;
      const key = keyOfRow(header.startsWith("\ufeff") ? { ...fox, aspectRatio: "9:16" } : written);
      expect(readFileSync("shots.csv.results.jsonl", "utf8")).toContain(key);
    },
  );

  test("a row that an older version left open, which did not read such a header, is resumed, or sent again as it was sent", async () => {
    const header = "prompt,\u200bratio\na fox,9:16\n";
    const world = await open({ "shots.csv": "prompt\na fox\n" });
    await kill(world, isPoll, "batch", "shots.csv");
    writeFileSync("shots.csv", header);
    expect(await world.vidgen("batch", "shots.csv")).toMatchObject({ code: 0 });
    expect(starts(world)).toHaveLength(1);
    const unclear = await open({ "shots.csv": "prompt\na fox\n" }, { keepsKeys: true });
    await kill(unclear, isStart, "batch", "shots.csv");
    writeFileSync("shots.csv", header);
    expect(await unclear.vidgen("batch", "shots.csv")).toMatchObject({ code: 0 });
    const sent = unclear.requests.filter(isStart);
    expect(new Set(sent.map(({ headers }) => headers.get("Idempotency-Key"))).size).toBe(1);
    expect(sent.map(({ body }) => body)).toEqual([sent[0]?.body, sent[0]?.body]);
  });

  test("a row with an id that an older version left open is resumed", async () => {
    const world = await open({ "shots.csv": "id,prompt,ratio\na,a fox,16:9\n" });
    await kill(world, isPoll, "batch", "shots.csv");
    editLines(world, (text) => text.replaceAll('"aspectRatio":"16:9"', '"aspectRatio":"16:09"'));
    writeFileSync("shots.csv", "id,prompt,ratio\na,a fox,16:09\n");
    expect(await world.vidgen("batch", "shots.csv")).toMatchObject({ code: 0 });
    expect(starts(world)).toHaveLength(1);
  });
});
