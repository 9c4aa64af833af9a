// The world of a batch's row: `batch`, `--redo` and `--retry-unknown`, killed between any two steps, with a journal that only grows, and a results file
// that is deleted or restored to an earlier state.
import { copyOf } from "./explore.mjs";

export const rules = {
  /** The intent of a redo carries the names of the attempts that it replaces, as its line in the results file does. */
  namesInIntent: true,
  /** A resend, a retry and a failed attempt made again carry the names of the redo that they continue. */
  continuationsCarryNames: true,
  /** So does the first attempt at a row whose redo has a line and no intent yet. */
  beginsFromLine: true,
  /** A key is sent again only with the body that it was sent with. */
  comparesBody: true,
  /** `--retry-unknown` sends the old key again where the service remembers it. */
  retryPrefersKey: true,
  /** Nothing is sent if the service does not say whether it remembers a key. */
  stopsWithoutAnswer: true,
  /** An intent of an older version, whose redo has no line any more, replaces what stands before it in the journal. */
  oldRedoReplacesEarlier: true,
};

const base = { commands: ["batch", "redo", "retry"], typed: 3, kills: 2, restores: 1, edits: 0, keepsKeys: true };
export const scenes = {
  redo: { ...base, typed: 4, commands: ["batch", "redo"] },
  retry: base,
  retryWithoutKeys: { ...base, keepsKeys: false, typed: 4, kills: 1 },
  edited: { ...base, edits: 1, restores: 0 },
  old: { ...base, commands: ["batch", "redo"], typed: 4, isOld: true },
};

export function initial({ typed, kills, restores, edits }) {
  return { attempts: [], lines: [], saved: [], process: null, body: 0, typed, kills, restores, edits, redos: 0 };
}

const open = ["sending", "unknown"];
const counting = [...open, "running", "ready", "delivered", "lost"];

/** The attempts that no longer decide about the row. */
function replacedBy({ attempts, lines }, use) {
  const replaced = new Set(lines.flatMap(({ names }) => names));
  for (const [index, attempt] of attempts.entries()) {
    if (attempt.redo === undefined) continue;
    const counts = counting.includes(attempt.state) && !attempt.isDismissed;
    if (!counts) continue;
    if (attempt.names !== undefined) for (const each of attempt.names) replaced.add(each);
    else if (use.oldRedoReplacesEarlier && !lines.some(({ redo }) => redo === attempt.redo))
      for (let each = 0; each < index; each++) if (!attempts[each].names?.includes(index)) replaced.add(each);
  }
  return replaced;
}

/** What decides about the row, and its unclear keys. */
function readRow(state, use) {
  const replaced = replacedBy(state, use);
  const left = state.attempts.flatMap((attempt, index) =>
    replaced.has(index) || attempt.isDismissed ? [] : [{ ...attempt, index }],
  );
  const hasVideo = (key) =>
    state.attempts.some((each) => each.key === key && ["running", "ready", "delivered", "failed"].includes(each.state));
  const current =
    left.find((each) => each.state === "delivered") ??
    left.findLast(
      ({ state, key }) => !["unsent", "refused"].includes(state) && !(open.includes(state) && hasVideo(key)),
    );
  const unclear = left.filter((each) => open.includes(each.state) && !hasVideo(each.key));
  return { current, unclear, all: left };
}

export function steps(state, scene) {
  const { use } = scene;
  const found = [];
  const add = (label, change) => {
    const next = copyOf(state);
    const violations = [];
    change(next, violations);
    found.push([label, next, violations]);
  };
  const { process } = state;
  if (process === null) {
    if (state.typed > 0)
      for (const command of scene.commands)
        add(`types: batch${command === "batch" ? "" : ` --${command}`}`, (next) => type(next, command));
    if (state.restores > 0)
      for (const [index, lines] of [[], ...state.saved].entries())
        if (JSON.stringify(lines) !== JSON.stringify(state.lines))
          add(index === 0 ? "the results file is deleted" : "the results file is restored", (next) => {
            next.restores--;
            next.lines = lines;
          });
    if (state.edits > 0)
      add("the row is edited", (next) => {
        next.edits--;
        next.body++;
      });
    return found;
  }
  if (state.kills > 0)
    add(`is killed (${process.at})`, (next) => {
      next.kills--;
      next.process = null;
    });
  const end = (next) => {
    next.process = null;
  };
  switch (process.at) {
    case "plan":
      plan();
      break;
    case "line":
      add("writes the line of the redo", (next) => {
        next.saved.push(copyOf(next.lines));
        next.lines.push({ redo: process.redo, names: process.names });
        next.process.at = "intent";
      });
      break;
    case "intent":
      add("writes the intent", (next) => {
        const { key, redo, names, continues } = process;
        const carries = redo !== undefined && (continues === undefined || use.continuationsCarryNames);
        const isNewKey = key === undefined;
        const extra = continues !== undefined && isNewKey ? [continues] : [];
        const isOld = scene.isOld && redo !== undefined;
        next.process.attempt = next.attempts.length;
        next.attempts.push({
          state: "sending",
          key: key ?? next.attempts.length,
          body: key === undefined ? next.body : process.body,
          redo: carries ? redo : undefined,
          names: use.namesInIntent && carries && !isOld ? [...names, ...extra] : undefined,
          resent: key !== undefined,
        });
        // The user accepted that it may be charged twice.
        for (const index of process.dismisses ?? []) next.attempts[index].isAccepted = true;
        next.process.at = process.dismisses ? "dismiss" : "send";
      });
      break;
    case "dismiss":
      add("dismisses what it pays again", (next) => {
        for (const index of process.dismisses) next.attempts[index].isDismissed = true;
        next.process.at = "send";
      });
      break;
    case "send": {
      const attempt = state.attempts[process.attempt];
      const earlier = state.attempts.find((each) => each.key === attempt.key && each.charged);
      const send = (label, outcome, isCharged) =>
        add(`sends: ${label}`, (next, violations) => {
          const sent = next.attempts[process.attempt];
          if (isCharged) {
            if (!earlier) {
              for (const [index, each] of next.attempts.entries())
                if (each.charged && each.key !== sent.key && !each.isAccepted && !isHandedOver(next, each))
                  violations.push(
                    `a second charge beside one that is ${each.state}${index < process.attempt ? "" : " (later)"}`,
                  );
              sent.charged = true;
            } else if (earlier.body !== sent.body || !scene.keepsKeys) {
              violations.push("a key is sent again with another body");
            }
          }
          const stays = attempt.resent && (outcome === "refused" || outcome === "unsent");
          sent.state = stays ? "unknown" : outcome;
          end(next);
        });
      send("delivered", "delivered", true);
      send("accepted, then failed", "failed", true);
      send("accepted, no answer", "unknown", true);
      send("no answer", "unknown", false);
      send("refused", "refused", false);
      break;
    }
  }
  return found;

  function isHandedOver(next, { key }) {
    return next.attempts.some((each) => each.key === key && ["delivered", "failed"].includes(each.state));
  }

  function type(next, command) {
    next.typed--;
    next.process = { command, at: "plan" };
  }

  function plan() {
    const { current, unclear, all } = readRow(state, use);
    const { command } = process;
    const go = (label, change) => add(label, (next, violations) => change(next, violations, next.process));
    const truth = state.attempts.some(
      (each) => open.includes(each.state) && !each.isDismissed && each.charged && !isHandedOver(state, each),
    );
    const [lastLine] = state.lines.slice(-1);
    // Killed between the line of a redo and its intent: the next attempt at the row is that redo.
    const begun = use.beginsFromLine && lastLine ? { redo: lastLine.redo, names: lastLine.names } : {};
    if (current === undefined)
      return go("starts the row", (_, __, self) => Object.assign(self, { at: "intent", ...begun }));
    if (current.state === "delivered") {
      if (command !== "redo")
        return go("says that the row is done", (next, violations) => {
          if (truth) violations.push("it says that the row is done, and an unclear attempt may be charged");
          end(next);
        });
      return go("begins a redo", (next, _, self) => {
        const redo = next.redos++;
        Object.assign(self, { at: "line", redo, names: all.map(({ index }) => index) });
      });
    }
    const continued = { redo: current.redo ?? lastLine?.redo, names: current.names ?? lastLine?.names ?? [] };
    if (current.state === "failed") {
      if (command === "retry") return go("the failed row is left alone", end);
      return go("makes the failed attempt again", (_, __, self) =>
        Object.assign(self, { at: "intent", ...continued, continues: current.index }),
      );
    }
    if (unclear.length === 0) return go("the row ends", end);
    const keys = new Set(unclear.map(({ key }) => key));
    const [{ key, body, index }] = unclear;
    const isResendable = scene.keepsKeys && keys.size === 1 && (!use.comparesBody || body === state.body);
    const retry = () =>
      go("pays with a new key", (_, violations, self) => {
        if (scene.keepsKeys && keys.size === 1 && body === state.body)
          violations.push("it pays with a new key, where the old one was free");
        Object.assign(self, {
          at: "intent",
          ...continued,
          continues: unclear.at(-1).index,
          dismisses: unclear.map((each) => each.index),
        });
      });
    if (command === "redo") return go("the row is unclear: exit 6", end);
    if (isResendable && (command === "batch" || use.retryPrefersKey))
      go("sends the key again", (next, _, self) =>
        Object.assign(self, {
          at: "intent",
          ...continued,
          key,
          body: use.comparesBody ? body : next.body,
          continues: index,
        }),
      );
    if (command === "batch") go("the row is unclear: exit 6", end);
    else if (!isResendable || !use.retryPrefersKey) retry();
    else if (use.stopsWithoutAnswer) go("the service does not answer: exit 8", end);
    else retry();
  }
}
