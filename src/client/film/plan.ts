import { resolve } from "node:path";
import { type ClipFacts, ratio } from "./clip.ts";
import { inputArgs, listArgs } from "./ffmpeg.ts";

/** The arguments of ffmpeg for a film, and the expected properties of the film. */
export type FilmPlan = {
  copied: boolean;
  frames: number;
  seconds: number;
  /** The positions of the clips whose first frame is left out. */
  dropped: number[];
  hasSound: boolean;
  /** Frames per second. */
  rate: number;
  /** The inputs, the filters and the codecs. */
  args: string[];
  stdin?: string;
};

/**
 * Plans a film with copied pictures; `undefined` if they cannot be copied, since ffmpeg would exit with 0 and
 * write a broken film.
 */
export function planCopy(clips: readonly ClipFacts[]): FilmPlan | undefined {
  const [first] = clips;
  // The list of files has one name per line.
  const isSame = (clip: ClipFacts) => clip.isCopyable && clip.kind === first?.kind && !/[\r\n]/.test(clip.file);
  if (!first || !clips.every(isSame)) return undefined;
  const isList = clips.length > 1;
  const sound = planSound(
    clips.map((clip) => ({ clip, from: 0, seconds: clip.seconds })),
    isList ? 1 : 0,
  );
  return {
    copied: true,
    frames: sum(clips.map(({ frames }) => frames)),
    seconds: sum(clips.map(({ seconds }) => seconds)),
    dropped: [],
    hasSound: sound !== undefined,
    rate: ratio(first.rate) ?? 1,
    args: [
      // The times are correct; otherwise ffmpeg would shift the picture by the padding of unused sound.
      "-copyts",
      ...(isList ? listArgs : []),
      ...clips.flatMap(({ file }) => inputArgs(file)),
      ...(sound ? ["-filter_complex", sound.filters.join(";")] : []),
      ...["-map", `0:${first.picture}`, "-c:v", "copy", ...(sound?.output ?? [])],
    ],
    ...(isList && { stdin: concatList(clips) }),
  };
}

/**
 * The list for ffmpeg's concat demuxer. The durations keep a sound that is longer than its picture from
 * delaying the next clip.
 */
function concatList(clips: readonly ClipFacts[]): string {
  const entries = clips.map(({ file, seconds }) => {
    const name = `file:${resolve(file)}`.replaceAll("'", "'\\''");
    return `file '${name}'\nduration ${seconds.toFixed(6)}\n`;
  });
  return `ffconcat version 1.0\n${entries.join("")}`;
}

/** Plans a film with all pictures at the largest size, with bars if the aspect ratio differs, and at the highest rate. */
export function planEncoding(clips: readonly { clip: ClipFacts; isContinued: boolean }[]): FilmPlan {
  const largest = clips.map(({ clip }) => clip).reduce((a, b) => (b.width * b.height > a.width * a.height ? b : a));
  const rates = clips.map(({ clip }) => clip.rate);
  const rate = rates.reduce((a, b) => ((ratio(b) ?? 0) > (ratio(a) ?? 0) ? b : a));
  const perSecond = ratio(rate) ?? 25;
  const shots = clips.map(({ clip, isContinued }, i) => {
    const isDropped = isContinued && i > 0 && clip.frames > 1;
    const from = isDropped ? clip.firstSeconds : 0;
    const frames = Math.max(1, Math.round((clip.seconds - from) * perSecond));
    return { clip, isDropped, from: clip.startSeconds + from, frames, seconds: frames / perSecond };
  });
  const scale = scaleTo(toEven(largest.width), toEven(largest.height));
  const pictures = shots.map(({ clip, isDropped, frames }, i) => {
    const start = isDropped ? "trim=start_frame=1,setpts=PTS-STARTPTS," : "";
    // With a variable rate, the filter `fps` drops the duration of the last frame, so the last frame is repeated.
    const last = Math.ceil(clip.lastSeconds * perSecond) + 1;
    const exactLength = `tpad=stop=${last}:stop_mode=clone,trim=end_frame=${frames}`;
    return `[${i}:${clip.picture}]setpts=PTS-STARTPTS,${start}fps=${rate},${scale},${exactLength}[v${i}]`;
  });
  const sound = planSound(shots, 0);
  const filters = [...pictures, ...concat("v", shots.length, "v=1:a=0"), ...(sound?.filters ?? [])];
  return {
    copied: false,
    frames: sum(shots.map(({ frames }) => frames)),
    seconds: sum(shots.map(({ seconds }) => seconds)),
    dropped: shots.flatMap(({ isDropped }, i) => (isDropped ? [i] : [])),
    hasSound: sound !== undefined,
    rate: perSecond,
    args: [
      ...clips.flatMap(({ clip }) => inputArgs(clip.file)),
      ...["-filter_complex", filters.join(";"), "-map", outputOf("v", shots.length), "-c:v", "libx264", "-crf", "18"],
      ...["-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv"],
      ...(sound?.output ?? []),
    ],
  };
}

/** yuv420p needs even sides. */
function toEven(side: number): number {
  return Math.max(2, 2 * Math.round(side / 2));
}

function scaleTo(width: number, height: number): string {
  const fit = "force_original_aspect_ratio=decrease:force_divisible_by=2:out_color_matrix=bt709:out_range=tv";
  const square = "scale='trunc(iw*sar/2)*2':ih,setsar=1";
  return `${square},scale=${width}:${height}:${fit},pad=${width}:${height}:-1:-1,setsar=1,format=yuv420p`;
}

/** A part of a clip's sound: its start and the length of the picture, in seconds. */
type SoundPart = { clip: ClipFacts; from: number; seconds: number };

/**
 * The sound of each clip, cut or padded to the length of its picture; copied sound would drift by each clip's
 * padding. `undefined` if all are silent.
 */
function planSound(
  shots: readonly SoundPart[],
  firstInput: number,
): { filters: string[]; output: string[] } | undefined {
  if (shots.every(({ clip }) => clip.sound === undefined)) return undefined;
  const layout = "aformat=sample_fmts=fltp:channel_layouts=stereo";
  const sounds = shots.map(({ clip, from, seconds }, i) => {
    const end = `atrim=end=${seconds.toFixed(6)}[a${i}]`;
    if (clip.sound === undefined) return `anullsrc=r=48000:cl=stereo,${layout},${end}`;
    const start = from > 0 ? `atrim=start=${from.toFixed(6)},asetpts=PTS-STARTPTS,` : "";
    return `[${firstInput + i}:${clip.sound}]aresample=48000:async=1:first_pts=0,${layout},${start}apad,${end}`;
  });
  return {
    filters: [...sounds, ...concat("a", shots.length, "v=0:a=1")],
    output: ["-map", outputOf("a", shots.length), "-c:a", "aac", "-b:a", "192k"],
  };
}

/** ffmpeg's concat filter needs at least two inputs. */
function concat(label: "v" | "a", count: number, kind: string): string[] {
  const inputs = Array.from({ length: count }, (_, i) => `[${label}${i}]`);
  return count === 1 ? [] : [`${inputs.join("")}concat=n=${count}:${kind}[${label}]`];
}

function outputOf(label: "v" | "a", count: number): string {
  return count === 1 ? `[${label}0]` : `[${label}]`;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
