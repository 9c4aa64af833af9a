// The world of one command line, typed in one or two projects, whose settings and vidgen.json change between two runs: which earlier attempt is the same
// command, and which is another's. An attempt of a line is killed after its request (open), or delivered.
import { copyOf } from "./explore.mjs";

export const rules = {
  /** What the line does not say is compared if it comes from vidgen.json, */
  comparesProject: true,
  /** and if it comes from a saved setting. */
  comparesSettings: true,
  /** An attempt of another project counts only with an equal request and place. */
  comparesWhichProject: true,
  /** `--again` dismisses only attempts of the same project. */
  againStaysInProject: true,
  /** A line whose place is typed does not stop because of an attempt at another place. */
  typedPlaceIsAnother: true,
  /** A line that saves nothing has the place "nothing". */
  nothingIsAPlace: true,
};

const base = { projects: 1, again: false, edits: 1, typed: 3, kills: 2, places: ["setting"] };
export const scenes = {
  setting: { ...base, edited: ["setting"] },
  project: { ...base, edited: ["project0"] },
  both: { ...base, edited: ["setting", "project0"], edits: 2 },
  again: { ...base, edited: ["setting", "project0"], again: true, typed: 4 },
  twoProjects: { ...base, projects: 2, edited: ["project1"], again: true, typed: 4 },
  places: { ...base, edited: ["output"], edits: 2, places: ["setting", "typed", "typed2"], typed: 3 },
};

export function initial({ edits, typed, kills }) {
  return {
    attempts: [],
    values: { setting: 0, output: 0, project0: undefined, project1: undefined },
    edits,
    typed,
    kills,
  };
}

/** The request and place of a line now. A value of vidgen.json wins over a setting. */
function valuesOf({ values }, project, place) {
  const model = values[`project${project}`] ?? values.setting;
  const places = { typed: "typed", typed2: "typed2", setting: ["a", undefined, "b"][Math.min(values.output, 2)] };
  return {
    model,
    place: places[place],
    isPlaceTyped: place !== "setting",
    project,
    source: values[`project${project}`] === undefined ? "setting" : "project",
  };
}

function choose(state, wanted, isAgain, use) {
  const live = state.attempts.flatMap((each, index) =>
    each.isDismissed || each.isDelivered ? [] : [{ ...each, index }],
  );
  const isEqual = (each) => each.model === wanted.model && each.place === wanted.place;
  // The hash of the line has a typed place.
  const isOfLine = (each) => {
    if (each.typedAs !== wanted.typedAs && (use.typedPlaceIsAnother || each.place === wanted.place)) return false;
    if (use.comparesWhichProject && each.project !== wanted.project) return false;
    const fromProject = each.source === "project" || wanted.source === "project";
    const differs = each.model !== wanted.model || each.place !== wanted.place;
    if (!differs) return false;
    if (use.nothingIsAPlace && wanted.place === undefined && each.model === wanted.model) return false;
    const isModel = each.model !== wanted.model;
    if (isModel && fromProject) return use.comparesProject;
    return use.comparesSettings;
  };
  const equal = live.filter(isEqual);
  const ofLine = live.filter((each) => !isEqual(each) && isOfLine(each));
  if (isAgain)
    return {
      kind: "new",
      dismissed: [...equal, ...ofLine]
        .filter((each) => !use.againStaysInProject || each.project === wanted.project)
        .map(({ index }) => index),
    };
  const [first] = [...equal, ...ofLine];
  if (first === undefined) return { kind: "new", dismissed: [] };
  return isEqual(first) ? { kind: "resume", index: first.index } : { kind: "refuse", index: first.index };
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
  if (state.edits > 0)
    for (const name of scene.edited)
      add(`${name} changes`, (next) => {
        next.edits--;
        next.values[name] = (next.values[name] ?? 0) + 1;
      });
  if (state.typed === 0) return found;
  for (let project = 0; project < scene.projects; project++)
    for (const place of scene.places)
      for (const isAgain of scene.again ? [false, true] : [false]) {
        const wanted = { ...valuesOf(state, project, place), typedAs: place };
        const choice = choose(state, wanted, isAgain, use);
        const line = `project ${project}: the line${place === "setting" ? "" : ` with -o ${place}`}${isAgain ? " --again" : ""}`;
        if (choice.kind === "refuse")
          add(`${line}: exit 2`, (next, violations) => {
            next.typed--;
            const { project: of, typedAs, isPlaceTyped } = state.attempts[choice.index];
            if (of !== project) violations.push("it stops because of another project, and its hint is --again");
            if (wanted.place === undefined && state.attempts[choice.index].model === wanted.model)
              violations.push("a line that saves nothing stops because of a place");
            if (typedAs !== place && (isPlaceTyped || wanted.isPlaceTyped))
              violations.push("it stops because of another -o");
          });
        if (choice.kind === "resume")
          add(`${line}: resumes attempt ${choice.index}`, (next) => {
            next.typed--;
            next.attempts[choice.index].isDelivered = true;
          });
        if (choice.kind === "new")
          for (const isKilled of state.kills > 0 ? [false, true] : [false])
            add(`${line}: pays${isKilled ? ", and is killed" : ""}`, (next, violations) => {
              next.typed--;
              if (isKilled) next.kills--;
              for (const index of choice.dismissed) {
                next.attempts[index].isDismissed = true;
                if (next.attempts[index].project !== project)
                  violations.push("--again dismisses another project's paid video");
              }
              for (const each of isAgain ? [] : next.attempts)
                if (
                  !each.isDelivered &&
                  !each.isDismissed &&
                  each.project === project &&
                  each.typedAs === place &&
                  !(wanted.place === undefined || each.place === undefined)
                )
                  violations.push("the same line in the same project pays again beside an open attempt");
              next.attempts.push({ ...wanted, isDelivered: !isKilled, isAgain });
            });
      }
  return found;
}
