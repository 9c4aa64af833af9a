import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createPreviewEngine } from "../../../../src/server/engines/preview/preview.ts";
import { aFolder, aRequest } from "./requests.ts";

const never = new AbortController().signal;

/** An engine whose worker writes the prompt to its file and then does something. */
function anEngineThat(afterwards: string) {
  const source = `
    import { workerData } from "node:worker_threads";
    import { writeFileSync } from "node:fs";
    writeFileSync(workerData.file, workerData.request.prompt);
    ${afterwards}`;
  return createPreviewEngine(new URL(`data:text/javascript,${encodeURIComponent(source)}`));
}

describe("the preview engine", () => {
  test("leaves the worker's file under the asked name, and nothing else", async () => {
    const folder = aFolder();
    await anEngineThat("").render(aRequest({ prompt: "paper boats" }), join(folder, "clip.mp4"), never);
    expect(readdirSync(folder)).toEqual(["clip.mp4"]);
    expect(readFileSync(join(folder, "clip.mp4"), "utf8")).toBe("paper boats");
  });

  test.each([
    ["throws", `throw new Error("the disk is on fire")`, "the disk is on fire"],
    ["rejects", `await Promise.reject(new Error("the disk is on fire"))`, "the disk is on fire"],
    ["stops early", "process.exit(3)", "code 3"],
  ])("says why and leaves no file when the worker %s", async (_, source, message) => {
    const folder = aFolder();
    const rendering = anEngineThat(source).render(aRequest(), join(folder, "clip.mp4"), never);
    await expect(rendering).rejects.toThrow(message);
    expect(readdirSync(folder)).toEqual([]);
  });

  test("stops the worker and leaves no file when it is aborted half-way", async () => {
    const folder = aFolder();
    const stop = new AbortController();
    const written = new BroadcastChannel(folder);
    const halfWay = new Promise((resolve) => {
      written.onmessage = resolve;
    });
    const engine = anEngineThat(`
      new BroadcastChannel(${JSON.stringify(folder)}).postMessage("half-way");
      setInterval(() => writeFileSync(workerData.file, "more"), 1);`);
    const rendering = engine.render(aRequest(), join(folder, "clip.mp4"), stop.signal);
    await Promise.race([halfWay, rendering]);
    written.close();
    expect(readdirSync(folder)).toEqual(["clip.mp4.part"]);
    const reason = new Error("the generation was cancelled");
    stop.abort(reason);
    await expect(rendering).rejects.toBe(reason);
    expect(readdirSync(folder)).toEqual([]);
    // A worker that was still alive would have written its file again by the time that another one is done.
    await anEngineThat("").render(aRequest(), join(folder, "other.mp4"), never);
    expect(readdirSync(folder)).toEqual(["other.mp4"]);
  });

  test("rejects when it is aborted already", async () => {
    const folder = aFolder();
    const reason = new Error("the generation was cancelled");
    const rendering = anEngineThat("").render(aRequest(), join(folder, "clip.mp4"), AbortSignal.abort(reason));
    await expect(rendering).rejects.toBe(reason);
    expect(readdirSync(folder)).toEqual([]);
  });
});
