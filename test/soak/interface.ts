import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Goal } from "../faults/goal.ts";
import { spawnProcess } from "../faults/spawned.ts";
import { inFolder } from "../faults/work.ts";
import { hasCurl } from "../needs.ts";
import { receive } from "./receiver.ts";
import { whileServing } from "./serve.ts";

const script = fileURLToPath(new URL("interface.sh", import.meta.url));

/** An independent client: curl alone runs the whole interface against `serve`, row by row. */
export const interfaceRows: Goal = {
  number: 10,
  title: "the interface, row by row, by curl alone",
  run: ({ random }) =>
    inFolder((folder) =>
      whileServing(join(folder, "home"), ["--credits", "1000"], async ({ base_url, api_key }) => {
        if (!hasCurl) return { figures: "no curl on this machine", target: "every row", faults: ["curl is missing"] };
        const receiver = await receive(random, Number.POSITIVE_INFINITY);
        const file = join(folder, "callbacks");
        const writing = setInterval(() => {
          writeFileSync(file, [...receiver.received.values()].map((each) => `${each.at(-1)?.body}\n`).join(""));
        }, 50);
        const env = { BASE_URL: base_url, API_KEY: api_key, CALLBACK_URL: receiver.url, CALLBACK_FILE: file };
        const { code, stdout, stderr } = await spawnProcess("sh", [script], env, folder).ended;
        clearInterval(writing);
        await receiver.close();
        const rows = stdout.trim().split("\n");
        const faults = rows.filter((row) => !row.startsWith("ok "));
        if (code !== 0 && faults.length === 0) faults.push(`exit ${code}: ${stderr}`);
        const written = readFileSync(script, "utf8").match(/^ *row /gm)?.length ?? 0;
        if (rows.length < written) faults.push(`${rows.length} rows were run, and ${written} are written`);
        return { figures: `${rows.length - faults.length} of ${rows.length} rows hold`, target: "every row", faults };
      }),
    ),
};
