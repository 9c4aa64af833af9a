import { execFileSync } from "node:child_process";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { type Machine, systemMachine } from "../../../src/io.ts";

export const io = { ...systemMachine, env: process.env };

const answers = new Map<string, ReturnType<Machine["run"]>>();

/** Runs a program for real, but asks it only once what it can do: ffmpeg takes longer to start than to cut a small clip. */
export const run: Machine["run"] = async (command, args, { onStdout, ...options }) => {
  if (!["-encoders", "-version"].includes(args.join()))
    return systemMachine.run(command, args, onStdout ? { ...options, onStdout } : options);
  const question = `${command} ${args}`;
  const asked = answers.get(question) ?? systemMachine.run(command, args, options);
  answers.set(question, asked);
  const answer = await asked;
  onStdout?.(answer.stdout);
  return answer;
};

const made = new Map<string, Buffer>();

type ClipOptions = {
  /** The picture: for each of these colours, in order, how many frames it has. */
  colors?: [color: string, frames: number][];
  rate?: string;
  size?: string;
  /** The frequency and the seconds of its sound; without it, it is silent. */
  sound?: { hz: number; seconds: number };
  codec?: string[];
  /** Further arguments for the output. */
  more?: string[];
};

/** Makes a clip of plain colours with ffmpeg itself, the same one only once. */
export function makeClip(file: string, options: ClipOptions = {}): string {
  const kind = JSON.stringify([options, file.slice(file.lastIndexOf("."))]);
  const known = made.get(kind);
  if (known) {
    writeFileSync(file, known);
    return file;
  }
  const { colors = [["red", 24]], rate = "24", size = "160x90", sound } = options;
  const { codec = ["-c:v", "libx264", "-pix_fmt", "yuv420p"], more = [] } = options;
  const parts = colors.map(
    ([color, frames], i) => `color=c=${color}:s=${size}:r=${rate},trim=end_frame=${frames}[c${i}]`,
  );
  const picture = `${parts.join(";")};${colors.map((_, i) => `[c${i}]`).join("")}concat=n=${colors.length}[v]`;
  const graph = sound ? `${picture};sine=f=${sound.hz}:r=44100:d=${sound.seconds}[a]` : picture;
  const maps = ["-map", "[v]", ...(sound ? ["-map", "[a]"] : [])];
  ffmpeg("-filter_complex", graph, ...maps, "-r", rate, ...codec, ...more, `file:${file}`);
  made.set(kind, readFileSync(file));
  return file;
}

export function ffmpeg(...args: string[]): Buffer {
  return execFileSync("ffmpeg", ["-nostdin", "-v", "error", "-y", ...args], { maxBuffer: 100_000_000 });
}

/** The mean colour of each frame of a video or a picture, as ffmpeg decodes it. */
export function colorsOf(file: string): number[][] {
  // Read as a file, the name of a picture would be taken for a pattern.
  const input = file.endsWith(".png") ? ["-f", "png_pipe"] : [];
  const output = ["-vf", "scale=1:1:flags=area", "-pix_fmt", "rgb24", "-f", "rawvideo", "pipe:1"];
  const bytes = ffmpeg(...input, "-i", `file:${file}`, ...output);
  return Array.from({ length: bytes.length / 3 }, (_, i) => [...bytes.subarray(3 * i, 3 * i + 3)]);
}

const names: Record<string, number[]> = {
  red: [255, 0, 0],
  lime: [0, 255, 0],
  blue: [0, 0, 255],
  yellow: [255, 255, 0],
  white: [255, 255, 255],
  black: [0, 0, 0],
};

/** The name of the nearest of these colours. */
export function nameOf(color: number[]): string {
  const distance = (other: number[]) =>
    other.reduce((sum, value, i) => sum + Math.abs(value - (color[i] as number)), 0);
  return Object.entries(names).sort(([, a], [, b]) => distance(a) - distance(b))[0]?.[0] ?? "";
}

/** The colours of a film in order, each with its number of frames. */
export function runsOf(file: string): [string, number][] {
  const runs: [string, number][] = [];
  for (const name of colorsOf(file).map(nameOf)) {
    const last = runs.at(-1);
    if (last?.[0] === name) last[1]++;
    else runs.push([name, 1]);
  }
  return runs;
}

/** The frequency of a tone at each of these seconds, in steps of 100 Hz; 0 for silence. */
export function tonesOf(file: string, seconds: number[]): number[] {
  const rate = 8_000;
  const bytes = ffmpeg("-i", `file:${file}`, "-map", "0:a", "-ac", "1", "-ar", String(rate), "-f", "s16le", "pipe:1");
  return seconds.map((second) => {
    const from = Math.round(second * rate) * 2;
    const samples = Array.from({ length: rate / 20 }, (_, i) => bytes.readInt16LE(from + 2 * i));
    if (samples.every((sample) => Math.abs(sample) < 200)) return 0;
    const crossings = samples.filter((sample, i) => i > 0 && sample >= 0 !== (samples[i - 1] as number) >= 0).length;
    return Math.round((crossings * 10) / 100) * 100;
  });
}

/** A program that passes its arguments on to the real ffmpeg and ffprobe after `script`, in a folder for FFMPEG_PATH. */
export function fakeFfmpeg(folder: string, script: string): string {
  for (const name of ["ffmpeg", "ffprobe"]) {
    const path = join(folder, name);
    const before = name === "ffmpeg" ? script : "";
    writeFileSync(path, `#!/bin/sh\n${before}\nexec ${name} "$@"\n`);
    chmodSync(path, 0o755);
  }
  return folder;
}

/** What an ffmpeg of version 4.4 says of options that came later. */
export const asOld = `for word; do
  case "$word" in -fps_mode|-fps_mode:*) echo "Unrecognized option '\${word#-}'." >&2; exit 1;; esac
done`;
/** What one of version 9 says of options that are gone. */
export const asNew = `for word; do
  case "$word" in -vsync|-filter_complex_script) echo "Unrecognized option '\${word#-}'." >&2; exit 1;; esac
done`;
