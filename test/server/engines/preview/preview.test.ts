import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { RenderOptions } from "../../../../src/server/engines/engine.ts";
import { createPreviewEngine } from "../../../../src/server/engines/preview/preview.ts";
import type { Checkpoint } from "../../../../src/server/store/generations.ts";
import { makeFolder } from "../../../folder.ts";
import { pngOf, readPng, squaresWebp } from "../../queue/pictures.ts";
import { readMovie } from "./mp4.ts";
import { anImage, aTask } from "./requests.ts";

/** What a render is told and tells, but for what is given. */
function anOffer(changes: Partial<RenderOptions> = {}): RenderOptions {
  const signal = new AbortController().signal;
  return { resume: undefined, checkpoint: async () => {}, confirm() {}, progress: () => {}, signal, ...changes };
}

/** An engine whose worker writes the prompt to its file and then does something. */
function anEngineThat(afterwards: string) {
  const source = `
    import { parentPort, threadId } from "node:worker_threads";
    import { appendFileSync, writeFileSync } from "node:fs";
    parentPort.on("message", async (task) => {
      writeFileSync(task.file, task.request.prompt);
      writeFileSync(task.thumbnail, task.images.map(({ name }) => name).join());
      ${afterwards}
      parentPort.postMessage("done");
    });`;
  return createPreviewEngine({ workerUrl: new URL(`data:text/javascript,${encodeURIComponent(source)}`) });
}

describe("the preview engine", () => {
  test("leaves the worker's files under the asked names, and nothing else", async () => {
    const folder = makeFolder();
    await anEngineThat("").render(aTask({ prompt: "paper boats" }, [new Uint8Array([1, 2])], folder), anOffer());
    expect(readdirSync(folder)).toEqual(["clip.mp4", "clip.png"]);
    expect(readFileSync(join(folder, "clip.mp4"), "utf8")).toBe("paper boats");
    expect(readFileSync(join(folder, "clip.png"), "utf8")).toBe("the image at https://images.example/1");
  });

  test.each([
    ["throws", `throw new Error("the disk is on fire")`, "the disk is on fire"],
    ["rejects", `await Promise.reject(new Error("the disk is on fire"))`, "the disk is on fire"],
    ["stops early", "process.exit(3)", "code 3"],
  ])("says why and leaves no file when the worker %s", async (_, source, message) => {
    const folder = makeFolder();
    const rendering = anEngineThat(source).render(aTask({}, [], folder), anOffer());
    await expect(rendering).rejects.toThrow(message);
    expect(readdirSync(folder)).toEqual([]);
  });

  test("rejects with the reason even if a file cannot be removed", async () => {
    const source = `
      const { mkdirSync, rmSync } = await import("node:fs");
      rmSync(task.thumbnail);
      mkdirSync(task.thumbnail);
      throw new Error("the disk is on fire");`;
    await expect(anEngineThat(source).render(aTask({}), anOffer())).rejects.toThrow("the disk is on fire");
  });

  test("keeps a thread for the next clip, unless it had images or failed", async () => {
    const engine = anEngineThat(`
      writeFileSync(task.file, String(threadId));
      if (task.request.prompt === "fail") throw new Error("the disk is on fire");`);
    const threadOf = async (prompt: string, images: Uint8Array[] = []) => {
      const task = aTask({ prompt }, images);
      await engine.render(task, anOffer());
      return readFileSync(task.file, "utf8");
    };
    const first = await threadOf("a fox");
    expect(await threadOf("an owl")).toBe(first);
    const [beside, other] = await Promise.all([threadOf("a hare"), threadOf("a bear")]);
    expect(new Set([first, beside, other]).size).toBe(2);
    await expect(threadOf("fail")).rejects.toThrow("on fire");
    const pictured = await threadOf("an eel", [new Uint8Array([1, 2])]);
    expect(await threadOf("a crow")).not.toBe(pictured);
    const withReference = { ...aTask({ prompt: "a hen" }), references: [anImage(new Uint8Array([1, 2]))] };
    await engine.render(withReference, anOffer());
    expect(await threadOf("a jay")).not.toBe(readFileSync(withReference.file, "utf8"));
  });

  test("stops the worker and leaves no file when it is aborted half-way", async () => {
    const folder = makeFolder();
    const stop = new AbortController();
    const written = new BroadcastChannel(folder);
    const halfWay = new Promise((resolve) => {
      written.onmessage = resolve;
    });
    const engine = anEngineThat(`
      new BroadcastChannel(${JSON.stringify(folder)}).postMessage("half-way");
      setInterval(() => writeFileSync(task.file, "more"), 1);
      await new Promise(() => {});`);
    const rendering = engine.render(aTask({}, [], folder), anOffer({ signal: stop.signal }));
    await Promise.race([halfWay, rendering]);
    written.close();
    expect(readdirSync(folder)).toEqual(["clip.mp4", "clip.png"]);
    const reason = new Error("the generation was cancelled");
    stop.abort(reason);
    await expect(rendering).rejects.toBe(reason);
    expect(readdirSync(folder)).toEqual([]);
    // A worker that was still alive would have written its file again by the time that another one is done.
    mkdirSync(join(folder, "other"));
    await anEngineThat("").render(aTask({}, [], join(folder, "other")), anOffer());
    expect(readdirSync(folder)).toEqual(["other"]);
  });

  test("decodes one large image at a time, with small ones beside it", async () => {
    const log = join(makeFolder(), "log");
    const channel = new BroadcastChannel(log);
    const engine = anEngineThat(`
      const { prompt: log, model } = task.request;
      appendFileSync(log, "begin " + model + ",");
      if (model === "large 1") {
        const channel = new BroadcastChannel(log);
        await new Promise((resolve) => { channel.onmessage = resolve; });
        channel.close();
      }
      appendFileSync(log, "end " + model + ",");`);
    const render = (model: string, side: number) => {
      const image = anImage(pngOf(side, side, new Uint8Array()));
      const images = model === "large 2" ? { references: [image] } : { images: [image] };
      return engine.render({ ...aTask({ prompt: log, model }), ...images }, anOffer());
    };
    const rendering = [render("large 1", 5_500), render("small", 1_000), render("large 2", 5_500)];
    await rendering[1];
    // A worker for the second large image would have begun by the time that a later worker has ended.
    await anEngineThat("").render(aTask(), anOffer());
    await expect.poll(() => readFileSync(log, "utf8")).toContain("begin large 1,");
    channel.postMessage("go on");
    await Promise.all(rendering);
    channel.close();
    expect(readFileSync(log, "utf8")).toMatch(/end large 1,begin large 2,end large 2,$/);
  });

  test("rejects when it is aborted already", async () => {
    const folder = makeFolder();
    const reason = new Error("the generation was cancelled");
    const rendering = anEngineThat("").render(aTask({}, [], folder), anOffer({ signal: AbortSignal.abort(reason) }));
    await expect(rendering).rejects.toBe(reason);
    expect(readdirSync(folder)).toEqual([]);
  });

  test("fails when its process has ended three times during it, and leaves no file; an abort does not count", async () => {
    const task = aTask();
    let kept: RenderOptions["resume"];
    const checkpoint = async (state: Checkpoint | null) => {
      if (state?.state === "rendering") kept = state;
    };
    const render = (source: string, signal = new AbortController().signal) =>
      anEngineThat(source).render(task, anOffer({ resume: kept, checkpoint, signal }));
    for (let aborted = 0; aborted < 5; aborted++)
      await expect(render("", AbortSignal.abort(new Error("the service is stopping")))).rejects.toThrow("stopping");
    expect(kept).toEqual({ state: "rendering", tries: 0 });
    // Nothing follows the checkpoint of a process that is killed.
    for (let killed = 0; killed < 3; killed++) await render("");
    expect(kept).toEqual({ state: "rendering", tries: 3 });
    await expect(render("")).rejects.toThrow("the local service ended 3 times while it rendered this video");
    expect([existsSync(task.file), existsSync(task.thumbnail)]).toEqual([false, false]);
  });

  const built = new URL("../../../../dist/worker.cjs", import.meta.url);

  test("in the build, renders an image to a clip and a thumbnail", async () => {
    const task = aTask({ duration: 0.1 }, [squaresWebp]);
    await createPreviewEngine({ workerUrl: built }).render(task, anOffer());
    expect(readMovie(task.file).frames).toBe(1);
    expect(readPng(readFileSync(task.thumbnail))).toMatchObject({ width: 427, height: 240 });
  });

  test("in the build, says which image is broken and leaves nothing", async () => {
    const folder = makeFolder();
    const task = aTask({}, [squaresWebp.subarray(0, 50)], folder);
    await expect(createPreviewEngine({ workerUrl: built }).render(task, anOffer())).rejects.toThrow(
      "the image at https://images.example/1 cannot be decoded",
    );
    expect(readdirSync(folder)).toEqual([]);
  });
});
