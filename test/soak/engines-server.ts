import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type HttpBindings, serve } from "@hono/node-server";
import type { Fake, FakeOptions } from "../server/engines/videos/fakes/fake.ts";
import { fakes, type KindId, model, promptIn } from "./engines-network.ts";
import { writeWorkflow } from "./engines-others.ts";

/** A create that arrived, by the engine's own clock: `performance.now()`. */
export type Arrived = { prompt: string; arrivedAtMs: number; answeredAtMs?: number };

/** A fake of a kind that listens on loopback. */
export type EngineServer = {
  fake: Fake;
  /** For `vidgen serve`. */
  flags: string[];
  /** Creates in the order in which they came, also those whose body broke off. */
  arrived: Arrived[];
  /** What it is answering at the moment. */
  answering: { creates: number; downloads: number };
  close(): Promise<void>;
};

/** `folder` is for the workflow of ComfyUI, which no engine without one can be. */
export async function listenAsEngine(kind: KindId, options: FakeOptions, folder?: string): Promise<EngineServer> {
  const fake = fakes[kind](options);
  const arrived: Arrived[] = [];
  const answering = { creates: 0, downloads: 0 };
  const note = async (request: Request, { outgoing }: HttpBindings) => {
    const isCreate = request.method === "POST";
    if (!isCreate && !/\/(content|view\?.*)$/.test(request.url)) return;
    const what = isCreate ? "creates" : "downloads";
    answering[what]++;
    outgoing.once("close", () => answering[what]--);
    if (!isCreate) return;
    const arrivedAtMs = performance.now();
    const entry: Arrived = { prompt: promptIn(await request.clone().text()), arrivedAtMs };
    arrived.push(entry);
    outgoing.once("finish", () => {
      entry.answeredAtMs = performance.now();
    });
  };
  const fetch = async (request: Request, bindings: unknown) => {
    await note(request, bindings as HttpBindings).catch(() => {});
    return fake.fetch(request, bindings).catch((error) => new Response(`the fake broke: ${error}`, { status: 500 }));
  };
  const server = serve({ fetch, port: 0, hostname: "127.0.0.1" }) as Server;
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const isComfyUi = kind === "comfyui" && folder !== undefined;
  return {
    fake,
    arrived,
    answering,
    flags: ["--engine", `${model}=${isComfyUi ? `comfyui:${url}#${writeWorkflow(folder)}` : url}`],
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
