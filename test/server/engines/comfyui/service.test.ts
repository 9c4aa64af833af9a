import { expect, onTestFinished, test } from "vitest";
import { createComfyUiEngine } from "../../../../src/server/engines/comfyui/comfyui.ts";
import { readWorkflow } from "../../../../src/server/engines/comfyui/workflow.ts";
import { openStore } from "../../../../src/server/store/sqlite/sqlite-store.ts";
import { createTestService } from "../../service.ts";
import { ioFetch } from "../videos/fakes/fake.ts";
import { engineUrl, timeoutMs } from "../videos/run.ts";
import { type ComfyUiOptions, createComfyUi } from "./fake.ts";
import { withImage, writeWorkflow } from "./run.ts";

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
