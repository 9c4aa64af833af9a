import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type Env, vidgen } from "../faults/client.ts";
import { type Goal, portion, tally } from "../faults/goal.ts";
import type { Random } from "../faults/random.ts";
import { spawnVidgen } from "../faults/spawned.ts";
import { pause } from "../faults/wire.ts";
import { inFolder, side } from "../faults/work.ts";
import { type Call, type Fault, json } from "../server/engines/videos/fakes/fake.ts";
import { type KindId, model } from "./engines-network.ts";
import { listenAsEngine } from "./engines-server.ts";

/** These have no key, and are told apart by themselves. */
const kinds: KindId[] = ["vllm-omni", "sglang", "tensorrt-llm", "litellm"];
const runs = 3;
const longestLifeMs = 2_500;
const longestHitMs = 400;

const page = (status: number) =>
  new Response("<!doctype html><title>Sorry</title>", { status, headers: { "Content-Type": "text/html" } });

/** What an engine does with a create that it may have taken. */
const replies: Record<string, (call: Call) => Fault | Promise<Fault>> = {
  "a reset": () => "drop",
  "a reset after it was taken": ({ serve }) => serve().then(() => "drop"),
  "500": () => json(500, { error: { message: "internal error" } }),
  "302": () => new Response(null, { status: 302, headers: { Location: "/login" } }),
  "cut JSON": async ({ serve }) => ({ reply: await serve(), bytes: 10 }),
  "200 without a job": () => json(200, { status: "ok" }),
  "503 with a page": () => page(503),
};

/** Goal 27: a command whose engine may have taken its create says so, and typed again it never sends another one. */
export const enginesUnclear: Goal = {
  number: 29,
  title: `the same line ${runs} times after a create that is unclear, ${Object.keys(replies).length} replies and SIGKILL`,
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const times = portion(kinds.length, share);
      const answered = Object.entries(replies).flatMap(([name, fault]) =>
        kinds.slice(0, times).map((kind): Story => ({ name, kind, fault })),
      );
      // Soon after a create has come, or at any moment.
      const killed = Array.from({ length: portion(60, share, 4) }, (_, index): Story => {
        const kind = kinds[index % kinds.length] ?? "sglang";
        return { name: "SIGKILL", kind, killAt: index % 2 === 0 ? "create" : "any" };
      });
      const ends: string[] = [];
      const faults: string[] = [];
      await side([...[...answered, ...killed].entries()], 2, async ([index, story]) => {
        const told = await play(story, { home: join(folder, `${index}`), index, random: random.fork(index) });
        ends.push(`${story.name}: ${told.end}`);
        faults.push(...told.faults.map((fault) => `${story.name}, ${story.kind}: ${fault}`));
      });
      return { figures: tally(ends), target: "one create at most, and exit 6 each time or one video", faults };
    }),
};

type Story = { name: string; kind: KindId } & (
  | { fault: (call: Call) => Fault | Promise<Fault>; killAt?: undefined }
  | { fault?: undefined; killAt: "create" | "any" }
);

type Told = { end: string; faults: string[] };

async function play(
  { kind, fault, killAt }: Story,
  { home, index, random }: { home: string; index: number; random: Random },
): Promise<Told> {
  await mkdir(home);
  let onCreate = () => {};
  const created = new Promise<void>((resolve) => {
    onCreate = resolve;
  });
  const engine = await listenAsEngine(kind, {
    completeAfterMs: 0,
    async fault(call) {
      if (call.route !== "create") return undefined;
      onCreate();
      if (fault) return fault(call);
      // Time for the kill; a later create is answered as it should be.
      await pause(random.between(0, 2 * longestHitMs));
      return undefined;
    },
  });
  const file = join(home, "fox.mp4");
  const line = ["generate", `fox ${index} at dusk`, "-m", model, "-o", file, ...engine.flags];
  const env: Env = { VIDGEN_HOME: join(home, "state") };
  const codes: number[] = [];
  const faults: string[] = [];
  try {
    if (killAt) {
      const first = spawnVidgen(line, env, home);
      if (killAt === "create") await Promise.race([created, first.ended]);
      // So that many are killed after the id is written down, and before the engine has answered.
      if (killAt === "create") await pause(random.between(0, longestHitMs));
      else await pause(random.between(0, longestLifeMs));
      first.kill("SIGKILL");
      await first.ended;
    }
    for (let run = 0; run < runs && !existsSync(file); run++) {
      const { code, stderr } = await vidgen(line, env, { speed: 1 });
      codes.push(code);
      if (code === 6 && !stderr.includes("may have been charged")) faults.push(`it said ${stderr}`);
      if (code === 6 && /Try another|Resume with/.test(stderr)) faults.push(`it said ${stderr}`);
      if (code !== 6 && (fault || code !== 0)) faults.push(`exit ${code}: ${stderr}`);
    }
    const creates = engine.arrived.length;
    if (creates > 1 || (fault && creates === 0)) faults.push(`${creates} creates, after exit ${codes.join(", ")}`);
    return { end: existsSync(file) ? "a video" : `exit ${[...new Set(codes)]}`, faults };
  } finally {
    await engine.close();
  }
}
