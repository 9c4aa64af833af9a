// The world of a key: one command line, typed again and again by processes that are killed or suspended, beside dismissals and `--forget`, against a
// service that remembers keys for a while. A start is chosen and its intent written in one step, because both happen under the journal's lock.
import { combinations, copyOf } from "./explore.mjs";
import { readTables } from "./tables.mjs";

const { table1, table2 } = readTables();

/** The rules of this world. A scene without one of them shows that it is needed. */
export const rules = {
  /** A process asks the service before it confirms its lease and that its attempt was not dismissed. */
  confirmsLast: true,
  /** Right before the first byte, a process that was suspended since it confirmed sends nothing. */
  assertsFresh: true,
  /** Table 2 has a row for an unknown attempt whose process is alive. */
  waitsForAnswer: true,
  /** A line that waited for an unknown attempt takes its generation, whatever table 2 says. */
  looksAgain: true,
  /** Several open attempts with one key, none of them with a generation, are one unknown attempt, alive while one of them is; else the newest decides. */
  keyIsOne: true,
  /** `--dismiss` and `--forget` refuse while a live process has the attempt, whatever its state. */
  dismissalLooksAtLease: true,
  forgetsWholeKey: true,
  /** The intent of a resend says when its key was first sent. */
  recordsFirstSend: true,
  /** A key is sent again only with the API key of its first send. */
  comparesAccount: true,
  /** All attempts with the key that may have been charged count, and those that were unsent or refused do not; else the oldest attempt counts. */
  comparesEveryAccount: true,
  /** A key is sent again only while the service remembers the first send. */
  comparesAge: true,
  /** `--dismiss` refuses if an attempt with the key has a generation. */
  dismissalSeesGeneration: true,
};

const line = (mode, account = 0) => ({ mode, account });
const same = line("same");
const commands = {
  same,
  rotated: line("same", 1),
  reuse: line("reuse"),
  again: line("again"),
  named: line("named"),
  dismiss: line("dismiss"),
  forget: line("forget"),
};
const { rotated, reuse, again, named, dismiss, forget } = commands;

const base = {
  commands: [same],
  typed: 3,
  kills: 1,
  suspensions: 1,
  hours: 0,
  machines: [0, 0],
  keepsKeys: true,
  /** For how many hours the service remembers a key. */
  lifetime: 1,
  sends: 2,
};
export const scenes = {
  dismissed: { ...base, commands: [same, dismiss] },
  dismissedElsewhere: { ...base, commands: [same, dismiss], machines: [0, 1] },
  dismissedTwice: { ...base, commands: [same, dismiss], typed: 4, suspensions: 0 },
  twoTerminals: { ...base, machines: [0, 0, 0], kills: 0 },
  twoMachines: { ...base, machines: [0, 1] },
  again: { ...base, commands: [same, again] },
  againElsewhere: { ...base, commands: [same, again], machines: [0, 1] },
  reuse: { ...base, commands: [same, reuse] },
  reuseElsewhere: { ...base, commands: [same, reuse], machines: [0, 1] },
  named: { ...base, commands: [named] },
  namedDismissed: { ...base, commands: [named, dismiss], suspensions: 0 },
  namedElsewhere: { ...base, commands: [named], machines: [0, 1] },
  notKept: { ...base, commands: [same, dismiss], keepsKeys: false },
  forgotten: {
    ...base,
    commands: [same, forget],
    hours: 2,
    lifetime: 2,
    suspensions: 0,
    typed: 4,
    machines: [0],
    sends: 1,
  },
  forgottenElsewhere: { ...base, commands: [same, forget], machines: [0, 1] },
  namedForgotten: { ...base, commands: [named, forget], hours: 1, suspensions: 0, typed: 4 },
  old: { ...base, hours: 1, kills: 2, suspensions: 0 },
  oldSuspended: { ...base, hours: 1 },
  rotated: { ...base, commands: [same, rotated], suspensions: 0 },
  namedRotated: { ...base, commands: [named, line("named", 1)], suspensions: 0 },
};

export function initial({ typed, kills, suspensions, hours, machines }) {
  return {
    attempts: [],
    processes: machines.map(() => null),
    charges: [],
    time: 0,
    serial: 0,
    typed,
    kills,
    suspensions,
    hours,
  };
}

const isOpen = ({ state }) => ["sending", "unknown", "lost"].includes(state);
const hasGeneration = ({ state }) => ["running", "ready", "delivered"].includes(state);

/** What a process may see of the lease of `owner`. A serial number also tells the machine of a process that ended. */
function views({ processes }, { machines }, slot, owner) {
  if (owner < 0) return ["dead"];
  const of = owner % machines.length;
  const process = processes[of];
  const isThere = process !== null && process.serial === owner;
  if (of === slot && isThere) return ["dead"];
  if (machines[of] === machines[slot]) return [isThere ? "alive" : "dead"];
  if (isThere && !process.isSuspended) return ["unsure", "alive"];
  return ["unsure", "dead"];
}

/** When a key was first sent, and the accounts of the attempts with it that may have been charged, as the journal still says. */
function firstSend(attempts, key, { recordsFirstSend, comparesEveryAccount }) {
  const known = attempts.filter((each) => each.key === key && !each.isForgotten);
  const time = Math.min(...known.map((each) => (recordsFirstSend ? each.firstSentAt : each.at)));
  const counting = comparesEveryAccount
    ? known.filter(({ state }) => state !== "unsent" && state !== "refused")
    : known.slice(0, 1);
  return { time, accounts: counting.map(({ account }) => account) };
}

function mayBeSentAgain({ attempts, time }, key, account, { use, lifetime }) {
  const first = firstSend(attempts, key, use);
  return (
    (!use.comparesAge || time - first.time < lifetime) &&
    (!use.comparesAccount || first.accounts.every((each) => each === account))
  );
}

const waitingCell = /^(watch|wait)/;

/** The cell of table 2 for the attempts that share a key, as seen with these leases. */
function decideForKey(members, mode, use) {
  const cellOf = ({ attempt, lease }) => {
    if (mode === "named" && attempt.isDismissed && isOpen(attempt)) return "send";
    if (!use.waitsForAnswer && attempt.state === "unknown") return table2[`unknown|dead|${mode}`];
    return table2[`${attempt.state}|${lease}|${mode}`];
  };
  const withId = members.findLast(({ attempt }) => attempt.generation !== undefined);
  if (withId) return { member: withId, cell: cellOf(withId) };
  const newest = members.at(-1);
  if (!use.keyIsOne) return { member: newest, cell: cellOf(newest) };
  const open = members.filter(({ attempt }) => isOpen(attempt) && !attempt.isDismissed);
  const lease = ["alive", "unsure", "dead"].find((each) => members.some((member) => member.lease === each));
  const [only] = open;
  if (only === undefined) return { member: newest, cell: cellOf(newest) };
  const attempt = open.length === 1 ? only.attempt : { ...only.attempt, state: "unknown" };
  return { member: only, cell: cellOf({ attempt, lease }) };
}

/** What a line does about the earlier attempts, with these views of their leases. */
function choose({ attempts, time }, { keepsKeys, lifetime, use }, process, leases) {
  const { mode, account } = process.command;
  const seen = attempts.flatMap((attempt, index) => {
    const isCandidate = mode === "named" ? attempt.key === "named" : attempt.key !== "named" && !attempt.isDismissed;
    return isCandidate && !attempt.isForgotten ? [{ attempt, lease: leases[index], index }] : [];
  });
  const keys = [...new Set(seen.map(({ attempt }) => attempt.key))];
  if (mode === "reuse") keys.reverse();
  const stops = [];
  const dismissed = [];
  for (const key of keys) {
    const members = seen.filter(({ attempt }) => attempt.key === key);
    const { member, cell } = decideForKey(members, mode, use);
    const { attempt, index } = member;
    const waited =
      use.looksAgain && process.waited.includes(key) && attempt.generation !== undefined && attempt.state !== "failed";
    if (/^(resume|join)/.test(cell) || waited) return { kind: "resume", index };
    if (cell === "dismiss")
      dismissed.push(
        ...members.filter((each) => isOpen(each.attempt) || hasGeneration(each.attempt)).map((each) => each.index),
      );
    if (waitingCell.test(cell)) stops.push({ kind: "wait", key, waits: cell });
    if (/^(refuse|send again)/.test(cell))
      stops.push({ kind: "refuse", key, canResend: cell.startsWith("send again") });
  }
  const [first] = stops;
  if (first === undefined) return { kind: "new", key: mode === "named" ? "named" : undefined, dismissed };
  if (first.kind === "wait") return first;
  const isOnly = stops.every(({ key, canResend }) => key === first.key && canResend);
  const isKept = keepsKeys && mayBeSentAgain({ attempts, time }, first.key, account, { use, lifetime });
  return isOnly && isKept ? { kind: "new", key: first.key, isResend: true, dismissed } : first;
}

/** Whether a new start may ignore this attempt without a word: then nobody is surprised by a second charge. */
function isPassable({ state, isHandedOver }, lease) {
  if (state === "delivered" || state === "failed" || isHandedOver) return true;
  return lease === "alive" && state !== "unknown";
}

function charge(state, attempt, account, violations) {
  const { attempts, charges } = state;
  if (attempt.isDismissed) violations.push(`an attempt that was dismissed is charged (${attempt.state})`);
  if (attempt.isForgotten) violations.push("an attempt that was forgotten is charged");
  const firstOf = (key) => attempts.findIndex((each) => each.key === key);
  for (const { key } of charges) {
    if (key === attempt.key) {
      violations.push("a second charge under one key");
      continue;
    }
    if (key === "named" || attempt.key === "named") continue;
    const [older, newer] = firstOf(key) < firstOf(attempt.key) ? [key, attempt.key] : [attempt.key, key];
    const start = attempts[firstOf(newer)];
    if (start.mode === "again") continue;
    const unseen = attempts.findIndex(
      (each, index) => each.key === older && index < firstOf(newer) && !start.passed.includes(index),
    );
    if (unseen >= 0) violations.push(`a second charge: the start ignored an attempt that was ${start.saw[unseen]}`);
  }
  const generation = state.generations ?? 0;
  state.generations = generation + 1;
  charges.push({ key: attempt.key, account, generation, time: state.time });
  return generation;
}

export function steps(state, scene) {
  const { use } = scene;
  const { processes, attempts } = state;
  const found = [];
  const add = (label, change) => {
    const next = copyOf(state);
    const violations = [];
    change(next, violations);
    found.push([label, next, violations]);
  };
  processes.forEach((process, slot) => {
    const name = "ABC"[slot];
    if (process === null) {
      if (state.typed === 0) return;
      for (const command of scene.commands)
        add(`${name} types: ${command.mode}${command.account ? " with another API key" : ""}`, (next) => {
          next.typed--;
          let { serial } = next;
          while (serial % scene.machines.length !== slot) serial++;
          next.serial = serial + 1;
          const isStart = command.mode !== "dismiss" && command.mode !== "forget";
          next.processes[slot] = { serial, command, at: isStart ? "choose" : command.mode, waited: [], sends: 0 };
        });
      return;
    }
    if (process.isSuspended) {
      add(`${name} continues`, (next) => {
        next.processes[slot].isSuspended = false;
        next.processes[slot].wasSuspended = true;
      });
      return;
    }
    if (state.kills > 0)
      add(`${name} is killed (${process.at})`, (next) => {
        next.kills--;
        next.processes[slot] = null;
      });
    if (state.suspensions > 0)
      add(`${name} is suspended (${process.at})`, (next) => {
        next.suspensions--;
        next.processes[slot].isSuspended = true;
      });
    stepsOf(state, scene, slot, (label, change) =>
      add(`${name} ${label}`, (next, violations) => change(next, violations, next.processes[slot])),
    );
  });
  if (state.hours > 0 && attempts.length > 0)
    add("an hour passes", (next) => {
      next.hours--;
      next.time++;
    });
  return found;

  function stepsOf(state, scene, slot, go) {
    const process = state.processes[slot];
    const attempt = attempts[process.attempt];
    const end = (next) => {
      for (const each of next.attempts) if (each.owner === process.serial) each.owner = -1;
      next.processes[slot] = null;
    };
    const write = (next, event) => {
      const written = next.attempts[process.attempt];
      const isResend = process.isResend || process.sends > 1;
      const kept = isResend && (event === "refused" || event === "unsent");
      written.state = table1[written.state][kept ? "unknown" : event];
    };
    const leasesOf = () => combinations(attempts.map(({ owner }) => views(state, scene, slot, owner)));
    switch (process.at) {
      case "choose": {
        for (const leases of leasesOf()) {
          const choice = choose(state, { ...scene, use }, process, leases);
          if (choice.kind === "wait") {
            const isForAnswer = choice.waits.startsWith("wait for");
            go(`waits (${choice.waits})`, (_next, _, self) => {
              if (!self.waited.includes(choice.key)) self.waited.push(choice.key);
            });
            if (isForAnswer) go("has waited 60 s: refuses with 6", end);
          }
          if (choice.kind === "refuse") go("refuses", end);
          if (choice.kind === "resume")
            go(`resumes attempt ${choice.index}`, (next, _, self) => {
              const resumed = next.attempts[choice.index];
              if (leases[choice.index] === "dead") resumed.owner = process.serial;
              if (["delivered", "failed"].includes(resumed.state)) return end(next);
              self.attempt = choice.index;
              self.at = "follow";
            });
          if (choice.kind !== "new") continue;
          go(
            `${choice.isResend ? "sends the key again" : "starts"} (saw ${attempts.map((each, index) => `${each.state} ${leases[index]}`).join(", ") || "nothing"})`,
            (next, violations, self) => {
              for (const index of choice.dismissed) {
                next.attempts[index].isDismissed = true;
                next.charges = next.charges.filter(({ key }) => key !== next.attempts[index].key);
              }
              const { time } = firstSend(next.attempts, choice.key, use);
              const index = next.attempts.length;
              const { mode } = process.command;
              const isIgnorable = (each, index) =>
                isPassable(each, leases[index]) || each.isDismissed || each.isForgotten;
              const passed = attempts.flatMap((each, index) =>
                attempts.some(
                  (other, at) =>
                    (at === index || (other.key === each.key && other.generation !== undefined)) &&
                    isIgnorable(other, at),
                )
                  ? [index]
                  : [],
              );
              const saw = attempts.map((each, index) => `${each.state} ${leases[index]}`);
              const isFirst = choice.key === undefined || time === Number.POSITIVE_INFINITY;
              for (const key of isFirst ? process.waited : [])
                if (
                  mode !== "again" &&
                  attempts.some(
                    (each) => each.key === key && hasGeneration(each) && !each.isDismissed && !each.isForgotten,
                  )
                )
                  violations.push("it waited for an unclear attempt, and then paid beside its video");
              next.attempts.push({
                state: "sending",
                owner: process.serial,
                key: choice.key ?? index,
                mode,
                account: process.command.account,
                at: next.time,
                firstSentAt: isFirst ? next.time : time,
                passed,
                saw,
              });
              self.attempt = index;
              self.isResend = choice.isResend === true || (choice.key === "named" && !isFirst);
              self.askedAt = next.time;
              self.at = "confirm";
            },
          );
        }
        return;
      }
      case "ask": {
        go("asks the service: no answer", end);
        if (mayBeSentAgain(state, attempt.key, process.command.account, scene))
          go("asks the service: it remembers the key", (next, _, self) => {
            self.askedAt = next.time;
            self.at = use.confirmsLast ? "confirm" : "send";
          });
        return;
      }
      case "confirm":
        if (attempt.owner !== process.serial || attempt.isDismissed || attempt.isForgotten)
          go("finds that its attempt was taken or dismissed: sends nothing", (next) => {
            write(next, "unsent");
            end(next);
          });
        else
          go("confirms", (_next, _, self) => {
            self.wasSuspended = false;
            self.at = !use.confirmsLast && process.sends > 0 ? "ask" : "send";
          });
        return;
      case "send": {
        if (
          use.assertsFresh &&
          (process.wasSuspended || ((process.isResend || process.sends > 0) && process.askedAt !== state.time))
        ) {
          go("was suspended: sends nothing", (next) => {
            write(next, "unsent");
            end(next);
          });
          return;
        }
        const send = (label, outcome, change) =>
          go(`sends: ${label}`, (next, violations, self) => {
            self.sends++;
            self.at = "write";
            self.outcome = outcome;
            change?.(next, violations, self);
          });
        const { account } = process.command;
        const known = state.charges.find(
          (each) => each.key === attempt.key && each.account === account && state.time - each.time < scene.lifetime,
        );
        const isKnown = scene.keepsKeys && known;
        const accept = (next, violations) =>
          isKnown ? known.generation : charge(next, next.attempts[process.attempt], account, violations);
        send(`accepted${isKnown ? ", as the same generation" : ""}`, "accepted", (next, violations, self) => {
          self.generation = accept(next, violations);
        });
        send("accepted, no answer", "unknown", accept);
        send("no answer", "unknown");
        send("refused", "refused");
        send("no byte was written", "unsent");
        return;
      }
      case "write":
        go(`writes ${process.outcome}`, (next, _, self) => {
          write(next, process.outcome);
          const written = next.attempts[process.attempt];
          if (process.outcome === "accepted") {
            written.generation = process.generation;
            self.at = "follow";
          } else if (
            written.state === "unknown" &&
            scene.keepsKeys &&
            process.sends < scene.sends &&
            process.outcome === "unknown"
          )
            self.at = use.confirmsLast ? "ask" : "confirm";
          else end(next);
        });
        return;
      case "follow":
        go("delivers the video", (next) => {
          next.attempts[process.attempt].state = table1[attempt.state].delivered;
          end(next);
        });
        return;
      case "dismiss":
      case "forget": {
        const isForget = process.at === "forget";
        for (const key of new Set(
          attempts
            .filter((each) => !each.isForgotten && (isForget || (!each.isDismissed && isOpen(each))))
            .map((each) => each.key),
        ))
          for (const leases of leasesOf()) {
            const all = attempts.flatMap((each, index) => (each.key === key && !each.isForgotten ? [index] : []));
            const whole = !isForget || use.forgetsWholeKey;
            const named = whole ? [all] : all.map((index) => [index]);
            for (const indexes of named) {
              const looked = use.dismissalLooksAtLease
                ? indexes
                : indexes.filter((index) => !isForget && attempts[index].state === "sending");
              const states = looked.map((index) => leases[index]);
              if (states.includes("alive")) {
                go(`${process.at}: refused, a live process has it`, end);
                continue;
              }
              if (states.includes("unsure")) continue;
              if (!isForget && use.dismissalSeesGeneration && all.some((index) => hasGeneration(attempts[index]))) {
                go("dismiss: refused, it has a generation", end);
                continue;
              }
              const open = indexes.filter(
                (index) => isForget || (isOpen(attempts[index]) && !attempts[index].isDismissed),
              );
              if (open.length === 0) continue;
              go(
                `${isForget ? "forgets" : "dismisses"} ${open.map((index) => `attempt ${index} (${attempts[index].state} ${leases[index]})`).join(" and ")}`,
                (next, violations) => {
                  for (const index of open) next.attempts[index][isForget ? "isForgotten" : "isDismissed"] = true;
                  const isWhole = all.every((index) => open.includes(index));
                  if (!isForget && all.some((index) => hasGeneration(attempts[index])))
                    violations.push("it dismissed an attempt whose key has a video");
                  // The user says that it was not charged, or that the charge does not matter.
                  if (isWhole || !isForget) next.charges = next.charges.filter((each) => each.key !== key);
                  end(next);
                },
              );
            }
          }
        go(`${process.at}: ends`, end);
        return;
      }
    }
  }
}
