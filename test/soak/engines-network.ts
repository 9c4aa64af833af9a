import { unlessAborted } from "../../src/abort.ts";
import type { Clock, FetchInit, HttpResponse, Io } from "../../src/io.ts";
import type { kinds } from "../../src/server/engines/videos/kinds.ts";
import type { Random } from "../faults/random.ts";
import { tinyMp4 } from "../mp4.ts";
import { type Fake, ioFetch, type Job, refusedConnection } from "../server/engines/videos/fakes/fake.ts";
import { createLiteLlm } from "../server/engines/videos/fakes/litellm.ts";
import { createOpenRouter } from "../server/engines/videos/fakes/openrouter.ts";
import { createSglang, type SglangOptions } from "../server/engines/videos/fakes/sglang.ts";
import { createTensorRtLlm } from "../server/engines/videos/fakes/tensorrt-llm.ts";
import { createVllmOmni } from "../server/engines/videos/fakes/vllm-omni.ts";
import { bucket, envoy, promptPattern, type Trouble } from "./engines-faults.ts";
import { createComfyUiFake, operationOf } from "./engines-others.ts";

/** The model that every engine of these proofs serves. */
export const model = "wan-2.5";

/** The kinds of `/v1/videos` that others have written, and those of other protocols. A service before another one has a goal of its own. */
export type KindId = Exclude<(typeof kinds)[number]["id"], "vidgen"> | "ai-sdk" | "comfyui";

/** The fakes, for the options that all of them take; the bucket is SGLang's alone. */
export const fakes: Record<KindId, (options: Omit<SglangOptions, "model">) => Fake> = {
  "vllm-omni": createVllmOmni,
  sglang: createSglang,
  fastvideo: (options) => createSglang({ ...options, owner: "fastvideo" }),
  "tensorrt-llm": createTensorRtLlm,
  litellm: (options) => createLiteLlm({ ...options, models: [model] }),
  openrouter: createOpenRouter,
  "ai-sdk": createSglang,
  comfyui: createComfyUiFake,
};

export const kindIds = Object.keys(fakes) as KindId[];

/** Whether an engine of a kind charges for its jobs. */
export function isPaid(kind: KindId): boolean {
  return kind === "openrouter" || kind === "ai-sdk";
}

/**
 * A create that went out, as the network saw it: "unclear" unless the service got the whole reply, and that tells a job or refuses the
 * request. `repliedAtMs` is when a reply that tells a job came back, whether or not the service still wanted it.
 */
export type Sent = {
  prompt: string;
  outcome: "refused" | "unclear" | "answered";
  sentAtMs: number;
  repliedAtMs?: number;
};

/** An engine with the network before it, as one run knows them. */
export type Network = {
  fetch: Io["fetch"];
  fake: Fake;
  /** All jobs that there ever were, by what a checkpoint calls them. */
  jobs: Map<string, Job>;
  sent: Sent[];
  forget(): void;
};

export type NetworkOptions = { clock: Pick<Clock, "now" | "date" | "sleep">; random: Random; trouble: Trouble };

/** Puts a fake of a kind behind a network that has its troubles. */
export function createNetwork(kind: KindId, { clock, random, trouble }: NetworkOptions): Network {
  const jobs = new Map<string, Job>();
  const sent: Sent[] = [];
  const note = () => {
    for (const [id, job] of fake.jobs) jobs.set(kind === "ai-sdk" ? operationOf(id) : id, job);
  };
  const fake = fakes[kind]({
    now: () => clock.date().getTime(),
    completeAfterMs: random.between(0, 60_000),
    video: videoOf,
    ...(kind === "sglang" && random.next() < 0.5 && { bucket }),
    async fault(call) {
      note();
      if (call.route === "poll") trouble.onPoll?.(fake);
      return trouble.fault?.(call);
    },
  });
  const forget = () => {
    note();
    fake.forget();
  };
  /** The way there and back takes seconds. */
  const create = async (url: string, { signal: _, ...init }: FetchInit, entry: Sent) => {
    await clock.sleep(random.between(0, 3_000));
    const reply = await fake.fetch(new Request(url, init));
    const text = await reply
      .clone()
      .text()
      .catch(() => "");
    await clock.sleep(random.between(0, 3_000));
    if (isJob(reply, text)) entry.repliedAtMs = clock.now();
    return reply;
  };
  const fetch: Io["fetch"] = async (url, init = {}) => {
    if (trouble.isUnreachable?.()) throw refusedConnection();
    if (init.method !== "POST") return ioFetch(fake)(url, init);
    const entry: Sent = {
      prompt: promptIn(Buffer.from(init.body as string).toString()),
      outcome: "unclear",
      sentAtMs: clock.now(),
    };
    sent.push(entry);
    const replying = create(url, init, entry);
    const reply = await (init.signal ? unlessAborted(replying, init.signal) : replying);
    note();
    const onEnd = (text: string) => {
      const isRefused = reply.status === 503 || (reply.status >= 400 && reply.status < 500 && reply.status !== 408);
      if (isJob(reply, text)) entry.outcome = "answered";
      else if (isRefused && text !== envoy) entry.outcome = "refused";
    };
    return { ...readable(reply), body: watchBody(reply, onEnd) };
  };
  return { fetch, fake, jobs, sent, forget };
}

function isJob({ status }: Pick<HttpResponse, "status">, text: string): boolean {
  return status < 300 && /"(id|prompt_id)"/.test(text);
}

/** Every job has a video of its own. */
export function videoOf({ id }: Pick<Job, "id">): Uint8Array {
  return tinyMp4(`${id} `.repeat(40));
}

export function promptIn(text: string): string {
  return promptPattern.exec(text)?.[0] ?? "";
}

/** A reply without its body; a Response's own properties cannot be spread. */
export function readable(reply: HttpResponse): Pick<HttpResponse, "status" | "headers" | "text"> {
  return { status: reply.status, headers: reply.headers, text: () => reply.text() };
}

async function* watchBody({ body }: HttpResponse, onEnd: (text: string) => void): AsyncGenerator<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body ?? []) {
    chunks.push(chunk);
    yield chunk;
  }
  onEnd(Buffer.concat(chunks).toString());
}
