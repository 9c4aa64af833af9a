import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { serve as listen } from "@hono/node-server";
import { expect, onTestFinished, test } from "vitest";
import { createMachine, serve } from "../cli/machine.ts";
import { tinyMp4 } from "../mp4.ts";
import { lacks } from "../needs.ts";
import { createOpenRouter } from "../server/engines/videos/fakes/openrouter.ts";
import { createVllmOmni } from "../server/engines/videos/fakes/vllm-omni.ts";

// A real model behind the local service, over processes and sockets. The program as it is installed.

const model = "Wan-AI/Wan2.2-T2V-A14B-Diffusers";

async function createScene() {
  const fake = createVllmOmni({ model });
  const server = listen({ fetch: fake.fetch, port: 0, hostname: "127.0.0.1" }) as Server;
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const machine = await createMachine();
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { fake, machine, flags: ["--engine", `wan-2.5=${address}#${model}`, "--engine", "ray-3=preview"] };
}

test("generate --local through a serve with an engine: the file is what the engine made, byte for byte", async () => {
  const { fake, machine, flags } = await createScene();
  await serve(machine, ...flags, "--credits-per", "wan-2.5=25", "--credits", "100");
  const generating = machine.vidgen("generate", "a fox [fail]", "--local", "--set", "seed=7", "-o", "a.mp4", "--json");
  await expect.poll(() => fake.jobs.size).toBe(1);
  for (const id of fake.jobs.keys()) fake.complete(id);
  const { code, stdout } = await generating;
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { file: "a.mp4", remaining_credits: 75, thumbnail_url: null }]);
  expect(new Uint8Array(readFileSync(join(machine.folder, "a.mp4")))).toEqual(tinyMp4("a fox [fail]"));
  expect(fake.creates).toMatchObject([{ fields: { prompt: "a fox [fail]", model, seed: "7" } }]);
});

test("a serve that is killed and started again continues with the engine's job: one create", async () => {
  const { fake, machine, flags } = await createScene();
  const first = await serve(machine, ...flags);
  const { stdout } = await machine.vidgen("generate", "a fox", "--local", "--no-wait");
  // Once it is polled, its id is written down.
  await expect.poll(() => [...fake.jobs.values()].some(({ polls }) => polls > 0)).toBe(true);
  first.child.kill("SIGKILL");
  await first.ended;
  const second = await serve(machine, ...flags);
  for (const id of fake.jobs.keys()) fake.complete(id);
  expect(await machine.vidgen("wait", stdout.trim(), "-o", "a.mp4")).toMatchObject({ code: 0, stdout: "a.mp4\n" });
  expect(new Uint8Array(readFileSync(join(machine.folder, "a.mp4")))).toEqual(tinyMp4("a fox"));
  expect(fake.creates).toHaveLength(1);
  second.child.kill("SIGTERM");
  await second.ended;
});

test("while a serve with an engine is away, generate --local waits for it and does not run previews itself", async () => {
  const { fake, machine, flags } = await createScene();
  const first = await serve(machine, ...flags);
  const generating = machine.run("generate", "a fox", "--local", "--interval", "1", "--verbose", "-o", "a.mp4");
  await generating.said("processing");
  // Once it is polled, its id is written down: killed before that, the service would not know whether the engine makes the video.
  await expect.poll(() => [...fake.jobs.values()].some(({ polls }) => polls > 0)).toBe(true);
  first.child.kill("SIGKILL");
  await first.ended;
  await generating.said("ECONNREFUSED");
  await serve(machine, ...flags);
  for (const id of fake.jobs.keys()) fake.complete(id);
  expect(await generating.ended).toMatchObject({ code: 0, stdout: "a.mp4\n" });
  expect(new Uint8Array(readFileSync(join(machine.folder, "a.mp4")))).toEqual(tinyMp4("a fox"));
});

async function createProvider() {
  const fake = createOpenRouter();
  const server = listen({ fetch: fake.fetch, port: 0, hostname: "127.0.0.1" }) as Server;
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const machine = await createMachine();
  const engine = ["--engine", `veo-3.1=openrouter:http://127.0.0.1:${(server.address() as AddressInfo).port}`];
  const fox = ["generate", "a fox", "-m", "veo-3.1", "-o", "a.mp4"];
  /** Resolves once the job is asked for: then its id is written down. */
  const polled = () => expect.poll(() => [...fake.jobs.values()].some(({ polls }) => polls > 0)).toBe(true);
  const complete = () => [...fake.jobs.keys()].forEach(fake.complete);
  return { fake, machine, engine, fox, polled, complete };
}

test("generate --engine that is killed: the same command continues with the same upstream job, one create", async () => {
  const { fake, machine, engine, fox, polled, complete } = await createProvider();
  const killed = machine.run(...fox, ...engine);
  await polled();
  // The client may hear of its id after the engine is asked.
  await killed.said("Queued ");
  killed.child.kill("SIGKILL");
  await killed.ended;
  complete();
  const again = await machine.vidgen(...fox, ...engine);
  expect(again).toMatchObject({ code: 0, stdout: "a.mp4\n", stderr: expect.stringContaining("Resuming ") });
  expect(new Uint8Array(readFileSync(join(machine.folder, "a.mp4")))).toEqual(tinyMp4("a fox"));
  expect(fake.creates).toHaveLength(1);
});

test.skipIf(lacks("signals"))(
  "generate --engine that is interrupted prints a command that goes on with the same job",
  async () => {
    const { fake, machine, engine, fox, polled, complete } = await createProvider();
    const stopped = machine.run(...fox, ...engine);
    await polled();
    stopped.child.kill("SIGINT");
    const { stderr } = await stopped.ended;
    complete();
    const command = /Resume with: .*? (wait .*)$/m.exec(stderr)?.[1]?.replaceAll("'", "").split(" ") ?? [];
    expect(command).toEqual(["wait", expect.any(String), ...engine, "-o", "a.mp4"]);
    expect(await machine.vidgen(...command)).toMatchObject({ code: 0, stdout: "a.mp4\n" });
    expect(fake.creates).toHaveLength(1);
  },
);

test("a serve with other engines is named, and nothing is started there; one with the same is used", async () => {
  const { fake, machine, engine, fox, polled, complete } = await createProvider();
  const previews = await serve(machine);
  const refused = await machine.vidgen(...fox, ...engine);
  expect(refused).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(
      /already running, at .* with preview, not with --engine .*\n {2}Stop it and start `(npx )?vidgen serve --engine .*`, leave out/,
    ),
  });
  expect([fake.creates, existsSync(join(machine.folder, "a.mp4"))]).toEqual([[], false]);
  previews.child.kill("SIGTERM");
  await previews.ended;
  await serve(machine, ...engine);
  const generating = machine.vidgen(...fox, ...engine, "--engine-timeout", "2h");
  await polled();
  complete();
  const stderr = expect.stringContaining("its own --engine-timeout applies");
  expect(await generating).toMatchObject({ code: 0, stdout: "a.mp4\n", stderr });
});

test("generate --local starts nothing with the engine of another command, which may cost money", async () => {
  const { fake, machine, engine, fox, polled, complete } = await createProvider();
  const other = machine.run(...fox, ...engine);
  await polled();
  const refused = await machine.vidgen("generate", "an owl", "-m", "veo-3.1", "--local", "-o", "b.mp4");
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringMatching(/inside another command.*may cost money/) });
  expect(fake.creates).toHaveLength(1);
  complete();
  expect(await other.ended).toMatchObject({ code: 0 });
});
