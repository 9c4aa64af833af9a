import { dirname } from "node:path";
import type { Earlier } from "../../src/client/ledger/policy.ts";
import { createRandom } from "../faults/random.ts";
import { type Change, createDisk } from "./disk.ts";
import { edit, videoEditNames } from "./edits.ts";
import { type CallKind, type Computer, createProcess, kindOfWrite } from "./machine.ts";
import { type Command, leaveAtOnce, otherFolder, projectFolder, type Run, type, work } from "./people.ts";
import type { Act, Plan } from "./plan.ts";
import type { Probe } from "./probes.ts";
import { Broken, createRules } from "./rules.ts";
import { createSchedule } from "./schedule.ts";
import { createService, keys } from "./service.ts";
import { idOfVideo } from "./video.ts";
import { clockWords, commandWords, lineWords, mishapWords, saidWords, short, whereWords } from "./words.ts";

/** How a story went. */
export type Played = {
  /** What was broken, if so. */
  broken: { rule: number; message: string } | undefined;
  /** What happened, a line each, for people; empty unless it was asked for. */
  lines: string[];
  steps: number;
  /** The rare states that it has reached. */
  probes: ReadonlySet<Probe>;
};

export type PlayOptions = { tells?: boolean };

/** A start that waits for a frozen process looks four times a second, for some minutes. */
const maxSteps = 300_000;
/** Nobody waits for longer after the last act, with the longest time to wait of a command and all that may hold it up. */
const maxMs = 4 * 3_600_000;

/** Plays a story to its end. The same plan gives the same story, to the byte. */
export async function play(plan: Plan, options: PlayOptions = {}): Promise<Played> {
  const { stackTraceLimit } = Error;
  // The stack traces of all the errors that a story is made of would take a third of its time.
  Error.stackTraceLimit = 0;
  try {
    return await playOnce(plan, options);
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

async function playOnce(plan: Plan, { tells = false }: PlayOptions): Promise<Played> {
  const schedule = createSchedule();
  const disk = createDisk(schedule.now);
  const journals = plan.computers.map(
    (_, index) => `/home/${plan.hasOwnJournals ? index + 1 : "vidgen"}/journal.jsonl`,
  );
  for (const path of journals) disk.mkdir(dirname(path), { recursive: true });
  disk.mkdir(work, { recursive: true });
  for (const folder of [projectFolder, otherFolder]) {
    disk.mkdir(folder, { recursive: true });
    disk.close(disk.open(`${folder}/vidgen.json`, "w"));
  }
  disk.close(disk.open(`${work}/shots.csv`, "w"));
  disk.symlink(`${work}/shots.csv`, `${work}/link.csv`);
  disk.link(`${work}/shots.csv`, `${work}/hard.csv`, { name: "somebody", computer: { name: "elsewhere" } });
  disk.settle();
  const lines: string[] = [];
  /** What was last seen of each process. */
  const last = new Map<string, string>();
  const tell = (text: () => string) => {
    if (tells) lines.push(`${(schedule.now() / 1000).toFixed(3).padStart(9)} s  ${text()}`);
  };
  const tellOf = (name: string, text: () => string) => {
    if (!tells) return;
    last.set(name, text());
    tell(() => `${name} ${last.get(name)}`);
  };
  const computers = plan.computers.map(
    ({ aheadMs }, index): Computer => ({
      name: String(index + 1),
      boot: 1,
      disk,
      aheadMs,
      hasStartTimes: plan.hasStartTimes,
      processes: new Set(),
      nextPid: 100,
    }),
  );
  const probes = new Set<Probe>();
  const reach = (probe: Probe) => void probes.add(probe);
  const rules = createRules({ now: schedule.now, contentOf: disk.content, files: disk.files, reach });
  let broken: Played["broken"];
  const check = (work: () => void) => {
    try {
      if (!broken && !rules.isBlind()) work();
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      broken = { rule: error.rule, message: error.message };
      tell(() => `BROKEN: ${error.message}`);
    }
  };
  const service = createService({
    schedule,
    random: createRandom(`${plan.seed}/service`),
    troubles: plan.troubles,
    statesPrices: plan.statesPrices === true,
    keepsKeys: plan.keepsKeys === true,
    reach,
    events: {
      onPost(process, post) {
        const id = post.generated ? ` (${short(post.generated.id)})` : "";
        tell(
          () => `the service gets the start of ${process.name} (attempt ${short(post.attempt)}): it ${post.does}${id}`,
        );
        last.set(process.name, "has sent its start");
        check(() => rules.onPost(process, post));
      },
      onDelivered(process, post) {
        tellOf(process.name, () => "has got the answer");
        check(() => rules.onDelivered(post));
      },
      onCancelled: rules.onCancelled,
      onDelete: (...args) => check(() => rules.onDelete(...args)),
      onDeleted: rules.onDeleted,
      onStatusDelivered: (process, id, answer) => check(() => rules.onStatusDelivered(process, id, answer)),
      isWritten: rules.isWritten,
    },
  });

  const runs: Run[] = [];
  const committed = new Map<string, Buffer>();

  disk.watch((change, writer) => {
    const run = runs.find(({ process }) => process.name === writer.name);
    if (run && change.kind !== "failed") check(() => rules.onChange(run, change.path));
    if (change.kind === "failed") {
      tell(() => `${writer.name} gets ${change.code} as it is to ${change.call} ${change.path}`);
      const probe = probeOfFailure(change, kindOfWrite(change.bytes));
      if (probe) reach(probe);
      if (run) rules.onHindered(run.process);
      if (run && journals.some((path) => path.startsWith(change.path))) rules.onUnwritten(run.process);
      if (run && probe === "a lock or a lease cannot be removed") rules.onUnremoved(run.process);
      return;
    }
    if (change.kind === "name") {
      if (/\.lock\/[^/]+$/.test(change.path)) reach("a stale lock is taken over");
      if (/\.leases\/[^/]+\/[^/]+$/.test(change.path)) reach("a stale lease is taken over");
      const [, lease] = /\.leases\/([^/]+)(?:\/[^/]+)?$/.exec(change.path) ?? [];
      if (lease !== undefined && run) rules.onTaken(lease, run);
      check(() => rules.onName(change.path, change, run));
      const id = /\.mp4$/.test(change.path) ? idOfVideo(change.bytes) : undefined;
      if (id !== undefined) {
        rules.onVideo(id);
        tellOf(writer.name, () => `has put the video of ${short(id)} at ${change.path}`);
      }
      return;
    }
    if (!journals.includes(change.path)) return;
    for (const text of change.bytes.toString("utf8").split("\n")) {
      const line = parse(text);
      if (line === undefined) continue;
      tellOf(writer.name, () => lineWords(line));
      check(() => rules.onLine(line, run?.process, change.path));
    }
  });
  const run = (act: Act & { what: "command" }): Promise<void> => {
    const computer = computers[act.computer] as Computer;
    const process = createProcess(
      {
        name: act.name,
        computer,
        namespace: act.namespace,
        random: createRandom(`${plan.seed}/${act.name}`),
        mishaps: act.mishaps,
        callMs: act.callMs,
        instant: plan.instant,
        onMishap(mishap) {
          rules.onDisturbed();
          if (mishap.what === "frozen") rules.onHindered(process);
          tell(() => mishapWords(act.name, mishap, last.get(act.name)));
          if (mishap.what === "edit") change(mishap.edit ?? "", ["look", "name", "any"].includes(mishap.on));
        },
        onSecondPress() {
          // A program with the library handles no second Ctrl-C: its system ends it.
          if (act.command.type === "library") return process.end(true);
          leaveAtOnce(current);
          finish();
        },
      },
      schedule,
    );
    const current: Run = {
      command: act.command,
      process,
      journal: journals[act.computer] ?? "",
      key: keys[act.key] ?? keys[0],
      fetch: service.fetchFor(process, act.starts, {
        cancel: act.command.type === "cancel" ? act.command.does : "cancels it",
        delete: act.command.type === "delete" ? act.command.does : "deletes it",
      }),
      earlier: earlierOf(act.command),
      named: new Set(),
      said: { code: 0, stdout: "", stderr: "", files: [] },
      onForgotten: rules.onForgotten,
      onPrint: rules.onPrint,
      onResuming() {
        const onResumed = rules.onResuming(current);
        return (id) => check(() => onResumed(id));
      },
      onCancelledCall: () => rules.onCancelledCall(current),
      onReturned: (call) => check(() => rules.onReturned(current, call)),
    };
    runs.push(current);
    rules.onRun(current);
    tell(() => `${act.name} types ${commandWords(act.command)}${whereWords(act, plan)}`);
    if (computer.aheadMs !== 0) tell(() => `  (the clock there ${clockWords(computer.aheadMs)})`);
    const finish = () => {
      if (process.endedAt !== undefined) return;
      tell(() => `${act.name} ends with ${current.said.code}: ${saidWords(current.said)}`);
      check(() => rules.onEnd(current));
      process.end(false);
    };
    void type(current).then(finish, (error) => {
      broken ??= { rule: 0, message: String(error?.stack ?? error) };
    });
    return new Promise((resolve) => process.onEnd(resolve));
  };

  const wait = (ms: number) =>
    new Promise<void>((resolve) => {
      schedule.add({ at: schedule.now() + ms, order: -1, run: resolve });
    });

  const allEnd = () => Promise.all(runs.map(({ process }) => new Promise<void>((resolve) => process.onEnd(resolve))));

  const direct = async () => {
    let before: Promise<void> = Promise.resolve();
    for (const act of plan.acts) {
      if (act.waits) await before;
      if (act.what === "edit" && !videoEditNames.includes(act.how)) await allEnd();
      await wait(act.gapMs);
      if (act.what === "command") before = run(act);
      else happen(act);
    }
    // The faults are over: everybody has to end.
    await allEnd();
    service.heal();
    disk.heal();
    for (const computer of computers) computer.aheadMs = 0;
    await wait(400_000);
    for (const computer of new Map(journals.map((path, index) => [path, index])).values())
      for (const key of keys.keys())
        for (const type of ["wait --all", "wait"] as const) await run(lastWait({ computer, key, type }));
    check(() => rules.onTheEnd(service.generations));
    isDone = true;
  };
  const happen = (act: Exclude<Act, { what: "command" }>) => {
    rules.onDisturbed();
    if (act.what === "edit") {
      change(act.how);
      return;
    }
    const computer = computers[act.computer] as Computer;
    if (act.what === "clock") {
      computer.aheadMs = act.aheadMs;
      tell(() => `the clock of machine ${computer.name} ${clockWords(act.aheadMs)}`);
      return;
    }
    tell(() => `machine ${computer.name} loses power, and starts again`);
    for (const process of [...computer.processes]) process.end(true);
    computer.boot++;
    computer.nextPid = 100;
    const { isLineTorn } = disk.crash(
      createRandom(`${plan.seed}/crash`),
      computers.length > 1 ? computer.name : undefined,
    );
    if (isLineTorn) reach("a crash tears a line");
  };
  const change = (how: string, isBetween = false) => {
    tell(() => how);
    edit(how, { disk, journals: new Set(journals), rules, now: schedule.now, isBetween, committed });
  };
  let isDone = false;
  void direct();
  const latest = maxMs + plan.acts.reduce((sum, { gapMs }) => sum + gapMs, 0);
  await schedule.run(() => isDone || broken !== undefined || schedule.now() > latest, maxSteps);
  if (!broken && !isDone) {
    const waiting = runs.filter(({ process }) => process.endedAt === undefined).map(({ process }) => process.name);
    broken = { rule: 5, message: `${waiting.join(", ")} never ends` };
  }
  for (const { process } of runs) process.end(true);
  return { broken, lines, steps: schedule.taken(), probes };
}

/** The rare state that a failure of the disk is; `kind` is that of the line that was to be written. */
function probeOfFailure({ code, call, path }: Change & { kind: "failed" }, kind: CallKind): Probe | undefined {
  if (code === "ENOSPC" && kind === "intent") return "the disk is full while an intent is written";
  if (code === "EDQUOT" && /journal\.jsonl$/.test(path)) return "an intent does not reach the disk";
  if (code === "ENOSPC" && kind === "accepted") return "the disk is full while an id is written";
  if (code === "short" && /journal\.jsonl$/.test(path)) return "half of a journal's line is written";
  if (call === "remove" && /\.(lock|leases)\//.test(path)) return "a lock or a lease cannot be removed";
  return code === "EXDEV" && call === "rename" ? "a rename crosses devices" : undefined;
}

function earlierOf(command: Command): Earlier {
  return command.type === "generate" ? command.earlier : "resume";
}

type LastWait = { computer: number; key: number; type: "wait" | "wait --all" };

/** What a careful person does in the end. */
function lastWait({ computer, key, type }: LastWait): Act & { what: "command" } {
  const command: Command = { type, place: `${work}/end/`, timeoutMs: 900_000 };
  return {
    what: "command",
    name: `${type === "wait" ? "Z" : "Y"}${computer}${key}`,
    command,
    computer,
    namespace: "1",
    key,
    callMs: 1,
    starts: [],
    mishaps: [],
    gapMs: 0,
    waits: true,
  };
}

function parse(text: string): Record<string, unknown> | undefined {
  if (!text.startsWith("{")) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
