import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { VidgenError } from "../../../src/errors.ts";
import { findPart } from "../../folder.ts";
import { tinyMp4 } from "../../mp4.ts";
import {
  apiKey,
  baseUrl,
  createWorld,
  failure,
  goneReply,
  isStart,
  mediaUrl,
  onStart,
  type World,
} from "../../vidgen.ts";

const uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
const video = (prompt: string) => Buffer.from(tinyMp4(prompt));

test.each([
  ["generate", ["generate", "a fox"]],
  ["wait", ["wait", "123e4567-e89b-12d3-a456-426614174000"]],
])("%s says that -o clip.webm would hold an .mp4 before it sends anything", async (_, argv) => {
  const world = await createWorld();
  let before = "";
  world.faults = [
    () => {
      before ||= world.printed.stderr;
      return undefined;
    },
  ];
  const clip = join(world.folder, "clip.webm");
  await world.vidgen(...argv, "-o", clip);
  expect(before).toContain(`vidgen does not convert them: ${clip} has another extension.`);
  for (const place of ["clip.mp4", "v2.5", "clips.mov/", "{slug}"])
    expect((await world.vidgen(...argv, "-o", join(world.folder, place))).stderr).not.toContain("converts");
});

test.each([
  [["-m", "ray3"], 'Unknown model "ray3"; did you mean ray-3?'],
  [["-m", "Veo"], 'Unknown model "Veo"; did you mean veo-3.1?'],
  [["--set", "duration=abc"], 'The duration "abc" is not a length in seconds, such as 8.'],
  [["--set", "duration=0"], 'The duration "0" is not a length in seconds, such as 8.'],
])("%j is doubted at --dry-run, and when it is sent as it was typed", async (flags, doubt) => {
  const world = await createWorld();
  const generate = ["generate", "a fox", "--no-wait", ...flags];
  expect((await world.vidgen(...generate, "--dry-run")).stderr).toBe(`${doubt}\n`);
  expect((await world.vidgen(...generate)).stderr).toContain(`${doubt} Sent as typed.\n`);
});

test.each([
  ["tall", "16:9"],
  ["9", "16:9"],
  ["16:0", "16:9"],
])("the ratio %j is refused, such as %s is taken", async (typed, meant) => {
  const world = await createWorld();
  const { code, stderr } = await world.vidgen("generate", "a fox", "-a", typed);
  expect([code, / such as (\S+), not/.exec(stderr)?.[1], world.requests]).toEqual([2, meant, []]);
});

/** What three starts say of their cost, and the event of a fourth one. */
async function tellCosts(world: World) {
  const said = [];
  for (const prompt of ["a fox", "an owl", "a hare"])
    said.push(/Started \S+ (.*)\.$/m.exec((await world.vidgen("generate", prompt, "--no-wait")).stderr)?.[1]);
  const { stdout } = await world.vidgen("generate", "a bear", "--events");
  return { said, event: JSON.parse(stdout.split("\n")[0] ?? "") };
}

test("what it cost is printed where the service states it", async () => {
  const world = await createWorld();
  expect(await tellCosts(world)).toEqual({
    said: ["990", "980", "970"].map((left) => `(wan-2.5, for 10 credits, ${left} credits left)`),
    event: expect.objectContaining({ event: "started", credits: 10 }),
  });
  const { stdout } = await world.vidgen("generate", "a hen", "--json");
  expect(JSON.parse(stdout)).toMatchObject({ credits_charged: 10, remaining_credits: 950 });
});

test("if the service does not state the cost, a drop of the balance is reported as a drop and not as a price", async () => {
  const world = await createWorld();
  let balance = 1_000;
  world.faults.push((request) => {
    if (!isStart(request)) return undefined;
    // Somebody else spends as much.
    balance -= 20;
    const data = { id: `gen-${balance}`, status: "processing" };
    return Response.json({ success: true, data, remaining_credits: balance });
  });
  const { said, event } = await tellCosts(world);
  expect(said).toEqual([
    "(wan-2.5, 980 credits left)",
    "(wan-2.5, 960 credits left; the balance fell by 20)",
    "(wan-2.5, 940 credits left; the balance fell by 20)",
  ]);
  expect(event).toMatchObject({ balance_fell: 20 });
  expect(event).not.toHaveProperty("credits");
});

test("a key that is rejected: where it came from, and how to replace it", async () => {
  const world = await createWorld();
  world.faults = [() => Response.json({ error: "no" }, { status: 401 })];
  const variable = "  It came from VIDGEN_API_KEY, which overrides a saved key: set a valid one, or unset it.\n";
  for (const argv of [
    ["generate", "a fox"],
    ["status", "gen-7"],
    ["wait", "gen-7"],
  ])
    expect(await world.vidgen(...argv)).toMatchObject({ code: 3, stderr: expect.stringContaining(variable) });
  world.env.VIDGEN_API_KEY = undefined;
  const saved = { base_url: baseUrl, keys: { [baseUrl]: "saved-key-0123456789" } };
  mkdirSync(world.home, { recursive: true });
  writeFileSync(join(world.home, "config.json"), JSON.stringify(saved));
  const { code, stderr } = await world.vidgen("generate", "a fox");
  const file = join(world.home, "config.json");
  expect([code, stderr]).toEqual([
    3,
    expect.stringContaining(`  It came from ${file}: \`vidgen login\` saves another`),
  ]);
});

test("--no-wait with --timeout is a usage error: nothing is waited for", async () => {
  const world = await createWorld();
  expect(await world.vidgen("generate", "a fox", "--no-wait", "--timeout", "5m")).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/--no-wait cannot be combined with --timeout: .*`vidgen wait <id> --timeout/),
  });
  expect(world.requests).toEqual([]);
});

describe("the result", () => {
  test("is the url, and nothing else is on stdout", async () => {
    const world = await createWorld();
    const run = await world.vidgen("generate", "a fox");
    expect(run).toMatchObject({ code: 0, stdout: expect.stringMatching(`^${mediaUrl}/${uuid}\\.mp4\n$`) });
  });

  test("with -o is the saved file", async () => {
    const world = await createWorld();
    const file = join(world.folder, "fox.mp4");
    expect(await world.vidgen("generate", "a fox", "-o", file)).toMatchObject({ code: 0, stdout: `${file}\n` });
    expect(readFileSync(file)).toEqual(video("a fox"));
    expect(readdirSync(world.folder)).toEqual(["fox.mp4"]);
  });

  test("with -o folder/ gets a readable name", async () => {
    const world = await createWorld();
    const folder = join(world.folder, "clips/");
    const run = await world.vidgen("generate", "A fox, at dusk!", "-m", "veo-3.1", "-o", folder);
    expect(run.stdout).toMatch(/clips[/\\]a-fox-at-dusk-veo-3\.1-[0-9a-f]{8}\.mp4\n$/);
    expect(readdirSync(folder)).toHaveLength(1);
  });

  test("with -o - is the video itself", async () => {
    const world = await createWorld();
    const run = await world.vidgen("generate", "a fox", "-o", "-");
    expect(run).toMatchObject({ code: 0, stdout: video("a fox").toString() });
  });

  test("with --no-wait is the id", async () => {
    const world = await createWorld();
    const run = await world.vidgen("generate", "a fox", "--no-wait");
    expect(run).toMatchObject({ code: 0, stdout: expect.stringMatching(`^${uuid}\n$`) });
    expect(world.requests).toHaveLength(1);
  });

  test("with --json is one document in the service's own field names", async () => {
    const world = await createWorld();
    const file = join(world.folder, "fox.mp4");
    const run = await world.vidgen("generate", "a fox", "--json", "-o", file);
    expect(run).toMatchObject({ code: 0, stderr: "" });
    const document = JSON.parse(run.stdout);
    expect(document).toMatchObject({
      status: "completed",
      model: "wan-2.5",
      prompt: "a fox",
      remaining_credits: 990,
      file,
    });
    expect(document.video_url).toBe(`${mediaUrl}/${document.id}.mp4`);
  });

  test("the id is on stderr before the first look", async () => {
    const world = await createWorld();
    let stderr = "";
    world.faults.push((request) => {
      if (!isStart(request)) stderr ||= world.printed.stderr;
      return undefined;
    });
    const { stdout } = await world.vidgen("generate", "a fox");
    expect(stderr).toContain(/[0-9a-f-]{36}/.exec(stdout)?.[0]);
  });

  test("--quiet leaves stderr empty", async () => {
    const world = await createWorld();
    expect(await world.vidgen("generate", "a fox", "--quiet")).toMatchObject({ code: 0, stderr: "" });
  });
});

describe("the request", () => {
  const sent = async (...argv: string[]) => {
    const world = await createWorld();
    await world.vidgen("generate", ...argv, "--no-wait");
    return JSON.parse(world.requests[0]?.body ?? "null");
  };

  test("holds the prompt and the best-value model", async () => {
    expect(await sent("a fox")).toEqual({ prompt: "a fox", model: "wan-2.5" });
  });

  test("holds what the flags say, in the interface's names", async () => {
    const flags = ["-m", "sora-2", "-a", "9:16", "-d", "8", "-r", "720p", "-i", "https://x.example/a.png"];
    const further = ["--callback-url", "https://x.example/cb", "--set", "seed=7", "--set", "style=oil"];
    expect(await sent("a fox", ...flags, ...further)).toEqual({
      prompt: "a fox",
      model: "sora-2",
      aspectRatio: "9:16",
      duration: 8,
      resolution: "720p",
      imageUrl: "https://x.example/a.png",
      callback_url: "https://x.example/cb",
      seed: 7,
      style: "oil",
    });
  });

  test("takes the prompt from stdin, by - or because something is piped in", async () => {
    for (const argv of [["-"], []]) {
      const world = await createWorld();
      world.stdin = "a fox\nat dusk\n";
      await world.vidgen("generate", ...argv, "--no-wait");
      expect(JSON.parse(world.requests[0]?.body ?? "null").prompt).toBe("a fox\nat dusk");
    }
  });

  test("has a model that vidgen does not know as it was typed, with a note where it looks like a slip", async () => {
    const world = await createWorld();
    const { code, stderr } = await world.vidgen("generate", "a fox", "-m", "wan-2.6", "--no-wait");
    expect([code, stderr]).toEqual([
      expect.any(Number),
      expect.stringMatching(/^Unknown model "wan-2\.6"; did you mean wan-2\.5\? Sent as typed\.\n/),
    ]);
    expect(JSON.parse(world.requests[0]?.body ?? "null").model).toBe("wan-2.6");
  });

  test("takes the prompt from a file with @", async () => {
    const world = await createWorld();
    const file = join(world.folder, "prompt.txt");
    writeFileSync(file, "a fox\n");
    await world.vidgen("generate", `@${file}`, "--no-wait");
    expect(JSON.parse(world.requests[0]?.body ?? "null").prompt).toBe("a fox");
    expect(await world.vidgen("generate", `@${file}.missing`)).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining(`Cannot read the prompt from ${file}.missing: there is no such file.\n`),
    });
    expect((await world.vidgen("generate", `@${world.folder}`)).stderr).toContain(": it is a folder.\n");
  });

  test.each([
    ["UTF-8 with a byte order mark", Buffer.from("\ufeffa fox 狐\n")],
    ["UTF-16, as Windows saves it", Buffer.from("\ufeffa fox 狐\r\n", "utf16le")],
    ["UTF-16 in the other order", Buffer.from("\ufeffa fox 狐\n", "utf16le").swap16()],
  ])("a file in %s is read, and so is stdin", async (_, bytes) => {
    const world = await createWorld();
    const file = join(world.folder, "prompt.txt");
    writeFileSync(file, bytes);
    expect(await world.vidgen("generate", `@${file}`, "--no-wait")).toMatchObject({ code: 0 });
    world.stdin = bytes;
    expect(await world.vidgen("generate", "-", "--no-wait")).toMatchObject({ code: 0 });
    expect(world.requests.map(({ body }) => JSON.parse(body).prompt)).toEqual(["a fox 狐", "a fox 狐"]);
  });

  test("a file of more than 1 MB is refused", async () => {
    const world = await createWorld();
    const file = join(world.folder, "prompt.txt");
    writeFileSync(file, "a".repeat(1_000_001));
    const stderr = expect.stringContaining(`The prompt in ${file} is larger than 1 MB.\n`);
    expect(await world.vidgen("generate", `@${file}`)).toMatchObject({ code: 2, stderr });
    expect(world.requests).toEqual([]);
  });

  test.each([
    ["a video", Buffer.from("\0\0\0\x18ftypmp42")],
    ["Latin-1", Buffer.from("caf\xe9", "latin1")],
  ])("a file that is no text (%s) costs nothing", async (_, bytes) => {
    const world = await createWorld();
    const file = join(world.folder, "fox.mp4");
    writeFileSync(file, bytes);
    const run = await world.vidgen("generate", `@${file}`, "--no-wait");
    expect(run).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`The prompt in ${file} is not text (UTF-8).`),
    });
    expect(world.requests).toEqual([]);
  });

  test("uses VIDGEN_MODEL when no flag names a model", async () => {
    const world = await createWorld();
    world.env.VIDGEN_MODEL = "ray-3";
    await world.vidgen("generate", "a fox", "--no-wait");
    expect(JSON.parse(world.requests[0]?.body ?? "null").model).toBe("ray-3");
  });

  test("goes with the key, an attempt id and no redirects, to the base url alone", async () => {
    const world = await createWorld();
    await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"));
    const [start] = world.requests;
    expect(start?.url).toBe(`${baseUrl}/api/generate`);
    expect(start?.headers.get("Authorization")).toBe(`Bearer ${apiKey}`);
    expect(start?.headers.get("Idempotency-Key")).toMatch(new RegExp(`^${uuid}$`));
    const media = world.requests.filter(({ url }) => url.startsWith(mediaUrl));
    expect(media.map(({ headers }) => headers.get("Authorization"))).toEqual([null]);
  });
});

describe("--dry-run", () => {
  test("prints the request without the key and starts nothing", async () => {
    const world = await createWorld();
    const run = await world.vidgen("generate", "a fox", "--dry-run");
    expect(run.stdout).toContain(`POST ${baseUrl}/api/generate`);
    expect(run.stdout).toContain('"prompt": "a fox"');
    expect(run.stdout + run.stderr).not.toContain(apiKey);
    expect(world.requests.map(({ method, url }) => [method, url])).toEqual([["GET", `${baseUrl}/v1/models`]]);
  });

  test("as JSON is the request as a document", async () => {
    const world = await createWorld();
    world.env.VIDGEN_API_KEY = "";
    const run = await world.vidgen("generate", "a fox", "--dry-run", "--json");
    expect(JSON.parse(run.stdout)).toMatchObject({
      method: "POST",
      url: `${baseUrl}/api/generate`,
      body: { prompt: "a fox" },
    });
  });
});

describe("--reuse --dry-run", () => {
  test("names the generation that it would resume, instead of a request that would not be sent", async () => {
    const world = await createWorld();
    const id = (await world.vidgen("generate", "a fox", "--no-wait")).stdout.trim();
    world.env.VIDGEN_API_KEY = undefined;
    const run = await world.vidgen("generate", "a fox", "--reuse", "--dry-run");
    expect(run).toMatchObject({ code: 0, stdout: expect.stringContaining(`Would resume ${id}`) });
    expect(run.stdout).not.toContain("POST");
    const { stdout } = await world.vidgen("generate", "a fox", "--reuse", "--dry-run", "--json");
    expect(JSON.parse(stdout)).toMatchObject({ reuse: { id, status: "processing", prompt: "a fox" } });
    expect(world.requests).toHaveLength(1);
  });

  test("shows the request where there is nothing to continue, or it was started elsewhere", async () => {
    const world = await createWorld();
    await world.vidgen("generate", "a fox", "--no-wait");
    for (const argv of [["an owl"], ["a fox", "--local"], ["a fox", "--base-url", "https://other.example"]]) {
      const run = await world.vidgen("generate", ...argv, "--reuse", "--dry-run");
      expect(run).toMatchObject({ code: 0, stdout: expect.stringContaining("POST ") });
    }
  });
});

describe("nothing is sent", () => {
  const refused: [string, string[], number][] = [
    ["an unknown flag", ["generate", "x", "--nope"], 2],
    ["an empty prompt", ["generate", " "], 2],
    ["no prompt and nobody to ask", ["generate"], 2],
    ["an empty model", ["generate", "x", "-m", " "], 2],
    ["a prompt that is no text", ["generate", "x", "--set", "prompt=5"], 2],
    ["a name that has no room for an id", ["generate", "x", "-o", `/nowhere/${"é".repeat(100)}-{id}.mp4`], 2],
    ["a bad ratio", ["generate", "x", "-a", "tall"], 2],
    ["a bad time", ["generate", "x", "--timeout", "soon"], 2],
    ["an interval below 1 s", ["generate", "x", "--interval", "0.5"], 2],
    [
      "one image for the model that fuses several",
      ["generate", "x", "-m", "kling-1.6-elements", "-i", "https://x.example/1"],
      2,
    ],
    ["a saved file without waiting", ["generate", "x", "--no-wait", "-o", "x.mp4"], 2],
    ["two services", ["generate", "x", "--local", "--base-url", "https://x.example"], 2],
    ["a base url that is not secure", ["generate", "x", "--base-url", "http://video.example"], 2],
    ["JSON and video on one stdout", ["generate", "x", "--json", "-o", "-"], 2],
    ["a folder that does not exist", ["generate", "x", "-o", "/nowhere/at/all/x.mp4"], 9],
  ];
  test.each(refused)("for %s", async (_, argv, code) => {
    const world = await createWorld();
    const run = await world.vidgen(...argv);
    expect(run).toMatchObject({ code, stdout: "", stderr: expect.stringMatching(/^(error: \S|\{)/) });
    expect(world.requests).toEqual([]);
  });

  test("when the target exists, and it stays as it was; --overwrite replaces it", async () => {
    const world = await createWorld();
    const file = join(world.folder, "fox.mp4");
    writeFileSync(file, "precious");
    const run = await world.vidgen("generate", "a fox", "-o", file);
    expect(run).toMatchObject({ code: 9, stdout: "", stderr: expect.stringContaining("nothing was charged") });
    expect([readFileSync(file, "utf8"), world.requests]).toEqual(["precious", []]);
    expect(await world.vidgen("generate", "a fox", "-o", file, "--overwrite")).toMatchObject({ code: 0 });
    expect(readFileSync(file)).toEqual(video("a fox"));
  });

  test("without a key: exit 3, and three ways out", async () => {
    const world = await createWorld();
    world.env.VIDGEN_API_KEY = undefined;
    const { code, stderr } = await world.vidgen("generate", "a fox");
    expect(code).toBe(3);
    for (const way of ["vidgen login", "VIDGEN_API_KEY", "--local"]) expect(stderr).toContain(way);
    expect(world.requests).toEqual([]);
  });

  test("without a base url: exit 3, and two ways out", async () => {
    const world = await createWorld();
    world.env.VIDGEN_BASE_URL = undefined;
    const { code, stderr } = await world.vidgen("generate", "a fox");
    expect(code).toBe(3);
    for (const way of ["--base-url", "VIDGEN_BASE_URL"]) expect(stderr).toContain(way);
  });
});

describe("the start request is sent once", () => {
  const json = (body: unknown, status = 200, headers = {}) => Response.json(body, { status, headers });
  const cut = () => new Response(new ReadableStream({ start: (stream) => stream.error(failure("ECONNRESET", true)) }));
  const unclear: [string, () => Response][] = [
    [
      "a reset after it was sent",
      () => {
        throw failure("ECONNRESET", true);
      },
    ],
    [
      "a failure that does not say whether it was sent",
      () => {
        throw new Error("who knows");
      },
    ],
    [
      "a failure with `sent: false` that is not the transport's",
      () => {
        throw Object.assign(new Error("who knows"), { sent: false });
      },
    ],
    ["500", () => json({ error: "oops" }, 500)],
    ["502 with a page", () => new Response("<html>Bad gateway</html>", { status: 502 })],
    ["408", () => json({}, 408)],
    ["a redirect", () => new Response(null, { status: 307, headers: { Location: `${baseUrl}/elsewhere` } })],
    ["a page", () => new Response("<html>Welcome</html>")],
    ["JSON without an id", () => json({ success: true, data: { status: "processing" } })],
    ["an answer that breaks off", cut],
    [
      "an answer that ends before its id as if it were whole",
      () => new Response('{"success":true,"data":{"status":"proc'),
    ],
  ];
  test.each(unclear)("and never again after %s: exit 6, it may have been charged", async (_, answer) => {
    const world = await createWorld();
    world.faults.push(onStart(answer));
    const run = await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"));
    expect(run).toMatchObject({ code: 6, stdout: "", stderr: expect.stringContaining("may have been charged") });
    expect(run.stderr).toContain(world.requests[0]?.headers.get("Idempotency-Key"));
    expect([world.requests.filter(isStart).length, readdirSync(world.folder)]).toEqual([1, []]);
  });

  test("and never again when no answer comes for two minutes", async () => {
    const world = await createWorld();
    world.faults.push(async (request) => {
      if (isStart(request)) await world.io.sleep(3_600_000, request.signal);
      return undefined;
    });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 6 });
    expect([world.requests.filter(isStart).length, Math.round(world.io.now() / 1000)]).toEqual([1, 120]);
  });

  test.each([
    ["accepted", undefined, 0],
    ["refused", () => json({}, 400), 0],
    ["not sent", () => Promise.reject(failure("ENOTFOUND", false)), 0],
    ["unknown", () => json({}, 500), 1],
  ])(
    "and counts as unsettled until its outcome is written down; for good when that is unknown: %s",
    async (_, answer, left) => {
      const world = await createWorld();
      const { unsettled } = world.io;
      const sizes: number[] = [];
      world.faults.push((request) => {
        sizes.push(unsettled.has(request.headers.get("Idempotency-Key") ?? "") ? unsettled.size : -1);
        return sizes.length === 1 ? json({}, 429) : answer?.();
      });
      const { sleep } = world.io;
      world.io.sleep = (ms, signal) => {
        // The line that tells how long the request is out waits 30 s.
        if (ms < 30_000) sizes.push(unsettled.size);
        return sleep(ms, signal);
      };
      await world.vidgen("generate", "a fox", "--no-wait");
      expect([sizes.slice(0, 3), unsettled.size]).toEqual([[1, 0, 1], left]);
    },
  );

  const refused: [number, unknown, number][] = [
    [400, { error: { code: "invalid", message: "no such model" } }, 1],
    [401, {}, 3],
    [402, {}, 7],
    [403, { message: "not for you" }, 3],
    [404, "nothing here", 1],
    [409, { error: "conflict" }, 1],
    [200, { success: false, message: "the prompt is not allowed" }, 1],
    [200, { success: false, error: "Insufficient credits" }, 7],
  ];
  test.each(refused)("and not again when it is refused: HTTP %i %j is exit %i", async (status, body, code) => {
    const world = await createWorld();
    world.faults.push(onStart(() => json(body, status)));
    const run = await world.vidgen("generate", "a fox");
    expect(run).toMatchObject({ code, stdout: "" });
    expect(run.stderr).not.toMatch(/charged|nothing was sent/i);
    expect(world.requests).toHaveLength(1);
  });

  test("but is tried again while nothing could be sent", async () => {
    const world = await createWorld();
    world.faults.push(
      onStart(() => {
        throw failure("ECONNREFUSED", false);
      }, 3),
    );
    const run = await world.vidgen("generate", "a fox", "--no-wait");
    expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining("Nothing was sent") });
    expect(world.requests).toHaveLength(4);
    expect(new Set(world.requests.map(({ headers }) => headers.get("Idempotency-Key"))).size).toBe(1);
  });

  test("and is given up within 60 s of that: exit 8, nothing was charged", async () => {
    const world = await createWorld();
    world.faults.push(
      onStart(() => {
        throw failure("ECONNREFUSED", false);
      }),
    );
    const run = await world.vidgen("generate", "a fox");
    expect(run).toMatchObject({ code: 8, stderr: expect.stringContaining("Nothing was sent, nothing was charged") });
    expect(run.stderr).toContain("Run `vidgen doctor` to diagnose the problem.");
    expect(world.requests.length).toBeGreaterThan(5);
    expect(world.io.now()).toBeLessThan(60_000);
  });

  test.each(["ENOTFOUND", "CERT_HAS_EXPIRED"])(
    "and is given up at once for %s, which time does not mend",
    async (code) => {
      const world = await createWorld();
      world.faults.push(
        onStart(() => {
          throw failure(code, false);
        }),
      );
      expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 8 });
      expect(world.requests).toHaveLength(1);
    },
  );

  test("and waits as long as a 429 says", async () => {
    const world = await createWorld();
    world.faults.push(onStart(() => json({}, 429, { "Retry-After": "17" }), 2));
    expect(await world.vidgen("generate", "a fox", "--no-wait")).toMatchObject({ code: 0 });
    expect(world.requests.map(({ at }) => at)).toEqual([0, 17_000, 34_000]);
  });

  test("and takes the id from an answer that ends too early as if it were whole", async () => {
    const world = await createWorld();
    world.faults.push(onStart(() => new Response('{"success":true,"data":{"id":"1b4e28ba","status":"proc')));
    expect(await world.vidgen("generate", "a fox", "--no-wait")).toMatchObject({ code: 0, stdout: "1b4e28ba\n" });
  });

  test.each([
    ["time mends", "ECONNREFUSED"],
    ["time does not mend", "ENOTFOUND"],
  ])("and after a 429 nobody says that nothing was sent, though then the connection fails as %s", async (_, code) => {
    const world = await createWorld();
    world.faults.push(
      onStart(() => json({ error: "busy" }, 429, { "Retry-After": "70" }), 1),
      onStart(() => {
        throw failure(code, false);
      }),
    );
    const run = await world.vidgen("generate", "a fox");
    expect(run).toMatchObject({
      code: 8,
      stderr: expect.stringMatching(/busy \(HTTP 429\).*could not be reached: e(conn|not)/),
    });
    expect(run.stderr).not.toMatch(/nothing was (sent|charged)/i);
    if (code === "ECONNREFUSED") expect(world.requests.length).toBeGreaterThan(4);
    expect(await world.vidgen("list", "--status", "refused")).toMatchObject({
      stdout: expect.stringContaining("a fox"),
    });
  });

  test("and is not sent in a row however little patience a 429 asks for", async () => {
    const world = await createWorld();
    world.faults.push(onStart(() => json({}, 429, { "Retry-After": "0" })));
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 8 });
    const times = world.requests.map(({ at }) => at);
    expect(Math.min(...times.slice(1).map((at, i) => at - (times[i] ?? 0)))).toBeGreaterThanOrEqual(500);
  });

  test("and gives up on 429 within two minutes: exit 8", async () => {
    const world = await createWorld();
    world.faults.push(onStart(() => json({ error: "busy" }, 429, { "Retry-After": "50" })));
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 8 });
    expect(world.requests.map(({ at }) => at)).toEqual([0, 50_000, 100_000]);
  });
});

describe("how it ends", () => {
  test("failed: exit 4, with the service's reason", async () => {
    const world = await createWorld();
    const run = await world.vidgen("generate", "a [fail] fox", "-o", join(world.folder, "fox.mp4"));
    expect(run).toMatchObject({
      code: 4,
      stdout: "",
      stderr: expect.stringContaining("the model run did not succeed"),
    });
    expect(readdirSync(world.folder)).toEqual([]);
  });

  test("failed with --json: one document on stderr", async () => {
    const world = await createWorld();
    const run = await world.vidgen("generate", "a [fail] fox", "--json");
    expect(run).toMatchObject({ code: 4, stdout: "" });
    const { error } = JSON.parse(run.stderr);
    const fields = ["code", "message", "hint", "id", "attempt", "charged", "http_status", "next"];
    expect(Object.keys(error)).toEqual(fields);
    // A preview costs nothing.
    const hint = "Try another prompt or model.";
    expect(error).toMatchObject({ code: "failed", id: expect.stringMatching(uuid), hint });
  });

  test("the time is over: exit 5, with the id and the command to continue", async () => {
    const world = await createWorld();
    const file = join(world.folder, "a fox.mp4");
    const run = await world.vidgen("generate", "a fox", "--timeout", "1s", "-o", file);
    expect(run.code).toBe(5);
    expect(run.stderr.replace(file, "<file>")).toMatch(new RegExp(`vidgen wait ${uuid} -o '<file>'`));
    expect(world.io.now()).toBe(1000);
  });

  test("not enough credits: exit 7", async () => {
    const world = await createWorld({ credits: 5 });
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 7, stdout: "" });
  });

  test("the video cannot be saved: exit 9, with the id and the command to continue; the generation did not fail", async () => {
    const world = await createWorld();
    const file = join(world.folder, "fox.mp4");
    world.faults.push((request) => (request.url.startsWith(mediaUrl) ? new Response("<html>sorry</html>") : undefined));
    const run = await world.vidgen("generate", "a fox", "-o", file);
    expect(run).toMatchObject({ code: 9, stdout: "", stderr: expect.stringMatching(`vidgen wait ${uuid} -o`) });
    expect(run.stderr).toContain(mediaUrl);
    expect(existsSync(file)).toBe(false);
  });

  test("the time is over while the video is fetched: exit 5, with the id, its address and the command to continue", async () => {
    const world = await createWorld();
    const headers = { "Retry-After": "99999" };
    world.faults.push((request) =>
      request.url.startsWith(mediaUrl) ? new Response(null, { status: 503, headers }) : undefined,
    );
    const run = await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"), "--timeout", "2m");
    expect(run).toMatchObject({ code: 5, stdout: "", stderr: expect.stringMatching(`vidgen wait ${uuid} -o`) });
    expect(run.stderr).toContain(mediaUrl);
    expect(world.io.now()).toBe(120_000);
  });

  test("a file that has come into being meanwhile is not replaced", async () => {
    const world = await createWorld();
    const file = join(world.folder, "fox.mp4");
    world.faults.push((request) => void (request.url.startsWith(mediaUrl) && writeFileSync(file, "precious")));
    expect(await world.vidgen("generate", "a fox", "-o", file)).toMatchObject({ code: 9, stdout: "" });
    expect(readFileSync(file, "utf8")).toBe("precious");
    // Paid for, and whole: the next run has nothing left to fetch but the question whether it has changed.
    expect(readFileSync(findPart(world.folder))).toEqual(video("a fox"));
  });
});

describe("following", () => {
  const looks = (world: Awaited<ReturnType<typeof createWorld>>) =>
    world.requests.filter(({ method }) => method === "GET").map(({ at }) => at);

  test("looks every 5 to 10 s, closer to 10 s early on", async () => {
    const world = await createWorld({ renderMs: 150_000 });
    await world.vidgen("generate", "a fox");
    const times = [0, ...looks(world)];
    const gaps = times.slice(1).map((at, i) => at - (times[i] ?? 0));
    expect(Math.max(...gaps)).toBe(9_500);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(5_000);
    expect([gaps[0], gaps.at(-1)]).toEqual([9_500, 5_000]);
  });

  test("looks as often as --interval says", async () => {
    const world = await createWorld({ renderMs: 5_500 });
    await world.vidgen("generate", "a fox", "--interval", "2s");
    expect(looks(world)).toEqual([2_000, 4_000, 6_000]);
  });

  test("survives network problems, 5xx, 429 and HTML pages, and reports them every half minute in place of the progress", async () => {
    const world = await createWorld();
    const trouble = [
      () => Promise.reject(failure("ECONNRESET", true)),
      () => new Response("oops", { status: 503 }),
      () => new Response("<html>"),
      () => new Response("{", { status: 200 }),
      () => new Response("slow down", { status: 429, headers: { "Retry-After": "40" } }),
    ];
    world.faults.push((request) => (isStart(request) ? undefined : trouble.shift()?.()));
    const run = await world.vidgen("generate", "a fox");
    expect(run.code).toBe(0);
    const lines = run.stderr.split("\n").map((line) => line.replace(/ for \S+| [0-9a-f-]{36}/, ""));
    expect(lines.slice(1, 4)).toEqual([
      "Generating (wan-2.5)",
      "No usable response (HTTP 200); retrying",
      "No usable response (slow down (HTTP 429)); retrying  30 s",
    ]);
    expect((looks(world)[5] ?? 0) - (looks(world)[4] ?? 0)).toBeGreaterThanOrEqual(40_000);
  });

  test("a day of Retry-After costs a minute of the time to wait", async () => {
    const world = await createWorld();
    const later = [new Response("", { status: 503, headers: { "Retry-After": "86400" } })];
    world.faults.push((request) => (isStart(request) ? undefined : later.shift()));
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    expect((looks(world)[1] ?? 0) - (looks(world)[0] ?? 0)).toBe(60_000);
  });

  test("a look that hangs is cut by the time to wait", async () => {
    const world = await createWorld();
    world.faults.push(async (request) => {
      if (!isStart(request)) await world.io.sleep(86_400_000, request.signal);
      return undefined;
    });
    expect(await world.vidgen("generate", "a fox", "--timeout", "5m")).toMatchObject({ code: 5 });
    expect(world.io.now()).toBe(300_000);
  });

  const reply = (change: object) => async (request: Request) => {
    const id = new URL(request.url).searchParams.get("id");
    const body = {
      id,
      status: "processing",
      video_url: null,
      thumbnail_url: null,
      created_at: "2026-01-01T00:00:00.000Z",
      ...change,
    };
    return isStart(request) ? undefined : Response.json(body);
  };

  test("an unknown status is reported once and is not the end", async () => {
    const world = await createWorld();
    world.faults.push(reply({ status: "queued\u001b[31m" }));
    const run = await world.vidgen("generate", "a fox", "--timeout", "60s");
    expect(run.code).toBe(5);
    // Once while it runs, and as the last word when the wait ends.
    expect(run.stderr.match(/.*"queued".*/g)).toEqual([
      expect.stringContaining("treated as still running"),
      expect.stringContaining("last state"),
    ]);
  });

  test.each([null, "", " ", "javascript:alert(1)"])(
    "completed with the url %j is looked at for 60 s, then exit 1",
    async (video_url) => {
      const world = await createWorld();
      world.faults.push(reply({ status: "completed", video_url }));
      const run = await world.vidgen("generate", "a fox");
      expect(run).toMatchObject({ code: 1, stdout: "", stderr: expect.stringMatching(uuid) });
      expect(world.io.now()).toBeGreaterThanOrEqual(60_000);
      expect(world.io.now()).toBeLessThan(90_000);
    },
  );

  test.each([
    ["the time to wait is over before that", "--timeout", "20s", 20_000],
    ["it is asked more seldom than that", "--interval", "10m", 660_000],
  ])("completed without a url is not said to be running, though %s", async (_, flag, value, endsAtMs) => {
    const world = await createWorld();
    world.faults.push(reply({ status: "completed" }));
    const run = await world.vidgen("generate", "a fox", flag, value);
    expect(run).toMatchObject({ code: 1, stdout: "", stderr: expect.not.stringContaining("still generating") });
    expect(run.stderr).toContain("error: The generation is completed, but the service returned no video URL.");
    expect(run.stderr).toContain("`vidgen status <id> --json` shows the full response of the service.");
    expect(run.stderr).toMatch(new RegExp(`vidgen wait ${uuid}`));
    expect(world.io.now()).toBe(endsAtMs);
  });

  test.each(["COMPLETED", "succeeded", "Success"])("%s with an address is completed", async (status) => {
    const world = await createWorld();
    world.faults.push(reply({ status, video_url: "/videos/fox.mp4" }));
    const run = await world.vidgen("generate", "a fox", "--json");
    expect(JSON.parse(run.stdout)).toMatchObject({ status: "completed", video_url: `${baseUrl}/videos/fox.mp4` });
  });

  test.each([
    ["FAILED", 4],
    ["succeeded", 5],
  ])("%s without an address is exit %i", async (status, code) => {
    const world = await createWorld();
    world.faults.push(reply({ status }));
    expect(await world.vidgen("generate", "a fox", "--timeout", "60s")).toMatchObject({ code });
  });

  test("completed without a url and then running again is running when the time is over", async () => {
    const world = await createWorld();
    world.faults.push((request) => reply(world.io.now() < 20_000 ? { status: "completed" } : {})(request));
    expect(await world.vidgen("generate", "a fox", "--timeout", "3m")).toMatchObject({ code: 5 });
  });

  test("a new id that is not known everywhere yet is given 60 s", async () => {
    const world = await createWorld();
    world.faults.push((request) => (!isStart(request) && world.io.now() < 30_000 ? goneReply() : undefined));
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 0 });
    world.faults.unshift((request) => (isStart(request) ? undefined : goneReply()));
    expect(await world.vidgen("generate", "a fox")).toMatchObject({ code: 10, stderr: expect.stringMatching(uuid) });
  });

  test("401 ends it with the id and the command to continue", async () => {
    const world = await createWorld();
    world.faults.push((request) => (isStart(request) ? undefined : new Response(null, { status: 401 })));
    expect(await world.vidgen("generate", "a fox")).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(`vidgen wait ${uuid}`),
    });
  });

  test("nothing that the service says can move the cursor or colour the terminal", async () => {
    const world = await createWorld();
    world.faults.push(reply({ status: "failed", error: "\u001b[2J\u001b]0;title\u0007bad\u009b31m \u202eluck\r" }));
    const text = await world.vidgen("generate", "a fox");
    const document = await world.vidgen("generate", "a fox", "--json");
    expect(text.stderr).toContain("bad");
    for (const { stderr } of [text, document]) expect(stderr).not.toMatch(/[^\P{Cc}\n]|\u202e/u);
  });
});

describe("while the start request is out", () => {
  const [hidden, shown] = ["\u001b[?25l", "\u001b[?25h"];
  const isGone = (stderr: string) => stderr.lastIndexOf(shown) > stderr.lastIndexOf(hidden);

  test.each([
    ["it is taken", () => undefined, 0],
    ["it is refused", () => new Response(null, { status: 401 }), 3],
  ])("a terminal shows that it is, until %s", async (_, answer, code) => {
    const world = await createWorld();
    world.isTerminal = true;
    // Drawing takes real time: meanwhile the two minutes that an answer may take must not pass.
    world.io.sleep = () => new Promise(() => {});
    world.faults.push(async () => {
      await expect.poll(() => world.printed.stderr).toContain("Starting...");
      return answer();
    });
    const run = await world.vidgen("generate", "a fox", "--no-wait");
    expect([run.code, isGone(run.stderr)]).toEqual([code, true]);
    expect(run.stderr.slice(run.stderr.lastIndexOf(shown))).not.toContain("Starting...");
  });

  test("elsewhere it is not mentioned", async () => {
    const world = await createWorld();
    expect((await world.vidgen("generate", "a fox")).stderr).not.toContain("Starting...");
  });
});

describe("--verbose", () => {
  test("shows each request and reply, and never the key", async () => {
    const world = await createWorld();
    const run = await world.vidgen("generate", "a fox", "--verbose", "-o", join(world.folder, "fox.mp4"));
    expect(run.stderr).toContain(`> POST ${baseUrl}/api/generate`);
    expect(run.stderr).toMatch(/< 200 GET \S+\/api\/generation-status\?id=\S+ \(\d+ ms\)/);
    expect(run.stderr).toContain(`> GET ${mediaUrl}/`);
    expect(run.stderr).not.toContain(apiKey);
  });

  test("a service that echoes the key does not get it printed", async () => {
    const world = await createWorld();
    world.faults.push(onStart(() => Response.json({ error: `bad key ${apiKey}` }, { status: 401 })));
    for (const flag of ["--verbose", "--json"]) {
      const run = await world.vidgen("generate", "a fox", flag);
      expect(run.stdout + run.stderr).not.toContain(apiKey);
    }
  });
});

describe("Ctrl-C", () => {
  test("while it runs: exit 130, the id and the command to continue, nothing half saved", async () => {
    const world = await createWorld();
    world.faults.push((request) => void (isStart(request) || world.press("Ctrl-C")));
    const run = await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"));
    expect(run).toMatchObject({ code: 130, stdout: "", stderr: expect.stringMatching(`vidgen wait ${uuid} -o`) });
    expect(readdirSync(world.folder)).toEqual([]);
  });

  test("while the start request is out: waits for its id", async () => {
    const world = await createWorld();
    world.faults.push(async (request) => {
      if (!isStart(request)) return undefined;
      world.press("Ctrl-C");
      await world.io.sleep(5_000);
      return undefined;
    });
    const run = await world.vidgen("generate", "a fox");
    expect(run).toMatchObject({ code: 130, stdout: "", stderr: expect.stringMatching(`vidgen wait ${uuid}`) });
    expect(run.stderr).toContain("waiting up to 10 s");
  });

  test("while the start request is out with --no-wait: prints the id, and exit 130 all the same", async () => {
    const world = await createWorld();
    world.faults.push((request) => void (isStart(request) && world.press("Ctrl-C")));
    const run = await world.vidgen("generate", "a fox", "--no-wait");
    expect(run).toMatchObject({
      code: 130,
      stdout: expect.stringMatching(uuid),
      stderr: expect.stringContaining("wait"),
    });
  });

  test("while the start request is out and no answer comes: leaves after 10 s, it may have been charged", async () => {
    const world = await createWorld();
    world.faults.push(async (request) => {
      world.press("Ctrl-C");
      await world.io.sleep(60_000, request.signal);
      return undefined;
    });
    const run = await world.vidgen("generate", "a fox");
    expect(run).toMatchObject({
      code: 6,
      stderr: expect.stringContaining("interrupted before the service responded. It may have"),
    });
    expect(Math.round(world.io.now() / 1000)).toBe(10);
  });

  test("twice while the start request is out: leaves at once", async () => {
    const world = await createWorld();
    world.faults.push(async (request) => {
      world.press("Ctrl-C");
      world.press("Ctrl-C");
      await world.io.sleep(60_000, request.signal);
      return undefined;
    });
    const run = await world.vidgen("generate", "a fox");
    expect(run).toMatchObject({
      code: 6,
      stderr: expect.stringContaining("interrupted before the service responded. It may have"),
    });
    expect(world.io.now()).toBe(0);
    expect(await world.vidgen("list", "--status", "unknown")).toMatchObject({
      stdout: expect.stringContaining("a fox"),
    });
  });

  test("while nothing could be sent: nothing was charged", async () => {
    const world = await createWorld();
    world.faults.push(() => {
      world.press("Ctrl-C");
      throw failure("ECONNREFUSED", false);
    });
    const run = await world.vidgen("generate", "a fox");
    expect(run).toMatchObject({ code: 130, stderr: "Interrupted. Nothing was sent, nothing was charged.\n" });
  });
});

test("the callback gets the documented body", async () => {
  const world = await createWorld();
  await world.vidgen("generate", "a fox", "--callback-url", "https://cb.example/x");
  const fields = ["id", "status", "video_url", "thumbnail_url", "created_at", "completed_at"];
  expect(world.callbacks.map((body) => Object.keys(body as object))).toEqual([fields]);
});

test("-o into an existing folder puts the video inside", async () => {
  const world = await createWorld();
  const folder = join(world.folder, "clips");
  mkdirSync(folder);
  expect((await world.vidgen("generate", "a fox", "-o", folder)).stdout).toContain(join(folder, "a-fox-wan-2.5-"));
});

describe("a template for -o", () => {
  test("is filled in; the command to continue names the very file", async () => {
    const world = await createWorld();
    writeFileSync(join(world.folder, "a-fox-1.mp4"), "precious");
    const place = join(world.folder, "{slug}-{n}.mp4");
    const run = await world.vidgen("generate", "A fox!", "-o", place);
    expect(run).toMatchObject({ code: 0, stdout: `${join(world.folder, "a-fox-2.mp4")}\n` });
    world.faults.push((request) => void (isStart(request) || world.press("Ctrl-C")));
    const broken = await world.vidgen("generate", "A fox!", "-o", place);
    expect(broken).toMatchObject({ code: 130, stderr: expect.stringContaining("{slug}-3.mp4") });
    expect(readdirSync(world.folder).sort()).toEqual(["a-fox-1.mp4", "a-fox-2.mp4"]);
  });

  test.each(["{slg}.mp4", "{id}/fox.mp4"])("%s is refused, and nothing is sent", async (name) => {
    const world = await createWorld();
    const run = await world.vidgen("generate", "a fox", "-o", join(world.folder, name));
    expect(run).toMatchObject({ code: 2, stdout: "" });
    expect(world.requests).toEqual([]);
  });

  test("a name that it comes to and that exists is refused, and nothing is sent", async () => {
    const world = await createWorld();
    writeFileSync(join(world.folder, "a-fox-wan-2.5.mp4"), "precious");
    const run = await world.vidgen("generate", "a fox", "-o", join(world.folder, "{slug}-{model}.mp4"));
    expect(run).toMatchObject({ code: 9, stderr: expect.stringContaining("nothing was charged") });
    expect(world.requests).toEqual([]);
  });
});

test("a machine that cannot fetch videos is told so before anything is sent or recorded; --no-wait needs no delivery", async () => {
  const world = await createWorld();
  world.io.loadDelivery = async () => {
    throw new VidgenError("output", "No replies can be read here.");
  };
  expect(await world.vidgen("generate", "a fox", "-o", join(world.folder, "fox.mp4"))).toMatchObject({
    code: 9,
    stderr: expect.stringContaining("No replies can be read here. Nothing was sent, nothing was charged."),
  });
  expect([world.requests, readdirSync(world.folder)]).toEqual([[], []]);
  expect((await world.vidgen("generate", "a fox", "--no-wait")).code).toBe(0);
  expect(world.requests).toHaveLength(1);
});
