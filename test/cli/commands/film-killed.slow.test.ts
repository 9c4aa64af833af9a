import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { watch } from "node:fs/promises";
import type { Server } from "node:http";
import { join } from "node:path";
import process from "node:process";
import { serve } from "@hono/node-server";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { colorsOf, fakeFfmpeg, makeClip, nameOf, ffmpeg as runFfmpeg, runsOf } from "../../client/film/clips.ts";
import { makeFolder } from "../../folder.ts";
import { hasFfmpeg } from "../../needs.ts";
import { createVllmOmni } from "../../server/engines/videos/fakes/vllm-omni.ts";
import { slowness } from "../../slowness.ts";
import { createMachine, type Machine } from "../machine.ts";

// Films by real processes that SIGKILL ends: the local service, in the process that is killed too, and an engine that counts what it is paid for.

const shots = ["red", "lime", "blue", "yellow", "white"];

/** A machine whose ffmpeg, the first time that it takes a frame of a clip or joins clips, writes a part of its output and waits. */
async function createFilmMachine() {
  const machine = await createMachine();
  const folder = makeFolder();
  const blocked = join(folder, "blocked");
  const script = `step=
case "$*" in *film.mp4.*.part*) step=join;; *bmp_pipe*) ;; *bmp*) step="frame $(echo "$*" | grep -o '[0-9]*\\.mp4')";; esac
if [ -n "$step" ] && ! grep -qxF "$step" ${folder}/steps; then
  echo "$step" >> ${folder}/steps
  eval out=\\\${$#}
  echo half > "\${out#file:}"
  echo $$ > ${blocked}.pid; mv ${blocked}.pid ${blocked}
  exec sleep 600
fi`;
  writeFileSync(join(folder, "steps"), "");
  vi.stubEnv("FFMPEG_PATH", fakeFfmpeg(folder, script));
  onTestFinished(() => void vi.unstubAllEnvs());
  const rows = shots.map((color, i) => `${color},${i === 0 ? "" : "previous"}\n`);
  writeFileSync(join(machine.folder, "shots.csv"), `prompt,from\n${rows.join("")}`);
  const steps: string[] = [];
  /** The lines of the rows whose generations have an id, and what waits for one. */
  const started = new Set<number>();
  const waiting = new Map<number, () => void>();
  let running: ReturnType<Machine["run"]> | undefined;
  /** Kills the process unless an earlier one was killed at this step. */
  const reach = (step: string) => {
    if (steps.includes(step) || running?.child.killed) return;
    steps.push(step);
    running?.child.kill("SIGKILL");
  };
  return {
    machine,
    reach,
    /** Resolves once a process has written down the id of a row's generation: killed before that, it may have been charged. */
    async untilStarted(line: number) {
      if (!started.has(line)) await new Promise<void>((resolve) => waiting.set(line, resolve));
    },
    /** The steps at which a process was killed. */
    steps: () => [...steps, ...readFileSync(join(folder, "steps"), "utf8").split("\n").filter(Boolean)],
    /** Runs a command until it reaches a step that no earlier one was killed at, or ends. */
    async runToNextStep(argv: string[], isStep: RegExp) {
      running = machine.run(...argv, "--events");
      const { ended } = running;
      let text = "";
      running.child.stdout?.on("data", (chunk) => {
        text += chunk;
        for (const line of text.split("\n").slice(0, -1)) {
          const { event, line: number } = JSON.parse(line);
          if (event === "started") {
            started.add(number);
            waiting.get(number)?.();
          }
          if (isStep.test(event)) reach(`${event} ${number}`);
        }
      });
      const controller = new AbortController();
      const waits = async () => {
        for await (const _ of watch(folder, controller)) if (existsSync(blocked)) return;
      };
      await Promise.race([ended, waits()]).finally(() => controller.abort());
      if (existsSync(blocked)) {
        running.child.kill("SIGKILL");
        process.kill(Number(readFileSync(blocked, "utf8")), "SIGKILL");
        rmSync(blocked);
      }
      return ended;
    },
  };
}

/** An engine on a socket of its own, whose video of a prompt is a clip of that colour. */
async function createColorEngine({ reach, untilStarted }: Pick<FilmMachine, "reach" | "untilStarted">) {
  const folder = makeFolder();
  const fake = createVllmOmni({
    completeAfterMs: 0,
    async fault({ route }) {
      if (route !== "poll") return undefined;
      const count = fake.creates.length;
      await untilStarted(count + 1);
      reach(`accepted ${count}`);
      return undefined;
    },
    video: ({ create }) => {
      const color = String(create.fields.prompt);
      return readFileSync(makeClip(join(folder, `${color}.mp4`), { colors: [[color, 12]] }));
    },
  });
  const server = serve({ fetch: fake.fetch, port: 0, hostname: "127.0.0.1" }) as Server;
  await new Promise((resolve) => server.once("listening", resolve));
  onTestFinished(() => void server.close());
  const address = server.address();
  const port = typeof address === "object" ? address?.port : undefined;
  /** The prompt of each create, and the colour of the image that it begins with. */
  const creates = () =>
    fake.creates.map(({ fields, files }, i) => {
      const png = join(folder, `${i}.png`);
      if (files[0]) writeFileSync(png, files[0].bytes);
      return [fields.prompt, files[0] && colorsOf(png).map(nameOf)[0]];
    });
  return { flag: `wan-2.5=vllm-omni:http://127.0.0.1:${port}`, creates };
}

const framesOf = (file: string) =>
  runFfmpeg("-i", `file:${file}`, "-map", "0:v", "-f", "framemd5", "pipe:1")
    .toString()
    .match(/[0-9a-f]{32}/g);

type FilmMachine = Awaited<ReturnType<typeof createFilmMachine>>;

/** `isStep` is for the events at which it is killed; all steps are expected. */
async function killAtEachStep(
  { machine, steps, runToNextStep }: FilmMachine,
  { flags, isStep, expected }: { flags: string[]; isStep: RegExp; expected: string[] },
) {
  const argv = ["batch", "shots.csv", "-d", "1", "-o", "clips/{n}.mp4", "--join", "film.mp4", ...flags];
  let ended: Awaited<ReturnType<Machine["vidgen"]>>;
  do ended = await runToNextStep(argv, isStep);
  while (ended.signal === "SIGKILL");
  expect(ended).toMatchObject({ code: 0 });
  expect(steps().sort()).toEqual(expected.sort());
  const file = (name: string) => join(machine.folder, name);
  expect(readdirSync(machine.folder).sort()).toEqual([
    "clips",
    "film.mp4",
    "home",
    "shots.csv",
    "shots.csv.results.jsonl",
  ]);
  expect(framesOf(file("film.mp4"))).toEqual([1, 2, 3, 4, 5].flatMap((n) => framesOf(file(`clips/${n}.mp4`))));
  const { stdout } = await machine.vidgen("list", "--json");
  const listed = (JSON.parse(stdout) as { prompt: string; status: string }[]).reverse();
  expect(listed.map(({ prompt, status }) => [prompt, status])).toEqual(shots.map((color) => [color, "completed"]));
  // The frames that were taken half are no harm, and each kept one is whole.
  const kept = readdirSync(file("home/frames"));
  expect(kept.filter((name) => name.endsWith(".png"))).toHaveLength(4);
  return file("film.mp4");
}

const steps = {
  frame: [1, 2, 3, 4].map((n) => `frame ${n}.mp4`),
  started: [2, 3, 4, 5, 6].map((line) => `started ${line}`),
  accepted: [1, 2, 3, 4, 5].map((n) => `accepted ${n}`),
  saved: [2, 3, 4, 5, 6].map((line) => `saved ${line}`),
  join: ["join", "joined undefined"],
};

describe("killed between every two steps, five are started, and one film is made in their order", {
  skip: !hasFfmpeg,
  timeout: 300_000 * slowness,
}, () => {
  test("by the local service", async () => {
    const expected = [...steps.frame, ...steps.started, ...steps.saved, ...steps.join];
    await killAtEachStep(await createFilmMachine(), { flags: ["--local"], isStep: /started|saved|joined/, expected });
  });

  test("by an engine, each from the frame of the one before", async () => {
    const machine = await createFilmMachine();
    const { flag, creates } = await createColorEngine(machine);
    const expected = [...steps.frame, ...steps.accepted, ...steps.saved, ...steps.join];
    const film = await killAtEachStep(machine, { flags: ["--engine", flag], isStep: /saved|joined/, expected });
    expect(creates()).toEqual(shots.map((color, i) => [color, shots[i - 1]]));
    expect(runsOf(film)).toEqual(shots.map((color) => [color, 12]));
  });
});
