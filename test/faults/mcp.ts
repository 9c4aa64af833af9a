import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Answer } from "../cli/mcp/agent.ts";
import { type SpawnedAgent, spawnAgent } from "./agent.ts";
import { type Goal, portion, tally } from "./goal.ts";
import type { Random } from "./random.ts";
import { createService, type Moment, type Service } from "./server.ts";
import { envOf } from "./spawned.ts";
import { slowStart } from "./start-faults.ts";
import { pause } from "./wire.ts";
import { inFolder, readJournal, side } from "./work.ts";

type Lane = { service: Service; home: string; cwd: string; calls: { prompt: string; random: Random }[] };

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
        const calls = Array.from({ length: portion(50, share) }, (_, i) => {
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

/** Makes the calls of a lane: each server answers the call again that the one before it was killed in, and dies in the next one. */
async function drive({ service, home, cwd, calls }: Lane): Promise<Found> {
  const found: Found = { ends: [], kills: 0, faults: [] };
  let before: string | undefined;
  for (const { prompt, random } of calls) {
    const agent = await spawnAgent(envOf(service, home), cwd);
    if (before !== undefined) await repeat(before, agent, { service, home, found });
    service.plan(prompt, { starts: [slowStart(random)] });
    if (await killDuring(prompt, agent, { service, random })) found.kills++;
    before = prompt;
  }
  const last = await spawnAgent(envOf(service, home), cwd);
  if (before !== undefined) await repeat(before, last, { service, home, found });
  await last.close();
  return found;
}

/** Whether the server was killed before it had answered. */
async function killDuring(
  prompt: string,
  agent: SpawnedAgent,
  { service, random }: { service: Service; random: Random },
) {
  let isAnswered = false;
  const answer = agent.call("generate_video", { prompt }).then(
    () => (isAnswered = true),
    () => {},
  );
  const moment = random.pick<Moment | "any">(["any", "start", "start", "answered"]);
  const reached = new Promise<void>((resolve) => service.watch(prompt, (seen) => seen === moment && resolve()));
  if (moment === "any") await Promise.race([pause(random.next() * 150), answer]);
  else await Promise.race([reached.then(() => pause(random.next() * (moment === "start" ? 60 : 12))), answer]);
  const wasAnswered = isAnswered;
  agent.kill("SIGKILL");
  await answer;
  await agent.close();
  return !wasAnswered;
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
