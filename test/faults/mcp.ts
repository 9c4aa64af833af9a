import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Answer } from "../mcp/agent.ts";
import { type SpawnedAgent, spawnAgent } from "./agent.ts";
import { type Goal, portion, tally } from "./goal.ts";
import type { Random } from "./random.ts";
import { createService, type Moment, type Service } from "./server.ts";
import { envOf } from "./spawned.ts";
import { slowStart } from "./start-faults.ts";
import { pause } from "./wire.ts";
import { inFolder, readJournal, side } from "./work.ts";

type Call = { prompt: string; random: Random };

type Lane = { service: Service; home: string; cwd: string; calls: Call[] };

/** How many calls an agent makes side by side. */
const atOnce = 3;

type Found = { ends: string[]; kills: number; faults: string[] };

/** Goal 22: an agent whose server is killed at any moment, and that makes the same call again, has paid once. */
export const mcp: Goal = {
  number: 22,
  title: "the same call of an AI agent again after SIGKILL",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const service = await createService(random);
      const lanes = Array.from({ length: 4 }, (_, lane): Lane => {
        const cwd = join(folder, `work-${lane}`);
        mkdirSync(cwd);
        const calls = Array.from({ length: portion(105, share, atOnce) }, (_, i) => {
          const prompt = `fox ${lane} ${i}`;
          return { prompt, random: random.fork(prompt) };
        });
        return { service, home: join(folder, `home-${lane}`), cwd, calls };
      });
      const found: Found[] = [];
      await side(lanes, lanes.length, async (lane) => void found.push(await drive(lane)));
      await service.close();
      const prompts = lanes.flatMap(({ calls }) => calls.map(({ prompt }) => prompt));
      const charges = prompts.map((prompt) => service.oracle.chargesOf(prompt));
      const twice = prompts.filter((_, i) => (charges[i] ?? 0) > 1);
      const faults = found.flatMap((lane) => lane.faults);
      return {
        figures:
          `${prompts.length} calls, ${found.reduce((sum, { kills }) => sum + kills, 0)} of them killed, each made twice again: ` +
          `${charges.filter((count) => count === 1).length} charged once, ${twice.length} double charges; ` +
          `the call again: ${tally(found.flatMap(({ ends }) => ends))}`,
        target: "0 double charges, and every call again has the id or says that it may have been charged",
        faults: [...twice.map((prompt) => `${prompt}: charged ${service.oracle.chargesOf(prompt)} times`), ...faults],
      };
    }),
};

/** Makes the calls of a lane, some at once: each server answers those again that the one before it was killed in, and dies in the next ones. */
async function drive({ service, home, cwd, calls }: Lane): Promise<Found> {
  const found: Found = { ends: [], kills: 0, faults: [] };
  let before: Call[] = [];
  for (let i = 0; i <= calls.length; i += atOnce) {
    const agent = await spawnAgent(envOf(service, home), cwd);
    for (const { prompt } of before) await repeat(prompt, agent, { service, home, found });
    before = calls.slice(i, i + atOnce);
    found.kills += await killDuring(before, agent, service);
  }
  const last = await spawnAgent(envOf(service, home), cwd);
  for (const { prompt } of before) await repeat(prompt, last, { service, home, found });
  await last.close();
  return found;
}

/** Returns how many of the calls had no answer when the server was killed. */
async function killDuring(calls: Call[], agent: SpawnedAgent, service: Service): Promise<number> {
  let open = calls.length;
  const answers = calls.map(({ prompt, random }) => {
    service.plan(prompt, { starts: [slowStart(random)] });
    return agent.call("generate_video", { prompt }).then(
      () => open--,
      () => {},
    );
  });
  const [{ random } = { random: undefined }] = calls;
  if (random) {
    const { prompt } = random.pick(calls);
    const moment = random.pick<Moment | "any">(["any", "start", "answered"]);
    const reached = new Promise<void>((resolve) => service.watch(prompt, (seen) => seen === moment && resolve()));
    const die = moment === "any" ? pause(random.next() * 400) : reached.then(() => pause(random.next() * 60));
    await Promise.race([die, Promise.all(answers)]);
  }
  const killed = open;
  agent.kill("SIGKILL");
  await Promise.all(answers);
  await agent.close();
  return killed;
}

type Repeating = { service: Service; home: string; found: Found };

async function repeat(prompt: string, agent: SpawnedAgent, { service, home, found }: Repeating): Promise<void> {
  const answers: Answer[] = [];
  for (let i = 0; i < 2; i++) answers.push(await agent.call("generate_video", { prompt }));
  const [charged] = service.oracle.startsOf(prompt).flatMap(({ generated }) => generated ?? []);
  const isKnown = readJournal(home).some(({ kind, id }) => kind === "accepted" && id === charged?.id);
  for (const { value, text } of answers) {
    const isRight = isKnown
      ? value.id === charged?.id
      : value.code === "unknown" && value.may_have_been_charged === true;
    if (!isRight)
      found.faults.push(`${prompt}: ${isKnown ? "its id is known" : "may have been charged"}, but: ${text}`);
  }
  const { code, resumed } = answers[0]?.value ?? {};
  found.ends.push(code === undefined ? `${resumed ? "the same" : "a new"} generation` : String(code));
}
