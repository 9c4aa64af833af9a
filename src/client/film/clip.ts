import { usage } from "../../errors.ts";
import { isRecord, parseJson } from "../../protocol/json.ts";
import { type Ffmpeg, inputArgs, lastLine, type RunIo, runProgram } from "./ffmpeg.ts";
import { endsEarly, notWholeError } from "./whole.ts";

/** What ffprobe reports about a video. */
export type ClipFacts = {
  file: string;
  /** The index of the video stream. */
  picture: number;
  /** The index of the audio stream. */
  sound: number | undefined;
  /** The length of its sound in seconds, if the file states it. */
  soundSeconds: number | undefined;
  /** Equal in all clips whose pictures can be copied into one file. */
  kind: string;
  /** Whether its picture can be copied together with clips of the same kind. */
  isCopyable: boolean;
  frames: number;
  /** The length of its picture. */
  seconds: number;
  /** The durations of its first and last frame, in seconds. */
  firstSeconds: number;
  lastSeconds: number;
  /** The start of the picture, in seconds from the start of the file. */
  startSeconds: number;
  /** The displayed size: upright, with square pixels. */
  width: number;
  height: number;
  /** Frames per second, as ffmpeg takes it: "24" or "24000/1001". */
  rate: string;
};

type ProbeOptions = { ffmpeg: Ffmpeg; signal: AbortSignal };
type ProbeIo = RunIo;

/**
 * Reads the streams of a video and the times of its frames. Throws `usage` if it is not a video, `output`, or
 * the signal's reason.
 */
export async function readClip(file: string, options: ProbeOptions, io: ProbeIo): Promise<ClipFacts> {
  // `V:0` is the first video stream that is not a cover picture.
  const [description, packetList] = await Promise.all([
    probe(file, ["-show_streams", "-show_format", "-show_data_hash", "CRC32"], options, io),
    probe(file, ["-select_streams", "V:0", "-show_entries", "packet=pts,duration,flags"], options, io),
  ]);
  const streams = listOf(description.streams);
  // A cover picture is a video stream too.
  const isPicture = (stream: Fields) => stream.codec_type === "video" && !isAttached(stream);
  const picture = streams.find(isPicture);
  const frames = readFrames(listOf(packetList.packets), picture);
  if (picture === undefined || frames === undefined) throw usage(`${file} has no picture that ffmpeg can read.`);
  const sound = streams.find((stream) => stream.codec_type === "audio");
  const format = isRecord(description.format) ? description.format : {};
  const start = numberOf(picture.start_time) ?? 0;
  const rotation = rotationOf(picture);
  return {
    file,
    picture: Number(picture.index),
    sound: sound && Number(sound.index),
    soundSeconds: sound && numberOf(sound.duration),
    kind: JSON.stringify([...fieldsOfKind.map((name) => picture[name]), rotation]),
    // ffmpeg's list of files loses a rotation.
    isCopyable:
      String(format.format_name).startsWith("mov,") &&
      copiedCodecs.includes(String(picture.codec_name)) &&
      Number(picture.start_pts) === 0 &&
      rotation === 0 &&
      !frames.hasDiscarded &&
      Math.abs((numberOf(picture.duration) ?? 0) - frames.seconds) < frames.seconds / frames.count / 2,
    frames: frames.count,
    seconds: frames.seconds,
    firstSeconds: frames.firstSeconds,
    lastSeconds: frames.lastSeconds,
    startSeconds: Math.max(0, start - (numberOf(format.start_time) ?? start)),
    ...shownSize(picture, rotation),
    rate: rateOf(picture, frames),
  };
}

/** The common video codecs that an .mp4 can contain. */
const copiedCodecs = ["h264", "hevc", "av1", "vp9", "mpeg4"];

/** The fields of ffprobe that must be equal for clips to be of one kind. */
const fieldsOfKind = [
  ...["index", "codec_name", "profile", "level", "width", "height", "pix_fmt", "sample_aspect_ratio", "time_base"],
  ...["r_frame_rate", "field_order", "color_range", "color_space", "color_transfer", "color_primaries"],
  "extradata_hash",
];

type Fields = Record<string, unknown>;

async function probe(file: string, args: string[], { ffmpeg, signal }: ProbeOptions, io: ProbeIo): Promise<Fields> {
  const allArgs = ["-hide_banner", "-v", "error", ...args, "-of", "json", ...inputArgs(file)];
  const result = await runProgram(ffmpeg.ffprobe, allArgs, { signal }, io);
  if (endsEarly(result)) throw notWholeError(file, lastLine(result));
  const fields = parseJson(result.stdout);
  if (result.code !== 0 || !isRecord(fields)) throw usage(`${file} cannot be read as a video: ${lastLine(result)}.`);
  return fields;
}

type Frames = { count: number; seconds: number; firstSeconds: number; lastSeconds: number; hasDiscarded: boolean };

/** Sums up the packets of a picture; each is one frame. `undefined` without packets. */
function readFrames(packets: Fields[], picture: Fields | undefined): Frames | undefined {
  const tick = ratio(picture?.time_base);
  // "D" marks a packet that a player discards, as an edit list may say.
  const shownPackets = packets.filter(({ flags }) => !String(flags).includes("D"));
  // Sorted, since packets are in decoding order.
  const times = shownPackets.map(({ pts }) => Number(pts)).sort((a, b) => a - b);
  const [first, last] = [times[0], times.at(-1)];
  if (tick === undefined || first === undefined || last === undefined || times.some(Number.isNaN)) return undefined;
  const duration = shownPackets.find(({ pts }) => Number(pts) === last)?.duration;
  const defaultDuration = 1 / (ratio(picture?.avg_frame_rate) ?? 25) / tick;
  const end = last + (numberOf(duration) ?? defaultDuration);
  return {
    count: times.length,
    seconds: (end - first) * tick,
    firstSeconds: ((times[1] ?? end) - first) * tick,
    lastSeconds: (end - last) * tick,
    hasDiscarded: shownPackets.length < packets.length,
  };
}

/** A variable rate is replaced by a constant rate that keeps all frames, up to this maximum. */
const maxRate = 60;

function rateOf({ r_frame_rate: rate }: Fields, { count, seconds }: Frames): string {
  const exact = ratio(rate);
  if (exact !== undefined && exact <= maxRate) return String(rate);
  return String(Math.min(maxRate, Math.max(1, Math.round(count / seconds))));
}

function shownSize({ width, height, sample_aspect_ratio: sar }: Fields, rotation: number) {
  const square = { width: Number(width) * (ratio(sar) ?? 1), height: Number(height) };
  return rotation % 180 === 0 ? square : { width: square.height, height: square.width };
}

/** In degrees; earlier versions of ffprobe report it in the tags. */
function rotationOf({ side_data_list: list, tags }: Fields): number {
  const rotationData = listOf(list).find(({ rotation }) => rotation !== undefined)?.rotation;
  return numberOf(rotationData ?? (isRecord(tags) ? tags.rotate : undefined)) ?? 0;
}

function isAttached({ disposition }: Fields): boolean {
  return isRecord(disposition) && disposition.attached_pic === 1;
}

/** A fraction such as "24000/1001" or "1:1"; `undefined` for "0/0". */
export function ratio(text: unknown): number | undefined {
  const [numerator, denominator = "1"] = String(text).split(/[/:]/);
  const value = Number(numerator) / Number(denominator);
  return Number.isFinite(value) && value > 0 ? value : undefined;
}

function numberOf(value: unknown): number | undefined {
  const number = Number(value ?? Number.NaN);
  return Number.isNaN(number) ? undefined : number;
}

function listOf(value: unknown): Fields[] {
  return Array.isArray(value) ? value.filter(isRecord) : [];
}
