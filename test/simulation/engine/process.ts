import type { Clock, ProcessId } from "../../../src/io.ts";
import type { Random } from "../../faults/random.ts";
import type { Schedule, Step } from "../schedule.ts";

/** Where something can happen to a process: at a call of this kind, before it has its effect or when its result is on its way. */
export const callKinds = [
  "any",
  "file",
  "store",
  "submitting",
  "submitted",
  "finish",
  "create",
  "answer",
  "poll",
  "video",
  "callback",
] as const;
export type CallKind = (typeof callKinds)[number];

export type Mishap = {
  /** The call: the `nth` of this kind. */
  on: CallKind;
  nth: number;
  isAfter: boolean;
  /** "stopped" is a SIGTERM. "cut" is its connection to the shared database, before the next answer. */
  what: "killed" | "frozen" | "stopped" | "cut";
  ms: number;
};

/** What is wrong with the disk of this machine. */
export type DiskFault = "full" | "no descriptors" | "I/O errors";

/** A process of `vidgen serve`: each of its effects goes through `call`, so that it can be stopped between any two. */
export type Process = {
  name: string;
  id: ProcessId;
  clock: Clock;
  random: Random;
  diskFault(): DiskFault | undefined;
  isOver(): boolean;
  isFrozen(): boolean;
  /** When it was killed, cut off from its database, or woke up last after it was frozen; `undefined` if none of these has happened. */
  stoppedAt: number | undefined;
  /** Lets happen what is planned for this call. */
  strike(kind: CallKind, isAfter: boolean): void;
  /** Runs `effect`, and resolves with its result, unless the process is dead by then. */
  call<Result>(kind: CallKind, effect: () => Result | Promise<Result>, ms?: number): Promise<Result>;
  /** Runs `work` in the process: later, when it is frozen; never, when it is dead. */
  after(ms: number, work: () => void): Step | undefined;
  freeze(ms: number): void;
  /** Whether its connection to the database breaks before the next answer; once. */
  takeCut(): boolean;
  /** It never acts again. */
  end(): void;
};

export type ProcessOptions = {
  name: string;
  id: ProcessId;
  random: Random;
  mishaps: readonly Mishap[];
  /** How long a call may take, in milliseconds. */
  callMs: number;
  /** How far its wall clock is ahead of the true time, in milliseconds. */
  aheadMs(): number;
  diskFault(): DiskFault | undefined;
  onMishap(mishap: Mishap): void;
  onStop(): void;
};

/** The true date when a story begins. */
export const epoch = Date.UTC(2026, 5, 1);

export function createProcess(options: ProcessOptions, schedule: Schedule): Process {
  const { random, callMs } = options;
  const counts = new Map<CallKind, number>();
  let mishaps = [...options.mishaps];
  let isOver = false;
  let frozenUntil = 0;
  let isCut = false;

  const strike = (kind: CallKind, isAfter: boolean) => {
    if (isOver || mishaps.length === 0) return;
    const kinds: CallKind[] = [kind, "any"];
    if (!isAfter) for (const each of kinds) counts.set(each, (counts.get(each) ?? 0) + 1);
    const due = mishaps.filter(
      (each) => each.isAfter === isAfter && kinds.includes(each.on) && counts.get(each.on) === each.nth,
    );
    for (const mishap of due) {
      mishaps = mishaps.filter((each) => each !== mishap);
      options.onMishap(mishap);
      if (mishap.what === "killed") process.end();
      if (mishap.what === "frozen") process.freeze(mishap.ms);
      if (mishap.what === "stopped") options.onStop();
      if (mishap.what === "cut") isCut = true;
    }
  };
  const after = (ms: number, work: () => void): Step | undefined => {
    if (isOver) return undefined;
    const step: Step = {
      at: schedule.now() + ms,
      order: random.next(),
      run() {
        if (isOver) return;
        if (schedule.now() >= frozenUntil) return work();
        step.at = frozenUntil;
        schedule.add(step);
      },
    };
    return schedule.add(step);
  };
  /** At once, where nothing is in the way. */
  const soon = (ms: number, work: () => void) => {
    if (isOver) return;
    if (ms === 0 && schedule.now() >= frozenUntil) return work();
    after(ms, work);
  };

  const clock: Clock = {
    now: () => schedule.now(),
    date: () => new Date(epoch + Math.round(schedule.now()) + options.aheadMs()),
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(signal.reason);
        // Nobody waits for ever: only an abort ends it.
        const step = ms === Number.POSITIVE_INFINITY ? undefined : after(ms, done);
        signal?.addEventListener("abort", onAbort, { once: true });
        function done() {
          signal?.removeEventListener("abort", onAbort);
          resolve();
        }
        function onAbort() {
          if (step) schedule.cancel(step);
          reject(signal?.reason);
        }
      }),
    limit(ms, parent, reason) {
      const controller = new AbortController();
      const onParent = () => controller.abort(parent.reason);
      const add = () => after(ms, () => controller.abort(reason));
      let step = add();
      const cancel = () => {
        if (step) schedule.cancel(step);
      };
      parent.addEventListener("abort", onParent, { once: true });
      if (parent.aborted) onParent();
      return {
        signal: controller.signal,
        restart() {
          cancel();
          step = add();
        },
        clear() {
          cancel();
          parent.removeEventListener("abort", onParent);
        },
      };
    },
  };

  const process: Process = {
    name: options.name,
    id: options.id,
    clock,
    random,
    diskFault: options.diskFault,
    isOver: () => isOver,
    isFrozen: () => schedule.now() < frozenUntil,
    stoppedAt: undefined,
    strike,
    call: (kind, effect, ms = callMs === 0 ? 0 : random.next() * callMs) =>
      new Promise((resolve, reject) => {
        if (isOver) return;
        strike(kind, false);
        soon(ms, () => {
          const settle = (work: () => void) => {
            strike(kind, true);
            soon(0, work);
          };
          // An effect without a promise is over at once, so that nothing of the process comes between.
          try {
            const result = effect();
            if (!(result instanceof Promise)) return settle(() => resolve(result));
            result.then(
              (value) => settle(() => resolve(value)),
              (error) => settle(() => reject(error)),
            );
          } catch (error) {
            settle(() => reject(error));
          }
        });
      }),
    after,
    freeze(ms) {
      frozenUntil = Math.max(frozenUntil, schedule.now() + ms);
      process.stoppedAt = frozenUntil;
    },
    takeCut() {
      const wasCut = isCut;
      isCut = false;
      if (wasCut) process.stoppedAt = schedule.now();
      return wasCut;
    },
    end() {
      isOver = true;
      process.stoppedAt = schedule.now();
    },
  };
  return process;
}
