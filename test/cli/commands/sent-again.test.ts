import { appendFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { aPng } from "../../server/queue/pictures.ts";
import { createWorld, type Fault, failure, isStart, kill, onStart, type World } from "../../vidgen.ts";

// A start without a usable response, at a service that says it keeps idempotency keys: it is sent again with its key, which charges once.

const keysOf = (world: World) => world.requests.filter(isStart).map(({ headers }) => headers.get("Idempotency-Key"));
const isProbe = (request: Request) => request.url.includes("generation-status?id=00000000");
const page = (status: number) =>
  new Response("<h1>Bad Gateway</h1>", { status, headers: { "Content-Type": "text/html" } });

/** The service starts the generation, and its first reply is lost. */
function loseReply(): Fault {
  let isLost = false;
  return async (request, world) => {
    if (!isStart(request) || isLost) return undefined;
    isLost = true;
    await world.start(request);
    throw failure("ECONNRESET", true);
  };
}

const isMute: Fault = (request) => (isProbe(request) ? page(502) : undefined);

/** What the account has paid for. */
async function charged(world: World): Promise<number> {
  world.faults.length = 0;
  const { stdout } = await world.vidgen("generate", "something else", "--no-wait", "--json");
  return (1000 - JSON.parse(stdout).remaining_credits) / 10 - 1;
}

/** Writes the lease of an attempt, as its live process has it, and returns the id of that process. */
async function lead(world: World, attempt: string, { machine }: { machine?: string | undefined } = {}) {
  const self = await world.io.processes.self();
  const lease = join(world.home, "journal.jsonl.leases", attempt);
  rmSync(lease, { recursive: true, force: true });
  mkdirSync(lease, { recursive: true });
  writeFileSync(join(lease, [machine ?? self.machine, self.namespace, self.pid, self.start, "token"].join("_")), "");
  return self.pid;
}

const entries = async (world: World) => JSON.parse((await world.vidgen("list", "--json")).stdout);

describe("in the same process", () => {
  test("its generation is found, and saved", async () => {
    const world = await createWorld({ keepsKeys: true });
    world.faults.push(loseReply());
    const run = await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"));
    expect(run.stderr).toContain("Sending the same request again; this service charges it once.");
    expect(run.code).toBe(0);
    const [first, second, ...others] = keysOf(world);
    expect([second, others]).toEqual([first, []]);
    expect((await entries(world)).map(({ status }: { status: string }) => status)).toEqual(["completed"]);
    expect(await charged(world)).toBe(1);
  });

  test("a service that restarts behind a proxy is asked until it answers", async () => {
    const world = await createWorld({ keepsKeys: true });
    const isDown = () => world.io.now() < 6_000;
    world.faults.push(() => (isDown() ? page(502) : undefined));
    const run = await world.vidgen("generate", "a fox");
    expect(run.stderr).toContain("No usable response; asking the service whether it has the request.");
    expect([run.code, keysOf(world).length]).toEqual([0, 2]);
  });

  test("without an answer for ten seconds, it may have been charged", async () => {
    const world = await createWorld({ keepsKeys: true });
    world.faults.push(() => page(502));
    const run = await world.vidgen("generate", "a fox");
    expect([run.code, keysOf(world).length]).toEqual([6, 1]);
    expect(world.io.now()).toBeLessThan(21_000);
  });

  test("it is sent again once", async () => {
    const world = await createWorld({ keepsKeys: true });
    world.faults.push(onStart(() => page(502)));
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 6 });
    expect(keysOf(world)).toHaveLength(2);
  });

  test.each([409, 422])(
    "if its key is refused as used (%i), it may have been charged, and the same line pays for no other",
    async (status) => {
      const world = await createWorld({ keepsKeys: true });
      const error = {
        code: "idempotency_key_reused",
        message: "this Idempotency-Key was already used with another body",
      };
      world.faults.push(
        loseReply(),
        onStart(() => Response.json({ error }, { status })),
      );
      for (let times = 0; times < 2; times++)
        expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 6 });
      expect(new Set(keysOf(world)).size).toBe(1);
      expect(await charged(world)).toBe(1);
    },
  );

  test("Ctrl-C while the service is asked ends it at once", async () => {
    const world = await createWorld({ keepsKeys: true });
    world.faults.push(loseReply(), (request) => {
      if (isProbe(request)) world.press("Ctrl-C");
      return undefined;
    });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 6 });
    expect(keysOf(world)).toHaveLength(1);
  });
});

describe("by the same line later", () => {
  /** A start whose process is killed after the service has accepted it. */
  const killed = (world: World, ...line: string[]) => {
    const isAccepted = (request: Request) => {
      if (isStart(request)) void world.start(request.clone());
      return isStart(request);
    };
    return kill(world, isAccepted, ...line);
  };

  test.each([
    ["generate", "a fox"],
    ["generate", "a fox", "--reuse"],
    ["generate", "a fox", "-n", "2"],
  ])("%s %s %s %s", async (...line) => {
    const world = await createWorld({ keepsKeys: true });
    world.faults.push(loseReply(), isMute);
    expect(await world.vidgen(...line)).toMatchObject({ code: 6 });
    const sent = keysOf(world);
    world.faults.length = 0;
    world.reboot();
    const dry = await world.vidgen(...line, "--dry-run");
    expect(dry.stdout).toContain("only if the service says that it recognizes this key");
    expect(keysOf(world)).toEqual(sent);
    expect(await world.vidgen(...line)).toMatchObject({ code: 0 });
    expect(keysOf(world).filter((key) => key === sent[0])).toHaveLength(2);
    const statuses = (await entries(world)).map(({ status }: { status: string }) => status).sort();
    const made = line.includes("-n") ? 2 : 1;
    expect(statuses).toEqual([...Array(made).fill("completed"), "dismissed"]);
    expect(await charged(world)).toBe(made);
  });

  test.each<[string, object | undefined, string[]]>([
    ["a value from vidgen.json", { model: "veo-3.1" }, []],
    ["an output path from vidgen.json, of several", { output: "clips/" }, ["-n", "2"]],
    ["an image on stdin", undefined, ["-i", "-"]],
  ])("with %s, which has not changed since", async (_, project, flags) => {
    const world = await createWorld({ keepsKeys: true });
    if (project) writeFileSync(join(world.folder, "vidgen.json"), JSON.stringify(project));
    world.stdin = Buffer.from(aPng(30, 20));
    const line = ["generate", "a fox", ...flags];
    await killed(world, ...line);
    const run = await world.vidgen(...line);
    expect(run).toMatchObject({ code: 0 });
    expect(await charged(world)).toBe(flags.includes("-n") ? 2 : 1);
  });

  test("after that one was delivered, the same line starts another one", async () => {
    const world = await createWorld({ keepsKeys: true });
    await killed(world, "generate", "a fox");
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect(new Set(keysOf(world)).size).toBe(2);
    expect(await charged(world)).toBe(2);
  });

  test("with another API key nothing is sent: to another account, the key may be a new one", async () => {
    const world = await createWorld({ keepsKeys: true });
    await killed(world, "generate", "a fox");
    world.env.VIDGEN_API_KEY = "another-key-0123456789";
    const headers = { "Idempotency-Key-Lifetime": "86400" };
    world.faults.push((request) => (isProbe(request) ? Response.json({}, { status: 404, headers }) : undefined));
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 6 });
    expect(keysOf(world)).toHaveLength(1);
  });

  test("beside another unclear start of the same line nothing is sent", async () => {
    const world = await createWorld({ keepsKeys: true });
    await killed(world, "generate", "a fox");
    const journal = join(world.home, "journal.jsonl");
    const [intent = ""] = readFileSync(journal, "utf8").split("\n");
    const attempt = "6a1e8f4c-0f8e-4c55-9c3b-3f0a9d6f8b21";
    appendFileSync(journal, `${JSON.stringify({ ...JSON.parse(intent), attempt })}\n`);
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 6 });
    expect(keysOf(world)).toHaveLength(1);
  });

  test("a key that the service may have forgotten is not sent", async () => {
    const world = await createWorld({ keepsKeys: true });
    await killed(world, "generate", "a fox");
    // An hour less than that counts.
    const headers = { "Idempotency-Key-Lifetime": "3600" };
    world.faults.push((request) => (isProbe(request) ? Response.json({}, { status: 404, headers }) : undefined));
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 6 });
    expect(keysOf(world)).toHaveLength(1);
  });

  test("an attempt that was not sent does not hide the one before it", async () => {
    const world = await createWorld({ keepsKeys: true });
    await killed(world, "generate", "a fox", "-o", join(world.folder, "fox.mp4"));
    const { disk } = world.io;
    const open = (async (...how: Parameters<typeof disk.open>) => {
      if (how[0].endsWith(".part")) throw Object.assign(new Error("denied"), { code: "EACCES" });
      return disk.open(...how);
    }) as typeof disk.open;
    Object.assign(world.io, { disk: { ...disk, open } });
    expect((await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"))).code).toBe(9);
    Object.assign(world.io, { disk });
    expect(await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"))).toMatchObject({ code: 0 });
    expect(new Set(keysOf(world)).size).toBe(1);
    expect(await charged(world)).toBe(1);
  });
});

describe("attempts that share a key are one", () => {
  const named = (number: number) => `6a1e8f4c-0f8e-4c55-9c3b-3f0a9d6f8b2${number}`;

  /** A start without a usable response, and two more sends of its key; `more` are lines about the last one. */
  const sentThreeTimes = async (...more: object[]) => {
    const world = await createWorld();
    world.faults.push(onStart(() => page(502), 1));
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 6 });
    world.reboot();
    const path = join(world.home, "journal.jsonl");
    const read = () =>
      readFileSync(path, "utf8")
        .split("\n")
        .filter((line) => line.trim() !== "");
    const [intent] = read().map((line) => JSON.parse(line));
    const { attempt, at } = intent;
    const again = { resend_of: attempt, first_sent_at: at };
    const lines = [1, 2].map((number) => ({ ...intent, ...again, attempt: named(number) }));
    for (const line of [...lines, ...more]) appendFileSync(path, `${JSON.stringify({ at, ...line })}\n`);
    return { world, attempt, read };
  };

  test("--dismiss is about all of them", async () => {
    const { world, attempt } = await sentThreeTimes();
    expect(await world.vidgen("list", "--dismiss", named(1))).toMatchObject({
      code: 0,
      stderr: expect.stringContaining(attempt),
    });
    expect(new Set((await entries(world)).map(({ status }: { status: string }) => status))).toEqual(
      new Set(["dismissed"]),
    );
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
  });

  test.each(["running", "delivered"])("--dismiss of none of them if one is %s", async (state) => {
    const id = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";
    const delivered = state === "delivered" ? [{ kind: "delivered", id }] : [];
    const { world, attempt, read } = await sentThreeTimes({ kind: "accepted", attempt: named(2), id }, ...delivered);
    const before = read();
    expect(await world.vidgen("list", "--dismiss", attempt)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(id),
    });
    expect(read()).toEqual(before);
  });

  test.each([["--dismiss"], ["--forget", "--yes"]])(
    "%s is refused while a live process has one of them",
    async (flag, ...flags) => {
      const { world, attempt, read } = await sentThreeTimes();
      const pid = await lead(world, named(2));
      const before = read();
      expect(await world.vidgen("list", flag, attempt, ...flags)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining(`process ${pid} works on it (attempt ${named(2)})`),
      });
      expect(read()).toEqual(before);
    },
  );

  test("--forget asks about each that may have been charged, and removes all", async () => {
    const { world, attempt, read } = await sentThreeTimes();
    const before = read();
    const refused = await world.vidgen("list", "--forget", attempt);
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringMatching(/vidgen list --forget \S+ --yes/) });
    for (const name of [attempt, named(1), named(2)]) expect(refused.stderr).toContain(name);
    expect(read()).toEqual(before);
    Object.assign(world, { isTerminal: true, columns: 400 });
    const question = [attempt, named(1), named(2)].join(", ");
    const answer = async (key: string) => {
      world.answers = [["Remove from the journal anyway?", key]];
      return world.vidgen("list", "--forget", attempt);
    };
    const declined = await answer("n\r");
    expect([declined.code, read()]).toEqual([130, before]);
    for (const name of question.split(", ")) expect(declined.stderr).toContain(name);
    expect(await answer("y\r")).toMatchObject({ code: 0 });
    expect(read()).toEqual([]);
  });

  test("--forget --yes asks nothing", async () => {
    const { world, attempt, read } = await sentThreeTimes();
    expect(await world.vidgen("list", "--forget", attempt, "--yes")).toMatchObject({ code: 0 });
    expect(read()).toEqual([]);
  });
});

test.each<[string, { isAnswered?: boolean; machine?: string }, string[], RegExp]>([
  ["unknown, alive", { isAnswered: true }, [], /got no usable response, and its process is still working on it/],
  ["sending, alive", {}, ["--reuse"], /another process is starting the same request/],
  [
    "sending, unsure",
    { machine: "another" },
    [],
    /up to 60 s it is not known whether the process .*on another machine/,
  ],
])("a dry run says why it would wait: %s", async (_, { isAnswered, machine }, flags, says) => {
  const world = await createWorld();
  await kill(world, isStart, "generate", "a fox");
  const path = join(world.home, "journal.jsonl");
  const [{ attempt, at }] = readFileSync(path, "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  const unknown = { at, kind: "unknown", attempt, reason: "a page" };
  if (isAnswered) appendFileSync(path, `${JSON.stringify(unknown)}\n`);
  await lead(world, attempt, { machine });
  const before = readFileSync(path, "utf8");
  const run = await world.vidgen("generate", "a fox", "--dry-run", ...flags);
  expect([run.code, run.stdout]).toEqual([0, expect.stringMatching(says)]);
  expect(run.stdout).toMatch(new RegExp(`Would wait: .*${attempt}`));
  expect(readFileSync(path, "utf8")).toBe(before);
});
