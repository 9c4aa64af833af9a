import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { serve as listen } from "@hono/node-server";
import { expect, onTestFinished, test, vi } from "vitest";
import { tinyMp4 } from "../mp4.ts";
import { createMachine } from "./machine.ts";

// A package of the AI SDK in the current folder, and the program as it is installed.

const video = tinyMp4("a fox");

/** A provider whose videos are made when the test says so, and its package in the machine's folder. */
async function createScene() {
  const scene = { starts: [] as unknown[], polls: 0, isDone: false };
  const fetch = async (request: Request) => {
    if (request.method === "POST") return Response.json({ id: scene.starts.push(await request.json()) });
    scene.polls++;
    return Response.json(scene.isDone ? { video: Buffer.from(video).toString("base64") } : {});
  };
  const server = listen({ fetch, port: 0, hostname: "127.0.0.1" }) as Server;
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const machine = await createMachine();
  const path = join(machine.folder, "node_modules/made-up");
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "package.json"), `{ "name": "made-up", "type": "module", "exports": "./index.js" }`);
  writeFileSync(join(path, "index.js"), packageFor(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
  const polled = () => expect.poll(() => scene.polls > 0).toBe(true);
  return { scene, machine, polled, engine: ["--engine", "kling-2.6=ai-sdk:made-up#a-model"] };
}

const packageFor = (url: string) => `
  export const VERSION = "1.2.3";
  export const createMadeUp = ({ fetch }) => ({
    videoModel: (id) => ({
      provider: "made-up.video",
      async doStart({ prompt }) {
        const reply = await fetch("${url}/start", { method: "POST", body: JSON.stringify({ id, prompt }) });
        return { operation: await reply.json(), warnings: [] };
      },
      async doStatus({ operation }) {
        const { video } = await (await fetch("${url}/status/" + operation.id)).json();
        if (!video) return { status: "pending" };
        return { status: "completed", videos: [{ type: "base64", data: video, mediaType: "video/mp4" }], warnings: [] };
      },
    }),
  });`;

test("a generate that is killed leaves its video to the same command: one start", async () => {
  const { scene, machine, polled, engine } = await createScene();
  const fox = ["generate", "a fox", "-m", "kling-2.6", "-o", "a.mp4", ...engine];
  const first = machine.run(...fox);
  await polled();
  await first.said("Queued ");
  first.child.kill("SIGKILL");
  await first.ended;
  scene.isDone = true;
  expect(await machine.vidgen(...fox)).toMatchObject({ code: 0, stdout: "a.mp4\n" });
  expect(new Uint8Array(readFileSync(join(machine.folder, "a.mp4")))).toEqual(video);
  expect(scene.starts).toEqual([{ id: "a-model", prompt: "a fox" }]);
});

test("serve and doctor show it, and what to type for one that is missing", async () => {
  const { machine, engine } = await createScene();
  const missing = ["--engine", "seedance=ai-sdk:@vidgen-test/none#x"];
  const running = machine.run("serve", "--port", "0", "--media-port", "0", ...engine, ...missing);
  await running.said("seedance: @vidgen-test/none is not installed here (npm install @vidgen-test/none@latest)");
  await running.said("kling-2.6: made-up (AI SDK 1.2.3)");
  const { stdout } = await machine.vidgen("doctor");
  expect(stdout).toContain("kling-2.6: made-up (AI SDK 1.2.3)");
});

test("an engine that is a setting loads no code of the current folder", async () => {
  const { scene, machine, engine } = await createScene();
  vi.stubEnv("VIDGEN_ENGINE", engine[1]);
  onTestFinished(() => void vi.unstubAllEnvs());
  const fox = await machine.vidgen("generate", "a fox", "-m", "kling-2.6", "-o", "a.mp4");
  expect(fox).toMatchObject({ code: 2, stderr: expect.stringContaining("made-up is not installed here") });
  expect(scene.starts).toEqual([]);
});
