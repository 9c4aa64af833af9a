import { createHash } from "node:crypto";
import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { asRatio, compare, runForCpu } from "./measure.mjs";

const sizes = [10_000, 100_000];
const rounds = 5;
const models = ["veo-3.1", "sora-2", "kling-2.5", "wan-2.5"];

/** The CPU time of commands in homes with many generations, beside the same command in an empty home. */
export function measureAge({ bin, env, folder, print }) {
  const homes = [0, ...sizes].map((size) => makeHome(size, folder, env));
  let started = 0;
  const newPrompt = () => `a heron waits in the rain, take ${++started}`;
  const dryRun = ["generate", "a heron waits in the rain", "-m", "veo-3.1", "--duration", "8", "--dry-run"];
  const commands = {
    "status of the oldest": () => ["status", idAt(0)],
    "status of the newest": () => ["status", idAt(sizes[0] - 1)],
    "--dry-run": () => dryRun,
    "--dry-run --max-credits": () => [...dryRun, "--max-credits", "100"],
    "a start": () => ["generate", newPrompt(), "-m", "veo-3.1", "--no-wait"],
    "-n 2 --max-credits": () => [
      "generate",
      newPrompt(),
      "-m",
      "veo-3.1",
      "-n",
      "2",
      "--max-credits",
      "100",
      "--no-wait",
    ],
    list: () => ["list"],
    "completion of ids": () => ["__complete", "status"],
  };
  for (const [name, line] of Object.entries(commands)) {
    const inHomes = homes.map((VIDGEN_HOME) => () => ({ args: [bin, ...line()], env: { ...env, VIDGEN_HOME } }));
    const [empty, ...taken] = compare(inHomes, rounds, runForCpu);
    for (const [i, ms] of taken.entries()) print(`${name}, ${sizes[i]} / 0`, asRatio(ms, empty));
  }
}

/** The id of a generation in the homes, from the oldest, 0, on. */
function idAt(index) {
  return `${uuidAt("1d", index)}`;
}

function uuidAt(kind, index) {
  const digits = createHash("sha256").update(`${kind} ${index}`).digest("hex");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, "$1-$2-$3-$4-$5");
}

/** Makes a home in which so many generations were started, one every five minutes until now, and saved. Returns its path. */
function makeHome(size, folder, { VIDGEN_BASE_URL: base_url, VIDGEN_API_KEY }) {
  const home = join(folder, `home-of-${size}`);
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const account = createHash("sha256").update(`${base_url} ${VIDGEN_API_KEY}`).digest("hex").slice(0, 12);
  const file = openSync(join(home, "journal.jsonl"), "a", 0o600);
  const begin = Date.now() - size * 300_000;
  for (let index = 0; index < size; index++) {
    const linesAbout = linesOf(index, { base_url, account, at: begin + index * 300_000 });
    writeSync(file, linesAbout.map((line) => `${JSON.stringify(line)}\n`).join(""));
  }
  closeSync(file);
  return home;
}

/** The lines about a generation that was saved a minute after its start. */
function linesOf(index, { base_url, account, at }) {
  const [attempt, id] = [uuidAt("attempt", index), idAt(index)];
  const path = `/home/someone/clips/${index}.mp4`;
  const prompt = `a red fox runs through snow at dusk, the camera follows it along the frozen river, take ${index}`;
  const request = { prompt, model: models[index % models.length], duration: 8, aspectRatio: "16:9" };
  const typed = createHash("sha256").update(prompt).digest("base64url");
  const sha256 = createHash("sha256").update(path).digest("hex");
  const dated = (kind, seconds, fields) => ({ at: new Date(at + seconds * 1000).toISOString(), kind, ...fields });
  return [
    dated("intent", 0, { attempt, base_url, account, request, place: path, path, no_wait: false, typed }),
    dated("accepted", 1, { attempt, id, credits: 10, remaining_credits: 5_000_000 - index * 10 }),
    dated("completed", 50, { id, watched: true }),
    dated("delivered", 60, { id, file: path, sha256, size: 4_000_000 + index, inode: 2_000_000 + index }),
  ];
}
