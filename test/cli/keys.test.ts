import { readdirSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { connectAgent } from "../mcp/agent.ts";
import { apiKey, baseUrl, createWorld as createMachine, mediaUrl, onStart, type Run, type World } from "../vidgen.ts";

/** A key that is saved for another service, with everything in it that has another form somewhere. */
const savedKey = 'Vk_Live_Ca"n\\a/r+Y%25&=7f3a91c04d5e';
/** One that can be a host name, which is in lower case then. */
const hostKey = "Mixed-Case-Key-0042";
const keys = [apiKey, savedKey, hostKey];
const both = `${apiKey} and ${savedKey}`;

/** A key in all its forms, and the halves of it that are left where a text is cut. */
function formsOf(key: string): string[] {
  const json = JSON.stringify(key).slice(1, -1);
  const encoded = [encodeURIComponent(key), Buffer.from(key).toString("base64")];
  return [key, json, ...encoded, key.slice(0, 10), key.slice(-10)].map((form) => form.toLowerCase());
}

const findForms = (text: string, searched: string[]) =>
  searched.flatMap(formsOf).filter((form) => text.toLowerCase().includes(form));

/** A machine with both keys, and a folder that has one of them in its name. */
async function createWorld() {
  const world = await createMachine();
  await mkdir(world.home, { recursive: true });
  const config = { base_url: baseUrl, keys: { "https://other.example": savedKey, "https://another.example": hostKey } };
  await writeFile(join(world.home, "config.json"), JSON.stringify(config));
  const place = join(world.folder, `for-${apiKey}`);
  await mkdir(place);
  return { world, place };
}

/** Fails where a key was printed; `hidden` is how often one would have been. */
function check(argv: readonly string[], { stdout, stderr }: Pick<Run, "stdout" | "stderr">): number {
  expect([argv, findForms(stdout, keys), findForms(stderr, keys)]).toEqual([argv, [], []]);
  return (stdout + stderr).split("[key]").length - 1;
}

/** Videos, which the service makes of the prompt, and what a person has written. */
const isLeftOut = (name: string) => /\.mp4(\.\w+\.part)?$|\.csv$|^config\.json$|^journal\.jsonl$/.test(name);

/** Fails where the key of the service was written. */
function checkFiles(world: World): number {
  const files = [world.folder, world.home].flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !isLeftOut(entry.name))
      .map((entry) => join(entry.parentPath, entry.name)),
  );
  for (const file of files) expect([file, findForms(readFileSync(file, "utf8"), [apiKey])]).toEqual([file, []]);
  return files.length;
}

/** What a careless service says of a key. */
const gossip = `Bearer ${both}, ${Buffer.from(savedKey).toString("base64")}, ${"and on ".repeat(60)}${apiKey}${savedKey}`;

const scenes: [name: string, argv: (place: string) => string[], fault?: (world: World) => void][] = [
  ["the prompt", () => ["generate", `a fox ${both}`]],
  ["the prompt, not waited for", () => ["generate", both, "--no-wait"]],
  ["a field", () => ["generate", "a fox", "--set", `note=${both}`, "--set", `deep={"${apiKey}":["${apiKey}"]}`]],
  ["the model", () => ["generate", "a fox", "-m", savedKey]],
  [
    "addresses",
    () => ["generate", "a fox", "--callback-url", `https://x.example/${apiKey}`, "-i", `https://${apiKey}.example`],
  ],
  ["the path", (place) => ["generate", "a fox", "-o", `${place}/`, "--write-info-json"]],
  [
    "the path, again",
    (place) => ["generate", `another ${both}`, "-o", `${place}/{slug}.mp4`, "--write-info-json", "--overwrite"],
  ],
  ["a path that cannot be", () => ["generate", "a fox", "-o", `/nowhere/${apiKey}/fox.mp4`]],
  ["a place with unknown braces", () => ["generate", "a fox", "-o", `{${apiKey}}.mp4`]],
  ["a value that is too long for its message", () => ["generate", "a fox", "-a", `${"x".repeat(45)}${apiKey}`]],
  ["another, of the other key", () => ["generate", "a fox", "--callback-url", `${"x".repeat(30)}${savedKey}`]],
  ["an image that is no file", () => ["generate", "a fox", "-i", `${apiKey}.png`]],
  ["a time to wait that is over", (place) => ["generate", "a fox", "-o", `${place}/late.mp4`, "--timeout", "5s"]],
  ["the base URL", () => ["generate", "a fox", "--base-url", `${baseUrl}/${apiKey}`, "--timeout", "30s"]],
  ["the host of the base URL", () => ["generate", "a fox", "--base-url", `https://${hostKey}.example`]],
  ["a base URL with a query", () => ["generate", "a fox", "--base-url", `${baseUrl}/?key=${apiKey}`]],
  ["a dry run", (place) => ["generate", `a fox ${both}`, "--dry-run", "--set", `note=${both}`, "-o", place]],
  [
    "a dry run at another address",
    () => ["generate", "a fox", "--dry-run", "--base-url", `https://x.example/${apiKey}`],
  ],
  ["a value that is a flag", () => ["generate", "a fox", "-o", `--${apiKey}`]],
  ["an unknown command", () => [apiKey, savedKey]],
  ["an unknown flag", () => ["status", `--${apiKey}`]],
  ["a topic", () => ["help", apiKey]],
  ["an id", () => ["status", `id-${apiKey}`]],
  ["ids", (place) => ["wait", `id-${apiKey}`, savedKey, "-o", `${place}/{id}.mp4`]],
  ["a refusal", () => ["generate", "a fox"], refuse(400)],
  ["a 401", () => ["generate", "a fox"], refuse(401)],
  ["a 502", () => ["generate", `a ${apiKey} hare`], refuse(502)],
  ["the same again", () => ["generate", `a ${apiKey} hare`]],
  ["a long reply", () => ["generate", "a fox", "--no-wait"], longReply],
  ["a state", () => ["generate", "an owl", "--timeout", "20s"], polls({ status: gossip })],
  ["a failure", () => ["generate", "an owl", "--timeout", "20s"], polls({ status: "failed", error: gossip })],
  ["the ETag", (place) => ["generate", "an owl", "-o", `${place}/owl.mp4`, "--overwrite"], withEtag],
  ["the words of the media address", (place) => ["generate", "a bear", "-o", `${place}/bear.mp4`], badMedia],
  [
    "the address of the video",
    () => ["generate", "a wolf"],
    polls({ status: "completed", video_url: `${mediaUrl}/${apiKey}` }),
  ],
  ["a defect", () => ["generate", "a fox"], crash],
  ["the list", () => ["list"]],
  ["the attempt that is unclear", () => ["list", "--status", "unknown"]],
  ["what is open", (place) => ["wait", "--all", "-o", `${place}/{id}.mp4`]],
  ["what completion offers", () => ["__complete", "--", "status"]],
  ["what completion is asked", () => ["__complete", `--current=${apiKey}`, "--", "generate"]],
  ["the setup", () => ["doctor"]],
  ["the setup at another address", () => ["doctor", "--base-url", `${baseUrl}/${apiKey}`]],
  ["what was forgotten", () => ["list", "--forget", apiKey]],
  ["a login", () => ["login", "--with-token", "--base-url", `${baseUrl}/${savedKey.slice(0, 8)}${apiKey}`]],
  ["a logout", () => ["logout", "--base-url", `https://${apiKey}.example`]],
];

function refuse(status: number) {
  return (world: World) =>
    void world.faults.push(onStart(() => Response.json({ error: { message: gossip } }, { status })));
}

function longReply(world: World): void {
  const data = { id: "a-long-one", status: "processing" };
  const text = JSON.stringify({
    success: true,
    data,
    note: "x".repeat(15_900),
    token: savedKey,
    more: both.repeat(400),
  });
  for (let room = 0; room < 40; room++)
    world.faults.push(onStart(() => new Response(text.replace("xx", "x".repeat(room))), 1));
}

function polls(body: object) {
  return (world: World) =>
    void world.faults.push((request) =>
      request.method === "GET" && request.url.startsWith(baseUrl)
        ? Response.json({ id: new URL(request.url).searchParams.get("id"), ...body })
        : undefined,
    );
}

function withEtag(world: World): void {
  let requests = 0;
  world.faults.push((request) => {
    if (!request.url.startsWith(mediaUrl)) return undefined;
    const headers = { ETag: `"${apiKey}"`, "Content-Length": "1000" };
    return requests++ > 2 ? undefined : new Response("0000ftypisom", { headers });
  });
}

function badMedia(world: World): void {
  world.faults.push((request) =>
    request.url.startsWith(mediaUrl) ? new Response(gossip, { status: 400, statusText: apiKey }) : undefined,
  );
}

function crash(world: World): void {
  world.faults.push(() => {
    throw Object.assign(new TypeError(`cannot read ${gossip}`), { sent: false });
  });
}

test.each([[["--quiet"]], [["--verbose"]], [["--json", "--verbose"]]])(
  "a key is hidden wherever it stands: %j",
  async (flags) => {
    const { world, place } = await createWorld();
    let hidden = 0;
    for (const [name, argvOf, fault] of scenes) {
      const argv = [...flags, ...argvOf(place)];
      world.faults = [];
      fault?.(world);
      world.stdin = argv.includes("login") ? apiKey : undefined;
      hidden += check([name, ...argv], await world.vidgen(...argv));
    }
    expect(hidden).toBeGreaterThan(flags.includes("--quiet") ? 20 : 40);
    expect(checkFiles(world)).toBeGreaterThan(0);
  },
);

test("so in events", async () => {
  const { world, place } = await createWorld();
  let hidden = 0;
  for (const [name, argvOf, fault] of scenes) {
    const [command = ""] = argvOf("");
    // A dry run has no events.
    if (!["generate", "wait"].includes(command) || argvOf("").includes("--dry-run")) continue;
    const argv = [...argvOf(place), "--events"];
    world.faults = [];
    fault?.(world);
    hidden += check([name, ...argv], await world.vidgen(...argv));
  }
  expect(hidden).toBeGreaterThan(40);
});

test("so at a terminal, of any width", async () => {
  const { world, place } = await createWorld();
  world.isTerminal = true;
  let hidden = 0;
  for (const [name, argvOf, fault] of scenes) {
    const argv = [...argvOf(place), "--no-input"];
    // It would wait for the key to be typed.
    if (argv[0] === "login") continue;
    world.faults = [];
    fault?.(world);
    hidden += check([name, ...argv], await world.vidgen(...argv));
  }
  const other = await createWorld();
  await other.world.vidgen("generate", `a fox ${both}`, "--no-wait");
  await other.world.vidgen("generate", "an owl", "-o", `${other.place}/o.mp4`);
  other.world.isTerminal = true;
  for (let columns = 20; columns < 90; columns++) {
    other.world.columns = columns;
    hidden += check([`list of ${columns}`], await other.world.vidgen("list"));
  }
  expect(hidden).toBeGreaterThan(100);
});

test("so in a batch: its rows, its results and its status; and no row is paid for twice", async () => {
  const { world, place } = await createWorld();
  const shots = join(world.folder, "shots.csv");
  const rows = [
    `fox-${apiKey},a fox ${apiKey},x`,
    `owl,[fail: ${apiKey}],${apiKey}`,
    `${"i".repeat(50)}${apiKey},a hare,y`,
  ];
  let cells = ["id,prompt,word", ...rows, ""].join("\n");
  const argv = [
    "batch",
    "-",
    "--input-format",
    "csv",
    "--results",
    `${place}/shots.jsonl`,
    "-y",
    "--set",
    `note=${apiKey}`,
  ];
  const run = async (...more: string[]) => {
    world.stdin = cells;
    const ran = await world.vidgen(...argv, ...more);
    return { ...ran, hidden: check([...argv, ...more], ran) };
  };
  const saving = ["-o", `${place}/{id}-{word}.mp4`, "--write-info-json"];
  const first = await run(...saving);
  expect([first.code, first.hidden > 3]).toEqual([4, true]);
  const starts = () => world.requests.filter(({ method }) => method === "POST").length;
  expect(starts()).toBe(3);
  for (const flags of [["--json"], ["--events"], ["--verbose"]])
    expect([flags, (await run(...saving, ...flags)).code]).toEqual([flags, 4]);
  expect((await run(...saving, "--dry-run")).code).toBe(0);
  cells = cells.replace("a hare", "another hare");
  expect(await run(...saving)).toMatchObject({ code: 2, stderr: expect.stringContaining("is a different request") });
  expect(starts()).toBe(3);
  for (const flags of [[], ["--json"]]) {
    const told = ["batch", "status", `${place}/shots.jsonl`, ...flags];
    check(told, await world.vidgen(...told));
  }
  await writeFile(shots, `id,id,${apiKey}\n${cells}\n${cells}`);
  check(["faults"], await world.vidgen("batch", shots, "-o", place));
  check(["no rows"], await world.vidgen("batch", `${place}/${apiKey}.csv`));
  expect(checkFiles(world)).toBeGreaterThan(2);
});

test("so to an AI agent: results, errors and progress", async () => {
  const { world, place } = await createWorld();
  const agent = await connectAgent(world, "--verbose");
  const started = await agent.call("generate_video", { prompt: `a fox ${both}` });
  await agent.call("generate_video", { prompt: "a fox", aspectRatio: apiKey });
  await agent.call("generate_video", { prompt: "a fox", images: [`${"x".repeat(190)}${apiKey}.png`] });
  await agent.call("generate_video", { prompt: "a fox", [apiKey]: 1 });
  polls({ status: gossip })(world);
  await agent.call("get_video", { id: started.value.id, wait_seconds: 20 }, { onprogress: () => {} });
  world.faults = [];
  await agent.call("save_video", { id: started.value.id, path: `for-${apiKey}/fox.mp4` });
  await agent.call("save_video", { id: `id-${apiKey}`, path: `../${apiKey}` });
  await agent.call("list_videos");
  await agent.leave();
  expect(check(["mcp"], agent.printed)).toBeGreaterThan(5);
  expect(readdirSync(place)).toEqual(["fox.mp4"]);
});

test("so in a callback that is received", async () => {
  const { world } = await createWorld();
  const ended = world.vidgen("listen", "--port", "0", "--no-check", "--forward", `https://x.example/${apiKey}`);
  const address = () => /--callback-url (\S+)/.exec(world.printed.stderr)?.[1];
  while (!address()) await new Promise((resolve) => setImmediate(resolve));
  for (const id of ["an-id", apiKey, `12345${apiKey}`])
    await fetch(address() ?? "", {
      method: "POST",
      body: JSON.stringify({ id, status: `done ${apiKey}`, video_url: `https://x.example/${apiKey}` }),
    });
  world.press("Ctrl-C");
  expect(check(["listen"], await ended)).toBeGreaterThan(0);
});

test("so in a question", async () => {
  const { world } = await createWorld();
  world.isTerminal = true;
  world.answers = [["API key for", `${apiKey}\n`]];
  const run = await world.vidgen("login", "--base-url", `https://${hostKey}.example`);
  expect([check(["login"], run), run.stderr]).toEqual([
    expect.any(Number),
    expect.stringContaining("https://[key].ex"),
  ]);
});
