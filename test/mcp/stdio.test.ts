import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { expect, onTestFinished, test } from "vitest";
import { spawnAgent } from "../faults/agent.ts";
import { createRandom } from "../faults/random.ts";
import { createService } from "../faults/server.ts";
import { bin, envOf } from "../faults/spawned.ts";
import { pause } from "../faults/wire.ts";
import { makeFolder } from "../folder.ts";
import { lacks } from "../needs.ts";

// The built program and the official client, over real stdio.

async function createPlace() {
  const base = realpathSync(makeFolder());
  const [home, cwd] = [join(base, "home"), join(base, "work")];
  mkdirSync(cwd);
  return { home, cwd };
}

test("a whole session with the local service, which lives as long as the server", async () => {
  const { home, cwd } = await createPlace();
  const agent = await spawnAgent({ VIDGEN_HOME: home }, cwd, ["--local", "--quiet", "--json"]);
  const { id } = (await agent.call("generate_video", { prompt: "a red fox", duration: 1, resolution: "480p" })).value;
  const { value } = await agent.call("get_video", { id: String(id), wait_seconds: 50 });
  expect(value).toMatchObject({ status: "completed", video_url: expect.stringContaining("http://127.0.0.1:") });
  expect((await fetch(String(value.video_url))).status).toBe(200);
  const saved = (await agent.call("save_video", { id: String(id), path: "fox.mp4" })).value;
  expect(saved.file).toBe(join(cwd, "fox.mp4"));
  expect(readFileSync(join(cwd, "fox.mp4")).toString("latin1", 4, 8)).toBe("ftyp");
  await agent.close();
});

test("killed while the request is out, the same call sends nothing more", async () => {
  const { home, cwd } = await createPlace();
  const service = await createService(createRandom("mcp"));
  onTestFinished(service.close);
  const prompt = "a red fox";
  service.plan(prompt, { starts: [{ executes: true, act: () => {} }] });
  const first = await spawnAgent(envOf(service, home), cwd);
  const out = new Promise<void>((resolve) => service.watch(prompt, (moment) => moment === "start" && resolve()));
  const call = first.call("generate_video", { prompt }).catch(() => {});
  await out;
  first.kill("SIGKILL");
  await call;
  const second = await spawnAgent(envOf(service, home), cwd);
  for (let i = 0; i < 2; i++)
    expect((await second.call("generate_video", { prompt })).value).toMatchObject({ code: "unknown" });
  const { id } = (await second.call("generate_video", { prompt: "a hen" })).value;
  second.kill("SIGKILL");
  const third = await spawnAgent(envOf(service, home), cwd);
  expect((await third.call("generate_video", { prompt: "a hen" })).value).toMatchObject({ id, resumed: true });
  expect([service.oracle.chargesOf(prompt), service.oracle.chargesOf("a hen")]).toEqual([1, 1]);
  await Promise.all([first, second, third].map(({ close }) => close()));
});

test("100 MB without a newline is answered, in bounded memory; then stdin ends it with 0", async () => {
  const { home, cwd } = await createPlace();
  const child = spawn(process.execPath, [bin, "mcp"], { cwd, env: { VIDGEN_HOME: home, PATH: process.env.PATH } });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (text) => (stdout += text));
  child.stderr.on("data", (text) => (stderr += text));
  const piece = Buffer.alloc(1_000_000, "a");
  for (let i = 0; i < 100; i++) if (!child.stdin.write(piece)) await once(child.stdin, "drain");
  child.stdin.write('\n{"jsonrpc":"2.0","id":7,"method":"ping"}\n');
  while (!stdout.includes('"id":7')) await pause(20);
  if (process.platform === "linux") {
    const peakKb = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1]);
    expect(peakKb).toBeLessThan(260_000);
  }
  child.stdin.end();
  expect(await once(child, "close")).toEqual([0, null]);
  const [refused, pong] = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect([refused.error.code, pong.result, stderr]).toEqual([-32600, {}, ""]);
});

test.skipIf(lacks("signals"))("SIGTERM while a start is out: its id is told, then the signal ends it", async () => {
  const { home, cwd } = await createPlace();
  const service = await createService(createRandom("mcp"));
  onTestFinished(service.close);
  const agent = await spawnAgent(envOf(service, home), cwd);
  service.watch("a red fox", (moment) => moment === "start" && agent.kill("SIGTERM"));
  expect((await agent.call("generate_video", { prompt: "a red fox" })).value).toMatchObject({ status: "processing" });
  await agent.close();
});
