import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { compileFile } from "../compiled.ts";
import { type Goal, portion } from "../faults/goal.ts";
import { load } from "./load.ts";

const connections = 32;
const roundMs = 400;

type Measured = { url: string; key: string; id: string; child: ChildProcess };

/** Goal 7: what durability costs a start, and what the service costs a status read. Slower machines are slower in both. */
export const speed: Goal = {
  number: 7,
  title: `speed on ${connections} connections`,
  run: ({ share }) =>
    onDisk(async (folder) => {
      const servers: Measured[] = [];
      const script = await compileFile(fileURLToPath(new URL("server.ts", import.meta.url)));
      const open = async (kind: string, database = ":memory:") => {
        const server = await startServer(script, kind, database);
        servers.push(server);
        return server;
      };
      try {
        const rounds = portion(15, share, 3);
        const durable = await open("service", join(folder, "service.db"));
        const memory = await open("service");
        const bare = await open("bare");
        const starts = await compare([durable, startRequest(durable)], [memory, startRequest(memory)], rounds);
        const reads = await compare([memory, readRequest(memory)], [bare, readRequest(memory)], rounds);
        const isSame = bodyOf(reads.replies[0]) === bodyOf(reads.replies[1]);
        const figures =
          `durable starts ${starts.ratio.toFixed(2)} of those in memory (${starts.figures}), ` +
          `status reads ${reads.ratio.toFixed(2)} of a bare handler (${reads.figures}), medians of ${rounds} rounds`;
        return { figures, target: "the figures alone", faults: isSame ? [] : ["the replies differ"] };
      } finally {
        for (const { child } of servers) child.kill("SIGKILL");
      }
    }),
};

/** Beside the program, not in a folder that lies in memory: there, to be durable would cost nothing. */
export async function onDisk<Result>(work: (folder: string) => Promise<Result>): Promise<Result> {
  const folder = await mkdtemp(fileURLToPath(new URL("../../node_modules/.vidgen-soak-", import.meta.url)));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}

async function startServer(script: string, kind: string, database: string): Promise<Measured> {
  const child = spawn(process.execPath, [script, kind, database], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(child, "exit").then(([code]) => {
    throw new Error(`the measured server has ended with exit ${code}`);
  });
  const [line] = await Promise.race([once(child.stdout, "data"), exited]);
  return { ...JSON.parse(String(line)), child };
}

function startRequest({ key }: Measured): string {
  const body = JSON.stringify({ prompt: "a red fox runs through snow at dusk", model: "veo-3.1" });
  const head = ["Host: localhost", `Authorization: Bearer ${key}`, "Content-Type: application/json"];
  return `POST /api/generate HTTP/1.1\r\n${head.join("\r\n")}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

function readRequest({ key, id }: Measured): string {
  return `GET /api/generation-status?id=${id} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`;
}

/** One after the other in turns, so that what slows the machine for a while slows both. The first round warms up. */
async function compare(one: [Measured, string], other: [Measured, string], rounds: number) {
  const speeds: [number[], number[]] = [[], []];
  const replies: [string, string] = ["", ""];
  for (let round = 0; round <= rounds; round++) {
    const order: (0 | 1)[] = round % 2 === 0 ? [0, 1] : [1, 0];
    for (const which of order) {
      const [{ url }, request] = which === 0 ? one : other;
      const { port } = new URL(url);
      const seen = await load(url, request.replace("localhost", `localhost:${port}`), { connections, ms: roundMs });
      if (round > 0) speeds[which].push(seen.perSecond);
      replies[which] = seen.lastReply;
    }
  }
  const [a, b] = [median(speeds[0]), median(speeds[1])];
  // Of each round by itself: the machine may be another one in the next.
  const ratio = median(speeds[0].map((speed, round) => speed / (speeds[1][round] ?? Number.NaN)));
  return { ratio, figures: `${Math.round(a)} to ${Math.round(b)} a second`, replies };
}

function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

function bodyOf(reply: string): string {
  return reply.slice(reply.indexOf("\r\n\r\n"));
}
