import { RequestError } from "../../../../src/io.ts";
import { tinyMp4 } from "../../../mp4.ts";
import { json } from "../videos/fakes/fake.ts";

/** What one provider does in its own way. The replies have the shape of its documentation. */
type Provider = {
  create: RegExp;
  poll: RegExp;
  key: string;
  unauthorized(): Response;
  created(id: string): Response;
  running(id: string): Response;
  completed(id: string): Response;
  failed(id: string, error: string): Response;
};

export type Call = { route: "create" | "poll"; request: Request; serve(): Promise<Response> };

export type ProviderOptions = {
  now: () => number;
  key?: string;
  /** Where the videos are, in place of `openVideo`. */
  videoUrl?: string;
  /** Answers in place of the provider; "drop" closes the connection. Asked again for each request, with how many there were of its route. */
  fault?: (call: Call, count: number) => Response | "drop" | undefined | Promise<Response | "drop" | undefined>;
};

type Job = { input: Record<string, unknown>; createdAt: number; failure?: string };

const completeAfterMs = 60_000;

function createProvider(provider: Provider, { now, key, fault }: ProviderOptions) {
  const jobs = new Map<string, Job>();
  const creates: { url: string; headers: Headers; input: Record<string, unknown> }[] = [];
  const counts = { create: 0, poll: 0 };

  async function serve(request: Request, route: Call["route"]): Promise<Response> {
    if (key !== undefined && request.headers.get("Authorization") !== `${provider.key} ${key}`)
      return provider.unauthorized();
    if (route === "create") {
      const body = (await request.json()) as Job["input"];
      const input = (body.input ?? body) as Job["input"];
      creates.push({ url: request.url, headers: request.headers, input });
      const id = `job${creates.length}`;
      jobs.set(id, { input, createdAt: now() });
      return provider.created(id);
    }
    const id = provider.poll.exec(request.url)?.[1] ?? "";
    const job = jobs.get(id);
    if (!job) return json(404, { detail: "Not found" });
    if (job.failure !== undefined) return provider.failed(id, job.failure);
    return now() - job.createdAt < completeAfterMs ? provider.running(id) : provider.completed(id);
  }

  return {
    creates,
    jobs,
    async fetch(request: Request): Promise<Response> {
      const isCreate = request.method === "POST" && provider.create.test(request.url);
      const isPoll = request.method === "GET" && provider.poll.test(request.url);
      if (!isCreate && !isPoll) throw new Error(`the fake has no ${request.method} ${request.url}`);
      const route = isCreate ? "create" : "poll";
      const call: Call = { route, request: request.clone(), serve: () => serve(request, route) };
      const reply = (await fault?.(call, ++counts[route])) ?? (await call.serve());
      if (reply !== "drop") return reply;
      throw new RequestError(Object.assign(new Error("closed"), { code: "ECONNRESET" }), { sent: true });
    },
  };
}

/** Where the fakes' videos are; `openVideo` answers there. */
const videoHost = "https://cdn.test";

export const video = tinyMp4("made by a provider");

/** Answers on the host of the videos, where no key may arrive. */
export async function openVideo(url: string): Promise<Response> {
  if (!url.startsWith(`${videoHost}/`)) throw new Error(`not a video: ${url}`);
  return new Response(Buffer.from(video), { headers: { "Content-Length": String(video.length) } });
}

/** The queue of fal: https://docs.fal.ai/model-apis/model-endpoints/queue */
export function createFal(options: ProviderOptions) {
  const base = "https://queue.fal.run/fal-ai/kling-video";
  return createProvider(
    {
      create: /^https:\/\/queue\.fal\.run\/fal-ai\/[^?]+$/,
      poll: /^https:\/\/queue\.fal\.run\/fal-ai\/kling-video\/requests\/(\w+)$/,
      key: "Key",
      unauthorized: () =>
        json(401, { detail: 'Cannot access application "fal-ai/kling-video". Authentication is required.' }),
      created: (id) =>
        json(200, {
          status: "IN_QUEUE",
          request_id: id,
          response_url: `${base}/requests/${id}`,
          status_url: `${base}/requests/${id}/status`,
          cancel_url: `${base}/requests/${id}/cancel`,
          queue_position: 0,
        }),
      running: () => json(400, { detail: "Request is still in progress" }),
      completed: (id) =>
        json(200, {
          video: {
            url: options.videoUrl ?? `${videoHost}/${id}.mp4?token=abc`,
            content_type: "video/mp4",
            file_name: "output.mp4",
            file_size: video.length,
          },
        }),
      failed: (_, error) => json(422, { detail: [{ loc: ["body", "prompt"], msg: error, type: "content_policy" }] }),
    },
    options,
  );
}

/** The predictions of Replicate: https://replicate.com/docs/reference/http#predictions.create */
export function createReplicate({ isList = false, ...options }: ProviderOptions & { isList?: boolean }) {
  const prediction = (id: string, fields: object) => ({
    id,
    model: "kwaivgi/kling-v2.6",
    version: "hidden",
    input: {},
    logs: "",
    output: null,
    data_removed: false,
    error: null,
    source: "api",
    created_at: "2026-01-01T00:00:00Z",
    urls: {
      cancel: `https://api.replicate.com/v1/predictions/${id}/cancel`,
      get: `https://api.replicate.com/v1/predictions/${id}`,
    },
    ...fields,
  });
  const address = (id: string) => `${videoHost}/${id}.mp4`;
  return createProvider(
    {
      create: /^https:\/\/api\.replicate\.com\/v1\/models\/[\w./-]+\/predictions$/,
      poll: /^https:\/\/api\.replicate\.com\/v1\/predictions\/(\w+)$/,
      key: "Bearer",
      unauthorized: () =>
        json(401, { title: "Unauthenticated", detail: "You did not pass an authentication token", status: 401 }),
      created: (id) => json(201, prediction(id, { status: "starting" })),
      running: (id) => json(200, prediction(id, { status: "processing" })),
      completed: (id) =>
        json(200, prediction(id, { status: "succeeded", output: isList ? [address(id)] : address(id) })),
      failed: (id, error) => json(200, prediction(id, { status: "failed", error })),
    },
    options,
  );
}
