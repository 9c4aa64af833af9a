import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import process from "node:process";
import { Webhook } from "standardwebhooks";
import { type Goal, portion, tally } from "../faults/goal.ts";
import { bin } from "../faults/spawned.ts";
import { inFolder, side } from "../faults/work.ts";
import { type Case, makeCase, randomSecret } from "./callbacks.ts";
import { dial, portOf, say } from "./raw.ts";

const atOnce = 16;
/** `listen` gives a request 10 s. */
const slowLimitMs = 12_000;
/** Below the 5 s after which Node closes a connection that is left open. */
const replyLimitMs = 4_000;

/** Goal 11: what `vidgen listen` forwards is true, and forwarded once; nothing that comes in ends it. */
export const listening: Goal = {
  number: 11,
  title: "forged, late, doubled and malformed callbacks to vidgen listen",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const secret = randomSecret(random);
      const application = await openApplication(secret);
      const listener = await startListener(folder, secret, application.url);
      const cases = Array.from({ length: portion(500, share) }, () => makeCase(secret, random));
      const faults: string[] = [];
      const slow = share === 1 ? [isSlowCut(listener.port)] : [];
      await side(cases, atOnce, async (one) => {
        const statuses = await sendCase(one, listener.port);
        if (statuses.join() !== one.statuses.join())
          faults.push(`${one.kind}: answered with ${statuses} in place of ${one.statuses}`);
      });
      for (const cut of await Promise.all(slow)) if (!cut) faults.push("a slow body is not cut");
      faults.push(...(await listener.stop()), ...application.faults, ...judgeForwarded(cases, application.bodies));
      application.close();
      const truths = cases.filter(({ forwarded }) => forwarded !== undefined).length;
      return {
        figures: `${cases.length}: ${truths} good ones, ${cases.length - truths} others (${tally(cases.map(outcomeOf))}); ${application.faults.length} forwarded as true that were not`,
        target: "each good one forwarded once, none of the others, 0 crashes",
        faults,
      };
    }),
};

function outcomeOf({ statuses }: Case): string {
  return String(statuses[0]);
}

/** The statuses of the answers; 0 where there is none, or the connection is left open after it. */
async function sendCase({ requests, atOnce, isCut }: Case, port: number): Promise<number[]> {
  const send = async (request: Buffer) => {
    const limits = { endAfterMs: isCut ? 100 : undefined, limitMs: replyLimitMs };
    const { text, isClosed } = await say(port, request, limits);
    return isClosed ? Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1] ?? 0) : 0;
  };
  if (atOnce) return Promise.all(requests.map(send));
  const answers: number[] = [];
  for (const request of requests) answers.push(await send(request));
  return answers;
}

function judgeForwarded(cases: Case[], bodies: Map<string, number>): string[] {
  const left = new Map(bodies);
  const faults: string[] = [];
  for (const { kind, forwarded } of cases) {
    if (forwarded === undefined) continue;
    const body = forwarded.body.toString("latin1");
    if (left.get(body) !== forwarded.times) faults.push(`${kind}: forwarded ${left.get(body) ?? 0} times`);
    left.delete(body);
  }
  for (const body of left.keys()) faults.push(`forwarded, and not good: ${body.slice(0, 200)}`);
  return faults;
}

/** An application that checks each callback by itself; it refuses one that says so, once. */
async function openApplication(secret: string) {
  const bodies = new Map<string, number>();
  const faults: string[] = [];
  const webhook = new Webhook(secret);
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    const body = bytes.toString("latin1");
    bodies.set(body, (bodies.get(body) ?? 0) + 1);
    try {
      webhook.verify(bytes, request.headers as Record<string, string>, { jsonParse: false });
    } catch (error) {
      faults.push(`forwarded, and not true: ${error}`);
    }
    const isRefused = body.includes("refuse-once") && bodies.get(body) === 1;
    response.writeHead(isRefused ? 503 : 200).end("seen");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`;
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url, bodies, faults, close };
}

async function startListener(home: string, secret: string, forward: string) {
  const env = { PATH: process.env.PATH ?? "", HOME: home, VIDGEN_HOME: home, VIDGEN_WEBHOOK_SECRET: secret };
  const child = spawn(process.execPath, [bin, "listen", "--port", "0", "--forward", forward], { env });
  const closed = once(child, "close");
  child.stdin.end();
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text) => (stderr += text));
  while (!stderr.includes("Ctrl-C") && child.exitCode === null)
    await Promise.race([once(child.stderr, "data"), closed]);
  const port = portOf(/--callback-url (\S+)/.exec(stderr)?.[1] ?? "");
  const stop = async () => {
    const faults = child.exitCode === null ? [] : ["it had ended"];
    child.kill("SIGTERM");
    const [code] = await closed;
    if (code !== 0) faults.push(`exit code ${code}`);
    if (stderr.split("\n").length !== 3) faults.push(`stderr: ${stderr}`);
    if ((stdout + stderr).includes(secret)) faults.push("the secret is printed");
    const odd = stdout.split("\n").filter((line) => line !== "" && !/^[^\p{Cc}]+ -> \d{3} in \d+ ms$/u.test(line));
    if (odd.length > 0) faults.push(`${odd.length} odd lines, such as ${JSON.stringify(odd[0])}`);
    return faults;
  };
  return { port, stop };
}

/** Whether a client that sends a byte a second is cut. */
async function isSlowCut(port: number): Promise<boolean> {
  const socket = dial(port).resume();
  const closed = once(socket, "close").then(() => true);
  socket.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n");
  const drip = setInterval(() => socket.write("x"), 1_000);
  const isCut = await Promise.race([
    closed,
    new Promise<boolean>((resolve) => setTimeout(resolve, slowLimitMs, false)),
  ]);
  clearInterval(drip);
  socket.destroy();
  return isCut;
}
