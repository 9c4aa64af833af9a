import { createCipheriv, createHash } from "node:crypto";
import type { Random } from "./random.ts";

/** A generation that the service has executed: it was charged. */
export type Generated = { id: string; prompt: string; model: string; attempt: string; createdAt: string };

/** A start request that was read to its end. */
export type StartSeen = { prompt: string; attempt: string; generated: Generated | undefined };

export type RequestSeen = { origin: string; path: string; authorization: string | undefined };

/** What the service knows for sure, against which the client's word is held. */
export type Oracle = {
  starts: StartSeen[];
  generations: Map<string, Generated>;
  requests: RequestSeen[];
  /** Writes a start down; one that is carried out is charged, every time, whatever key it bears. */
  start(request: { prompt: string; model: string; attempt: string }, executes: boolean): Generated | undefined;
  startsOf(prompt: string): readonly StartSeen[];
  /** How often something was charged for this prompt: each command has a prompt of its own. */
  chargesOf(prompt: string): number;
  /** The bytes of a generation's video; another version has the same boxes of the same sizes. */
  video(id: string, version?: number): Buffer;
  /** Whether a file is a whole video of this generation, in one version. */
  isVideo(id: string, bytes: Uint8Array): boolean;
};

const versions = 3;

export function createOracle(random: Random, videoBytes?: number): Oracle {
  const starts: StartSeen[] = [];
  const byPrompt = new Map<string, StartSeen[]>();
  const generations = new Map<string, Generated>();
  const video = (id: string, version = 0) => videoOf(id, version, videoBytes);
  return {
    starts,
    generations,
    requests: [],
    start(request, executes) {
      const generated = executes ? { ...request, id: random.uuid(), createdAt: "2026-01-01T00:00:00.000Z" } : undefined;
      if (generated) generations.set(generated.id, generated);
      const seen = { prompt: request.prompt, attempt: request.attempt, generated };
      starts.push(seen);
      byPrompt.set(request.prompt, [...(byPrompt.get(request.prompt) ?? []), seen]);
      return generated;
    },
    startsOf: (prompt) => byPrompt.get(prompt) ?? [],
    chargesOf: (prompt) => (byPrompt.get(prompt) ?? []).filter(({ generated }) => generated).length,
    video,
    isVideo: (id, bytes) =>
      Array.from({ length: versions }, (_, version) => video(id, version)).some((whole) => whole.equals(bytes)),
  };
}

/** `ftyp`, `moov`, `mdat`; 1 to 24 kB where it is not told, the length by the id alone, what is in it by the version too. */
function videoOf(id: string, version: number, videoBytes: number | undefined): Buffer {
  const key = createHash("sha256").update(id).digest();
  const length = videoBytes ?? 1_000 + (key.readUInt16LE(0) % 23_000);
  const noise = createCipheriv("aes-128-ctr", key.subarray(0, 16), Buffer.alloc(16, version));
  return Buffer.concat([
    box("ftyp", Buffer.from("isom\0\0\0\0")),
    box("moov", noise.update(Buffer.alloc(400))),
    box("mdat", noise.update(Buffer.alloc(length))),
  ]);
}

export function box(type: string, payload: Uint8Array): Buffer {
  const header = Buffer.alloc(8);
  header.writeUInt32BE(payload.length + 8);
  header.write(type, 4, "latin1");
  return Buffer.concat([header, payload]);
}
