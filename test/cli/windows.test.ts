import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { expect, test } from "vitest";
import { readPath } from "../../src/cli/terminal/prompts.ts";
import { createDisk, type Disk } from "../../src/io.ts";
import { tinyMp4 } from "../mp4.ts";
import { apiKey, createWorld, isStart, mediaUrl, type World } from "../vidgen.ts";

/** A world on Windows, as far as that can be shown elsewhere: NTFS and the shells are not. */
async function createWindows(): Promise<World> {
  const world = await createWorld();
  Object.assign(world.io, { platform: "win32" });
  return world;
}

/** Has `refuse` decide about each call of the disk that another program's open file can stop; it returns the code of the error. */
function holdFiles(world: World, refuse: (call: string, path: string) => string | undefined): void {
  const { disk, now, sleep } = world.io;
  const held = Object.fromEntries(
    (["rename", "link", "rm", "open"] as const).map((name) => [
      name,
      async (...args: string[]) => {
        const code = refuse(name, args[name === "rename" ? 1 : 0] ?? "");
        if (code !== undefined) throw Object.assign(new Error(`${code}: in use`), { code });
        return (disk[name] as (...args: string[]) => Promise<unknown>)(...args);
      },
    ]),
  );
  Object.assign(world.io, { disk: createDisk("win32", { ...disk, ...held } as Disk, { now, sleep }) });
}

const starts = ({ requests }: World) => requests.filter(isStart).length;

test.each([
  ["CON.mp4", "Windows reserves CON for a device"],
  ["a?b.mp4", "has a name with ?, which Windows does not allow"],
  ["fox.", "ends with a dot"],
  ["{slug}.", "ends with a dot"],
  ["nul/{id}.mp4", "Windows reserves nul for a device"],
])("-o %s is refused before anything is paid, with the reason: %s", async (name, reason) => {
  const world = await createWindows();
  const place = join(world.folder, name);
  const refusal = { code: 2, stderr: expect.stringContaining(reason) };
  expect(await world.vidgen("generate", "a fox", "-o", place)).toMatchObject(refusal);
  expect(await world.vidgen("generate", "a fox", "--dry-run", "-o", place)).toMatchObject(refusal);
  world.env.VIDGEN_OUTPUT = place;
  expect(await world.vidgen("generate", "a fox")).toMatchObject(refusal);
  expect(starts(world)).toBe(0);
});

test("a scanner that opens each new file for half a second: one payment, the video, and nothing left behind", async () => {
  const world = await createWindows();
  const seen = new Map<string, number>();
  holdFiles(world, (call, path) => {
    const from = seen.get(`${call} ${path}`) ?? world.io.now();
    seen.set(`${call} ${path}`, from);
    if (world.io.now() - from >= 500) return undefined;
    return call === "rename" ? "EPERM" : "EBUSY";
  });
  const place = join(world.folder, "fox.mp4");
  expect(await world.vidgen("generate", "a fox", "-o", place)).toMatchObject({ code: 0, stdout: `${place}\n` });
  expect(readdirSync(world.folder)).toEqual(["fox.mp4"]);
  const journal = readFileSync(join(world.home, "journal.jsonl"), "utf8");
  expect(journal.match(/"kind":"(completed|delivered)"/g)).toHaveLength(2);
  expect(existsSync(join(world.home, "journal.jsonl.leases"))).toBe(false);
  expect(starts(world)).toBe(1);
});

test("a player that has the file open: the reason, and the same line again saves the video that was paid for", async () => {
  const world = await createWindows();
  const place = join(world.folder, "fox.mp4");
  writeFileSync(place, "an earlier fox");
  let isOpen = true;
  holdFiles(world, (call, path) => (isOpen && call === "rename" && path === place ? "EPERM" : undefined));
  const line = ["generate", "a fox", "-o", place, "--overwrite"];
  const stopped = await world.vidgen(...line);
  expect(stopped).toMatchObject({ code: 9, stderr: expect.stringContaining("another program has it open") });
  expect(stopped.stderr).toContain("Close that program, and run the same line again.");
  isOpen = false;
  expect(await world.vidgen(...line)).toMatchObject({ code: 0, stdout: `${place}\n` });
  expect(readFileSync(place)).toEqual(Buffer.from(tinyMp4("a fox")));
  expect([starts(world), readdirSync(world.folder)]).toEqual([1, ["fox.mp4"]]);
});

test("a journal that another program has open is an error before anything is paid", async () => {
  const world = await createWindows();
  await world.vidgen("generate", "an owl");
  holdFiles(world, (call, path) => (call === "open" && path.endsWith("journal.jsonl") ? "EBUSY" : undefined));
  const { code, stderr } = await world.vidgen("generate", "a fox");
  expect([code, starts(world)]).toEqual([9, 1]);
  expect(stderr).toContain("another program has it open. Nothing was sent");
  expect(stderr).toContain("run the same line again");
});

test("--overwrite of a read-only file is refused before anything is paid", async () => {
  const world = await createWindows();
  const place = join(world.folder, "fox.mp4");
  writeFileSync(place, "an earlier fox");
  const { disk } = world.io;
  const access: Disk["access"] = async (path, mode) => {
    if (path === place && mode === disk.constants.W_OK) throw Object.assign(new Error("EPERM"), { code: "EPERM" });
    return disk.access(path, mode);
  };
  Object.assign(world.io, { disk: { ...disk, access } });
  const { code, stderr } = await world.vidgen("generate", "a fox", "-o", place, "--overwrite");
  expect([code, starts(world)]).toEqual([9, 0]);
  expect(stderr).toContain(`${place} is read-only: Windows does not let another file replace it. Nothing was sent`);
});

test.each([
  [undefined, '"a $5 fox"'],
  ["C:\\Users\\ann\\Documents\\PowerShell\\Modules;C:\\Windows", "'a $5 fox'"],
])("hints are for the shell there: with PSModulePath %s the prompt is %s", async (PSModulePath, prompt) => {
  const world = await createWindows();
  Object.assign(world.io, { home: "C:\\Users\\Ann" });
  world.env = { ...world.env, PSModulePath };
  const place = join(world.folder, "my fox.mp4");
  const late = await world.vidgen("generate", "a fox", "-o", place, "--timeout", "10s");
  expect(late.stderr).toMatch(/Resume with: vidgen wait \S+ -o "[^"]+my fox\.mp4"/);
  const taken = await world.vidgen("generate", "a fox", "-n", "2", "-o", place);
  expect(taken.stderr).toContain('-o "{slug}-{n}.mp4"');
  expect((await world.vidgen("generate", "a", "$5", "fox")).stderr).toContain(`vidgen generate ${prompt}`);
});

test("a prompt file with the line ends of Windows is the same request", async () => {
  const world = await createWindows();
  const file = join(world.folder, "prompt.txt");
  const place = join(world.folder, "fox.mp4");
  writeFileSync(file, "a red fox\nin the snow\n");
  expect(await world.vidgen("generate", `@${file}`, "-o", place)).toMatchObject({ code: 0 });
  writeFileSync(file, "a red fox\r\nin the snow\r\n");
  expect(await world.vidgen("generate", `@${file}`, "-o", place, "--reuse")).toMatchObject({ code: 0 });
  expect(starts(world)).toBe(1);
});

test("login does not say that only the user can read the key, where vidgen does not decide that", async () => {
  for (const [platform, isSaid] of [
    ["win32", false],
    ["linux", process.platform !== "win32"],
  ] as const) {
    const world = await createWindows();
    Object.assign(world.io, { platform });
    world.stdin = apiKey;
    const { code, stderr } = await world.vidgen("login", "--with-token");
    expect([code, stderr.includes("Saved in plain text"), stderr.includes("which only you can read")]).toEqual([
      0,
      true,
      isSaid,
    ]);
  }
});

test("a home folder in a form is written with either slash", () => {
  const io = { home: "C:\\Users\\ann", platform: "win32" };
  expect([readPath("~\\Videos", io), readPath("~/Videos", io)]).toEqual([
    "C:\\Users\\ann\\Videos",
    "C:\\Users\\ann/Videos",
  ]);
});

test("files after a prompt's @ are completed with the slashes that are typed", async () => {
  const world = await createWindows();
  writeFileSync(join(world.folder, "fox.txt"), "a fox");
  for (const folder of [`${world.folder}/`, join(world.folder, "/")]) {
    const { stdout } = await world.vidgen("__complete", `--current=@${folder}f`, "--", "generate");
    expect(stdout.trim()).toBe(`@${folder}fox.txt`);
  }
});

/** Runs a batch of one row with the options, then changes each line of its results file, and returns what the disk is asked about from then on. */
async function runChanged(world: World, options: string[], change: (line: Line) => Line | Line[]) {
  const results = join(world.folder, "shots.csv.results.jsonl");
  writeFileSync(join(world.folder, "shots.csv"), "prompt\na fox\n");
  await world.vidgen(...options);
  const lines = readFileSync(results, "utf8").trimEnd().split("\n");
  const changed = lines.flatMap((text) => change(JSON.parse(text)));
  writeFileSync(results, changed.map((line) => `${JSON.stringify(line)}\n`).join(""));
  const asked: string[] = [];
  const disk = Object.entries(world.io.disk).map(([name, call]) => {
    if (typeof call !== "function") return [name, call];
    const watched = (...args: unknown[]) => {
      asked.push(args.slice(0, 2).join(" "));
      return Reflect.apply(call, undefined, args);
    };
    return [name, watched];
  });
  Object.assign(world.io, { disk: Object.fromEntries(disk) });
  return asked;
}

type Line = Record<string, unknown>;

test("a results file names its videos with /, so that it can be read on any system", async () => {
  const world = await createWindows();
  writeFileSync(join(world.folder, "shots.csv"), "prompt\na fox\n");
  const place = join(world.folder, "clips", "{model}", "fox.mp4");
  mkdirSync(join(world.folder, "clips"));
  expect(await world.vidgen("batch", join(world.folder, "shots.csv"), "--yes", "-o", place)).toMatchObject({ code: 0 });
  const lines = readFileSync(join(world.folder, "shots.csv.results.jsonl"), "utf8");
  expect(lines).toContain('"file":"clips/wan-2.5/fox.mp4"');
});

test.each([
  ["a video on another machine", { file: "//evil/share/fox.mp4" }, "delivered", "shots.csv.results.jsonl"],
  ["a video on another machine, beside another one", { file: "//evil/share/fox.mp4" }, "delivered", "other.jsonl"],
  [
    "an earlier results file on another machine",
    { results: String.raw`\\evil\share\shots.results.jsonl` },
    "batch",
    "shots.csv.results.jsonl",
  ],
  ["a video on a device", { file: String.raw`\\.\pipe\evil` }, "delivered", "shots.csv.results.jsonl"],
])(
  "a results file that has the path of %s: it is not opened, and nothing is paid",
  async (name, path, kind, results) => {
    const world = await createWindows();
    const batch = ["batch", join(world.folder, "shots.csv"), "--yes", "-o"];
    const options = [...batch, join(world.folder, "{n}.mp4")];
    const asked = await runChanged(world, options, (line) => (line.kind === kind ? { ...line, ...path } : line));
    const { code, stderr } = await world.vidgen(...options, "--results", join(world.folder, results));
    expect([code, starts(world)]).toEqual([2, 1]);
    expect(stderr).toContain("only a flag may name a path on another machine or a device. Nothing was sent.");
    expect(asked.filter((each) => each.includes("evil"))).toEqual([]);
    const named = await world.vidgen(...batch, String.raw`\\EVIL\films\{n}.mp4`, "--dry-run");
    expect(named.stderr.includes("only a flag")).toBe(name.endsWith("device"));
  },
);

test("the rows file and the partial files that a results file names are not opened", async () => {
  const world = await createWindows();
  const options = ["batch", join(world.folder, "shots.csv"), "--yes", "-o", join(world.folder, "{n}.mp4")];
  world.faults.push(({ url }) => (url.startsWith(mediaUrl) ? new Response(null, { status: 404 }) : undefined));
  const path = String.raw`\\evil\share\fox`;
  const asked = await runChanged(world, options, (line) => {
    if (line.kind === "batch") return { ...line, file: path };
    if (line.kind !== "intent") return line;
    const { at, attempt } = line;
    return [
      { ...line, part: `${path}.part`, path, batch: path },
      { at, kind: "part", attempt, file: `${path}.2.part` },
    ];
  });
  world.faults.pop();
  rmSync(join(world.home, "journal.jsonl"));
  renameSync(join(world.folder, "shots.csv.results.jsonl"), join(world.folder, "other.jsonl"));
  expect(await world.vidgen(...options)).toMatchObject({ code: 0 });
  expect(starts(world)).toBe(1);
  expect(asked.filter((each) => each.includes("evil"))).toEqual([]);
});
