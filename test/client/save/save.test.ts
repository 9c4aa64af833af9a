import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, test } from "vitest";
import { commandLine } from "../../../src/shell.ts";
import { findPart } from "../../folder.ts";
import { tinyMp4 } from "../../mp4.ts";
import { lacks } from "../../needs.ts";
import { createWorld, mediaUrl, type World } from "../../vidgen.ts";

const video = tinyMp4("a fox");

/** A generation that has completed; its media address answers like this, one answer after the other, the last one for ever. */
async function completed(...answers: (() => Response)[]) {
  const world = await createWorld();
  const id = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
  await world.io.sleep(31_000);
  const ranges: (string | null)[] = [];
  world.faults.push((request) => {
    if (!request.url.startsWith(mediaUrl)) return undefined;
    ranges.push(request.headers.get("Range"));
    return (answers.length > 1 ? answers.shift() : answers[0])?.();
  });
  const file = join(world.folder, "fox.mp4");
  return { world, id, ranges, file, save: (...flags: string[]) => world.vidgen("wait", id, "-o", file, ...flags) };
}

/** The first 20 bytes, and then the connection breaks, or the user presses Ctrl-C. */
function cut(headers: Record<string, string>, onCut = () => {}) {
  const pull = (stream: ReadableStreamDefaultController) => {
    onCut();
    stream.error(new Error("cut"));
  };
  const start = (stream: ReadableStreamDefaultController) => stream.enqueue(video.slice(0, 20));
  const all = { "Content-Length": String(video.length), ...headers };
  return () => new Response(new ReadableStream({ start, pull }, { highWaterMark: 0 }), { headers: all });
}

function linesOf(world: World) {
  const lines = readFileSync(join(world.home, "journal.jsonl"), "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line));
}

function partLines(world: World) {
  return linesOf(world).filter(({ kind }) => kind === "part");
}

describe("the record of a partial file", () => {
  test("is written each time a body begins, even if its version is unknown", async () => {
    const total = video.length;
    const { world, ranges, file, save } = await completed(
      cut({ ETag: '"one"' }),
      cut({}),
      cut({}, () => world.press("Ctrl-C")),
    );
    expect(await save()).toMatchObject({ code: 130 });
    const part = { file: partLines(world)[0]?.file, total };
    // The first line is the claim's, and the second one its opening: the file is empty, and holds no version yet.
    expect(partLines(world).slice(2)).toMatchObject([{ ...part, etag: '"one"' }, part, part]);
    expect(partLines(world).map(({ etag }) => etag)).toEqual([undefined, undefined, '"one"', undefined, undefined]);
    world.reboot();
    world.faults.length = 0;
    expect(await save()).toMatchObject({ code: 0 });
    expect(ranges).toEqual([null, "bytes=20-", null]);
    expect(world.requests.at(-1)?.headers.get("Range")).toBe(null);
    expect(Uint8Array.from(readFileSync(file))).toEqual(video);
  });
});

test("its hash, size, inode and time are written down before it gets its name, and after that", async () => {
  const { world, file, save } = await completed(() => new Response(Uint8Array.from(video)));
  expect(await save()).toMatchObject({ code: 0 });
  const { size, ino: inode, mtimeMs: mtime } = statSync(file);
  const content = { sha256: createHash("sha256").update(video).digest("hex"), size, inode, mtime };
  expect(linesOf(world).slice(-2)).toMatchObject([
    { kind: "downloaded", ...content },
    { kind: "delivered", file, ...content },
  ]);
  expect(JSON.parse((await world.vidgen("list", "--json")).stdout)).toMatchObject([{ file, sha256: content.sha256 }]);
});

describe.skipIf(lacks("removal of open files")).each([
  ["without --overwrite", []],
  ["with --overwrite", ["--overwrite"]],
])("another program's file in the place of the partial one, %s", (_, flags) => {
  const diary = "a diary of the same day";

  test("is not taken for the video, renamed or deleted", async () => {
    const { world, id, file } = await completed(() => {
      writeFileSync(`${file}.other`, diary);
      // The video is all there when the other file takes its place.
      const pull = (stream: ReadableStreamDefaultController) => {
        renameSync(`${file}.other`, findPart(world.folder));
        stream.close();
      };
      const start = (stream: ReadableStreamDefaultController) => stream.enqueue(Uint8Array.from(video));
      return new Response(new ReadableStream({ start, pull }, { highWaterMark: 0 }), { headers: { ETag: '"one"' } });
    });
    const save = () => world.vidgen("wait", id, "-o", file, ...flags);
    const run = await save();
    expect(run).toMatchObject({ code: 9, stdout: "" });
    const part = findPart(world.folder);
    expect(run.stderr).toContain(`another program has replaced ${part}`);
    expect(run.stderr).toContain(`vidgen wait ${id} -o ${file}`);
    expect(readdirSync(world.folder)).toEqual([basename(part)]);
    expect(readFileSync(part, "utf8")).toBe(diary);
    // Nor does the next process take it for what this one has left.
    expect(await world.reboot().vidgen("wait", id, "-o", file, ...flags)).toMatchObject({ code: 9 });
    expect(readFileSync(part, "utf8")).toBe(diary);
    rmSync(part);
    world.faults.length = 0;
    expect(await save()).toMatchObject({ code: 0, stdout: `${file}\n` });
  });

  test("is not a success either if it appears at the last moment", async () => {
    const { world, file, save } = await completed(() => new Response(Uint8Array.from(video)));
    const { disk } = world.io;
    const late = (call: typeof disk.link) => async (from: string, to: string) => {
      if (from.endsWith(".part")) {
        writeFileSync(`${file}.other`, diary);
        renameSync(`${file}.other`, from);
      }
      return call(from, to);
    };
    world.io.disk = {
      ...disk,
      link: late(disk.link as typeof disk.link) as typeof disk.link,
      rename: late(disk.rename) as typeof disk.rename,
    };
    const run = await save(...flags);
    expect(run).toMatchObject({ code: 9, stdout: "" });
    expect(run.stderr).toContain(`another program has replaced ${file}`);
    expect(readFileSync(flags.length > 0 ? file : findPart(world.folder), "utf8")).toBe(diary);
  });
});

test("the folder is on the disk too before the video counts as saved", async () => {
  const { world, save } = await completed(() => new Response(Uint8Array.from(video)));
  const { disk } = world.io;
  const seen: string[] = [];
  const link: typeof disk.link = async (from, to) => {
    seen.push("link");
    return disk.link(from, to);
  };
  const open: typeof disk.open = async (path, flags, mode) => {
    const opened = await disk.open(path, flags, mode);
    const isPart = path.endsWith(".part");
    if (!isPart && path !== world.folder) return opened;
    const name = isPart ? "file" : "folder";
    const { sync } = opened;
    return Object.assign(opened, {
      sync() {
        seen.push(`sync ${name}: ${linesOf(world).at(-1)?.kind}`);
        return sync.call(opened);
      },
    });
  };
  world.io.disk = { ...disk, link, open };
  expect(await save()).toMatchObject({ code: 0 });
  expect(seen).toEqual(["sync file: downloaded", "link", "sync folder: downloaded"]);
});

test("a video of another kind is kept, with a note that names it: it was paid for", async () => {
  const webm = Uint8Array.from([0x1a, 0x45, 0xdf, 0xa3, 0x9f, 0x42, 0x86, 0x81, 1]);
  const { ranges, file, save } = await completed(() => new Response(webm, { headers: { "Content-Length": "9" } }));
  expect(await save()).toMatchObject({
    code: 0,
    stdout: `${file}\n`,
    stderr: expect.stringMatching(/The downloaded file is not an \.mp4: it is a \w+.*a second download was identical/),
  });
  expect(Uint8Array.from(readFileSync(file))).toEqual(webm);
  expect(ranges).toEqual([null, null]);
});

describe("the hint after a failed download", () => {
  test("is the command, and not an address that has expired", async () => {
    const { id, file, save } = await completed(() => new Response(null, { status: 403 }));
    const { code, stderr } = await save();
    expect(code).toBe(9);
    expect(stderr).toContain("The video URL gives no video: HTTP 403.");
    expect(stderr).toContain(commandLine(["vidgen", "wait", id, "-o", file], "posix"));
    expect(stderr).not.toContain(mediaUrl);
    expect(existsSync(file)).toBe(false);
  });

  test("is the address too when that still works", async () => {
    const { id, save } = await completed(cut({}));
    const { code, stderr } = await save();
    expect(code).toBe(9);
    expect(stderr).toContain(`The video is at ${mediaUrl}/${id}.mp4`);
  });
});

test.each([
  ["../x", "a-fox-wan-2.5-", "."],
  ["🦊", "a-fox-", "{id}.mp4"],
])(
  "an id such as %j cannot be a name: the video is named after its prompt, which is said",
  async (id, begin, place) => {
    const world = await createWorld();
    world.faults.push((request) => {
      const { pathname, search } = new URL(request.url);
      if (request.url.startsWith(mediaUrl)) return new Response(video);
      const data = { id, status: "completed", video_url: `${mediaUrl}/x.mp4`, thumbnail_url: null, error: null };
      if (pathname.endsWith("/generate") || search !== "") return Response.json({ success: true, data, ...data });
      return undefined;
    });
    const run = await world.vidgen("generate", "a fox", "-o", join(world.folder, place));
    expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining(`id "${id}" cannot be a file name: `) });
    expect(basename(run.stdout.trim())).toMatch(new RegExp(`^${begin}[0-9a-f]{8}\\.mp4$`));
  },
);

test.skipIf(lacks("/proc"))(
  "a folder in which the system lets nobody make a file ends the command at once, before it pays",
  async () => {
    for (const place of ["/proc/x.mp4", "/proc/", "/proc/new/", "/proc/new/{slug}.mp4"]) {
      const world = await createWorld();
      const run = await world.vidgen("generate", "a fox", "-o", place);
      expect(run).toMatchObject({ code: 9, stderr: expect.stringMatching(/^error: Cannot save .*Nothing was sent/) });
      expect(world.requests.filter(({ method }) => method === "POST")).toEqual([]);
    }
  },
);
