import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Disk } from "../../../src/io.ts";
import { type Killing, walkKills } from "../../dying-disk.ts";
import { createVllmOmni } from "../../server/engines/videos/fakes/vllm-omni.ts";
import { aPng } from "../../server/queue/pictures.ts";
import { createWorld, isStart, type World } from "../../vidgen.ts";

// A line is killed before it changes a file, and typed again when something of it has changed, at once or 40 days later.

type Changed = {
  /** The line is killed before every `step`-th change of a file. */
  step: number;
  line(scene: Scene): string[];
  /** Makes what the line takes from elsewhere as it is when the line is first typed. */
  before(scene: Scene): void;
  /** Changes it. */
  after(scene: Scene): void;
  /** What starts anew in any case; a batch has no such flag. */
  anew?: string[];
  files: string[];
};

/** Where a line is typed. */
type Scene = Pick<World, "folder" | "home" | "vidgen"> & {
  pipe(image: Uint8Array): void;
  /** Runs a line as a process that is killed, and lets time pass. */
  runKilled(killing: Killing, line: string[]): Promise<void>;
  /** What was asked for of whoever makes the videos, in order. */
  starts(): { model: string; prompt: string }[];
};

type Kind = {
  open(): Promise<Scene>;
  flags: string[];
  /** Each line changes more files here, so that so many more are passed over. */
  stride: number;
  /** Whether a start that was killed while it was out may have been charged: else its key is sent again. */
  isUnclear: boolean;
};

function sceneOf(world: World, starts: Scene["starts"]): Scene {
  const { folder, home, vidgen } = world;
  return {
    folder,
    home,
    vidgen,
    starts,
    pipe(image) {
      world.stdin = Buffer.from(image);
    },
    async runKilled({ run, laterMs }, line) {
      const { disk } = world.io;
      const start = (dying: Disk) => {
        Object.assign(world.io, { disk: dying });
        return vidgen(...line);
      };
      await run(start, () => void world.reboot());
      world.reboot();
      Object.assign(world.io, { disk });
      await world.io.sleep(laterMs);
    },
  };
}

async function openService(): Promise<Scene> {
  const world = await createWorld();
  return sceneOf(world, () => world.requests.filter(isStart).map(({ body }) => JSON.parse(body)));
}

const models = ["wan-2.5", "ray-3", "sora-2"];
const portOf = (model: string) => 8091 + models.indexOf(model);

/** A GPU server for each model, paid by the local service in the process that is killed. */
async function openEngines(): Promise<Scene> {
  const world = await createWorld();
  delete world.env.VIDGEN_BASE_URL;
  delete world.env.VIDGEN_API_KEY;
  const fakes = models.map((model) => {
    const fake = createVllmOmni({ now: world.io.now, completeAfterMs: 30_000 });
    world.faults.push((request) =>
      new URL(request.url).port === String(portOf(model)) ? fake.fetch(request) : undefined,
    );
    return { model, fake };
  });
  return sceneOf(world, () =>
    fakes.flatMap(({ model, fake }) => fake.creates.map(({ fields }) => ({ model, prompt: String(fields.prompt) }))),
  );
}

const kinds: [string, Kind][] = [
  ["a service", { open: openService, flags: [], stride: 1, isUnclear: true }],
  [
    "GPU servers",
    {
      open: openEngines,
      flags: models.flatMap((model) => ["--engine", `${model}=vllm-omni:http://127.0.0.1:${portOf(model)}`]),
      stride: 2,
      isUnclear: false,
    },
  ],
];

const fox = ({ folder }: Scene) => ["generate", "a fox", "-o", join(folder, "fox.mp4")];
const project = ({ folder }: Scene, model: string) =>
  writeFileSync(join(folder, "vidgen.json"), JSON.stringify({ model }));

const countOf = (scene: Scene, field: "model" | "prompt", value: string) =>
  scene.starts().filter((start) => start[field] === value).length;
const hasIntent = ({ home }: Scene) => {
  const journal = join(home, "journal.jsonl");
  return existsSync(journal) && readFileSync(journal, "utf8").includes('"kind":"intent"');
};

describe.each(kinds)("%s, killed between changes of a file:", (_name, { open, flags, stride, isUnclear }) => {
  test("-m a,b is continued by -m b,a, which pays for no model twice", async () => {
    const seen = new Map<number, number>();
    await walkKills(5 * stride, async (killing) => {
      const scene = await open();
      const line = (models: string) => [
        "generate",
        "a fox",
        "-m",
        models,
        "-o",
        join(scene.folder, "{model}.mp4"),
        ...flags,
      ];
      await scene.runKilled(killing, line("ray-3,sora-2"));
      const { code } = await scene.vidgen(...line("sora-2,ray-3"));
      seen.set(code, (seen.get(code) ?? 0) + 1);
      const at = `killed at ${killing.changes}, then exit ${code}`;
      const models = ["ray-3", "sora-2"];
      for (const model of models) expect(countOf(scene, "model", model), at).toBeLessThanOrEqual(1);
      const saved = models.filter((model) => existsSync(join(scene.folder, `${model}.mp4`)));
      // A start that may have been charged is not sent again (6). A finished run is not continued, and its files are not replaced (9).
      expect([0, 6, 9], at).toContain(code);
      expect(saved, at).toHaveLength(code === 6 ? 1 : 2);
    });
    expect(seen.get(0)).toBeGreaterThan(isUnclear ? 10 : 4);
    if (isUnclear) expect(seen.get(6)).toBeGreaterThan(2);
  });

  test.each<[string, Changed]>([
    [
      "generate -i - with other bytes on stdin",
      {
        step: 3,
        line: (scene) => [...fox(scene), "-i", "-"],
        before: (scene) => scene.pipe(aPng(30, 20)),
        after: (scene) => scene.pipe(aPng(31, 20)),
        anew: ["--again", "--overwrite"],
        files: ["fox.mp4"],
      },
    ],
    [
      "generate with another model in vidgen.json",
      {
        step: 3,
        line: fox,
        before: (scene) => project(scene, "ray-3"),
        after: (scene) => project(scene, "sora-2"),
        anew: ["--again", "--overwrite"],
        files: ["fox.mp4"],
      },
    ],
    [
      "a batch with another model in vidgen.json",
      {
        step: 5,
        line(scene) {
          writeFileSync(join(scene.folder, "shots.csv"), "prompt\na fox\nan owl\n");
          return ["batch", join(scene.folder, "shots.csv"), "-o", join(scene.folder, "{n}.mp4")];
        },
        before: (scene) => project(scene, "ray-3"),
        after: (scene) => project(scene, "sora-2"),
        files: ["1.mp4", "2.mp4"],
      },
    ],
  ])("%s pays for nothing by accident", async (_, { step, files, ...changed }) => {
    const seen = new Map<number, number>();
    let continued = 0;
    await walkKills(step * stride, async (killing) => {
      const scene = await open();
      const { starts } = scene;
      const line = (...more: string[]) => scene.vidgen(...changed.line(scene), ...flags, ...more);
      changed.before(scene);
      await scene.runKilled(killing, [...changed.line(scene), ...flags]);
      const [sent, isBegun] = [starts().length, hasIntent(scene)];
      changed.after(scene);
      const { code, stderr } = await line();
      seen.set(code, (seen.get(code) ?? 0) + 1);
      const at = `killed at ${killing.changes}, then exit ${code}: ${stderr}`;
      if (!isBegun) return expect([sent, code], at).toEqual([0, 0]);
      // 9: the video has been saved, and is not replaced.
      expect([2, 6, 9], at).toContain(code);
      expect(starts(), at).toHaveLength(sent);
      if (changed.anew && killing.changes % (4 * stride) < 2 * stride) {
        expect(await line(...changed.anew), at).toMatchObject({ code: 0 });
        expect(starts(), at).toHaveLength(sent + 1);
      } else {
        changed.before(scene);
        const undone = await line();
        const mayBeCharged = code === 6 || undone.stderr.includes("may have been charged");
        const codes = isUnclear ? [6] : [0, 6];
        expect(mayBeCharged ? codes : [0, 9], `${at}, undone: ${undone.stderr}`).toContain(undone.code);
        if (undone.code === 0) continued++;
        for (const prompt of ["a fox", "an owl"]) expect(countOf(scene, "prompt", prompt), at).toBeLessThanOrEqual(1);
        if (undone.code === 6) return;
      }
      for (const file of files) expect(existsSync(join(scene.folder, file)), `${at}, ${file}`).toBe(true);
    });
    expect(continued).toBeGreaterThan(2);
    for (const code of isUnclear ? [0, 2, 6] : [0, 2])
      expect(seen.get(code), `exit ${code}`).toBeGreaterThan(isUnclear ? 2 : 1);
  });
});
