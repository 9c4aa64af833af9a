import type { Act, Plan } from "./plan.ts";

/** The plan with one thing less in it, or something plainer: each way that there is. */
export function* simpler(plan: Plan): Generator<Plan> {
  for (const index of plan.acts.keys()) yield { ...plan, acts: plan.acts.toSpliced(index, 1) };
  if (plan.troubles.length > 0) yield { ...plan, troubles: [] };
  for (const [index, act] of plan.acts.entries())
    for (const plainer of simplerActs(act)) yield { ...plan, acts: plan.acts.with(index, plainer) };
  if (plan.computers.some(({ aheadMs }) => aheadMs !== 0))
    yield { ...plan, computers: plan.computers.map(() => ({ aheadMs: 0 })) };
  if (!plan.hasStartTimes) yield { ...plan, hasStartTimes: true };
}

function* simplerActs(act: Act): Generator<Act> {
  if (!act.waits) yield { ...act, waits: true };
  if (act.gapMs > 1_000) yield { ...act, gapMs: 1_000 };
  if (act.what !== "command") return;
  for (const index of act.mishaps.keys()) yield { ...act, mishaps: act.mishaps.toSpliced(index, 1) };
  if (act.starts.length > 0) yield { ...act, starts: act.starts.slice(0, -1) };
  for (const [index, start] of act.starts.entries()) {
    const plainer = [
      { ...start, media: [] },
      { ...start, lagMs: 0, lostAfterMs: undefined },
      { ...start, does: "accepts it" as const },
      { ...start, answersAfterMs: 50 },
      { ...start, rendersMs: 1_000 },
      { ...start, bought: 0 },
    ];
    for (const each of plainer)
      if (JSON.stringify(each) !== JSON.stringify(start)) yield { ...act, starts: act.starts.with(index, each) };
  }
  if (act.key !== 0) yield { ...act, key: 0 };
  if (act.namespace !== "1") yield { ...act, namespace: "1" };
  if (act.callMs !== 1) yield { ...act, callMs: 1 };
  const { command } = act;
  if (command.type === "batch") {
    if (command.rows > 1) yield { ...act, command: { ...command, rows: 1 } };
    if (command.jobs > 1) yield { ...act, command: { ...command, jobs: 1 } };
    if (command.maxCredits !== undefined) yield { ...act, command: { ...command, maxCredits: undefined } };
  }
  if (command.type === "mcp" && command.calls.length > 1)
    yield { ...act, command: { ...command, calls: command.calls.slice(0, 1) } };
  if (command.type === "generate" && command.count === 3 && command.models === undefined)
    yield { ...act, command: { ...command, count: 2 } };
  if (command.type === "generate" && command.overwrite) yield { ...act, command: { ...command, overwrite: false } };
}

/** The plainest plan that still breaks the same rule. `simplerOf` gives what is one step plainer, and `breaks` plays one. */
export async function shrink<Each>(
  plan: Each,
  simplerOf: (plan: Each) => Iterable<Each>,
  breaks: (plan: Each) => Promise<boolean>,
): Promise<Each> {
  let least = plan;
  for (let isSimpler = true; isSimpler; ) {
    isSimpler = false;
    for (const each of simplerOf(least)) {
      if (!(await breaks(each))) continue;
      least = each;
      isSimpler = true;
      break;
    }
  }
  return least;
}
