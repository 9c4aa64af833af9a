import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { copyFileSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { expect, onTestFinished, test, vi } from "vitest";
import { joinHosts } from "../cli/hosts.ts";
import { bin, createMachine, type Machine, serve } from "../cli/machine.ts";
import { spawnAgent } from "../faults/agent.ts";
import { hasFfmpeg, lacks } from "../needs.ts";
import { cookieOf, useLink } from "../server/page/sign-in.ts";

// The local service over processes: who owns its state, and what of it outlives them.

const short = ["--local", "-d", "0.5"];

test("several at once share one service, and each gets its video", async () => {
  const machine = await createMachine();
  const runs = [1, 2, 3].map((i) => machine.vidgen("generate", `fox ${i}`, ...short, "-o", `${i}.mp4`));
  for (const [i, ended] of (await Promise.all(runs)).entries()) {
    expect(ended).toMatchObject({ code: 0, stdout: `${i + 1}.mp4\n` });
    expect(statSync(join(machine.folder, `${i + 1}.mp4`)).size).toBeGreaterThan(1_000);
  }
});

test("--no-wait leaves it to a later run, and `wait` without an id finds it", async () => {
  const machine = await createMachine();
  const started = await machine.vidgen("generate", "a fox", ...short, "--no-wait");
  expect(started).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(
      /^Started a preview, drawn on this machine \(no wan-2\.5 video\): \S+\.\nIt is rendered when you run vidgen wait \S+, or/,
    ),
  });
  const id = started.stdout.trim();
  expect(await machine.vidgen("status", id)).toMatchObject({ code: 0, stdout: expect.stringMatching(`^${id}\t`) });
  // The URL would end with the command.
  const { stdout: file } = await machine.vidgen("wait");
  const done = { code: 0, stdout: `${id}\tcompleted\n` };
  const first = `Already saved: ${join(machine.folder, file.trim())}\n`;
  expect(await machine.vidgen("status", id)).toMatchObject({ ...done, stderr: first });
  const waited = await machine.vidgen("wait", id, "-o", "fox.mp4");
  expect(waited).toMatchObject({
    code: 0,
    stdout: "fox.mp4\n",
    stderr: expect.stringContaining(id),
  });
  const saved = `Already saved: ${join(machine.folder, "fox.mp4")}\n`;
  expect(await machine.vidgen("status", id)).toMatchObject({ ...done, stderr: saved });
});

test("previews are free: every command says so, and no credits are used", async () => {
  const machine = await createMachine();
  const flags = [...short, "--write-info-json", "--json"];
  for (const name of ["owl", "fox"]) {
    const { stdout } = await machine.vidgen("generate", `a ${name}`, ...flags, "-o", `${name}.mp4`);
    expect(JSON.parse(stdout)).toMatchObject({ credits_charged: 0, remaining_credits: 1_000, charged: "no" });
  }
  const info = JSON.parse(readFileSync(join(machine.folder, "fox.mp4.json"), "utf8"));
  expect(info).toMatchObject({ prompt: "a fox", credits: 0, cost: null });
  expect((await machine.vidgen("list")).stdout.split("\t")[4]).toBe("free");
  const { stdout: id } = await machine.vidgen("generate", "a hare", ...short, "--no-wait");
  const cancelled = await machine.vidgen("cancel", id.trim());
  expect(cancelled).toMatchObject({ code: 0, stderr: `Cancelled ${id.trim()}.\n` });
  expect((await machine.vidgen("accounts", "--local")).stdout).toBe("local\t1000\t1\t-\t-\tenabled\n");
  writeFileSync(join(machine.folder, "shots.txt"), "a fox\n");
  const batch = await machine.vidgen("batch", "shots.txt", "--local", "--dry-run");
  expect(batch.stdout).toContain("1 to start\nCost: free.\n");
});

test("where serve was given credits, previews cost some; at the end of them, the line that helps works", async () => {
  const machine = await createMachine();
  await serve(machine, "--credits", "20");
  const start = (prompt: string) => machine.vidgen("generate", prompt, ...short, "--no-wait");
  expect((await start("a fox")).stderr).toMatch(/^Started a preview, .*, for 10 credits, 10 credits left\.$/m);
  expect((await start("an owl")).code).toBe(0);
  const refused = await start("a hare");
  expect(refused).toMatchObject({ code: 7, stderr: expect.stringContaining("one generation costs 10 credits") });
  const [, help = ""] = /vidgen (accounts credits .*?)`/.exec(refused.stderr) ?? [];
  expect(await machine.vidgen(...help.split(" "))).toMatchObject({ code: 0, stdout: "1000\n" });
  expect(await start("a hare")).toMatchObject({ code: 0 });
});

test("wait saves as the start would have, to its own -o, else to the current folder", async () => {
  const machine = await createMachine();
  const started = machine.run("generate", "a fox [slow: 8s]", ...short, "-o", "fox.mp4");
  await started.said("Generating");
  started.child.kill("SIGINT");
  await started.ended;
  const { stdout: id } = await machine.vidgen("generate", "an owl", ...short, "--no-wait");
  const owl = expect.stringMatching(/^an-owl-wan-2\.5-\w{8}\.mp4\n$/);
  expect(await machine.vidgen("wait", id.trim())).toMatchObject({ code: 0, stdout: owl });
  const all = await machine.vidgen("wait", "--all", "--timeout", "90s");
  expect(all).toMatchObject({ code: 0, stdout: "fox.mp4\n" });
  expect(readdirSync(machine.folder).filter((name) => name.endsWith(".mp4"))).toHaveLength(2);
  expect(await machine.vidgen("wait", "last")).toMatchObject({ code: 0, stdout: owl });
});

test.each(hasFfmpeg ? ["batch", "film"] : ["batch"])(
  "at a terminal a batch prints the lines that the page %s shows",
  async (name) => {
    const machine = await createMachine();
    const page = readFileSync(new URL(`../../src/docs/${name}.md`, import.meta.url), "utf8");
    const [, csv = ""] = /```csv\n([^`]+)```/.exec(page) ?? [];
    const [, flags = "", shown = ""] = /\$ npx vidgen batch shots\.csv (.*)\n((?: {4}.*\n)+)/.exec(page) ?? [];
    writeFileSync(join(machine.folder, "shots.csv"), csv);
    // stdout and stderr in one place, as they are there.
    const argv = [bin, "batch", "shots.csv", ...flags.replaceAll('"', "").split(" ")];
    const script = `child_process.spawnSync(process.execPath, ${JSON.stringify(argv)}, { stdio: ["ignore", 1, 1] })`;
    const { stdout } = await machine.runNode("-e", script).ended;
    // Either row may be done first.
    const linesOf = (text: string) =>
      text
        .trimEnd()
        .split("\n")
        .map((line) => line.replace(/^\[[12]/, "[n"))
        // At a terminal this line is drawn over.
        .filter((line) => !line.startsWith("Joining"))
        .sort();
    expect(linesOf(stdout)).toEqual(linesOf(shown.replaceAll(/^ {4}/gm, "")));
  },
);

test("nobody is sent to buy credits for the local service", async () => {
  const run = await (await createMachine()).vidgen("generate", "a fox [credits: 0]", "--local");
  expect(run).toMatchObject({
    code: 7,
    stderr: expect.stringContaining("vidgen accounts credits local 1000 --local`"),
  });
  expect(run.stderr).not.toContain("Add credits");
});

test("a run that is killed while it renders is gone on with, and nothing is charged again", async () => {
  const machine = await createMachine();
  const killed = machine.run("generate", "a fox", "--local", "-d", "5", "-o", "fox.mp4");
  await killed.said("Generating");
  killed.child.kill("SIGKILL");
  await killed.ended;
  expect(await machine.vidgen("wait", "--all", "-o", "clips/")).toMatchObject({ code: 0 });
  expect(readdirSync(join(machine.folder, "clips"))).toHaveLength(1);
  const { stdout } = await machine.vidgen("generate", "an owl", ...short, "--json", "-o", "owl.mp4");
  expect(JSON.parse(stdout)).toMatchObject({ credits_charged: 0, remaining_credits: 1_000 });
});

test("one that was given up holds up no other, and is there when it is asked for", async () => {
  const machine = await createMachine();
  const given = machine.run("generate", "a fox", "--local", "-d", "60", "-r", "1080p", "-o", "fox.mp4");
  await given.said("Generating");
  given.child.kill("SIGINT");
  expect(await given.ended).toMatchObject({ signal: "SIGINT" });
  const id = / wait (\S+) /.exec((await given.ended).stderr)?.[1] ?? "";
  expect(await machine.vidgen("generate", "an owl", ...short, "-o", "owl.mp4")).toMatchObject({ code: 0 });
  const asked = await machine.vidgen("status", id, "--local");
  expect(asked).toMatchObject({ code: 0, stdout: `${id}\tprocessing\n` });
});

test("one whose service ends while it waits takes the service over", async () => {
  const machine = await createMachine();
  const first = machine.run("generate", "a fox [slow: 8s]", ...short, "-o", "fox.mp4");
  await first.said("Generating");
  const second = machine.run("generate", "an owl [slow: 4s]", ...short, "-o", "owl.mp4");
  await second.said("Generating");
  first.child.kill("SIGINT");
  expect(await first.ended).toMatchObject({ signal: "SIGINT" });
  expect(await second.ended).toMatchObject({ code: 0, stdout: "owl.mp4\n" });
});

test("a second serve says who holds the state, and ends; the first is not disturbed", async () => {
  const machine = await createMachine();
  const first = await serve(machine);
  const second = await machine.vidgen("serve", "--port", "0", "--media-port", "0");
  expect(second).toMatchObject({ code: 2, stdout: "" });
  expect(second.stderr).toContain(`already running: process ${first.child.pid}, at ${first.address.base_url}.`);
  expect((await first.start({})).status).toBe(200);
});

test("a serve that was killed is no owner: the next one knows what was started, by the same key, and ends it", async () => {
  const machine = await createMachine();
  const first = await serve(machine, "--credits", "50");
  const { body } = await first.start({ duration: 0.5, prompt: "a fox [slow: 2s]" });
  first.child.kill("SIGKILL");
  await first.ended;
  const second = await serve(machine, "--credits", "40");
  expect(second.address.api_key).toBe(first.address.api_key);
  while ((await second.status(body.data.id)).status === "processing")
    await new Promise((resolve) => setTimeout(resolve, 100));
  expect(await second.status(body.data.id)).toMatchObject({ http: 200, status: "completed" });
  expect((await second.start({})).body.remaining_credits).toBe(30);
});

test.each(["while a serve runs", "before any runs"])(
  "accounts create --local %s makes an account of its own",
  async (when) => {
    const machine = await createMachine();
    const early = when === "before any runs";
    const makeKey = () => machine.vidgen("accounts", "create", "ci", "--credits", "20", "--local", "--new");
    const before = early ? await makeKey() : undefined;
    const server = await serve(machine);
    const made = before ?? (await makeKey());
    expect(made).toMatchObject({ code: 0, stdout: expect.stringMatching(/^vgs_[0-9a-f]{48}\n$/) });
    const key = made.stdout.trim();
    const own = await server.start({});
    const theirs = await server.start({ prompt: "theirs" }, key);
    expect(theirs.body.remaining_credits).toBe(10);
    expect((await server.status(own.body.data.id, key)).http).toBe(404);
    expect((await server.status(theirs.body.data.id)).http).toBe(404);
    expect((await server.status(theirs.body.data.id, key)).http).toBe(200);
    expect((await server.post("/accounts", { name: "more" }, key)).status).toBe(403);
  },
);

test.each(["while a serve runs", "while none runs"])(
  "--backup %s saves a copy that serve goes on from",
  async (when) => {
    const machine = await createMachine();
    const isRunning = when === "while a serve runs";
    const stop = async ({ child, ended }: Awaited<ReturnType<typeof serve>>) => {
      child.kill("SIGTERM");
      await ended;
    };
    const first = await serve(machine, "--credits", "100");
    const { id } = (await first.start({})).body.data;
    if (!isRunning) await stop(first);
    expect(await machine.vidgen("serve", "--backup", "copy.db")).toMatchObject({ code: 0, stdout: "copy.db\n" });
    const copy = join(machine.folder, "copy.db");
    expect(statSync(copy).mode & 0o777).toBe(0o600);
    const again = await machine.vidgen("serve", "--backup", "copy.db");
    expect(again).toMatchObject({ code: 9, stderr: expect.stringContaining("copy.db already exists") });
    const after = isRunning ? (await first.start({ prompt: "after the copy" })).body.data.id : undefined;
    if (isRunning) await stop(first);

    const home = join(machine.folder, "home");
    const [database] = readdirSync(home, { recursive: true }).filter((name) => String(name).endsWith("service.db"));
    copyFileSync(copy, join(home, String(database)));
    rmSync(join(home, `${database}-wal`), { force: true });
    for (const argv of [["serve"], ["generate", "a fox", "--local"]])
      expect(await machine.vidgen(...argv)).toMatchObject({
        code: 2,
        stdout: "",
        stderr: expect.stringMatching(/is a copy, made at \d.*vidgen serve --restored/s),
      });
    const second = await serve(machine, "--credits", "50", "--restored");
    expect((await second.status(id)).http).toBe(200);
    expect((await second.start({})).body.remaining_credits).toBe(40);
    if (after) expect((await second.status(after)).http).toBe(404);
    expect(readdirSync(machine.folder).sort()).toEqual(["copy.db", "home"]);
  },
);

test.each([
  ["--credits", "-1"],
  ["--pace", "slow"],
  ["--host", "0.0.0.0"],
  ["--host", "0.0.0.0", "--allow-remote"],
  ["--host", "::", "--allow-remote"],
  ["--host", "0", "--allow-remote"],
  ["--name", "a/b"],
  ["--name", "tunnel.example:80"],
])("serve %s %s is a usage error", async (...flags) => {
  const machine = await createMachine();
  expect(await machine.vidgen("serve", ...flags)).toMatchObject({ code: 2, stdout: "" });
});

test.each([
  ["serve", [], true, false],
  ["serve --verbose", ["--verbose"], true, true],
  ["serve --quiet", ["--quiet"], false, false],
])("%s: flags %j, a line for each request %j, its bodies without secrets %j", async (_, flags, hasLine, hasBodies) => {
  const machine = await createMachine();
  const server = machine.run("serve", "--port", "0", "--media-port", "0", ...flags);
  await server.said("http://");
  const body = { prompt: "a fox", model: "wan-2.5", imageUrl: "https://a.example/1.png?signature=canary2" };
  const { api_key, base_url } = JSON.parse(readFileSync(join(machine.folder, "home/service/service.json"), "utf8"));
  const headers = { Authorization: `Bearer ${api_key}`, "Content-Type": "application/json" };
  await (await fetch(`${base_url}/api/generate`, { method: "POST", headers, body: JSON.stringify(body) })).text();
  await (
    await fetch(`${base_url}/api/generation-status?id=canary3`, { headers: { Origin: "https://a.example" } })
  ).text();
  for (const path of ["/", "/assets/page.css"]) await (await fetch(base_url + path)).text();
  server.child.kill("SIGTERM");
  const { stderr } = await server.ended;
  // The page asks for much by itself.
  expect(stderr).not.toMatch(/GET \/( |assets)/);
  expect(/^POST \/api\/generate 200 wan-2\.5 [0-9a-f]{8} \d+ ms$/m.test(stderr)).toBe(hasLine);
  expect(/^GET \/api\/generation-status 403 \d+ ms$/m.test(stderr)).toBe(hasLine);
  expect(stderr.includes('> {"prompt":"a fox","model":"wan-2.5","imageUrl":"https://a.example/1.png?..."}')).toBe(
    hasBodies,
  );
  expect(stderr.includes('< {"success":true,"data":{"id":"')).toBe(hasBodies);
  expect(stderr).not.toMatch(/canary/);
});

test.each([
  { flags: [], hasPage: true },
  { flags: ["--no-page"], hasPage: false },
  { flags: ["--name", "tunnel.example"], hasPage: false },
  { flags: ["--name", "tunnel.example", "--page"], hasPage: true },
])("serve $flags: a page in a browser $hasPage", async ({ flags, hasPage }) => {
  const { address } = await serve(await createMachine(), ...flags);
  const { port, search } = new URL(address.page_url ?? address.base_url);
  const link = `http://127.0.0.1:${port}/${search}`;
  expect([address.page_url !== null, (await fetch(link)).status]).toEqual([hasPage, hasPage ? 200 : 404]);
});

test.each([
  ["exec", "npx vidgen"],
  ["run-script", "vidgen"],
])("the commands on the page of a serve that npm called by %s say %s", async (npm_command, program) => {
  vi.stubEnv("npm_command", npm_command);
  onTestFinished(() => void vi.unstubAllEnvs());
  const { address } = await serve(await createMachine());
  const headers = { Cookie: cookieOf(await useLink(address.page_url ?? "")) };
  const text = await (await fetch(address.base_url, { headers })).text();
  expect(text).toContain(`<code>${program} generate `);
});

test("serve --link prints a fresh link to the page of the service that runs, and says why there is none", async () => {
  const machine = await createMachine();
  const link = () => machine.vidgen("serve", "--link");
  expect(await link()).toMatchObject({ code: 2, stderr: expect.stringContaining("is not running") });
  await serve(machine);
  const { code, stdout } = await link();
  expect([code, (await fetch(stdout.trim())).status]).toEqual([0, 200]);
  const without = await createMachine();
  await serve(without, "--no-page");
  expect(await without.vidgen("serve", "--link")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("serves no page"),
  });
});

/** A server at another port of this machine, and the requests that arrive there. */
async function listenElsewhere() {
  const arrived: string[] = [];
  const elsewhere = createServer(({ method, url, headers }, reply) => {
    arrived.push(`${method} ${url} ${headers.authorization}`);
    reply.end();
  });
  await once(elsewhere.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void elsewhere.close());
  return { arrived, publicUrl: `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}` };
}

const publicFlags = (url: string) => ["--page", "--public-url", url, "--public-media-url", `${url}/videos`];

/** Runs each command on the machine of a service that has this public URL. */
async function runLocalCommands(machine: Machine, publicUrl: string) {
  expect(await machine.vidgen("accounts", "--local")).toMatchObject({ code: 0 });
  expect((await machine.vidgen("accounts", "create", "ci", "--local")).stderr).toContain(
    `login --base-url ${publicUrl}`,
  );
  const generated = await machine.vidgen("generate", "a fox", ...short, "--json", "-o", "fox.mp4");
  expect(JSON.parse(generated.stdout)).toMatchObject({ video_url: expect.stringContaining(`${publicUrl}/videos/`) });
  expect(statSync(join(machine.folder, "fox.mp4")).size).toBeGreaterThan(1_000);
  expect(await machine.vidgen("serve", "--backup", "copy.db")).toMatchObject({ code: 0 });
  expect((await machine.vidgen("serve", "--link")).stdout).toContain(`${publicUrl}/?token=`);
  const { stdout } = await machine.vidgen("doctor", "--local");
  expect(stdout).toMatch(new RegExp(`running at http://127\\.0\\.0\\.1:\\d+, for clients at ${publicUrl};`));
  writeFileSync(join(machine.folder, "shots.txt"), "an owl\n");
  expect(await machine.vidgen("batch", "shots.txt", ...short, "-o", "clips/")).toMatchObject({ code: 0 });
  expect(readdirSync(join(machine.folder, "clips"))).toHaveLength(1);
  const { stdout: id } = await machine.vidgen("generate", "a hare", ...short, "--no-wait");
  expect(await machine.vidgen("wait", id.trim(), "-o", "hare.mp4")).toMatchObject({ code: 0, stdout: "hare.mp4\n" });
  for (const line of ["status", "delete --yes"])
    expect(await machine.vidgen(...line.split(" "), id.trim(), "--local")).toMatchObject({ code: 0 });
  const home = { VIDGEN_HOME: join(machine.folder, "home") };
  const agent = await spawnAgent(home, machine.folder, ["--local"], machine.within);
  const made = (await agent.call("generate_video", { prompt: "a hen", duration: 0.5 })).value;
  await agent.call("get_video", { id: String(made.id), wait_seconds: 50 });
  expect((await agent.call("save_video", { id: String(made.id), path: "hen.mp4" })).value).toMatchObject({
    file: join(machine.folder, "hen.mp4"),
  });
  await agent.close();
}

test("commands on the machine of a service send nothing to its public address", async () => {
  const machine = await createMachine();
  const { arrived, publicUrl } = await listenElsewhere();
  await serve(machine, ...publicFlags(publicUrl));
  await runLocalCommands(machine, publicUrl);
  expect(arrived).toEqual([]);
});

/** Prints each connection and each request, of which it answers none. */
const listener = `
for (const port of [80, 443, 8787, 8788])
  require("http").createServer(({ method, url, headers }, reply) => {
    console.log(method + " " + url + " " + headers.authorization);
    reply.writeHead(401).end();
  }).on("connection", () => console.log("connection to " + port)).listen(port, "0.0.0.0", () => port === 8788 && console.log("listening"));
`;

test.skipIf(lacks("network namespaces"))(
  "where the public name leads to another host, nothing but the requests of clients arrives there",
  async () => {
    const [machine, other] = [await createMachine(), await createMachine()];
    writeFileSync(join(machine.folder, "hosts"), "127.0.0.1 localhost\n10.9.0.2 video.example\n");
    await joinHosts(machine, other, "mount --bind hosts /etc/hosts");
    const arrived: string[] = [];
    const listening = other.runNode("-e", listener);
    listening.child.stdout?.on("data", (text) => arrived.push(...String(text).trimEnd().split("\n")));
    await listening.said("listening");
    const publicUrl = "http://video.example";
    await serve(machine, ...publicFlags(publicUrl), "--host", "0.0.0.0", "--allow-remote");
    await runLocalCommands(machine, publicUrl);
    const id = randomUUID();
    const client = [`VIDGEN_BASE_URL=${publicUrl}`, `VIDGEN_ALLOW_HTTP=${publicUrl}`, "VIDGEN_API_KEY=of-a-client"];
    const asked = await machine.runProgram("env", ...client, process.execPath, bin, "status", id).ended;
    expect(asked).toMatchObject({ code: 3 });
    const request = `GET /api/generation-status?id=${id} Bearer of-a-client`;
    expect(arrived).toEqual(["listening", "connection to 80", request]);
  },
);

/** Runs lines of a shell in a network namespace of their own; `$vidgen` is the program. */
function runInNamespace(machine: Machine, lines: string) {
  const script = `ip link set lo up; vidgen="${process.execPath} ${bin}"\n${lines}`;
  return machine.runProgram("unshare", "-rn", "sh", "-c", script).ended;
}

test.skipIf(lacks("network namespaces"))(
  "commands on the machine of a service reach the address that it is bound to, past the proxy",
  async () => {
    const lines = `
      ip address add 203.0.113.5 dev lo
      $vidgen serve --host 203.0.113.5 --allow-remote --port 0 --media-port 0 > address &
      until grep -q http address; do sleep 0.1; done
      export HTTP_PROXY=http://127.0.0.1:9
      $vidgen accounts --local && $vidgen generate "a fox" --local -d 0.5 -o fox.mp4
      kill $!; wait`;
    const { stdout, stderr } = await runInNamespace(await createMachine(), lines);
    expect([stdout, stderr]).toEqual([expect.stringMatching(/^local\t.*\nfox\.mp4\n$/), expect.anything()]);
  },
);

test
  .skipIf(lacks("network namespaces"))
  .each([
    "accounts --local",
    "generate fox --local",
    "batch shots.txt --local",
    "wait --all --local",
    "serve --backup copy.db",
    "serve --link",
    "doctor --local",
  ])("in another network namespace than the service, `%s` sends nothing and names what works", async (line) => {
  const machine = await createMachine();
  writeFileSync(join(machine.folder, "shots.txt"), "an owl\n");
  const { arrived, publicUrl } = await listenElsewhere();
  await serve(machine, ...publicFlags(publicUrl));
  const ended = await runInNamespace(machine, `$vidgen ${line}`);
  expect(ended.code).toBe(8);
  const text = ended.stdout + ended.stderr;
  expect(text).toMatch(/The service of this folder runs .*another network namespace/s);
  expect(text).toContain(`VIDGEN_BASE_URL=${publicUrl}`);
  expect(arrived).toEqual([]);
});

test.skipIf(lacks("network namespaces"))(
  "in another network namespace than the service, an agent is told so, and sends nothing",
  async () => {
    const machine = await createMachine();
    const { arrived, publicUrl } = await listenElsewhere();
    await serve(machine, ...publicFlags(publicUrl));
    const home = { VIDGEN_HOME: join(machine.folder, "home") };
    const agent = await spawnAgent(home, machine.folder, ["--local"], ["unshare", "-rn"]);
    const answer = await agent.call("generate_video", { prompt: "a hen", duration: 0.5 });
    await agent.close();
    expect(answer.value).toMatchObject({
      code: "network",
      message: expect.stringContaining("The service of this folder runs in another network namespace"),
      hint: expect.stringContaining(`VIDGEN_BASE_URL=${publicUrl}`),
    });
    expect(arrived).toEqual([]);
  },
);

test.skipIf(lacks("network namespaces"))(
  "listen --host takes callbacks of its private network, and answers no other connection",
  async () => {
    const ask = (from: string) =>
      `${process.execPath} -e 'require("http").request({ host: "10.9.0.5", port: 8789, localAddress: "${from}", method: "POST" }, (r) => console.log(r.statusCode)).on("error", (e) => console.log(e.code)).end("{}")'`;
    const lines = `
      for address in 10.9.0.5 10.9.0.6 203.0.113.5; do ip address add $address dev lo; done
      $vidgen listen --host 10.9.0.5 --no-check 2> log > callbacks &
      until grep -q http://10.9.0.5:8789/ log; do sleep 0.1; done
      ${ask("10.9.0.6")}; ${ask("203.0.113.5")}
      kill $!; wait`;
    const { stdout } = await runInNamespace(await createMachine(), lines);
    expect(stdout).toMatch(/^200\n(ECONNRESET|EPIPE)\n$/);
  },
);

test("a service that runs and does not answer is neither starting nor stopped", async () => {
  const machine = await createMachine();
  const { child } = await serve(machine);
  child.kill("SIGSTOP");
  const hanging = { code: 8, stderr: expect.stringMatching(/process \d+, cannot be reached at http:\S+: no response/) };
  for (const line of ["accounts --local", "serve --backup copy.db"])
    expect(await machine.vidgen(...line.split(" "))).toMatchObject(hanging);
  const doctor = await machine.vidgen("doctor", "--local");
  expect([doctor.code, doctor.stdout]).toEqual([
    8,
    expect.stringMatching(/fail {2}local service {2}.*cannot be reached/),
  ]);
});

test("serve warns that the page is not encrypted where other machines reach it", async () => {
  const run = (...flags: string[]) =>
    machine.run("serve", "--port", "0", "--media-port", "0", "--allow-remote", "--name", "gpu.example", ...flags);
  const machine = await createMachine();
  const warning = "anyone who reads it can see the generations of all accounts";
  const withPage = run("--page");
  await withPage.said(warning);
  withPage.child.kill("SIGTERM");
  await withPage.ended;
  const without = run();
  await without.said("Ctrl-C");
  without.child.kill("SIGTERM");
  expect((await without.ended).stderr).not.toContain(warning);
});

test("with a name that others reach it by, the service calls nothing on this machine", async () => {
  const machine = await createMachine();
  const server = machine.run(
    ...["serve", "--port", "0", "--media-port", "0", "--name", "tunnel.example", "--webhook-log"],
  );
  let said = "";
  server.child.stderr?.on("data", (chunk) => (said += chunk));
  await server.said("Ctrl-C");
  const [, port] = /VIDGEN_BASE_URL=http:\/\/tunnel\.example:(\d+)/.exec(said) ?? [];
  const { api_key: key } = JSON.parse(readFileSync(join(machine.folder, "home/service/service.json"), "utf8"));
  const body = { prompt: "a fox [fail]", model: "wan-2.5", callback_url: "http://127.0.0.1:65000/" };
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  await fetch(`http://127.0.0.1:${port}/api/generate`, { method: "POST", headers, body: JSON.stringify(body) });
  await server.said("callbacks to 127.0.0.1 are refused: a loopback address");
});

test("a start that is never answered can be left, however much garbage was collected meanwhile", async () => {
  const machine = await createMachine();
  const collect =
    'import v8 from "node:v8"; import vm from "node:vm"; v8.setFlagsFromString("--expose-gc"); setInterval(vm.runInNewContext("gc"), 10).unref();';
  const importing = `--import=data:text/javascript,${encodeURIComponent(collect)}`;
  const hanging = machine.runNode(importing, bin, "generate", "[hang] fox", "--local", "--verbose");
  await hanging.said("POST ");
  hanging.child.kill("SIGINT");
  await hanging.said("waiting up to 10 s");
  hanging.child.kill("SIGINT");
  expect(await hanging.ended).toMatchObject({ code: 6, stderr: expect.stringContaining("It may have been charged") });
});
