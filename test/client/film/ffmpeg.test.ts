import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { expect, test } from "vitest";
import { requireFfmpeg, runProgram } from "../../../src/client/film/ffmpeg.ts";
import { type Io, type RunProgramOptions, systemMachine } from "../../../src/io.ts";
import { makeFolder } from "../../folder.ts";
import { lacks } from "../../needs.ts";

const { signal } = new AbortController();

test.each([
  ["PATH", "nowhere", "it was not found"],
  ["FFMPEG_PATH", "nowhere", "it was not found"],
])("without ffmpeg by %s, the error says that nothing was sent, and how to install it", async (name, at, reason) => {
  const io = { ...systemMachine, env: { PATH: "/nowhere", [name]: join(makeFolder(), at) } };
  await expect(requireFfmpeg({ feature: "--from", encodes: false }, io, signal)).rejects.toMatchObject({
    code: "usage",
    message:
      "--from needs ffmpeg: apt install ffmpeg, brew install ffmpeg, winget install ffmpeg. Nothing was sent, nothing was charged.",
    hint: expect.stringContaining(reason),
  });
});

test("an ffmpeg without libx264 is enough for frames, and not for films", async () => {
  const run = async () => ({ code: 0, stdout: "", stderr: "ffmpeg version 6.0 Copyright" });
  const io = { ...systemMachine, env: {}, run };
  const found = await requireFfmpeg({ feature: "--from", encodes: false }, io, signal);
  expect(found).toEqual({ ffmpeg: "ffmpeg", ffprobe: "ffprobe", version: "6.0", hasX264: false });
  await expect(requireFfmpeg({ feature: "--join", encodes: true }, io, signal)).rejects.toMatchObject({
    code: "usage",
    message: expect.stringMatching(/^--join needs an ffmpeg with libx264.* Nothing was sent/),
  });
});

test("another program with its name is not used", async () => {
  const io = { ...systemMachine, env: { FFMPEG_PATH: process.execPath } };
  await expect(requireFfmpeg({ feature: "--from", encodes: false }, io, signal)).rejects.toMatchObject({
    hint: expect.stringContaining(`${process.execPath} is not a usable ffmpeg`),
  });
});

/** A machine on which a minute passes in 60 ms of nothing, and a program that does `each` whenever it is looked at. */
function createHanging(each: (options: RunProgramOptions, look: number) => boolean) {
  let look = 0;
  let told: RunProgramOptions | undefined;
  let end = () => {};
  const run: Io["run"] = (_, __, options) =>
    new Promise((resolve, reject) => {
      told = options;
      options.signal.addEventListener("abort", () => reject(options.signal.reason), { once: true });
      end = () => resolve({ code: 0, stdout: "", stderr: "" });
      options.onStderr?.("[mp4] a warning\nframe 7 is strange\n");
    });
  const limit: Io["limit"] = (ms, parent, reason) => {
    setImmediate(() => told && (each(told, ++look) ? end() : undefined));
    return systemMachine.limit(ms / 1000, parent, reason);
  };
  return { ...systemMachine, env: {}, run, limit, looks: () => look };
}

test.each<[string, (options: RunProgramOptions, look: number) => void]>([
  ["says nothing", () => {}],
  [
    "repeats the same progress",
    ({ onStdout }, look) =>
      onStdout?.(`frame=7\nfps=${look}\nout_time_us=280000\nspeed=0.${look}x\nprogress=continue\n`),
  ],
])("an ffmpeg that hangs and %s is ended, with its last line", async (_, each) => {
  const io = createHanging((options, look) => {
    each(options, look);
    return false;
  });
  await expect(runProgram("ffmpeg", [], { signal }, io)).rejects.toMatchObject({
    code: "output",
    message: "ffmpeg made no progress for 60 s and was ended: frame 7 is strange.",
  });
  await expect(requireFfmpeg({ feature: "--from", encodes: false }, io, signal)).rejects.toMatchObject({
    hint: expect.stringContaining("made no progress for 60 s"),
  });
});

test("an ffmpeg that makes progress, by its output or by the growing file, is not stopped", async () => {
  const says = createHanging(({ onStdout }, look) => {
    onStdout?.(`frame=${look}\nspeed=`);
    onStdout?.("1x\n");
    return look === 20;
  });
  expect(await runProgram("ffmpeg", [], { signal }, says)).toMatchObject({ code: 0 });
  const output = join(makeFolder(), "film.part");
  const writes = createHanging((_, look) => {
    writeFileSync(output, "x".repeat(look));
    return look === 20;
  });
  expect(await runProgram("ffmpeg", [], { signal, output }, writes)).toMatchObject({ code: 0 });
});

test.skipIf(lacks("sh"))(
  "a stopped program is gone at once, even if a child process keeps its pipes open",
  async () => {
    const controller = new AbortController();
    const late = join(makeFolder(), "late");
    const script = `echo up; (sleep 3; echo late > "${late}"); :`;
    const onStdout = () => controller.abort(new Error("stop"));
    const running = systemMachine.run("/bin/sh", ["-c", script], {
      signal: controller.signal,
      env: process.env,
      onStdout,
    });
    await expect(running).rejects.toThrow("stop");
    expect(existsSync(late)).toBe(false);
  },
);
