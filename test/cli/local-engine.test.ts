import { readFileSync, writeFileSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { acquireFolder, describeListener, writeAnnouncement } from "../../src/server/announcement.ts";
import { connectAgent } from "../mcp/agent.ts";
import { tinyMp4 } from "../mp4.ts";
import { type Call, refusedConnection } from "../server/engines/videos/fakes/fake.ts";
import { createOpenRouter, type OpenRouterOptions } from "../server/engines/videos/fakes/openrouter.ts";
import { createVllmOmni } from "../server/engines/videos/fakes/vllm-omni.ts";
import { aPng } from "../server/queue/pictures.ts";
import { apiKey, baseUrl, createWorld } from "../vidgen.ts";

// A command that carries the local service makes real videos, in process and on the virtual clock.

const key = "sk-or-canary-0123456789";

async function createScene(options: OpenRouterOptions = {}) {
  const world = await createWorld();
  const fake = createOpenRouter({ now: world.io.now, completeAfterMs: 30_000, key, ...options });
  delete world.env.VIDGEN_BASE_URL;
  delete world.env.VIDGEN_API_KEY;
  world.env.OPENROUTER_API_KEY = key;
  world.faults.push((request) => {
    const { hostname } = new URL(request.url);
    if (hostname === "openrouter.ai") return fake.fetch(new Request(request.url.replace("/api/v1/", "/v1/"), request));
    // A service of another process on this machine.
    return hostname === "127.0.0.1" ? fetch(request) : undefined;
  });
  const generate = (...flags: string[]) =>
    world.vidgen("generate", "a red fox", "-m", "veo-3.1", "-o", join(world.folder, "fox.mp4"), ...flags);
  const saved = () => new Uint8Array(readFileSync(join(world.folder, "fox.mp4")));
  return { world, fake, generate, saved };
}

test("generate --engine openrouter saves what the provider made, asked for once, and shows no key", async () => {
  const { fake, generate, saved, world } = await createScene();
  const { code, stderr, stdout } = await generate("--engine", "openrouter", "--verbose");
  expect([code, stderr]).toEqual([0, expect.stringMatching(/Queued \S+ \(veo-3\.1, by openrouter\)/)]);
  expect(saved()).toEqual(tinyMp4("a red fox"));
  expect(fake.creates).toMatchObject([{ fields: { model: "google/veo-3.1", prompt: "a red fox" } }]);
  expect(fake.creates[0]?.fields).not.toHaveProperty("duration");
  expect(stdout + stderr).not.toContain("canary");
  const elsewhere = world.requests.filter(({ url }) => !url.startsWith("https://openrouter.ai/"));
  expect(elsewhere.filter(({ headers }) => headers.get("Authorization")?.includes(key))).toEqual([]);
});

test("a dry run with a model that no engine makes says that the start would be refused, not that it is free", async () => {
  const { world } = await createScene();
  const line = ["generate", "an owl", "-m", "sora-2", "--engine", "openrouter"];
  expect((await world.vidgen(...line, "--dry-run")).stdout).toMatch(
    /^Cost: nothing\. No engine makes sora-2: the start /,
  );
  expect(await world.vidgen(...line)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("model must be one of"),
  });
});

test.each(["VIDGEN_ENGINE", "saved"])("set once by %s, no flag is needed", async (place) => {
  const { fake, generate, world } = await createScene();
  if (place === "saved") {
    const { mkdir, writeFile } = await import("node:fs/promises");
    await mkdir(world.home, { recursive: true });
    await writeFile(join(world.home, "config.json"), JSON.stringify({ engine: "openrouter" }));
  } else world.env.VIDGEN_ENGINE = "openrouter";
  expect(await generate()).toMatchObject({ code: 0 });
  expect(fake.creates).toHaveLength(1);
  // What was typed counts more than what is set, and previews cost nothing.
  expect(await world.vidgen("generate", "an owl", "--local", "--dry-run")).toMatchObject({ code: 0 });
});

test("status and wait find the generation that another command has started", async () => {
  const { fake, saved, world } = await createScene();
  const started = await world.vidgen("generate", "a red fox", "-m", "veo-3.1", "--engine", "openrouter", "--no-wait");
  const id = started.stdout.trim();
  const status = await world.vidgen("status", id, "--engine", "openrouter");
  expect(status).toMatchObject({ code: 0, stdout: `${id}\tprocessing\n` });
  const file = join(world.folder, "fox.mp4");
  expect(await world.vidgen("wait", id, "--engine", "openrouter", "-o", file)).toMatchObject({ code: 0 });
  expect([saved(), fake.creates.length]).toEqual([tinyMp4("a red fox"), 1]);
});

test("the cost of a video is printed, recorded, and shown by every command that shows costs", async () => {
  const { generate, world } = await createScene();
  expect(await generate("--engine", "openrouter", "--write-info-json")).toMatchObject({
    stderr: expect.stringMatching(/^Saved \S+ \(1 kB\) in \d+ s for \$0\.40$/m),
  });
  const info = JSON.parse(readFileSync(join(world.folder, "fox.mp4.json"), "utf8"));
  expect(info).toMatchObject({ cost: 0.4, credits: 0 });
  const { id } = info;
  expect((await world.vidgen("list")).stdout.split("\t")[4]).toBe("$0.40");
  const asked = await world.vidgen("generate", "an owl", "-m", "veo-3.1", "--engine", "openrouter", "--dry-run");
  expect(asked.stdout).toMatch(/^Cost: about \$0\.40\.\n/);
  const again = await generate("--engine", "openrouter", "--reuse", "--json");
  expect(JSON.parse(again.stdout)).toMatchObject({ charged: "yes" });
  expect((await world.vidgen("models")).stdout).toMatch(/^veo-3\.1 +\$0\.40 /m);
  const status = await world.vidgen("status", id, "--engine", "openrouter", "--json");
  expect(JSON.parse(status.stdout)).toMatchObject({ cost: 0.4 });
});

test("--max-cost bounds what a batch costs over all its runs, also before the first price is known", async () => {
  const { fake, world } = await createScene();
  const rows = join(world.folder, "shots.txt");
  await writeFile(rows, "one\ntwo\nthree\nfour\nfive\n");
  const batch = ["batch", rows, "-m", "veo-3.1", "--engine", "openrouter", "--yes", "--jobs", "5"];
  const bounded = [...batch, "-o", join(world.folder, "{n}.mp4"), "--max-cost"];
  const first = await world.vidgen(...bounded, "1");
  const stderr = expect.stringMatching(
    /Up to \$0\.80 of at most \$1\.00 are spent, and the next one costs up to \$0\.40: nothing more/,
  );
  expect(first).toMatchObject({ code: 7, stderr });
  expect(fake.creates).toHaveLength(2);
  expect(await world.vidgen(...bounded, "1")).toMatchObject({ code: 7 });
  expect(fake.creates).toHaveLength(2);
  expect(await world.vidgen(...bounded, "$2", "--json")).toMatchObject({ code: 0 });
  expect(fake.creates).toHaveLength(5);
  expect(await world.vidgen(...bounded, "free")).toMatchObject({ code: 2 });
});

/** A scene in which the provider lists these prices of veo-3.1, and states this cost of each video. */
async function createPriced(prices: unknown, cost = 0.4) {
  const listed = [{ id: "google/veo-3.1", pricing_skus: prices, supported_durations: [4, 6, 8] }];
  const scene = await createScene({
    async fault({ request, route, serve }) {
      if (request.url.endsWith("/videos/models")) return Response.json({ data: listed });
      if (route !== "poll") return undefined;
      const body = (await (await serve()).json()) as { usage?: object };
      return Response.json(body.usage ? { ...body, usage: { cost } } : body);
    },
  });
  const engine = ["--engine", "openrouter"];
  const cost8 = async (...flags: string[]) => {
    const line = ["generate", "an owl", "-m", "veo-3.1", "-d", "8", ...engine, "--dry-run"];
    return (await scene.world.vidgen(...line, ...flags)).stdout.split("\n")[0];
  };
  return { ...scene, engine, cost8 };
}

const bySecond = { "per-video-second": "0.40" };

describe("what the provider lists now", () => {
  test("refuses a first video above --max-cost, before anything is sent, and is the price in a dry run", async () => {
    const { fake, generate, world, engine, cost8 } = await createPriced(bySecond, 3.2);
    const limit = (maxCost: string) => generate("-d", "8", ...engine, "--max-cost", maxCost);
    const run = await limit("0.1");
    expect(run).toMatchObject({ code: 7, stdout: "", stderr: expect.stringContaining("$3.20 by OpenRouter's list") });
    expect(fake.creates).toEqual([]);
    // Without a key, too.
    delete world.env.OPENROUTER_API_KEY;
    expect(await cost8()).toBe("Cost: about $3.20 by OpenRouter's list.");
    expect(await cost8("-n", "3", "-o", world.folder)).toBe("Cost: about $9.60 by OpenRouter's list.");
    expect((await world.vidgen("models", "veo-3.1", ...engine)).stdout).toContain("8 s: about $3.20");
    const dry = await world.vidgen(
      "generate",
      "a fox",
      "-m",
      "veo-3.1",
      "-d",
      "8",
      ...engine,
      "--dry-run",
      "--max-cost",
      "3",
    );
    expect(dry.stdout).toMatch(/Would send nothing, and end with exit code 7: .*\$3\.20 by OpenRouter's list/);
    world.env.OPENROUTER_API_KEY = key;
    expect(await limit("3.20")).toMatchObject({ code: 0 });
    expect(fake.creates).toHaveLength(1);
  });

  test.each<[string, unknown, string[]]>([
    ["null", { "per-video-second": null }, []],
    ["0", { "per-video-second": "0" }, []],
    ["a negative price", { "per-video-second": -0.4 }, []],
    ["no list", undefined, []],
    ["a price by token", { video_tokens: "0.000007" }, []],
    ["a missing length", bySecond, ["-d", ""]],
    ["a passed field", bySecond, ["--set", "multi_prompt=a"]],
    ["a reference video", bySecond, ["--reference", "https://example.com/fox.mp4"]],
  ])("is unknown with %s: the start with a limit is refused, and several run one by one", async (_, prices, flags) => {
    const { fake, world, engine } = await createPriced(prices);
    const length = flags[0] === "-d" ? [] : ["-d", "8", ...flags];
    const fox = ["generate", "a fox", "-m", "veo-3.1", ...length, ...engine];
    const dry = await world.vidgen(...fox, "--dry-run", "--max-cost", "100");
    expect(dry.stdout).toMatch(
      /^Cost: unknown.*\n\nWould send nothing, and end with exit code 7: The price of veo-3.1/,
    );
    expect(await world.vidgen(...fox, "--max-cost", "100")).toMatchObject({ code: 7 });
    expect(fake.creates).toEqual([]);
  });

  test("refuses the first rows of a batch and the first takes that cost more, and is the sum of a plan", async () => {
    const { fake, world, engine } = await createPriced(bySecond, 3.2);
    const rows = join(world.folder, "shots.csv");
    await writeFile(rows, "prompt,duration\none,8\ntwo,4\nthree,\n");
    const batch = ["batch", rows, "-m", "veo-3.1", ...engine, "-o", join(world.folder, "{n}.mp4")];
    const plan = await world.vidgen(...batch, "--dry-run");
    expect(plan.stdout.split("\n").slice(1)).toEqual([
      "  veo-3.1: 3 to start, cost of 1 row unknown",
      "Cost: about $4.80 by OpenRouter's list plus veo-3.1, whose price is unknown (1 row).",
      "",
    ]);
    const { models, ...sums } = JSON.parse((await world.vidgen(...batch, "--dry-run", "--json")).stdout);
    expect([sums, models]).toMatchObject([{ cost: null, unpriced: 1 }, [{ to_start: 3, cost: null, unpriced: 1 }]]);
    const run = await world.vidgen(...batch, "--yes", "--max-cost", "3");
    expect(run).toMatchObject({
      code: 7,
      stderr: expect.stringContaining("about $3.20 by OpenRouter's list: nothing more"),
    });
    const takes = ["generate", "a fox", "-m", "veo-3.1", "-d", "8", "-n", "2", ...engine, "--max-cost", "3"];
    expect(await world.vidgen(...takes)).toMatchObject({ code: 7, stderr: expect.stringContaining("2 of 2 were not") });
    const agent = await connectAgent(world, ...engine, "--max-cost", "3");
    const call = await agent.call("generate_video", { prompt: "a fox", model: "veo-3.1", duration: 8 });
    expect(call.value).toMatchObject({
      code: "credits",
      message: expect.stringContaining("$3.20 by OpenRouter's list"),
    });
    const { models: listed } = (await agent.call("list_models", { duration: 8 })).value as { models: object[] };
    expect(listed).toContainEqual(expect.objectContaining({ id: "veo-3.1", cost: 3.2, cost_source: "OpenRouter" }));
    await agent.leave();
    expect(fake.creates).toEqual([]);
  });

  test("starts no more than fit, all at once, and a real cost above it counts for the rest of the run", async () => {
    for (const { cost, started } of [
      { cost: 1.6, started: 3 },
      { cost: 3, started: 2 },
    ]) {
      const { fake, world, engine } = await createPriced(bySecond, cost);
      const rows = join(world.folder, "shots.txt");
      await writeFile(rows, "one\ntwo\nthree\nfour\n");
      const batch = [
        "batch",
        rows,
        "-m",
        "veo-3.1",
        "-d",
        "4",
        ...engine,
        "--yes",
        "--jobs",
        "1",
        "-o",
        `${world.folder}/`,
      ];
      expect(await world.vidgen(...batch, "--max-cost", "6")).toMatchObject({ code: 7 });
      expect(fake.creates).toHaveLength(started);
    }
    const { fake, world, engine } = await createPriced(bySecond, 1.6);
    world.stdin = "one\ntwo\nthree\n";
    const place = ["--results", join(world.folder, "r.jsonl"), "--input-format", "txt"];
    const flags = [
      "-m",
      "veo-3.1",
      "-d",
      "4",
      ...engine,
      "--yes",
      "--jobs",
      "3",
      "--max-cost",
      "5",
      "-o",
      `${world.folder}/`,
    ];
    expect(await world.vidgen("batch", "-", ...flags, ...place)).toMatchObject({ code: 0 });
    const createdAt = [...fake.jobs.values()].map(({ createdAtMs }) => createdAtMs);
    expect(Math.max(...createdAt) - Math.min(...createdAt), "none waits for the end of another").toBeLessThan(30_000);
  });
});

test("a cost from earlier commands is known for a day, and then only refuses what it puts over the limit", async () => {
  const { fake, world, engine, cost8 } = await createPriced(undefined);
  const fox = (take: string, ...flags: string[]) =>
    world.vidgen("generate", `a fox, ${take}`, "-m", "veo-3.1", "-d", "8", ...engine, ...flags);
  const saved = ["-o", `${world.folder}/`];
  expect(await fox("one", ...saved)).toMatchObject({ code: 0 });
  expect(await cost8()).toBe("Cost: about $0.40.");
  await world.io.sleep(24 * 3600_000);
  expect(await cost8()).toMatch(/^Cost: unknown/);
  const refused = await fox("two", "--max-cost", "0.39");
  expect(refused).toMatchObject({ code: 7, stderr: expect.stringContaining("costs up to $0.40: nothing more") });
  expect(fake.creates).toHaveLength(1);
  const several = await fox("three", "-n", "3", "--no-wait", "--max-cost", "5");
  expect(several).toMatchObject({ code: 7, stderr: expect.stringContaining("2 of 3 were not started") });
  expect(await fox("four", ...saved, "--max-cost", "0.41")).toMatchObject({ code: 0 });
  expect(fake.creates).toHaveLength(3);
});

test("without credits at the provider the exit code is 7, nothing is charged, and the same batch resumes later", async () => {
  let hasCredits = false;
  let refused = 0;
  const noCredits = { error: { code: 402, message: "Insufficient credits" } };
  const { fake, generate, world } = await createScene({
    fault({ route }) {
      if (route !== "create" || hasCredits) return undefined;
      refused++;
      return Response.json(noCredits, { status: 402 });
    },
  });
  const { code, stderr } = await generate("--engine", "openrouter");
  expect([code, stderr]).toEqual([7, expect.stringContaining("has no credits left for this video: HTTP 402")]);
  expect((await world.vidgen("list")).stdout).toContain("failed");
  const rows = join(world.folder, "shots.txt");
  await writeFile(rows, "one\ntwo\nthree\n");
  const batch = ["batch", rows, "-m", "veo-3.1", "--engine", "openrouter", "--yes", "--jobs", "1"];
  const shots = () => world.vidgen(...batch, "-o", join(world.folder, "{n}.mp4"));
  expect(await shots()).toMatchObject({ code: 7 });
  expect(refused).toBe(2);
  hasCredits = true;
  expect(await shots()).toMatchObject({ code: 0 });
  expect(fake.creates).toHaveLength(3);
});

describe("--dry-run and the start choose by what the service says", () => {
  /** A `serve` of another process, whose engine makes the videos of wan-2.5. */
  async function announceServe({ world }: Awaited<ReturnType<typeof createScene>>) {
    const folder = join(world.home, "service");
    const urls = { base_url: "http://127.0.0.1:4321", media_url: "http://127.0.0.1:4322" };
    const engines = [{ name: "openrouter", models: ["wan-2.5"] }];
    const local = { ...urls, ...(await describeListener(world.io.processes)) };
    await writeAnnouncement(folder, { api_key: apiKey, ...urls, local, has_real_models: true, engines });
    await acquireFolder(folder, world.io);
    world.faults.unshift(async (request) => {
      if (!request.url.startsWith(urls.base_url)) return undefined;
      const { method, headers } = request;
      const body = method === "POST" ? await request.text() : undefined;
      return world.io.fetch(request.url.replace(urls.base_url, baseUrl), {
        method,
        headers: Object.fromEntries(headers),
        ...(body !== undefined && { body }),
      }) as Promise<Response>;
    });
  }

  /** A run that was killed once its generation was accepted. */
  async function leave({ world }: Awaited<ReturnType<typeof createScene>>, ...argv: string[]) {
    expect(await world.vidgen(...argv)).toMatchObject({ code: 0 });
    const journal = join(world.home, "journal.jsonl");
    const lines = readFileSync(journal, "utf8").split("\n");
    writeFileSync(journal, lines.filter((line) => !line.includes('"kind":"told"')).join("\n"));
  }

  test("a preview that was left is not what a running serve with a real engine makes", async () => {
    const scene = await createScene();
    const { world } = scene;
    const line = ["generate", "a red fox", "--local", "--no-wait"];
    await leave(scene, ...line, "--engine", "preview");
    await announceServe(scene);
    const dry = await world.vidgen(...line, "--dry-run");
    expect(dry).toMatchObject({ code: 0, stdout: expect.stringContaining("POST {local service}") });
    const run = await world.vidgen(...line);
    expect(run).toMatchObject({ code: 0, stderr: expect.stringMatching(/^Queued \S+ \(wan-2\.5, by openrouter\)/m) });
  });

  test("among several engines, each model's own one counts", async () => {
    const scene = await createScene();
    const { world } = scene;
    const line = ["generate", "a red fox", "--local", "--no-wait"];
    await leave(scene, ...line);
    const both = ["--engine", "veo-3.1=openrouter", "--engine", "preview"];
    expect((await world.vidgen(...line, ...both, "--dry-run")).stdout).toContain("Would resume");
    expect(await world.vidgen(...line, ...both)).toMatchObject({
      code: 0,
      stderr: expect.stringContaining("Resuming"),
    });
  });

  test("an engine that is not the one of the running service is refused by both", async () => {
    const scene = await createScene();
    const { world } = scene;
    await announceServe(scene);
    const line = ["generate", "a red fox", "--engine", "preview"];
    const refused = { code: 2, stderr: expect.stringContaining("already running") };
    expect(await world.vidgen(...line)).toMatchObject(refused);
    expect(await world.vidgen(...line, "--dry-run")).toMatchObject(refused);
  });
});

describe("when it is unclear whether the provider makes a video", () => {
  /** A provider that answers each create so as long as there is such an answer. */
  async function createUnclear(reply: (call: Call) => ReturnType<NonNullable<OpenRouterOptions["fault"]>>) {
    const broken = { reply: reply as typeof reply | undefined };
    let sent = 0;
    const scene = await createScene({
      fault(call) {
        if (call.route !== "create") return undefined;
        sent++;
        return broken.reply?.(call);
      },
    });
    return { ...scene, generate: () => scene.generate("--engine", "openrouter"), broken, sent: () => sent };
  }

  const json = { "Content-Type": "application/json" };
  const replies: [string, Parameters<typeof createUnclear>[0]][] = [
    ["a reset", () => "drop"],
    ["500", () => Response.json({ error: { code: 500, message: "Internal error" } }, { status: 500 })],
    ["302", () => new Response(null, { status: 302, headers: { Location: "/login" } })],
    ["cut JSON", () => new Response('{"id":"gen-1","status":"pen', { headers: json })],
    ["200 without a job", () => Response.json({ status: "ok" })],
    [
      "503 and a page",
      () => new Response("<html>503</html>", { status: 503, headers: { "Content-Type": "text/html" } }),
    ],
  ];

  test.each(replies)("%s: exit 6 each time, and one create, whatever is typed", async (_, reply) => {
    const { world, generate, sent } = await createUnclear(reply);
    const first = await generate();
    expect(first).toMatchObject({ code: 6, stdout: "" });
    expect(first.stderr).toMatch(/may have been charged: it is unclear whether https:\S+ generates this video \(.+\)/);
    expect(first.stderr).not.toMatch(/Try another|Resume with/);
    const [, id = ""] = first.stderr.match(/Queued (\S+)/) ?? [];
    const [, attempt = ""] = first.stderr.match(/vidgen list --dismiss (\S+?)`/) ?? [];
    for (const flags of [[], ["--reuse"]]) {
      const again = await world.vidgen(
        ...["generate", "a red fox", "-m", "veo-3.1", "-o", join(world.folder, "fox.mp4")],
        ...["--engine", "openrouter", ...flags],
      );
      expect(again).toMatchObject({ code: 6, stdout: "" });
      for (const named of [id, attempt, "api generates this video (", "Nothing was sent now"])
        expect(again.stderr).toContain(named);
    }
    expect(await world.vidgen("wait", id, "--engine", "openrouter")).toMatchObject({ code: 6 });
    expect(await world.vidgen("wait", id, "last", "--engine", "openrouter")).toMatchObject({ code: 6 });
    const status = await world.vidgen("status", id, "--engine", "openrouter", "--exit-status", "--json");
    expect(status).toMatchObject({ code: 6 });
    expect(JSON.parse(status.stdout)).toMatchObject({ status: "failed", error_code: "unclear" });
    expect(await world.vidgen("wait", "--all", "--engine", "openrouter")).toMatchObject({ code: 0 });
    expect(sent()).toBe(1);
  });

  test("the attempt is unknown in the list; once it is dismissed, or with --again, another one is started", async () => {
    const { world, generate, broken, sent, saved } = await createUnclear(() => "drop");
    await generate();
    const [attempt] = JSON.parse((await world.vidgen("list", "--status", "unknown", "--json")).stdout);
    expect(attempt).toMatchObject({ status: "unknown", id: expect.any(String) });
    expect(await world.vidgen("list", "--dismiss", attempt.attempt)).toMatchObject({ code: 0 });
    expect(await generate()).toMatchObject({ code: 6 });
    expect(sent()).toBe(2);
    broken.reply = undefined;
    const again = [join(world.folder, "fox.mp4"), "--engine", "openrouter", "--again"];
    expect(await world.vidgen("generate", "a red fox", "-m", "veo-3.1", "-o", ...again)).toMatchObject({ code: 0 });
    expect([sent(), saved()]).toEqual([3, tinyMp4("a red fox")]);
    expect((await world.vidgen("list", "--status", "unknown")).stdout).toBe("");
  });

  test("--events and --json say unknown", async () => {
    const { world } = await createUnclear(() => "drop");
    const { stdout } = await world.vidgen(
      "generate",
      "a red fox",
      "-m",
      "veo-3.1",
      "--engine",
      "openrouter",
      "--events",
    );
    const events = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(events.find(({ event }) => event === "ended")).toMatchObject({
      status: "unknown",
      error: { code: "unknown" },
    });
    expect(events.at(-1)).toMatchObject({ event: "summary", exit_code: 6, unknown: 1, failed: 0 });
  });

  test("a row of a batch is unknown: only --retry-unknown sends it again, and three in a row stop the batch", async () => {
    const { world, broken, sent } = await createUnclear(() => "drop");
    const rows = join(world.folder, "shots.txt");
    await writeFile(rows, "one\ntwo\nthree\nfour\nfive\n");
    const line = ["batch", rows, "-m", "veo-3.1", "--engine", "openrouter", "--yes", "--jobs", "1"];
    const batch = (...flags: string[]) => world.vidgen(...line, "-o", join(world.folder, "{n}.mp4"), ...flags);
    const first = await batch();
    expect(first).toMatchObject({ code: 6, stderr: expect.stringContaining("3 may have been charged") });
    expect(first.stderr).toContain("--retry-unknown");
    expect(sent()).toBe(3);
    broken.reply = undefined;
    expect(await batch("--retry-failed")).toMatchObject({ code: 6 });
    expect(sent()).toBe(5);
    expect(await batch()).toMatchObject({ code: 6 });
    expect(sent()).toBe(5);
    expect(await batch("--retry-unknown")).toMatchObject({ code: 0 });
    expect(sent()).toBe(8);
  });

  test("an agent gets this as an error, and the same call starts nothing", async () => {
    const { world, sent } = await createUnclear(() => "drop");
    const agent = await connectAgent(world, "--engine", "openrouter");
    const fox = { prompt: "a red fox", model: "veo-3.1" };
    const { id } = (await agent.call("generate_video", fox)).value as { id: string };
    const told = await agent.call("get_video", { id, wait_seconds: 50 });
    expect(told.value).toMatchObject({
      status: "unknown",
      error: expect.stringContaining("it is unclear whether https://openrouter.ai/api generates this video"),
      note: expect.stringMatching(/may have been charged.*again: true/),
    });
    expect(await agent.call("save_video", { id })).toMatchObject({ isError: true });
    expect((await agent.call("generate_video", fox)).text).toContain(id);
    expect(sent()).toBe(1);
  });
});

describe("when the provider cannot be used", () => {
  async function createAway(reply: () => Response) {
    const away = { is: true };
    const scene = await createScene({ fault: ({ route }) => (away.is && route !== "other" ? reply() : undefined) });
    const { world } = scene;
    const line = ["-m", "veo-3.1", "--engine", "openrouter"];
    const generate = async (...flags: string[]) => {
      const start = world.io.now();
      const run = await scene.generate("--engine", "openrouter", ...flags);
      return { ...run, seconds: (world.io.now() - start) / 1_000 };
    };
    return { ...scene, generate, line, away };
  }
  const refuse = () => {
    throw refusedConnection();
  };
  const unauthorized = () => Response.json({ error: { code: 401, message: "User not found." } }, { status: 401 });
  const address = "https://openrouter.ai/api";

  test("without a connection it names what it waits for, exits with 8 within a minute, and the same line starts a new generation", async () => {
    const { world, generate, away, saved, fake } = await createAway(refuse);
    const first = await generate();
    expect(first).toMatchObject({ code: 8, stdout: "" });
    expect(first.seconds).toBeGreaterThan(50);
    expect(first.seconds).toBeLessThanOrEqual(60);
    expect(first.stderr).toContain(`Waiting for ${address}: it refuses connections. Nothing was submitted to it yet.`);
    expect(first.stderr).toContain(
      `The generation failed: ${address} cannot be used: it refuses connections; nothing was submitted. Nothing was charged.`,
    );
    expect(first.stderr).toContain("run the same command: it starts a new generation");
    expect(first.stderr).not.toMatch(/another prompt|Resume with/i);
    const [, id = ""] = first.stderr.match(/Queued (\S+)/) ?? [];
    for (const ids of [[id], [id, "last"]])
      expect(await world.vidgen("wait", ...ids, "--engine", "openrouter")).toMatchObject({ code: 8 });
    const status = await world.vidgen("status", id, "--engine", "openrouter", "--exit-status", "--json");
    expect(status).toMatchObject({ code: 8 });
    expect(JSON.parse(status.stdout)).toMatchObject({ status: "failed", error_code: "not_submitted" });
    expect((await world.vidgen("list")).stdout.split("\t").slice(1, 5)).toEqual([
      "not submitted",
      "veo-3.1",
      expect.anything(),
      "-",
    ]);
    expect(JSON.parse((await world.vidgen("list", "--json")).stdout)).toMatchObject([{ status: "failed", cost: 0 }]);
    away.is = false;
    expect(await generate()).toMatchObject({ code: 0 });
    expect([saved(), fake.creates.length]).toEqual([tinyMp4("a red fox"), 1]);
  });

  test("a key that it refuses is exit 3 at once", async () => {
    const { generate, away } = await createAway(unauthorized);
    const first = await generate();
    expect(first).toMatchObject({ code: 3, stdout: "" });
    expect(first.seconds).toBeLessThan(3);
    expect(first.stderr).toContain(
      `${address} cannot be used: HTTP 401: User not found.; nothing was submitted. Nothing was charged.`,
    );
    expect(first.stderr).toContain("vidgen doctor");
    expect(first.stderr).not.toContain("vidgen login");
    away.is = false;
    expect(await generate()).toMatchObject({ code: 0 });
  });

  test.each<[string, () => Response, string]>([
    [
      "429",
      () => Response.json({ error: { message: "slow down" } }, { status: 429 }),
      `${address}: HTTP 429: slow down`,
    ],
    [
      "429 with a Retry-After",
      () => new Response("full", { status: 429, headers: { "Retry-After": "900" } }),
      `${address}: HTTP 429: full`,
    ],
  ])("%s until --timeout is over is exit 5, and says that nothing was submitted", async (_, reply, reason) => {
    const { generate, world, fake } = await createAway(reply);
    const { code, stderr } = await generate("--timeout", "2m");
    expect([code, stderr]).toEqual([
      5,
      expect.stringContaining(`Timed out after 2 min; not submitted yet: ${reason}; nothing was charged so far.`),
    ]);
    const [, id = ""] = stderr.match(/Queued (\S+)/) ?? [];
    const status = await world.vidgen("status", id, "--engine", "openrouter", "--exit-status");
    expect(status).toMatchObject({ code: 5, stderr: expect.stringContaining("Not submitted yet: ") });
    expect(fake.jobs.size).toBe(0);
  });

  test("--events and --json say that it failed, and why", async () => {
    const { generate } = await createAway(refuse);
    const { stdout } = await generate("--events");
    const events = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    const ended = events.find(({ event }) => event === "ended");
    expect(ended).toMatchObject({ status: "failed", error: { code: "network" } });
    expect(events.at(-1)).toMatchObject({ event: "summary", exit_code: 8, failed: 1, running: 0 });
  });

  test.each([
    ["no connection", refuse, 8, 3],
    ["a key that it refuses", unauthorized, 3, 1],
  ])("%s stops a batch soon, and the next run starts its rows", async (_, reply, code, tried) => {
    const { world, line, away, fake } = await createAway(reply);
    const rows = join(world.folder, "shots.txt");
    await writeFile(rows, "one\ntwo\nthree\nfour\nfive\n");
    const batch = () =>
      world.vidgen("batch", rows, ...line, "--yes", "--jobs", "1", "-o", join(world.folder, "{n}.mp4"));
    expect(await batch()).toMatchObject({ code });
    expect((await world.vidgen("list", "--json", "--status", "failed")).stdout.match(/"attempt"/g)).toHaveLength(tried);
    // The journal alone tells as much as the file with the results.
    await rm(`${rows}.results.jsonl`, { force: true });
    away.is = false;
    expect(await batch()).toMatchObject({ code: 0 });
    expect(fake.creates.map(({ fields }) => fields.prompt)).toEqual(["one", "two", "three", "four", "five"]);
  });

  test("an agent reads that nothing was submitted, and the same call starts a new generation", async () => {
    const { world, away, fake } = await createAway(refuse);
    const agent = await connectAgent(world, "--engine", "openrouter");
    const fox = { prompt: "a red fox", model: "veo-3.1" };
    const { id } = (await agent.call("generate_video", fox)).value as { id: string };
    let told = await agent.call("get_video", { id, wait_seconds: 50 });
    if (told.value.status === "processing") told = await agent.call("get_video", { id, wait_seconds: 50 });
    expect(told.value).toMatchObject({
      status: "failed",
      error: `${address} cannot be used: it refuses connections; nothing was submitted`,
      note: expect.stringMatching(/nothing was charged.*to start it again/),
    });
    const saving = await agent.call("save_video", { id });
    expect(saving).toMatchObject({ isError: true, text: expect.stringMatching(/"network".*to start it again/) });
    away.is = false;
    const { value } = await agent.call("generate_video", fox);
    expect([value.id === id, await agent.leave(), fake.creates.length <= 1]).toEqual([false, 0, true]);
  });
});

describe("a video that the provider has made", () => {
  const address = "https://openrouter.ai/api/v1/videos/vgen-00000000000000000000000000000001/content";

  test.each<[string, () => Response | "drop", string]>([
    ["503", () => new Response("", { status: 503 }), "HTTP 503"],
    ["404", () => new Response("", { status: 404 }), "HTTP 404"],
    ["a reset", () => "drop", "ECONNRESET"],
    ["a page", () => new Response("<html>Sign in</html>"), "it is text"],
  ])(
    "and that cannot be fetched (%s) still runs, the last message says why, and wait fetches it later",
    async (_, reply, why) => {
      let isAway = true;
      const { generate, world, saved, fake } = await createScene({
        fault: ({ route }) => (isAway && route === "content" ? reply() : undefined),
      });
      const first = await generate("--engine", "openrouter", "--timeout", "10m");
      expect(first).toMatchObject({ code: 5, stderr: expect.stringContaining("Resume with: vidgen wait") });
      const state = `completed at its engine; its video cannot be fetched: ${why}`;
      expect(first.stderr).toContain(`Timed out after 10 min; ${state}`);
      expect(first.stderr).not.toContain("still generating");
      expect(first.stderr).toMatch(
        new RegExp(`api generated a video that cannot be downloaded yet from ${address}: .+\\. Retrying\\.`),
      );
      isAway = false;
      const again = await world.vidgen("wait", "last", "--engine", "openrouter", "-o", join(world.folder, "fox.mp4"));
      expect(again).toMatchObject({ code: 0 });
      expect([saved(), fake.creates.length]).toEqual([tinyMp4("a red fox"), 1]);
    },
  );

  test("and whose file is no .mp4, a minute later too, has failed, and was charged, and the hint is about the file", async () => {
    const { generate, world } = await createScene({
      fault: ({ route }) => (route === "content" ? new Response(new Uint8Array(100)) : undefined),
    });
    const { code, stderr } = await generate("--engine", "openrouter");
    expect([code, stderr]).toEqual([
      4,
      expect.stringContaining(`could not be downloaded from ${address}: it is not an .mp4`),
    ]);
    expect(stderr).toContain("The prompt is not the cause");
    expect(stderr).not.toContain("another prompt");
    const status = await world.vidgen("status", "last", "--engine", "openrouter", "--json");
    expect(JSON.parse(status.stdout)).toMatchObject({ status: "failed", error_code: "not_fetched", cost: 0.4 });
    // It was charged: that counts for --max-cost, and is shown.
    expect((await world.vidgen("list")).stdout.split("\t")[4]).toBe("$0.40");
  });
});

test("what the provider's list has against a request is told before it is paid", async () => {
  const { fake, generate, world } = await createScene();
  const refused = await generate("--engine", "openrouter", "--duration", "5");
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("veo-3.1: google/veo-3.1 takes duration 4, 6 or 8 s, not 5 s"),
  });
  const wide = await generate("--engine", "openrouter", "--aspect-ratio", "21:9");
  expect(wide).toMatchObject({ code: 1, stderr: expect.stringContaining("takes aspectRatio 16:9 or 9:16, not 21:9") });
  const fox = join(world.folder, "fox.png");
  await writeFile(fox, readFileSync(new URL("../../.github/page.png", import.meta.url)));
  const image = ["generate", "a fox", "-m", "wan-2.5", "-i", fox, "--engine", "openrouter"];
  expect(await world.vidgen(...image)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("wan-2.5: alibaba/wan-2.6 takes no image"),
  });
  expect(fake.creates).toEqual([]);
  expect(await generate("--engine", "openrouter", "--duration", "6")).toMatchObject({ code: 0 });
  const lists = world.requests.filter(({ url }) => url.endsWith("/videos/models"));
  expect(lists.map(({ headers }) => headers.get("Authorization"))).toEqual([null, null, null, null]);
});

describe("a last image and references", () => {
  const image = (pixels: number) => `data:image/png;base64,${Buffer.from(aPng(pixels, pixels)).toString("base64")}`;
  const part = (pixels: number) => ({ type: "image_url", image_url: { url: image(pixels) } });
  const [first, last] = [
    { ...part(1), frame_type: "first_frame" },
    { ...part(2), frame_type: "last_frame" },
  ];

  async function createStudio() {
    const scene = await createScene();
    const { world } = scene;
    const [one, two] = [1, 2].map((pixels) => {
      const file = join(world.folder, `${pixels}.png`);
      writeFileSync(file, aPng(pixels, pixels));
      return file;
    }) as [string, string];
    const given = () =>
      scene.fake.creates.map(({ fields: { frame_images, input_references } }) => frame_images ?? input_references);
    return { ...scene, one, two, given };
  }

  test("reach OpenRouter as files, and again carries what it has", async () => {
    const { world, fake, generate, one, two, given } = await createStudio();
    const engine = ["--engine", "openrouter", "--overwrite"];
    expect(await generate("-i", one, "--last-image", two, ...engine)).toMatchObject({ code: 0 });
    expect(await generate("--reference", one, "--reference", two, ...engine)).toMatchObject({ code: 0 });
    const lost = await world.vidgen("again", "last", "an owl", "-o", world.folder);
    expect(lost).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/only a hash of referenceUrls .*--reference/s),
    });
    const again = await world.vidgen("again", "last", "an owl", "--reference", two, "-o", world.folder);
    expect(again).toMatchObject({ code: 0 });
    expect(given()).toEqual([[first, last], [part(1), part(2)], [part(2)]]);
    expect(fake.creates.at(-1)?.fields).toMatchObject({ prompt: "an owl" });
  });

  test("of a batch are columns, and of an agent arguments", async () => {
    const { world, one, two, given } = await createStudio();
    world.env.VIDGEN_ENGINE = "openrouter";
    const file = join(world.folder, "shots.jsonl");
    const rows = [{ imageUrl: one, lastImageUrl: two }, { referenceUrls: [one, two] }, { reference_urls: two }];
    await writeFile(file, rows.map((row) => JSON.stringify({ prompt: "a fox", model: "veo-3.1", ...row })).join("\n"));
    const run = await world.vidgen("batch", file, "-o", join(world.folder, "{n}.mp4"), "--jobs", "1");
    expect(run).toMatchObject({ code: 0 });
    const agent = await connectAgent(world);
    const arguments_ = { prompt: "an owl", model: "veo-3.1", images: ["1.png"], lastImage: "2.png" };
    await agent.call("generate_video", arguments_);
    await agent.call("generate_video", { prompt: "an owl", model: "veo-3.1", references: ["2.png"] });
    await agent.leave();
    expect(given()).toEqual([[first, last], [part(1), part(2)], [part(2)], [first, last], [part(2)]]);
  });

  test("that would be ignored are refused before anything is paid", async () => {
    const { world, fake, generate, one, two } = await createStudio();
    const refusals: [string[], string][] = [
      [["-i", one, "--reference", two, "--local"], "models ignore references beside an image"],
      [["-i", one, "--reference", two, "--engine", "openrouter"], "models ignore references beside an image"],
      [["--last-image", one, "--reference", two, "--engine", "openrouter"], "models ignore references beside an image"],
      [["--last-image", two, "-m", "wan-2.5", "--engine", "openrouter"], "alibaba/wan-2.6 takes no last image"],
      [["--reference", two, "--engine", "veo-3.1=sglang:http://gpu.test"], "takes no references"],
    ];
    for (const [flags, message] of refusals)
      expect(await generate(...flags)).toMatchObject({ code: 1, stderr: expect.stringContaining(message) });
    const noImage = await generate("--last-image", world.home, "--engine", "openrouter");
    expect(noImage).toMatchObject({ code: 2, stderr: expect.stringContaining("Cannot read the image") });
    expect(fake.creates).toEqual([]);
  });
});

test("without the list a request goes to the provider, which refuses by itself", async () => {
  const { fake, generate } = await createScene({
    fault: ({ request }) => (request.url.endsWith("/videos/models") ? new Response("", { status: 503 }) : undefined),
  });
  expect(await generate("--engine", "openrouter", "--duration", "5")).toMatchObject({ code: 0 });
  expect(fake.creates).toMatchObject([{ fields: { duration: 5 } }]);
});

test("models --engine lists what the provider has, without a key", async () => {
  const { world } = await createScene();
  delete world.env.OPENROUTER_API_KEY;
  const { stdout, code } = await world.vidgen("models", "--engine", "openrouter");
  expect([code, stdout]).toEqual([
    0,
    [
      "google/veo-3.1 (veo-3.1)  4, 6, 8 s; 720p, 1080p; 16:9, 9:16; image; last image; per-video-second $0.40\n",
      "alibaba/wan-2.6 (wan-2.5)  generate $0.50\n",
      "bytedance/seedance-2.0-fast (seedance)  480p, 768p, 1080p, 4K; 16:9, 21:9, adaptive\n",
    ].join(""),
  ]);
  const one = await world.vidgen("models", "veo-3.1", "--engine", "openrouter", "--json");
  expect(JSON.parse(one.stdout)).toMatchObject([{ id: "google/veo-3.1", models: ["veo-3.1"], takes_last_image: true }]);
  for (const engine of [[], ["--engine", "openrouter"]])
    expect(await world.vidgen("models", "veo", ...engine)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("There is no model veo.\n  Did you mean veo-3.1?"),
    });
  expect(await world.vidgen("models", "--engine", "preview")).toMatchObject({ code: 2 });
  expect(world.requests.filter(({ headers }) => headers.has("Authorization"))).toEqual([]);
});

test("models <id> shows one with what is known of its price, and guesses a mistyped one", async () => {
  const { generate, world } = await createScene();
  const about = [
    "sora-2  flagship, cinematic quality",
    "Length: depends on the service; with --local up to 60 s",
    "Ratio: depends on the service, such as 16:9, 9:16, 1:1, 4:3, 3:4, 21:9",
    "Price: free with --local; otherwise unknown until the service states one\n",
  ];
  expect((await world.vidgen("models", "sora-2")).stdout).toBe(about.join("\n"));
  await generate("--engine", "openrouter", "-d", "8");
  Object.assign(world.env, { VIDGEN_BASE_URL: baseUrl, VIDGEN_API_KEY: apiKey });
  for (const argv of [
    ["-d", "4"],
    ["-d", "4"],
    ["--set", "generate_audio=true"],
  ])
    await world.vidgen("generate", "a red fox", "-m", "veo-3.1", "--no-wait", ...argv);
  const { stdout } = await world.vidgen("models", "veo-3.1");
  expect(stdout.split("\n").slice(3)).toEqual([
    "Price: free with --local; the service stated for earlier videos:",
    "  10 credits at api.video.example: generate_audio true",
    "  10 credits at api.video.example: 4 s",
    "  $0.40 with --engine: 8 s",
    "",
  ]);
  const [document] = JSON.parse((await world.vidgen("models", "veo-3.1", "--json")).stdout);
  expect(document.prices).toMatchObject([
    { base_url: baseUrl, generate_audio: true, credits: 10 },
    { duration: 4, credits: 10 },
    { duration: 8, cost: 0.4 },
  ]);
  expect(await world.vidgen("models", "sora2")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("Did you mean sora-2?"),
  });
});

test("an AI agent's videos are made there, once", async () => {
  const { fake, world } = await createScene();
  const { call, leave } = await connectAgent(world, "--engine", "openrouter");
  const { value } = await call("generate_video", { prompt: "a red fox", model: "veo-3.1" });
  const id = String(value.id);
  await expect.poll(async () => (await call("get_video", { id })).value.status).toBe("completed");
  expect((await call("generate_video", { prompt: "a red fox", model: "veo-3.1" })).value).toMatchObject({ id });
  expect([await leave(), fake.creates.length]).toEqual([0, 1]);
});

test("a batch makes each row once", async () => {
  const { fake, world } = await createScene();
  world.stdin = "a fox\nan owl\n";
  const flags = ["--engine", "openrouter", "--model", "veo-3.1", "--results", join(world.folder, "r.jsonl"), "--yes"];
  const place = ["-o", join(world.folder, "{n}.mp4"), "--input-format", "txt"];
  expect(await world.vidgen("batch", "-", ...flags, ...place)).toMatchObject({ code: 0 });
  expect(fake.creates.map(({ fields }) => fields.prompt).sort()).toEqual(["a fox", "an owl"]);
});

test("a preview that was left is not what --engine asks for", async () => {
  const { fake, world } = await createScene();
  const fox = ["generate", "a red fox [slow: 60s]", "-m", "veo-3.1", "-o", join(world.folder, "fox.mp4")];
  expect(await world.vidgen(...fox, "--local", "--timeout", "5s")).toMatchObject({ code: 5 });
  expect(await world.vidgen(...fox, "--engine", "openrouter")).toMatchObject({ code: 0 });
  expect(fake.creates).toHaveLength(1);
  const stderr = expect.stringContaining("Resuming");
  expect(await world.vidgen(...fox, "--local", "--overwrite", "--timeout", "5s")).toMatchObject({ code: 5, stderr });
});

test("the previews of a batch are not its real videos", async () => {
  const { fake, world } = await createScene();
  world.stdin = "a fox [slow: 60s]\n";
  const batch = ["batch", "-", "-m", "veo-3.1", "--results", join(world.folder, "r.jsonl"), "--yes"];
  const place = ["-o", join(world.folder, "{n}.mp4"), "--input-format", "txt"];
  expect(await world.vidgen(...batch, ...place, "--local", "--timeout", "5s")).toMatchObject({ code: 5 });
  const stderr = expect.stringMatching(
    /r\.jsonl has previews, such as that of row \S+, but this command asks for real videos/,
  );
  expect(await world.vidgen(...batch, ...place, "--engine", "openrouter")).toMatchObject({ code: 2, stderr });
  expect(fake.creates).toEqual([]);
});

test("beside the previews of a rows file, another results file gets its real videos, each once", async () => {
  const { fake, world } = await createScene();
  const rows = join(world.folder, "shots.txt");
  writeFileSync(rows, "a fox [slow: 60s]\nan owl [slow: 60s]\n");
  const batch = (name: string, ...flags: string[]) =>
    world.vidgen(
      ...["batch", rows, "-m", "veo-3.1", "-o", join(world.folder, name, "{n}.mp4"), "--yes"],
      ...["--results", join(world.folder, `${name}.jsonl`), ...flags],
    );
  expect(await batch("clips", "--local", "--timeout", "5s")).toMatchObject({ code: 5 });
  for (let run = 0; run < 2; run++) expect(await batch("takes", "--engine", "openrouter")).toMatchObject({ code: 0 });
  expect(fake.creates).toHaveLength(2);
  // Another results file of the same rows does not pay for them again.
  expect(await batch("others", "--engine", "openrouter")).toMatchObject({ code: 0 });
  expect(fake.creates).toHaveLength(2);
});

/** Makes a video from three images by a vLLM-Omni of one's own, and returns what its server was asked for. */
async function makeFromImages(env: Record<string, string>) {
  const { world } = await createScene();
  const fake = createVllmOmni({ now: world.io.now, completeAfterMs: 30_000 });
  Object.assign(world.env, env);
  world.faults.push((request) => (new URL(request.url).hostname === "gpu-1" ? fake.fetch(request) : undefined));
  const images = ["a", "b", "c"].map((name) => join(world.folder, `${name}.png`));
  for (const image of images) writeFileSync(image, aPng(8, 8));
  const place = ["--engine", "kling-1.6-elements=vllm-omni:http://gpu-1:8091", "-o", join(world.folder, "fox.mp4")];
  const flags = images.flatMap((image) => ["-i", image]);
  const { code } = await world.vidgen("generate", "a red fox", "-m", "kling-1.6-elements", ...flags, ...place);
  expect([code, new Uint8Array(readFileSync(join(world.folder, "fox.mp4")))]).toEqual([0, tinyMp4("a red fox")]);
  return fake;
}

test("kling-1.6-elements is made from its images by vLLM-Omni, which keeps nothing of it", async () => {
  const { creates, deleted } = await makeFromImages({});
  expect(creates.map(({ files }) => files.length)).toEqual([3]);
  expect(deleted).toHaveLength(1);
});

test("VIDGEN_KEEP_UPSTREAM leaves the video on the server that made it", async () => {
  expect((await makeFromImages({ VIDGEN_KEEP_UPSTREAM: "1" })).deleted).toEqual([]);
});

test("a wrong key is reported before anything is started", async () => {
  const { fake, generate, world } = await createScene();
  world.env.OPENROUTER_API_KEY = "sk-or-other-0123456789";
  const { code, stderr } = await generate("--engine", "openrouter");
  expect([code, stderr]).toEqual([3, expect.stringContaining("openrouter.ai/api refuses the key (HTTP 401)")]);
  expect((await world.vidgen("list")).stdout).toBe("");
  expect(fake.creates).toEqual([]);
});

test("the key that is missing, and a flag that cannot be combined, are reported before anything is sent", async () => {
  const { fake, generate, world } = await createScene();
  expect(await generate("--engine", "openrouter", "--base-url", "https://x.test")).toMatchObject({ code: 2 });
  delete world.env.OPENROUTER_API_KEY;
  const { code, stderr } = await generate("--engine", "openrouter");
  expect([code, stderr]).toEqual([3, expect.stringContaining("OPENROUTER_API_KEY is not set")]);
  world.env.VIDGEN_ENGINE = "openrouter";
  world.env.VIDGEN_BASE_URL = "https://api.video.example";
  expect(await generate()).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/sets both an engine.*and a base URL/),
  });
  expect(fake.creates).toEqual([]);
});
