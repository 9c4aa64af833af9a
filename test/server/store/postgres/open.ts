import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { systemClock } from "../../../../src/io.ts";
import { openPostgres, type Postgres, type PostgresOptions } from "../../../../src/server/store/postgres/postgres.ts";
import { postgresPrograms } from "../../../needs.ts";
import { type PostgresServer, startPostgres } from "../../../postgres.ts";

/** Starts a server for the tests of a file, where there is PostgreSQL. */
export function useServer(): () => PostgresServer {
  let server: PostgresServer | undefined;
  beforeAll(async () => {
    if (postgresPrograms) server = await startPostgres({ fsync: false });
  });
  afterAll(() => server?.close());
  return () => {
    if (!server) throw new Error("there is no PostgreSQL here");
    return server;
  };
}

/** Opens a database as a process of its own would, until the test ends. It must say nothing of trouble, unless a test listens to that. */
export async function open(url: string, options: Partial<PostgresOptions> = {}): Promise<Postgres> {
  const troubles: string[] = [];
  const reportProblem = (what: string, error: unknown) => void troubles.push(`${what}: ${error}`);
  const opened = await openPostgres(url, { process: randomUUID(), clock: systemClock, reportProblem, ...options });
  onTestFinished(async () => {
    await opened.store.close().catch(() => {});
    expect(troubles).toEqual([]);
  });
  return opened;
}
