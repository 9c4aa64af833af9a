import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { afterEach, expect, test } from "vitest";
import { tinyMp4 } from "../../mp4.ts";
import { createWorld, isStart, mediaUrl, type World } from "../../vidgen.ts";

const home = process.cwd();
afterEach(() => process.chdir(home));

const video = Buffer.from(tinyMp4("a fox"));

/** A media server that takes 21 s for the video. It serves the rest of one where a header says which version that is. */
function slowMedia(headers: Record<string, string>): World["faults"][number] {
  return ({ url, headers: asked, signal }, { io }) => {
    if (!url.startsWith(mediaUrl)) return undefined;
    const [, from] = /^bytes=(\d+)-$/.exec(asked.get("Range") ?? "") ?? [];
    let at = Number(from ?? 0);
    const step = Math.ceil(video.length / 40);
    const body = new ReadableStream(
      {
        async pull(stream) {
          await io.sleep(1000, signal).catch((error) => stream.error(error));
          if (signal.aborted) return;
          stream.enqueue(video.subarray(at, at + step));
          at += step;
          if (at >= video.length) stream.close();
        },
      },
      { highWaterMark: 0 },
    );
    const length = { "Content-Length": String(video.length - at), ...headers };
    const range = { "Content-Range": `bytes ${at}-${video.length - 1}/${video.length}` };
    return from === undefined
      ? new Response(body, { headers: length })
      : new Response(body, { status: 206, headers: { ...length, ...range } });
  };
}

async function open(headers: Record<string, string>): Promise<World> {
  const world = await createWorld({ renderMs: 5_000 });
  process.chdir(world.folder);
  world.faults = [slowMedia(headers)];
  return world;
}

const modified = { "Last-Modified": "Wed, 31 Dec 2025 00:00:00 GMT", Date: "Thu, 01 Jan 2026 00:00:00 GMT" };

test.each([
  ["an ETag", { ETag: '"one"' }],
  ["Last-Modified", modified],
])(
  "with %s, --timeout bounds waiting and saving together; the same line saves the rest, for nothing",
  async (_, headers) => {
    const world = await open(headers);
    const line = ["generate", "a fox", "-o", "fox.mp4", "--timeout", "20s"];
    let runs = 0;
    for (let code = 5; code === 5; runs++) {
      const begin = world.io.now();
      const run = await world.reboot().vidgen(...line);
      code = run.code;
      expect(world.io.now() - begin).toBeLessThanOrEqual(20_000);
      if (code !== 5) continue;
      expect(run.stderr).toContain("Timed out before the video was saved.");
      expect(run.stderr).toMatch(/Resume with: vidgen wait \S+ -o fox.mp4$/m);
      expect(readdirSync(world.folder)).toEqual([expect.stringMatching(/\.part$/)]);
    }
    // The service has it after 9.5 s; the download takes 21 s more.
    expect(runs).toBe(2);
    expect(readFileSync("fox.mp4")).toEqual(video);
    expect(world.requests.filter(isStart)).toHaveLength(1);
  },
);

test.each([
  ["without either", {}, ["-o", "fox.mp4"]],
  ["to stdout", { ETag: '"one"' }, ["-o", "-"]],
])(
  "%s, a download that has begun is not cut: it could not be resumed, and the run says so",
  async (_, headers, place) => {
    const world = await open(headers);
    const run = await world.vidgen("generate", "a fox", ...place, "--timeout", "20s");
    expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining("so it continues while data arrives.") });
    expect(world.requests.filter(({ url }) => url.startsWith(mediaUrl))).toHaveLength(1);
    expect(world.io.now()).toBe(30_500);
  },
);

test("a download that could not be resumed ends with Ctrl-C also after the timeout", async () => {
  const world = await open({});
  const later = world.io.limit(25_000, new AbortController().signal, new Error("later"));
  later.signal.addEventListener("abort", () => world.press("Ctrl-C"));
  const run = await world.vidgen("generate", "a fox", "-o", "fox.mp4", "--timeout", "20s");
  expect(run).toMatchObject({ code: 130, stdout: "" });
  expect(world.io.now()).toBeLessThan(30_000);
});

test("nothing is cut short where the time is over before the first byte, and the next run begins there", async () => {
  const world = await open({});
  const line = ["generate", "a fox", "-o", join(world.folder, "fox.mp4"), "--timeout", "10s"];
  expect(await world.vidgen(...line)).toMatchObject({ code: 5 });
  expect(await world.reboot().vidgen(...line)).toMatchObject({ code: 0 });
  expect(world.requests.filter(isStart)).toHaveLength(1);
});
