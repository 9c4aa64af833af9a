import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Io } from "../../../../src/io.ts";
import { createComfyUiEngine } from "../../../../src/server/engines/comfyui/comfyui.ts";
import { readWorkflow } from "../../../../src/server/engines/comfyui/workflow.ts";
import { createVirtualClock } from "../../../clock.ts";
import { makeFolder } from "../../../folder.ts";
import { ioFetch } from "../videos/fakes/fake.ts";
import { createTestEngine, engineUrl, type MakeOptions, timeoutMs } from "../videos/run.ts";
import { type ComfyUiOptions, createComfyUi } from "./fake.ts";

/** A small workflow in API format, with further inputs. */
export function workflow(inputs: object = {}, nodes: object = {}) {
  return {
    "3": { class_type: "KSampler", inputs: { seed: "{{seed}}", steps: 20, positive: ["6", 0] } },
    "6": {
      class_type: "CLIPTextEncode",
      inputs: { text: "{{prompt}}, cinematic", ...inputs },
      _meta: { title: "Prompt" },
    },
    "9": { class_type: "SaveVideo", inputs: { filename_prefix: "video/fox" } },
    ...nodes,
  };
}

export const withImage = workflow({}, { "10": { class_type: "LoadImage", inputs: { image: "{{image}}" } } });

/** Writes a file of this content, or of this JSON, and returns its path. */
export function writeWorkflow(content: unknown): string {
  const folder = makeFolder();
  const file = join(folder, "wan.json");
  writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content));
  return file;
}

export type StartOptions = ComfyUiOptions & {
  graph?: unknown;
  engineKey?: string;
  /** Ends each connection of its WebSocket after so long. */
  socketMs?: number;
};

/** The engine over a fake, on a virtual clock. */
export async function start({ graph = workflow(), engineKey, socketMs, ...options }: StartOptions = {}) {
  const clock = createVirtualClock();
  const fake = createComfyUi({ now: clock.now, ...options });
  const opened: string[] = [];
  const readSocket: NonNullable<Io["readSocket"]> = async (url, { signal, onText }) => {
    opened.push(url);
    const close = fake.connect(url, onText);
    const cut = clock.doze(socketMs ?? Number.POSITIVE_INFINITY, signal).catch(() => {});
    await cut.finally(close);
  };
  const read = readWorkflow(writeWorkflow(graph), ["wan-2.5"]);
  const settings = {
    url: engineUrl,
    key: engineKey,
    upstreamModel: "wan.json",
    timeoutMs,
    runningPatienceMs: 24 * 3_600_000,
    models: ["wan-2.5"],
    concurrency: 16,
  };
  const engine = await createTestEngine(ioFetch(fake), {
    clock,
    create: (io, onNote) => createComfyUiEngine({ ...settings, workflow: read, onNote }, { ...io, readSocket }),
  });
  /** A request that leaves open what it can. */
  const make = (made: MakeOptions = {}) => engine.make({ unset: ["aspectRatio", "duration", "resolution"], ...made });
  return { ...engine, make, fake, opened, id: "2a1b2c3d-0000-4000-8000-000000000000" };
}
