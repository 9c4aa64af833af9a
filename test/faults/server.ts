import type { Socket } from "node:net";
import { fineMedia, type MediaFault, type MediaState } from "./media-faults.ts";
import { createOracle, type Oracle } from "./oracle.ts";
import { finePoll, type PollFault } from "./poll-faults.ts";
import type { Random } from "./random.ts";
import { fineStart, type StartFault } from "./start-faults.ts";
import { type Handlers, type Listener, listen, reply, type WireRequest } from "./wire.ts";

/** What happens to one command's requests, in order; what is not listed is fine. */
export type Plan = {
  starts?: StartFault[];
  polls?: PollFault[];
  /** For each request of the video. */
  media?: MediaFault | undefined;
};

/** A step of a command that the server has seen, for whoever waits for that moment. */
export type Moment = "start" | "answered" | "poll" | "media" | "sent";

export type Service = {
  oracle: Oracle;
  baseUrl: string;
  /** Sets what happens to the command with this prompt; prompts are told apart by it alone. */
  plan(prompt: string, plan: Plan): void;
  /** How often the rest of its video was asked for. */
  rangesOf(prompt: string): number;
  /** A further address of the API, whose connections meet this first. */
  open(handlers: Pick<Handlers, "onConnection" | "onHead">, port?: number): Promise<Listener>;
  /** Is told of the moments of the command with this prompt. */
  watch(prompt: string, onMoment: (moment: Moment) => void): void;
  close(): Promise<void>;
};

/** The service of the interface over real sockets, with faults: the API, the media address, and an origin that is neither. */
export async function createService(random: Random, videoBytes?: number): Promise<Service> {
  const oracle = createOracle(random.fork("ids"), videoBytes);
  const plans = new Map<string, Plan & { looks: number; media: MediaFault | undefined; state?: MediaState }>();
  const planOf = (prompt: string) => {
    const known = plans.get(prompt) ?? { looks: 0, media: undefined };
    plans.set(prompt, known);
    return known;
  };
  const watchers = new Map<string, (moment: Moment) => void>();
  const tell = (prompt: string, moment: Moment) => watchers.get(prompt)?.(moment);
  const see = (origin: string, { path, headers }: WireRequest) =>
    void oracle.requests.push({ origin, path, authorization: headers.authorization });

  const onApi = async (request: WireRequest, socket: Socket) => {
    see("api", request);
    if (request.method === "POST") await onStart(request, socket);
    else await onPoll(request, socket);
  };

  async function onStart({ headers, body }: WireRequest, socket: Socket): Promise<void> {
    const { prompt, model } = JSON.parse(body);
    const plan = planOf(prompt);
    const fault = plan.starts?.[oracle.startsOf(prompt).length] ?? fineStart;
    const wanted = { prompt, model, attempt: headers["idempotency-key"] ?? "" };
    const generated = oracle.start(wanted, fault.executes);
    tell(prompt, "start");
    const madeUp = { ...wanted, id: random.uuid(), createdAt: "2026-01-01T00:00:00.000Z" };
    await fault.act({ socket, generated: generated ?? madeUp, random: random.fork(prompt) });
    tell(prompt, "answered");
  }

  async function onPoll({ path }: WireRequest, socket: Socket): Promise<void> {
    const id = new URL(path, "http://x").searchParams.get("id") ?? "";
    const generated = oracle.generations.get(id);
    if (!generated) return reply(socket, 404, '{"error":"not found"}');
    const plan = planOf(generated.prompt);
    const look = plan.looks++;
    const videoUrl = `http://127.0.0.1:${media.port}/${id}.mp4?signature=${look}`;
    tell(generated.prompt, "poll");
    await (plan.polls?.[look] ?? finePoll)({ socket, generated, videoUrl, random: random.fork(`${id} ${look}`) });
  }

  const onMedia = (origin: string, isElsewhere: boolean) => async (request: WireRequest, socket: Socket) => {
    see(origin, request);
    const { pathname, searchParams } = new URL(request.path, "http://x");
    const id = pathname.slice(1).replace(/\.mp4$/, "");
    const prompt = oracle.generations.get(id)?.prompt;
    if (prompt === undefined) return reply(socket, 404, "");
    const plan = planOf(prompt);
    plan.state ??= { id, version: 0, validFrom: 0, requests: 0, ranges: 0, since: Date.now() };
    plan.state.requests++;
    if (request.headers.range !== undefined) plan.state.ranges++;
    tell(prompt, "media");
    const scene = {
      socket,
      request,
      oracle,
      state: plan.state,
      video: oracle.video(id, plan.state.version),
      random: random.fork(`${id} media ${plan.state.requests}`),
      number: Number(searchParams.get("signature")),
      elsewhere: `http://127.0.0.1:${elsewhere.port}`,
    };
    await (isElsewhere ? fineMedia : (plan.media ?? fineMedia))(scene);
    tell(prompt, "sent");
  };

  const listeners: Listener[] = [];
  const open = async (handlers: Handlers, port = 0) => {
    const listener = await listen(handlers, { port });
    listeners.push(listener);
    return listener;
  };
  const api = await open({ onRequest: onApi });
  const media = await open({ onRequest: onMedia("media", false) });
  const elsewhere = await open({ onRequest: onMedia("elsewhere", true) });
  return {
    oracle,
    baseUrl: `http://127.0.0.1:${api.port}`,
    plan: (prompt, plan) => void Object.assign(planOf(prompt), plan),
    rangesOf: (prompt) => plans.get(prompt)?.state?.ranges ?? 0,
    open: (handlers, port) => open({ ...handlers, onRequest: onApi }, port),
    watch: (prompt, onMoment) => void watchers.set(prompt, onMoment),
    async close() {
      await Promise.all(listeners.map((listener) => listener.close()));
    },
  };
}
