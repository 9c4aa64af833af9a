// The world of a run of two (`-n 2 -o "clip-{n}.mp4"`): killed, failed, its videos deleted here and at the service. One process at a time.
import { copyOf } from "./explore.mjs";

export const rules = {
  /** A position that was delivered or told stays done when its video is deleted. */
  removedStaysDone: true,
  /** A position whose video was deleted before that is missing. */
  removedBeforeIsMissing: true,
  /** A run whose positions are all done is finished, whatever became of its files. */
  doneIsFinished: true,
  /** In a run that is not finished, a file that is missing and that the service no longer has stops no other position. */
  goneStopsNothing: true,
};

export const scenes = { two: { typed: 4, kills: 2, deletes: 2, losses: 1 } };

export function initial({ typed, kills, deletes, losses }) {
  return { runs: [], typed, kills, deletes, losses };
}

const isDone = (position, use) => position.state === "delivered" && (use.removedStaysDone || !position.isRemoved);
const isFree = (position, use) => position.state === "ready" && !(position.isRemoved && use.removedBeforeIsMissing);
const hasFile = (position) => position.state === "delivered" && !position.isLost;

export function steps(state, scene) {
  const { use } = scene;
  const found = [];
  const add = (label, change) => {
    const next = copyOf(state);
    const violations = [];
    change(next, violations);
    found.push([label, next, violations]);
  };
  state.runs.forEach((run, name) => {
    run.forEach((position, index) => {
      const of = `position ${index + 1} of run ${name}`;
      if (state.deletes > 0 && !position.isRemoved && ["ready", "delivered"].includes(position.state))
        add(`${of} is deleted at the service`, (next) => {
          next.deletes--;
          next.runs[name][index].isRemoved = true;
        });
      if (state.losses > 0 && hasFile(position))
        add(`the file of ${of} is deleted`, (next) => {
          next.losses--;
          next.runs[name][index].isLost = true;
        });
    });
  });
  if (state.typed === 0) return found;
  const isFinished = (run) => run.every((each) => isDone(each, use) && (use.doneIsFinished || hasFile(each)));
  const name = state.runs.findLastIndex((run) => !isFinished(run));
  const run = state.runs[name] ?? [{ state: "missing" }, { state: "missing" }];
  const wasFinished = run.every(({ state: each }) => each === "delivered");
  for (const ends of [
    ["delivered", "delivered"],
    ["failed", "delivered"],
    ["delivered", "failed"],
    ["delivered", "ready"],
    ["ready", "missing"],
  ]) {
    const isKilled = ends.includes("ready");
    if (isKilled && state.kills === 0) continue;
    add(
      `types -n 2, which ${name < 0 ? "starts a run" : `continues run ${name}`}: ${ends.join(", ")}`,
      (next, violations) => {
        next.typed--;
        if (isKilled) next.kills--;
        if (name < 0) next.runs.push(copyOf(run));
        else if (wasFinished) violations.push("a run whose positions are all done is continued");
        const positions = next.runs.at(name);
        for (const [index, position] of positions.entries()) {
          if (isDone(position, use)) {
            if (position.isLost && position.isRemoved && !use.goneStopsNothing) {
              if (positions.slice(index + 1).some((each) => !isDone(each, use)))
                violations.push("a video that is gone keeps another position from being made");
              return;
            }
            if (position.isLost && !position.isRemoved) position.isLost = false;
            continue;
          }
          if (isFree(position, use)) {
            if (position.isRemoved) {
              violations.push("it waits without end for a video that was deleted before it was delivered");
              return;
            }
            position.state = "delivered";
            continue;
          }
          if (position.state === "delivered") violations.push("a position that was delivered is paid again");
          Object.assign(position, { state: ends[index], isRemoved: false, isLost: false });
        }
      },
    );
  }
  return found;
}
