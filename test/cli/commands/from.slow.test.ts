import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { Client, ClientOptions } from "../../../src/index.ts";
import { type Machine, systemMachine } from "../../../src/io.ts";
import { colorsOf, makeClip, nameOf, run } from "../../client/film/clips.ts";
import { connectAgent } from "../../mcp/agent.ts";
import { hasFfmpeg } from "../../needs.ts";
import {
  apiKey,
  baseUrl,
  createWorld,
  failure,
  isStart,
  kill,
  onStart,
  type World,
  type WorldOptions,
} from "../../vidgen.ts";

const bodies = (world: World) => world.requests.filter(isStart).map(({ body }) => JSON.parse(body));
const isPoll = (request: Request) => request.url.includes("generation-status");
const isDownload = (request: Request) => request.url.endsWith(".mp4");

/** Answers each poll: an engine may have charged for it. */
const unclear: World["faults"][number] = (request) => {
  if (!isPoll(request)) return undefined;
  const id = new URL(request.url).searchParams.get("id");
  return Response.json({ id, status: "failed", error: "no reply", error_code: "unclear" });
};

/** A world with ffmpeg, in which the first video is a red clip that ends with a lime frame, and each other one is blue. */
async function createFilmWorld(options?: WorldOptions): Promise<World & { clip: string }> {
  const world = await createWorld(options);
  Object.assign(world.io, { run });
  Object.assign(world.env, { PATH: process.env.PATH });
  const clip = makeClip(join(world.folder, "source.mp4"), {
    colors: [
      ["red", 23],
      ["lime", 1],
    ],
  });
  const later = makeClip(join(world.folder, "later.mp4"), { colors: [["blue", 24]] });
  const urls = new Set<string>();
  world.faults.push((request) => {
    if (!isDownload(request)) return undefined;
    urls.add(request.url);
    return new Response(readFileSync([...urls].indexOf(request.url) === 0 ? clip : later));
  });
  return Object.assign(world, { clip });
}

const isLime = (world: World, image: string) => {
  const file = join(world.folder, "sent.png");
  writeFileSync(file, Buffer.from(image.replace(/^data:image\/png;base64,/, ""), "base64"));
  return colorsOf(file).map(nameOf);
};

describe.skipIf(!hasFfmpeg)("--from", () => {
  test("a file begins with its last frame", async () => {
    const world = await createFilmWorld();
    expect(await world.vidgen("generate", "a wolf", "--from", world.clip, "--no-wait")).toMatchObject({ code: 0 });
    const [{ imageUrl, ...rest }] = bodies(world);
    expect([isLime(world, imageUrl), rest]).toEqual([["lime"], { prompt: "a wolf", model: expect.any(String) }]);
  });

  test("an id whose video is saved nowhere is downloaded, which does not count as delivered, and costs nothing", async () => {
    const world = await createFilmWorld();
    const id = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
    const run = await world.vidgen("generate", "a wolf", "--from", id, "--no-wait");
    expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining(`Downloading the video of ${id}`) });
    expect([bodies(world).length, isLime(world, bodies(world)[1].imageUrl)]).toEqual([2, ["lime"]]);
    const [wolf, fox] = JSON.parse((await world.vidgen("list", "--json")).stdout);
    expect([wolf.from, fox.id, fox.file]).toEqual([id, id, undefined]);
    const open = await world.vidgen("wait", "--all", "-o", `${world.folder}/`);
    expect(open.stdout.trim().split("\n")).toHaveLength(2);
  });

  test("an id that no journal here knows is asked for at the service that the flags name", async () => {
    const world = await createFilmWorld();
    const id = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
    Object.assign(world.env, { VIDGEN_BASE_URL: undefined, VIDGEN_HOME: join(world.folder, "another") });
    const run = await world.vidgen("generate", "a wolf", "--from", id, "--no-wait", "--base-url", baseUrl);
    expect([run.code, isLime(world, bodies(world).at(-1).imageUrl)]).toEqual([0, ["lime"]]);
  });

  test("last, typed again after a kill, resumes, and sends the frame once", async () => {
    const world = await createFilmWorld();
    await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"));
    const line = ["generate", "a wolf", "--from", "last", "-o", join(world.folder, "wolf.mp4")];
    await kill(world, isPoll, ...line);
    expect(await world.vidgen(...line)).toMatchObject({ code: 0, stderr: expect.stringContaining("Resuming") });
    expect(bodies(world)).toHaveLength(2);
  });

  test("last, typed again after another generation was made, is what it was: it resumes, or sends nothing", async () => {
    const world = await createFilmWorld();
    await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"));
    const line = ["generate", "a wolf", "--from", "last", "-o", join(world.folder, "wolf.mp4")];
    await kill(world, isPoll, ...line);
    await world.vidgen("generate", "an owl");
    expect(await world.vidgen(...line)).toMatchObject({ code: 0, stderr: expect.stringContaining("Resuming") });
    const unclear = ["generate", "a bear", "--from", "last"];
    world.faults.unshift(
      onStart(() => {
        throw failure("ECONNRESET", true);
      }, 1),
    );
    expect(await world.vidgen(...unclear)).toMatchObject({ code: 6 });
    await world.vidgen("generate", "a cat");
    expect(await world.vidgen(...unclear)).toMatchObject({ code: 6 });
    expect(bodies(world)).toHaveLength(5);
  });

  test("last in a line of again is the newest also where another start with --from is unfinished", async () => {
    const world = await createFilmWorld();
    await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"));
    const [{ id }] = JSON.parse((await world.vidgen("list", "--json")).stdout);
    await kill(world, isPoll, "generate", "a wolf", "--from", "last");
    expect(await world.vidgen("again", id, "--from", "last", "--no-wait")).toMatchObject({ code: 0 });
    expect(isLime(world, bodies(world)[2].imageUrl)).toEqual(["blue"]);
  });

  test("last passes over a generation that failed", async () => {
    const world = await createFilmWorld();
    await world.vidgen("generate", "a fox");
    expect(await world.vidgen("generate", "[fail]", "--from", "last")).toMatchObject({ code: 4 });
    expect(await world.vidgen("generate", "a wolf", "--from", "last", "--no-wait")).toMatchObject({ code: 0 });
    expect(isLime(world, bodies(world)[2].imageUrl)).toEqual(["lime"]);
  });

  test("last with --reuse is the same video for the same prompt, and the newest for another", async () => {
    const world = await createFilmWorld();
    await world.vidgen("generate", "a fox");
    const shot = (prompt: string) => world.vidgen("generate", prompt, "--from", "last", "--reuse");
    expect([(await shot("a wolf")).code, (await shot("a wolf")).code]).toEqual([0, 0]);
    expect(bodies(world)).toHaveLength(2);
    expect(await shot("a bear")).toMatchObject({ code: 0 });
    expect(isLime(world, bodies(world)[1].imageUrl)).toEqual(["lime"]);
    expect(isLime(world, bodies(world)[2].imageUrl)).toEqual(["blue"]);
  });

  test("again last with --from, typed again after a kill, resumes", async () => {
    const world = await createFilmWorld();
    await world.vidgen("generate", "a fox");
    const line = ["again", "last", "a wolf", "--from", world.clip];
    await kill(world, isPoll, ...line);
    expect(await world.vidgen(...line)).toMatchObject({ code: 0, stderr: expect.stringContaining("Resuming") });
    expect(bodies(world)).toHaveLength(2);
  });

  test("the same line is the same request also with an ffmpeg that takes other bytes", async () => {
    const world = await createFilmWorld();
    const line = ["generate", "a wolf", "--from", world.clip];
    world.faults.unshift(
      onStart(() => {
        throw failure("ECONNRESET", true);
      }, 1),
    );
    expect(await world.vidgen(...line)).toMatchObject({ code: 6 });
    Object.assign(world.io, {
      run: (command: string, args: string[], options: never) =>
        systemMachine.run(
          command,
          args.map((word) => word.replace("format=rgb24", "format=rgba")),
          options,
        ),
    });
    expect(await world.vidgen(...line)).toMatchObject({
      code: 6,
      stderr: expect.stringContaining("Nothing was sent now"),
    });
    expect(bodies(world)).toHaveLength(1);
  });

  test("a kept frame that was changed is taken again", async () => {
    const world = await createFilmWorld();
    const line = ["generate", "a wolf", "--from", world.clip, "--no-wait"];
    await world.vidgen(...line);
    const folder = join(world.home, "frames");
    for (const name of readdirSync(folder)) writeFileSync(join(folder, name), "another picture");
    await world.vidgen(...line);
    expect(bodies(world)[1]).toEqual(bodies(world)[0]);
  });

  test("again begins with the same frame", async () => {
    const world = await createFilmWorld();
    const fox = join(world.folder, "fox.mp4");
    await world.vidgen("generate", "a fox", "-o", fox);
    await world.vidgen("generate", "a wolf", "--from", fox, "--no-wait");
    const [{ id }] = JSON.parse((await world.vidgen("list", "--json")).stdout);
    expect(await world.vidgen("again", id, "a bear", "--no-wait")).toMatchObject({ code: 0 });
    expect(bodies(world)[2]).toEqual({ ...bodies(world)[1], prompt: "a bear" });
  });

  test("again takes the frame from the service of the generation that it repeats", async () => {
    const world = await createFilmWorld();
    const fox = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
    Object.assign(world.env, { VIDGEN_BASE_URL: undefined, VIDGEN_HOME: join(world.folder, "another") });
    const line = ["generate", "a wolf", "--from", fox, "--no-wait", "--base-url", baseUrl];
    const wolf = (await world.vidgen(...line)).stdout.trim();
    writeFileSync(join(world.folder, "another", "config.json"), JSON.stringify({ keys: { [baseUrl]: apiKey } }));
    world.env.VIDGEN_BASE_URL = "https://other.example";
    expect(await world.vidgen("again", wolf, "--no-wait")).toMatchObject({ code: 0 });
    expect(bodies(world)[2]).toEqual(bodies(world)[1]);
    expect(world.requests.filter(({ url }) => url.startsWith("https://other.example"))).toEqual([]);
  });

  test("a source that may have been charged is no start that may have been charged", async () => {
    const world = await createFilmWorld();
    const id = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
    world.faults.push(unclear);
    const run = await world.vidgen("generate", "a wolf", "--from", id);
    expect(run).toMatchObject({
      code: 4,
      stderr: expect.stringContaining(`${id} has no video whose last frame could be used`),
    });
    expect(run.stderr).toContain("Nothing was sent");
    expect(run.stderr).not.toMatch(/--dismiss|nothing was charged/i);
    expect(bodies(world)).toHaveLength(1);
  });

  test("a fade is told before it is paid for", async () => {
    const world = await createFilmWorld();
    const run = await world.vidgen("generate", "a wolf", "--from", world.clip, "--no-wait");
    expect(run.stderr).toMatch(/nearly one colour.*Started/s);
  });

  test.each<[string, string[], number, RegExp]>([
    ["text", ["text.mp4"], 2, /not a whole video.* Nothing was sent/],
    ["a clip that is cut off", ["cut.mp4"], 2, /not a whole video.* Nothing was sent/],
    ["no file", ["gone.mp4"], 2, /there is no such file.* Nothing was sent/],
    ["a generation that failed", ["failed"], 4, /Nothing was sent/],
  ])("%s ends before anything is paid", async (_, [name = ""], code, message) => {
    const world = await createFilmWorld();
    writeFileSync(join(world.folder, "text.mp4"), "some text");
    writeFileSync(join(world.folder, "cut.mp4"), readFileSync(world.clip).subarray(0, 1_000));
    const failed = (await world.vidgen("generate", "[fail]", "--no-wait")).stdout.trim();
    const from = name === "failed" ? failed : join(world.folder, name);
    expect(await world.vidgen("generate", "a wolf", "--from", from)).toMatchObject({
      code,
      stderr: expect.stringMatching(message),
    });
    expect(bodies(world)).toHaveLength(1);
  });
});

describe.skipIf(!hasFfmpeg)("a line with --from that was started before", () => {
  /** From now on, ffmpeg is missing, and no video of a source is there. */
  function withoutFrames(world: World) {
    Object.assign(world.io, { run: () => Promise.reject(new Error("no frame is needed")) });
    for (const name of readdirSync(join(world.home, "frames"))) rmSync(join(world.home, "frames", name));
  }

  test.each<[string, (world: World, fox: string) => string[]]>([
    ["a file", ({ folder }) => ["--from", join(folder, "source.mp4")]],
    ["an id", (_, fox) => ["--from", fox]],
    ["last", () => ["--from", "last"]],
    ["a file, three times", ({ folder }) => ["--from", join(folder, "source.mp4"), "-n", "3", "-o", `${folder}/`]],
  ])("from %s: is resumed without its frame, and a dry run says so", async (_, wordsOf) => {
    const world = await createFilmWorld();
    const fox = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
    const line = ["generate", "a wolf", ...wordsOf(world, fox)];
    const sent = line.includes("-n") ? 4 : 2;
    await kill(world, (request) => isPoll(request) && bodies(world).length === sent, ...line);
    withoutFrames(world);
    const dry = await world.vidgen(...line, "--dry-run");
    expect(dry).toMatchObject({ code: 0, stdout: expect.stringContaining("no request would be sent") });
    expect(await world.vidgen(...line)).toMatchObject({ code: 0, stderr: expect.stringContaining("Resuming") });
    expect(bodies(world)).toHaveLength(sent);
  });

  test("--reuse takes the video that was delivered, without a frame", async () => {
    const world = await createFilmWorld();
    const line = ["generate", "a wolf", "--from", world.clip, "--reuse"];
    expect(await world.vidgen(...line)).toMatchObject({ code: 0 });
    withoutFrames(world);
    expect(await world.vidgen(...line)).toMatchObject({ code: 0 });
    expect(bodies(world)).toHaveLength(1);
  });

  test("that another process starts while the frame is taken is resumed, and paid once", async () => {
    const world = await createFilmWorld();
    const line = ["generate", "a wolf", "--from", world.clip, "-o", join(world.folder, "wolf.mp4")];
    let isOtherStarted = false;
    Object.assign(world.io, {
      run: async (...call: Parameters<typeof run>) => {
        if (!isOtherStarted) {
          isOtherStarted = true;
          Object.assign(world.io, { run });
          expect(await world.vidgen(...line, "--timeout", "1")).toMatchObject({ code: 5 });
        }
        return run(...call);
      },
    });
    expect(await world.vidgen(...line)).toMatchObject({ code: 0, stderr: expect.stringContaining("Resuming") });
    expect([isOtherStarted, bodies(world).length]).toEqual([true, 1]);
  });

  test.each([
    ["is sent again with its key if its frame is the same", "rgb24", 0, 2],
    ["sends nothing if ffmpeg now takes another frame", "rgba", 6, 1],
  ])("and may have been charged %s", async (_, format, code, sent) => {
    const world = await createFilmWorld({ keepsKeys: true });
    const line = ["generate", "a wolf", "--from", world.clip, "--no-wait"];
    world.faults.unshift(() => {
      throw failure("ECONNRESET", true);
    });
    expect(await world.vidgen(...line)).toMatchObject({ code: 6 });
    world.faults.shift();
    for (const name of readdirSync(join(world.home, "frames"))) rmSync(join(world.home, "frames", name));
    const changed = (command: string, args: string[], options: never) =>
      run(
        command,
        args.map((word) => word.replace("format=rgb24", `format=${format}`)),
        options,
      );
    Object.assign(world.io, { run: changed });
    expect(await world.vidgen(...line)).toMatchObject({ code });
    expect(bodies(world)).toHaveLength(sent);
  });
});

describe.skipIf(!hasFfmpeg)("an agent's from", () => {
  test("of a generation that may have been charged is no call that may have been charged", async () => {
    const world = await createFilmWorld();
    const { call, leave } = await connectAgent(world);
    const { id } = (await call("generate_video", { prompt: "a fox" })).value;
    world.faults.push(unclear);
    const { value } = await call("generate_video", { prompt: "a wolf", from: id });
    expect(value).toMatchObject({ code: "failed", may_have_been_charged: false, hint: null });
    expect(value.message).toMatch(/has no video whose last frame could be used/);
    await leave();
  });

  test("of one that runs is waited for no longer than an agent waits, and sends nothing", async () => {
    const world = await createFilmWorld({ renderMs: 10 * 60_000 });
    const { call, leave } = await connectAgent(world);
    const { id } = (await call("generate_video", { prompt: "a fox" })).value;
    const begin = world.io.now();
    const { value } = await call("generate_video", { prompt: "a wolf", from: id });
    expect(value).toMatchObject({
      code: "pending",
      message: expect.stringMatching(/still running.* Nothing was sent/),
    });
    expect(value.hint).toContain("get_video");
    expect([world.io.now() - begin < 60_000, bodies(world).length]).toEqual([true, 1]);
    await leave();
  });
});

/** A client of the library on the machine of a world. */
async function openClient(world: World): Promise<Client> {
  vi.stubEnv("VIDGEN_HOME", world.home);
  onTestFinished(() => void vi.unstubAllEnvs());
  const { createClient } = await import("../../../src/index.ts");
  const create = createClient as (options: ClientOptions, machine: Machine) => Client;
  const journal = join(world.home, "journal.jsonl");
  const fetch = (url: string | URL | Request, init: RequestInit = {}) => world.io.fetch(String(url), init as never);
  const options = { baseUrl, apiKey, journal, fetch: fetch as typeof globalThis.fetch };
  return create(options, { ...world.io });
}

describe.skipIf(!hasFfmpeg)("the library's from", () => {
  test("of one that runs is waited for as long as the call says", async () => {
    const world = await createFilmWorld({ renderMs: 10 * 60_000 });
    const client = await openClient(world);
    const { id: from } = await client.start({ prompt: "a fox", model: "wan-2.5" });
    const begin = world.io.now();
    const wolf = client.generate({ prompt: "a wolf", model: "wan-2.5" }, { from, timeoutMs: 5_000 });
    await expect(wolf).rejects.toMatchObject({ code: "pending", message: expect.stringContaining("Nothing was sent") });
    expect([world.io.now() - begin, bodies(world).length]).toEqual([5_000, 1]);
    await client.close();
  });

  test.each(["a file", "an id"])("of %s begins with its last frame, and the same call resumes", async (kind) => {
    const world = await createFilmWorld();
    const client = await openClient(world);
    const { id } = await client.start({ prompt: "a fox", model: "wan-2.5" });
    const from = kind === "a file" ? world.clip : id;
    const wolf = { prompt: "a wolf", model: "wan-2.5" };
    const first = await client.start(wolf, { from, onExisting: "reuse" });
    expect(await client.start(wolf, { from, onExisting: "reuse" })).toMatchObject({ id: first.id, resumed: true });
    expect(isLime(world, bodies(world)[1].imageUrl)).toEqual(["lime"]);
    expect(bodies(world)).toHaveLength(2);
    await expect(client.start({ ...wolf, images: ["a.png"] }, { from })).rejects.toMatchObject({ code: "usage" });
    await expect(client.start(wolf, { from: "unheard-of" })).rejects.toMatchObject({ code: "not_found" });
    expect(bodies(world)).toHaveLength(2);
    await client.close();
  });
});
