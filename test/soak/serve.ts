import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import process from "node:process";
import type { Random } from "../faults/random.ts";
import { bin } from "../faults/spawned.ts";
import { slowness } from "../slowness.ts";
import { type Answer, type Asked, ask, createAgent } from "./ask.ts";

/** What a service tells when it starts. */
export type Announced = {
  base_url: string;
  media_url: string;
  api_key: string;
  webhook_secret: string;
  page_url: string | null;
};

/** A service that runs in a process of its own. */
export type Serving = {
  pid: number;
  /** Resolves with its first line; rejects when it ends before. */
  started: Promise<Announced>;
  /** Resolves when it has ended, with its code and what it said last. */
  ended: Promise<string>;
  /** Kills it, and resolves when it has ended. */
  end(signal: NodeJS.Signals): Promise<void>;
};

/** Some bring a large database up to date first. */
const startLimitMs = 300_000 * slowness;

/** Starts `vidgen serve` with its state in a folder. */
export function serve(home: string, ...flags: string[]): Serving {
  return serveWith({}, home, ...flags);
}

/** The same with further variables, such as the key of an engine. */
export function serveWith(variables: Record<string, string>, home: string, ...flags: string[]): Serving {
  const env = { PATH: process.env.PATH ?? "", HOME: home, VIDGEN_HOME: home, ...variables };
  const child = spawn(process.execPath, [bin, "serve", "--json", ...flags], { env });
  const closed = once(child, "close");
  const ended = closed.then(([code]) => `ended with code ${code}: ${stderr}`);
  child.stdin.end();
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text) => (stderr = `${stderr}${text}`.slice(-2_000)));
  const started = new Promise<Announced>((resolve, reject) => {
    let stdout = "";
    const fail = (why: string) => reject(new Error(`serve ${why}`));
    const watchdog = setTimeout(() => fail(`says nothing within ${startLimitMs / 1_000} s: ${stderr}`), startLimitMs);
    child.stdout.setEncoding("utf8").on("data", (text) => {
      stdout += text;
      if (/^\}$/m.test(stdout)) resolve(JSON.parse(stdout));
    });
    void ended.then(fail).then(() => clearTimeout(watchdog));
  });
  started.catch(() => {});
  const end = async (signal: NodeJS.Signals) => {
    child.kill(signal);
    await closed;
  };
  return { pid: child.pid ?? 0, started, ended, end };
}

/** Asks a service for things, with its key. */
export type Client = {
  start(body: object, idempotencyKey?: string): Promise<Answer>;
  status(id: string): Promise<Answer>;
  close(): void;
};

export function createClient({ base_url, api_key }: Announced, connections: number): Client {
  const agent = createAgent(connections);
  const call = (path: string, { headers, ...asked }: Asked = {}) =>
    ask(agent, base_url + path, { ...asked, headers: { Authorization: `Bearer ${api_key}`, ...headers } });
  return {
    start: (body, key) => {
      const headers = { "Content-Type": "application/json", ...(key !== undefined && { "Idempotency-Key": key }) };
      return call("/api/generate", { method: "POST", headers, body: JSON.stringify(body) });
    },
    status: (id) => call(`/api/generation-status?id=${id}`),
    close: () => agent.destroy(),
  };
}

/** The id in the reply to a start; throws where that is no success. */
export function startedId({ status, json }: Answer): string {
  const id = (json.data as { id?: unknown } | undefined)?.id;
  if (status !== 200 || typeof id !== "string") throw new Error(`a start was refused: ${JSON.stringify(json)}`);
  return id;
}

/** A port that is free, and that the system gives to nobody by itself: it stays free between two services. */
export async function findPort(random: Random): Promise<number> {
  for (;;) {
    const port = random.between(20_000, 29_999);
    const server = createServer().listen(port, "127.0.0.1");
    const isFree = await once(server, "listening").then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
}

/** Starts a service, works with it and stops it. */
export async function whileServing<Result>(
  home: string,
  flags: string[],
  work: (announced: Announced, serving: Serving) => Promise<Result>,
): Promise<Result> {
  const serving = serve(home, "--port", "0", "--media-port", "0", ...flags);
  try {
    return await work(await serving.started, serving);
  } finally {
    await serving.end("SIGKILL");
  }
}
