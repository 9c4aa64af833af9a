import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Env, type Run, ugliness, vidgen } from "./client.ts";
import { type Goal, portion, tally } from "./goal.ts";
import { lastingMedia, type MediaFault, passingMedia } from "./media-faults.ts";
import type { Oracle } from "./oracle.ts";
import { lastPolls, pollFaults, stillRunning } from "./poll-faults.ts";
import type { Random } from "./random.ts";
import { createService, type Plan, type Service } from "./server.ts";
import {
  laterStarts,
  lostStarts,
  oddStarts,
  rarelyLostStarts,
  refusedStarts,
  type StartFault,
} from "./start-faults.ts";
import type { Handlers } from "./wire.ts";
import { inFolder, type JournalLine, readJournal, side } from "./work.ts";

type Command = {
  prompt: string;
  argv: string[];
  plan: Plan;
  /** The kinds of fault it meets. */
  kinds: string[];
  /** What happens to its connections before anything is read. */
  connection: string | undefined;
  /** Where it saves its video; nowhere with `--no-wait`. */
  file: string | undefined;
  interruptMs: number | undefined;
  home: string;
};

/** Faults before a request is read: a command that meets one talks to an address of its own, whose first connection has it. */
const connections: Record<string, Pick<Handlers, "onConnection" | "onHead">> = {
  "reset before the request is read": { onConnection: (socket) => !!socket.resetAndDestroy() },
  "closed before the request is read": { onConnection: (socket) => !!socket.end() },
  "reset between head and body": { onHead: (_, socket) => !!socket.resetAndDestroy() },
};

/** Goal 1: through everything that can go wrong, nothing is paid twice, lost in silence, or saved wrong. */
export const charges: Goal = {
  number: 1,
  title: "generations through mixed faults",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const count = portion(10_000, share);
      const service = await createService(random);
      const commands = Array.from({ length: count }, (_, i) => createCommand(i, random.fork(i), folder));
      const runs = new Map<Command, Run>();
      await side(commands, 48, async (command) => {
        runs.set(command, await run(command, service));
      });
      const journals = new Map<string, Journal>();
      for (const { home } of commands) if (!journals.has(home)) journals.set(home, indexJournal(readJournal(home)));
      const verdicts = commands.flatMap((command) => {
        const run = runs.get(command) as Run;
        const about = { command, run, journal: journals.get(command.home) as Journal, oracle: service.oracle };
        return judge(about).map((fault) => ({ ...fault, what: `${command.prompt} [${command.kinds}]: ${fault.what}` }));
      });
      const kinds = new Set(commands.flatMap((command) => command.kinds));
      const charged = commands.filter(({ prompt }) => service.oracle.chargesOf(prompt) > 0).length;
      await service.close();
      const of = (kind: string) => verdicts.filter((fault) => fault.kind === kind).length;
      return {
        figures:
          `${count} generations, ${kinds.size} kinds of fault, ${charged} charged: ${of("twice")} double charges, ` +
          `${of("lost")} silent losses, ${of("wrong")} wrong files; ` +
          tally([...runs.values()].map(({ code }) => `exit ${code}`)),
        target: "0, 0, 0",
        faults: verdicts.map(({ what }) => what),
      };
    }),
};

function createCommand(i: number, random: Random, folder: string): Command {
  const kinds: string[] = [];
  const draw = <Fault>(table: Record<string, Fault>): Fault => {
    const [kind, fault] = random.pick(Object.entries(table));
    kinds.push(kind);
    return fault;
  };
  const starts: StartFault[] = [];
  while (random.next() < 0.2) starts.push(draw(laterStarts));
  const dice = random.next();
  if (dice < 0.25) starts.push(draw({ ...lostStarts, ...rarelyLostStarts }));
  else if (dice < 0.45) starts.push(draw(oddStarts));
  else if (dice < 0.5) starts.push(draw(refusedStarts));
  const polls = Array.from({ length: random.between(0, 3) }, () => draw(pollFaults));
  if (random.next() < 0.04) polls.push(draw(lastPolls));
  const timeout = random.next() < 0.02 ? ["--timeout", "3s"] : [];
  if (timeout.length > 0) polls.push(...Array.from({ length: 50 }, () => draw({ "still running": stillRunning })));
  let media: MediaFault | undefined;
  if (random.next() < 0.7) media = random.next() < 0.93 ? draw(passingMedia) : draw(lastingMedia);
  const connection = random.next() < 0.06 ? random.pick(Object.keys(connections)) : undefined;
  if (connection) kinds.push(connection);
  const interruptMs = random.next() < 0.04 ? random.between(0, 150) : undefined;
  if (interruptMs !== undefined) kinds.push("Ctrl-C");
  const prompt = `fox ${i}`;
  const saving = random.next() < 0.9 ? ["-o", join(folder, `fox-${i}.mp4`)] : ["--no-wait"];
  const home = join(folder, `home-${i % 100}`);
  const argv = ["generate", prompt, ...saving, ...timeout];
  return { prompt, argv, file: saving[1], plan: { starts, polls, media }, kinds, connection, interruptMs, home };
}

async function run(command: Command, service: Service): Promise<Run> {
  const { prompt, argv, plan, connection, interruptMs, home } = command;
  service.plan(prompt, plan);
  const own = connection && (await service.open(once(connections[connection] ?? {})));
  const baseUrl = own ? `http://127.0.0.1:${own.port}` : service.baseUrl;
  const env: Env = { VIDGEN_HOME: home, VIDGEN_BASE_URL: baseUrl, VIDGEN_API_KEY: "key" };
  const result = await vidgen(argv, env, { interruptMs });
  if (own) await own.close();
  return result;
}

function once({ onConnection, onHead }: Pick<Handlers, "onConnection" | "onHead">): Handlers {
  let count = 0;
  const isFirst = () => count++ === 0;
  return {
    onConnection: (socket) => onConnection !== undefined && isFirst() && onConnection(socket),
    onHead: (request, socket) => onHead !== undefined && isFirst() && onHead(request, socket),
  };
}

type Journal = { byAttempt: Map<string, JournalLine[]>; byId: Map<string, JournalLine[]> };

function indexJournal(lines: JournalLine[]): Journal {
  const journal: Journal = { byAttempt: new Map(), byId: new Map() };
  const add = (map: Map<string, JournalLine[]>, key: string | undefined, line: JournalLine) => {
    if (key !== undefined) map.set(key, [...(map.get(key) ?? []), line]);
  };
  for (const line of lines) {
    add(journal.byAttempt, line.attempt, line);
    add(journal.byId, line.id, line);
  }
  return journal;
}

type About = { command: Command; run: Run; journal: Journal; oracle: Oracle };

type Fault = { kind: "twice" | "lost" | "wrong" | "ugly"; what: string };

/** What the oracle knows of one command, against what the client said, wrote down and saved. */
function judge({ command, run, journal, oracle }: About): Fault[] {
  const found: Fault[] = [];
  const say = (kind: Fault["kind"], what: string) =>
    found.push({ kind, what: `${what}; exit ${run.code}: ${run.stderr}` });
  const starts = oracle.startsOf(command.prompt);
  const charged = starts.flatMap(({ generated }) => generated ?? []);
  const [generated] = charged;
  if (charged.length > 1) say("twice", `charged ${charged.length} times`);
  if (generated && starts.at(-1)?.generated !== generated) say("twice", "sent again after it was charged");
  const { file: path } = command;
  const file = path !== undefined && existsSync(path) ? readFileSync(path) : undefined;
  const isRight = generated !== undefined && file !== undefined && oracle.isVideo(generated.id, file);
  if (file && !isRight) say("wrong", "a wrong file");
  if (file && run.code !== 0 && run.code !== 130) say("wrong", "a file, but no success");
  if (run.code === 0 && path !== undefined && !file) say("wrong", "success, but no file");
  if (generated) for (const what of lossesOf(generated, run, journal)) say("lost", what);
  else if (run.code === 0) say("lost", "success, but nothing was started");
  if (generated && [7, 8, 2].includes(run.code)) say("lost", "says that nothing was charged");
  for (const ugly of ugliness(run)) say("ugly", ugly);
  return found;
}

/** A charged generation is known by its id, or written down and reported as one that may have been charged. */
function lossesOf({ id, attempt }: { id: string; attempt: string }, run: Run, journal: Journal): string[] {
  const lines = journal.byAttempt.get(attempt) ?? [];
  const kinds = lines.map(({ kind }) => kind);
  if (!kinds.includes("intent")) return ["charged, and the intent is not in the journal"];
  const accepted = lines.find(({ kind }) => kind === "accepted");
  if (accepted) {
    if (accepted.id !== id) return [`accepted as ${accepted.id}, which is not ${id}`];
    if (!(run.stdout + run.stderr).includes(id)) return ["accepted, and the id was not said"];
    const later = (journal.byId.get(id) ?? []).map(({ kind }) => kind);
    const isSaved = later.includes("completed") && later.includes("delivered");
    return run.code === 0 && run.stdout.includes(".mp4") && !isSaved ? ["saved, and not written down"] : [];
  }
  if (!kinds.includes("unknown")) return [`charged, and the journal says ${kinds}`];
  if (run.code !== 6) return ["unknown, and the exit code says otherwise"];
  return run.stderr.includes(attempt) ? [] : ["unknown, and the attempt was not said"];
}
