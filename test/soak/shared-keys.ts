import { type Goal, portion } from "../faults/goal.ts";
import { side } from "../faults/work.ts";
import { cost } from "./crashes.ts";
import { clientsOf, whileSharing } from "./shared-processes.ts";

const processCount = 3;
const credits = 1_000_000;
const atOnce = 16;

/** Goal 19: a start is charged once for its key, to whichever processes it is sent at once. */
export const sharedKeys: Goal = {
  number: 19,
  title: `idempotency keys through ${processCount} processes at once`,
  run: ({ random, share }) =>
    whileSharing(random, async ({ open, books }) => {
      const count = portion(1_000, share, 50);
      const clients = clientsOf(await open(processCount, "--credits", `${credits}`), atOnce);
      const faults: string[] = [];
      await side([...Array(count).keys()], atOnce, async (index) => {
        const body = { prompt: `fox ${index} [fail]`, model: "veo-3.1" };
        const answers = await Promise.all(clients.map((client) => client.start(body, `key ${index}`)));
        const texts = new Set(answers.map(({ status, json }) => `${status} ${JSON.stringify(json)}`));
        if (texts.size > 1 || answers[0]?.status !== 200) faults.push(`key ${index}: ${[...texts].join(", ")}`);
      });
      const others = await Promise.all(
        clients.map((client) => client.start({ prompt: "another body", model: "veo-3.1" }, "key 0")),
      );
      for (const { status } of others)
        if (status !== 422) faults.push(`a key with another body is answered with ${status}`);
      for (const client of clients) client.close();
      const { debits, balance, prompts, faults: wrong } = await books(cost);
      if (debits !== count) faults.push(`${debits} debits`);
      if (balance !== credits - cost * count) faults.push(`${balance} credits are left`);
      if (new Set(prompts).size !== prompts.length) faults.push("something was started twice");
      const figures = `${count} keys, each sent ${processCount} times at once: ${debits} debits`;
      return { figures, target: `${count} debits, one reply for each key`, faults: [...faults, ...wrong] };
    }),
};
