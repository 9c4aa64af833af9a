import { join } from "node:path";
import process from "node:process";
import { expect, test } from "vitest";
import { requireFfmpeg } from "../../../src/client/film/ffmpeg.ts";
import { systemMachine } from "../../../src/io.ts";
import { makeFolder } from "../../folder.ts";

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

test("something else under its name is not taken for it", async () => {
  const io = { ...systemMachine, env: { FFMPEG_PATH: process.execPath } };
  await expect(requireFfmpeg({ feature: "--from", encodes: false }, io, signal)).rejects.toMatchObject({
    hint: expect.stringContaining(`${process.execPath} is not a usable ffmpeg`),
  });
});
