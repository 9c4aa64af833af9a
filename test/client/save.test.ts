import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { tinyMp4 } from "../mp4.ts";
import { createWorld, mediaUrl, type World } from "../vidgen.ts";

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
  return { world, id, ranges, file, save: () => world.vidgen("wait", id, "-o", file) };
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

function partLines(world: World) {
  const lines = readFileSync(join(world.home, "journal.jsonl"), "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line)).filter(({ kind }) => kind === "part");
}

describe("what a partial file holds", () => {
  test("is written down each time a body begins, also when nothing tells its version", async () => {
    const total = video.length;
    const { world, id, ranges, file, save } = await completed(
      cut({ ETag: '"one"' }),
      cut({}),
      cut({}, () => world.press("Ctrl-C")),
    );
    expect(await save()).toMatchObject({ code: 130 });
    const part = { id, file: `${file}.part`, total };
    // The first line is the claim's: the file is empty, and holds no version yet.
    expect(partLines(world).slice(1)).toMatchObject([{ ...part, etag: '"one"' }, part, part]);
    expect(partLines(world).map(({ etag }) => etag)).toEqual([undefined, '"one"', undefined, undefined]);
    world.reboot();
    world.faults.length = 0;
    expect(await save()).toMatchObject({ code: 0 });
    expect(ranges).toEqual([null, "bytes=20-", null]);
    expect(world.requests.at(-1)?.headers.get("Range")).toBe(null);
    expect(Uint8Array.from(readFileSync(file))).toEqual(video);
  });
});

test("a video of another kind is kept, with a warning: it was paid for", async () => {
  const webm = Uint8Array.from([0x1a, 0x45, 0xdf, 0xa3, 0x9f, 0x42, 0x86, 0x81, 1]);
  const { ranges, file, save } = await completed(() => new Response(webm, { headers: { "Content-Length": "9" } }));
  expect(await save()).toMatchObject({
    code: 0,
    stdout: `${file}\n`,
    stderr: expect.stringContaining(
      "The downloaded file looks damaged (it is not an .mp4), also the second time. It is saved anyway",
    ),
  });
  expect(Uint8Array.from(readFileSync(file))).toEqual(webm);
  expect(ranges).toEqual([null, null]);
});

describe("the hint after a failed download", () => {
  test("is the command, and not an address that has expired", async () => {
    const { id, file, save } = await completed(() => new Response(null, { status: 403 }));
    const { code, stderr } = await save();
    expect(code).toBe(9);
    expect(stderr).toContain("The video URL has expired: HTTP 403.");
    expect(stderr).toContain(`vidgen wait ${id} -o ${file}`);
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
