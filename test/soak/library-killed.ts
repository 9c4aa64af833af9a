import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Goal, portion } from "../faults/goal.ts";
import type { Random } from "../faults/random.ts";
import { spawnProcess } from "../faults/spawned.ts";
import { pause } from "../faults/wire.ts";
import { inFolder } from "../faults/work.ts";
import { readBooks } from "./books.ts";
import { openSlowRoad } from "./chain.ts";
import { cost } from "./crashes.ts";
import { serve } from "./serve.ts";

const library = fileURLToPath(new URL("../../dist/index.cjs", import.meta.url));
const killsPerRound = 20;
const clips = 6;
/** Beyond the last call, so that some are killed while they end. */
const mostRunMs = 2_500;

/** A program as its page tells people to write it: a name for each start, a journal, and the same calls again after a crash. */
const program = `
const { createClient } = require(${JSON.stringify(library)});
const client = createClient({ journal: "starts.jsonl" });
const work = Array.from({ length: ${clips} }, async (_, index) => {
  const request = { prompt: "clip " + index, model: "wan-2.5", duration: 0.5 };
  const how = { idempotencyKey: "clip-" + index, output: "clip-" + index + ".mp4", intervalMs: 1000 };
  const { id, file } = await client.generate(request, how);
  console.log(index, id, file);
});
Promise.all(work).then(() => console.log("all"));
`;

/** Goal 26: a program that uses the library, killed at any moment and run again, pays for each video once and has each in the end. */
export const libraryKilled: Goal = {
  number: 26,
  title: `SIGKILL of a program that uses the library, while it makes ${clips} videos`,
  run: async ({ random, share }) => {
    const kills = portion(200, share, 12);
    const rounds: Round[] = [];
    for (let done = 0; done < kills; done += killsPerRound)
      rounds.push(await runRound(Math.min(killsPerRound, kills - done), random.fork(rounds.length)));
    const sum = (part: (round: Round) => number) => rounds.reduce((total, round) => total + part(round), 0);
    return {
      figures: `${kills} kills; ${sum(({ paid }) => paid)} starts paid for ${rounds.length * clips} videos, ${sum(({ saved }) => saved)} saved`,
      target: "each paid once and saved",
      faults: rounds.flatMap(({ faults }, index) => faults.map((fault) => `round ${index + 1}: ${fault}`)),
    };
  },
};

type Round = { paid: number; saved: number; faults: string[] };

function runRound(kills: number, random: Random): Promise<Round> {
  return inFolder(async (folder) => {
    const home = join(folder, "service-home");
    const serving = serve(home, "--port", "0", "--media-port", "0", "--credits", "1000000");
    const { base_url, api_key } = await serving.started;
    // A start and its reply take their time, so that kills hit many of them.
    const road = await openSlowRoad(base_url, random);
    try {
      const file = join(folder, "program.cjs");
      writeFileSync(file, program);
      const env = { VIDGEN_BASE_URL: road.url, VIDGEN_API_KEY: api_key };
      const run = () => spawnProcess(process.execPath, [file], env, folder);
      for (let done = 0; done < kills; done++) {
        const running = run();
        await pause(random.between(0, mostRunMs));
        running.kill("SIGKILL");
        await running.ended;
      }
      const { code, stdout, stderr } = await run().ended;
      await serving.end("SIGKILL");
      const unfinished = code === 0 && stdout.includes("all") ? [] : [`the last run ended with ${code}: ${stderr}`];
      return judge(folder, home, unfinished);
    } finally {
      await serving.end("SIGKILL");
      road.close();
    }
  });
}

function judge(folder: string, home: string, faults: string[]): Round {
  const books = readBooks(home, cost);
  const found = [...faults, ...books.faults];
  let saved = 0;
  for (let index = 0; index < clips; index++) {
    const paid = books.prompts.filter((prompt) => prompt === `clip ${index}`).length;
    if (paid !== 1) found.push(`clip ${index}: paid ${paid} times`);
    const file = join(folder, `clip-${index}.mp4`);
    const etag = existsSync(file) && `"${createHash("sha256").update(readFileSync(file)).digest("hex")}"`;
    if (etag === books.etags.get(`clip ${index}`)) saved++;
    else found.push(`clip ${index}: not saved whole`);
  }
  return { paid: books.prompts.length, saved, faults: found };
}
