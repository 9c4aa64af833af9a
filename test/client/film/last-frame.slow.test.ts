import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { type Ffmpeg, inputArgs, requireFfmpeg, runProgram } from "../../../src/client/film/ffmpeg.ts";
import { keepLastFrame } from "../../../src/client/film/kept-frame.ts";
import { lastFrame } from "../../../src/client/film/last-frame.ts";
import { makeFolder } from "../../folder.ts";
import { hasFfmpeg } from "../../needs.ts";
import { asNew, asOld, colorsOf, fakeFfmpeg, io, makeClip, nameOf, ffmpeg as runFfmpeg } from "./clips.ts";

const { signal } = new AbortController();
let ffmpeg: Ffmpeg;

describe.skipIf(!hasFfmpeg)("the last frame", () => {
  beforeAll(async () => {
    ffmpeg = await requireFfmpeg({ feature: "--from", encodes: false }, io, signal);
  });

  type Clip = (file: string) => void;
  const red = (frames: number): [string, number] => ["red", frames];
  const clips: [string, string, Clip][] = [
    ["an ordinary clip", "a.mp4", (file) => makeClip(file, { colors: [red(47), ["lime", 1]] })],
    [
      "sound that is longer than the picture by three seconds",
      "a.mp4",
      (file) => makeClip(file, { colors: [red(47), ["lime", 1]], sound: { hz: 440, seconds: 5 } }),
    ],
    ["a frame every two seconds", "a.mp4", (file) => makeClip(file, { colors: [red(3), ["lime", 1]], rate: "1/2" })],
    ["a single frame", "a.mp4", (file) => makeClip(file, { colors: [["lime", 1]] })],
    [
      "a rate that varies, with a last frame that comes 10 ms after another",
      "a.mp4",
      (file) => {
        const from = makeClip(`${file}.mkv`, { colors: [red(20), ["blue", 1], ["lime", 1]] });
        const times = "setpts='if(lt(N,21),N*N/24,400/24+0.01)/TB'";
        runFfmpeg(
          "-i",
          from,
          "-vf",
          times,
          "-vsync",
          "vfr",
          "-enc_time_base",
          "1:24000",
          "-c:v",
          "libx264",
          `file:${file}`,
        );
      },
    ],
    [
      "a key frame at its beginning alone, and B-frames",
      "a.mp4",
      (file) => makeClip(file, { colors: [red(239), ["lime", 1]], more: ["-g", "999", "-bf", "3"] }),
    ],
    [
      "an edit list that ends after its first second",
      "a.mp4",
      (file) => {
        const from = makeClip(`${file}.mkv`, {
          colors: [red(23), ["lime", 1], ["blue", 24]],
          more: ["-g", "1", "-bf", "0"],
        });
        runFfmpeg("-i", from, "-c", "copy", "-t", "1", `file:${file}`);
      },
    ],
    ["WebM", "a.webm", (file) => makeClip(file, { colors: [red(30), ["lime", 1]], codec: ["-c:v", "libvpx"] })],
    [
      "HEVC",
      "a.mp4",
      (file) =>
        makeClip(file, {
          colors: [red(30), ["lime", 1]],
          codec: ["-c:v", "libx265", "-x265-params", "log-level=none"],
        }),
    ],
    ["a name with a leading dash", "-a.mp4", (file) => makeClip(file, { colors: [red(9), ["lime", 1]] })],
    [
      "a name with spaces, a newline, a percent sign and quotes",
      "a %03d\n'b' \"c\":[0]?.mp4",
      (file) => makeClip(file, { colors: [red(9), ["lime", 1]] }),
    ],
  ];
  test.each(clips)("of %s", async (_, name, make) => {
    const folder = makeFolder();
    const file = join(folder, name);
    make(file);
    const frames = join(folder, "frames 100%d");
    mkdirSync(frames);
    const frame = await lastFrame(file, frames, { ffmpeg, signal }, io);
    expect(colorsOf(frame.path).map(nameOf)).toEqual(["lime"]);
    expect(readdirSync(frames)).toHaveLength(1);
    expect(frame).toMatchObject({ width: 160, height: 90, isNearlyOneColor: true });
    const png = readFileSync(frame.path);
    expect(frame.sha256).toBe(createHash("sha256").update(png).digest("hex"));
    // True colour, 8 bits a channel.
    expect([png[24], png[25]]).toEqual([8, 2]);
  });

  test("is at most 1,920 pixels long, with square pixels, upright, and in its colours", async () => {
    const folder = makeFolder();
    const large = makeClip(join(folder, "large.mp4"), {
      colors: [["0xC83264", 2]],
      size: "3840x2160",
      more: ["-bsf:v", "h264_metadata=sample_aspect_ratio=1"],
    });
    const tall = join(folder, "tall.mp4");
    const stored = makeClip(join(folder, "stored.mp4"), { colors: [["blue", 2]], size: "160x90" });
    runFfmpeg("-i", stored, "-c", "copy", "-metadata:s:v", "rotate=90", tall);
    const wide = makeClip(join(folder, "wide.mp4"), {
      colors: [["blue", 2]],
      size: "160x90",
      more: ["-aspect", "32:9"],
    });
    const frames = await Promise.all(
      [large, tall, wide].map((file) => lastFrame(file, folder, { ffmpeg, signal }, io)),
    );
    expect(frames.map(({ width, height }) => [width, height])).toEqual([
      [1920, 1080],
      [90, 160],
      [320, 90],
    ]);
    const [color] = colorsOf(frames[0]?.path ?? "");
    for (const [i, value] of [200, 50, 100].entries()) expect(Math.abs((color?.[i] ?? 0) - value)).toBeLessThan(4);
  });

  test("is nearly one colour after a fade, and is not in a picture or a dark scene", async () => {
    const folder = makeFolder();
    const draw = (name: string, source: string) => {
      const file = join(folder, name);
      runFfmpeg("-f", "lavfi", "-i", source, "-c:v", "libx264", "-pix_fmt", "yuv420p", file);
      return lastFrame(file, folder, { ffmpeg, signal }, io);
    };
    const frames = await Promise.all([
      draw("fade.mp4", "testsrc2=s=320x180:r=24:d=2,fade=out:0:48,noise=alls=6:allf=t"),
      draw("picture.mp4", "testsrc2=s=320x180:r=24:d=1"),
      draw("dark.mp4", "testsrc2=s=320x180:r=24:d=1,eq=brightness=-0.4:contrast=0.5"),
    ]);
    expect(frames.map(({ isNearlyOneColor }) => isNearlyOneColor)).toEqual([true, false, false]);
  });

  test("of a truncated clip cannot be taken, and leaves no file", async () => {
    const folder = makeFolder();
    const whole = readFileSync(
      makeClip(join(folder, "whole.mp4"), { colors: [["red", 48]], more: ["-movflags", "+faststart"] }),
    );
    const webm = readFileSync(
      makeClip(join(folder, "whole.webm"), { colors: [["red", 48]], codec: ["-c:v", "libvpx"] }),
    );
    const files: [string, Uint8Array][] = [
      ["cut.mp4", whole.subarray(0, whole.length - 500)],
      ["cut.webm", webm.subarray(0, webm.length - 500)],
      ["playlist.mp4", Buffer.from("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nwhole.mp4\n#EXT-X-ENDLIST\n")],
      ["list.mp4", Buffer.from("ffconcat version 1.0\nfile whole.mp4\n")],
      ["empty.mp4", Buffer.from("")],
    ];
    const frames = join(folder, "frames");
    mkdirSync(frames);
    for (const [name, bytes] of files) {
      const file = join(folder, name);
      writeFileSync(file, bytes);
      const taken = lastFrame(file, frames, { ffmpeg, signal }, io);
      await expect(taken, name).rejects.toMatchObject({
        code: "usage",
        message: expect.stringContaining("not a whole video"),
      });
    }
    await expect(lastFrame(join(folder, "none.mp4"), frames, { ffmpeg, signal }, io)).rejects.toThrow("does not exist");
    await expect(lastFrame(folder, frames, { ffmpeg, signal }, io)).rejects.toThrow("it is not a file");
    expect(readdirSync(frames)).toEqual([]);
  });

  test("is not read from other files that a playlist names: the whitelist refuses its format", async () => {
    const folder = makeFolder();
    makeClip(join(folder, "whole.mp4"));
    const list = join(folder, "list.mp4");
    writeFileSync(list, "ffconcat version 1.0\nfile whole.mp4\n");
    const read = (...input: string[]) => runProgram("ffmpeg", [...input, "-f", "null", "-"], { signal }, io);
    expect((await read("-i", list)).code).toBe(0);
    expect((await read(...inputArgs(list))).stderr).toContain("whitelist");
  });

  test.each([
    ["4.4", asOld],
    ["9", asNew],
  ])("is taken with the options of ffmpeg %s", async (_, script) => {
    const folder = makeFolder();
    const env = { ...io.env, FFMPEG_PATH: fakeFfmpeg(folder, script) };
    const fake = await requireFfmpeg({ feature: "--from", encodes: true }, { ...io, env }, signal);
    expect(fake.ffmpeg).toBe(join(folder, "ffmpeg"));
    const file = makeClip(join(folder, "a.mp4"), {
      colors: [
        ["red", 9],
        ["lime", 1],
      ],
    });
    const frame = await lastFrame(file, folder, { ffmpeg: fake, signal }, io);
    expect(colorsOf(frame.path).map(nameOf)).toEqual(["lime"]);
  });

  test("cannot be taken if ffmpeg fails half-way or the folder is read-only, and the error says why", async () => {
    const folder = makeFolder();
    const file = makeClip(join(folder, "a.mp4"));
    const env = {
      ...io.env,
      FFMPEG_PATH: fakeFfmpeg(
        makeFolder(),
        `case "$*" in *bmp*) printf 'half' > "$(eval echo \\\${$#} | sed s/^file://)"; printf 'No space\\033[31m left\\n' >&2; exit 1;; esac`,
      ),
    };
    const broken = await requireFfmpeg({ feature: "--from", encodes: false }, { ...io, env }, signal);
    const frames = join(folder, "frames");
    mkdirSync(frames);
    await expect(lastFrame(file, frames, { ffmpeg: broken, signal }, io)).rejects.toMatchObject({
      code: "output",
      message: `Cannot take the last frame of ${file}: No space left.`,
    });
    expect(readdirSync(frames)).toEqual([]);
    await expect(lastFrame(file, join(folder, "none"), { ffmpeg, signal }, io)).rejects.toMatchObject({
      code: "output",
    });
  });

  test("is taken even if a killed process has left files, which are removed after an hour", async () => {
    const folder = makeFolder();
    const file = makeClip(join(folder, "a.mp4"), { colors: [["lime", 9]] });
    const frames = join(folder, "frames");
    mkdirSync(frames);
    const unnamed = "5f56096d-0c2b-4c6e-9d0a-5a3c8f1e2b4d.png";
    for (const name of [".old.bmp", ".new.bmp", unnamed, "half.png"]) writeFileSync(join(frames, name), "half");
    const before = new Date(Date.now() - 3_700_000);
    for (const name of [".old.bmp", unnamed]) utimesSync(join(frames, name), before, before);
    const { path } = await keepLastFrame(file, frames, { ffmpeg, signal }, io);
    expect(colorsOf(path).map(nameOf)).toEqual(["lime"]);
    expect(readdirSync(frames).sort()).toEqual([".new.bmp", basename(path), "half.png"].sort());
    // What is kept is used again only while it is whole.
    writeFileSync(path, "half");
    expect((await keepLastFrame(file, frames, { ffmpeg, signal }, io)).path).toBe(path);
    expect(colorsOf(path).map(nameOf)).toEqual(["lime"]);
  });

  test("can be aborted: the program ends, and no file is left", async () => {
    const folder = makeFolder();
    const file = makeClip(join(folder, "a.mp4"));
    const pids = join(folder, "pids");
    const env = {
      ...io.env,
      FFMPEG_PATH: fakeFfmpeg(makeFolder(), `case "$*" in *bmp*) echo $$ > ${pids}; exec sleep 600;; esac`),
    };
    const slow = await requireFfmpeg({ feature: "--from", encodes: false }, { ...io, env }, signal);
    const frames = join(folder, "frames");
    mkdirSync(frames);
    const controller = new AbortController();
    const taken = lastFrame(file, frames, { ffmpeg: slow, signal: controller.signal }, io);
    taken.catch(() => {});
    await expect.poll(() => readdirSync(folder)).toContain("pids");
    await expect.poll(() => readFileSync(pids, "utf8")).toMatch(/\d\n/);
    const reason = new Error("Ctrl-C");
    controller.abort(reason);
    await expect(taken).rejects.toBe(reason);
    expect(await io.processes.startOf(Number(readFileSync(pids, "utf8")))).toBeUndefined();
    expect(readdirSync(frames)).toEqual([]);
  });
});
