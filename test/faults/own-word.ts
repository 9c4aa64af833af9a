import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { apiKey, createWorld, goneReply, isStart, type World } from "../vidgen.ts";
import { type Goal, portion, tally } from "./goal.ts";
import type { Random } from "./random.ts";

/** What a scene found; `ends` are the exit codes of its commands. */
type Played = { ends: number[]; faults: string[] };

/** Goal 24: a gateway, the key of another account, and refusals that name an id: nobody but the service closes or refuses a generation. */
export const ownWord: Goal = {
  number: 24,
  title: "gateways, other accounts, ids in refusals, replayed replies",
  async run({ random, share }) {
    const kinds = { gateway, lost, otherAccount, idInRefusal, replayed };
    const played: Played[] = [];
    for (const [kind, play] of Object.entries(kinds))
      for (let i = 0; i < portion(40, share); i++) {
        const { ends, faults } = await play(await createWorld(), random.fork(`${kind} ${i}`));
        played.push({ ends, faults: faults.map((fault) => `${kind} ${i}: ${fault}`) });
      }
    const ends = played.flatMap((each) => each.ends.map((code) => `exit ${code}`));
    const faults = played.flatMap((each) => each.faults);
    return {
      figures: `${played.length} scenes: ${tally(ends)}; ${faults.length} paid twice, or an id lost`,
      target: "0",
      faults,
    };
  },
};

const argv = ["generate", "a fox"];
const paid = (world: World) => world.requests.filter(isStart).length;
const isPoll = (request: Request) => request.url.includes("generation-status");
const journalOf = (world: World) => readFileSync(join(world.home, "journal.jsonl"), "utf8");

/** An ingress answers 404 for a while; the command is run again until it has its video. */
async function gateway(world: World, random: Random): Promise<Played> {
  const goneMs = random.between(5_000, 300_000);
  const bodies = ["", "404 page not found", "<html>default backend</html>", '"not found"', "[]", "{"];
  world.faults.push((request) =>
    isPoll(request) && world.io.now() < goneMs ? new Response(random.pick(bodies), { status: 404 }) : undefined,
  );
  const ends: number[] = [];
  for (let runs = 0; runs < 8 && ends.at(-1) !== 0; runs++)
    ends.push((await world.reboot().vidgen(...argv, "--timeout", `${random.between(20, 120)}s`)).code);
  const isRight = ends.at(-1) === 0 && ends.every((code) => [0, 5, 8].includes(code)) && paid(world) === 1;
  return { ends, faults: isRight ? [] : [`${paid(world)} starts, exits ${ends}`] };
}

/** The service itself does not know the id any more, for good or for a while. */
async function lost(world: World, random: Random): Promise<Played> {
  let isGone = true;
  world.faults.push((request) => (isPoll(request) && isGone ? goneReply() : undefined));
  const ends: number[] = [];
  const again = random.pick([[], ["--reuse"], ["--no-wait"]]);
  for (const more of [[], again, again]) ends.push((await world.reboot().vidgen(...argv, ...more)).code);
  isGone = false;
  const [id = ""] = /"id":"([0-9a-f-]{36})"/.exec(journalOf(world))?.slice(1) ?? [];
  ends.push((await world.reboot().vidgen("wait", id)).code);
  const isRight = `${ends}` === "10,10,10,0" && paid(world) === 1;
  return { ends, faults: isRight ? [] : [`${paid(world)} starts, exits ${ends}`] };
}

/** Commands with another key come between two runs with the right one. */
async function otherAccount(world: World, random: Random): Promise<Played> {
  const other = "another-key-9876543210";
  world.faults.push((request) => (request.headers.get("Authorization")?.includes(other) ? goneReply() : undefined));
  const ends = [(await world.vidgen(...argv, "--timeout", "5s")).code];
  world.env.VIDGEN_API_KEY = other;
  const commands = [["wait", "--all"], ["status"], argv, [...argv, "--reuse"]];
  for (let i = 0; i < 2; i++) ends.push((await world.reboot().vidgen(...random.pick(commands))).code);
  world.env.VIDGEN_API_KEY = apiKey;
  ends.push((await world.reboot().vidgen(...argv)).code);
  const isRight = ends[0] === 5 && ends.at(-1) === 0 && paid(world) === 1;
  return { ends, faults: isRight ? [] : [`${paid(world)} starts, exits ${ends}`] };
}

/** The start is carried out, and the answer names its id under any status; with `success: false` or without. */
async function idInRefusal(world: World, random: Random): Promise<Played> {
  const status = random.pick([200, 202, 302, 400, 402, 404, 408, 409, 421, 429, 500, 503]);
  const saysNo = random.next() < 0.5;
  let id = "";
  world.faults.push(async (request) => {
    if (!isStart(request)) return undefined;
    const reply = (await world.start(request)) as { data: { id: string } };
    id = reply.data.id;
    return Response.json({ ...reply, success: !saysNo, error: "no" }, { status });
  });
  const first = await world.vidgen(...argv);
  const isTold = `${first.stdout}${first.stderr}`.includes(id) && journalOf(world).includes(id);
  const faults = isTold && paid(world) === 1 ? [] : [`HTTP ${status}, ${paid(world)} starts: ${first.stderr}`];
  const ends = [first.code];
  if (first.code === 6) {
    ends.push((await world.reboot().vidgen(...argv)).code, (await world.reboot().vidgen("wait", id)).code);
    if (`${ends}` !== "6,6,0" || paid(world) !== 1) faults.push(`HTTP ${status}, ${paid(world)} starts, exits ${ends}`);
  }
  return { ends, faults };
}

/** A gateway answers a start with what it answered another one. */
async function replayed(world: World, random: Random): Promise<Played> {
  let reply: object | undefined;
  world.faults.push(async (request) => {
    if (!isStart(request)) return undefined;
    reply ??= await world.start(request);
    return Response.json(reply);
  });
  const file = join(world.folder, "owl.mp4");
  const first = await world.vidgen(...argv, "-o", join(world.folder, "fox.mp4"));
  const second = await world.reboot().vidgen("generate", random.pick(["an owl", "a hen"]), "-o", file);
  const isRight = first.code === 0 && second.code === 6 && !existsSync(file);
  return { ends: [first.code, second.code], faults: isRight ? [] : [second.stderr] };
}
