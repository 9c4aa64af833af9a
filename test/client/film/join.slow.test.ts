import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { readClip } from "../../../src/client/film/clip.ts";
import { type Ffmpeg, requireFfmpeg } from "../../../src/client/film/ffmpeg.ts";
import { type FilmClip, type JoinOptions, joinClips } from "../../../src/client/film/join.ts";
import { makeFolder } from "../../folder.ts";
import { browserPath, hasFfmpeg } from "../../needs.ts";
import { launch, openTab } from "../../server/page/browser.ts";
import { asNew, asOld, fakeFfmpeg, io, makeClip, ffmpeg as runFfmpeg, runsOf, tonesOf } from "./clips.ts";

const { signal } = new AbortController();
let ffmpeg: Ffmpeg;

type Changes = Partial<JoinOptions> & { clips?: FilmClip[] };

async function joinAll(folder: string, files: string[], { clips, ...changes }: Changes = {}) {
  const target = join(folder, "film.mp4");
  const film = await joinClips(clips ?? files.map((file) => ({ file })), target, { ffmpeg, signal, ...changes }, io);
  const facts = await readClip(film.path, { ffmpeg, signal }, io);
  return { film, facts, runs: runsOf(film.path) };
}

const page = '<link rel="icon" href="data:,"><video muted src="film.mp4"></video>';
const play = `(async () => {
  const video = document.querySelector("video");
  const ended = new Promise((resolve, reject) => {
    video.onended = resolve;
    video.onerror = () => reject(new Error(video.error.message));
  });
  await video.play();
  await ended;
  const { duration, currentTime: at, videoWidth: width } = video;
  return { duration, at, width, frames: video.getVideoPlaybackQuality().totalVideoFrames };
})()`;

async function brokenFfmpeg(script: string): Promise<Ffmpeg> {
  const env = { ...io.env, FFMPEG_PATH: fakeFfmpeg(makeFolder(), script) };
  return requireFfmpeg({ feature: "--join", encodes: true }, { ...io, env }, signal);
}

describe.skipIf(!hasFfmpeg)("a film", () => {
  beforeAll(async () => {
    ffmpeg = await requireFfmpeg({ feature: "--join", encodes: true }, io, signal);
  });

  test.skipIf(browserPath === undefined).each([
    ["copied", "160x90"],
    ["encoded", "100x100"],
  ])("plays to its end in Chromium: %s", async (how, size) => {
    const folder = makeFolder();
    const files = [
      makeClip(join(folder, "a.mp4"), { sound: { hz: 300, seconds: 1 } }),
      makeClip(join(folder, "b.mp4"), { colors: [["lime", 36]], size }),
    ];
    const { film, facts } = await joinAll(folder, files);
    expect(film.copied).toBe(how === "copied");
    const server = createServer(({ url }, reply) => {
      const [type, body] = url === "/film.mp4" ? ["video/mp4", readFileSync(film.path)] : ["text/html", page];
      reply.setHeader("Content-Type", type).end(body);
    }).listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    const browser = await launch();
    onTestFinished(() => browser.close());
    const tab = await openTab(browser, `http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    const played = (await tab.evaluate(play)) as { duration: number; at: number; frames: number; width: number };
    expect(Math.abs(played.duration - facts.seconds)).toBeLessThan(0.05);
    expect(Math.abs(played.at - played.duration)).toBeLessThan(0.05);
    expect(played.width).toBe(160);
    expect(played.frames).toBeGreaterThan(facts.frames / 2);
    expect(tab.complaints).toEqual([]);
  });

  test("of clips with the same format copies their pictures unchanged and in order, each with its own sound", async () => {
    const folder = makeFolder();
    const file = (name: string) => join(folder, name);
    const files = [
      makeClip(file("a.mp4"), { colors: [["red", 24]], sound: { hz: 300, seconds: 1.7 } }),
      makeClip(file("b.mp4"), { colors: [["lime", 36]] }),
      makeClip(file("c.mp4"), { colors: [["blue", 12]], sound: { hz: 900, seconds: 0.3 } }),
      makeClip(file("d.mp4"), { colors: [["yellow", 24]], sound: { hz: 600, seconds: 1 } }),
    ];
    const percents: number[] = [];
    const { film, facts, runs } = await joinAll(folder, files, { onProgress: (percent) => percents.push(percent) });
    expect(film).toEqual({
      path: file("film.mp4"),
      copied: true,
      frames: 96,
      seconds: 4,
      dropped: [],
      isUpToDate: false,
    });
    expect(runs).toEqual([
      ["red", 24],
      ["lime", 36],
      ["blue", 12],
      ["yellow", 24],
    ]);
    expect(facts).toMatchObject({ frames: 96, seconds: 4, startSeconds: 0 });
    expect(Math.abs((facts.soundSeconds ?? 0) - 4)).toBeLessThan(0.05);
    const tones = tonesOf(film.path, [0.5, 1.5, 2.6, 2.9, 3.5]);
    expect(tones).toEqual([300, 0, 900, 0, 600]);
    expect(percents.at(-1)).toBe(100);
    expect(percents).toEqual([...percents].sort((a, b) => a - b));
    expect(readdirSync(folder).sort()).toEqual(["a.mp4", "b.mp4", "c.mp4", "d.mp4", "film.mp4"]);
  });

  test("of clips with different formats is encoded at the largest size and the highest frame rate, and contains all of them", async () => {
    const folder = makeFolder();
    const file = (name: string) => join(folder, name);
    const hevc = ["-c:v", "libx265", "-x265-params", "log-level=none", "-pix_fmt", "yuv420p"];
    const varying = makeClip(file("from.mkv"), { colors: [["white", 30]] });
    const files = [
      makeClip(file("silent.mp4"), { colors: [["red", 24]] }),
      makeClip(file("hevc.mp4"), { colors: [["lime", 25]], rate: "25", codec: hevc, sound: { hz: 300, seconds: 3 } }),
      makeClip(file("square.mp4"), { colors: [["blue", 16]], rate: "16", size: "120x120" }),
      makeClip(file("slow.mp4"), { colors: [["yellow", 2]], rate: "1/2", sound: { hz: 600, seconds: 1 } }),
      makeClip(file("odd.webm"), {
        colors: [["red", 30]],
        rate: "30000/1001",
        size: "91x51",
        codec: ["-c:v", "libvpx"],
      }),
      file("varying.mp4"),
      file("turned.mp4"),
    ];
    const times = "setpts='if(lt(N,15),N/24,(15+(N-15)*3)/24)/TB'";
    runFfmpeg(
      "-i",
      varying,
      "-vf",
      times,
      "-vsync",
      "vfr",
      "-enc_time_base",
      "1:24000",
      "-c:v",
      "libx264",
      files[5] ?? "",
    );
    const stored = makeClip(file("stored.mp4"), { colors: [["lime", 24]] });
    runFfmpeg("-i", stored, "-c", "copy", "-metadata:s:v", "rotate=90", files[6] ?? "");
    const { film, facts, runs } = await joinAll(folder, files);
    const frames = [30, 30, 30, 120, 30, 73, 30];
    expect(film).toMatchObject({ copied: false, dropped: [], frames: frames.reduce((a, b) => a + b) });
    expect(facts).toMatchObject({ frames: film.frames, width: 160, height: 90, rate: "30000/1001" });
    expect(Math.abs((facts.soundSeconds ?? 0) - facts.seconds)).toBeLessThan(0.07);
    expect(tonesOf(film.path, [0.5, 1.5, 3.5, 5.5])).toEqual([0, 300, 600, 0]);
    const colors = ["red", "lime", "blue", "yellow", "red", "white"];
    expect(runs.slice(0, 6)).toEqual(colors.map((color, i) => [color, frames[i]]));
  });

  test("shows the frame that a continued clip begins with once when it is encoded, with its sound in step, and as it is when copied", async () => {
    const folder = makeFolder();
    const file = (name: string) => join(folder, name);
    const first = makeClip(file("a.mp4"), {
      colors: [
        ["red", 23],
        ["lime", 1],
      ],
    });
    const second = makeClip(file("b.mp4"), {
      colors: [
        ["lime", 1],
        ["blue", 23],
      ],
      sound: { hz: 300, seconds: 1 },
    });
    const other = makeClip(file("c.mp4"), {
      colors: [
        ["lime", 1],
        ["blue", 15],
      ],
      rate: "16",
      sound: { hz: 300, seconds: 1 },
    });
    const clips = (file: string) => [
      { file: first, isContinued: true },
      { file, isContinued: true },
    ];
    const copied = await joinAll(folder, [], { clips: clips(second) });
    expect(copied.film).toMatchObject({ copied: true, frames: 48, dropped: [] });
    expect(copied.runs).toEqual([
      ["red", 23],
      ["lime", 2],
      ["blue", 23],
    ]);
    const encoded = await joinAll(folder, [], { clips: clips(other), overwrite: true });
    // 15 frames of 1/16 s at 24 a second.
    expect(encoded.film).toMatchObject({ copied: false, frames: 24 + 23, dropped: [1] });
    expect(encoded.runs).toEqual([
      ["red", 23],
      ["lime", 1],
      ["blue", 23],
    ]);
  });

  test("of one clip is that clip, and clips of one frame are joined too", async () => {
    const folder = makeFolder();
    const one = makeClip(join(folder, "a.mp4"), { colors: [["red", 1]], sound: { hz: 300, seconds: 1 } });
    const alone = await joinAll(folder, [one]);
    expect(alone.film).toMatchObject({ copied: true, frames: 1 });
    const webm = makeClip(join(folder, "b.webm"), { colors: [["blue", 1]], codec: ["-c:v", "libvpx"] });
    expect((await joinAll(folder, [webm], { overwrite: true })).film).toMatchObject({ copied: false, frames: 1 });
    const many = await joinAll(folder, [one, webm, one], { overwrite: true });
    expect(many.runs).toEqual([
      ["red", 1],
      ["blue", 1],
      ["red", 1],
    ]);
  });

  test("works with names that have spaces, quotes, percent signs and newlines", async () => {
    const folder = join(makeFolder(), "it's 100%d");
    mkdirSync(folder);
    const clip = makeClip(join(folder, "-a 'b' %03d \\.mp4"));
    expect((await joinAll(folder, [clip, clip])).film).toMatchObject({ copied: true, frames: 48 });
    const newline = join(folder, "a\nfile 'b.mp4'");
    copyFileSync(clip, newline);
    expect((await joinAll(folder, [clip, newline], { overwrite: true })).film).toMatchObject({
      copied: false,
      frames: 48,
    });
  });

  test("replaces no file without --overwrite, and never a clip", async () => {
    const folder = makeFolder();
    const clip = makeClip(join(folder, "a.mp4"));
    const before = readFileSync(clip);
    const target = join(folder, "film.mp4");
    writeFileSync(target, "mine");
    const joined = joinClips([{ file: clip }], target, { ffmpeg, signal }, io);
    await expect(joined).rejects.toMatchObject({
      code: "output",
      message: expect.stringContaining(`${target} already exists`),
    });
    expect(readFileSync(target, "utf8")).toBe("mine");
    const over = joinClips([{ file: clip }], clip, { ffmpeg, signal, overwrite: true }, io);
    await expect(over).rejects.toMatchObject({ code: "usage" });
    const link = join(makeFolder(), "link");
    symlinkSync(folder, link);
    const through = joinClips([{ file: clip }], join(link, "a.mp4"), { ffmpeg, signal, overwrite: true }, io);
    await expect(through).rejects.toMatchObject({
      code: "usage",
      message: expect.stringContaining("one of the clips"),
    });
    expect(readFileSync(clip)).toEqual(before);
    const away = joinClips([{ file: clip }], join(folder, "none", "film.mp4"), { ffmpeg, signal }, io);
    await expect(away).rejects.toMatchObject({
      code: "output",
      message: expect.stringContaining("the folder does not exist"),
    });
    expect((await joinAll(folder, [clip], { overwrite: true })).film.frames).toBe(24);
  });

  test("of a truncated clip fails", async () => {
    const folder = makeFolder();
    const clip = makeClip(join(folder, "a.mp4"), { more: ["-movflags", "+faststart"] });
    const cut = join(folder, "cut.mp4");
    writeFileSync(cut, readFileSync(clip).subarray(0, -300));
    await expect(joinAll(folder, [clip, cut])).rejects.toMatchObject({
      code: "usage",
      message: expect.stringContaining(cut),
    });
    expect(readdirSync(folder).sort()).toEqual(["a.mp4", "cut.mp4"]);
  });

  const whole = `eval file=\\\${$#}; file=\${file#file:}`;
  test.each([
    [
      "fails half-way",
      `${whole}; case "$file" in *.part) echo half > "$file"; printf 'x\\033[2J\\nNo space left\\n' >&2; exit 1;; esac`,
      "ffmpeg could not join the clips: No space left.",
    ],
    [
      "is killed",
      `${whole}; case "$file" in *.part) echo half > "$file"; kill -9 $$;; esac`,
      "ffmpeg could not join the clips: it was killed.",
    ],
    [
      "writes a part and exits with 0",
      `case "$*" in *.part) set -- "$@"; exec ffmpeg -nostdin -v error -y -f lavfi -i color=red:r=24:d=1 -f mp4 "$(eval echo \\\${$#})";; esac`,
      "it has 24 frames instead of 48",
    ],
    [
      "writes nothing and exits with 0",
      `${whole}; case "$file" in *.part) : > "$file"; exit 0;; esac`,
      "it cannot be read",
    ],
    ["has a full disk", `trap '' XFSZ; case "$*" in *.part) ulimit -f 1;; esac`, "ffmpeg"],
  ])(
    "is none with an ffmpeg that %s: the target stays, no other file is left, and the error says why",
    async (_, script, reason) => {
      const folder = makeFolder();
      const clip = makeClip(join(folder, "a.mp4"), { sound: { hz: 300, seconds: 1 } });
      writeFileSync(join(folder, "film.mp4"), "mine");
      const fake = await brokenFfmpeg(script);
      const joined = joinAll(folder, [clip, clip], { ffmpeg: fake, overwrite: true });
      await expect(joined).rejects.toMatchObject({ code: "output", message: expect.stringContaining(reason) });
      expect(readdirSync(folder).sort()).toEqual(["a.mp4", "film.mp4"]);
      expect(readFileSync(join(folder, "film.mp4"), "utf8")).toBe("mine");
    },
  );

  test.each([
    ["4.4", asOld],
    ["9", asNew],
  ])("is made with the options of ffmpeg %s, copied and encoded", async (_, script) => {
    const folder = makeFolder();
    const clip = makeClip(join(folder, "a.mp4"));
    const other = makeClip(join(folder, "b.mp4"), { size: "100x100", sound: { hz: 300, seconds: 1 } });
    const fake = await brokenFfmpeg(script);
    expect((await joinAll(folder, [clip, clip], { ffmpeg: fake })).film).toMatchObject({ copied: true, frames: 48 });
    const encoded = await joinAll(folder, [clip, other], { ffmpeg: fake, overwrite: true });
    expect(encoded.film).toMatchObject({ copied: false, frames: 48 });
  });

  test("that must be encoded fails without libx264", async () => {
    const folder = makeFolder();
    const clip = makeClip(join(folder, "a.mp4"));
    const other = makeClip(join(folder, "b.mp4"), { size: "100x100" });
    const poor = { ...ffmpeg, hasX264: false };
    expect((await joinAll(folder, [clip, clip], { ffmpeg: poor })).film.copied).toBe(true);
    await expect(joinAll(folder, [clip, other], { ffmpeg: poor, overwrite: true })).rejects.toThrow("no libx264");
  });

  test("can be aborted, and begun again after a crash", async () => {
    const folder = makeFolder();
    const clip = makeClip(join(folder, "a.mp4"));
    const slow = await brokenFfmpeg(`${whole}; case "$file" in *.part) echo half > "$file"; exec sleep 600;; esac`);
    const controller = new AbortController();
    const joined = joinAll(folder, [clip, clip], { ffmpeg: slow, signal: controller.signal });
    joined.catch(() => {});
    await expect
      .poll(() => readdirSync(folder).find((name) => name.endsWith(".part")))
      .toMatch(/^film\.mp4\.[0-9a-f]{8}\.part$/);
    const part = join(folder, readdirSync(folder).find((name) => name.endsWith(".part")) ?? "");
    const both = joinAll(folder, [clip, clip]);
    await expect(both).rejects.toMatchObject({ code: "output", message: expect.stringContaining("is writing") });
    const reason = new Error("Ctrl-C");
    controller.abort(reason);
    await expect(joined).rejects.toBe(reason);
    expect(readdirSync(folder)).toEqual(["a.mp4"]);
    // As a process leaves it that is killed.
    writeFileSync(part, "half");
    expect((await joinAll(folder, [clip, clip])).film.frames).toBe(48);
    expect(existsSync(part)).toBe(false);
  });
});
