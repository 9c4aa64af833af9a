import type { Clock } from "../../src/io.ts";
import type { Random } from "../faults/random.ts";
import { box } from "../mp4.ts";
import type { Call, Fake, FakeOptions } from "../server/engines/videos/fakes/fake.ts";

/** What goes wrong in one run between the service and its engine. */
export type Trouble = {
  /** Answers in place of the server. */
  fault?: NonNullable<FakeOptions["fault"]>;
  isUnreachable?(): boolean;
  /** What happens to the server by itself. */
  live?(server: Pick<Fake, "forget">): Promise<void>;
  /** Called before each poll: jobs may fail. */
  onPoll?(server: Pick<Fake, "jobs" | "fail">): void;
  /** The words with which a generation may fail although it is clear what became of its create. */
  excuse?: RegExp;
  /** Whether a job that was paid for goes on for ever: its provider answers, and nobody can read what. */
  staysOpen?: boolean;
  /** Whether a create may reach the server long after it was sent. */
  isLate?: boolean;
  /** How often the service itself is killed or stopped. */
  restarts?: number;
};

export type TroubleMaker = (random: Random, clock: Pick<Clock, "now" | "sleep">) => Trouble;

/** How long the engine may answer nothing of use, as `--engine-timeout` has it by default. */
export const timeoutMs = 30 * 60_000;

const page = "<!doctype html><title>502 Bad Gateway</title>";
/** What Envoy says when the server behind it has closed the connection, and may have taken the request. */
export const envoy = "upstream connect error or disconnect/reset before headers. reset reason: connection termination";
const html = (status: number) => new Response(page, { status, headers: { "Content-Type": "text/html" } });
const oneIn = (count: number, random: Random) => random.between(1, count) === 1;

/** The faults of a server of `/v1/videos`, of the way there, and of the service's own life. */
export const troubles: Record<string, TroubleMaker> = {
  "connection refused"(random, clock) {
    const isForEver = oneIn(5, random);
    const endMs = isForEver ? Number.POSITIVE_INFINITY : random.between(5_000, timeoutMs - 60_000);
    const excuse = isForEver ? { excuse: /accepted no request for 30 min: .*; nothing was submitted$/ } : {};
    return { isUnreachable: () => clock.now() < endMs, ...excuse };
  },
  "reset after the create was sent": (random) => ({
    async fault(call) {
      if (call.route !== "create" || random.next() < 0.3) return undefined;
      if (random.next() < 0.3) return { reply: await call.serve(), bytes: random.between(0, 20) };
      if (random.next() < 0.5) await call.serve();
      return "drop";
    },
  }),
  "a create answered with 5xx or a page": (random) => ({
    async fault(call) {
      if (call.route !== "create" || random.next() < 0.3) return undefined;
      if (random.next() < 0.5) await call.serve();
      return random.next() < 0.2 ? new Response(envoy, { status: 503 }) : html(random.pick([200, 408, 500, 502, 504]));
    },
  }),
  "a create answered with 503 or 429, then taken"(random) {
    const refusals = createCounter();
    return {
      async fault({ route, request }) {
        const isRefused = route === "create" && refusals.add(await promptOf(request)) <= random.between(0, 5);
        return isRefused
          ? new Response('{"detail":"the queue is full"}', { status: random.pick([429, 503]) })
          : undefined;
      },
    };
  },
  "a create answered late or too late": (random, clock) => ({
    async fault(call) {
      if (call.route !== "create" || random.next() < 0.3) return undefined;
      const delayMs = random.pick([5_000, 60_000, timeoutMs - 60_000, timeoutMs + 60_000, 3 * timeoutMs]);
      const isServedFirst = random.next() < 0.5;
      const reply = isServedFirst ? await call.serve() : undefined;
      await clock.sleep(delayMs);
      return reply;
    },
    isLate: true,
    // What waited meanwhile, for as long as the engine's time limit.
    excuse: /accepted no request for .*: no response within .*; nothing was submitted/,
  }),
  "404s for a while, and no connection"(random, clock) {
    const inARow = createCounter();
    let downUntilMs = 0;
    return {
      async fault(call) {
        if (!isRead(call)) return undefined;
        if (clock.now() < downUntilMs) return "drop";
        if (random.next() < 0.1) downUntilMs = clock.now() + random.between(1_000, 90_000);
        const { pathname } = new URL(call.request.url);
        // Polls come every 2 s, and 404s count after 30 s.
        if (random.next() < 0.3 || inARow.add(pathname) > 10) {
          inARow.reset(pathname);
          return undefined;
        }
        return new Response('{"detail":"Video not found"}', { status: 404 });
      },
    };
  },
  "a restart of the engine that forgets all jobs": (random, clock) => ({
    async live(server) {
      for (let times = random.between(1, 3); times > 0; times--) {
        await clock.sleep(random.between(1_000, 90_000));
        server.forget();
      }
    },
    excuse:
      /no longer knows this video's job|upstream gives an error for this job, and may have lost it|generated this video, but it could not be downloaded from \S+: HTTP 404/,
  }),
  "a failed job, as HTTP 4xx or 5xx where the kind does so": (random) => ({
    onPoll(server) {
      for (const [id, { end }] of server.jobs) {
        const message = random.pick(["CUDA out of memory", "the prompt was blocked", "NaN in latents"]);
        if (!end && random.next() < 0.2)
          server.fail(id, { message, httpStatus: random.pick([400, 404, 422, 500, 503]) });
      }
    },
  }),
  "a video that is not ready when its job is"(random, clock) {
    const isForEver = oneIn(5, random);
    const asked = new Map<string, number>();
    const lateMs = isForEver ? Number.POSITIVE_INFINITY : random.between(0, 25_000);
    return {
      async fault({ request, ...call }) {
        if (!isContent({ request, ...call })) return undefined;
        const since = asked.get(request.url) ?? clock.now();
        asked.set(request.url, since);
        const isReady = clock.now() - since >= lateMs;
        return isReady
          ? undefined
          : new Response('{"detail":"not yet"}', { status: random.pick([400, 404, 409, 422]) });
      },
      ...(isForEver && { excuse: /generated this video, but it could not be downloaded from \S+: HTTP 4/ }),
    };
  },
  "a video that is cut, stalls, half an .mp4, a page, empty, another one twice"(random, clock) {
    const isForEver = oneIn(5, random);
    const times = isForEver ? Number.POSITIVE_INFINITY : random.between(1, 2);
    const spoiled = createCounter();
    return {
      async fault(call) {
        if (!isContent(call)) return undefined;
        const reply = await call.serve();
        if (reply.status !== 200 || spoiled.add(call.request.url) > times) return reply;
        return spoil(reply, random, clock);
      },
      ...(isForEver && { excuse: /generated this video, but it could not be downloaded/ }),
    };
  },
  "trouble with polls for minutes"(random, clock) {
    const isForEver = oneIn(5, random);
    const startMs = random.between(0, 60_000);
    const endMs = startMs + (isForEver ? Number.POSITIVE_INFINITY : random.between(60_000, timeoutMs - 180_000));
    return {
      async fault(call) {
        if (call.route !== "poll" || clock.now() < startMs || clock.now() > endMs) return undefined;
        const kind = random.pick(["drop", "page", "silent", "other", "cut"]);
        if (kind === "drop") return "drop";
        if (kind === "cut") return { reply: await call.serve(), bytes: random.between(0, 20) };
        if (kind === "silent") await clock.sleep(40_000);
        return kind === "other" ? new Response('{"status":"ok"}') : html(random.pick([200, 429, 500, 502, 503]));
      },
      // ComfyUI is asked before each create, and again whether it took one: it could not answer that.
      ...(isForEver && {
        excuse:
          /accepted no request for 30 min: .*; nothing was submitted$|which was generating this video, has not (responded|given a reply that can be read) for (30|1440) min|unclear whether \S+ generates this video \(the local/,
        staysOpen: true,
      }),
    };
  },
  "the service killed or stopped again and again": (random) => ({ restarts: random.between(2, 6) }),
};

/** The prompts of this proof are such that they can be found in any body. */
export const promptPattern = /fox \d+ at dusk/;

async function promptOf(request: Request): Promise<string> {
  return promptPattern.exec(await request.clone().text())?.[0] ?? "";
}

/** SGLang's videos may be in a bucket. */
export const bucket = "http://bucket.test/videos";

function isContent({ route, request }: Pick<Call, "route" | "request">): boolean {
  return route === "content" || request.url.startsWith(bucket);
}

function isRead(call: Call): boolean {
  return call.route === "poll" || isContent(call);
}

async function spoil(reply: Response, random: Random, clock: Pick<Clock, "sleep">) {
  const bytes = new Uint8Array(await reply.clone().arrayBuffer());
  const half = bytes.subarray(0, random.between(1, bytes.length - 1));
  const whole = (body: Uint8Array | string) => {
    const length = Buffer.byteLength(body);
    return new Response(Buffer.from(body as string), { headers: { "Content-Length": `${length}` } });
  };
  const other = new Uint8Array([...box("ftyp", new Uint8Array(8)), ...bytes]);
  const stall = async function* () {
    yield half;
    await clock.sleep(120_000);
    yield bytes.subarray(half.length);
  };
  return random.pick([
    () => ({ reply, bytes: half.length }),
    () => whole(half),
    () => new Response(half),
    () => whole(page),
    () => whole(""),
    () => whole(other),
    () => new Response(ReadableStream.from(stall()), { headers: { "Content-Length": `${bytes.length}` } }),
  ])();
}

function createCounter() {
  const counts = new Map<string, number>();
  return {
    /** Counts one more, and returns how many there are. */
    add(key: string): number {
      const count = (counts.get(key) ?? 0) + 1;
      counts.set(key, count);
      return count;
    },
    reset: (key: string) => void counts.delete(key),
  };
}
