import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createWorld, failure, goneReply, isStart, kill, type World } from "../../vidgen.ts";

const bodies = (world: World) => world.requests.filter(isStart).map(({ body }) => JSON.parse(body));
const models = (world: World) => bodies(world).map(({ model }) => model);
const isPoll = (request: Request) => request.url.includes("generation-status");
const clips = (world: World) => join(world.folder, "clips/");
const line = (world: World, names: string, ...more: string[]) => {
  return ["generate", "a fox", "-m", names, "-o", clips(world), ...more];
};
const files = (world: World) =>
  readdirSync(clips(world))
    .filter((name) => name.endsWith(".mp4"))
    .sort();

/** Answers the starts of one model. */
const onModel = (model: string, answer: () => Response): World["faults"][number] => {
  return async (request) =>
    isStart(request) && JSON.parse(await request.clone().text()).model === model ? answer() : undefined;
};

const refuse = (status: number) => () => Response.json({ error: "this model is not offered" }, { status });

test("one line starts a generation with each model, in the typed order, and prints one array", async () => {
  const world = await createWorld();
  const run = await world.vidgen(...line(world, "veo-3.1,sora-2, kling-2.6", "--json"));
  expect([run.code, models(world)]).toEqual([0, ["veo-3.1", "sora-2", "kling-2.6"]]);
  const names = ["a-fox-veo-3.1-1.mp4", "a-fox-sora-2-1.mp4", "a-fox-kling-2.6-1.mp4"];
  expect(JSON.parse(run.stdout)).toMatchObject(
    names.map((name, index) => ({ model: models(world)[index], file: join(clips(world), name) })),
  );
  expect(files(world)).toEqual(names.sort());
});

test("-n 2 starts two of each, and counts the seed and the number within each model", async () => {
  const world = await createWorld();
  expect(await world.vidgen(...line(world, "sora-2,ray-3", "-n", "2", "--seed", "7"))).toMatchObject({ code: 0 });
  expect(bodies(world).map(({ model, seed }) => `${model} ${seed}`)).toEqual([
    "sora-2 7",
    "sora-2 8",
    "ray-3 7",
    "ray-3 8",
  ]);
  expect(files(world)).toEqual(["ray-3-1", "ray-3-2", "sora-2-1", "sora-2-2"].map((name) => `a-fox-${name}.mp4`));
});

test("again with several models repeats the request with each of them", async () => {
  const world = await createWorld();
  await world.vidgen("generate", "a fox", "-a", "9:16");
  expect(await world.vidgen("again", "last", "-m", "sora-2,ray-3")).toMatchObject({ code: 0 });
  expect(bodies(world)).toMatchObject(["wan-2.5", "sora-2", "ray-3"].map((model) => ({ model, aspectRatio: "9:16" })));
});

test.each([
  ["polled", isPoll, [], 0],
  ["downloaded", (request: Request) => request.url.endsWith(".mp4"), [], 40],
  ["polled, two of each,", isPoll, ["-n", "2"], 40],
])("killed while they are %s, the models in any order pay for nothing twice", async (_, moment, flags, days) => {
  const world = await createWorld();
  const orders = ["kling-2.6,ray-3,sora-2", "sora-2,ray-3,kling-2.6", "ray-3,kling-2.6,sora-2"];
  await kill(world, moment, ...line(world, "kling-2.6,ray-3,sora-2", ...flags));
  await world.io.sleep(days * 24 * 3_600_000);
  for (const order of orders.slice(1)) await kill(world, moment, ...line(world, order, ...flags));
  const last = await world.vidgen(...line(world, "sora-2,kling-2.6,ray-3", ...flags, "--json"));
  expect(last.code).toBe(0);
  const each = flags.length === 0 ? 1 : 2;
  expect(models(world).sort()).toEqual(["kling-2.6", "ray-3", "sora-2"].flatMap((model) => Array(each).fill(model)));
  expect(files(world)).toHaveLength(3 * each);
  expect(JSON.parse(last.stdout).map(({ model }: { model: string }) => model)).toEqual(
    ["sora-2", "kling-2.6", "ray-3"].flatMap((model) => Array(each).fill(model)),
  );
});

test("again last keeps its meaning with the models in another order", async () => {
  const world = await createWorld();
  await world.vidgen("generate", "a fox");
  await kill(world, isPoll, "again", "last", "-m", "sora-2,ray-3");
  expect(await world.vidgen("again", "last", "-m", "ray-3,sora-2")).toMatchObject({ code: 0 });
  expect(models(world)).toEqual(["wan-2.5", "sora-2", "ray-3"]);
});

test("a start that may have been charged stops the same models in any order, and --again pays for all again", async () => {
  const world = await createWorld();
  world.faults.push(
    onModel("ray-3", () => {
      throw failure("ECONNRESET", true);
    }),
  );
  expect(await world.vidgen(...line(world, "kling-2.6,ray-3"))).toMatchObject({ code: 6 });
  world.faults.length = 0;
  const run = await world.vidgen(...line(world, "ray-3,kling-2.6", "--json"));
  expect([run.code, models(world)]).toEqual([6, ["kling-2.6", "ray-3"]]);
  expect(JSON.parse(run.stdout)).toMatchObject([
    { model: "ray-3", error: { code: "unknown" } },
    { model: "kling-2.6" },
  ]);
  expect(JSON.parse(run.stderr).error.next.every(({ pays }: { pays: boolean }) => !pays)).toBe(true);
  expect(await world.vidgen(...line(world, "ray-3,kling-2.6", "--again"))).toMatchObject({ code: 0 });
  expect(models(world)).toEqual(["kling-2.6", "ray-3", "ray-3", "kling-2.6"]);
});

test("two models do not take over the run of two takes of one, nor the other way round", async () => {
  const world = await createWorld();
  await kill(world, isPoll, "generate", "a fox", "-m", "kling-2.6", "-n", "2");
  await kill(world, isPoll, "generate", "a fox", "-m", "ray-3,kling-2.6");
  expect(await world.vidgen("generate", "a fox", "-m", "kling-2.6", "-n", "2")).toMatchObject({ code: 0 });
  expect(await world.vidgen("generate", "a fox", "-m", "kling-2.6,ray-3")).toMatchObject({ code: 0 });
  expect(models(world).sort()).toEqual(["kling-2.6", "kling-2.6", "kling-2.6", "ray-3"]);
});

test("a model that the service refuses does not stop the others, but no credits do", async () => {
  const world = await createWorld();
  world.faults.push(onModel("kling-2.6", refuse(400)));
  const run = await world.vidgen(...line(world, "kling-2.6,ray-3", "-n", "2", "--json"));
  expect([run.code, models(world)]).toEqual([1, ["kling-2.6", "ray-3", "ray-3"]]);
  expect(JSON.parse(run.stdout)).toMatchObject([
    { model: "kling-2.6", error: { code: "rejected" } },
    { model: "ray-3", status: "completed" },
    { model: "ray-3", status: "completed" },
  ]);
  world.faults.splice(0, 1, onModel("sora-2", refuse(402)));
  expect(await world.vidgen(...line(world, "sora-2,veo-3.1"))).toMatchObject({
    code: 7,
    stderr: expect.stringContaining("2 of 2 were not started."),
  });
});

test("asks a person once, with the sum of the known prices", async () => {
  const world = await createWorld();
  world.isTerminal = true;
  // What a service lists counts in place of earlier prices.
  world.faults.push(({ url }) => (url.endsWith("/v1/models") ? Response.json({}, { status: 404 }) : undefined));
  await world.vidgen("generate", "a fox", "-m", "sora-2");
  await world.vidgen("generate", "a fox", "-m", "ray-3");
  world.columns = 120;
  world.answers = [["Start 3 generations for about 20 credits plus veo-3.1, whose price is unknown?", "y\r"]];
  expect(await world.vidgen(...line(world, "sora-2,ray-3,veo-3.1"))).toMatchObject({ code: 0 });
  expect(models(world)).toHaveLength(5);
});

test("a place with {model} needs no number; --dry-run shows each request and sends none", async () => {
  const world = await createWorld();
  const place = join(world.folder, "{model}.mp4");
  const dry = await world.vidgen("generate", "a fox", "-m", "sora-2,ray-3", "-o", place, "--dry-run", "--json");
  expect(JSON.parse(dry.stdout)).toMatchObject(
    ["sora-2", "ray-3"].map((model) => ({ method: "POST", body: { model } })),
  );
  expect(world.requests.filter(isStart)).toEqual([]);
  expect(await world.vidgen("generate", "a fox", "-m", "sora-2,ray-3", "-o", place)).toMatchObject({ code: 0 });
  expect(readdirSync(world.folder).sort()).toEqual(["ray-3.mp4", "sora-2.mp4"]);
});

test.each<[string[], RegExp]>([
  [["-m", "sora-2,sora-2"], /--model names sora-2 twice/],
  [["-m", "sora-2,"], /--model has an empty name/],
  [["-m", ","], /--model has an empty name/],
  [["-m", "a,b", "-n", "11"], /would start 22 generations: at most 20/],
  [["-m", "a,b", "--reuse"], /Several models and --reuse cannot be combined/],
  [["-m", "a,b", "--open"], /Several models and --open cannot be combined/],
  [["-m", "a,b", "--set", "model=c"], /Several models and --set model=... cannot be combined/],
  [["-m", "a,b", "-o", "fox.mp4"], /Several models need a folder or distinct names, not fox.mp4/],
  [["-m", "a,b", "-n", "2", "-o", "{model}.mp4"], /Several models need a folder or distinct names/],
  [["-m", "x/a-b,x a b", "-o", "{model}.mp4"], /x\/a-b and x a b would get the same name: add \{n\}/],
  [["-m", "sora-2,kling-1.6-elements"], /kling-1.6-elements needs 2 to 4 images/],
])("%j is a usage error, and nothing is sent", async (flags, message) => {
  const world = await createWorld();
  expect(await world.vidgen("generate", "a fox", ...flags)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(message),
  });
  expect(world.requests).toEqual([]);
});

test("a person's slips in the models are asked about, and two names for one model are refused", async () => {
  const world = await createWorld();
  world.isTerminal = true;
  world.answers = [["Did you mean ray-3?", "\r"]];
  expect(await world.vidgen("generate", "a fox", "-m", "ray-3,ray3")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--model names ray-3 twice"),
  });
  expect(world.requests).toEqual([]);
});

test("batch takes one model, and names the flag for several", async () => {
  const world = await createWorld();
  world.stdin = "a fox\n";
  const rows = ["batch", "-", "--input-format", "txt", "--results", join(world.folder, "r.jsonl")];
  expect(await world.vidgen(...rows, "-m", "sora-2,ray-3")).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/takes one model in a batch.*--each model=a,b/s),
  });
  expect(world.requests).toEqual([]);
});

describe("of three takes, of which the service says that the second one has failed,", () => {
  const take = (world: World) => ["generate", "a fox", "-n", "3", "-o", clips(world)];
  const entries = async (world: World) => JSON.parse((await world.vidgen("list", "--json")).stdout);

  /** The ids of the takes that are saved. */
  async function makeTwoOfThree(world: World): Promise<string[]> {
    const polled: string[] = [];
    world.faults.push((request) => {
      const id = new URL(request.url).searchParams.get("id") ?? "";
      if (!isPoll(request)) return undefined;
      if (!polled.includes(id)) polled.push(id);
      return polled[1] === id ? Response.json({ id, status: "failed", error: "no" }) : undefined;
    });
    expect(await world.vidgen(...take(world))).toMatchObject({ code: 4 });
    world.faults.length = 0;
    const saved = (await entries(world)).filter(({ status }: { status: string }) => status === "completed");
    expect(saved).toHaveLength(2);
    return saved.map(({ id }: { id: string }) => id);
  }

  test("the same line pays for that one only, also if the videos of the others were deleted", async () => {
    const world = await createWorld();
    for (const id of await makeTwoOfThree(world)) await world.vidgen("delete", id, "--yes", "--files");
    expect((await world.vidgen(...take(world), "--dry-run")).stdout.match(/Would resume/g)).toHaveLength(2);
    const run = await world.vidgen(...take(world));
    expect([run.code, models(world).length, run.stdout.match(/mp4/g)?.length]).toEqual([0, 4, 1]);
    expect(run.stderr.match(/no longer at the service/g)).toHaveLength(2);
    // Now all three are done, whatever became of the files: the same line is a new run.
    await world.vidgen(...take(world));
    expect(models(world)).toHaveLength(7);
  });

  test("a missing file is fetched again, and if the service no longer has it, that stops no other", async () => {
    const world = await createWorld();
    const [first, second] = await makeTwoOfThree(world);
    rmSync(clips(world), { recursive: true });
    world.faults.push((request) => (isPoll(request) && request.url.includes(second ?? "") ? goneReply() : undefined));
    const run = await world.vidgen(...take(world), "--json");
    expect([run.code, models(world).length, files(world).length]).toEqual([0, 4, 2]);
    const documents = JSON.parse(run.stdout);
    expect(
      documents.map(({ id, file }: { id: string; file?: string }) => [id === first, id === second, !file]),
    ).toEqual(
      expect.arrayContaining([
        [true, false, false],
        [false, true, true],
        [false, false, false],
      ]),
    );
  });

  test("once all are done, no hint names the same line, which would pay for all of them again", async () => {
    const world = await createWorld();
    const [first = ""] = await makeTwoOfThree(world);
    rmSync(clips(world), { recursive: true });
    const isOfFirst = (url: string) => url.endsWith(".mp4") && url.includes(first);
    world.faults.push(({ url }) => (isOfFirst(url) ? new Response("", { status: 500 }) : undefined));
    const run = await world.vidgen(...take(world), "--json");
    expect([run.code, models(world).length, files(world).length]).toEqual([9, 4, 2]);
    const { hint, next } = JSON.parse(run.stderr).error;
    expect(hint).not.toMatch(/same command/);
    expect(hint).toMatch(new RegExp(`Resume with: vidgen wait ${first} -o `));
    expect(next).toMatchObject([{ argv: ["vidgen", "wait", first, "-o", expect.anything()], pays: false }]);
  });
});
