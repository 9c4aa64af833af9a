import { type Goal, portion } from "../faults/goal.ts";
import type { Random } from "../faults/random.ts";
import { pause } from "../faults/wire.ts";
import { inFolder, side } from "../faults/work.ts";
import type { Answer } from "./ask.ts";
import { readBooks } from "./books.ts";
import { createClient, findPort, serve } from "./serve.ts";

const credits = 1_000_000;
const cost = 10;
const connections = 32;

/** Goal 2: a start is charged once for its key, however often and however close together it comes. */
export const keys: Goal = {
  number: 2,
  title: "idempotency keys sent at once, and again after a crash",
  run: ({ random, share }) =>
    inFolder(async (home) => {
      const count = portion(1_000, share, 50);
      const copies = Array.from({ length: count }, (_, index) => index).flatMap((index) => [index, index]);
      const ports = ["--port", `${await findPort(random)}`, "--media-port", `${await findPort(random)}`];
      let serving = serve(home, ...ports, "--credits", `${credits}`);
      try {
        const announced = await serving.started;
        const client = createClient(announced, connections);
        const answers = new Map<number, Set<string>>();
        const refused: string[] = [];
        const send = async (index: number) => {
          const body = { prompt: `fox ${index} [fail]`, model: "veo-3.1" };
          const answer = await client.start(body, `key ${index}`);
          if (answer.status !== 200) refused.push(textOf(answer));
          else answers.set(index, (answers.get(index) ?? new Set()).add(textOf(answer)));
          return answer;
        };
        const killAt = random.between(count * 0.2, count * 0.6);
        await side(copies, connections, async (index) => {
          await send(index).catch(() => {});
          if (answers.size >= killAt) serving.end("SIGKILL");
        });
        const before = answers.size;
        await serving.end("SIGKILL");
        // Without it, previews would be free from now on.
        serving = serve(home, ...ports, "--credits", `${readBooks(home, cost).balance}`);
        await serving.started;
        await side(shuffle(copies, random), connections, async (index) => void (await send(index)));
        const other = await client.start({ prompt: "another body", model: "veo-3.1" }, "key 0");
        client.close();
        await pause(100);
        await serving.end("SIGKILL");
        const { debits, balance, faults } = readBooks(home, cost);
        faults.push(...refused);
        if (before === 0 || before === count) faults.push(`the crash came when ${before} of ${count} were answered`);
        for (const [index, texts] of answers)
          if (texts.size > 1) faults.push(`key ${index} has ${texts.size} answers: ${[...texts].join(", ")}`);
        if (debits !== count) faults.push(`${debits} debits`);
        if (balance !== credits - cost * count) faults.push(`${balance} credits are left`);
        if (other.status !== 422) faults.push(`a key with another body is answered with ${other.status}`);
        const figures = `${count} keys, each sent 4 times, ${before} answered before the crash: ${debits} debits`;
        return { figures, target: `${count} debits, and one reply for each key`, faults };
      } finally {
        await serving.end("SIGKILL");
      }
    }),
};

function textOf({ json }: Answer): string {
  return JSON.stringify(json);
}

function shuffle(items: number[], random: Random): number[] {
  const keyed = items.map((item) => ({ item, at: random.next() }));
  return keyed.sort((a, b) => a.at - b.at).map(({ item }) => item);
}
