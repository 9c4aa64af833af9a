import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock, Io } from "../../../../src/io.ts";
import type { Engine, ImageFile, RenderOptions, RenderOutcome } from "../../../../src/server/engines/engine.ts";
import { kinds } from "../../../../src/server/engines/videos/kinds.ts";
import type { ServerIo } from "../../../../src/server/engines/videos/server.ts";
import { createVideosEngine } from "../../../../src/server/engines/videos/videos.ts";
import type { Open } from "../../../../src/server/outbound/outbound.ts";
import type { RenderRequest } from "../../../../src/server/store/generations.ts";
import { createVirtualClock } from "../../../clock.ts";
import { makeFolder } from "../../../folder.ts";
import type { FakeOptions } from "./fakes/fake.ts";
import { createLiteLlm } from "./fakes/litellm.ts";
import { createOpenRouter } from "./fakes/openrouter.ts";
import { createSglang } from "./fakes/sglang.ts";
import { createTensorRtLlm } from "./fakes/tensorrt-llm.ts";
import { createVllmOmni } from "./fakes/vllm-omni.ts";

export const engineUrl = "http://gpu.test:8091";
export const timeoutMs = 30 * 60_000;

/** The fake of each kind. */
export const fakes = {
  "vllm-omni": createVllmOmni,
  sglang: createSglang,
  fastvideo: (options: FakeOptions) => createSglang({ ...options, owner: "fastvideo" }),
  "tensorrt-llm": createTensorRtLlm,
  litellm: (options: FakeOptions) => createLiteLlm({ ...options, models: ["wan-2.5"] }),
  openrouter: createOpenRouter,
};
export const kindIds = Object.keys(fakes) as (keyof typeof fakes)[];

export type EngineOptions = {
  clock?: Clock;
  url?: string;
  kind?: keyof typeof fakes;
  key?: string;
  timeoutMs?: number;
  upstreamModel?: string;
  /** Whoever answers on other hosts. */
  open?: Open;
  /** Another engine than that of a server of `/v1/videos`. */
  create?: (io: ServerIo, onNote: (text: string) => void) => Engine;
};

export type MakeOptions = {
  id?: string;
  prompt?: string;
  model?: string;
  resolution?: RenderRequest["resolution"];
  aspectRatio?: RenderRequest["aspectRatio"];
  extras?: RenderRequest["extras"];
  unset?: RenderRequest["unset"];
  images?: ImageFile[];
  lastImage?: ImageFile;
  references?: ImageFile[];
  traceparent?: string;
  resume?: RenderOptions["resume"];
  signal?: AbortSignal;
  confirm?: RenderOptions["confirm"];
  releaseSlot?: () => void;
};

/** What came of one generation. */
export type Made = {
  /** "made", the server's refusal, "not submitted" or "unclear" with the reason, or the error's message. */
  outcome: string;
  /** The same as the queue gets it; `undefined` for an error. */
  end: RenderOutcome | undefined;
  checkpoints: (string | null)[];
  /** The drawn seed in each checkpoint. */
  drawnSeeds: (number | undefined)[];
  percents: (number | undefined)[];
  /** The percents, each with the node that it is of. */
  told: [percent: number | undefined, node: string | undefined][];
  /** What is said about the download of its video. */
  fetching: string[];
  /** The bytes that were saved; `undefined` when no file was left. */
  video: Buffer | undefined;
  /** How long it took. */
  seconds: number;
};

/** The engine as the service uses it, on a virtual clock, over a `fetch` that reaches its server. */
export async function createTestEngine(fetch: Io["fetch"], options: EngineOptions = {}) {
  const { clock = createVirtualClock(), url = engineUrl, open = refuse } = options;
  const notes: string[] = [];
  const io = { ...clock, fetch, open };
  const onNote = (text: string) => void notes.push(text);
  const server = {
    url,
    upstreamModel: options.upstreamModel,
    key: options.key,
    models: ["wan-2.5"],
    concurrency: 16,
    kind: kinds.find(({ id }) => id === options.kind),
    timeoutMs: options.timeoutMs ?? timeoutMs,
    onNote,
  };
  const engine = options.create?.(io, onNote) ?? createVideosEngine(server, io);
  const folder = makeFolder();
  let count = 0;

  async function make(made: MakeOptions = {}): Promise<Made> {
    const { model = "wan-2.5", resolution = "720p", aspectRatio = "16:9" } = made;
    const { prompt = "a fox", extras = {}, unset = [], images = [], resume, traceparent } = made;
    const {
      id = crypto.randomUUID(),
      signal = new AbortController().signal,
      confirm = () => {},
      releaseSlot = () => {},
      lastImage,
      references,
    } = made;
    const request = {
      prompt,
      model,
      aspectRatio,
      duration: 5,
      resolution,
      unset,
      extras,
      traceparent,
    };
    const file = join(folder, `${count++}.mp4`);
    const checkpoints: Made["checkpoints"] = [];
    const drawnSeeds: Made["drawnSeeds"] = [];
    const percents: Made["percents"] = [];
    const told: Made["told"] = [];
    const said: Made["fetching"] = [];
    const start = clock.now();
    let end: RenderOutcome | undefined;
    const outcome = await engine
      .render(
        { id, request, images, lastImage, references, file, thumbnail: `${file}.png` },
        {
          resume,
          signal,
          confirm,
          releaseSlot,
          progress(percent, node, fetching) {
            if (fetching !== undefined) return void said.push(fetching);
            percents.push(percent);
            told.push([percent, node]);
          },
          async checkpoint(kept) {
            checkpoints.push(kept?.state === "submitted" ? kept.job : (kept?.state ?? null));
            drawnSeeds.push(kept?.drawn_seed);
          },
        },
      )
      .then(
        (rendered) => {
          end = rendered;
          return textOf(rendered);
        },
        (error: Error) => error.message,
      );
    const video = await readFile(file).catch(() => undefined);
    return {
      outcome,
      end,
      checkpoints,
      drawnSeeds,
      percents,
      told,
      fetching: said,
      video,
      seconds: (clock.now() - start) / 1_000,
    };
  }
  return { clock, engine, notes, folder, make };
}

function textOf(outcome: RenderOutcome): string {
  if (outcome.kind === "made") return "made";
  return outcome.kind === "refused" ? outcome.error : `${outcome.kind}: ${outcome.reason}`;
}

const refuse: Open = async (address) => {
  throw Object.assign(new Error(`videos from ${new URL(address).hostname} are refused: a private address`), {
    isForbidden: true,
  });
};
