import type { LedgerEntry } from "../../../src/server/store/accounts.ts";
import type { Checkpoint, GenerationEnd, StoredGeneration } from "../../../src/server/store/generations.ts";
import { Broken } from "../rules.ts";
import { type Asked, type ImageFault, passingFaults } from "./images.ts";
import type { EnginePlan, Generation } from "./plan.ts";
import type { ReachEngine } from "./probes.ts";
import type { Process } from "./process.ts";
import type { Create, Job, Provider } from "./provider.ts";
import { madeReplies, notTakenReplies } from "./replies.ts";

/** What a callback or a status reply says. */
export type Told = { id?: string; status?: string; error?: string; error_code?: string; video_url?: string | null };

/** A generation of the service, as the rules know it. */
type Tracked = {
  id: string;
  account: string;
  cost: number;
  generation: Generation;
  startedBy: Process;
  ended: { at: number; end: GenerationEnd; isCancelled: boolean; isRefunded: boolean } | undefined;
  /** The processes that have written that they submit it. */
  submitting: Process[];
  /** It had not ended in a copy that was restored: its provider may have made and deleted it since, and it may fail. */
  isRestored: boolean;
  callbacks: { id: string; body: string; isTaken: boolean }[];
};

export type RulesOptions = {
  plan: Pick<
    EnginePlan,
    "kind" | "hasRefunds" | "store" | "diskTroubles" | "troubles" | "engines" | "used" | "isCommand" | "acts"
  >;
  images: Asked;
  now(): number;
  generationOf(prompt: string): Generation;
  provider(): Provider;
  /** Whether the process has the generation, or the folder that it is in. */
  isHolder(process: Process, id: string): boolean;
  reach: ReachEngine;
  /** Hears of a rule that is broken: what it throws would be taken for an error of the service. */
  onBroken(broken: Broken): void;
};

/** What a process had claimed before a reload may still be submitted after it. */
const drainMs = 5_000;
const endMs = 10_000;
/** For how long an image is asked for, less the time of a request. */
const patienceMs = 5 * 60_000 - 1_000;

export type EngineRules = ReturnType<typeof createEngineRules>;

/**
 * What must hold, whatever happens; from `submit.md` ("A paid create at an engine is the same request") and the pages of the service:
 *
 * 1. A create is paid once for a generation, also by what stands behind the server that gets it: after one that was written, another one is sent only when the first was surely not taken.
 * 2. No create is sent for a generation that has ended, or by a process that another one has taken it over from.
 * 3. What was made is kept.
 * 4. What the service says of the end is true.
 * 5. The callback comes after the end was stored, and says the same as the status.
 * 6. The credits add up.
 * 7. Every generation ends; that of a command whose engine is not at its address, within the minute.
 * 8. An end is final.
 * 9. A restored copy of the database is not served until its owner says that it is one; by rule 1, what it may have submitted since the copy is
 *    not submitted again then. What was started after the copy is gone.
 * 10. An engine never has more of the service's jobs than its own number of them, and one that is used no more gets no others.
 * 11. What may have been charged is not removed before somebody says that this is known. The times of a database that processes share are its own.
 * 12. A reload counts for every reply from then on.
 * 13. Credits are gone only where an engine may have accepted the generation, also with `--no-refunds`.
 * 14. At a server that makes the same video without a seed, two generations have different seeds, and the creates of one have the same.
 * 15. A cancel that its engine confirms is answered as done, whoever reads the end of the job first.
 */
export function createEngineRules(options: RulesOptions) {
  const { plan, provider, isHolder, reach } = options;
  const byName = new Map<string, Tracked>();
  const byId = new Map<string, Tracked>();
  const fail = (rule: number, message: string) => options.onBroken(new Broken(rule, message));
  const createsOf = (name: string) => provider().creates.filter(({ generation }) => generation.name === name);
  const hasJobAnswer = ({ reply, answeredAt }: Create) => madeReplies.includes(reply) && answeredAt !== undefined;
  const isSurelyNotTaken = ({ reply, answeredAt }: Create) =>
    notTakenReplies.includes(reply) && answeredAt !== undefined;
  const isUnclear = (create: Create) => !hasJobAnswer(create) && !isSurelyNotTaken(create);
  /** Whether something kept its process from writing down what it was answered. */
  const isDisturbed = ({ process, at }: Create) =>
    (process.stoppedAt !== undefined && process.stoppedAt >= at) ||
    // Without its database it cannot say that it goes on.
    (plan.store === "shared" && plan.diskTroubles.length > 0);

  /** Whether a process could not say that it had not sent the create that it had written down. */
  const isLeftSubmitting = ({ submitting }: Tracked) =>
    submitting.some(({ stoppedAt }) => stoppedAt !== undefined) ||
    (submitting.length > 0 && plan.store === "shared" && plan.diskTroubles.length > 0);

  const findMisfortune = (
    job: Job | undefined,
    last: Create | undefined,
  ): "refused" | "failed" | "lost" | undefined => {
    if (last && ["400", "409"].includes(last.reply) && last.answeredAt !== undefined) return "refused";
    if (!job) return undefined;
    if (job.end === "fails" && provider().hasEnded(job)) return "failed";
    if (job.end === "never ends" || provider().isLost(job) || job.cancelledAt !== undefined) return "lost";
    return undefined;
  };

  /** Checks that the host of a generation's image is the reason for its end. */
  const checkImageEnd = ({ generation: { name, image } }: Tracked, said: string) => {
    const { firstAt, sentAt } = options.images.get(name) ?? {};
    const isPassing = image && passingFaults.some((fault: ImageFault) => fault === image.fault);
    // The 5 minutes are those of the wall clock.
    const isSteady = !plan.acts.some(({ what }) => what === "clock");
    if (!image || firstAt === undefined || sentAt !== undefined) fail(4, `${said}, for no reason of its image`);
    else if (isPassing && isSteady && options.now() - firstAt < patienceMs)
      fail(4, `${said}, and its image was asked for during ${(options.now() - firstAt) / 1_000} s alone`);
    reach(isPassing ? "an image is given up" : "an image is refused");
  };

  const checkSeed = ({ generation: { name }, seed }: Create) => {
    if (seed === undefined) fail(14, `a create of ${name} has no seed`);
    const other = provider().creates.find((each) => (each.seed === seed) !== (each.generation.name === name));
    if (other)
      fail(14, `a create of ${name} has the seed ${seed}, and one of ${other.generation.name} has ${other.seed}`);
  };

  /** Checks that an end is true, and returns whether what was paid is given back. */
  const checkEnd = (tracked: Tracked, end: GenerationEnd, isCancelled: boolean): boolean => {
    const { name } = tracked.generation;
    const creates = createsOf(name);
    const last = creates.at(-1);
    const job = creates.find(({ job }) => job)?.job;
    const accepted = creates.find(hasJobAnswer);
    const unclear = creates.find(isUnclear);
    const said = `${name} ends as ${end.status}${end.error_code ? ` (${end.error_code})` : ""}: ${end.error}`;
    if (end.status === "completed") {
      if (!job || !provider().hasEnded(job) || job.end !== "completes") fail(4, `${said}, and its video was not made`);
      return false;
    }
    if (tracked.isRestored) return false;
    if (isCancelled && end.error_code === "unclear") {
      reach("a cancel ends a job of an engine without its key");
      return false;
    }
    if (isCancelled) {
      if (job && !provider().isStopped(job)) fail(3, `${said}, and the provider makes it`);
      // No engine can have accepted it.
      return plan.hasRefunds || creates.every(isSurelyNotTaken);
    }
    switch (end.error_code) {
      case "unclear":
        if (accepted && !isDisturbed(accepted)) fail(4, `${said}, and its process had the answer with the job`);
        else if (!unclear && !isLeftSubmitting(tracked)) fail(4, `${said}, and each create was answered`);
        return false;
      case "not_submitted":
      case "auth":
        if (job || unclear) fail(4, `${said}, and a create was sent${job ? " and taken" : ""}`);
        return true;
      case "credits":
        if (last?.reply !== "402" || unclear) fail(4, `${said}, and the provider did not say so`);
        return true;
      case "not_fetched": {
        // By src/docs/real-models.md, a page of a proxy in place of the video passes.
        const isBad = job && ["gone", "garbage", "no path"].includes(job.content);
        if (!job || !provider().hasEnded(job) || !isBad) fail(3, `${said}, and the video is there`);
        // A create that names the video's address shows nothing of the server's folder.
        if (job?.content === "no path" && last?.reply !== "the finished video" && !end.error?.includes("--output-path"))
          fail(4, `${said}, and it does not say with which flag to start the server`);
        return plan.hasRefunds;
      }
      default: {
        if (end.failure === "image") {
          checkImageEnd(tracked, said);
          return true;
        }
        // Its image could not be written.
        if (tracked.generation.image && plan.diskTroubles.length > 0 && creates.every(isSurelyNotTaken)) return true;
        const misfortune = findMisfortune(job, last);
        if (unclear && !accepted) fail(4, `${said}, although its create was unclear (${unclear.reply})`);
        else if (misfortune === undefined) fail(job ? 3 : 4, `${said}, for no reason of the provider`);
        // By src/docs/real-models.md, what no provider accepted is given back always.
        return misfortune === "refused" || (misfortune === "lost" && plan.hasRefunds);
      }
    }
  };

  let isAnyRestored = false;
  const checkBalances = (spentBy: ReadonlyMap<string, number>) => {
    for (const [account, spent] of spentBy) {
      const own = [...byName.values()].filter((each) => each.account === account && !each.ended?.isRefunded);
      const due = own.reduce((sum, { cost }) => sum + cost, 0);
      if (spent !== due) fail(6, `the account ${account} has ${spent} credits fewer, not ${due}`);
    }
  };

  /** Which engines each process uses, and since when. */
  const used = new Map<Process, { engines: readonly number[]; since: number }>();
  /** Whether an engine makes a generation, or may: what is made and not saved yet takes no place there. */
  const isAt = ({ engine }: Create, { generation, ended, isRestored }: Tracked) => {
    const last = createsOf(generation.name).at(-1);
    if (ended || isRestored || last?.engine !== engine || isSurelyNotTaken(last)) return false;
    return last.job === undefined || last.job.end === "never ends" || !provider().hasEnded(last.job);
  };
  const crowded: { said: string; at: number; busy: Tracked[]; most: number }[] = [];
  /** A place is free a moment before the end of what it was for is stored. */
  const checkCrowded = () => {
    // A job about which the server gives only errors, or replies that cannot be read, holds no place for long, and may be made all the same.
    if (plan.troubles.some(({ kind }) => ["an error of the upstream", "HTML", "cut"].includes(kind))) return;
    for (const { said, at, busy, most } of crowded) {
      const still = busy.filter(({ ended }) => !ended || ended.at > at + endMs);
      if (still.length >= most) fail(10, `${said}, which has ${still.length} jobs of ${most}`);
    }
  };
  const checkPlaces = (create: Create, tracked: Tracked | undefined) => {
    const { engine, process, at } = create;
    const said = `a create of ${create.generation.name} is sent to the engine ${engine + 1}`;
    const busy = [...byName.values()].filter((each) => each !== tracked && isAt(create, each));
    const most = plan.engines[engine] ?? 0;
    if (busy.length + 1 === most) reach("an engine has all its jobs");
    // A command follows only what it is asked for.
    if (busy.length >= most && !plan.isCommand) crowded.push({ said, at, busy, most });
    const { engines, since } = used.get(process) ?? { engines: [], since: 0 };
    if (!engines.includes(engine) && at - since > drainMs)
      fail(10, `${said} by ${process.name}, which uses it no more`);
    if (engines.includes(engine) && !plan.used.includes(engine)) reach("a new engine takes work");
  };

  return {
    onUse(process: Process, engines: readonly number[]): void {
      used.set(process, { engines, since: options.now() });
    },
    all: () => [...byName.values()],
    onStarted({ id, account, request }: StoredGeneration, cost: number, process: Process): void {
      const generation = options.generationOf(request.prompt);
      if (byName.has(generation.name)) fail(6, `${generation.name} is started and charged twice with one key`);
      const tracked = {
        id,
        account,
        cost,
        generation,
        startedBy: process,
        ended: undefined,
        submitting: [],
        isRestored: false,
        callbacks: [],
      };
      byName.set(generation.name, tracked);
      byId.set(id, tracked);
    },
    onCheckpoint(id: string, checkpoint: Checkpoint | null, process: Process): void {
      if (checkpoint?.state === "submitting") byId.get(id)?.submitting.push(process);
    },
    onCreate(create: Create): void {
      const { name, image } = create.generation;
      const asked = options.images.get(name);
      if (image && asked?.sentAt === undefined) fail(4, `a create of ${name} is sent without its image`);
      if (asked?.sentAt !== undefined && asked.sentAt > asked.firstAt) reach("an image is asked for again");
      const tracked = byName.get(name);
      const before = createsOf(name).filter((each) => each !== create);
      const unsure = before.find((each) => !isSurelyNotTaken(each));
      if (unsure) fail(1, `the create of ${name} is sent again by ${create.process.name} after "${unsure.reply}"`);
      else if (tracked?.ended) fail(2, `a create of ${name} is sent by ${create.process.name}, and it has ended`);
      else if (tracked && !isHolder(create.process, tracked.id))
        fail(2, `a create of ${name} is sent by ${create.process.name}, from which another process has taken over`);
      checkPlaces(create, tracked);
      if (plan.kind === "sglang") checkSeed(create);
      if (create.paid > 1) fail(1, `one create of ${name} is paid ${create.paid} times by what is behind the server`);
      if (before.length > 0) reach("a create is put off and sent again");
      const [first] = before.filter((each) => each.process === create.process);
      const others = provider().creates.filter((each) => each !== create && first && each.at >= first.at);
      const isElsewhere = others.every(({ reply }) => reply === "404 with HTML");
      if (first && isElsewhere && plan.isCommand && create.at - first.at > 60_000)
        fail(7, `a create of ${name} is sent to a wrong address for ${(create.at - first.at) / 1_000} s`);
      if (create.isTaken && !madeReplies.includes(create.reply)) reach("an unclear create was taken");
    },
    onEnd(id: string, end: GenerationEnd, { process, isCancelled }: { process: Process; isCancelled: boolean }): void {
      const tracked = byId.get(id);
      if (!tracked) return;
      const { name } = tracked.generation;
      if (tracked.ended) {
        fail(8, `${name} ends twice`);
        return;
      }
      const isRefunded = checkEnd(tracked, end, isCancelled);
      tracked.ended = { at: options.now(), end, isCancelled, isRefunded };
      const apartMs = process.clock.date().getTime() - tracked.startedBy.clock.date().getTime();
      if (Math.abs(apartMs) >= 60_000) reach("processes whose clocks differ write of one generation");
      if (end.error_code === "not_submitted" && createsOf(name).at(-1)?.reply === "404 with HTML")
        reach("an engine is not at its address");
      if (end.error_code === "unclear") reach("a create is unclear");
      if (isCancelled) reach("a cancel stops a generation");
      if (isRefunded) reach("credits are given back");
      if (createsOf(name).some(({ reply }) => reply === "400" || reply === "409")) reach("a create is refused");
      if (tracked.generation.end === "never ends" && end.status === "failed") reach("a job goes on for too long");
    },
    /** A copy takes the place of the database: the generations that it has, and whether each had ended. */
    onRestored(copied: ReadonlyMap<string, { hasEnded: boolean }>): void {
      isAnyRestored = true;
      for (const tracked of [...byId.values()]) {
        const found = copied.get(tracked.id);
        if (!found) {
          byId.delete(tracked.id);
          byName.delete(tracked.generation.name);
        } else if (!found.hasEnded) Object.assign(tracked, { ended: undefined, callbacks: [], isRestored: true });
      }
    },
    onCallback(name: string, { id, body, isTaken }: { id: string; body: string; isTaken: boolean }): void {
      const tracked = byName.get(name);
      if (!tracked?.ended) {
        fail(5, `the callback of ${name} is sent before its end is stored`);
        return;
      }
      const told: Told = JSON.parse(body);
      if (told.id !== tracked.id || !agrees(told, tracked.ended.end))
        fail(5, `the callback of ${name} says ${body}, and the end is ${JSON.stringify(tracked.ended.end)}`);
      const [first] = tracked.callbacks;
      if (first && (first.id !== id || first.body !== body)) fail(5, `${name} has two callbacks`);
      if (tracked.callbacks.some((each) => each.isTaken)) reach("a callback is sent twice");
      tracked.callbacks.push({ id, body, isTaken });
    },
    onStatus(name: string, told: Told): void {
      const tracked = byName.get(name);
      if (told.status === "processing") {
        if (tracked?.ended) fail(8, `${name} has ended, and its status is processing`);
        return;
      }
      if (!tracked?.ended) {
        fail(8, `the status of ${name} is ${told.status}, and no end was stored`);
        return;
      }
      if (!agrees(told, tracked.ended.end))
        fail(
          8,
          `the status of ${name} is ${JSON.stringify(told)}, and its end was ${JSON.stringify(tracked.ended.end)}`,
        );
    },
    onCancelAnswer(name: string, status: number, message: string): void {
      if (status === 409 && message.includes("it has failed: cancelled"))
        fail(15, `the cancel of ${name} is answered ${status}: ${message}`);
    },
    /** How a DELETE of a generation that has ended as unclear is answered. */
    onDeleted(name: string, status: number, { isAcknowledged }: { isAcknowledged: boolean }): void {
      reach("a delete meets an unclear end");
      const due = isAcknowledged ? 200 : 409;
      if (status !== due)
        fail(11, `the DELETE of ${name}, which may have been charged, is answered ${status}, not ${due}`);
    },
    /** The times of a generation, as the service has them in the end. */
    onTimes(name: string, { created_at, completed_at }: Pick<StoredGeneration, "created_at" | "completed_at">): void {
      if (completed_at !== null && completed_at < created_at)
        fail(11, `${name} was started at ${created_at}, and had ended at ${completed_at}`);
    },
    /** What a process says that it serves, once it has read the owner's file. */
    onModels(process: Process, said: string, models: readonly string[]): void {
      if (models.some((each) => !said.includes(each)) || models.length !== said.split(/made-by-/).length)
        fail(12, `${process.name} serves ${models.join(", ")} since a reload, and says: ${said}`);
    },
    /** What `/v1/videos` says in the end. */
    onVideo(
      name: string,
      { status, error }: { status?: string; error?: { code: string; message: string } | null },
    ): void {
      const ended = byName.get(name)?.ended;
      if (!ended) return;
      const { error_code, engine_code } = ended.end;
      // A cancel that the engine knows, and a restored database does not, is one as well.
      const isCancelled = ended.isCancelled || ended.end.error?.startsWith("cancelled at https://provider-");
      const code = error_code ?? (isCancelled ? "cancelled" : (engine_code ?? "failed"));
      const isSame =
        status === ended.end.status &&
        (status === "completed" ? !error : error?.code === code && error.message === ended.end.error);
      if (!isSame) fail(5, `/v1/videos says of ${name} ${status}, ${JSON.stringify(error)}, and its end was ${code}`);
    },
    /** The bytes of a video that was kept. */
    onKept(name: string, bytes: Uint8Array | undefined): void {
      const job = createsOf(name).find(({ job }) => job)?.job;
      const isSame = job && bytes && Buffer.compare(provider().videoOf(job), bytes) === 0;
      if (!isSame) fail(3, `the video of ${name} ${bytes ? "is another one" : "is gone"}`);
    },
    /** `spentBy` is how many credits each account has fewer than in the beginning. */
    onTheEnd(entries: readonly LedgerEntry[], spentBy: ReadonlyMap<string, number>): void {
      // A copy has neither the debits nor the refunds since.
      if (!isAnyRestored) checkBalances(spentBy);
      checkCrowded();
      for (const { id, generation, cost, account, ended, isRestored, callbacks } of byName.values()) {
        const { name, hasCallback } = generation;
        if (!ended) fail(7, `${name} never ends`);
        else if (hasCallback && !callbacks.some(({ isTaken }) => isTaken))
          fail(7, `the callback of ${name} never comes`);
        if (isRestored) continue;
        const own = entries.filter((entry) => entry.generation === id);
        const sum = own.reduce((total, { amount }) => total + amount, 0);
        const due = ended?.isRefunded ? 0 : -cost;
        const mayBeTaken =
          createsOf(name).some((create) => !isSurelyNotTaken(create)) || ended?.end.error_code === "unclear";
        if (ended?.end.status === "failed" && sum !== 0 && !mayBeTaken)
          fail(13, `${name} costs ${-sum} credits, and no engine can have accepted it`);
        if (sum !== due || own.some((entry) => entry.account !== account) || own.length > 2)
          fail(6, `${name} costs ${-sum} credits in ${own.length} rows, not ${-due} (${JSON.stringify(ended?.end)})`);
      }
    },
  };
}

function agrees({ status, error, error_code, video_url }: Told, end: GenerationEnd): boolean {
  const isSame = status === end.status && (error ?? null) === end.error && error_code === end.error_code;
  return isSame && (status === "completed") === (typeof video_url === "string");
}
