import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { serve } from "@hono/node-server";
import { expect, onTestFinished, test } from "vitest";
import { createFetch } from "../../../../src/client/http/http.ts";
import { systemClock } from "../../../../src/io.ts";
import { createComfyUiEngine } from "../../../../src/server/engines/comfyui/comfyui.ts";
import { readWorkflow } from "../../../../src/server/engines/comfyui/workflow.ts";
import { tinyMp4 } from "../../../mp4.ts";
import { createTestEngine, timeoutMs } from "../videos/run.ts";
import { createComfyUi } from "./fake.ts";
import { withImage, writeWorkflow } from "./run.ts";

/** Waits are shorter than in earnest. */
const clock = { ...systemClock, sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 100, signal) };

async function start() {
  const fake = createComfyUi({ completeAfterMs: 50 });
  let posts = 0;
  const fetch = async (request: Request, { outgoing }: { outgoing: { destroy(): void } }) => {
    const reply = await fake.fetch(request);
    if (new URL(request.url).pathname === "/prompt" && ++posts > 0) outgoing.destroy();
    return reply;
  };
  const server = serve({ fetch: fetch as never, port: 0, hostname: "127.0.0.1" }) as Server;
  await once(server, "listening");
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const workflow = readWorkflow(writeWorkflow(withImage), ["wan-2.5"]);
  const settings = {
    url,
    key: undefined,
    upstreamModel: "wan.json",
    timeoutMs,
    runningPatienceMs: timeoutMs,
    models: ["wan-2.5"],
    concurrency: 16,
  };
  const engine = await createTestEngine(createFetch({}), {
    clock,
    create: (io, onNote) => createComfyUiEngine({ ...settings, workflow, onNote }, io),
  });
  return { ...engine, fake, posts: () => posts };
}

test("over sockets, an image is uploaded, a submit without a reply is looked up, and the video is saved", async () => {
  const { make, fake, folder, posts } = await start();
  const path = join(folder, "0.webp");
  await writeFile(path, new Uint8Array(300_000).fill(7));
  const unset = ["aspectRatio", "duration", "resolution"] as const;
  const images = [{ path, format: "webp" as const, megapixels: 1, name: "the image" }];
  const { outcome, video, checkpoints } = await make({ prompt: 'ein "Fuchs" – 狐', unset, images });
  expect([outcome, video]).toEqual(["made", Buffer.from(tinyMp4(JSON.stringify('ein "Fuchs" – 狐, cinematic')))]);
  expect([posts(), checkpoints]).toEqual([1, ["unconfirmed", fake.runs[0]?.id]]);
  expect([...fake.uploads.values()]).toEqual([Buffer.alloc(300_000, 7)]);
});
