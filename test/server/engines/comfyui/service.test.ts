import { describe, expect, onTestFinished, test } from "vitest";
import { createComfyUiEngine } from "../../../../src/server/engines/comfyui/comfyui.ts";
import { readWorkflow } from "../../../../src/server/engines/comfyui/workflow.ts";
import { openStore } from "../../../../src/server/store/sqlite/sqlite-store.ts";
import { apiKey, baseUrl, bearer, createTestService } from "../../service.ts";
import { ioFetch } from "../videos/fakes/fake.ts";
import { engineUrl, timeoutMs } from "../videos/run.ts";
import { type ComfyUiOptions, createComfyUi } from "./fake.ts";
import { withImage, workflow, writeWorkflow } from "./run.ts";

// The whole service over a ComfyUI server: its process is killed while a submit is out, and another one goes on.

const imageUrl = "https://images.example/a.png";

async function createScene(fault: NonNullable<ComfyUiOptions["fault"]>) {
  const store = await openStore(":memory:");
  onTestFinished(store.close);
  const workflow = readWorkflow(writeWorkflow(withImage), ["sora-2"]);
  let now = () => 0;
  const fake = createComfyUi({ now: () => now(), fault });
  const open = async (folder?: string) => {
    const service = await createTestService({
      store,
      ...(folder !== undefined && { folder }),
      engines(clock) {
        now = clock.now;
        const server = {
          url: engineUrl,
          key: undefined,
          upstreamModel: "wan.json",
          timeoutMs,
          runningPatienceMs: timeoutMs,
          onNote: () => {},
        };
        const io = { ...clock, fetch: ioFetch(fake), open: () => Promise.reject(new Error("unused")) };
        return [createComfyUiEngine({ ...server, workflow, models: ["sora-2"], concurrency: 4 }, io)];
      },
    });
    const status = async (id: string) => (await service.status(id)).json();
    return { ...service, status };
  };
  return { fake, open };
}

const fields = { imageUrl, duration: undefined };

test.each([
  ["was taken is followed", true],
  ["was not taken is submitted again, with its image", false],
])("a submit that %s: one run", async (_, isTaken) => {
  let submits = 0;
  const { fake, open } = await createScene(({ route, serve }) => {
    if (route !== "POST /prompt" || submits++ > 0) return undefined;
    return (isTaken ? serve() : Promise.resolve()).then(() => new Promise<never>(() => {}));
  });
  const first = await open();
  const id = await first.startId(fields);
  await expect.poll(async () => (await first.store.generation(id))?.checkpoint?.state).toBe("unconfirmed");
  await expect.poll(() => submits).toBe(1);
  first.kill();
  const second = await open(first.folder);
  expect(await second.status(id)).toMatchObject({ status: "processing" });
  await second.clock.sleep(10 * 60_000);
  expect(await second.status(id)).toMatchObject({ status: "completed" });
  expect([fake.runs.length, submits, second.troubles]).toEqual([1, isTaken ? 1 : 2, []]);
  expect(fake.runs[0]?.graph["10"]?.inputs.image).toBe([...fake.uploads.keys()][0]);
});

test("an unclear submission of a live process is looked up, and sent again if it was not accepted", async () => {
  let submits = 0;
  const { fake, open } = await createScene(({ route }) =>
    route === "POST /prompt" && submits++ === 0 ? "drop" : undefined,
  );
  const service = await open();
  const id = await service.startId(fields);
  await service.clock.sleep(10 * 60_000);
  expect(await service.status(id)).toMatchObject({ status: "completed" });
  expect([fake.runs.length, submits]).toEqual([1, 2]);
});

/** A service whose engines run these workflows, each on a ComfyUI of its own. */
async function openWorkflows(...graphs: object[]) {
  let now = () => 0;
  const fakes = graphs.map(() => createComfyUi({ now: () => now() }));
  const asked: string[] = [];
  const service = await createTestService({
    engines(clock) {
      now = clock.now;
      return graphs.map((graph, index) => {
        const url = `http://gpu-${index}.test:8188`;
        const fetch = ioFetch({
          fetch(request: Request) {
            asked.push(`${request.method} ${new URL(request.url).pathname}`);
            return fakes[index]?.fetch(request) ?? Promise.reject(new Error("no such engine"));
          },
        });
        const workflow = readWorkflow(writeWorkflow(graph), ["wan-2.5"]);
        const limits = { timeoutMs, runningPatienceMs: timeoutMs, concurrency: 1, onNote: () => {} };
        const own = { url, key: undefined, upstreamModel: `${index}.json`, workflow, models: ["wan-2.5"] };
        return createComfyUiEngine(
          { ...own, ...limits },
          { ...clock, fetch, open: () => Promise.reject(new Error("unused")) },
        );
      });
    },
  });
  const post = async (path: string, body: object) => {
    const headers = { ...bearer(apiKey), "Content-Type": "application/json" };
    const json = JSON.stringify({ model: "wan-2.5", prompt: "a fox", ...body });
    const reply = await service.api(new Request(`${baseUrl}${path}`, { method: "POST", headers, body: json }));
    return { status: reply.status, body: await reply.json() };
  };
  return { ...service, fakes, asked, post };
}

const fixed = workflow(
  {},
  {
    "10": { class_type: "Latent", inputs: { width: 832, height: 480, length: 81 } },
    "11": { class_type: "CreateVideo", inputs: { fps: 16 } },
  },
);

describe("a request that does not fit the workflow is refused before it is charged", () => {
  test.each<[string, object, object, string]>([
    ["/api/generate", workflow(), { imageUrl }, "wan-2.5 takes no image here: its workflow has no {{image}}"],
    [
      "/v1/videos",
      workflow(),
      { input_reference: imageUrl },
      "wan-2.5 takes no image here: its workflow has no {{image}}",
    ],
    [
      "/api/generate",
      workflow(),
      { duration: 9 },
      "the workflow has no {{duration}} for duration: add it to the workflow, or leave duration out",
    ],
    ["/v1/videos", workflow(), { seconds: "9" }, "no {{duration}} for seconds"],
    ["/api/generate", workflow(), { resolution: "720p" }, "no {{width}} and no {{height}} for resolution"],
    ["/api/generate", workflow(), { aspectRatio: "9:16" }, "no {{width}} and no {{height}} for aspectRatio"],
    ["/api/generate", workflow({ a: "{{width}}" }), { size: "640x384" }, "no {{height}} for size"],
    ["/v1/videos", workflow(), { size: "1280x720" }, "no {{width}} and no {{height}} for size"],
    ["/api/generate", workflow(), { guidance_scale: 4 }, "no {{guidance_scale}} for guidance_scale"],
    ["/v1/videos", workflow(), { num_frames: 41 }, "no {{frames}} for num_frames"],
    ["/api/generate", workflow({ a: "{{fps}}" }), {}, "needs a value for {{fps}}: send fps, or write a default"],
    ["/v1/videos", withImage, {}, "needs a value for {{image}}: send input_reference"],
    ["/api/generate", fixed, { duration: 4 }, "no {{duration}} for duration"],
    ["/v1/videos", fixed, { size: "480x832" }, "no {{width}} and no {{height}} for size"],
    [
      "/v1/videos",
      { ...fixed, "12": { class_type: "Upscale", inputs: { width: 1664, height: 960 } } },
      { size: "832x480" },
      "no {{width}} and no {{height}} for size",
    ],
  ])("%s, %#", async (path, graph, body, words) => {
    const { post, asked, store } = await openWorkflows(graph);
    const { status, body: reply } = await post(path, body);
    expect([status, JSON.stringify(reply)]).toEqual([400, expect.stringContaining(words)]);
    // The credits that both accounts begin with.
    expect([(await store.ledger({ limit: 10 })).length, asked]).toEqual([2, []]);
  });

  test.each([
    ["/api/generate", { duration: 5, size: "832x480" }],
    ["/v1/videos", { seconds: "5", size: "832x480" }],
  ])("but not for the size and the length that it makes anyway: %s", async (path, body) => {
    const { post, fakes, clock } = await openWorkflows(fixed);
    expect(await post(path, body)).toMatchObject({ status: 200 });
    await clock.sleep(60_000);
    expect(fakes.map(({ runs }) => runs.length)).toEqual([1]);
  });

  test("and if one engine of several takes it all, only that one gets it", async () => {
    const { post, fakes, clock, store } = await openWorkflows(
      workflow(),
      workflow({ a: "{{duration}}" }),
      workflow({ a: "{{fps}}" }),
    );
    for (let count = 0; count < 4; count++)
      expect(await post("/api/generate", { duration: 9 })).toMatchObject({ status: 200 });
    await clock.sleep(10 * 60_000);
    expect(fakes.map(({ runs }) => runs.length)).toEqual([0, 4, 0]);
    expect(await store.waiting({ except: [], ids: undefined })).toEqual([]);
  });
});
