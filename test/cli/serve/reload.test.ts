import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { serve as listen } from "@hono/node-server";
import { expect, onTestFinished, test } from "vitest";
import { makeFolder } from "../../folder.ts";
import { lacks } from "../../needs.ts";
import { createVllmOmni } from "../../server/engines/videos/fakes/vllm-omni.ts";

const bin = fileURLToPath(new URL("../../../bin/vidgen.js", import.meta.url));

/** A GPU server on a socket, whose jobs end when the test says so. */
async function openGpu(key?: string) {
  const fake = createVllmOmni({ completeAfterMs: Number.POSITIVE_INFINITY, ...(key !== undefined && { key }) });
  const server = listen({ fetch: fake.fetch, port: 0, hostname: "127.0.0.1" });
  onTestFinished(() => void server.close());
  if (!server.listening) await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return { fake, url: `http://127.0.0.1:${port}` };
}

/** A folder with a file for `serve --config`, and a home of its own. */
function createMachine() {
  const folder = makeFolder();
  const file = join(folder, "serve.json");
  const write = (content: object | string) =>
    writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content));
  const serve = async (env: Record<string, string> = {}) => {
    const flags = ["serve", "--config", file, "--port", "0", "--media-port", "0"];
    const child = spawn(process.execPath, [bin, ...flags], {
      env: { PATH: process.env.PATH, VIDGEN_HOME: join(folder, "home"), ...env },
    });
    const printed = { stdout: "", stderr: "" };
    child.stdout.on("data", (chunk) => (printed.stdout += chunk));
    child.stderr.on("data", (chunk) => (printed.stderr += chunk));
    onTestFinished(() => void child.kill("SIGKILL"));
    await expect
      .poll(() => printed.stderr.includes("Ctrl-C") || (child.exitCode ?? undefined), { timeout: 60_000 })
      .toBeTruthy();
    const key = () => JSON.parse(readFileSync(join(folder, "home/service/service.json"), "utf8")).api_key;
    return { child, printed, ...createClient(printed.stdout.trim(), child.exitCode === null ? key() : "") };
  };
  return { file, write, serve };
}

type Answer = {
  data: { id: string };
  status: string;
  error: { code: string; message: string };
  engines: { engine: string; draining: number | null; error: string | null }[];
};

function createClient(base_url: string, api_key: string) {
  const headers = { Authorization: `Bearer ${api_key}`, "Content-Type": "application/json" };
  const ask = async (method: string, path: string, body?: object) => {
    const reply = await fetch(base_url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    return { status: reply.status, body: (await reply.json()) as Answer };
  };
  return {
    start: async () => (await ask("POST", "/api/generate", { prompt: "a fox", model: "wan-2.5" })).body.data.id,
    statusOf: async (id: string) => (await ask("GET", `/api/generation-status?id=${id}`)).body.status,
    engines: async () => (await ask("GET", "/engines")).body.engines,
    reload: () => ask("POST", "/admin/reload"),
    cancel: (id: string) => ask("POST", `/api/cancel?id=${id}`),
  };
}

async function stop(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  child.kill(signal);
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
}

const patient = { timeout: 60_000 };

test.skipIf(lacks("signals"))(
  "SIGHUP reads the file again: a new engine takes work, a removed one drains, also over a restart; a faulty file changes nothing",
  {
    timeout: 240_000,
  },
  async () => {
    const [one, two] = [await openGpu("canary-key-of-gpu-1"), await openGpu()];
    const { file, write, serve } = createMachine();
    const first = { kind: "vllm-omni", url: one.url, models: ["wan-2.5"], jobs: 1, key_env: "GPU_ONE" };
    const second = { kind: "vllm-omni", url: two.url, models: ["wan-2.5"], jobs: 1 };
    write({ engines: [first] });
    const env = { GPU_ONE: "canary-key-of-gpu-1" };
    const service = await serve(env);
    const ids = [await service.start(), await service.start()];
    await expect.poll(() => one.fake.creates.length, patient).toBe(1);

    write({ engines: [{ ...first, jobs: 0 }] });
    service.child.kill("SIGHUP");
    const fault = "engines[0].jobs must be a whole number from 1 to 1000.";
    await expect
      .poll(() => service.printed.stderr, patient)
      .toContain(`The engines were not changed: ${file}: ${fault}`);
    expect(await service.reload()).toMatchObject({
      status: 422,
      body: { error: { code: "invalid_config", message: expect.stringContaining("engines[0].jobs must be") } },
    });

    write({ engines: [second], port: 1 });
    service.child.kill("SIGHUP");
    await expect.poll(() => two.fake.creates.length, patient).toBe(1);
    await expect
      .poll(() => service.printed.stderr, patient)
      .toContain(
        `serve.json again: 1 engine; new: ${two.url}; no longer used: ${one.url}; a restart is needed for port.`,
      );
    expect(await service.engines()).toMatchObject([{ engine: two.url }, { engine: one.url, draining: 1, error: null }]);

    await stop(service.child, "SIGTERM");
    const without = await serve();
    const missing = `1 generation waits for ${one.url}, which this service no longer uses: its key is missing: GPU_ONE is not set.`;
    await expect.poll(() => without.printed.stderr, patient).toContain(missing);
    expect(await without.engines()).toMatchObject([
      { engine: two.url },
      { engine: one.url, draining: 1, error: "its key is missing: GPU_ONE is not set" },
    ]);

    await stop(without.child, "SIGKILL");
    const again = await serve(env);
    for (const { fake } of [one, two]) for (const { id } of fake.jobs.values()) fake.complete(id);
    for (const id of ids) await expect.poll(() => again.statusOf(id), patient).toBe("completed");
    expect([one.fake.creates.length, two.fake.creates.length]).toEqual([1, 1]);
    for (const { printed } of [service, without, again])
      expect(printed.stdout + printed.stderr).not.toContain("canary-key-of-gpu-1");
    await stop(again.child, "SIGTERM");
  },
);
