import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { join } from "node:path";
import { expect, test } from "vitest";
import { lacks } from "../../needs.ts";
import { createVllmOmni } from "../../server/engines/videos/fakes/vllm-omni.ts";
import { useLink } from "../../server/page/sign-in.ts";
import { createWorld, type World } from "../../vidgen.ts";

test.each([
  ["sgang:http://x", /"sgang:http:\/\/x"\. Did you mean sglang\?\n(.|\n)*`vidgen help real-models`/],
  [
    "wan-2.5=openruoter",
    /"wan-2\.5=openruoter"\. Did you mean wan-2\.5=openrouter\?\n(.|\n)*`vidgen help real-models`/,
  ],
  ["wan-2.5=localhost:8091", /"wan-2\.5=localhost:8091"\. Did you mean wan-2\.5=http:\/\/localhost:8091\?\n/],
  ["ftp://x", /Invalid engine: --engine "ftp:\/\/x"\.\n.*\[model=\]kind\[:url\]\[#upstream-model\], such as/],
  ["http//x", /Invalid engine/],
  ["", /Invalid engine: --engine ""/],
  ["preview#x", /Invalid engine/],
  ["=http://x", /Invalid engine/],
  ["a b=http://x", /Invalid engine/],
  ["ftp://u:canary@x", /Invalid engine: --engine "ftp:\/\/x"/],
  ["http://u:canary@x", /without a user name(.|\n)*VIDGEN_ENGINE_KEY/],
  ["http://x?key=canary", /without a user name(.|\n)*VIDGEN_ENGINE_KEY/],
  [
    "kling-1.6-elements=http://x",
    /kling-1\.6-elements: it needs 2 to 4 images.*kind is not named takes 1\.\n.*elements=vllm-omni:<url>.*elements=preview/,
  ],
  ["kling-1.6-elements=sglang:http://x", /it needs 2 to 4 images, and SGLang takes 1\./],
  ["http://x --engine http://x/v1/", /names http:\/\/x twice/],
  ["ray-3=preview --engine ray-3=preview", /names preview for ray-3 twice/],
  [
    "foo:http://x",
    /Invalid engine: --engine "foo:http:\/\/x"\.\n.*The kinds are preview, vllm-omni, sglang, fastvideo, tensorrt-llm, litellm/,
  ],
  ["ray-3=sglang", /--engine ray-3=sglang needs a URL\.\n.*sglang:http:\/\/gpu-1:8091/],
  ["preview:http://x", /Invalid engine: --engine "preview:http:\/\/x"/],
  ["sglang:http://u:canary@x", /without a user name/],
  ["foo:http://u:canary@x", /Invalid engine: --engine "foo:http:\/\/x"/],
  ["foo:http://x?key=canary", /Invalid engine: --engine "foo:http:\/\/x\?\.\.\."/],
  ["http://x --engine-timeout 5x", /--engine-timeout must be a time/],
  ["http://x --jobs 0", /--jobs must be a whole number from 1/],
  ["http://x --credits-per wan-2.5", /must be model=number/],
  ["http://x --credits-per wan-2.5=-1", /--credits-per wan-2\.5 must be a whole number from 0/],
  ["my-wan=http://x --credits-per wan-2.5=1", /no engine serves wan-2\.5\.\n.*The engines serve my-wan\./],
])("--engine %s is a usage error that says why, and shows no secret", async (flags, says) => {
  const world = await createWorld();
  const argv = flags === "" ? [""] : flags.split(/ (?=--)|(?<=--[a-z-]+) /);
  const { code, stdout, stderr } = await world.vidgen("serve", "--engine", ...argv);
  expect([code, stdout, stderr]).toEqual([2, "", expect.stringMatching(says)]);
  expect(stderr).not.toContain("canary");
});

test.each([
  [["--media", "videos"], /--media needs --database/],
  [
    ["--database", "postgres://db/vidgen", "--media", "videos", "--media-redirect"],
    /--media-redirect needs --media s3/,
  ],
  [["--backup", "copy.db", "--database", "postgres://db/vidgen"], /Use pg_dump to copy a PostgreSQL database/],
  [["--grace", "soon"], /--grace must be a time such as/],
  [["--keep", "30"], /--keep must be at least 1h, such as 30d; "30" is less/],
  [["--keep", "a month"], /--keep must be a time such as/],
  [["--keep-records", "30"], /--keep-records must be at least 1h/],
  [["--keep", "30d", "--keep-records", "7d"], /--keep-records must not be shorter than --keep/],
  [["--database", "mysql://u:canary@db/x"], /--database must be an address such as postgres:/],
  [["--public-url", "https://video.example"], /--public-url and --public-media-url are needed together/],
  [["--owner-key"], /--owner-key needs --database/],
  [["--for", "ci"], /--for must come after the --allow-network/],
  [["--allow-network", "10.0.0.0"], /--allow-network: 10.0.0.0 is not a network such as 10.0.0.0\/8/],
])("%j is a usage error", async (flags, says) => {
  const world = await createWorld();
  const { code, stdout, stderr } = await world.vidgen("serve", ...flags);
  expect([code, stdout, stderr]).toEqual([2, "", expect.stringMatching(says)]);
  expect(stderr).not.toContain("canary");
});

test("a key that no header can hold is a usage error, and is not shown", async () => {
  const world = await createWorld();
  world.env.VIDGEN_ENGINE_KEY = "canary canary";
  const { code, stderr } = await world.vidgen("serve", "--engine", "http://x");
  expect([code, stderr]).toEqual([2, expect.stringContaining("VIDGEN_ENGINE_KEY contains a space")]);
  expect(stderr).not.toContain("canary");
});

/** A world in which a `serve` with these flags runs, and what it prints. */
async function createServing(...flags: string[]) {
  const world = await createWorld();
  const fake = createVllmOmni();
  world.env.VIDGEN_ENGINE_KEY_GPU_1_8091 = "canary-engine-key";
  world.faults.push((request) => {
    const { hostname } = new URL(request.url);
    if (hostname === "gpu-1") return fake.fetch(request);
    if (hostname === "page") return new Response("<html>");
    // The service of this very process.
    return hostname === "127.0.0.1" ? fetch(request) : undefined;
  });
  const slept: number[] = [];
  const { sleep } = world.io;
  world.io.sleep = (ms, signal) => {
    slept.push(ms);
    return sleep(ms, signal);
  };
  const ended = world.vidgen("serve", "--port", "0", "--media-port", "0", ...flags);
  const { printed } = world;
  return { world, printed, slept, stop: () => stop(world, ended) };
}

function stop(world: World, ended: Promise<unknown>): Promise<unknown> {
  world.press("Ctrl-C");
  return ended;
}

const engines = [
  ...["--engine", "wan-2.5=http://gpu-1:8091/v1", "--engine", "ray-3=http://gpu-2:8091"],
  ...["--engine", "my-wan=http://page", "--engine", "preview"],
];

test("prints its key even if VIDGEN_API_KEY already has it", async () => {
  const first = await createServing("--json");
  await expect.poll(() => first.printed.stdout).toContain("}\n");
  const { api_key } = JSON.parse(first.printed.stdout);
  await first.stop();
  const { world } = first;
  world.env.VIDGEN_API_KEY = api_key;
  const ended = world.reboot().vidgen("serve", "--port", "0", "--media-port", "0", "--json");
  await expect.poll(() => world.printed.stdout).toContain("}\n");
  expect(JSON.parse(world.printed.stdout)).toMatchObject({ api_key });
  await stop(world, ended);
});

test.each([
  [[], 3_000],
  [["--grace", "1m30s"], 90_000],
])("with %j, a reply that is unfinished when it stops has %i ms", async (flags, ms) => {
  const { slept, printed, stop } = await createServing("--json", ...flags);
  await expect.poll(() => printed.stdout).toContain("}\n");
  const { base_url } = JSON.parse(printed.stdout);
  const reply = fetch(base_url, { method: "POST", body: new ReadableStream(), duplex: "half" } as RequestInit);
  const cut = expect(reply).rejects.toThrow("fetch failed");
  await expect.poll(async () => (await fetch(`${base_url}/healthz`)).status).toBe(200);
  await stop();
  await cut;
  expect(slept).toContain(ms);
});

test("accounts, without a login, are those of the service that runs on this machine", async () => {
  const { world, printed, stop } = await createServing("--json");
  await expect.poll(() => printed.stdout).toContain("}\n");
  Object.assign(world.env, { VIDGEN_BASE_URL: undefined, VIDGEN_API_KEY: undefined });
  const { base_url } = JSON.parse(printed.stdout);
  const made = await world.vidgen("accounts", "create", "guest", "--credits", "5");
  expect(made).toMatchObject({ code: 0, stdout: expect.stringMatching(/^vgs_[0-9a-f]{48}\n$/) });
  expect(made.stderr).toMatch(
    /On another machine, first run: ssh -N -L (\d+):127\.0\.0\.1:\1 -L (\d+):127\.0\.0\.1:\2 <this machine>\n/,
  );
  expect(made.stderr).toContain(`logs in with: vidgen login --base-url ${base_url}\n`);
  expect(made.stderr).toContain(`once, within 10 minutes: ${base_url}/?token=`);
  expect(await world.vidgen("accounts")).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^guest\t5\t.*\nlocal\t/),
  });
  expect(made.stderr).toMatch(/^Service: the one that runs in \S+service\n/);
  const linked = await world.vidgen("accounts", "link", "guest", "--for", "3d");
  expect(linked.stdout).toContain(`${base_url}/?token=`);
  expect(linked.stderr).toContain("The link signs in once, within 3d.");
  expect((await useLink(linked.stdout.trim())).status).toBe(200);
  await stop();
  const stopped = {
    code: 0,
    stderr: expect.stringMatching(/^Service: the one in \S+service, which is not running\n$/),
  };
  expect(await world.reboot().vidgen("accounts")).toMatchObject(stopped);
  expect(await world.vidgen("accounts", "link", "guest")).toMatchObject({
    code: 1,
    stdout: "",
    stderr: expect.stringContaining("there is no page while `vidgen serve` is not running"),
  });
});

test.each([
  ["accounts", "--local"],
  ["accounts"],
  ["accounts", "create", "ci", "--local"],
  ["accounts", "disable", "ci", "--local"],
])("`%s %s %s` makes no service: it names the folder and how the real one is reached", async (...argv) => {
  const world = await createWorld();
  Object.assign(world.env, { VIDGEN_BASE_URL: undefined, VIDGEN_API_KEY: undefined });
  const run = await world.vidgen(...argv);
  const folder = join(world.home, "service");
  const says = `error: There is no service in ${folder}, and no other one is named. Nothing was changed.\n`;
  expect(run).toMatchObject({ code: 3, stdout: "", stderr: expect.stringContaining(says) });
  for (const way of ["VIDGEN_HOME", "VIDGEN_DATABASE_URL", "vidgen login", "--new"]) expect(run.stderr).toContain(way);
  expect(existsSync(folder)).toBe(false);
  const made = await world.vidgen("accounts", "create", "ci", "--new");
  expect(made.stderr).toMatch(/^Service: a new one in /);
  expect((await world.vidgen("accounts", "--local")).stdout).toMatch(/^ci\t1000\t/);
});

test("says after its address which engine serves which models, and which one cannot be used; doctor says so too", async () => {
  const { world, printed, stop } = await createServing(...engines);
  const lines = [
    "wan-2.5: http://gpu-1:8091 (vLLM-Omni)\n",
    "ray-3: http://gpu-2:8091 does not answer (ENOTFOUND); its generations wait until it can be used.\n",
    "my-wan: http://page is no kind of server that vidgen recognizes; name its kind with --engine kind:http://page; its generations wait until it can be used.\n",
    "all other models: preview\n",
  ];
  for (const line of lines) await expect.poll(() => printed.stderr).toContain(line);
  expect(printed.stderr).toMatch(/Press Ctrl-C to stop\.\n(.*: .*\n){4}$/);
  const asked = world.requests.find(({ url }) => url.startsWith("http://gpu-1"));
  expect(asked?.headers.get("Authorization")).toBe("Bearer canary-engine-key");

  const doctor = await world.vidgen("doctor", "--local");
  expect(doctor.stdout).toMatch(/^pass {2}keys +for engines: VIDGEN_ENGINE_KEY_GPU_1_8091$/m);
  expect([doctor.code, doctor.stderr]).toEqual([8, expect.stringContaining("2 checks failed: engine.")]);
  expect(doctor.stdout.match(/^.*\bengine .*$/gm)).toEqual([
    expect.stringMatching(/^pass {2}engine +wan-2\.5: http:\/\/gpu-1:8091 \(vLLM-Omni\)$/),
    expect.stringMatching(/^fail {2}engine +ray-3: http:\/\/gpu-2:8091 does not answer \(ENOTFOUND\)$/),
    expect.stringMatching(/^fail {2}engine +my-wan: http:\/\/page is no kind of server/),
    expect.stringMatching(/^pass {2}engine +all other models: preview$/),
  ]);
  expect(doctor.stdout).toMatch(/ENOTFOUND\)\n {6}.*`vidgen serve --engine`/);
  await stop();
  expect(printed.stdout + printed.stderr + doctor.stdout).not.toContain("canary");
});

test("with --json the engines are in its one document; an address without a model serves what no other engine is named for", async () => {
  const { printed, stop } = await createServing("--json", "--engine", "http://gpu-1:8091", "--engine", "ray-3=preview");
  await expect.poll(() => printed.stdout).toContain("}\n");
  const { engines } = JSON.parse(printed.stdout);
  const models = ["sora-2", "veo-3.1", "kling-2.6", "wan-2.5", "seedance", "minimax"];
  expect(engines).toEqual([
    // One image is too few for kling-1.6-elements.
    { engine: "http://gpu-1:8091", models, kind: "vLLM-Omni", error: null },
    { engine: "preview", models: ["ray-3"], kind: "preview", error: null },
  ]);
  await stop();
});

test("--config reads the engines from a file, over which a flag wins", async () => {
  const world = await createWorld();
  const config = join(world.folder, "serve.json");
  writeFileSync(join(world.folder, "key"), "canary-key-in-a-file\n");
  const engines = [
    { url: "http://gpu-1:8091", models: ["wan-2.5"], jobs: 1, key_env: "GPU_1" },
    { kind: "vllm-omni", url: "http://gpu-2:8091", models: ["my-wan"], jobs: 2, key_file: "key" },
  ];
  writeFileSync(config, JSON.stringify({ engines, port: 1, media_port: 0, page: false, credits_per: { "my-wan": 3 } }));
  world.env.GPU_1 = "canary-key-of-gpu-1";
  const fake = createVllmOmni();
  world.faults.push((request) => (/^http:..gpu-/.test(request.url) ? fake.fetch(request) : undefined));
  const ended = world.vidgen("serve", "--config", config, "--port", "0", "--json");
  await expect.poll(() => world.printed.stdout).toContain("}\n");
  const { base_url, api_key, page_url, engines: checked } = JSON.parse(world.printed.stdout);
  expect([page_url, checked]).toEqual([
    null,
    [
      { engine: "http://gpu-1:8091", models: ["wan-2.5"], kind: "vLLM-Omni", error: null },
      { engine: "http://gpu-2:8091", models: ["my-wan"], kind: "vLLM-Omni", error: null },
    ],
  ]);
  const headers = { Authorization: `Bearer ${api_key}` };
  expect(await (await fetch(`${base_url}/v1/models/my-wan`, { headers })).json()).toMatchObject({ credits: 3 });
  const keys = world.requests.map(({ url, headers }) => [new URL(url).hostname, headers.get("Authorization")]);
  expect(keys).toContainEqual(["gpu-1", "Bearer canary-key-of-gpu-1"]);
  expect(keys).toContainEqual(["gpu-2", "Bearer canary-key-in-a-file"]);
  await stop(world, ended);
  expect(world.printed.stdout + world.printed.stderr).not.toContain("canary");
});

test("a fault of the file that only its flag knows is one of the field", async () => {
  const world = await createWorld();
  const config = join(world.folder, "serve.json");
  writeFileSync(config, JSON.stringify({ engines: [{ kind: "preview" }], keep: "5s" }));
  expect(await world.vidgen("serve", "--config", config)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/serve\.json: keep must be at least 1h, such as 30d/),
  });
  expect(await world.vidgen("serve", "--config", config, "--engine", "preview")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--engine and --config cannot be combined."),
  });
});

test.skipIf(lacks("file modes"))("of the preview alone neither serve nor doctor says anything", async () => {
  const { world, printed, stop } = await createServing();
  await expect.poll(() => printed.stderr).toContain("Ctrl-C");
  const doctor = await world.vidgen("doctor", "--local");
  expect([doctor.code, doctor.stdout]).toEqual([0, expect.stringContaining("running at http://127.0.0.1")]);
  expect(doctor.stdout).not.toMatch(/\bengine /);
  await stop();
  expect(printed.stderr).not.toContain("preview");
});

test("--metrics-port serves the figures without a key, on this machine alone; the API's address wants the owner's", async () => {
  const { printed, stop } = await createServing("--metrics-port", "0", "--json");
  await expect.poll(() => printed.stdout).toContain("}\n");
  const { base_url, api_key, metrics_url } = JSON.parse(printed.stdout);
  expect(metrics_url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/metrics$/);
  const own = await fetch(metrics_url);
  expect([own.status, await own.text()]).toEqual([200, expect.stringMatching(/^vidgen_ready 1$/m)]);
  const asked = async (headers: Record<string, string>) => (await fetch(`${base_url}/metrics`, { headers })).status;
  expect(await asked({})).toBe(401);
  expect(await asked({ Authorization: `Bearer ${api_key}` })).toBe(200);
  // A web site whose name resolves to this machine.
  const rebound = await fetch(metrics_url, { headers: { Origin: "https://elsewhere.example" } });
  expect(rebound.status).toBe(403);
  await stop();
  // A scrape is no line of the log.
  expect(printed.stderr).not.toMatch(/GET \/metrics 200/);
});

test("without --metrics-port there is no address without a key", async () => {
  const { printed, stop } = await createServing("--json");
  await expect.poll(() => printed.stdout).toContain("}\n");
  expect(JSON.parse(printed.stdout).metrics_url).toBeNull();
  await stop();
});

test.each([
  [
    "0.0.0.0:9464",
    /On 0\.0\.0\.0, other machines on the network could read the metrics without a key\.\n.*--allow-remote/,
  ],
  ["10.0.0.5:9464", /On 10\.0\.0\.5, other machines/],
  ["[fd00::1]:9464", /On fd00::1, other machines/],
  ["metrics", /--metrics-port must be a whole number/],
  ["65536", /--metrics-port must be a whole number/],
  ["", /--metrics-port must be a whole number/],
])("--metrics-port %j is a usage error", async (text, says) => {
  const { code, stdout, stderr } = await (await createWorld()).vidgen("serve", "--metrics-port", text);
  expect([code, stdout, stderr]).toEqual([2, "", expect.stringMatching(says)]);
});

test("a callback whose target is forbidden is told at its first attempt, without --webhook-log", async () => {
  const { world, printed, stop } = await createServing();
  await expect.poll(() => printed.stdout).toContain("http");
  const { api_key: key } = JSON.parse(readFileSync(join(world.home, "service", "service.json"), "utf8"));
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const post = async (callback_url: string) => {
    const body = JSON.stringify({ prompt: "a [fail] fox", model: "sora-2", callback_url });
    const reply = await fetch(`${printed.stdout.trim().split("\n")[0]}/api/generate`, {
      method: "POST",
      headers,
      body,
    });
    return ((await reply.json()) as { data: { id: string } }).data.id;
  };
  const refused = await post("http://127.0.0.1:4/hook");
  const id = await post("http://169.254.169.254/hook");
  await expect.poll(() => printed.stderr).toContain(`callback for ${id} to http://169.254.169.254/hook: `);
  expect(printed.stderr).toMatch(/169\.254\.169\.254 are refused: .*, attempt 1, next in 1 s/);
  expect(printed.stderr).not.toContain(`callback for ${refused}`);
  await stop();
});

test.each([
  { log: "text", isTerminal: true, isShown: true },
  { log: "text", isTerminal: false, isShown: false },
  { log: "json", isTerminal: true, isShown: false },
  { log: "json", isTerminal: false, isShown: false },
])("the owner's key, the secret and a link are printed to a terminal alone: $log, $isTerminal", async (row) => {
  const world = await createWorld();
  world.isTerminal = row.isTerminal;
  const ended = world.vidgen("serve", "--port", "0", "--media-port", "0", "--log", row.log);
  const { printed } = world;
  await expect.poll(() => printed.stderr).toContain(row.isShown ? "Ctrl-C" : "serve --link");
  const file = join(world.home, "service", "service.json");
  const { api_key, webhook_secret } = JSON.parse(readFileSync(file, "utf8"));
  for (const secret of [api_key, webhook_secret, "?token="]) expect(printed.stderr.includes(secret)).toBe(row.isShown);
  if (!row.isShown) expect(printed.stderr).toContain(`are in ${file}, which only this user can read`);
  await stop(world, ended);
});

test.each([
  "--public-url https://a.example --public-media-url https://a.example/videos",
  "--allow-remote",
  "--name gpu-1",
])("with %s, the first lines say who can see a video, and what ends that", async (flags) => {
  const { printed, stop } = await createServing(...flags.split(" "), "--keep", "30d");
  await expect.poll(() => printed.stderr).toContain("Press Ctrl-C");
  expect(printed.stderr).toContain("see it without a key, until it is deleted, at most 30d after it was generated, or");
  await stop();
});

test("--log json: each line of stderr is a document with full id, account and request id, and none has a key or a prompt", async () => {
  const { world, printed, stop } = await createServing("--log", "json", "--page", "--trust-proxy", "127.0.0.0/8");
  const events = () =>
    printed.stderr
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line));
  await expect.poll(() => printed.stderr).toContain("listening");
  const [{ base_url }] = events();
  const folder = JSON.parse(readFileSync(join(world.home, "service", "service.json"), "utf8"));
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const headers = {
    Authorization: `Bearer ${folder.api_key}`,
    "Content-Type": "application/json",
    "X-Request-Id": "request-1",
    traceparent,
  };
  const callback_url = "http://127.0.0.1:9/hook?canary-query";
  const body = JSON.stringify({ prompt: "canary-prompt [fail]", model: "sora-2", callback_url });
  const reply = await fetch(`${base_url}/api/generate?canary-query`, { method: "POST", headers, body });
  expect(reply.headers.get("X-Request-Id")).toBe("request-1");
  const { id } = ((await reply.json()) as { data: { id: string } }).data;
  const forwarded = { "X-Request-Id": "two words", "X-Forwarded-For": "198.51.100.1, 203.0.113.7" };
  await fetch(`${base_url}/api/generation-status?id=${id}`, { headers: forwarded });
  await once(get(base_url, { headers: { Host: "other.example" } }).end(), "response");
  const refused = JSON.stringify({ prompt: "canary-prompt [credits: 0]", model: "veo-3.1" });
  await fetch(`${base_url}/api/generate`, { method: "POST", headers, body: refused });
  await expect.poll(() => printed.stderr).toContain('"callback"');
  await stop();
  const about = { account: "local", id, traceparent };
  expect(events()).toEqual(
    expect.arrayContaining([
      expect.objectContaining({
        event: "request",
        request_id: "request-1",
        ...about,
        model: "sora-2",
        path: "/api/generate",
        status: 200,
      }),
      expect.objectContaining({
        ...{
          event: "request",
          address: "127.0.0.1",
          account: "local",
          model: "veo-3.1",
          status: 402,
          code: "insufficient_credits",
        },
      }),
      expect.objectContaining({ event: "ended", ...about, model: "sora-2", status: "failed", reason: "refused" }),
      expect.objectContaining({ event: "callback", ...about, url: "http://127.0.0.1:9/hook", delivered: false }),
      expect.objectContaining({
        ...{ event: "request", request_id: expect.stringMatching(/^[0-9a-f-]{36}$/), address: "203.0.113.7" },
        ...{ status: 401, code: "unauthorized" },
      }),
      expect.objectContaining({
        ...{ event: "request", status: 403, code: "forbidden_host", note: expect.stringContaining("allowed hosts") },
      }),
    ]),
  );
  for (const { time } of events()) expect(new Date(time).toISOString()).toBe(time);
  for (const secret of ["canary", folder.api_key, folder.webhook_secret, "token="])
    expect(printed.stderr).not.toContain(secret);
});

test("--backup names the file that it cannot write", async () => {
  const world = await createWorld();
  const made = await world.vidgen("accounts", "create", "ci", "--new", "--local");
  expect(made).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("To use it, start the service: vidgen serve\n"),
  });
  expect(made.stderr).not.toContain("login");
  const run = await world.vidgen("serve", "--backup", `${world.folder}/missing/copy.db`);
  expect(run).toMatchObject({ code: 9, stdout: "" });
  expect(run.stderr).toContain(
    `Cannot write ${world.folder}/missing/copy.db: the folder does not exist. Nothing was copied.`,
  );
});

test("--backup of a service that does not run needs no service.json, which may be damaged", async () => {
  const world = await createWorld();
  await world.vidgen("accounts", "create", "ci", "--new", "--local");
  writeFileSync(join(world.home, "service", "service.json"), "{");
  const file = join(world.folder, "copy.db");
  expect(await world.vidgen("serve", "--backup", file)).toMatchObject({ code: 0, stdout: `${file}\n` });
});

test("for other machines, prints what allows plain http here, and the three ways in which others reach it", async () => {
  const { printed } = await createServing("--allow-remote", "--name", "gpu-1", "--page");
  await expect.poll(() => printed.stderr).toContain("Press Ctrl-C");
  const [, origin = ""] = /export VIDGEN_BASE_URL=(\S+)/.exec(printed.stderr) ?? [];
  expect(origin).toMatch(/^http:\/\/gpu-1:\d+$/);
  expect(printed.stderr).toContain(`export VIDGEN_ALLOW_HTTP=${origin}\n`);
  const lines = ["help accounts", "1\\. .*`ssh -N -L .* gpu-1`", "2\\. .*TLS", "3\\. .*--allow-http"];
  expect(printed.stderr).toMatch(new RegExp(lines.map((line) => `${line}.*\n.*`).join("")));
});
