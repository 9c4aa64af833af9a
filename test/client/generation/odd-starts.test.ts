import { join } from "node:path";
import { expect, test } from "vitest";
import { vidgen } from "../../faults/client.ts";
import { wordyPoll } from "../../faults/poll-faults.ts";
import { createRandom } from "../../faults/random.ts";
import { createService } from "../../faults/server.ts";
import { oddStarts } from "../../faults/start-faults.ts";
import { inFolder } from "../../faults/work.ts";

// Whole commands over real sockets: what a service does wrong around a start reply whose id arrives.

test.each(Object.entries(oddStarts))("%s: the id is read, and nothing is sent again", (kind, fault) =>
  inFolder(async (folder) => {
    const service = await createService(createRandom(kind));
    try {
      for (const flags of [[], ["--verbose"]]) {
        const prompt = `a fox ${flags}`;
        service.plan(prompt, { starts: [fault] });
        const env = { VIDGEN_HOME: join(folder, "home"), VIDGEN_BASE_URL: service.baseUrl, VIDGEN_API_KEY: "key" };
        const run = await vidgen(["generate", prompt, "--no-wait", ...flags], env);
        const [start, ...more] = service.oracle.startsOf(prompt);
        expect(run).toMatchObject({ code: 0, stdout: `${start?.generated?.id}\n` });
        expect(more).toEqual([]);
      }
    } finally {
      await service.close();
    }
  }),
);

test("a finished video is saved although each poll has a notice of PHP before its JSON, and NaN in it", () =>
  inFolder(async (folder) => {
    const service = await createService(createRandom("polls"));
    try {
      service.plan("a fox", { polls: Array(100).fill(wordyPoll) });
      const env = { VIDGEN_HOME: join(folder, "home"), VIDGEN_BASE_URL: service.baseUrl, VIDGEN_API_KEY: "key" };
      const file = join(folder, "fox.mp4");
      const argv = ["generate", "a fox", "-o", file, "--timeout", "10s"];
      expect(await vidgen(argv, env)).toMatchObject({ code: 0, stdout: `${file}\n` });
    } finally {
      await service.close();
    }
  }));
