import { join } from "node:path";
import process from "node:process";
import pg from "pg";
import type { Random } from "../faults/random.ts";
import { pause } from "../faults/wire.ts";
import { inFolder } from "../faults/work.ts";
import { type PostgresServer, startPostgres } from "../postgres.ts";
import { type Books, bookQueries, type Row, toBooks } from "./books.ts";
import { type Announced, type Client, createClient, findPort, serve } from "./serve.ts";

/** A `vidgen serve` that may be killed, and is then started again at the same address. */
export type Process = {
  announced: Announced;
  /** Resolves when it listens. */
  started(): Promise<Announced>;
  /** Kills it with SIGKILL, and starts it again without waiting for that. */
  kill(): Promise<void>;
  signal(signal: "SIGSTOP" | "SIGCONT" | "SIGHUP"): void;
  /** Kills it for good. */
  end(): Promise<void>;
};

/** PostgreSQL, and processes that share it. */
export type Shared = {
  postgres: Pick<PostgresServer, "start" | "stop">;
  /** The address of the database, and the folder of the videos. */
  database: string;
  media: string;
  /** Starts so many at once, and resolves when all of them listen. They keep their videos in the same folder. */
  open(count: number, ...flags: string[]): Promise<Process[]>;
  /** What the database says, at one moment; `cost` is what a generation costs. */
  books(cost: number): Promise<Books>;
};

/** Works with processes and their database, and ends them all. Rejects as soon as one ends by itself. */
export function whileSharing<Result>(random: Random, work: (shared: Shared) => Promise<Result>): Promise<Result> {
  return inFolder(async (home) => {
    // A port that the system gives to no connection while the server is stopped.
    const postgres = await startPostgres({ findPort: () => findPort(random) });
    const database = await postgres.createDatabase();
    const media = join(home, "media");
    const pool = new pg.Pool({ connectionString: database, options: "-c search_path=vidgen", max: 1 });
    pool.on("error", () => {});
    const processes: Pick<Process, "end">[] = [];
    let fail = (_: Error) => {};
    const failed = new Promise<never>((_, reject) => {
      fail = reject;
    });
    failed.catch(() => {});
    let key = "";
    const open: Shared["open"] = async (count, ...flags) => {
      const shared = ["--database", database, "--media", media, ...flags];
      const ports = await findPorts(random, 2 * count);
      const opened = Array.from({ length: count }, (_, index) => {
        const own = ["--port", `${ports[2 * index]}`, "--media-port", `${ports[2 * index + 1]}`];
        const begun = begin(join(home, `${processes.length}`), [...own, ...shared], fail);
        processes.push(begun);
        return begun;
      });
      const listening = await Promise.all(
        opened.map(async (process) => ({ ...process, announced: await process.started() })),
      );
      key = listening.map(({ announced }) => announced.api_key).find(Boolean) ?? key;
      return listening.map((process) => ({ ...process, announced: { ...process.announced, api_key: key } }));
    };
    const books = async (cost: number) => toBooks(await askAll(pool, bookQueries(cost)));
    try {
      return await Promise.race([work({ postgres, database, media, open, books }), failed]);
    } finally {
      await Promise.all(processes.map((process) => process.end()));
      await pool.end();
      await postgres.close();
    }
  });
}

async function findPorts(random: Random, count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) ports.add(await findPort(random));
  return [...ports];
}

/** `onDeath` is called when it ends by itself. */
function begin(home: string, flags: string[], onDeath: (error: Error) => void): Omit<Process, "announced"> {
  const open = () => {
    const serving = serve(home, ...flags);
    let isWanted = true;
    void serving.ended.then((how) => isWanted && onDeath(new Error(`a process ${how}`)));
    const end = () => {
      isWanted = false;
      return serving.end("SIGKILL");
    };
    return { ...serving, end };
  };
  let life = open();
  return {
    started: () => life.started,
    signal: (signal) => process.kill(life.pid, signal),
    end: () => life.end(),
    async kill() {
      await life.end();
      life = open();
    },
  };
}

/** Asks all of it of the same state of the database. */
async function askAll(pool: pg.Pool, queries: string[]): Promise<Row[][]> {
  const client = await pool.connect();
  try {
    await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    const answers: Row[][] = [];
    for (const query of queries) answers.push((await client.query(query)).rows);
    await client.query("COMMIT");
    return answers;
  } finally {
    client.release(true);
  }
}

export function clientsOf(processes: readonly Process[], connections: number): Client[] {
  return processes.map(({ announced }) => createClient(announced, connections));
}

/** Resolves once every generation has ended and every callback is through; with what has not after so long, in words. */
export async function untilAllEnded({ books }: Shared, cost: number, limitMs: number): Promise<string[]> {
  const end = performance.now() + limitMs;
  for (;;) {
    const { states, deliveries } = await books(cost);
    const open = [...states.values()].filter((state) => state === "processing").length;
    const due = deliveries.filter(({ isDue }) => isDue).length;
    if (open + due === 0) return [];
    if (performance.now() > end)
      return [`after ${limitMs / 1_000} s ${open} have not ended, and ${due} callbacks are due`];
    await pause(500);
  }
}
