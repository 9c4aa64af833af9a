import { execFileSync, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { chownSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import pg from "pg";
import { postgresPrograms } from "./needs.ts";

/** A PostgreSQL server of its own, on 127.0.0.1. It ends with this process, however that ends. */
export type PostgresServer = {
  /** Makes an empty database and resolves with its address. Its owner is no superuser. */
  createDatabase(): Promise<string>;
  /** Resolves when the server is ready: at the same port as before. */
  start(): Promise<void>;
  /** Resolves when all its processes have ended: SIGINT ends the connections first, SIGQUIT and SIGKILL are a crash. */
  stop(signal: "SIGINT" | "SIGQUIT" | "SIGKILL"): Promise<void>;
  /** Ends the server, and removes all it has. */
  close(): Promise<void>;
};

const configuration = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  max_connections: "200",
  // What the clients do is not in the log, nor what they send.
  log_min_messages: "log",
  log_min_error_statement: "panic",
};

/**
 * Runs the server until its standard input says by which signal it is to end. When that input ends, so has the process that began this one,
 * and nothing is to stay. Its standard error is closed, so that only the server's processes have it.
 */
const guard = `
"$@" & exec 2>&-
if read -r signal; then kill -s "$signal" $!; wait $!; else kill -s QUIT $!; wait $!; rm -rf "$PWD"; fi
`;

/** Starts a server at a port that `findPort` finds; without `fsync` it is faster, and a crash of the machine would lose data. */
export async function startPostgres({ fsync = true, findPort = freePort } = {}): Promise<PostgresServer> {
  const programs = postgresPrograms ?? "";
  const folder = mkdtempSync(join(tmpdir(), "vidgen-postgres-"));
  const user = ownUser();
  if (user) chownSync(folder, user.uid, user.gid);
  const options = { cwd: folder, ...user };
  const data = join(folder, "data");
  const initialize = ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"];
  execFileSync(join(programs, "initdb"), initialize, { ...options, stdio: ["ignore", "ignore", "inherit"] });

  const port = String(await findPort());
  const settings = Object.entries({ ...configuration, port, fsync: fsync ? "on" : "off" });
  const server = [
    join(programs, "postgres"),
    "-D",
    data,
    ...settings.flatMap(([name, value]) => ["-c", `${name}=${value}`]),
  ];
  let running: { say(line: string): void; ended: Promise<unknown> } | undefined;

  const start = async () => {
    // In a session of its own, since Ctrl-C would end the guard before the server.
    const child = spawn("sh", ["-c", guard, "sh", ...server], {
      ...options,
      detached: true,
      stdio: ["pipe", "ignore", "pipe"],
    });
    let log = "";
    const ready = new Promise<void>((resolve, reject) => {
      child.stderr.setEncoding("utf8").on("data", (chunk) => {
        log += chunk;
        if (log.includes("ready to accept connections")) resolve();
      });
      child.stderr.on("close", () => reject(new Error(`PostgreSQL has ended: ${log}`)));
    });
    running = { say: (line) => child.stdin.end(line), ended: once(child, "close") };
    await ready;
  };
  const stop = async (line: string) => {
    running?.say(line);
    await running?.ended;
    running = undefined;
  };
  const address = (user: string, database: string) => `postgres://${user}@127.0.0.1:${port}/${database}`;
  const administer = (sql: string) => query(address("postgres", "postgres"), sql);

  await start();
  await administer("CREATE ROLE tester LOGIN");
  return {
    async createDatabase() {
      const name = `vidgen_${randomUUID().slice(0, 8)}`;
      await administer(`CREATE DATABASE ${name} OWNER tester`);
      return address("tester", name);
    },
    start,
    stop: (signal) => stop(`${signal.slice("SIG".length)}\n`),
    async close() {
      await stop("");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Runs SQL at a database, as another program does. */
export async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

/** Somebody else when this is root, as whom PostgreSQL does not run. */
export function ownUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const ask = (flag: string, name: string) => Number(execFileSync("id", [flag, name], { stdio: "pipe" }));
  for (const name of ["postgres", "nobody"]) {
    try {
      return { uid: ask("-u", name), gid: ask("-g", name) };
    } catch {}
  }
  return undefined;
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  return typeof address === "object" && address ? address.port : 0;
}
