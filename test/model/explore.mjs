// Explores a world: breadth first, which prints the shortest trace of each violation, or at random.
//
// A world has `initial(scene)`, its first state (plain data), and `steps(state, scene)`, which returns every possible step as
// [label, next state, violations].

/** Explores up to `cap` states. Returns the number of states, whether these are all, and the shortest trace of each violation. */
export function explore(world, scene, cap) {
  const start = world.initial(scene);
  const origins = new Map([[JSON.stringify(start), undefined]]);
  const found = new Map();
  const traceTo = (key, last) => {
    const labels = [last];
    for (let origin = origins.get(key); origin !== undefined; origin = origins.get(origin.key))
      labels.unshift(origin.label);
    return labels;
  };
  let level = [start];
  while (level.length > 0 && origins.size < cap) {
    const nextLevel = [];
    for (const state of level) {
      const key = JSON.stringify(state);
      for (const [label, next, violations] of world.steps(state, scene)) {
        for (const each of violations) if (!found.has(each)) found.set(each, traceTo(key, label));
        const nextKey = JSON.stringify(next);
        if (origins.has(nextKey)) continue;
        origins.set(nextKey, { key, label });
        nextLevel.push(next);
      }
      if (origins.size >= cap) break;
    }
    level = nextLevel;
  }
  return { states: origins.size, isComplete: level.length === 0, found };
}

/** Walks at random for this many seconds, from the same seed each time. Processes move more often than they are killed, suspended or typed. */
export function walk(world, scene, seconds) {
  let seed = 7;
  const random = () => {
    seed = (seed * 1664525 + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
  const found = new Map();
  const end = Date.now() + seconds * 1000;
  let walks = 0;
  let count = 0;
  for (; Date.now() < end; walks++) {
    let state = world.initial(scene);
    const labels = [];
    while (labels.length < 140) {
      const steps = world.steps(state, scene);
      if (steps.length === 0) break;
      const weights = steps.map(([label]) => (/killed|suspended|hours|types/.test(label) ? 0.25 : 1));
      let rest = random() * weights.reduce((sum, each) => sum + each);
      let index = 0;
      for (; index < steps.length - 1; index++) {
        rest -= weights[index];
        if (rest <= 0) break;
      }
      const [label, next, violations] = steps[index];
      labels.push(label);
      count++;
      for (const each of violations)
        if (!found.has(each) || found.get(each).length > labels.length) found.set(each, [...labels]);
      state = next;
    }
  }
  return { walks, steps: count, found };
}

export const copyOf = (state) => JSON.parse(JSON.stringify(state));

/** All ways to take one value of each list. */
export function combinations(lists) {
  return lists.reduce((all, list) => all.flatMap((chosen) => list.map((each) => [...chosen, each])), [[]]);
}
