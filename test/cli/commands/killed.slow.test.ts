import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Disk } from "../../../src/io.ts";
import { openDatabase } from "../../../src/server/store/sqlite/database.ts";
import { type Killing, walkKills } from "../../dying-disk.ts";
import { createVllmOmni } from "../../server/engines/videos/fakes/vllm-omni.ts";
import { aPng } from "../../server/queue/pictures.ts";
import { slowness } from "../../slowness.ts";
import { createWorld, isStart, type World } from "../../vidgen.ts";
import { bin, createMachine } from "../machine.ts";

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
type Scene = Pick<World, "folder" | "home"> & {
  vidgen(...argv: string[]): Promise<{ code: number | null; stderr: string }>;
  pipe(image: Uint8Array): void;
  /** Runs a line as a process that is killed, and lets time pass. */
  runKilled(killing: Killing, line: string[]): Promise<void>;
  /** What was asked for of whoever makes the videos. */
  starts(): Promise<Start[]>;
};

type Kind = {
  open(): Promise<Scene>;
  flags: string[];
  /** Each line changes more files here, so that so many more are passed over. */
  stride: number;
  /** More than so many of the lines must end in each way. */
  least: number;
  /** Whether a start that was killed while it was out may have been charged: else its key is sent again. */
  isUnclear: boolean;
};

type Start = { model: string; prompt: string };

function sceneOf(world: World, starts: () => Start[]): Scene {
  const { folder, home, vidgen } = world;
  return {
    folder,
    home,
    vidgen,
    starts: async () => starts(),
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

/** Processes of the program, of which SIGKILL ends one: the local service and its database are in them. */
async function openLocal(): Promise<Scene> {
  const machine = await createMachine();
  const { folder } = machine;
  const home = join(folder, "home");
  let laterMs = 0;
  const run = (argv: string[], given: Record<string, number>) => {
    const preload = new URL("../../dying-process.mjs", import.meta.url);
    for (const [name, value] of Object.entries(given)) preload.searchParams.set(name, String(value));
    return machine.runNode("--import", preload.href, bin, ...argv).ended;
  };
  let copies = 0;
  return {
    folder,
    home,
    vidgen: (...argv) => run(argv, { laterMs }),
    pipe(image) {
      machine.stdin = image;
    },
    async runKilled({ changes, onKilled, ...killing }, line) {
      const { signal } = await run(line, { changes });
      if (signal === "SIGKILL") onKilled();
      laterMs = killing.laterMs;
    },
    // The process that was killed has left its lock beside the database.
    async starts() {
      const copy = join(folder, `copy-${++copies}`);
      mkdirSync(copy);
      for (const name of ["service.db", "service.db-wal"])
        if (existsSync(join(home, "service", name))) cpSync(join(home, "service", name), join(copy, name));
      if (!existsSync(join(copy, "service.db"))) return [];
      const database = await openDatabase(join(copy, "service.db"));
      try {
        const [table] = database.all("SELECT 1 FROM sqlite_schema WHERE name = 'generations'");
        const rows = table ? database.all("SELECT model, asked FROM generations") : [];
        return rows.map(({ model, asked }) => ({ model: String(model), prompt: JSON.parse(String(asked)).prompt }));
      } finally {
        database.close();
      }
    },
  };
}

const kinds: [string, Kind][] = [
  ["a service", { open: openService, flags: [], stride: 1, least: 2, isUnclear: true }],
  [
    "GPU servers",
    {
      open: openEngines,
      flags: models.flatMap((model) => ["--engine", `${model}=vllm-omni:http://127.0.0.1:${portOf(model)}`]),
      stride: 2,
      least: 1,
      isUnclear: false,
    },
  ],
  ["--local", { open: openLocal, flags: ["--local", "-d", "1"], stride: 16, least: 0, isUnclear: false }],
];

const fox = ({ folder }: Scene) => ["generate", "a fox", "-o", join(folder, "fox.mp4")];
const shots = ({ folder }: Scene) => {
  writeFileSync(join(folder, "shots.csv"), "prompt\na fox\nan owl\n");
  return ["batch", join(folder, "shots.csv"), "-o", join(folder, "{n}.mp4")];
};
const project = ({ folder }: Scene, model: string) =>
  writeFileSync(join(folder, "vidgen.json"), JSON.stringify({ model }));

const countOf = async (scene: Scene, field: keyof Start, value: string) =>
  (await scene.starts()).filter((start) => start[field] === value).length;
const hasIntent = ({ home }: Scene) => {
  const journal = join(home, "journal.jsonl");
  return existsSync(journal) && readFileSync(journal, "utf8").includes('"kind":"intent"');
};

describe.each(kinds)(
  "%s, killed between changes of a file:",
  { timeout: 300_000 * slowness },
  (_name, { open, flags, stride, least, isUnclear }) => {
    test("-m a,b is continued by -m b,a, which pays for no model twice", async () => {
      const seen = new Map<number | null, number>();
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
        for (const model of models) expect(await countOf(scene, "model", model), at).toBeLessThanOrEqual(1);
        const saved = models.filter((model) => existsSync(join(scene.folder, `${model}.mp4`)));
        // A start that may have been charged is not sent again (6). A finished run is not continued, and its files are not replaced (9).
        expect([0, 6, 9], at).toContain(code);
        expect(saved, at).toHaveLength(code === 6 ? 1 : 2);
      });
      expect(seen.get(0)).toBeGreaterThan(isUnclear ? 10 : 4);
      if (isUnclear) expect(seen.get(6)).toBeGreaterThan(2);
    });

    test("batch --redo all makes each row again once, and keeps the old videos", async () => {
      let finished = 0;
      await walkKills(10 * stride, async (killing) => {
        const scene = await open();
        const line = [...shots(scene), ...flags];
        const redo = [...line, "--redo", "all"];
        await scene.vidgen(...line);
        await scene.runKilled(killing, redo);
        const { code, stderr } = await scene.vidgen(...redo);
        const at = `killed at ${killing.changes}, then exit ${code}: ${stderr}`;
        // 6: a row may have been charged, and is not sent again.
        expect([0, 6], at).toContain(code);
        for (const prompt of ["a fox", "an owl"])
          expect(await countOf(scene, "prompt", prompt), at).toBeLessThanOrEqual(2);
        if (code === 6) return;
        finished++;
        for (const name of ["1.mp4", "1.take-1.mp4", "2.mp4", "2.take-1.mp4"])
          expect(existsSync(join(scene.folder, name)), `${at}, ${name}`).toBe(true);
      });
      expect(finished).toBeGreaterThan(least);
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
          line: shots,
          before: (scene) => project(scene, "ray-3"),
          after: (scene) => project(scene, "sora-2"),
          files: ["1.mp4", "2.mp4"],
        },
      ],
    ])("%s pays for nothing by accident", async (_, { step, files, ...changed }) => {
      const seen = new Map<number | null, number>();
      let continued = 0;
      await walkKills(step * stride, async (killing) => {
        const scene = await open();
        const { starts } = scene;
        const line = (...more: string[]) => scene.vidgen(...changed.line(scene), ...flags, ...more);
        changed.before(scene);
        await scene.runKilled(killing, [...changed.line(scene), ...flags]);
        const [sent, isBegun] = [(await starts()).length, hasIntent(scene)];
        changed.after(scene);
        const { code, stderr } = await line();
        seen.set(code, (seen.get(code) ?? 0) + 1);
        const at = `killed at ${killing.changes}, then exit ${code}: ${stderr}`;
        if (!isBegun) return expect([sent, code], at).toEqual([0, 0]);
        // 9: the video has been saved, and is not replaced.
        expect([2, 6, 9], at).toContain(code);
        expect(await starts(), at).toHaveLength(sent);
        if (changed.anew && killing.changes % (4 * stride) < 2 * stride) {
          expect(await line(...changed.anew), at).toMatchObject({ code: 0 });
          expect(await starts(), at).toHaveLength(sent + 1);
        } else {
          changed.before(scene);
          const undone = await line();
          const mayBeCharged = code === 6 || undone.stderr.includes("may have been charged");
          const codes = isUnclear ? [6] : [0, 6];
          expect(mayBeCharged ? codes : [0, 9], `${at}, undone: ${undone.stderr}`).toContain(undone.code);
          if (undone.code === 0) continued++;
          for (const prompt of ["a fox", "an owl"])
            expect(await countOf(scene, "prompt", prompt), at).toBeLessThanOrEqual(1);
          if (undone.code === 6) return;
        }
        for (const file of files) expect(existsSync(join(scene.folder, file)), `${at}, ${file}`).toBe(true);
      });
      expect(continued).toBeGreaterThan(least);
      for (const code of isUnclear ? [0, 2, 6] : [0, 2]) expect(seen.get(code), `exit ${code}`).toBeGreaterThan(least);
    });
  },
);
