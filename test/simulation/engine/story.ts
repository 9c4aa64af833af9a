import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Outbound } from "../../../src/server/outbound/outbound.ts";
import { openStore } from "../../../src/server/store/sqlite/sqlite-store.ts";
import { createRandom } from "../../faults/random.ts";
import { Broken } from "../rules.ts";
import { createSchedule } from "../schedule.ts";
import { createDatabaseServer, type DatabaseServer } from "./database.ts";
import { createImageHost, imageUrlOf } from "./images.ts";
import { patchNode } from "./patches.ts";
import type { Act, CancelState, EnginePlan, Generation } from "./plan.ts";
import type { EngineProbe } from "./probes.ts";
import { createProcess, type DiskFault, type Process } from "./process.ts";
import { createProvider, engineUrls } from "./provider.ts";
import { createEngineRules, type Told } from "./rules.ts";
import { accounts, credits, model, modelsOf, openServe, type Serve } from "./serve.ts";
import { watch } from "./watch.ts";

/** How a story went; as in `../story.ts`. */
export type PlayedEngine = {
  broken: { rule: number; message: string } | undefined;
  lines: string[];
  steps: number;
  probes: ReadonlySet<EngineProbe>;
};

/** What the service answers. */
type Json = Omit<Told, "error"> & { data?: { id?: string }; error?: never };

const cancelProbes = {
  submitting: "a cancel meets a create",
  queued: "a cancel meets a job that waits",
  running: "a cancel meets a job that runs",
  ready: "a cancel meets a finished job",
} as const satisfies Record<CancelState, EngineProbe>;

const maxSteps = 300_000;
/** Time for the longest pauses of an engine, and for its patience with a job, one after the other. */
const maxMs = 6 * 3_600_000;
const api = "https://api.test";

/** Plays a story of the service and its provider to its end. The same plan gives the same story, to the byte. */
export async function playEngine(plan: EnginePlan, { tells = false }: { tells?: boolean } = {}): Promise<PlayedEngine> {
  await warmUp();
  const root = mkdtempSync(join(tmpdir(), "vidgen-story-"));
  const closeDatabases = keepDatabases();
  try {
    return await playIn(plan, { tells, root });
  } finally {
    // The connections of dead processes, too: only now, since closing one changes its file.
    closeDatabases();
    rmSync(root, { recursive: true, force: true });
  }
}

/** What a story loads must not take time in it. */
let warm: Promise<void> | undefined;
function warmUp(): Promise<void> {
  warm ??= openStore(":memory:").then((store) => store.close());
  return warm;
}

type Connection = {
  exec(sql: string): void;
  all(sql: string): Record<string, unknown>[];
  get(sql: string): Record<string, unknown> | null;
  prepare(sql: string): { finalize(): void };
  close(): void;
};
type Sqlite = { Database: new (...args: unknown[]) => Connection };

const sqlite = createRequire(import.meta.url)("node-sqlite3-wasm") as Sqlite;

/** Opens a database file that nobody else uses. */
function openNow(file: string): Connection {
  const database = new sqlite.Database(file);
  database.exec("PRAGMA locking_mode = EXCLUSIVE");
  return database;
}

/**
 * Returns what closes all databases that were opened since. A process that was killed has finalized none of its statements, and SQLite keeps a
 * connection, with its file descriptor, until the last of them is.
 */
function keepDatabases(): () => void {
  const { Database } = sqlite;
  const opened: Connection[] = [];
  const prepared: { finalize(): void }[] = [];
  sqlite.Database = class extends Database {
    constructor(...args: unknown[]) {
      super(...args);
      opened.push(this);
    }
    override prepare(sql: string) {
      const statement = super.prepare(sql);
      prepared.push(statement);
      return statement;
    }
  };
  return () => {
    sqlite.Database = Database;
    const ends = [...prepared.map((each) => () => each.finalize()), ...opened.map((each) => () => each.close())];
    for (const end of ends) {
      try {
        end();
      } catch {
        // It has ended already, or its files are gone.
      }
    }
  };
}

async function playIn(plan: EnginePlan, { tells, root }: { tells: boolean; root: string }): Promise<PlayedEngine> {
  const random = createRandom(`${plan.seed}/story`);
  const lives = new Map<string, Process>();
  const probes = new Set<EngineProbe>();
  const patched = patchNode({
    random: random.fork("node"),
    root,
    processOf: (name) => lives.get(name),
    onRefused(fault, path) {
      if (!path.endsWith(".mp4")) probes.add("a database cannot be written");
      else
        probes.add(
          fault === "no descriptors" ? "there is no descriptor for a video" : "the disk is full while a video is saved",
        );
    },
  });
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return await tellStory({ plan, tells, root, lives, probes, isBusy: patched.isBusy });
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
    for (const process of lives.values()) process.end();
    patched.restore();
  }
}

type Telling = {
  plan: EnginePlan;
  tells: boolean;
  root: string;
  lives: Map<string, Process>;
  probes: Set<EngineProbe>;
  isBusy(): boolean;
};

async function tellStory({ plan, tells, root, lives, probes, isBusy }: Telling): Promise<PlayedEngine> {
  const schedule = createSchedule({ isBusy });
  const lines: string[] = [];
  const tell = (text: () => string) => {
    if (tells) lines.push(`${(schedule.now() / 1000).toFixed(3).padStart(9)} s  ${text()}`);
  };
  const reach = (probe: EngineProbe) => void probes.add(probe);
  let broken: PlayedEngine["broken"];
  const fail = ({ rule, message }: Broken) => {
    tell(() => `BROKEN: ${message}`);
    broken ??= { rule, message };
  };
  const wait = (ms: number) =>
    new Promise<void>((resolve) => {
      schedule.add({ at: schedule.now() + ms, order: -1, run: resolve });
    });

  const generations = plan.acts.flatMap((act) => (act.what === "start" ? [act.generation] : []));
  const generationOf = (name: string): Generation => {
    const found = generations.find((each) => each.name === name);
    if (!found) throw new Error(`nobody has started ${name}`);
    return found;
  };
  const state = join(root, "state");
  mkdirSync(state);
  let isHealed = false;
  const aheadMs = Array.from({ length: plan.processes }, (_, index) => plan.aheadMs?.[index] ?? 0);
  const inTrouble = (machine: number): DiskFault | undefined => {
    if (isHealed) return undefined;
    const now = schedule.now();
    return plan.diskTroubles.find((each) => each.machine === machine && each.from <= now && now < each.to)?.kind;
  };
  const machineOf = (process: Process) => Number(process.name.slice(1).split("-")[0]) - 1;
  let database: DatabaseServer | undefined;
  const provider = createProvider({
    schedule,
    random: createRandom(`${plan.seed}/provider`),
    plan,
    generationOf,
    reach,
    onCreate(create) {
      tell(
        () =>
          `the engine ${create.engine + 1} gets a create for ${create.generation.name} from ${create.process.name}: "${create.reply}"${create.job ? `, and makes ${create.job.id}` : ""}`,
      );
      rules.onCreate(create);
    },
    onAnswer: (create) => tell(() => `${create.process.name} has the answer for ${create.generation.name}`),
  });
  const imageHost = createImageHost({
    now: schedule.now,
    imageOf: (name) => generationOf(name).image,
    onAsked: (name, reply) => tell(() => `the host of images is asked for that of ${name}: "${reply}"`),
  });
  const rules = createEngineRules({
    plan,
    images: imageHost.asked,
    now: schedule.now,
    generationOf,
    provider: () => provider,
    reach,
    onBroken: fail,
    isHolder(process, id) {
      if (database) return database.isHolder(id, process);
      const names = readdirSync(join(state, "lease"));
      return names.some((name) => name.split("_")[2] === String(process.id.pid));
    },
  });
  if (plan.store === "shared") {
    const server = await openStore(join(state, "service.db"));
    database = createDatabaseServer(watch(server, rules), {
      schedule,
      processOf: (name) => lives.get(name),
      reach,
      upForMs(process) {
        if (inTrouble(machineOf(process)) === "I/O errors") {
          reach("a database cannot be written");
          return 0;
        }
        const ends = plan.diskTroubles.filter(({ kind, to }) => kind === "I/O errors" && to <= schedule.now());
        return schedule.now() - Math.max(-60_000, ...ends.map(({ to }) => to));
      },
    });
  }

  const failures = new Map<string, number>();
  const postFor =
    (process: () => Process): Outbound["post"] =>
    (url, { headers, body, signal }) =>
      process().call("callback", async () => {
        const name = new URL(url).pathname.slice(1);
        const failed = failures.get(name) ?? 0;
        const isTaken = isHealed || failed >= plan.callbackFailures;
        failures.set(name, failed + 1);
        tell(() => `the callback of ${name} comes from ${process().name}: ${body}`);
        rules.onCallback(name, { id: headers["webhook-id"] ?? "", body, isTaken });
        signal.throwIfAborted();
        return { status: isTaken ? 204 : 500 };
      });

  const serves: (Serve | undefined)[] = Array.from({ length: plan.processes });
  const alive: (Process | undefined)[] = Array.from({ length: plan.processes });
  const counts = Array.from({ length: plan.processes }, () => 0);
  /** The engines that the owner's file names. */
  let { used } = plan;
  let nextPid = 100;
  const announced = { runs: 0 };
  /** Whether a copy is in the database's place, and its owner says so. */
  let copy: "none" | "unsaid" | "said" = "none";
  /** Nothing is started while the file is replaced. */
  let isDown = false;
  const live = (index: number): void => {
    // After a restored copy, the one that was stopped for it is also due to come back.
    if (isDown || alive[index]) return;
    const life = counts[index] ?? 0;
    counts[index] = life + 1;
    const name = `P${index + 1}-${life + 1}`;
    symlinkSync("state", join(root, name));
    const own = createProcess(
      {
        name,
        id: { machine: "m", namespace: plan.isApart ? String(index) : "1", pid: nextPid, start: String(nextPid++) },
        random: createRandom(`${plan.seed}/${name}`),
        mishaps: isHealed ? [] : (plan.mishaps[index]?.[life] ?? []),
        callMs: plan.callMs,
        aheadMs: () => aheadMs[index] ?? 0,
        diskFault: () => inTrouble(index),
        onMishap(mishap) {
          const when = `${mishap.isAfter ? "after" : "before"} its ${mishap.on} ${mishap.nth}`;
          tell(
            () => `${name} is ${mishap.what} ${when}${mishap.what === "frozen" ? ` for ${mishap.ms / 1000} s` : ""}`,
          );
          if (mishap.what === "killed") onKilled(index, own);
        },
        onStop: () => void stop(index),
      },
      schedule,
    );
    lives.set(name, own);
    alive[index] = own;
    tell(() => `${name} starts`);
    void open(index, own);
  };
  const use = (serve: Serve) => {
    rules.onUse(serve.process, used);
    serve.use(used);
  };
  const open = async (index: number, process: Process) => {
    for (;;) {
      try {
        const serve = await openServe({
          plan,
          process,
          folder: join(root, process.name),
          database,
          startOf: (pid) =>
            alive.find((each) => each?.id.pid === pid && each.id.namespace === process.id.namespace)?.id.start,
          provider,
          used,
          isKeyLost: () => plan.isKeyLost && !isHealed,
          rules,
          post: postFor(() => process),
          get: imageHost.getFor(process),
          reach,
          announced,
          isRestored: copy === "said",
          onLost: () => over(index, process),
          tell,
        });
        if (serve) {
          if (copy === "unsaid") fail(new Broken(9, "a restored copy is served, and nobody has said that it is one"));
          serves[index] = serve;
          use(serve);
          tell(() => `${process.name} is open`);
          return;
        }
      } catch (error) {
        if (copy === "unsaid" && /--restored/.test(String(Object(error).hint))) {
          reach("a restored copy is refused");
          copy = "said";
        }
        // The time at which SQLite has marked a copy is not that of the story.
        const reason = error instanceof Error ? error.message.replace(/, made at \S+/, "") : error;
        tell(() => `${process.name} cannot open: ${reason}`);
        return over(index, process, 5_000);
      }
      await process.clock.sleep(5_000);
    }
  };
  /** A process has ended; a new one follows. */
  const over = (index: number, process: Process, pauseMs = plan.restartsMs) => {
    if (alive[index] !== process) return;
    alive[index] = undefined;
    serves[index] = undefined;
    process.end();
    schedule.add({ at: schedule.now() + pauseMs, order: -1, run: () => live(index) });
  };
  const dying = (process: Process) => {
    const creates = provider.creates.filter((each) => each.process === process);
    if (creates.some(({ answeredAt }) => answeredAt === undefined)) return "a process dies while it submits";
    const going = creates.some(({ job }) => job && !provider.hasEnded(job));
    return going ? "a process knows a job when it dies" : undefined;
  };
  const onKilled = (index: number, process: Process) => {
    const probe = dying(process);
    if (probe) reach(probe);
    over(index, process);
  };
  const stop = async (index: number) => {
    const [serve, process] = [serves[index], alive[index]];
    if (!serve || !process || serve.process !== process) return;
    serves[index] = undefined;
    process.stoppedAt = schedule.now();
    if (dying(process) === "a process dies while it submits") reach("a process is stopped while it submits");
    let isClosed = false;
    const onClosed = () => {
      isClosed = true;
    };
    void serve.close().then(onClosed, (error) => fail(new Broken(0, String(error))));
    // It may be killed while it stops.
    while (!isClosed && !process.isOver()) await wait(100);
    if (process.isOver()) return;
    tell(() => `${process.name} has stopped`);
    over(index, process);
  };

  /** Whoever answers requests now. */
  const anyServe = () => serves.find((serve) => serve && !serve.process.isOver() && !serve.process.isFrozen());
  /** Its answer, in JSON; `undefined` when none comes. */
  const ask = async (
    path: string,
    account: keyof typeof accounts,
    { waitMs = 20_000, ...init }: RequestInit & { headers?: Record<string, string>; waitMs?: number } = {},
  ) => {
    const serve = anyServe();
    if (!serve) return undefined;
    const headers = { Authorization: `Bearer ${accounts[account]}`, ...init.headers };
    const response = serve.service.api(new Request(`${api}${path}`, { ...init, headers }));
    const answered = Promise.resolve(response).then(async (each) => ({
      status: each.status,
      json: (await each.json()) as Json,
    }));
    return Promise.race([answered, wait(waitMs).then(() => undefined)]);
  };
  const ids = new Map<string, string>();
  const ends = new Map<string, Told>();
  /** Those that somebody has started, or tries to. */
  const begun = new Set<string>();
  const start = async (generation: Generation) => {
    const { name, account, hasCallback, image } = generation;
    begun.add(name);
    const body = JSON.stringify({
      prompt: name,
      model,
      ...(image && { imageUrl: imageUrlOf(name) }),
      ...(hasCallback && { callback_url: `https://hooks.test/${name}` }),
    });
    // A client asks how long keys are kept, and sends nothing again to a service that was restored since.
    for (let tries = 0; !isDone && !gone.has(name); tries++) {
      if (tries === 1) reach("a start is sent again with its key");
      const answer = await ask("/api/generate", account, {
        method: "POST",
        headers: { "Content-Type": "application/json", "Idempotency-Key": `key of ${name}` },
        body,
      });
      const id: unknown = answer?.json?.data?.id;
      if (typeof id === "string") {
        ids.set(name, id);
        break;
      }
      if (answer && answer.status < 500)
        fail(new Broken(0, `the start of ${name} is answered ${answer.status} ${JSON.stringify(answer.json)}`));
      await wait(answer ? 2_000 : 500);
    }
    tell(() => `${name} is started`);
    await followUntilEnded(generation);
  };
  const followUntilEnded = async (generation: Generation) => {
    for (let ms = 1_000; !isDone && !ends.has(generation.name); ms = Math.min(2 * ms, 60_000)) {
      await wait(ms);
      await look(generation);
    }
  };
  const look = async ({ name, account }: Generation): Promise<Told | undefined> => {
    // Nothing ends between the answer and the look at it: it is given in one turn.
    const answer = await ask(`/api/generation-status?id=${ids.get(name)}`, account);
    const told: Told | undefined = answer?.status === 200 ? answer.json : undefined;
    if (told && told.status !== "processing") {
      const before = ends.get(name);
      if (!before) tell(() => `${name} has ended: ${JSON.stringify(told)}`);
      if (!before) ends.set(name, told);
      else if (JSON.stringify(before) !== JSON.stringify(told)) fail(new Broken(8, `${name} ended twice`));
      rules.onStatus(name, told);
    }
    return told;
  };
  const stateOf = (name: string): CancelState | undefined => {
    const create = provider.creates.findLast(({ generation }) => generation.name === name);
    if (!create) return undefined;
    if (create.answeredAt === undefined) return "submitting";
    const { job } = create;
    if (!job) return undefined;
    if (provider.hasEnded(job)) return "ready";
    return schedule.now() < job.createdAt + job.generation.waitsMs ? "queued" : "running";
  };
  const cancel = async ({ name, when }: Extract<Act, { what: "cancel" }>) => {
    while (when !== undefined && (stateOf(name) !== when || !ids.has(name))) {
      if (isHealed || ends.has(name)) return;
      await wait(100);
    }
    const id = ids.get(name);
    if (id === undefined) return;
    const state = stateOf(name);
    if (state && !ends.has(name)) reach(cancelProbes[state]);
    const answer = await ask(`/api/cancel?id=${id}`, generationOf(name).account, { method: "POST", waitMs: 100_000 });
    tell(() => `the cancel of ${name} is answered ${answer?.status} ${JSON.stringify(answer?.json)}`);
    if (answer?.status === 409) reach("a cancel comes too late");
    if (answer) rules.onCancelAnswer(name, answer.status, JSON.stringify(answer.json));
    if (/has not confirmed it/.test(JSON.stringify(answer?.json)))
      reach("a job is told to stop, which is not confirmed");
  };
  const reload = async ({ used: next, apartMs }: Extract<Act, { what: "reload" }>) => {
    tell(() => `the engines are ${next.map((index) => engineUrls[index]).join(", ")}`);
    if (used.some((index) => !next.includes(index))) reach("an engine drains");
    used = next;
    isReloaded = true;
    for (const serve of [...serves]) {
      // A frozen process reads it when it wakes up.
      serve?.process.after(0, () => {
        use(serve);
        void checkModels(serve);
      });
      await wait(apartMs);
    }
  };
  const remove = async ({ name, isAcknowledged }: Extract<Act, { what: "delete" }>) => {
    while (!ends.has(name)) {
      if (isDone) return;
      await wait(5_000);
    }
    if (ends.get(name)?.error_code !== "unclear") return;
    const path = `/v1/videos/${ids.get(name)}`;
    const { account } = generationOf(name);
    const answer = await ask(path, account, { method: "DELETE" });
    if (answer && answer.status < 500) rules.onDeleted(name, answer.status, { isAcknowledged: false });
    if (!isAcknowledged) return;
    removed.add(name);
    const known = await ask(`${path}?acknowledged=unclear`, account, { method: "DELETE" });
    if (known && known.status < 500 && known.status !== 404) rules.onDeleted(name, known.status, { isAcknowledged });
  };
  /** A create of a model that nobody makes is told which there are. */
  const checkModels = async ({ process, service }: Serve) => {
    const now = used;
    const models = [...new Set(now.flatMap(modelsOf))];
    const response = await service.api(
      new Request(`${api}/v1/videos`, {
        method: "POST",
        headers: { Authorization: `Bearer ${accounts.local}`, "Content-Type": "application/json" },
        body: JSON.stringify({ prompt: "x", model: "made by nobody" }),
      }),
    );
    if (response.status !== 400 || used !== now) return;
    reach("a reload changes which models are served");
    rules.onModels(process, await response.text(), models);
  };
  const happen = (act: Act) => {
    switch (act.what) {
      case "start":
        if (isReloaded) reach("a start follows a reload");
        return void start(act.generation);
      case "delete":
        return void remove(act);
      case "cancel":
        return void cancel(act);
      case "clock":
        aheadMs[act.machine] = act.aheadMs;
        reach("the clock jumps");
        return tell(() => `the clock of machine ${act.machine + 1} jumps by ${act.aheadMs / 1000} s`);
      case "stop":
        return void stop(act.process);
      case "reload":
        return void reload(act);
      default: {
        const process = alive[act.process];
        if (!process) return;
        tell(() => `${process.name}: ${act.what}${act.what === "freeze" ? ` for ${act.ms / 1000} s` : ""}`);
        if (act.what === "freeze") return process.freeze(act.ms);
        process.end();
        return onKilled(act.process, process);
      }
    }
  };

  let isReloaded = false;
  /** Those whose record was deleted, since it is known that they may have been charged. */
  const removed = new Set<string>();
  /** The generations that went with the database that a copy has replaced. */
  const gone = new Set<string>();
  const restore = async ({ copyAt, at, by }: NonNullable<EnginePlan["restore"]>) => {
    await wait(copyAt);
    const made = await copyDatabase(by);
    await wait(Math.max(0, at - schedule.now()));
    if (!made || isHealed) return;
    isDown = true;
    for (const [index, process] of alive.entries()) {
      if (by === "cp") await stop(index);
      process?.end();
      alive[index] = undefined;
      serves[index] = undefined;
    }
    // As src/docs/local-service.md says: such a copy is known once a service has started or stopped since.
    if (by === "serve --backup" || announced.runs > made.runs) {
      tell(() => `the database is replaced by the copy of ${copyAt / 1000} s, made by ${by}`);
      copy = "unsaid";
      writeFileSync(join(state, "service.db"), made.bytes);
      for (const name of ["service.db-wal", "service.db.lock"])
        rmSync(join(state, name), { recursive: true, force: true });
      rules.onRestored(made.generations);
      for (const generation of generations) {
        const { name } = generation;
        const found = made.generations.get(ids.get(name) ?? "");
        // Somebody asks for it again: a command makes only what is asked for.
        if (found && !found.hasEnded && ends.delete(name)) void followUntilEnded(generation);
        if (found?.isSubmitted) reach("a restored copy follows a job");
        if (found && !found.hasEnded && !found.isSubmitted) reach("a restored copy ends what it may have submitted");
        if (!found && begun.has(name)) {
          gone.add(name);
          ends.set(name, { status: "gone" });
        }
      }
    }
    isDown = false;
    for (const index of alive.keys()) live(index);
  };
  /** `undefined` when no process could copy it. */
  const copyDatabase = async (by: "serve --backup" | "cp") => {
    const made = await Promise.race([
      anyServe()
        ?.store.backup?.()
        .catch(() => undefined),
      wait(20_000),
    ]);
    if (!made) return undefined;
    const file = join(root, "copy.db");
    writeFileSync(file, readFileSync(made.fd));
    closeSync(made.fd);
    // Synchronous, so that the story does not wait for the real disk.
    const database = openNow(file);
    if (by === "cp") database.exec("UPDATE provenance SET copied_at = NULL");
    const rows = database.all(
      "SELECT id, status <> 'processing' AS ended, engine IS NOT NULL AS submitted FROM generations",
    );
    const runs = Number(database.get("SELECT runs FROM provenance")?.runs);
    database.close();
    const generations = new Map(
      rows.map(({ id, ended, submitted }) => {
        const hasEnded = ended === 1;
        return [String(id), { hasEnded, isSubmitted: !hasEnded && submitted === 1 }] as const;
      }),
    );
    return { bytes: readFileSync(file), generations, runs };
  };

  let isDone = false;
  const direct = async () => {
    for (let index = 0; index < plan.processes; index++) live(index);
    const restored = plan.restore && restore(plan.restore);
    for (const act of plan.acts) {
      await wait(Math.max(0, act.at - schedule.now()));
      happen(act);
    }
    const last = Math.max(0, ...[...plan.troubles, ...plan.diskTroubles].map(({ to }) => to));
    await wait(Math.max(0, last - schedule.now()));
    await restored;
    // The faults are over: all has to end.
    isHealed = true;
    provider.heal();
    for (const machine of aheadMs.keys()) aheadMs[machine] = plan.aheadMs?.[machine] ?? 0;
    const until = schedule.now() + maxMs;
    const isOpen = () =>
      generations.some(({ name }) => !ends.has(name)) ||
      rules
        .all()
        .some(({ generation, callbacks }) => generation.hasCallback && !callbacks.some(({ isTaken }) => isTaken));
    while (isOpen() && schedule.now() < until) await wait(5_000);
    // Whoever wakes up now may still act.
    while (alive.some((process) => process?.isFrozen())) await wait(5_000);
    await wait(15_000);
    await check();
    isDone = true;
  };
  const check = async () => {
    let serve = anyServe();
    for (let tries = 0; !serve && tries < 100; tries++) {
      await wait(5_000);
      serve = anyServe();
    }
    if (!serve) return fail(new Broken(7, "no process opens"));
    for (const generation of generations) {
      const { name, account } = generation;
      if (gone.has(name)) continue;
      const stored = await serve.store.generation(ids.get(name) ?? "");
      if (stored && plan.store === "shared" && !plan.acts.some(({ what }) => what === "clock"))
        rules.onTimes(name, stored);
      if (removed.has(name)) continue;
      const told = await look(generation);
      const video = await ask(`/v1/videos/${ids.get(name)}`, account);
      if (video?.status === 200) rules.onVideo(name, video.json);
      if (told?.status === "completed") rules.onKept(name, await keptBytes(serve, ids.get(name) ?? ""));
    }
    const entries = await serve.store.ledger({ limit: 1_000 });
    const spentBy = new Map<string, number>();
    for (const account of Object.keys(accounts)) spentBy.set(account, credits - (await serve.store.balance(account)));
    rules.onTheEnd(entries, spentBy);
  };
  const keptBytes = async ({ store }: Serve, id: string): Promise<Uint8Array | undefined> => {
    const media = (await store.generation(id))?.media;
    try {
      return media ? readFileSync(join(state, "videos", media.file)) : undefined;
    } catch {
      return undefined;
    }
  };
  void direct().catch((error) => fail(new Broken(0, `${error?.message} ${error?.stack}`)));
  await schedule.run(() => isDone || broken !== undefined, maxSteps);
  if (!broken && !isDone) {
    const open = generations.filter(({ name }) => !ends.has(name)).map(({ name }) => name);
    broken = { rule: 7, message: `the story never ends (${open.join(", ")})` };
  }
  isDone = true;
  return { broken, lines, steps: schedule.taken(), probes };
}
