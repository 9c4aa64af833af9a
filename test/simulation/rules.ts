import { createHash } from "node:crypto";
import { exits } from "../../src/errors.ts";
import type { Answer, Generated } from "./answers.ts";
import {
  type Attempt,
  allows,
  isAgain,
  isNear,
  isSame,
  isSameLast,
  kindOf,
  nameOf,
  plainPath,
  type TakeRun,
} from "./attempt.ts";
import type { Process } from "./machine.ts";
import { type Command, type LibraryCall, pastedKey, projectFolder, type Run, resultsOf, rowsOf } from "./people.ts";
import type { Reach } from "./probes.ts";
import { keys, type Post } from "./service.ts";
import { idOfVideo } from "./video.ts";

export class Broken extends Error {
  readonly rule: number;
  constructor(rule: number, message: string) {
    super(message);
    this.rule = rule;
  }
}

/** The request of an intent. */
type Requested = { prompt: string; imageUrl?: string; model: string; seed?: number };

/** What the service has not known for so long is lost. */
const lostMs = 60_000;

export type Rules = ReturnType<typeof createRules>;

type RulesOptions = {
  now(): number;
  contentOf(path: string): Buffer | undefined;
  files(): ReadonlyMap<string, Buffer>;
  reach: Reach;
};

/** The six points of the simulation: each throws `Broken` as soon as it does not hold. */
export function createRules({ now, contentOf, files, reach }: RulesOptions) {
  const attempts: Attempt[] = [];
  const runs = new Map<Process, Run>();
  /** Those of several, by their names. */
  const takeRuns = new Map<string, TakeRun>();
  /** The processes that had each lease, by its name. */
  const leases = new Map<string, Process[]>();
  /** The ids that each journal has. */
  const written = new Map<string, Set<string>>();
  /** When another program has put its own file under a name. */
  const replacedAt = new Map<string, number>();
  /** What each process with a budget was told last, and whether it still knows what a start costs. */
  const balances = new Map<Process, { credits: number | undefined; isKnown: boolean }>();
  /** What each process was told that a start costs, by the length. */
  const prices = new Map<Process, Map<number | undefined, number>>();
  /** The videos, also of other programs, that somebody has replaced or deleted on purpose, and when. */
  const replaced = new Map<string, number>();
  /** The videos of other programs. */
  const foreign = new Set<string>();
  /** The generations that the service has cancelled, and for whom. */
  const cancelled = new Map<string, Process>();
  /** When something last happened that changes what a command finds. */
  let disturbedAt = Number.NEGATIVE_INFINITY;
  /** The calls of agents that were cancelled before their request. */
  const cancelledCalls = new Set<Attempt>();
  /** The processes that could not remove a lock or a lease of theirs. */
  const unremoved = new Set<Process>();
  /** The processes that the disk has failed at their journal. */
  const failed = new Set<Process>();
  /** The processes that were frozen, or that the disk has failed: one elsewhere may not have seen that they live. */
  const hindered = new Set<Process>();
  let isBlind = false;

  const byId = (id: string) => attempts.filter((each) => each.id === id.toLowerCase());
  const byName = (name: string) => attempts.find((each) => each.attempt === name);
  const runOf = (process: Process): Run => {
    const run = runs.get(process);
    if (run === undefined) throw new Error("nobody has started that process");
    return run;
  };

  function onLine(line: Record<string, unknown>, process: Process | undefined, path: string): void {
    const { kind, attempt, id } = line;
    let known = byName(String(attempt));
    if (kind === "intent" && process) {
      const run = runOf(process);
      const { command } = run;
      const key = String(line.key ?? line.resend_of ?? attempt);
      // Attempts that share a key are one: a live process has all of them.
      const { holders = [] } = attempts.find((each) => each.key === key && each.run.journal === run.journal) ?? {};
      holders.push(process);
      known = {
        attempt: String(attempt),
        key,
        run,
        earlier: run.earlier,
        isNamed: line.key !== undefined,
        place: attempts.length,
        ...readRequest(line, command),
        service: String(line.base_url),
        output: plainPath(line.place as string | undefined),
        typed: line.place as string | undefined,
        parent: line.parent as string | undefined,
        take: takeOf(line),
        intentAt: now(),
        kind: kindOf(line),
        noWait: line.no_wait === true,
        row: line.row as string | undefined,
        redo: line.redo as string | undefined,
        rowsFile: command.type === "batch" ? "shots.csv" : undefined,
        posts: [],
        delivered: [],
        holders,
        resumedBy: [],
        overFor: new Set(),
        isRefused: false,
        unclearTo: new Set(),
        id: undefined,
        isIdWritten: false,
        hasOutcome: false,
        isUnknown: false,
        isUnwritten: false,
        dismissedAt: undefined,
        forgottenAt: undefined,
        unknownSince: undefined,
        isDeleted: false,
        completedTo: new Set(),
        isAddressTold: false,
        isTold: false,
        isWithoutResults: false,
      };
      attempts.push(known);
      known.take?.run.attempts.push(known);
    }
    if (attempt !== undefined && id !== undefined) {
      const ids = written.get(path) ?? new Set();
      written.set(path, ids.add(String(id).toLowerCase()));
      if (known && kind === "accepted") known.isIdWritten = true;
    }
    if (kind === "told") {
      reach("a printed id is written down");
      const { command, said } = process ? runOf(process) : {};
      // A call of the library hands it over when it resolves, which comes next.
      if (known && (command?.type === "library" || said?.stdout.includes(known.id ?? " "))) known.isTold = true;
    }
    // The same with a URL.
    if (kind === "delivered" && line.file === undefined && process && runOf(process).command.type === "library")
      for (const each of byId(String(id))) handOver(each);
    if (known && kind === "unknown") {
      known.isUnknown = true;
      onUnknown(known);
    }
    if (known && kind === "dismissed") onDismissed(known, process);
    if (known && kind !== "intent" && kind !== "part") known.hasOutcome = true;
    if (kind === "lost") onLost(String(id));
    // The service knows the generation of a start that it refused.
    if (kind === "found" || kind === "completed") for (const each of byId(String(id))) each.isRefused = false;
    // It is gone, whoever has removed it.
    if (kind === "removed") onRemoved(process, String(id));
    if (kind === "delivered" && typeof id === "string" && line.file !== undefined && line.file !== "-")
      onSaved(id, String(line.file));
  }

  function onRemoved(process: Process | undefined, id: string): void {
    for (const each of byId(id)) {
      each.isDeleted = true;
      if (each.take) reach("a video of a run is deleted");
    }
    const command = process && runOf(process).command;
    if (command?.type === "delete" && command.files) replaced.set(id, now());
  }

  function readRequest({ request, place }: Record<string, unknown>, command: Command) {
    const { prompt, imageUrl, model, seed } = request as Requested;
    const [, bare = prompt, style] = /^(.*), (\w+)$/.exec(prompt) ?? [];
    const { settings = {}, project, folder = projectFolder } = command.type === "generate" ? command : {};
    const styleAndImage = [style, imageUrl].join(" ");
    const set = [settings.model && model, settings.output && place];
    const untyped = [styleAndImage, ...set].join(" ");
    return { prompt: bare, model, seed, styleAndImage, untyped, project: project === undefined ? undefined : folder };
  }

  function takeOf({ run, position, count }: Record<string, unknown>): Attempt["take"] {
    if (run === undefined) return undefined;
    const name = String(run);
    const known = takeRuns.get(name) ?? { name, count: Number(count), attempts: [], holders: holdersOf(name) };
    takeRuns.set(name, known);
    return { run: known, position: Number(position) };
  }

  function holdersOf(lease: string): Process[] {
    const holders = leases.get(lease) ?? [];
    leases.set(lease, holders);
    return holders;
  }

  function onUnknown({ run, key, delivered, posts }: Attempt): void {
    reach("an outcome is unknown");
    for (const { answersAt = now() } of posts) onAnswer(answersAt);
    // It came in time, and lay there while the process stood still.
    const isInTime = ({ at, answersAt = now() }: Post) => answersAt < now() && answersAt - at < 119_000;
    const unread = posts.find((post) => post.behaviour.means === "accepted" && isInTime(post));
    if (unread && !run.process.signal.aborted && run.command.type !== "mcp")
      throw new Broken(2, `${run.process.name} calls unknown what the service "${unread.does}" in time`);
    // Of two calls with one key, a request does not tell whose it is.
    if (attempts.filter((each) => each.run === run && each.key === key).length > 1) return;
    const accepted = delivered.find(({ behaviour }) => behaviour.means === "accepted");
    if (accepted) throw new Broken(4, `${run.process.name} calls unknown what the service "${accepted.does}"`);
  }

  /** An answer is read, or thrown away, that was there at a time. */
  function onAnswer(at: number): void {
    if (now() - at > 60_000) reach("an answer lies in the socket of a process that stands still");
  }

  function onDismissed(known: Attempt, process: Process | undefined): void {
    if (process && isWaitedFor(known, process))
      throw new Broken(4, `${process.name} dismisses ${known.attempt}, which its process is still waiting for`);
    const command = process && runOf(process).command;
    // Without a vidgen.json a line belongs to every project.
    if (command?.type === "generate" && command.project !== undefined && known.project !== undefined) {
      const { folder = projectFolder } = command;
      if (folder !== known.project)
        throw new Broken(1, `${process?.name} dismisses ${known.attempt}, which belongs to another project`);
    }
    known.dismissedAt ??= now();
    reach("an attempt is dismissed");
  }

  /** Whether the process of an attempt is about to tell its outcome, and another one can know that: elsewhere from its lease, which it refreshes. */
  function isWaitedFor({ hasOutcome, isUnwritten, run: { process } }: Attempt, other: Process): boolean {
    const isLive = process !== other && process.endedAt === undefined;
    if (hasOutcome || isUnwritten || !isLive) return false;
    // One elsewhere may have taken over the lease of a process that was frozen.
    return !hindered.has(process) || [...runs.keys()].every((each) => isNear(each, other));
  }

  /** Whatever the service said before. */
  function onUnclear(known: Attempt, process: Process): void {
    known.unclearTo.add(process);
    known.isRefused = false;
    known.overFor.delete("all");
    reach("a generation is unclear");
  }

  function onLost(id: string): void {
    reach("a generation is lost");
    for (const each of byId(id))
      if (now() - (each.unknownSince ?? Number.POSITIVE_INFINITY) < lostMs)
        throw new Broken(4, `${id} is called lost, which the service has not said for a minute`);
  }

  function onSaved(id: string, file: string): void {
    const bytes = contentOf(file);
    // Somebody else may have replaced it, on purpose, since.
    if (bytes === undefined || replacedAt.has(file) || replaced.has(id.toLowerCase())) return;
    const found = idOfVideo(bytes);
    if (found === undefined) throw new Broken(3, `${file} is written down as saved, and is no whole video`);
    if (found !== id.toLowerCase())
      throw new Broken(3, `${file} is written down as the video of ${id}, and is that of ${found}`);
    // A process that sends a key again may find that another one has saved the video already.
    for (const each of byId(id)) each.overFor.add("generate");
  }

  return {
    /** Whether a client can tell that an id is not its own: a power failure may have taken the line. */
    isWritten(process: Process, id: string): boolean {
      const { journal } = runOf(process);
      if (written.get(journal)?.has(id) !== true) return false;
      // A line that is torn may have the id in it, and still says nothing.
      const lines = contentOf(journal)?.toString("utf8").split("\n") ?? [];
      return lines.some((line) => line.includes(id) && line.endsWith("}"));
    },
    /** The disk has failed at the journal, or at its folder, as a process was to use it. */
    onUnwritten(process: Process): void {
      failed.add(process);
      for (const each of attempts)
        if (each.run.process === process && !each.hasOutcome) {
          each.isUnwritten = true;
          isBlind ||= each.delivered.some(({ isForeign }) => isForeign);
        }
    },
    /** Without the journal nobody can tell that an answer is that to another request: from then on no rule holds. */
    isBlind: () => isBlind,
    onUnremoved: (process: Process) => void unremoved.add(process),
    onHindered: (process: Process) => void hindered.add(process),
    onRun(run: Run): void {
      const place = run.command.type === "generate" ? run.command.place : undefined;
      const isRespelled = attempts.some((each) => each.output === plainPath(place) && each.typed !== place);
      if (place !== undefined && isRespelled) reach("one path is typed in two spellings");
      const typed = [...runs.values(), run].flatMap(({ command }) =>
        command.type === "generate" && command.models ? command.models.join() : [],
      );
      if (new Set(typed).size > 1) reach("several models are typed in two orders");
      const lines = [...runs.values(), run].flatMap(({ command }) => (command.type === "generate" ? command : []));
      const areTwo = (of: (line: Command & { type: "generate" }) => unknown) =>
        new Set(lines.flatMap((line) => JSON.stringify(of(line)) ?? [])).size > 1;
      if (areTwo(({ settings }) => settings)) reach("a saved setting changes between two runs");
      if (areTwo(({ spellings }) => spellings)) reach("one line is typed in two spellings");
      if (areTwo(({ folder }) => folder)) reach("one line is typed in two projects");
      runs.set(run.process, run);
      disturbedAt = now();
    },
    onDisturbed(): void {
      disturbedAt = now();
    },
    onLine,
    /** A process has the lease of an attempt, or of a run of several. */
    onTaken(attempt: string, run: Run): void {
      const holders = holdersOf(attempt);
      if (!holders.includes(run.process)) holders.push(run.process);
      if (takeRuns.has(attempt) && holders.length > 1) reach("a run of several is taken over");
      const known = byName(attempt);
      if (known === undefined || known.run === run) return;
      known.holders.push(run.process);
      known.resumedBy.push(run);
      reach("an attempt is taken over");
      if (known.parent !== undefined) reach("an attempt that repeats another is taken over");
      const isLater = ({ place, posts }: Attempt) => place > known.place && posts.length > 0;
      if (known.run.command.type === "generate" && known.run.command.again === "last" && attempts.some(isLater))
        reach("a repetition of the last one goes on after another generation");
      if (run.command.type === "generate" && run.command.piped !== undefined) reach("the same image on stdin goes on");
      if (now() - known.intentAt > 43_200_000) reach("an attempt goes on after half a day");
    },
    /** The address of a video goes to somebody who has not asked for a file. */
    onPrint(text: string): void {
      for (const each of attempts) if (text.includes(`/${each.id}/`)) handOver(each);
    },
    onReturned,
    onResuming,
    onCancelled(process: Process, id: string): void {
      cancelled.set(id, process);
      reach("a generation is cancelled");
    },
    onDelete(process: Process, id: string, isRunning: boolean): void {
      for (const each of byId(id)) {
        if (isRunning && !each.completedTo.has(process))
          throw new Broken(1, `${process.name} deletes ${id}, which runs: that cancels it`);
        if (each.unclearTo.has(process) && each.dismissedAt === undefined)
          throw new Broken(4, `${process.name} deletes ${id}, which may have been charged`);
        if (isFollowed(each, process) && each.run.journal === runOf(process).journal)
          throw new Broken(2, `${process.name} deletes ${id}, which ${each.run.process.name} is following`);
      }
    },
    onDeleted(process: Process, id: string): void {
      reach("a video is deleted");
      onRemoved(process, id);
    },
    onTheEnd,
    /** Another program replaces a file, or deletes it. */
    onReplaced(path: string, after: Buffer | undefined): void {
      replacedAt.set(path, now());
      if (path.endsWith(".part")) reach("a partial file is replaced");
      else reach("a saved video is replaced by another program");
      const before = contentOf(path);
      if (before) replaced.set(idOfVideo(before) ?? "", now());
      if (after) foreign.add(idOfVideo(after) ?? "");
    },
    /** Somebody has removed an attempt from the journal, and confirmed that: all that share its key are gone. */
    onForgotten(name: string): void {
      const known = byName(name);
      for (const each of attempts)
        if (each.key === known?.key && each.service === known.service) each.forgottenAt ??= now();
      reach("an attempt is forgotten");
    },
    onResultsDeleted(): void {
      for (const each of attempts) {
        each.isWithoutResults = true;
        if (each.redo !== undefined && each.posts.length > 0) reach("a results file goes back to before a redo");
      }
    },
    onName(path: string, { bytes, before }: { bytes: Buffer; before: Buffer | undefined }, run: Run | undefined): void {
      replacedAt.delete(path);
      if (!/\.mp4$/.test(path)) return;
      if (idOfVideo(bytes) === undefined) throw new Broken(3, `${path} is given to what is no whole video`);
      if (before === undefined) return;
      const isMeant = run?.command.type === "generate" && run.command.overwrite;
      if (!isMeant) throw new Broken(3, `${run?.process.name} replaces ${path}, without --overwrite`);
      replaced.set(idOfVideo(before) ?? "", now());
      reach("a video is replaced with --overwrite");
    },
    /** A call of an agent is cancelled when its intent is written down: nothing may be sent of it any more. */
    onCancelledCall(run: Run): void {
      const mine = attempts.findLast((each) => each.run === run);
      if (mine === undefined) return;
      cancelledCalls.add(mine);
      reach("an agent cancels between intent and request");
    },
    /** A process changes something on the disk. */
    onChange({ command, process }: Run, path: string): void {
      if (command.type !== "generate" || !command.isDryOnly) return;
      throw new Broken(4, `${process.name} changes ${path} in a dry run`);
    },
    onPost(process: Process, post: Post): void {
      const mine = attempts.findLast((each) => each.key === post.attempt && each.run.process === process);
      if (mine === undefined) throw new Broken(1, "a start was sent that nobody had written down");
      checkBudget(mine.run, post);
      if (cancelledCalls.has(mine))
        throw new Broken(1, `${process.name} sends a call that was cancelled when its intent was written down`);
      mine.posts.push(post);
      if (attempts.some(({ service }) => service !== mine.service))
        reach("a service is named by two paths of its host");
      // It confirms that nobody has before it connects, which takes less than a second.
      const { dismissedAt = now(), forgottenAt = now() } = mine;
      if (dismissedAt < now() - 1_000 || forgottenAt < now() - 1_000)
        throw new Broken(
          1,
          `${process.name} sends attempt ${mine.attempt}, which somebody has ${dismissedAt < now() ? "dismissed" : "forgotten"}`,
        );
      const generation = post.generated ?? post.repeats;
      if (generation) mine.id = generation.id;
      const before = mine.posts.slice(0, -1).find(({ behaviour }) => behaviour.means !== "later");
      if (before && !post.isKeyKept)
        throw new Broken(1, `${process.name} sent attempt ${mine.attempt} again after "${before.does}"`);
      const balance = balances.get(process);
      if (balance && !balance.isKnown)
        throw new Broken(1, `${process.name} has a budget, and goes on although nobody knows what the last start cost`);
      if (mine.isNamed) reach("a start has a key");
      if (post.repeats) {
        reach("a key is sent again, and the service knows it");
        return;
      }
      const isElsewhere = ({ key, service, posts }: Attempt) =>
        key === mine.key && service !== post.service && posts.length > 0;
      if (mine.service !== post.service || (!mine.isNamed && attempts.some(isElsewhere)))
        throw new Broken(1, `${process.name} sends key ${mine.key} to ${post.service}, which is another service`);
      const hasKey = (other: Attempt) => post.isKeyKept && other.key === mine.key && other.run.key === mine.run.key;
      // What another machine's journal knows of a caller's key, this one cannot.
      const withKey = attempts.filter((each) => hasKey(each) && each.run.journal === mine.run.journal);
      const ofKey = withKey.flatMap(({ posts }) => posts);
      // A service that refuses a start, and does not know the id that it named, has said that it made nothing.
      const mayBeCharged = withKey.filter(({ isRefused }) => !isRefused).flatMap(({ posts }) => posts);
      if (mayBeCharged.some(({ generated }) => generated && post.generated && generated !== post.generated))
        throw new Broken(1, `${process.name} sent key ${mine.key} again, which the service has forgotten`);
      if (ofKey.length > 1) reach("a key is sent again, and the service has not had it");
      const all = attempts.filter((other) => other !== mine && other.place < mine.place && !hasKey(other));
      const isOfOwnRun = (other: Attempt) => mine.take !== undefined && other.take?.run === mine.take.run;
      const earlier = all.filter((other) => !isAgain(mine) || isOfOwnRun(other));
      if (mine.take && earlier.some(({ take, posts }) => take && take.run !== mine.take?.run && posts.length > 0))
        reach("another run of several begins");
      if (earlier.some((other) => other.isDeleted && isSame(other, mine)))
        reach("a deleted generation is started again");
      const isChanged = (other: Attempt) => other.untyped !== mine.untyped && isSame(other, mine);
      if (isAgain(mine) && all.some((other) => isChanged(other) && other.dismissedAt !== undefined))
        reach("--again passes over what was started with other values");
      const isSameLine = (other: Attempt) => isSame(other, mine) || (!isOfOwnRun(other) && isSameLast(other, mine));
      for (const other of earlier)
        if (isSameLine(other) && !allows(other, mine, now()) && !isRedone(other, mine)) {
          const first = other.posts.at(-1);
          throw new Broken(
            1,
            `${process.name} starts ${nameOf(mine)} again, which ${other.run.process.name} has started: the service "${first?.does}" then`,
          );
        }
    },
    onDelivered(post: Post): void {
      const mine = attempts.findLast((each) => each.posts.includes(post));
      mine?.delivered.push(post);
      onAnswer(post.answersAt ?? now());
      const { means, hasId, isCut } = post.behaviour;
      if (post.isForeign) reach("the answer to another request is replayed");
      if (hasId && isCut) reach("an answer is cut after the id");
      if (hasId && means === "refused") reach("a refusal has an id");
      if (hasId && means === "unknown") reach("an unclear start has an id");
      if (mine) onBalance(mine.run, post);
      if (mine && post.price !== undefined)
        prices.set(mine.run.process, new Map(prices.get(mine.run.process)).set(post.duration, post.price));
      if (mine === undefined) return;
      // It is the service's last word.
      if (means === "accepted") mine.unclearTo.delete(mine.run.process);
      mine.isRefused = means === "refused" || means === "later";
      if (mine.isRefused) mine.overFor.add("all");
      else mine.overFor.delete("all");
    },
    onStatusDelivered(process: Process, id: string, { status, text, isCut = false }: Answer): void {
      const known = id.toLowerCase();
      for (const each of byId(id)) {
        if (text.includes('"completed"')) each.completedTo.add(process);
        else if (status < 300 && !isCut) each.completedTo.delete(process);
        if (status < 300 && !isCut && text.includes(known)) each.unknownSince = undefined;
        else if (status === 404 && text.startsWith("{") && runOf(process).key === each.run.key)
          each.unknownSince ??= now();
        if (text.includes('"unclear"')) onUnclear(each, process);
        else if (text.includes('"failed"')) each.overFor.add("all");
        if (!text.includes('"completed"') || text.includes('"video_url":null')) continue;
        // Its address is all that was asked for.
        if (each.output !== undefined) continue;
        each.isAddressTold = true;
      }
    },
    /** A video stands under its name. */
    onVideo(id: string): void {
      for (const each of byId(id)) each.overFor.add("generate");
    },
    /** What a process says at its end must be true. */
    onEnd(run: Run): void {
      const { process, said, command } = run;
      const mine = attempts.filter((each) => each.run.process === process && each.posts.length > 0);
      const text = `${said.stderr}\n${said.stdout}`.toLowerCase();
      if (command.type === "generate" && command.isDryOnly) {
        checkDryOnly(run, mine);
        return;
      }
      if (text.includes("the program's listener throws")) reach("a program's listener throws");
      const isLeft = (each: Attempt) => each.isUnknown && each.run.process.endedAt === undefined && each.run !== run;
      if (command.type === "list --dismiss" && attempts.some(isLeft))
        reach("an unclear attempt is to be dismissed while its process lives");
      if (said.code === 5) reach("a command runs out of time");
      if (said.code === exits.interrupted.exit) reach("a command is interrupted");
      if (text.includes("no longer holds")) reach("a process has lost its lock");
      const known = contentOf(run.journal)?.toString("utf8").toLowerCase() ?? "";
      for (const { posts, delivered } of mine) {
        for (const { generated, behaviour } of posts) {
          if (generated === undefined) continue;
          // A batch names the file that has them.
          const results = command.type === "batch" ? resultsOf(command) : undefined;
          const written = results && contentOf(results)?.toString("utf8").toLowerCase();
          const isWritten = results !== undefined && (written?.includes(generated.id) ?? true);
          const isTold = text.includes(generated.id) || isWritten;
          const isRefused = delivered.some((each) => each.behaviour.means === "refused");
          if (said.code !== 6 && !isTold && !isRefused)
            throw new Broken(
              4,
              `${process.name} ends with ${said.code} and without the id of ${generated.id}, which was charged`,
            );
          const hasCome = behaviour.hasId && delivered.some((each) => each.generated === generated);
          if (hasCome && !isTold && !known.includes(generated.id))
            throw new Broken(2, `${process.name} got the id ${generated.id}, and it is nowhere`);
        }
      }
      const [bug] = /internal error in vidgen: e[a-z]+:.*/.exec(text) ?? [];
      if (bug !== undefined) throw new Broken(4, `${process.name} calls a failure of the disk a bug: ${bug}`);
      const isOne = command.type === "generate" && command.count === undefined;
      if (isOne && /nothing was sent(,| now)/.test(text) && mine.length > 0)
        throw new Broken(4, `${process.name} says that nothing was sent`);
      if (command.type === "generate" && said.code === 0 && command.place !== undefined && !command.noWait)
        if (said.files.length === 0) throw new Broken(4, `${process.name} ends with 0, and has saved nothing`);
      if (command.type === "generate" && said.code !== 6 && text.includes("may have been charged"))
        throw new Broken(4, `${process.name} says that it may have been charged, and ends with ${said.code}`);
      checkCount(run);
      checkOutcome(run, mine);
      checkDryRun(run, mine, text);
      checkCancel(run, text);
      checkDelete(run, text);
      checkPassedOver(run);
      checkUnclear(run);
      checkChanged(run, text);
      const isChange = command.type === "cancel" || command.type === "delete";
      const untold = isChange ? undefined : attempts.find(({ unclearTo }) => unclearTo.has(process));
      if (untold && said.code !== exits.unknown.exit && said.code !== exits.interrupted.exit)
        throw new Broken(
          4,
          `${process.name} ends with ${said.code}, and was told that ${untold.id} may have been charged`,
        );
      // The same line saves it: what is cut is resumed.
      const isCut = text.includes("timed out before the video was saved");
      if (isCut && command.type === "generate" && command.count === undefined && said.code !== exits.pending.exit)
        throw new Broken(4, `${process.name} was cut while it saved, and ends with ${said.code}`);
      // Of its partial file something else may be true by the time that it is printed.
      if (command.type === "generate" && command.place && text.includes(`${command.place} already exists`)) {
        const bytes = contentOf(command.place) ?? Buffer.alloc(0);
        const own = idOfVideo(bytes);
        // The last line about its content tells: where the disk has refused all of them, or another version was saved elsewhere since, nobody knows it.
        const last = known
          .split("\n")
          .findLast(
            (line) => /"kind":"(downloaded|delivered)"/.test(line) && line.includes(own ?? "") && line.endsWith("}"),
          );
        const isKnown = last?.includes(createHash("sha256").update(bytes).digest("hex"));
        // Who cannot read the journal cannot know it.
        if (own !== undefined && text.includes(own) && isKnown && !failed.has(process))
          throw new Broken(3, `${process.name} says that ${command.place} exists, which is its own video`);
      }
      if (command.type === "batch" && said.code === 0) checkBatch(run, command);
      for (const { id, file } of said.files) {
        const bytes = contentOf(file);
        const found = bytes && idOfVideo(bytes);
        if (id === undefined) {
          if (bytes && found === undefined && !replacedAt.has(file))
            throw new Broken(3, `${process.name} says that ${file} is a video, and it is none`);
          continue;
        }
        // Another process may have replaced it since, on purpose.
        if ((replaced.get(id.toLowerCase()) ?? -1) >= process.startedAt) continue;
        if (bytes && found !== id.toLowerCase())
          throw new Broken(3, `${process.name} says that ${file} is the video of ${id}, and it is that of ${found}`);
      }
      // The words name a process by its PID alone, which one on another machine may have too.
      const isAlone = [...runs.keys()].every((other) => other === process || other.id.pid !== process.id.pid);
      if (isAlone && unremoved.has(process) && text.includes(`process ${process.id.pid} to release the lock`))
        throw new Broken(5, `${process.name} waits for itself`);
    },
  };

  /** Whether a live process follows it, and a process beside that one can see it. */
  function isFollowed({ attempt, run }: Attempt, process: Process): boolean {
    return (
      run.command.type === "generate" &&
      run.process !== process &&
      isNear(run.process, process) &&
      run.process.endedAt === undefined &&
      !hindered.has(run.process) &&
      [...files().keys()].some((path) => path.startsWith(`${runOf(process).journal}.leases/${attempt}/`))
    );
  }

  function handOver(each: Attempt): void {
    if (each.kind === "generate" && each.output === undefined) each.overFor.add("generate");
  }

  /** What another live process is following is left to that one. Returns what hears of each generation that was resumed. */
  function onResuming({ process }: Run): (id: string) => void {
    const followed = attempts.filter((each) => isFollowed(each, process));
    return (id) => {
      const found = followed.find((each) => each.id === id.toLowerCase() && isFollowed(each, process));
      if (found) throw new Broken(4, `${process.name} resumes ${id}, which ${found.run.process.name} is following`);
    };
  }

  /** A call of the library gets the generation that it has named, or that of its own request. */
  function onReturned({ process, journal, named }: Run, { id, key, prompt }: LibraryCall & { id: string }): void {
    const found = byId(id).filter((each) => each.run.journal === journal);
    const isOwn = (each: Attempt) => {
      if (key !== undefined) return each.isNamed && each.key === key;
      // In the journal the own key is left out.
      return !each.isNamed && (each.prompt === prompt || prompt.includes(pastedKey));
    };
    // A service that answers with something else is another matter.
    if (found.length > 0 && !found.some(isOwn))
      throw new Broken(4, `${process.name} asks for ${[...named].at(-1) ?? prompt}, and gets ${id}, which is another`);
  }

  /** A line with `-n` that ends well has as many results. */
  function checkCount({ process, said, command }: Run): void {
    if (command.type !== "generate" || command.count === undefined || said.code !== 0) return;
    const { prints = "text", count } = command;
    const results = { text: said.stdout.trim().split("\n"), json: JSON.parse(prints === "json" ? said.stdout : "[]") };
    const found = prints === "events" ? said.files : results[prints];
    if (prints === "events" && command.place === undefined) return;
    const distinct = new Set(found.map((each: unknown) => JSON.stringify(each))).size;
    // What somebody has deleted after it was delivered is done, and is not there.
    const gone = attempts.filter(({ take, isDeleted }) => take?.run.count === count && isDeleted).length;
    if (found.length !== distinct || found.length > count || found.length + gone < count)
      throw new Broken(4, `${process.name} ends with 0, and has ${found.length} of ${count} results`);
  }

  /** The exit code says how the start has ended. */
  function checkOutcome({ process, said, command }: Run, mine: readonly Attempt[]): void {
    const [only, ...others] = mine;
    if (command.type !== "generate" || only === undefined || others.length > 0) return;
    const last = only.delivered.at(-1);
    // Its end is the last word.
    if (only.unclearTo.has(process)) return;
    if (last === undefined || only.posts.at(-1) !== last) {
      if (said.code === 0) throw new Broken(4, `${process.name} ends with 0, and its start has no answer`);
      return;
    }
    // There was no other one that it could replay.
    const isOwn = last.does === "charges, and replays the answer of another request" && !last.isForeign;
    const means = isOwn ? "accepted" : last.behaviour.means;
    if (means === "unknown" && said.code !== 6 && !last.behaviour.hasId)
      throw new Broken(4, `${process.name} ends with ${said.code}, and nobody knows what "${last.does}" has cost`);
    // Of several, an earlier one may be unclear.
    if (means === "accepted" && said.code === 6 && command.count === undefined)
      throw new Broken(4, `${process.name} ends with 6, and the service "${last.does}"`);
  }

  /** A generation is cancelled when the command says so, and else goes on. */
  function checkCancel({ process, said, command, cancels }: Run, text: string): void {
    if (command.type !== "cancel" || cancels === undefined) return;
    if (attempts.some(({ run }) => run.process === process)) throw new Broken(1, `${process.name} starts a generation`);
    const isCancelled = cancelled.has(cancels);
    if (said.code === 0 && !isCancelled)
      throw new Broken(4, `${process.name} ends with 0, and ${cancels} was not cancelled`);
    if (cancelled.get(cancels) === process && /nothing was (changed|cancelled)/.test(text) && said.code !== 0)
      throw new Broken(4, `${process.name} says that nothing was changed, and the service has cancelled ${cancels}`);
    if (cancelled.get(cancels) === process && said.code === 0 && !/\b[12]0 credits were returned/.test(text))
      throw new Broken(4, `${process.name} does not say that the credits of ${cancels} came back`);
  }

  /** What was deleted is gone, and else nothing was. */
  function checkDelete({ process, said, command, deletes }: Run, text: string): void {
    if (command.type !== "delete" || deletes === undefined) return;
    if (attempts.some(({ run }) => run.process === process)) throw new Broken(1, `${process.name} starts a generation`);
    if (text.includes("another process is saving")) reach("a video is not deleted while another process saves it");
    const isDeleted = byId(deletes).some((each) => each.isDeleted);
    const isUnknown = byId(deletes).some((each) => each.unknownSince !== undefined);
    if (said.code === 0 && !isDeleted && !isUnknown)
      throw new Broken(4, `${process.name} ends with 0, and ${deletes} was not deleted`);
    if (text.includes("nothing was deleted") && isDeleted && process.startedAt > disturbedAt)
      throw new Broken(4, `${process.name} says that nothing was deleted, and ${deletes} is gone`);
  }

  /** What `--dry-run` says is what the same line does right after it. */
  function checkDryOnly({ process }: Run, mine: readonly Attempt[]): void {
    if (mine.length > 0) throw new Broken(4, `${process.name} sends a start in a dry run`);
    const isBeside = ({ startedAt, endedAt = now() }: Process) => startedAt < now() && endedAt > process.startedAt;
    if ([...runs.keys()].some((each) => each !== process && isBeside(each)))
      reach("a dry run is typed beside another command");
  }

  function checkDryRun(run: Run, mine: readonly Attempt[], text: string): void {
    const { command, process, said } = run;
    // Something else may have happened meanwhile.
    if (command.type !== "generate" || said.dry === undefined || disturbedAt > process.startedAt) return;
    const isBeside = ({ endedAt = Number.POSITIVE_INFINITY }: Process) => endedAt > process.startedAt;
    if ([...runs.keys()].some((each) => each !== process && isBeside(each))) return;
    const isResumed = text.includes("resuming") || (said.code === 0 && mine.length === 0);
    // Then either may follow.
    if (/would wait|"wait"/i.test(said.dry)) return;
    // Of several it says for each what is done.
    if (command.count !== undefined) {
      const starts = said.dry.match(/^POST |"method": "POST"/gm)?.length ?? 0;
      // What is unclear is sent again where the service keeps its key.
      const unclear = said.dry.match(/only if the service says|"code": "unknown"/g)?.length ?? 0;
      if (mine.length > starts + unclear || (said.code === 0 && mine.length < starts))
        throw new Broken(
          4,
          `${process.name} starts ${mine.length}, where --dry-run said that it would start ${starts}`,
        );
      return;
    }
    const saysResumed = /would resume|"reuse"|"resume"/i.test(said.dry);
    reach(saysResumed ? "a dry run finds an earlier one" : "a dry run shows the request");
    if (saysResumed && mine.length > 0)
      throw new Broken(4, `${process.name} starts a new one, where --dry-run said that it would resume`);
    if (!saysResumed && isResumed)
      throw new Broken(4, `${process.name} resumes, where --dry-run said that it would start`);
  }

  /** A balance that does not fall tells nobody what a start has cost. */
  function onBalance({ process, command }: Run, { credits, price }: Post): void {
    if (!("maxCredits" in command) || command.maxCredits === undefined || credits === undefined) return;
    const { credits: before, isKnown = true } = balances.get(process) ?? {};
    if (before !== undefined && credits >= before) reach("a balance does not fall");
    balances.set(process, {
      credits,
      isKnown: isKnown && (price !== undefined || before === undefined || credits < before),
    });
  }

  /**
   * Whether a redo may make a row again that was started before: once, and only what has been saved. Nobody edits a row here, or types --again, so
   * that a second redo of a row is a mistake.
   */
  function isRedone(other: Attempt, mine: Attempt): boolean {
    const { redo } = mine;
    if (redo === undefined || other.redo === redo) return false;
    const before = attempts.filter((each) => each !== mine && each.redo !== redo && isSame(each, mine));
    // The journal says so too.
    const isSeen = (each: Attempt) => !each.isWithoutResults || each.run.journal === mine.run.journal;
    const isSpent = (each: Attempt) =>
      each.posts.length > 0 && !each.overFor.has("all") && each.dismissedAt === undefined;
    if (before.some((each) => each.redo !== undefined && isSpent(each) && isSeen(each))) return false;
    reach("a row is made again");
    const saved = new Set([...files().values()].map((bytes) => idOfVideo(bytes)));
    return before.some(({ id = "" }) => saved.has(id) || replaced.has(id));
  }

  /** What a process has spent, and what it knows that this start costs, is within its budget. */
  function checkBudget({ process, command }: Run, { duration }: Post): void {
    const price = prices.get(process)?.get(duration);
    if (!("maxCredits" in command) || command.maxCredits === undefined || price === undefined) return;
    const own = attempts.filter(({ run }) => run.process === process).flatMap(({ delivered }) => delivered);
    const accepted = own.filter(({ behaviour }) => behaviour.means === "accepted");
    const spent = accepted.reduce((sum, { generated }) => sum + (generated?.cost ?? 0), 0);
    if (spent + price > command.maxCredits)
      throw new Broken(
        1,
        `${process.name} has spent ${spent} of ${command.maxCredits} credits, and starts what costs ${price}`,
      );
    reach("a price is known in a budget");
  }

  /** What was passed over with `--again`, or dismissed, stops nobody any more. */
  function checkPassedOver({ process, command, journal, said }: Run): void {
    if (command.type !== "generate" || said.code !== 6) return;
    const named = namedIn(`${said.stderr}\n${said.stdout}`);
    const isOver = (other: Attempt) =>
      (other.dismissedAt ?? Number.POSITIVE_INFINITY) < process.startedAt ||
      attempts.some(
        (each) =>
          (other.run.process.endedAt ?? Number.POSITIVE_INFINITY) < each.run.process.startedAt &&
          !other.delivered.some(({ behaviour }) => behaviour.means === "accepted") &&
          (other.hasOutcome || isNear(other.run.process, each.run.process)) &&
          each.posts.length > 0 &&
          each.intentAt < process.startedAt &&
          each.run.command.type === "generate" &&
          each.run.command.earlier === "again" &&
          isSame(other, each) &&
          each.project === other.project &&
          each.output === other.output,
      );
    for (const other of attempts)
      if (other.run.process !== process && other.run.journal === journal && named.has(other.attempt))
        if (isOver(other))
          throw new Broken(4, `${process.name} is stopped by ${other.attempt}, which somebody has passed over`);
  }

  function checkUnclear({ process, said }: Run): void {
    if (said.code !== 6) return;
    const named = namedIn(`${said.stderr}\n${said.stdout}`);
    for (const each of attempts)
      if (each.run.process !== process && named.has(each.attempt)) reach("a start is stopped by an unclear one");
    for (const each of attempts)
      if (named.has(each.attempt) && isWaitedFor(each, process))
        throw new Broken(4, `${process.name} calls ${each.attempt} unclear, which its process is still waiting for`);
    for (const each of attempts)
      if (named.has(each.attempt) && isSaidUnsent(each))
        throw new Broken(
          4,
          `${process.name} is stopped by ${each.attempt}, and its process has said that it sent nothing`,
        );
  }

  /** A line whose values from vidgen.json or stdin have changed stops with what can be typed next. */
  function checkChanged({ process, command, said }: Run, text: string): void {
    const [, differing] = /with another (.*) \(from [^)]*stdin\)/.exec(text) ?? [];
    if (command.type !== "generate" || differing === undefined || command.isDryOnly) return;
    const [, id] = /`vidgen wait (\S+)[^`]*` takes that video/.exec(text) ?? [];
    if (differing.includes("prompt")) reach("a changed vidgen.json stops a start");
    if (differing.includes("imageurl"))
      reach(id ? "another image on stdin stops a start" : "another image on stdin stops a start that has no id");
    const { folder = projectFolder } = command;
    const isOfOther = ({ project, styleAndImage }: Attempt) =>
      project !== undefined && project !== folder && !styleAndImage.startsWith(`${command.project} `);
    if (command.project !== undefined && byId(id ?? "").some(isOfOther))
      throw new Broken(4, `${process.name} is stopped by ${id}, which belongs to another project`);
    const isFollowable = id !== undefined && byId(id).length > 0 && text.includes("--again");
    if (isFollowable ? said.code !== 2 : said.code !== exits.unknown.exit)
      throw new Broken(4, `${process.name} ends with ${said.code}, and its line was started with other values`);
    // Another process may have changed vidgen.json before this one has read it; nobody else writes to its stdin.
    const { piped, project } = command;
    if (piped === undefined || project !== undefined) return;
    const hasSameImage = ({ run: { command: other } }: Attempt) =>
      other.type === "generate" && other.piped === piped && other.project === undefined;
    if (byId(id ?? "").some(hasSameImage))
      throw new Broken(4, `${process.name} does not resume ${id}, which the same line has started`);
  }

  /** Whether the process of a start has said, at its end, that it sent nothing, and not that the same line may stop all the same. */
  function isSaidUnsent({ run, posts }: Attempt): boolean {
    const { process, command, said, journal } = run;
    const isOne = command.type === "generate" && command.count === undefined && posts.length === 0;
    if (!isOne || process.endedAt === undefined || process.wasKilled) return false;
    // A process that ends a moment later may have read the journal before.
    if (now() - process.endedAt < 1_000) return false;
    // What a newer version writes about an attempt counts as unknown.
    if (contentOf(journal)?.includes('"kind":"paused"')) return false;
    return (
      said.stderr.includes("Nothing was sent, nothing was charged") && !said.stderr.includes("may stop with exit 6")
    );
  }

  /** A batch that ends well has the video of each row. */
  function checkBatch({ process, journal }: Run, { rows: typed, shard }: Command & { type: "batch" }): void {
    if (shard !== undefined) return;
    const isOpen = ({ key, posts, isRefused, dismissedAt, forgottenAt }: Attempt) =>
      posts.length > 0 &&
      !isRefused &&
      (dismissedAt ?? forgottenAt) === undefined &&
      !attempts.some((other) => other.key === key && (other.isIdWritten || other.overFor.has("generate")));
    const isOfRow = ({ kind, run, row = "" }: Attempt) =>
      kind === "batch" && run.journal === journal && rowsOf(typed).some(({ id }) => id === row);
    const open = attempts.find((each) => isOfRow(each) && isOpen(each));
    if (open) throw new Broken(4, `${process.name} ends with 0, and nobody knows what ${nameOf(open)} has cost`);
    // Somebody who types another batch may shorten the file first.
    const since = [...runs.values()].filter((each) => each.process.startedAt >= process.startedAt);
    const rows = Math.min(typed, ...since.flatMap((each) => (each.command.type === "batch" ? each.command.rows : [])));
    const saved = [...files().values()].map((bytes) => idOfVideo(bytes) ?? "");
    // A row whose video was deleted after it was saved is done.
    const deleted = attempts.flatMap(({ id = "", isDeleted, overFor }) =>
      isDeleted && overFor.has("generate") ? id : [],
    );
    const justGone = [...replaced].flatMap(([id, at]) => (at >= process.startedAt ? id : []));
    const found = new Set(
      [...saved, ...justGone, ...deleted].flatMap(byId).flatMap(({ kind, prompt }) => (kind === "batch" ? prompt : [])),
    );
    for (const { place, prompt } of rowsOf(rows))
      if (!found.has(prompt)) throw new Broken(3, `${process.name} ends with 0, and the video for ${place} is nowhere`);
  }

  /** After all faults somebody with each key has waited for everything: nothing that was paid for, and known here, may be missing. */
  function onTheEnd(generations: ReadonlyMap<string, Generated>): void {
    for (const { run, posts, delivered } of attempts)
      if (run.process.wasKilled && posts.length > delivered.length) reach("a process ends while its request is out");
    const left = files();
    const saved = new Set([...left.values()].map(idOfVideo));
    const lines = [...written.keys()].flatMap((path) => left.get(path)?.toString("utf8").split("\n") ?? []);
    const whole = lines.filter((line) => line.endsWith("}"));
    // A power failure may take the last line of a process that was stopped before it could say what it had just written. Where the disk has refused
    // to keep that line, its words alone have the id.
    const isKnown = (id: string, { said, process }: Run) =>
      [...whole, ...(failed.has(process) ? [] : [said.stdout, said.stderr])].some((text) =>
        text.toLowerCase().includes(id),
      );
    for (const { id = "", run, isAddressTold } of attempts) {
      const generated = generations.get(id);
      if (generated === undefined || generated.lostAt < now() || generated.ends !== "completed" || isAddressTold)
        continue;
      if (generated.isDeleted || byId(id).some(({ forgottenAt }) => forgottenAt !== undefined)) continue;
      if (![...written.values()].some((ids) => ids.has(id)) || !isKnown(id, run)) continue;
      if (saved.has(id) || replaced.has(id)) continue;
      throw new Broken(2, `the video of ${id}, which was paid for, is saved nowhere`);
    }
    for (const id of foreign)
      if (!saved.has(id) && !replaced.has(id)) throw new Broken(3, `the file of another program, ${id}, is gone`);
    for (const [path, bytes] of left)
      for (const key of keys)
        if (bytes.includes(key) || bytes.includes(Buffer.from(key).toString("base64")))
          throw new Broken(6, `${path} holds a key`);
  }
}

/**
 * The attempts that a text calls unclear, and does not say that their process is at work: a key may look like the beginning of another, or like an id.
 */
function namedIn(text: string): Set<string> {
  const lines = text.split("\n").filter((line) => !/Waiting up to|is still working on it/.test(line));
  return new Set([...lines.join("\n").matchAll(/\battempts? ([^\s,)]+)/gi)].map(([, name = ""]) => name));
}
