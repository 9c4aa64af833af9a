import { join } from "node:path";
import { vidgen } from "./client.ts";
import { type Goal, portion, tally } from "./goal.ts";
import { createService } from "./server.ts";
import { lostStarts } from "./start-faults.ts";
import { inFolder, side } from "./work.ts";

/** Goal 2: once the request is out, it is never sent again, and the person is told. */
export const sent: Goal = {
  number: 2,
  title: "failures after the request was sent",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const service = await createService(random);
      const kinds = Object.entries(lostStarts);
      const times = portion(50, share);
      const commands = kinds.flatMap(([kind, fault]) =>
        Array.from({ length: times }, (_, i) => ({ kind, fault, prompt: `${kind} ${i}` })),
      );
      const faults: string[] = [];
      const codes: string[] = [];
      await side(commands, 60, async ({ kind, fault, prompt }) => {
        service.plan(prompt, { starts: [fault] });
        // Its own: on the fast clock the lock of a journal that many share is not waited for long enough.
        const home = join(folder, prompt.replaceAll(/\W/g, "-"));
        const env = { VIDGEN_HOME: home, VIDGEN_BASE_URL: service.baseUrl, VIDGEN_API_KEY: "key" };
        const { code, stderr } = await vidgen(["generate", prompt, "--no-wait"], env);
        codes.push(`exit ${code}`);
        const [{ attempt } = { attempt: "none" }, ...more] = service.oracle.startsOf(prompt);
        if (code !== 6) faults.push(`${kind}: exit ${code}: ${stderr}`);
        if (more.length > 0) faults.push(`${kind}: sent ${more.length + 1} times`);
        if (!/may have been charged/.test(stderr) || !stderr.includes(attempt)) faults.push(`${kind}: said ${stderr}`);
      });
      const seen = service.oracle.starts.length;
      if (seen !== commands.length) faults.push(`${seen} starts seen, not ${commands.length}`);
      await service.close();
      return {
        figures: `${kinds.length} kinds x ${times}: ${seen} starts seen, ${tally(codes)}`,
        target: `exactly ${commands.length} starts, every one exit 6`,
        faults,
      };
    }),
};
