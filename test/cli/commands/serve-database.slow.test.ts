import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/io.ts";
import { spawnAgent } from "../../faults/agent.ts";
import { postgresPrograms } from "../../needs.ts";
import { type PostgresServer, query, startPostgres } from "../../postgres.ts";
import { createVllmOmni } from "../../server/engines/videos/fakes/vllm-omni.ts";
import { cookieOf, useLink } from "../../server/page/sign-in.ts";
import { createWorld } from "../../vidgen.ts";
import { createMachine as createSpawning } from "../machine.ts";

const password = "canary-password";

/** A machine on which the database's address is in the environment. */
async function createMachine(database: string) {
  const world = await createWorld();
  const gpu = createVllmOmni();
  // Other processes are waited for, on other clocks.
  Object.assign(world.io, systemClock);
  world.env.VIDGEN_DATABASE_URL = database.replace("@", `:${password}@`);
  world.faults.push((request) => (new URL(request.url).hostname === "gpu-1" ? gpu.fetch(request) : undefined));
  const printed: string[] = [];
  onTestFinished(() => expect(printed.join()).not.toContain(password));
  const vidgen = async (...argv: string[]) => {
    const run = await world.vidgen(...argv);
    printed.push(run.stdout + run.stderr);
    return run;
  };
  /** Runs `serve` until the test ends, and resolves once it listens. */
  const serve = async (...flags: string[]) => {
    const ended = vidgen("serve", "--port", "0", "--media-port", "0", "--jobs", "1", ...flags);
    const run = world.printed;
    const stop = async () => {
      world.press("Ctrl-C");
      await ended;
    };
    onTestFinished(stop);
    await Promise.race([expect.poll(() => run.stdout).toMatch(/.\n$/), ended]);
    return { run, stop };
  };
  return { world, vidgen, serve };
}

type Address = { base_url: string; api_key: string | null; webhook_secret: string };

const start = (base_url: string, key: string, idempotencyKey: string) =>
  fetch(`${base_url}/api/generate`, {
    method: "POST",
    headers: {
      Authorization: `Bearer ${key}`,
      "Content-Type": "application/json",
      "Idempotency-Key": idempotencyKey,
    },
    body: JSON.stringify({ prompt: "a fox", model: "wan-2.5" }),
  });

const look = async (base_url: string) => {
  const reply = await fetch(`${base_url}/readyz`);
  return [reply.status, await reply.json()];
};

describe.skipIf(postgresPrograms === undefined)("with a PostgreSQL database", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres({ fsync: false });
  });
  afterAll(() => server.close());

  test("the queue is the same from each process, and a start counts at the one that took it", async () => {
    const database = await server.createDatabase();
    const open = async () => {
      const { run } = await (await createMachine(database)).serve("--json", "--jobs", "0", "--metrics-port", "0");
      return JSON.parse(run.stdout) as Address & { metrics_url: string };
    };
    const [one, two] = [await open(), await open()];
    await start(one.base_url, one.api_key ?? "", "1");
    const figures = async ({ metrics_url }: { metrics_url: string }) =>
      (await (await fetch(metrics_url)).text()).match(/^vidgen_(starts_total|queue_length)\{model="wan-2.5"\} .*$/gm);
    const queue = 'vidgen_queue_length{model="wan-2.5"} 1';
    expect(await figures(one)).toEqual(['vidgen_starts_total{model="wan-2.5"} 1', queue]);
    expect(await figures(two)).toEqual(['vidgen_starts_total{model="wan-2.5"} 0', queue]);
  });

  test("the first process shows the key, a later one needs the address alone, and --owner-key makes more keys", async () => {
    const database = await server.createDatabase();
    const first = await createMachine(database);
    const one: Address = JSON.parse((await first.serve("--json", "--credits", "70")).run.stdout);
    expect(one.api_key).toMatch(/^vgs_/);
    const second = await createMachine(database);
    const two: Address = JSON.parse((await second.serve("--json", "--credits", "70")).run.stdout);
    expect(two).toMatchObject({ api_key: null, webhook_secret: one.webhook_secret });

    const third = await createMachine(database);
    const made = await third.vidgen("serve", "--owner-key");
    expect([made.code, made.stderr]).toEqual([0, expect.stringContaining("shown only once")]);
    const { api_key } = JSON.parse((await third.vidgen("serve", "--owner-key", "--json")).stdout);
    for (const key of [one.api_key ?? "", made.stdout.trim(), api_key]) {
      const reply = await start(two.base_url, key, "the same");
      expect(JSON.parse(await reply.text()).remaining_credits).toBe(60);
    }
  });

  test("--link and --owner-key change nothing in a database that no service of this version has used", async () => {
    const database = await server.createDatabase();
    const machine = await createMachine(database);
    const flags = ["--link", "--owner-key"];
    for (const flag of flags) {
      const { code, stdout, stderr } = await machine.vidgen("serve", flag);
      expect([code, stdout, stderr]).toEqual([2, "", expect.stringContaining("No service has used this database.")]);
    }
    expect(await query(database, "SELECT 1 FROM pg_namespace WHERE nspname = 'vidgen'")).toEqual([]);

    await (await createMachine(database)).serve("--json");
    for (const flag of flags) expect((await machine.vidgen("serve", flag)).code).toBe(0);
  });

  test("accounts and --link are those of the database that is named, and make no other service", async () => {
    const database = await server.createDatabase();
    const machine = await createMachine(database);
    Object.assign(machine.world.env, { VIDGEN_BASE_URL: undefined, VIDGEN_API_KEY: undefined });
    expect((await machine.vidgen("doctor", "--local")).stdout).toMatch(
      /fail {2}database {2} +No service has used this/,
    );
    const early = await machine.vidgen("accounts", "create", "ci", "--local");
    expect([early.code, early.stderr]).toEqual([2, expect.stringContaining("No service has used this database.")]);
    const { run, stop } = await (await createMachine(database)).serve("--json", "--page");
    const { base_url }: Address = JSON.parse(run.stdout);
    const made = await machine.vidgen("accounts", "create", "ci", "--credits", "20", "--local");
    expect(made.stderr).toMatch(/^Service: the database 127\.0\.0\.1:\d+\/\w+\n/);
    expect(made.stderr).toContain(`login --base-url ${base_url}`);
    const reply = await start(base_url, made.stdout.trim(), "1");
    expect(JSON.parse(await reply.text()).remaining_credits).toBe(10);
    const [, link = ""] = /within 10 minutes: (\S+)/.exec(made.stderr) ?? [];
    expect((await useLink(link)).status).toBe(200);
    expect((await useLink((await machine.vidgen("serve", "--link")).stdout.trim())).status).toBe(200);
    const databaseLine = new RegExp(`pass {2}database {2} +127\\.0\\.0\\.1:\\d+/\\w+, of a service at ${base_url}\\n`);
    expect((await machine.vidgen("doctor", "--local")).stdout).toMatch(databaseLine);
    expect(await machine.vidgen("accounts", "disable", "ci")).toMatchObject({ code: 0, stdout: "ci\n" });
    await expect
      .poll(async () => (await start(base_url, made.stdout.trim(), "2")).status, { timeout: 10_000 })
      .toBe(403);
    await stop();
    const { VIDGEN_DATABASE_URL = "" } = machine.world.env;
    machine.world.env.VIDGEN_DATABASE_URL = undefined;
    const listed = await machine.vidgen("accounts", "--database", VIDGEN_DATABASE_URL);
    expect(listed.stdout).toMatch(/^ci\t\d+\t1\t-\t-\tdisabled\nlocal\t/);
    expect(existsSync(join(machine.world.home, "service"))).toBe(false);
  });

  test("generate, batch, wait and agents with --local never use the service of the database", async () => {
    const database = await server.createDatabase();
    const { run } = await (await createMachine(database)).serve("--page");
    const { folder, vidgen, within } = await createSpawning();
    within.push("env", `VIDGEN_DATABASE_URL=${database}`);
    await expect.poll(() => run.stderr).toContain("Ctrl-C");
    const printed = run.stderr;
    const flags = ["--local", "-d", "0.5"];
    writeFileSync(join(folder, "shots.txt"), "an owl\n");
    const id = (await vidgen("generate", "a hare", ...flags, "--no-wait")).stdout.trim();
    for (const argv of [
      ["generate", "a fox", ...flags, "-o", "fox.mp4"],
      ["batch", "shots.txt", ...flags, "-o", "clips/"],
      ["wait", id, "-o", "hare.mp4"],
    ])
      expect(await vidgen(...argv)).toMatchObject({ code: 0 });
    const agent = await spawnAgent({ VIDGEN_HOME: join(folder, "home") }, folder, ["--local"], within);
    const made = (await agent.call("generate_video", { prompt: "a hen", duration: 0.5 })).value;
    const seen = await agent.call("get_video", { id: String(made.id), wait_seconds: 50 });
    expect(seen.value).toMatchObject({ status: "completed" });
    await agent.close();
    // Each request is a line of its log.
    expect(run.stderr).toBe(printed);
    expect(await query(database, "SELECT FROM vidgen.generations")).toEqual([]);
  });

  test("the link of a new account signs in at any process of the service until its key is revoked", async () => {
    const database = await server.createDatabase();
    const [first, second] = [await createMachine(database), await createMachine(database)];
    const one: Address = JSON.parse((await first.serve("--json")).run.stdout);
    const two: Address = JSON.parse((await second.serve("--json")).run.stdout);
    const manage = async (path: string, body: object) => {
      const headers = { Authorization: `Bearer ${one.api_key}`, "Content-Type": "application/json" };
      const reply = await fetch(`${one.base_url}/accounts${path}`, {
        method: "POST",
        headers,
        body: JSON.stringify(body),
      });
      return (await reply.json()) as { page_url: string };
    };
    const atTwo = ({ page_url }: { page_url: string }) => page_url.replace(one.base_url, two.base_url);
    const guest = await manage("", { name: "guest" });
    const reply = await useLink(atTwo(guest));
    const page = await fetch(two.base_url, { headers: { Cookie: cookieOf(reply) } });
    expect([page.status, await page.text()]).toEqual([
      200,
      expect.stringContaining('popovertarget="account">guest</button>'),
    ]);
    expect((await useLink(guest.page_url)).status).toBe(401);
    const other = await manage("", { name: "other" });
    await manage("/revoke", { revoke: "other" });
    // The other process learns of it within 5 s.
    await expect.poll(async () => (await fetch(atTwo(other))).status, { timeout: 10_000 }).toBe(401);
    expect((await useLink(atTwo(other))).status).toBe(401);
  });

  test("--rotate begins with another key, and the one before is refused", async () => {
    const database = await server.createDatabase();
    const first = await createMachine(database);
    const one: Address = JSON.parse((await first.serve("--json")).run.stdout);
    const second = await createMachine(database);
    const two: Address = JSON.parse((await second.serve("--json", "--rotate")).run.stdout);
    expect(two.api_key).toMatch(/^vgs_/);
    expect(two.webhook_secret).toBe(one.webhook_secret);
    const codes = async (key: string | null) => {
      const replies = [one, two].map(({ base_url }) => start(base_url, key ?? "", "the same"));
      return (await Promise.all(replies)).map(({ status }) => status);
    };
    expect([await codes(one.api_key), await codes(two.api_key)]).toEqual([
      [401, 401],
      [200, 200],
    ]);
  });

  test("a revoked key or account is useless, also at a process that has just accepted it", async () => {
    const database = await server.createDatabase();
    const first = await createMachine(database);
    let aheadMs = 0;
    first.world.io.now = () => systemClock.now() + aheadMs;
    const { base_url, api_key }: Address = JSON.parse((await first.serve("--json")).run.stdout);
    const second = await createMachine(database);
    const other: Address = JSON.parse((await second.serve("--json")).run.stdout);
    // Another process than the one that has accepted the key.
    const ask = async (path: string, body: object) => {
      const headers = { Authorization: `Bearer ${api_key}`, "Content-Type": "application/json" };
      return fetch(`${other.base_url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    };
    const revoke = async (revoked: string) => (await ask("/accounts/revoke", { revoke: revoked })).json();
    const makeKey = async () => JSON.parse(await (await ask("/accounts", { name: "ci" })).text()).api_key as string;
    const keys = [await makeKey(), await makeKey(), await makeKey()];
    const codes = () => Promise.all(keys.map(async (key) => (await start(base_url, key, key)).status));
    expect(await codes()).toEqual([200, 200, 200]);
    expect(await revoke(keys[0] ?? "")).toEqual({ revoked: 1 });
    aheadMs = 5_000;
    expect(await codes()).toEqual([401, 200, 200]);
    expect(await revoke("ci")).toEqual({ revoked: 2 });
    aheadMs = 10_000;
    expect(await codes()).toEqual([401, 401, 401]);
    expect((await start(base_url, api_key ?? "", "own")).status).toBe(200);
  });

  test("a person is told how to get a key, and what keeps other machines from going on with the work", async () => {
    const database = await server.createDatabase();
    const first = await createMachine(database);
    first.world.isTerminal = true;
    const { run: one } = await first.serve("--media", first.world.folder);
    await expect.poll(() => one.stderr).toContain("Ctrl-C");
    const [, key = ""] = /export VIDGEN_API_KEY=(vgs_\S+)/.exec(one.stderr) ?? [];
    expect(one.stderr).not.toMatch(/owner-key|this machine|another server/);
    // `--local` finds the service of this machine's folder, and not this one.
    const [, link = ""] = /(http\S+\?token=\S+)/.exec(one.stderr) ?? [];
    const Cookie = cookieOf(await useLink(link));
    const { data } = JSON.parse(await (await start(one.stdout.trim(), key, "one")).text());
    const page = await fetch(new URL(`/generations/${data.id}`, link), { headers: { Cookie } });
    expect(await page.text()).toContain(`--base-url ${one.stdout.trim()}`);
    const second = await createMachine(database);
    const { run: two } = await second.serve("--credits", "7", "--engine", "ray-3=http://localhost:8091");
    expect(two.stderr).toContain("export VIDGEN_BASE_URL=");
    expect(two.stderr).not.toMatch(/VIDGEN_API_KEY|whsec_|token=/);
    for (const line of [
      "To create another key, run this with the same database: vidgen serve --owner-key\n",
      "To add credits: vidgen accounts credits local <amount>\n",
      "Videos are stored on this machine only.",
      "http://localhost:8091 is a different server on each machine",
    ])
      expect(two.stderr).toContain(line);
  });

  test("with --jobs 0, a process answers, and asks no engine", async () => {
    const machine = await createMachine(await server.createDatabase());
    const { run } = await machine.serve("--json", "--jobs", "0", "--engine", "wan-2.5=http://gpu-1:8091");
    const { base_url, engines } = JSON.parse(run.stdout);
    const ok = { status: "ok", database: "ok", media: "ok", clock_difference_seconds: expect.any(Number) };
    expect([engines, await look(base_url)]).toEqual([[], [200, { ...ok, engines: "unused" }]]);
    expect(machine.world.requests).toEqual([]);
  });

  test("while the database is stopped, every request is refused and the operator gets one note; afterwards all work resumes", async () => {
    const machine = await createMachine(await server.createDatabase());
    const { run } = await machine.serve("--credits", "1000");
    const base_url = run.stdout.trim();
    const api_key = (await machine.vidgen("serve", "--owner-key")).stdout.trim();
    expect((await look(base_url))[0]).toBe(200);
    await server.stop("SIGINT");
    for (const key of ["a", "b", "c"]) {
      const reply = await start(base_url, api_key, key);
      expect([reply.status, reply.headers.get("Retry-After")]).toEqual([503, "5"]);
    }
    await expect.poll(async () => (await look(base_url))[1]).toMatchObject({ status: "unavailable", media: "ok" });
    expect((await fetch(`${base_url}/healthz`)).status).toBe(200);
    await server.start();
    await expect.poll(async () => (await look(base_url))[0]).toBe(200);
    expect((await start(base_url, api_key, "a")).status).toBe(200);
    expect(run.stderr.match(/The database cannot be reached/g)).toHaveLength(1);
    const { remaining_credits } = JSON.parse(await (await start(base_url, api_key, "a")).text());
    expect(remaining_credits).toBe(990);
  });

  test("a database that cannot be opened is an error that says why", async () => {
    const database = await server.createDatabase();
    const machine = await createMachine(`${database}x`);
    const missing = await machine.vidgen("serve");
    expect([missing.code, missing.stderr]).toEqual([2, expect.stringContaining('x" does not exist')]);
    machine.world.env.VIDGEN_DATABASE_URL = `postgres://vidgen:${password}@127.0.0.1:1/vidgen`;
    for (const flags of [[], ["--owner-key"]]) {
      const away = await machine.vidgen("serve", ...flags);
      expect([away.code, away.stderr]).toEqual([8, expect.stringMatching(/cannot be reached: .*ECONNREFUSED/)]);
    }
  });
});
