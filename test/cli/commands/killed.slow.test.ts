import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Disk } from "../../../src/io.ts";
import { type Killing, walkKills } from "../../dying-disk.ts";
import { aPng } from "../../server/queue/pictures.ts";
import { createWorld, isStart, type World } from "../../vidgen.ts";

// A line is killed before it changes a file, and typed again when something of it has changed, at once or 40 days later.

type Changed = {
  /** The line is killed before every `step`-th change of a file. */
  step: number;
  line(world: World): string[];
  /** Makes what the line takes from elsewhere as it is when the line is first typed. */
  before(world: World): void;
  /** Changes it. */
  after(world: World): void;
  /** What starts anew in any case; a batch has no such flag. */
  anew?: string[];
};

const fox = (world: World) => ["generate", "a fox", "-o", join(world.folder, "fox.mp4")];
const pipe = (world: World, width: number) => {
  world.stdin = Buffer.from(aPng(width, 20));
};
const project = (world: World, model: string) =>
  writeFileSync(join(world.folder, "vidgen.json"), JSON.stringify({ model }));

const starts = (world: World) => world.requests.filter(isStart).map(({ body }) => JSON.parse(body));
const countOf = (world: World, field: "model" | "prompt", value: string) =>
  starts(world).filter((body) => body[field] === value).length;
const hasIntent = ({ home }: World) => {
  const journal = join(home, "journal.jsonl");
  return existsSync(journal) && readFileSync(journal, "utf8").includes('"kind":"intent"');
};

/** Runs a line as a process that is killed, and lets time pass. */
async function runKilled(world: World, { run, laterMs }: Killing, line: string[]): Promise<void> {
  const { disk } = world.io;
  const start = (dying: Disk) => {
    Object.assign(world.io, { disk: dying });
    return world.vidgen(...line);
  };
  await run(start, () => void world.reboot());
  world.reboot();
  Object.assign(world.io, { disk });
  await world.io.sleep(laterMs);
}

test("killed between changes of a file, -m a,b is continued by -m b,a, which pays for no model twice", async () => {
  const seen = new Map<number, number>();
  await walkKills(5, async (killing) => {
    const world = await createWorld();
    const line = (models: string) => ["generate", "a fox", "-m", models, "-o", join(world.folder, "{model}.mp4")];
    await runKilled(world, killing, line("ray-3,sora-2"));
    const { code } = await world.vidgen(...line("sora-2,ray-3"));
    seen.set(code, (seen.get(code) ?? 0) + 1);
    const at = `killed at ${killing.changes}, then exit ${code}`;
    const models = ["ray-3", "sora-2"];
    for (const model of models) expect(countOf(world, "model", model), at).toBeLessThanOrEqual(1);
    const saved = models.filter((model) => existsSync(join(world.folder, `${model}.mp4`)));
    // A start that may have been charged is not sent again (6). A finished run is not continued, and its files are not replaced (9).
    expect([0, 6, 9], at).toContain(code);
    expect(saved, at).toHaveLength(code === 6 ? 1 : 2);
  });
  expect(seen.get(0)).toBeGreaterThan(10);
  expect(seen.get(6)).toBeGreaterThan(2);
});

test.each<[string, Changed]>([
  [
    "generate -i - with other bytes on stdin",
    {
      step: 3,
      line: (world) => [...fox(world), "-i", "-"],
      before: (world) => pipe(world, 30),
      after: (world) => pipe(world, 31),
      anew: ["--again", "--overwrite"],
    },
  ],
  [
    "generate with another model in vidgen.json",
    {
      step: 3,
      line: fox,
      before: (world) => project(world, "ray-3"),
      after: (world) => project(world, "sora-2"),
      anew: ["--again", "--overwrite"],
    },
  ],
  [
    "a batch with another model in vidgen.json",
    {
      step: 5,
      line(world) {
        writeFileSync(join(world.folder, "shots.csv"), "prompt\na fox\nan owl\n");
        return ["batch", join(world.folder, "shots.csv"), "-o", join(world.folder, "{n}.mp4")];
      },
      before: (world) => project(world, "ray-3"),
      after: (world) => project(world, "sora-2"),
    },
  ],
])("killed between changes of a file, %s pays for nothing by accident", async (_, { step, line, ...changed }) => {
  const seen = new Map<number, number>();
  let continued = 0;
  await walkKills(step, async (killing) => {
    const world = await createWorld();
    changed.before(world);
    await runKilled(world, killing, line(world));
    const [sent, isBegun] = [starts(world).length, hasIntent(world)];
    changed.after(world);
    const { code, stderr } = await world.vidgen(...line(world));
    seen.set(code, (seen.get(code) ?? 0) + 1);
    const at = `killed at ${killing.changes}, then exit ${code}: ${stderr}`;
    if (!isBegun) return expect([sent, code], at).toEqual([0, 0]);
    // 9: the video has been saved, and is not replaced.
    expect([2, 6, 9], at).toContain(code);
    expect(starts(world), at).toHaveLength(sent);
    if (changed.anew && killing.changes % 4 < 2) {
      expect(await world.vidgen(...line(world), ...changed.anew), at).toMatchObject({ code: 0 });
      expect(starts(world), at).toHaveLength(sent + 1);
    } else {
      changed.before(world);
      const undone = await world.vidgen(...line(world));
      const isUnclear = code === 6 || undone.stderr.includes("may have been charged");
      expect(isUnclear ? [6] : [0, 9], `${at}, undone: ${undone.stderr}`).toContain(undone.code);
      if (undone.code === 0) continued++;
      for (const prompt of ["a fox", "an owl"]) expect(countOf(world, "prompt", prompt), at).toBeLessThanOrEqual(1);
    }
  });
  expect(continued).toBeGreaterThan(2);
  for (const code of [0, 2, 6]) expect(seen.get(code), `exit ${code}`).toBeGreaterThan(2);
});
